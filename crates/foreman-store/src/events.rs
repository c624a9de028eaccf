//! Reading a run's log by cursor.

use crate::error::During;
use crate::open::{signed, unsigned};
use crate::rows::events_of;
use crate::{Store, StoreError};
use foreman_domain::{Event, EventSeq, RunId, last_seq_of};
use futures::TryStreamExt;
use sqlx::{QueryBuilder, Row, Sqlite};

/// Rows that one filtered page looks at, and those read at one time.
const LOOKED_AT: usize = 16_384;
const READ: u32 = 512;

/// Which way a filtered page goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// What comes after this event.
    After(EventSeq),
    /// The newest before this event.
    Before(EventSeq),
}

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

    /// A page of those events of `run` that `wanted` lets through, of these kinds (all when empty), in
    /// ascending order whichever way it goes. It looks at so many rows and no more: a page that is not
    /// full, or empty, is no end. Its cursor is: after it, or before it where the page goes backwards,
    /// nothing was looked at; a backwards page has looked at everything when that is 1 or less.
    ///
    /// # Errors
    /// [`StoreError::NoRun`]; [`StoreError::Statement`] and [`StoreError::Unreadable`] when the
    /// database cannot be read.
    pub async fn events_where(
        &self,
        run: &RunId,
        way: Way,
        limit: u32,
        kinds: &[String],
        wanted: impl Fn(&Event) -> bool + Send + Sync,
    ) -> Result<EventSlice, StoreError> {
        let what = "read events";
        let (number, last_seq) = self.extent_of(run, what).await?;
        let limit = limit as usize;
        let mut slice = EventSlice {
            events: Vec::new(),
            cursor: EventSeq(0),
            last_seq: EventSeq(unsigned(last_seq)),
        };
        let mut at = match way {
            Way::After(after) => signed(after.0),
            Way::Before(before) => self.row_covering(number, before, what).await?,
        };
        let mut looked_at = 0;
        loop {
            let mut query = QueryBuilder::<Sqlite>::new("SELECT seq, ");
            if kinds.is_empty() {
                query.push("json");
            } else {
                // The text of others is not even read.
                query.push("CASE WHEN kind IN (");
                let mut list = query.separated(", ");
                for kind in kinds {
                    list.push_bind(kind.as_str());
                }
                query.push(") THEN json END");
            }
            query.push(" FROM events WHERE run = ").push_bind(number);
            match way {
                Way::After(_) => query
                    .push(" AND seq > ")
                    .push_bind(at)
                    .push(" AND seq <= ")
                    .push_bind(last_seq)
                    .push(" ORDER BY seq"),
                Way::Before(_) => query
                    .push(" AND seq <= ")
                    .push_bind(at)
                    .push(" ORDER BY seq DESC"),
            };
            query.push(" LIMIT ").push_bind(i64::from(READ));
            let rows = query.build().fetch_all(&self.reader).await.during(what)?;
            for row in &rows {
                let covered = EventSeq(unsigned(row.get(0)));
                if looked_at >= LOOKED_AT {
                    slice.cursor = match way {
                        Way::After(_) => EventSeq(unsigned(at)),
                        // This row was not looked at; all above it was.
                        Way::Before(_) => covered.next(),
                    };
                    return Ok(in_order(slice, way));
                }
                looked_at += 1;
                at = match way {
                    Way::After(_) => signed(covered.0),
                    Way::Before(_) => signed(covered.0) - 1,
                };
                let Some(json) = row.get::<Option<&str>, _>(1) else {
                    continue;
                };
                if take_row(&mut slice, run, covered, json, way, limit, &wanted)? {
                    return Ok(in_order(slice, way));
                }
            }
            if rows.len() < READ as usize {
                slice.cursor = match way {
                    Way::After(after) => slice.last_seq.max(after),
                    Way::Before(_) => EventSeq(1),
                };
                return Ok(in_order(slice, way));
            }
        }
    }

    /// The number of the row that holds the event before this one, or the last one there is.
    async fn row_covering(
        &self,
        run: i64,
        before: EventSeq,
        what: &'static str,
    ) -> Result<i64, StoreError> {
        let wanted = signed(before.0).saturating_sub(1);
        let row = sqlx::query("SELECT min(seq) FROM events WHERE run = ? AND seq >= ?")
            .bind(run)
            .bind(wanted)
            .fetch_one(&self.reader)
            .await
            .during(what)?;
        Ok(row.get::<Option<i64>, _>(0).unwrap_or(wanted))
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

/// Takes what is wanted of a row in; true when the page is full.
fn take_row(
    slice: &mut EventSlice,
    run: &RunId,
    covered: EventSeq,
    json: &str,
    way: Way,
    limit: usize,
    wanted: &impl Fn(&Event) -> bool,
) -> Result<bool, StoreError> {
    let inside = events_of(run, covered, json)?;
    let mut inside: Vec<Event> = inside
        .filter(|event| match way {
            Way::After(after) => last_seq_of(event) > after,
            Way::Before(before) => event.seq < before,
        })
        .filter(wanted)
        .collect();
    if let Way::Before(_) = way {
        inside.reverse();
    }
    for event in inside {
        if slice.events.len() >= limit {
            break;
        }
        slice.cursor = match way {
            Way::After(_) => last_seq_of(&event),
            Way::Before(_) => event.seq,
        };
        slice.events.push(event);
    }
    Ok(slice.events.len() >= limit)
}

fn in_order(mut slice: EventSlice, way: Way) -> EventSlice {
    if let Way::Before(_) = way {
        slice.events.reverse();
    }
    slice
}
