//! How figures, times, commands and states read. Everything that came from a cage leaves here
//! sanitised.

use foreman_domain::{
    At, CancelCause, ConnectVerdict, ExitCode, FailReason, InterruptReason, Outcome, RunState,
    StepResult, Wall, sanitize_line,
};

/// A length of time: `0.4 s`, `12 s`, `3 min 05 s`, `1 h 02 min`.
#[must_use]
pub fn duration(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0..10 => format!("{seconds}.{} s", millis % 1000 / 100),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// How long ago something was.
#[must_use]
pub fn ago(then: At, now: At) -> String {
    format!("{} ago", duration(millis_between(then, now)))
}

/// Milliseconds from `from` to `to`; 0 when the clock went back.
#[must_use]
pub fn millis_between(from: At, to: At) -> u64 {
    u64::try_from(to.as_millis() - from.as_millis()).unwrap_or(0)
}

/// The time of day, as the operator's clock shows it.
#[must_use]
pub fn clock(at: At) -> String {
    at.0.to_zoned_datetime(jiff::tz::TimeZone::system())
        .strftime("%H:%M:%S")
        .to_string()
}

/// A number of bytes: `512 B`, `1.2 kB`, `3.4 MB`.
#[must_use]
pub fn bytes(count: u64) -> String {
    let mut figure = count as f64;
    if count < 1000 {
        return format!("{count} B");
    }
    for unit in ["kB", "MB", "GB"] {
        figure /= 1000.0;
        if figure < 999.95 {
            return format!("{figure:.1} {unit}");
        }
    }
    format!("{:.1} TB", figure / 1000.0)
}

/// `1 commit`, `2 commits`.
#[must_use]
pub fn count(number: u64, one: &str) -> String {
    if number == 1 {
        format!("1 {one}")
    } else {
        format!("{number} {one}s")
    }
}

/// An argument vector as it could be typed into a shell, on one line. Untrusted text, made safe.
#[must_use]
pub fn argv(argv: &[String]) -> String {
    argv.iter()
        .map(|word| argument(word))
        .collect::<Vec<_>>()
        .join(" ")
}

fn argument(word: &str) -> String {
    let plain = !word.is_empty()
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c));
    if plain {
        word.to_owned()
    } else {
        format!("'{}'", sanitize_line(&word.replace('\'', "'\\''")))
    }
}

/// A commit's short name.
#[must_use]
pub fn short(commit: &str) -> String {
    sanitize_line(&commit.chars().take(10).collect::<String>())
}

/// A wall in words.
#[must_use]
pub fn wall(wall: Wall) -> &'static str {
    match wall {
        Wall::UserNamespace => "user namespaces",
        Wall::Mounts => "mounts",
        Wall::Network => "network",
        Wall::Dns => "names",
        Wall::Seccomp => "system calls",
        Wall::Git => "git",
        Wall::Landlock => "Landlock",
        Wall::Cgroup => "cgroup bounds",
    }
}

/// How a step ended, and after how long where it ran at all.
#[must_use]
pub fn step_result(result: &StepResult, millis: u64) -> String {
    let after = format!("after {}", duration(millis));
    match result {
        StepResult::Succeeded => format!("ended well {after}"),
        StepResult::Exited { code } => format!("ended with code {code} {after}"),
        StepResult::Signalled { signal } => format!("was ended by signal {signal} {after}"),
        StepResult::NotStarted { why } => format!("could not be started: {}", sanitize_line(why)),
        StepResult::Stopped { why } => format!("was stopped {after}: {}", sanitize_line(why)),
        StepResult::Reported { outcome, why } if why.is_empty() => format!("{outcome} {after}"),
        StepResult::Reported { outcome, why } => {
            format!("{outcome} {after}: {}", sanitize_line(why))
        }
        StepResult::Skipped { why } => format!("was skipped: {}", sanitize_line(why)),
    }
}

/// What became of an egress action, as one word.
#[must_use]
pub fn verdict(verdict: &ConnectVerdict) -> &'static str {
    match verdict {
        ConnectVerdict::Allowed { .. } => "allowed",
        ConnectVerdict::Held { .. } => "held",
        ConnectVerdict::Refused { .. } => "refused",
        ConnectVerdict::Unreachable { .. } => "unreachable",
    }
}

/// Why a run failed.
#[must_use]
pub fn fail_reason(reason: &FailReason) -> String {
    let safe = |message: &str| sanitize_line(message);
    match reason {
        FailReason::Provision { message, hint, .. } => {
            let hint = hint.as_deref().map(|hint| format!(". {}", safe(hint)));
            let hint = hint.unwrap_or_default();
            format!(
                "it could not be prepared: {}{}",
                safe(message),
                hint.trim_end_matches('.')
            )
        }
        FailReason::Wall { message } => format!(
            "a wall does not hold, so nothing was started: {}",
            safe(message)
        ),
        FailReason::Setup { message } => format!("the setup command failed: {}", safe(message)),
        FailReason::Agent { message } | FailReason::Bound { message, .. } => {
            format!("{}; it left no commits", safe(message))
        }
        FailReason::Harvest { message } => format!(
            "its work could not be collected; the worktree is kept: {}",
            safe(message)
        ),
    }
}

fn cause(cause: &CancelCause) -> String {
    match cause {
        CancelCause::Operator => "by the operator".into(),
        CancelCause::Bound { what, .. } => {
            format!("because a bound was reached: {}", sanitize_line(what))
        }
    }
}

/// Where a run stands, as a short word for lists.
#[must_use]
pub fn state_word(state: &RunState) -> &'static str {
    match state {
        RunState::Provisioning => "preparing",
        RunState::Running { .. } => "running",
        RunState::Stopping { .. } => "stopping",
        RunState::Review { .. } => "review",
        RunState::NoChanges => "no changes",
        RunState::Failed { .. } => "failed",
        RunState::Cancelled { .. } => "cancelled",
        RunState::Interrupted { .. } => "interrupted",
        RunState::Merging => "merging",
        RunState::Merged { .. } => "merged",
        RunState::Discarded { .. } => "discarded",
    }
}

/// Where a run stands, as a sentence without a final period.
#[must_use]
pub fn state(state: &RunState) -> String {
    match state {
        RunState::Provisioning => "being prepared".into(),
        RunState::Running { step } => format!("running its {} step", sanitize_line(&step.0)),
        RunState::Stopping { cause: why, .. } => format!("being stopped {}", cause(why)),
        RunState::Review {
            agent_succeeded: true,
            ..
        } => "finished; its commits wait for your review".into(),
        RunState::Review {
            agent_succeeded: false,
            ..
        } => "the agent did not succeed, but its commits wait for your review".into(),
        RunState::NoChanges => "finished without commits".into(),
        RunState::Failed { reason } => format!("failed: {}", fail_reason(reason)),
        RunState::Cancelled { by } => format!("stopped {}", cause(by)),
        RunState::Interrupted {
            reason: InterruptReason::Lost { message },
        } => format!("interrupted: {}", sanitize_line(message)),
        RunState::Merging => "being merged".into(),
        RunState::Merged { commit } => format!("merged; the base branch is at {}", short(commit)),
        RunState::Discarded { snapshot } => {
            format!("discarded; {} keeps its work", sanitize_line(snapshot))
        }
    }
}

/// The exit code of a run that ended like this. A check that did not pass counts as the agent's
/// failure: its own word for success is not enough.
#[must_use]
pub fn run_exit(outcome: &Outcome, denied_unattended: bool, checks_passed: bool) -> ExitCode {
    match outcome {
        Outcome::Interrupted { .. } => ExitCode::Interrupted,
        Outcome::Cancelled { .. } => ExitCode::Cancelled,
        Outcome::Failed {
            reason: FailReason::Wall { .. },
        } => ExitCode::WallMissing,
        Outcome::Failed {
            reason: FailReason::Provision {
                code: Some(code), ..
            },
        } => code.exit(),
        Outcome::Failed {
            reason: FailReason::Provision { .. } | FailReason::Harvest { .. },
        } => ExitCode::Environment,
        _ if denied_unattended => ExitCode::DeniedUnattended,
        Outcome::Failed { .. }
        | Outcome::Changes {
            agent_succeeded: false,
            ..
        } => ExitCode::AgentFailed,
        Outcome::Changes { .. } | Outcome::NoChanges if !checks_passed => ExitCode::AgentFailed,
        Outcome::Changes { .. } | Outcome::NoChanges => ExitCode::Ok,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(reason: FailReason) -> Outcome {
        Outcome::Failed { reason }
    }

    #[test]
    fn a_run_ends_with_the_code_of_its_outcome() {
        let changes = |agent_succeeded| Outcome::Changes {
            head: "a".into(),
            base: "b".into(),
            agent_succeeded,
        };
        let message = || "m".to_owned();
        for (outcome, denied, code) in [
            (changes(true), false, 0),
            (Outcome::NoChanges, false, 0),
            (changes(false), false, 1),
            (failed(FailReason::Agent { message: message() }), false, 1),
            (failed(FailReason::Setup { message: message() }), false, 1),
            (failed(FailReason::Wall { message: message() }), false, 5),
            (failed(FailReason::Wall { message: message() }), true, 5),
            (changes(true), true, 6),
            (failed(FailReason::Agent { message: message() }), true, 6),
            (
                Outcome::Cancelled {
                    by: CancelCause::Operator,
                },
                true,
                7,
            ),
            (
                Outcome::Interrupted {
                    reason: InterruptReason::Lost { message: message() },
                },
                true,
                8,
            ),
            (
                failed(FailReason::Provision {
                    message: message(),
                    code: None,
                    hint: None,
                }),
                false,
                9,
            ),
            (
                failed(FailReason::Provision {
                    message: message(),
                    code: Some(foreman_domain::Code::BadRepository),
                    hint: None,
                }),
                false,
                3,
            ),
        ] {
            assert_eq!(run_exit(&outcome, denied, true) as u8, code, "{outcome:?}");
            let unchecked = if code == 0 { 1 } else { code };
            assert_eq!(
                run_exit(&outcome, denied, false) as u8,
                unchecked,
                "{outcome:?}"
            );
        }
    }

    #[test]
    fn a_step_that_never_ran_has_no_duration_and_a_reason_is_said_once() {
        let why = || "wall time reached its bound of 2s".to_owned();
        assert_eq!(
            step_result(
                &StepResult::NotStarted {
                    why: "x is not there".into()
                },
                3
            ),
            "could not be started: x is not there"
        );
        assert_eq!(
            step_result(&StepResult::Stopped { why: why() }, 2000),
            "was stopped after 2.0 s: wall time reached its bound of 2s"
        );
        assert_eq!(
            fail_reason(&FailReason::Bound {
                message: why(),
                breach: None,
            }),
            "wall time reached its bound of 2s; it left no commits"
        );
    }

    #[test]
    fn figures_read_like_figures() {
        assert_eq!(duration(450), "0.4 s");
        assert_eq!(duration(12_300), "12 s");
        assert_eq!(duration(185_000), "3 min 05 s");
        assert_eq!(duration(3_720_000), "1 h 02 min");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1_234), "1.2 kB");
        assert_eq!(bytes(999_999), "1.0 MB");
        assert_eq!(count(2, "connect"), "2 connects");
    }

    #[test]
    fn an_argument_vector_is_one_safe_line() {
        let words = ["curl", "-s", "http://a/", "x\n▌ a  amend", "it's"].map(String::from);
        assert_eq!(argv(&words), "curl -s http://a/ 'x␊▌ a  amend' 'it'\\''s'");
    }
}
