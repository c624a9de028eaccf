//! Reading a run's log by cursor.

use crate::error::During;
use crate::open::{signed, unsigned};
use crate::rows::events_of;
use crate::{Store, StoreError};
use foreman_domain::{Event, EventSeq, RunId, last_seq_of};
use futures::TryStreamExt;
use sqlx::{QueryBuilder, Row, Sqlite};

/// A page of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventSlice {
    /// In order.
    pub events: Vec<Event>,
    /// Everything up to here was looked at: the cursor of the next page.
    pub cursor: EventSeq,
    /// The newest event stored when the page was read.
    pub last_seq: EventSeq,
}

impl Store {
    /// Events of `run` after a cursor, at most `limit`, only of these kinds (all when empty). A cursor
    /// into a range that was dropped is answered with its `gap` event, which begins before the cursor:
    /// whoever holds such a cursor must not take what it has for the whole.
    ///
    /// # Errors
    /// [`StoreError::NoRun`]; [`StoreError::Statement`] and [`StoreError::Unreadable`] when the
    /// database cannot be read.
    pub async fn events(
        &self,
        run: &RunId,
        after: EventSeq,
        limit: u32,
        kinds: &[String],
    ) -> Result<EventSlice, StoreError> {
        let what = "read events";
        let (number, last_seq) = self.extent_of(run, what).await?;
        let last_seq = EventSeq(unsigned(last_seq));
        let mut query = QueryBuilder::<Sqlite>::new("SELECT seq, json FROM events WHERE run = ");
        query
            .push_bind(number)
            .push(" AND seq > ")
            .push_bind(signed(after.0));
        query.push(" AND seq <= ").push_bind(signed(last_seq.0));
        if !kinds.is_empty() {
            query.push(" AND kind IN (");
            let mut list = query.separated(", ");
            for kind in kinds {
                list.push_bind(kind.as_str());
            }
            query.push(")");
        }
        query
            .push(" ORDER BY seq LIMIT ")
            .push_bind(i64::from(limit));
        let limit = limit as usize;
        let mut rows = query.build().fetch(&self.reader);
        let mut events = Vec::new();
        // A page that is not full has looked at everything, also where the filter dropped it all.
        let mut cursor = last_seq.max(after);
        while let Some(row) = rows.try_next().await.during(what)? {
            let covered = EventSeq(unsigned(row.get(0)));
            let inside = events_of(run, covered, row.get(1))?;
            events.extend(
                inside
                    .filter(|event| last_seq_of(event) > after)
                    .take(limit - events.len()),
            );
            if events.len() == limit {
                // Where the page ends inside a row, the next one begins inside it.
                cursor = events.last().map_or(covered, last_seq_of);
                break;
            }
        }
        Ok(EventSlice {
            events,
            cursor,
            last_seq,
        })
    }

    /// The row number of a run, and its newest event.
    ///
    /// # Errors
    /// [`StoreError::NoRun`]; [`StoreError::Statement`] when the database cannot be read.
    pub(crate) async fn extent_of(
        &self,
        run: &RunId,
        what: &'static str,
    ) -> Result<(i64, i64), StoreError> {
        let row = sqlx::query("SELECT number, last_seq FROM runs WHERE id = ?")
            .bind(run.as_str())
            .fetch_optional(&self.reader)
            .await
            .during(what)?
            .ok_or_else(|| StoreError::NoRun(run.clone()))?;
        Ok((row.get(0), row.get(1)))
    }
}
