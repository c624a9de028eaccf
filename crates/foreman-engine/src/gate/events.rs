//! Going through all that is stored of one kind of event, page by page.

use crate::engine::Engine;
use crate::failures::OrFail;
use foreman_domain::{Event, EventSeq, Failure, RunId};
use std::ops::ControlFlow;

const PAGE: u32 = 512;

impl Engine {
    /// Hands the events of this kind after a cursor to `each`, in order, until it breaks off.
    pub(super) async fn each_event(
        &self,
        run: &RunId,
        mut after: EventSeq,
        kind: &str,
        mut each: impl FnMut(&Event) -> ControlFlow<()>,
    ) -> Result<(), Failure> {
        let kinds = [kind.to_owned()];
        loop {
            let page = self
                .store
                .events(run, after, PAGE, &kinds)
                .await
                .or_fail()?;
            if page.events.is_empty() || page.events.iter().try_for_each(&mut each).is_break() {
                return Ok(());
            }
            after = page.cursor;
        }
    }
}
