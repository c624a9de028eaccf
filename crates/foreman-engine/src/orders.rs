//! Orders: handed in, kept, dispatched when their turn comes, followed to their end.
//!
//! - An order is recorded whole or not at all; whatever can be said against it is said then, with its
//!   place where it came from a file.
//! - Which one starts is decided by the scheduler, a pure function; here it is told what is
//!   (`snapshot`), and what it decides is carried out (`tick`), by whichever engine stays up. One order
//!   that cannot be started is shown as such, and stops no other.
//! - An order has one live run, refused a second by the transaction that records it. A decision that an
//!   engine did not live to carry out is neither lost nor carried out twice.
//! - What becomes of an order follows from its run (`outcomes`) and can be found out again at any time.
//!   Only what cannot have changed anything is tried again by itself.
//!
//! It does not know how a run is made or ends.

mod add;
mod change;
mod check;
pub(crate) mod drift;
mod file;
mod limits;
mod outcomes;
mod queue;
mod read;
mod record;
mod section;
mod slots;
mod snapshot;
mod tick;
mod toml_tree;
mod tree;
mod trust;
mod view;
mod watch;
mod yaml_tree;

pub(crate) use check::PROMPT_VARIABLE;
pub(crate) use queue::Queue;
pub(crate) use record::{place_prompt, with_prompt};
pub(crate) use tick::keep_dispatching;
pub(crate) use watch::keep_watching;
