//! Whether an agent's model still makes progress: the watchdog, as a fold.
//!
//! Some agents never give up on a model that does not answer, and some take minutes. Progress is anything that an
//! agent says of its work; notices of retries and of trouble are none, and neither is a message that nobody
//! knows. While a tool runs, or something of the run is held or paused, nobody waits for the model: that time does
//! not count. Times are what the caller measures from any fixed moment; nothing in here has a clock.

use foreman_domain::AgentEvent;
use std::collections::BTreeSet;
use std::time::Duration;

/// Tool calls that are known to run at one time.
const CALLS: usize = 1_024;

/// How an agent's model stands.
#[derive(Debug, Clone)]
pub struct Progress {
    patience: Option<Duration>,
    /// When the model was last seen to work, or was not waited for.
    since: Duration,
    calls: BTreeSet<String>,
    /// The last trouble that the agent told since.
    trouble: Option<String>,
}

/// The model made no progress for too long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stalled {
    /// For how long.
    pub silent: Duration,
    /// Why, as a sentence without a final period.
    pub why: String,
}

impl Progress {
    /// Of an agent that begins `now`. Without patience nothing ever stalls.
    #[must_use]
    pub fn begin(patience: Option<Duration>, now: Duration) -> Self {
        Self {
            patience,
            since: now,
            calls: BTreeSet::new(),
            trouble: None,
        }
    }

    /// Something was understood of what the agent said.
    pub fn saw(&mut self, event: &AgentEvent, now: Duration) {
        match event {
            AgentEvent::Retry { why, .. } => return self.trouble = Some(why.clone()),
            AgentEvent::Problem { message } => return self.trouble = Some(message.clone()),
            AgentEvent::Limited { .. } => {
                return self.trouble = Some("its provider lets it do no more for now".to_owned());
            }
            // What the operator said is not the model's doing, nor is what was said long ago.
            AgentEvent::Unknown { .. }
            | AgentEvent::Unreadable { .. }
            | AgentEvent::Told { .. }
            | AgentEvent::Replayed { .. } => return,
            AgentEvent::ToolStarted { call, .. } => {
                if self.calls.len() < CALLS {
                    self.calls.insert(call.clone());
                }
            }
            AgentEvent::ToolEnded { call, .. } => {
                self.calls.remove(call);
            }
            AgentEvent::Session { .. }
            | AgentEvent::Message { .. }
            | AgentEvent::Thought { .. }
            | AgentEvent::Edit { .. }
            | AgentEvent::PermissionAsked { .. }
            | AgentEvent::PermissionAnswered { .. }
            | AgentEvent::Usage { .. }
            | AgentEvent::Given { .. }
            | AgentEvent::Ended { .. } => {}
        }
        self.since = now;
        self.trouble = None;
    }

    /// Nobody waits for the model `now`: something is held, or the cage is paused.
    pub fn waits_for_others(&mut self, now: Duration) {
        self.since = now;
    }

    /// Whether the model stalls `now`. While a tool runs it does not.
    pub fn check(&mut self, now: Duration) -> Option<Stalled> {
        if !self.calls.is_empty() {
            self.since = now;
        }
        let patience = self.patience?;
        let silent = now.saturating_sub(self.since);
        if silent < patience {
            return None;
        }
        let minutes = silent.as_secs() / 60;
        let long = match minutes {
            0 => format!("{} s", silent.as_secs()),
            minutes => format!("{minutes} min"),
        };
        let why = match &self.trouble {
            Some(trouble) => {
                format!("its model made no progress for {long}; it said last: {trouble}")
            }
            None => format!("its model made no progress for {long}"),
        };
        Some(Stalled { silent, why })
    }

    /// When to check again, `now` being the time; none where nothing ever stalls.
    #[must_use]
    pub fn due(&self, now: Duration) -> Option<Duration> {
        let end = self.since.saturating_add(self.patience?);
        Some(end.saturating_sub(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn begun() -> Progress {
        Progress::begin(Some(10 * MINUTE), Duration::ZERO)
    }

    fn message() -> AgentEvent {
        AgentEvent::Message {
            text: "x".into(),
            continued: false,
        }
    }

    fn retry() -> AgentEvent {
        AgentEvent::Retry {
            attempt: Some(3),
            why: "503".into(),
        }
    }

    #[test]
    fn retries_and_trouble_are_no_progress_and_say_why_it_stalled() {
        let mut progress = begun();
        progress.saw(&message(), MINUTE);
        for minute in 2..11 {
            progress.saw(&retry(), minute * MINUTE);
            progress.saw(
                &AgentEvent::Unknown {
                    name: "heartbeat".into(),
                },
                minute * MINUTE,
            );
            assert_eq!(progress.check(minute * MINUTE), None, "{minute}");
        }
        assert_eq!(progress.due(10 * MINUTE), Some(MINUTE));
        let stalled = progress.check(11 * MINUTE).unwrap();
        assert_eq!(stalled.silent, 10 * MINUTE);
        assert!(
            stalled.why.ends_with("for 10 min; it said last: 503"),
            "{}",
            stalled.why
        );
    }

    #[test]
    fn what_got_over_its_trouble_has_its_whole_time_again() {
        let mut progress = begun();
        progress.saw(&retry(), 9 * MINUTE);
        progress.saw(&message(), 9 * MINUTE);
        assert_eq!(progress.check(18 * MINUTE), None);
        let stalled = progress.check(19 * MINUTE).unwrap();
        assert!(!stalled.why.contains("503"), "{}", stalled.why);
    }

    #[test]
    fn a_tool_that_runs_and_what_is_held_are_not_waited_for() {
        let mut progress = begun();
        let started = AgentEvent::ToolStarted {
            call: "c1".into(),
            tool: "bash".into(),
            arguments: String::new(),
        };
        progress.saw(&started, MINUTE);
        assert_eq!(progress.check(500 * MINUTE), None);
        let ended = AgentEvent::ToolEnded {
            call: "c1".into(),
            tool: None,
            result: String::new(),
            failed: false,
        };
        progress.saw(&ended, 501 * MINUTE);
        progress.waits_for_others(600 * MINUTE);
        assert_eq!(progress.check(609 * MINUTE), None);
        assert!(progress.check(610 * MINUTE).is_some());
    }

    #[test]
    fn without_patience_nothing_stalls() {
        let mut progress = Progress::begin(None, Duration::ZERO);
        assert_eq!(progress.check(10_000 * MINUTE), None);
        assert_eq!(progress.due(MINUTE), None);
    }
}
