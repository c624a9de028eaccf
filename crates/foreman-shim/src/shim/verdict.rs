//! How a run ended, from how its steps ended.

use super::feed::Feed;
use super::plan::PlanResult;
use crate::protocol::{RunSpec, StepSpec};
use foreman_cage::LaunchError;
use foreman_domain::{
    Breach, CancelCause, EventKind, FailReason, Outcome, StepKind, StepName, StepResult,
};
use std::path::Path;

/// How a run ended, for its exit record.
pub(super) struct End {
    pub(super) steps: Vec<(StepName, StepKind, StepResult)>,
    pub(super) verdict: Option<Outcome>,
    pub(super) head: Option<String>,
    pub(super) killed: u32,
    /// The bound that ended a step.
    pub(super) breach: Option<Breach>,
}

impl End {
    pub(super) fn nothing_ran(spec: &RunSpec, reason: FailReason, killed: u32) -> Self {
        let why = match &reason {
            FailReason::Wall { message } | FailReason::Provision { message, .. } => message.clone(),
            _ => "The run could not start".to_owned(),
        };
        let skipped = |step: &StepSpec| {
            (
                step.name.clone(),
                step.kind,
                StepResult::Skipped { why: why.clone() },
            )
        };
        Self {
            steps: spec.steps.iter().map(skipped).collect(),
            verdict: Some(Outcome::Failed { reason }),
            head: None,
            killed,
            breach: None,
        }
    }
}

pub(super) fn could_not_launch(spec: &RunSpec, error: &LaunchError, feed: &Feed) -> End {
    let mut message = format!("{error}: {}", error.source);
    if let Some(remedy) = &error.remedy {
        message = format!("{message}. {remedy}");
    }
    let reason = match error.wall {
        Some(wall) => {
            feed.tell(EventKind::Probe {
                wall,
                holds: false,
                detail: message.clone(),
            });
            FailReason::Wall {
                message: format!("{}: {message}", wall.name()),
            }
        }
        None => {
            feed.tell(EventKind::Warning {
                message: message.clone(),
            });
            FailReason::Provision {
                message,
                code: None,
                hint: None,
            }
        }
    };
    End::nothing_ran(spec, reason, 0)
}

/// The verdict over the steps, and the head where one was collected. A bound that ended the agent is
/// no verdict: what it left may be reviewed, and its step says why it ended.
pub(super) fn conclude(result: PlanResult) -> End {
    let PlanResult {
        steps,
        stopped,
        harvested,
        killed,
        missing_wall,
    } = result;
    let breach = match &stopped {
        Some(CancelCause::Bound { breach, .. }) => *breach,
        Some(CancelCause::Operator) | None => None,
    };
    let was_cancelled = stopped == Some(CancelCause::Operator);
    let unsuccessful = |kind: StepKind| {
        let mut of_kind = steps.iter().filter(move |(_, found, _)| *found == kind);
        of_kind.find(|(_, _, result)| !result.is_success())
    };
    let agent_ran = steps.iter().any(|(_, kind, result)| {
        let never_ran = matches!(
            result,
            StepResult::Skipped { .. } | StepResult::NotStarted { .. }
        );
        *kind == StepKind::Agent && !never_ran
    });
    let uncollected = unsuccessful(StepKind::Harvest).or_else(|| unsuccessful(StepKind::Finish));
    let reason = match (missing_wall, stopped) {
        (Some(message), _) => Some(FailReason::Wall { message }),
        // Work that exists and was not collected is kept, however the run ended.
        (None, _) if agent_ran && uncollected.is_some() => {
            uncollected.map(|(name, _, result)| FailReason::Harvest {
                message: format!("step {name} {}", words(result)),
            })
        }
        (None, Some(CancelCause::Bound { what, breach })) if !agent_ran => {
            let message = what;
            Some(FailReason::Bound { message, breach })
        }
        (None, _) => unsuccessful(StepKind::Setup).map(|(name, _, result)| FailReason::Setup {
            message: format!("step {name} {}", words(result)),
        }),
    };
    let verdict = match (reason, was_cancelled) {
        (Some(reason @ (FailReason::Wall { .. } | FailReason::Harvest { .. })), _)
        | (Some(reason), false) => Some(Outcome::Failed { reason }),
        (_, true) => Some(Outcome::Cancelled {
            by: CancelCause::Operator,
        }),
        (None, false) => None,
    };
    let head = harvested.and_then(|file| read_head(&file));
    End {
        steps,
        verdict,
        head,
        killed,
        breach,
    }
}

fn words(result: &StepResult) -> String {
    match result {
        StepResult::Succeeded => "succeeded".to_owned(),
        StepResult::Exited { code } => format!("ended with code {code}"),
        StepResult::Signalled { signal } => format!("ended by signal {signal}"),
        StepResult::NotStarted { why } => format!("did not start: {why}"),
        StepResult::Stopped { why } => format!("was stopped: {why}"),
        StepResult::Reported { outcome, why } => format!("{outcome}: {why}"),
        StepResult::Skipped { why } => format!("was skipped: {why}"),
    }
}

/// The first line that harvest writes: `head` and a commit in hexadecimal.
fn read_head(file: &Path) -> Option<String> {
    use std::io::Read;
    let mut start = Vec::new();
    std::fs::File::open(file)
        .ok()?
        .take(128)
        .read_to_end(&mut start)
        .ok()?;
    let line = start.split(|byte| *byte == b'\n').next()?;
    let head = std::str::from_utf8(line).ok()?.strip_prefix("head ")?;
    let is_commit =
        matches!(head.len(), 40 | 64) && head.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_commit.then(|| head.to_ascii_lowercase())
}

#[cfg(test)]
#[path = "verdict/tests.rs"]
mod tests;
