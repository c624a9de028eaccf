//! How long ago decisions were made, by a clock that nobody sets.

use foreman_domain::{Amendment, AmendmentId, At};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Decisions that are remembered: far more than are made in ten seconds.
const KEPT: usize = 64;

/// The newest decisions of this process.
#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<VecDeque<(AmendmentId, Instant)>>);

impl Recent {
    /// A decision was made just now.
    pub fn note(&self, id: &AmendmentId) {
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        recent.push_back((id.clone(), Instant::now()));
        if recent.len() > KEPT {
            recent.pop_front();
        }
    }

    /// How long ago it was made. For a decision of an engine before this one the machine's clock is
    /// asked: one that has gone back since makes it seem later than now, and then as far away as it
    /// would be in the past.
    pub fn age(&self, amendment: &Amendment, now: At) -> Duration {
        let recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = recent.iter().find(|(id, _)| *id == amendment.id);
        match known {
            Some((_, at)) => at.elapsed(),
            None => {
                let past = now.as_millis().abs_diff(amendment.decided_at.as_millis());
                Duration::from_millis(past)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreman_domain::{AmendmentState, BlockId, Decision, Revision, RunId, Scope};

    fn decided(number: u32, at: i64) -> Amendment {
        let run = RunId::from_random(1);
        Amendment {
            id: AmendmentId::new(run.clone(), number),
            block: BlockId::new(run, 1),
            decision: Decision::Allow,
            scope: Scope::Run,
            words: String::new(),
            revision: Revision(2),
            decided_at: At::from_millis(at),
            state: AmendmentState::Active,
            expires: None,
            surface: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_jumps_moves_no_decision_of_this_process() {
        let recent = Recent::default();
        let amendment = decided(1, 1_000_000);
        recent.note(&amendment.id);
        tokio::time::advance(Duration::from_secs(7)).await;
        for now in [0, 1_000_000, 1 << 42] {
            let age = recent.age(&amendment, At::from_millis(now));
            assert_eq!(age, Duration::from_secs(7));
        }
    }

    #[test]
    fn a_decision_of_an_earlier_engine_is_as_old_as_the_clocks_differ() {
        let recent = Recent::default();
        let amendment = decided(1, 100_000);
        let age = |now| recent.age(&amendment, At::from_millis(now)).as_millis();
        assert_eq!(age(104_000), 4_000);
        assert_eq!(age(99_900), 100);
        assert_eq!(age(0), 100_000);
    }

    #[test]
    fn only_the_newest_are_remembered() {
        let recent = Recent::default();
        for number in 1..=100 {
            recent.note(&decided(number, 0).id);
        }
        assert_eq!(recent.0.lock().unwrap().len(), KEPT);
    }
}
