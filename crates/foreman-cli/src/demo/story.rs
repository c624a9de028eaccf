//! What the demo says while the run happens: what the reader sees, and why.

use super::NAME;
use foreman_domain::{AmendmentState, BlockState, Decision, Event, EventKind, StepKind};

/// The demo's title.
pub const BEGINNING_TITLE: &str = "Foreman demo: one caged run, from start to merge";

/// Said before anything happens.
pub const BEGINNING: &str = "This demo hands a small work order to a canned agent. It needs no model \
and no network: the one host that the agent will reach for is served by the demo itself, in a private \
namespace. Everything else is what a real run gets: its own git worktree, a cage, and no rule that \
lets anything out.";

/// Said before the diff.
pub const REVIEW: &str = "The run is over and nothing has reached your branch yet. This is what the \
agent did.";

/// Tells the story of one run, event by event.
#[derive(Debug)]
pub struct Story {
    is_attended: bool,
    was_held: bool,
}

impl Story {
    /// `is_attended` when somebody is there to press keys.
    #[must_use]
    pub fn new(is_attended: bool) -> Self {
        Self {
            is_attended,
            was_held: false,
        }
    }

    /// What to say before this event is shown.
    pub fn tell(&mut self, event: &Event) -> Option<String> {
        let text = match &event.kind {
            EventKind::StepStarted { what: StepKind::Agent, .. } => {
                "The agent starts now. It works in a worktree of its own, sees the system read-only, \
                 and none of your files. Lines behind the bar are what it prints."
                    .to_owned()
            }
            EventKind::Block { block } if block.state == BlockState::Open && !self.was_held => {
                self.was_held = true;
                let key = match self.is_attended {
                    true => " Read the card below, then press a to let it go on.",
                    false => "",
                };
                format!(
                    "The agent reached for {NAME}, and no rule allows that. It did not fail: the \
                     connection waits, and nothing has left the cage, not even the name.{key}"
                )
            }
            EventKind::PolicyApplied { released: 1.., .. } => {
                "The very connection that waited goes on now. The agent saw a slow connect, no \
                 error, and needs no restart. The rule ends with this run."
                    .to_owned()
            }
            EventKind::Amendment { amendment }
                if amendment.state == AmendmentState::Active
                    && matches!(amendment.decision, Decision::Deny { .. }) =>
            {
                "You denied it: the connection is refused at once, as if nobody listened there, and \
                 the agent can ask why."
                    .to_owned()
            }
            EventKind::Commits { finished_by_us: true, .. } => {
                "The agent had left a change uncommitted. It was committed, so that nothing is missed."
                    .to_owned()
            }
            _ => return None,
        };
        Some(format!("» {text}"))
    }
}
