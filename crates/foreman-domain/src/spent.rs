//! What an agent has used, by its own word.

use crate::AgentEvent;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an agent says that it has used. What it never told is absent: not measured, and not nought.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, specta::Type,
)]
pub struct Spent {
    /// Tokens read and written, without those read from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Cost in millionths of a US dollar, at the prices that the agent knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_microusd: Option<u64>,
    /// Its prompts and tool calls.
    #[serde(default)]
    pub turns: u64,
}

/// Adds up what an agent's events say. A fold: the same events give the same sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    tokens: Sum,
    cost: Sum,
    turns: u64,
}

/// What came on top of each other, and the largest sum that the agent made itself. An agent tells one or the other; of
/// one that tells both, the larger counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Sum {
    is_told: bool,
    added: u64,
    total: u64,
}

impl Sum {
    fn take_in(&mut self, is_total: bool, amount: u64) {
        self.is_told = true;
        match is_total {
            true => self.total = self.total.max(amount),
            false => self.added = self.added.saturating_add(amount),
        }
    }

    fn told(&self) -> Option<u64> {
        self.is_told.then(|| self.added.max(self.total))
    }
}

impl Tally {
    /// Counts an event; true when a figure has changed.
    pub fn take_in(&mut self, event: &AgentEvent) -> bool {
        let before = self.spent();
        match event {
            AgentEvent::Usage {
                total,
                input,
                output,
                cached,
                cost_microusd,
            } => {
                // Some messages tell the cost alone.
                if input | output | cached != 0 {
                    self.tokens.take_in(*total, input.saturating_add(*output));
                }
                if let Some(cost) = cost_microusd {
                    self.cost.take_in(*total, *cost);
                }
            }
            AgentEvent::Session { .. }
            | AgentEvent::Given { .. }
            | AgentEvent::ToolStarted { .. } => {
                self.turns = self.turns.saturating_add(1);
            }
            _ => {}
        }
        before != self.spent()
    }

    /// The sums so far.
    #[must_use]
    pub fn spent(&self) -> Spent {
        Spent {
            tokens: self.tokens.told(),
            cost_microusd: self.cost.told(),
            turns: self.turns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(total: bool, input: u64, output: u64, cached: u64, cost: Option<u64>) -> AgentEvent {
        AgentEvent::Usage {
            total,
            input,
            output,
            cached,
            cost_microusd: cost,
        }
    }

    #[test]
    fn what_was_never_told_is_not_nought() {
        let mut tally = Tally::default();
        assert_eq!(tally.spent(), Spent::default());
        assert!(tally.take_in(&usage(false, 10, 2, 100, None)));
        assert!(tally.take_in(&usage(false, 5, 1, 0, None)));
        let spent = tally.spent();
        assert_eq!((spent.tokens, spent.cost_microusd), (Some(18), None));
    }

    #[test]
    fn sums_of_the_agents_own_are_not_added_up_and_never_go_back() {
        let mut tally = Tally::default();
        for (tokens, cost) in [(100, 5), (250, 9), (200, 7)] {
            tally.take_in(&usage(true, tokens, 0, 0, Some(cost)));
        }
        assert_eq!(tally.spent().tokens, Some(250));
        assert_eq!(tally.spent().cost_microusd, Some(9));
        // The protocol's own messages: the cost as a sum, tokens a step.
        let mut tally = Tally::default();
        tally.take_in(&usage(true, 0, 0, 0, Some(3)));
        tally.take_in(&usage(false, 7, 1, 0, None));
        assert_eq!(
            (tally.spent().tokens, tally.spent().cost_microusd),
            (Some(8), Some(3))
        );
    }

    #[test]
    fn absurd_figures_are_as_high_as_figures_go() {
        let mut tally = Tally::default();
        for _ in 0..2 {
            tally.take_in(&usage(false, u64::MAX, u64::MAX, 0, Some(u64::MAX)));
        }
        assert_eq!(tally.spent().tokens, Some(u64::MAX));
        assert_eq!(tally.spent().cost_microusd, Some(u64::MAX));
    }

    #[test]
    fn prompts_and_tool_calls_are_turns() {
        let mut tally = Tally::default();
        let session = AgentEvent::Session {
            session: "s".into(),
            model: None,
        };
        let call = AgentEvent::ToolStarted {
            call: "c".into(),
            tool: "sh".into(),
            arguments: String::new(),
        };
        for event in [
            session,
            call.clone(),
            call,
            AgentEvent::Given { waiting: 0 },
        ] {
            assert!(tally.take_in(&event));
        }
        assert_eq!(tally.spent().turns, 4);
    }
}
