//! Searching the text of events.
//!
//! - Over all runs, in what an operator looks for ([`INDEXED_KINDS`]): by an index that is made when
//!   somebody searches, run by run and in slices, so that taking events in never pays for it.
//! - In one run, in everything, output too: by reading the run's rows from the newest back.
//!
//! What is typed is text and nothing else: words, all of which must occur, without regard to case. It
//! never is syntax of the index's query language: each word goes in as a quoted string, of which quotes
//! and control characters were taken.

use crate::error::During;
use crate::open::{signed, unsigned};
use crate::rows::events_of;
use crate::{Store, StoreError};
use foreman_domain::{Epoch, Event, EventSeq, RunId};
use sqlx::{QueryBuilder, Row, Sqlite, Transaction};

/// Kinds that are searched in all runs.
pub const INDEXED_KINDS: &[&str] = &[
    "state",
    "progress",
    "warning",
    "step_started",
    "step_ended",
    "shell_opened",
    "shell_ended",
    "port_opened",
    "port_closed",
    "agent",
    "name_looked_up",
    "block",
    "amendment",
    "bound",
    "commits",
];
/// Events that go into the index in one transaction.
const INDEX_SLICE: u32 = 500;
/// Rows of a run read at one time.
const SCAN_ROWS: u32 = 256;
/// A search in one run stops after reading this much, and can be gone on with.
const SCAN_BYTES: usize = 64 << 20;
/// A run's number is above the numbers of its events in the row ids of the index.
const RUN_SHIFT: u32 = 38;

/// The row ids of some events of a run in the index.
pub(crate) fn index_rows(run: i64, from: i64, to: i64) -> (i64, i64) {
    ((run << RUN_SHIFT) | from, (run << RUN_SHIFT) | to)
}

/// More words than this are not looked for.
const MOST_WORDS: usize = 16;

/// What is looked for: never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchText {
    words: Vec<String>,
}

impl SearchText {
    /// The words of what was typed; `None` when there is none to look for.
    #[must_use]
    pub fn new(typed: &str) -> Option<Self> {
        let words: Vec<_> = typed
            .split(|letter: char| letter.is_whitespace() || letter.is_control() || letter == '"')
            .filter(|word| word.chars().any(char::is_alphanumeric))
            .take(MOST_WORDS)
            .map(str::to_lowercase)
            .collect();
        (!words.is_empty()).then_some(Self { words })
    }

    /// The words as a query of the index: each a quoted beginning of a word, all of them required.
    fn as_query(&self) -> String {
        let quoted: Vec<_> = self
            .words
            .iter()
            .map(|word| format!("\"{word}\"*"))
            .collect();
        quoted.join(" AND ")
    }

    /// Whether all words occur in the text of an event.
    fn is_in(&self, event: &Event) -> bool {
        let Ok(value) = serde_json::to_value(&event.kind) else {
            return false;
        };
        let text = text_of(&value).to_lowercase();
        self.words.iter().all(|word| text.contains(word.as_str()))
    }
}

/// A place in what was found: the next older one begins before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchCursor(pub i64);

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Newest first.
    pub events: Vec<Event>,
    /// Where to go on; `None` when everything was looked at.
    pub next: Option<SearchCursor>,
}

impl Store {
    /// Puts the text of some events that are not in the index into it; true while there are more.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`]; [`StoreError::Statement`], [`StoreError::Unreadable`] and
    /// [`StoreError::DiskFull`].
    pub async fn index_some(&self, epoch: Epoch) -> Result<bool, StoreError> {
        let what = "index events";
        // Looked up beside the writer: only when something is to be done is it asked for.
        let due = sqlx::query(
            "SELECT runs.number, runs.id, runs.last_seq, coalesce(event_index.through, 0)
             FROM runs LEFT JOIN event_index ON event_index.run = runs.number
             WHERE runs.last_seq > coalesce(event_index.through, 0) ORDER BY runs.number LIMIT 1",
        )
        .fetch_optional(&self.reader)
        .await
        .during(what)?;
        let Some(due) = due else { return Ok(false) };
        let (number, last_seq, through): (i64, i64, i64) = (due.get(0), due.get(2), due.get(3));
        let run: RunId = crate::error::parse("run id", &format!("\"{}\"", due.get::<&str, _>(1)))?;
        let mut query = QueryBuilder::<Sqlite>::new("SELECT seq, json FROM events WHERE run = ");
        query
            .push_bind(number)
            .push(" AND seq > ")
            .push_bind(through);
        query.push(" AND seq <= ").push_bind(last_seq);
        push_kinds(&mut query, INDEXED_KINDS);
        query
            .push(" ORDER BY seq LIMIT ")
            .push_bind(i64::from(INDEX_SLICE));
        let rows = query.build().fetch_all(&self.reader).await.during(what)?;
        let mut texts = Vec::with_capacity(rows.len());
        for row in &rows {
            let seq: i64 = row.get(0);
            for event in events_of(&run, EventSeq(unsigned(seq)), row.get(1))? {
                if let Ok(value) = serde_json::to_value(&event.kind) {
                    texts.push((seq, text_of(&value)));
                }
            }
        }
        let reached = match rows.last() {
            Some(row) if rows.len() >= INDEX_SLICE as usize => row.get(0),
            _ => last_seq,
        };
        let mut tx = self.write(epoch).await?;
        if is_indexed_to(&mut tx, number).await? == through {
            for (seq, text) in texts {
                sqlx::query("INSERT INTO event_text (rowid, text) VALUES (?, ?)")
                    .bind((number << RUN_SHIFT) | seq)
                    .bind(text)
                    .execute(&mut *tx)
                    .await
                    .during(what)?;
            }
            sqlx::query(
                "INSERT INTO event_index (run, through) VALUES (?1, ?2)
                 ON CONFLICT (run) DO UPDATE SET through = ?2",
            )
            .bind(number)
            .bind(reached)
            .execute(&mut *tx)
            .await
            .during(what)?;
            tx.commit().await.during(what)?;
        }
        Ok(true)
    }

    /// Looks in all runs, as far as they are in the index ([`Store::index_some`]); only in these of
    /// [`INDEXED_KINDS`], in all of them when empty.
    ///
    /// # Errors
    /// [`StoreError::Statement`] and [`StoreError::Unreadable`].
    pub async fn search_all(
        &self,
        text: &SearchText,
        kinds: &[String],
        before: Option<SearchCursor>,
        limit: u32,
    ) -> Result<Found, StoreError> {
        let what = "search events";
        let mut query = QueryBuilder::<Sqlite>::new(
            "SELECT event_text.rowid, runs.id, events.seq, events.json FROM event_text
             JOIN runs ON runs.number = event_text.rowid >> ",
        );
        query.push_bind(i64::from(RUN_SHIFT));
        query.push(" JOIN events ON events.run = runs.number AND events.seq = event_text.rowid & ");
        query.push_bind((1_i64 << RUN_SHIFT) - 1);
        query
            .push(" WHERE event_text MATCH ")
            .push_bind(text.as_query());
        if let Some(SearchCursor(before)) = before {
            query.push(" AND event_text.rowid < ").push_bind(before);
        }
        let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
        // What was dropped since has a gap in its place.
        push_kinds(
            &mut query,
            if kinds.is_empty() {
                INDEXED_KINDS
            } else {
                &kinds
            },
        );
        query
            .push(" ORDER BY event_text.rowid DESC LIMIT ")
            .push_bind(i64::from(limit));
        let rows = query.build().fetch_all(&self.reader).await.during(what)?;
        let mut events = Vec::with_capacity(rows.len());
        for row in &rows {
            let run = crate::error::parse("run id", &format!("\"{}\"", row.get::<&str, _>(1)))?;
            events.extend(events_of(&run, EventSeq(unsigned(row.get(2))), row.get(3))?);
        }
        let next = rows
            .last()
            .filter(|_| rows.len() >= limit as usize)
            .map(|row| SearchCursor(row.get(0)));
        Ok(Found { events, next })
    }

    /// Looks in one run, in all that is stored of it; only in these kinds, in all when empty. Stops
    /// after a while ([`Found::next`]), also with nothing found so far.
    ///
    /// # Errors
    /// [`StoreError::NoRun`]; [`StoreError::Statement`] and [`StoreError::Unreadable`].
    pub async fn search_run(
        &self,
        run: &RunId,
        text: &SearchText,
        kinds: &[String],
        before: Option<SearchCursor>,
        limit: u32,
    ) -> Result<Found, StoreError> {
        let what = "search events";
        let (number, last_seq) = self.extent_of(run, what).await?;
        let before = before.map_or(last_seq + 1, |SearchCursor(before)| before);
        // The row that holds the event before the cursor may end behind it.
        let end: Option<i64> =
            sqlx::query("SELECT min(seq) FROM events WHERE run = ? AND seq >= ?")
                .bind(number)
                .bind(before - 1)
                .fetch_one(&self.reader)
                .await
                .during(what)?
                .get(0);
        let mut below = end.map_or(before, |end| end + 1);
        let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
        let (mut found, mut read) = (Vec::new(), 0);
        loop {
            let mut query =
                QueryBuilder::<Sqlite>::new("SELECT seq, json FROM events WHERE run = ");
            query.push_bind(number).push(" AND seq < ").push_bind(below);
            if !kinds.is_empty() {
                push_kinds(&mut query, &kinds);
            }
            query
                .push(" ORDER BY seq DESC LIMIT ")
                .push_bind(i64::from(SCAN_ROWS));
            let rows = query.build().fetch_all(&self.reader).await.during(what)?;
            for row in &rows {
                let (seq, json): (i64, &str) = (row.get(0), row.get(1));
                read += json.len();
                let mut inside: Vec<_> = events_of(run, EventSeq(unsigned(seq)), json)?
                    .filter(|event| signed(event.seq.0) < before && text.is_in(event))
                    .collect();
                inside.reverse();
                for event in inside {
                    let next = SearchCursor(signed(event.seq.0));
                    found.push(event);
                    if found.len() >= limit as usize {
                        return Ok(Found {
                            events: found,
                            next: Some(next),
                        });
                    }
                }
                below = seq;
            }
            if rows.len() < SCAN_ROWS as usize {
                return Ok(Found {
                    events: found,
                    next: None,
                });
            }
            if read >= SCAN_BYTES {
                // `below` is the end of a row that was read whole: go on with the row before it.
                let begin = begin_of_row(self, number, below).await?;
                return Ok(Found {
                    events: found,
                    next: Some(SearchCursor(begin)),
                });
            }
        }
    }
}

/// The first number of the row that ends at `end`: rows follow each other without holes.
async fn begin_of_row(store: &Store, run: i64, end: i64) -> Result<i64, StoreError> {
    let before: Option<i64> = sqlx::query("SELECT max(seq) FROM events WHERE run = ? AND seq < ?")
        .bind(run)
        .bind(end)
        .fetch_one(&store.reader)
        .await
        .during("search events")?
        .get(0);
    Ok(before.unwrap_or(0) + 1)
}

async fn is_indexed_to(tx: &mut Transaction<'_, Sqlite>, run: i64) -> Result<i64, StoreError> {
    let row = sqlx::query("SELECT through FROM event_index WHERE run = ?")
        .bind(run)
        .fetch_optional(&mut **tx)
        .await
        .during("index events")?;
    Ok(row.map_or(0, |row| row.get(0)))
}

fn push_kinds(query: &mut QueryBuilder<Sqlite>, kinds: &[&str]) {
    query.push(" AND kind IN (");
    let mut list = query.separated(", ");
    for kind in kinds {
        list.push_bind((*kind).to_owned());
    }
    query.push(")");
}

/// Everything in words that an event says: the strings in it.
fn text_of(value: &serde_json::Value) -> String {
    let mut text = String::new();
    collect(value, &mut text);
    text
}

fn collect(value: &serde_json::Value, text: &mut String) {
    match value {
        serde_json::Value::String(words) => {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(words);
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| collect(item, text)),
        serde_json::Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| !matches!(name.as_str(), "kind" | "raw"))
            .for_each(|(_, item)| collect(item, text)),
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_words_and_never_syntax() {
        let query = |typed: &str| SearchText::new(typed).map(|text| text.as_query());
        assert_eq!(
            query("Registry example").as_deref(),
            Some("\"registry\"* AND \"example\"*")
        );
        assert_eq!(
            query("a\" OR b*) NEAR(^-x").as_deref(),
            Some("\"a\"* AND \"or\"* AND \"b*)\"* AND \"near(^-x\"*")
        );
        assert_eq!(query("text:\0x").as_deref(), Some("\"text:\"* AND \"x\"*"));
        assert_eq!(query(" \" :: ** \n"), None);
        assert_eq!(SearchText::new(&"w ".repeat(100)).unwrap().words.len(), 16);
    }
}
