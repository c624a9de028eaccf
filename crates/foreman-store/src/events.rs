//! Reading a run's log by cursor.

use crate::error::{During, parse};
use crate::open::{signed, unsigned};
use crate::{Store, StoreError};
use foreman_domain::{Event, EventSeq, RunId};
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
    /// Events of `run` after a cursor, at most `limit`, only of these kinds (all when empty).
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
        let row = sqlx::query("SELECT number, last_seq FROM runs WHERE id = ?")
            .bind(run.as_str())
            .fetch_optional(&self.reader)
            .await
            .during(what)?
            .ok_or_else(|| StoreError::NoRun(run.clone()))?;
        let number: i64 = row.get(0);
        let last_seq = EventSeq(unsigned(row.get(1)));
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
        let rows = query.build().fetch_all(&self.reader).await.during(what)?;
        let full = rows.len() >= limit as usize;
        let mut events = Vec::with_capacity(rows.len());
        for row in &rows {
            events.push(parse("event", row.get::<&str, _>(1))?);
        }
        // A page that is not full has looked at everything, also where the filter dropped it all.
        let cursor = match rows.last() {
            Some(row) if full => EventSeq(unsigned(row.get(0))),
            _ => last_seq.max(after),
        };
        Ok(EventSlice {
            events,
            cursor,
            last_seq,
        })
    }
}
