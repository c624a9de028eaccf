//! Small texts that several answers share.

use foreman_domain::{At, RunState, StepResult};
use jiff::tz::TimeZone;

/// A time of day by the operator's clock; with the date when it was not today.
pub(crate) fn clock(at: At) -> String {
    let zone = TimeZone::system();
    let then = at.0.to_zoned_datetime(zone.clone());
    let today = At::now().0.to_zoned_datetime(zone).date();
    let format = if then.date() == today {
        "%H:%M"
    } else {
        "%H:%M on %Y-%m-%d"
    };
    then.strftime(format).to_string()
}

/// How a step ended, as the end of a sentence.
pub(crate) fn result_in_words(result: &StepResult) -> String {
    match result {
        StepResult::Succeeded => "passed".into(),
        StepResult::Exited { code } => format!("failed with exit code {code}"),
        StepResult::Signalled { signal } => format!("ended by signal {signal}"),
        StepResult::NotStarted { why } => format!("was not started: {why}"),
        StepResult::Stopped { why } => format!("was stopped: {why}"),
        StepResult::Reported { outcome, why } if why.is_empty() => outcome.to_string(),
        StepResult::Reported { outcome, why } => format!("{outcome}: {why}"),
        StepResult::Skipped { why } => format!("was skipped: {why}"),
    }
}

/// Where a run stands, as the end of "run X is".
pub(crate) fn standing(state: &RunState) -> &'static str {
    match state {
        RunState::Provisioning => "being prepared",
        RunState::Running { .. } => "running",
        RunState::Stopping { .. } => "being stopped",
        RunState::Review { .. } => "waiting for your review",
        RunState::NoChanges => "over without changes",
        RunState::Failed { .. } => "over, it failed",
        RunState::Cancelled { .. } => "stopped",
        RunState::Interrupted { .. } => "interrupted",
        RunState::Merging => "being merged",
        RunState::Merged { .. } => "merged",
        RunState::Discarded { .. } => "discarded",
    }
}

/// A few words about many.
pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    if number == 1 {
        format!("1 {one}")
    } else {
        format!("{number} {many}")
    }
}
