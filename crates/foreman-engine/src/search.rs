//! Looking for events.

use crate::api::{SearchPage, SearchRequest};
use crate::engine::Engine;
use crate::failures::OrFail;
use foreman_domain::{Code, EventKind, Failure, sanitize_line};
use foreman_store::{INDEXED_KINDS, SearchCursor, SearchText};
use std::time::Duration;
use tokio::time::Instant;

const DEFAULT_LIMIT: u32 = 50;
const LONGEST_PAGE: u32 = 512;
/// Longest text that is looked for, in bytes.
const LONGEST_TEXT: usize = 4096;
/// Longest time for the index before it is searched as far as it is.
const INDEXING: Duration = Duration::from_secs(10);
/// Longest time for reading a run before what was found so far is answered.
const READING: Duration = Duration::from_secs(5);

impl Engine {
    /// Events in which all the words occur.
    pub async fn search(&self, request: SearchRequest) -> Result<SearchPage, Failure> {
        let limit = request
            .limit
            .unwrap_or(DEFAULT_LIMIT)
            .clamp(1, LONGEST_PAGE);
        let text = Some(request.text.as_str())
            .filter(|text| text.len() <= LONGEST_TEXT)
            .and_then(SearchText::new)
            .ok_or_else(nothing_to_look_for)?;
        let unknown = |kind: &&String| !EventKind::TAGS.contains(&kind.as_str());
        if let Some(kind) = request.kinds.iter().find(unknown) {
            let kind = sanitize_line(kind);
            let message = format!("there is no kind of event \"{kind}\"");
            return Err(Failure::new(Code::Usage, message));
        }
        let before = request.before.as_deref().map(cursor).transpose()?;
        match &request.run {
            Some(run) => {
                let run = self.find_run(run).await?;
                let deadline = Instant::now() + READING;
                let mut before = before;
                loop {
                    let found = self
                        .store
                        .search_run(&run, &text, &request.kinds, before, limit)
                        .await
                        .or_fail()?;
                    let goes_on = found.events.is_empty() && found.next.is_some();
                    if goes_on && Instant::now() < deadline {
                        before = found.next;
                        continue;
                    }
                    return Ok(page(found, false));
                }
            }
            None => {
                let not_indexed = |kind: &&String| !INDEXED_KINDS.contains(&kind.as_str());
                if let Some(kind) = request.kinds.iter().find(not_indexed) {
                    let message =
                        format!("events of kind {kind} are searched in one run at a time");
                    let failure = Failure::new(Code::Usage, message);
                    return Err(failure.hint("Name the run: `--run RUN`, or `--run last`."));
                }
                let incomplete = !self.index_for_search().await?;
                let found = self
                    .store
                    .search_all(&text, &request.kinds, before, limit)
                    .await
                    .or_fail()?;
                Ok(page(found, incomplete))
            }
        }
    }

    /// Brings the index up to date; false when that takes longer than anybody should wait.
    async fn index_for_search(&self) -> Result<bool, Failure> {
        let deadline = Instant::now() + INDEXING;
        while self.store.index_some(self.epoch).await.or_fail()? {
            if Instant::now() >= deadline || self.cancel.is_cancelled() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn page(found: foreman_store::Found, incomplete: bool) -> SearchPage {
    SearchPage {
        events: found.events,
        next: found.next.map(|SearchCursor(next)| next.to_string()),
        incomplete,
    }
}

fn cursor(text: &str) -> Result<SearchCursor, Failure> {
    text.parse().map(SearchCursor).map_err(|_| {
        Failure::new(Code::Usage, "that is not where a page of a search ended")
            .hint("Give what `next` said, as it is.")
    })
}

fn nothing_to_look_for() -> Failure {
    Failure::new(Code::Usage, "there is no word to look for")
        .hint("Give one word or more, of letters or digits.")
}
