//! What a run's agent says that it has used: added up as its events come in, kept with the run when it ends.

use crate::details::{Limited, RunDetails};
use crate::engine::Engine;
use crate::failures::OrFail;
use foreman_domain::{AgentEvent, At, EventKind, EventSeq, Failure, RunId, Spent, Tally};
use foreman_store::StoredRun;

/// Events that are read at one time.
const PAGE: u32 = 512;
/// The longest that a provider's limit is waited for: beyond a month it is no limit that passes.
const LONGEST_LIMIT_MS: i64 = 31 * 86_400_000;

/// The sums of one run up to an event.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    tally: Tally,
    upto: EventSeq,
    /// A limit of its model's provider that it did not get over.
    limited: Option<Limited>,
}

impl Counted {
    fn note_limit(&mut self, at: At, said: &AgentEvent) {
        match said {
            AgentEvent::Limited {
                resets_at,
                after_seconds,
            } => {
                let after = after_seconds.map(|seconds| {
                    let millis = i64::try_from(seconds.saturating_mul(1_000));
                    let millis = millis.unwrap_or(i64::MAX).min(LONGEST_LIMIT_MS);
                    At::from_millis(at.as_millis().saturating_add(millis))
                });
                // Whatever an agent says: no order waits for longer than limits last.
                let latest = At::from_millis(at.as_millis().saturating_add(LONGEST_LIMIT_MS));
                let until = resets_at.or(after).map(|until| until.min(latest));
                self.limited = Some(Limited { until });
            }
            // It got over it.
            AgentEvent::Message { .. }
            | AgentEvent::Thought { .. }
            | AgentEvent::ToolStarted { .. } => self.limited = None,
            _ => {}
        }
    }
}

impl Engine {
    /// What the agent of a run has used so far; none for one without a driver, of which nothing is measured.
    pub(crate) async fn spent_of(
        &self,
        run: &StoredRun,
        details: &RunDetails,
    ) -> Result<Option<Spent>, Failure> {
        if details.agent_home.is_none() {
            return Ok(None);
        }
        match self.live.get(&run.id) {
            Some(live) if run.state.is_live() => {
                let mut counted = live.spent.lock().await;
                self.count_on(&run.id, &mut counted).await.map(Some)
            }
            _ => Ok(details.spent),
        }
    }

    /// All that it has used, when it ends, and the limit that ended it.
    pub(crate) async fn spent_in_all(
        &self,
        run: &RunId,
        details: &RunDetails,
    ) -> Result<(Option<Spent>, Option<Limited>), Failure> {
        if details.agent_home.is_none() {
            return Ok((None, None));
        }
        let mut counted = Counted::default();
        let spent = self.count_on(run, &mut counted).await?;
        Ok((Some(spent), counted.limited))
    }

    async fn count_on(&self, run: &RunId, counted: &mut Counted) -> Result<Spent, Failure> {
        let kinds = ["agent".to_owned()];
        loop {
            let page = self
                .store
                .events(run, counted.upto, PAGE, &kinds)
                .await
                .or_fail()?;
            for event in &page.events {
                if let EventKind::Agent { event: agent } = &event.kind {
                    counted.tally.take_in(agent);
                    counted.note_limit(event.at, agent);
                }
            }
            let is_all = page.cursor <= counted.upto || page.cursor >= page.last_seq;
            counted.upto = counted.upto.max(page.cursor);
            if is_all {
                return Ok(counted.tally.spent());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(resets_at: Option<i64>, after_seconds: Option<u64>) -> AgentEvent {
        AgentEvent::Limited {
            resets_at: resets_at.map(At::from_millis),
            after_seconds,
        }
    }

    #[test]
    fn the_limit_that_counts_is_the_last_one_that_was_not_got_over() {
        let mut counted = Counted::default();
        let at = At::from_millis(1_000);
        let mut until = |event: &AgentEvent| {
            counted.note_limit(at, event);
            counted.limited.map(|limited| limited.until)
        };
        assert_eq!(until(&limited(None, None)), Some(None));
        assert_eq!(
            until(&limited(None, Some(5))),
            Some(Some(At::from_millis(6_000)))
        );
        assert_eq!(
            until(&limited(Some(9_000), Some(5))),
            Some(Some(At::from_millis(9_000)))
        );
        let works = AgentEvent::Message {
            text: "on".into(),
            continued: false,
        };
        assert_eq!(until(&works), None);
        let absurd = until(&limited(None, Some(u64::MAX))).flatten();
        assert_eq!(absurd, Some(At::from_millis(1_000 + LONGEST_LIMIT_MS)));
    }
}
