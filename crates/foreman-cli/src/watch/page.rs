//! Pages of events, waited for without a busy loop.

use foreman_domain::{EventSeq, Failure};
use foreman_engine::api::{Commands, EventPage, EventsRequest};

/// Longest wait of one call; the loop asks again.
const WAIT_MS: u32 = 20_000;

/// Most events of one page.
pub const LIMIT: u32 = 512;

/// The next page after `after`, waiting for news.
pub async fn next<C: Commands>(
    engine: &C,
    run: &str,
    after: EventSeq,
    kinds: &[String],
) -> Result<EventPage, Failure> {
    engine
        .run_events(EventsRequest {
            run: run.to_owned(),
            after,
            limit: LIMIT,
            wait_ms: WAIT_MS,
            kinds: kinds.to_vec(),
            ..EventsRequest::default()
        })
        .await
}
