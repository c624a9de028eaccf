//! What a run's agent says that it has used: added up as its events come in, kept with the run when it ends.

use crate::details::RunDetails;
use crate::engine::Engine;
use crate::failures::OrFail;
use foreman_domain::{EventKind, EventSeq, Failure, RunId, Spent, Tally};
use foreman_store::StoredRun;

/// Events that are read at one time.
const PAGE: u32 = 512;

/// The sums of one run up to an event.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    tally: Tally,
    upto: EventSeq,
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

    /// All that it has used, when it ends.
    pub(crate) async fn spent_in_all(
        &self,
        run: &RunId,
        details: &RunDetails,
    ) -> Result<Option<Spent>, Failure> {
        match details.agent_home {
            Some(_) => self.count_on(run, &mut Counted::default()).await.map(Some),
            None => Ok(None),
        }
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
                if let EventKind::Agent { event } = &event.kind {
                    counted.tally.take_in(event);
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
