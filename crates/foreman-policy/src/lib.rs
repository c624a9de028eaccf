//! The rule language: parse a policy file, judge an action, explain the verdict, offer the narrowest
//! rules that would unblock it.
//!
//! Pure: no IO, no clock. Deny by default: an empty policy reaches nothing. Layers, narrow wins:
//! floor (never amendable) < profile < project file < order < amendments; a denial beats an allowing
//! rule of any layer, and the floor beats everything. Names are decided on the name the cage looked
//! up; a bare address never inherits a name's rule.
//!
//! Every text that comes in (policy files, `--allow`, names from the cage) is hostile: it is bounded,
//! refused with a sentence, and made safe to show before it is quoted. Nothing here panics on it.
//!
//! What this crate is not: it resolves no names and opens no files. Whoever does must ask again with
//! what was found ([`classify`], [`Subject::Egress::resolved`](foreman_domain::Subject), and
//! [`path_floor`] on the canonical path).

mod address;
mod destination;
mod error;
mod file;
mod floor;
mod host;
mod judge;
mod key;
mod offer;
mod own_machine;
mod path_floor;
mod quantity;
mod render;
mod rule;
mod secret;
mod socket_floor;
mod toolchain;

pub use address::{AddressClass, classify};
pub use destination::{parse_allow, parse_destination};
pub use error::PolicyError;
pub use file::{PolicyFile, parse_bounds, parse_policy};
pub use floor::{port_floor, subject_floor};
pub use host::{HostError, canonical_host};
pub use judge::{Explained, Opening, Question, Ruling, Verdict};
pub use key::{KeyPlace, KeyUse, parse_key_use};
pub use offer::{Ground, Offer, offers};
pub use own_machine::{THIS_MACHINE, is_this_machine, port_gives_away};
pub use path_floor::{file_floor, path_floor, write_floor};
pub use quantity::{
    bytes_in_words, duration_in_words, figure_in_words, microusd_in_words, millicores_in_words,
    parse_bytes, parse_duration, parse_microusd, parse_tokens, tokens_in_words,
};
pub use render::{append_rule, render_egress, render_path, render_socket};
pub use rule::{
    Access, BoundRule, Bounds, Denial, EgressRule, HostPattern, Layer, Origin, PathRule, Policy,
    QuestionRule, Rule, RuleId, SocketRule, Use,
};
pub use secret::{SecretUse, is_secret_name, parse_secret_use};
pub use socket_floor::{socket_floor, socket_gives_away};
pub use toolchain::{Toolchain, parse_toolchains};
