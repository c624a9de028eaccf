//! The rule language: parse a policy file, judge an action, explain the verdict, offer the narrowest
//! rules that would unblock it.
//!
//! Pure: no IO, no clock. Deny by default: an empty policy reaches nothing. Layers, narrow wins:
//! floor (never amendable) < profile < project file < order < amendments; a denial beats an allowing
//! rule of any layer, and the floor beats everything. Names are decided on the name the cage looked
//! up; a bare address never inherits a name's rule.

mod rule;

pub use rule::{
    Access, Bounds, Denial, EgressRule, HostPattern, Layer, Origin, PathRule, Policy, RuleId, Use,
};
