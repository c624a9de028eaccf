//! How an agent ended, from what its messages showed and how its process ended.

use foreman_domain::{AgentOutcome, StepResult};

/// What is known so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// It said that it came to its end.
    pub ended: bool,
    /// What keeps it from its work at the moment, and why.
    pub failing: Option<(AgentOutcome, String)>,
    /// Actions that its own rules, or an answer, denied.
    pub denials: u32,
    /// It was asked to stop.
    pub interrupted: bool,
    /// Its model made no progress, and it was stopped for that: why, as a sentence.
    pub stalled: Option<String>,
}

impl Standing {
    /// The outcome. The exit code plays no part: agents end with 0 whatever happened to them.
    #[must_use]
    pub fn outcome(&self, process: &StepResult) -> (AgentOutcome, String) {
        let nothing = String::new();
        // One that came to its end in that very moment did come to its end.
        let is_done = self.ended && self.failing.is_none();
        if let Some(why) = self.stalled.as_ref().filter(|_| !is_done) {
            return (AgentOutcome::ModelUnreachable, why.clone());
        }
        if self.interrupted && !(is_done && self.stalled.is_some()) {
            return match process {
                StepResult::Signalled { signal: 9 } => (AgentOutcome::Killed, nothing),
                _ => (AgentOutcome::Cancelled, nothing),
            };
        }
        match process {
            StepResult::Signalled { signal } => {
                return (AgentOutcome::Killed, format!("signal {signal}"));
            }
            StepResult::Stopped { why } => return (AgentOutcome::Killed, why.clone()),
            StepResult::NotStarted { why } | StepResult::Skipped { why } => {
                return (AgentOutcome::Lost, why.clone());
            }
            StepResult::Succeeded | StepResult::Exited { .. } | StepResult::Reported { .. } => {}
        }
        match (&self.failing, self.ended) {
            (Some((outcome, why)), _) => (*outcome, why.clone()),
            (None, true) if self.denials > 0 => (
                AgentOutcome::CompletedWithDenials,
                format!("{} of its actions denied", self.denials),
            ),
            (None, true) => (AgentOutcome::Completed, nothing),
            (None, false) => (
                AgentOutcome::Lost,
                "it ended without its closing message".to_owned(),
            ),
        }
    }
}

/// What a failed call of the model means, from the HTTP status that the agent passes on.
pub(crate) fn of_status(status: Option<u64>) -> AgentOutcome {
    match status {
        Some(401 | 403) => AgentOutcome::AuthenticationFailed,
        Some(408 | 429) => AgentOutcome::ModelUnreachable,
        Some(400..=499) => AgentOutcome::AgentError,
        _ => AgentOutcome::ModelUnreachable,
    }
}

/// True for the HTTP status by which a provider says that it is too much for now.
pub(crate) fn is_a_limit(status: Option<u64>) -> bool {
    status == Some(429)
}

/// What a refused request of ours means: without a status of the model's provider, it is the agent's.
pub(crate) fn of_refusal(status: Option<u64>) -> AgentOutcome {
    match status {
        None => AgentOutcome::AgentError,
        status => of_status(status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(ended: bool) -> Standing {
        Standing {
            ended,
            ..Standing::default()
        }
    }

    #[test]
    fn the_exit_code_decides_nothing() {
        for process in [StepResult::Succeeded, StepResult::Exited { code: 7 }] {
            assert_eq!(standing(true).outcome(&process).0, AgentOutcome::Completed);
            assert_eq!(standing(false).outcome(&process).0, AgentOutcome::Lost);
        }
    }

    #[test]
    fn a_failure_that_was_not_got_over_is_the_outcome_and_denials_are_no_plain_success() {
        let failing = Standing {
            failing: Some((AgentOutcome::ModelUnreachable, "x".into())),
            ..standing(true)
        };
        let told = failing.outcome(&StepResult::Succeeded);
        assert_eq!(told, (AgentOutcome::ModelUnreachable, "x".into()));
        let denied = Standing {
            denials: 2,
            ..standing(true)
        };
        assert_eq!(
            denied.outcome(&StepResult::Succeeded).0,
            AgentOutcome::CompletedWithDenials
        );
    }

    #[test]
    fn a_model_that_made_no_progress_is_the_outcome_whatever_the_stop_looked_like() {
        let stalled = Standing {
            interrupted: true,
            stalled: Some("nothing for 10 minutes".into()),
            ..standing(false)
        };
        for process in [StepResult::Succeeded, StepResult::Signalled { signal: 9 }] {
            let told = stalled.outcome(&process);
            let wanted = (
                AgentOutcome::ModelUnreachable,
                "nothing for 10 minutes".into(),
            );
            assert_eq!(told, wanted);
        }
        let cancelled = Standing {
            failing: Some((AgentOutcome::Cancelled, "x".into())),
            ended: true,
            ..stalled.clone()
        };
        let told = cancelled.outcome(&StepResult::Succeeded).0;
        assert_eq!(told, AgentOutcome::ModelUnreachable);
        let just_done = Standing {
            ended: true,
            ..stalled
        };
        let told = just_done.outcome(&StepResult::Succeeded).0;
        assert_eq!(told, AgentOutcome::Completed);
    }

    #[test]
    fn what_ended_it_from_outside_comes_before_what_it_said() {
        let signalled = StepResult::Signalled { signal: 15 };
        assert_eq!(standing(true).outcome(&signalled).0, AgentOutcome::Killed);
        let asked = Standing {
            interrupted: true,
            ..standing(false)
        };
        assert_eq!(
            asked.outcome(&StepResult::Succeeded).0,
            AgentOutcome::Cancelled
        );
        assert_eq!(asked.outcome(&signalled).0, AgentOutcome::Cancelled);
        let killed = StepResult::Signalled { signal: 9 };
        assert_eq!(asked.outcome(&killed).0, AgentOutcome::Killed);
    }
}
