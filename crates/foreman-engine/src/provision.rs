//! Making a run ready: a small saga, step by step, each with an undo.
//!
//! The run's own log is the saga's record: a step is written down before it is begun, in the words that
//! the operator reads in the feed. An engine that dies in between leaves a run without a supervisor; the
//! next one takes back the steps that were begun and does all of them anew (`abandoned`). Every step may be done twice
//! and every undo may be repeated: both look at what is there. Starting the supervisor is the last step
//! and the point of no return; until then nothing of the order has run, so what a failed preparation made
//! is taken back without a trace, and the run may be tried again.

mod abandoned;
mod base;
pub(crate) mod copying;
mod fetching;
mod follow_up;
pub(crate) mod project;
mod retry;
mod steps;
#[cfg(test)]
mod tests;
mod undo;

pub(crate) use base::Fetches;
pub(crate) use follow_up::{FOLLOW_UP, check_message};
pub(crate) use steps::{Plan, Provisioning};

use foreman_domain::Failure;

/// A step of making a run ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Asking the remote of the base branch, and choosing the commit to start from.
    Base,
    /// Looking whether the checkout fits on the disk.
    Room,
    /// The worktree, its branch, its registration; proven equal to the base commit.
    Worktree,
    /// Files of submodules.
    Submodules,
    /// Files of the operator's checkout that were asked for.
    Copies,
    /// The run's own git directory, and who owns all of it.
    Shadow,
    /// The supervisor.
    Launch,
}

impl Step {
    /// In the order in which they are done.
    pub const ALL: [Self; 7] = [
        Self::Base,
        Self::Room,
        Self::Worktree,
        Self::Submodules,
        Self::Copies,
        Self::Shadow,
        Self::Launch,
    ];

    /// The stable word of its progress in the log.
    pub fn word(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Room => "room",
            Self::Worktree => "worktree",
            Self::Submodules => "submodules",
            Self::Copies => "copies",
            Self::Shadow => "shadow",
            Self::Launch => "cage",
        }
    }

    /// The step with this word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|step| step.word() == word)
    }
}

/// Why a saga did not come to its end.
#[derive(Debug)]
pub(crate) enum Cut {
    /// A step failed.
    Failed(Failure),
    /// The operator asked to stop.
    Stopped,
}

impl From<Failure> for Cut {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// When a [`Probe`] is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// A step is written down and not begun.
    Before,
    /// It did all it does.
    After,
}

/// Asked around every step; what it answers is taken for the step's own failure. Always well outside of
/// tests.
pub(crate) type Probe<'a> = &'a (dyn Fn(Step, Moment) -> Result<(), Failure> + Send + Sync);

/// Steps that can be done and undone.
pub(crate) trait Saga {
    /// Writes down that a step begins, unless it is to stop here.
    async fn begin(&mut self, step: Step) -> Result<(), Cut>;
    /// Does a step, also where it was done before.
    async fn apply(&mut self, step: Step) -> Result<(), Cut>;
    /// Takes a step back, also where it was never done.
    async fn undo(&mut self, step: Step);
}

/// Does all steps in order; when one fails, takes back what was begun, newest first.
pub(crate) async fn run_steps(saga: &mut impl Saga, probe: Probe<'_>) -> Result<(), Cut> {
    for (index, step) in Step::ALL.into_iter().enumerate() {
        let done = async {
            saga.begin(step).await?;
            probe(step, Moment::Before)?;
            saga.apply(step).await?;
            probe(step, Moment::After)?;
            Ok(())
        };
        if let Err(cut) = done.await {
            for begun in Step::ALL.into_iter().take(index + 1).rev() {
                saga.undo(begun).await;
            }
            return Err(cut);
        }
    }
    Ok(())
}
