//! What events may take, and dropping the oldest of them when they take more.
//!
//! - Only what fills a disk is dropped: output first, and only where a run has none left what was
//!   looked up, connected and told as progress. States, steps, blocks, decisions, warnings, bounds and
//!   commits are never dropped.
//! - A dropped range leaves one `gap` event with its count; gaps that touch become one. Numbers stay
//!   without holes, and a cursor into a dropped range is answered with its gap.
//! - Over a run's own budget its oldest go first; over the total, those of the oldest run that is over,
//!   then of the oldest that goes on. Age is the order in which things were recorded, never a clock:
//!   one that jumps changes nothing.
//! - Work is done in slices, each one short transaction, so that nobody waits long for the writer.

use crate::error::During;
use crate::ingest::insert;
use crate::open::{signed, unsigned};
use crate::rows::{EventRow, ROW_BYTES};
use crate::search::index_rows;
use crate::{Store, StoreError};
use foreman_domain::{At, Epoch, Event, EventKind, EventSeq, RunId, WIRE_VERSION};
use serde::{Deserialize, Serialize};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, Sqlite, Transaction};

/// Rows looked at in one slice, at most.
pub const RETENTION_SLICE: u32 = 5_000;
/// Why events were dropped, as their gap says it.
const REASON: &str = "the byte budget of stored events";
/// Kinds that go first.
const OUTPUT: &[&str] = &["output"];
/// Kinds that go when a run has no output left, output that came meanwhile included.
const OTHERS: &[&str] = &[
    "output",
    "agent",
    "egress",
    "connection_closed",
    "name_looked_up",
    "file",
    "exec",
    "exit",
    "progress",
];

/// How much stored events may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventBudget {
    /// Bytes of one run.
    pub per_run: u64,
    /// Bytes of all runs.
    pub total: u64,
}

impl EventBudget {
    /// The key under which it is set ([`Store::setting`]).
    pub const KEY: &str = "event_budget";
    /// No budget is smaller: what is never dropped must have room.
    pub const LEAST: u64 = 1 << 20;
}

impl Default for EventBudget {
    /// 256 MiB a run, which is the default bound of a run's output, and 4 GiB in total.
    fn default() -> Self {
        Self {
            per_run: 256 << 20,
            total: 4 << 30,
        }
    }
}

/// What stored events take now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventUsage {
    /// Bytes of all runs.
    pub total: u64,
    /// Bytes of the run that takes most.
    pub largest: u64,
}

/// What a slice did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Retained {
    /// The run that was looked at; none when everything fits or nothing more may be dropped.
    pub run: Option<RunId>,
    /// Events that were dropped.
    pub dropped: u64,
    /// Bytes that they took.
    pub bytes: u64,
}

/// A run that takes too much.
struct Over {
    number: i64,
    id: RunId,
    last_seq: i64,
    output_through: i64,
    other_through: i64,
    /// Bytes to drop.
    excess: u64,
}

/// A stretch of neighbouring rows that goes.
#[derive(Debug)]
struct Stretch {
    from: i64,
    to: i64,
    at: i64,
    bytes: u64,
    events: u64,
    /// It is more than one gap that is there already.
    is_news: bool,
}

impl Store {
    /// The budget in force: what was set, else the default.
    ///
    /// # Errors
    /// [`StoreError::Statement`] and [`StoreError::Unreadable`].
    pub async fn event_budget(&self) -> Result<EventBudget, StoreError> {
        Ok(self
            .setting::<EventBudget>(EventBudget::KEY)
            .await?
            .unwrap_or_default())
    }

    /// What stored events take.
    ///
    /// # Errors
    /// [`StoreError::Statement`].
    pub async fn event_usage(&self) -> Result<EventUsage, StoreError> {
        let row =
            sqlx::query("SELECT coalesce(sum(bytes), 0), coalesce(max(bytes), 0) FROM event_usage")
                .fetch_one(&self.reader)
                .await
                .during("read what events take")?;
        Ok(EventUsage {
            total: unsigned(row.get(0)),
            largest: unsigned(row.get(1)),
        })
    }

    /// What the events of one run take.
    ///
    /// # Errors
    /// [`StoreError::Statement`].
    pub async fn event_bytes(&self, run: &RunId) -> Result<u64, StoreError> {
        let row = sqlx::query(
            "SELECT bytes FROM event_usage WHERE run = (SELECT number FROM runs WHERE id = ?)",
        )
        .bind(run.as_str())
        .fetch_optional(&self.reader)
        .await
        .during("read what events take")?;
        Ok(row.map_or(0, |row| unsigned(row.get(0))))
    }

    /// Drops some of what is over the budget, looking at no more than `slice` rows. Repeat it until it
    /// names no run.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`]; [`StoreError::Statement`], [`StoreError::Unreadable`] and
    /// [`StoreError::DiskFull`].
    pub async fn retain(
        &self,
        epoch: Epoch,
        budget: &EventBudget,
        slice: u32,
    ) -> Result<Retained, StoreError> {
        let mut tx = self.write(epoch).await?;
        let Some(over) = most_over(&mut tx, budget).await? else {
            return Ok(Retained::default());
        };
        let retained = drop_some(&mut tx, &over, slice.clamp(2, RETENTION_SLICE)).await?;
        tx.commit().await.during("drop old events")?;
        Ok(retained)
    }
}

/// The run to take from next, and how much.
async fn most_over(
    tx: &mut Transaction<'_, Sqlite>,
    budget: &EventBudget,
) -> Result<Option<Over>, StoreError> {
    const COLUMNS: &str = "SELECT runs.number, runs.id, runs.last_seq, output_through,
             other_through, bytes FROM event_usage JOIN runs ON runs.number = event_usage.run
         WHERE other_through < runs.last_seq AND ";
    let what = "find what is over the budget";
    let per_run = budget.per_run.max(EventBudget::LEAST);
    let by_itself = sqlx::query(sqlx::AssertSqlSafe(format!(
        "{COLUMNS} bytes > ? ORDER BY runs.number LIMIT 1"
    )))
    .bind(signed(per_run))
    .fetch_optional(&mut **tx)
    .await
    .during(what)?;
    if let Some(row) = by_itself {
        let bytes = unsigned(row.get(5));
        return over(&row, bytes.saturating_sub(low_water(per_run))).map(Some);
    }
    let sum: i64 = sqlx::query("SELECT coalesce(sum(bytes), 0) FROM event_usage")
        .fetch_one(&mut **tx)
        .await
        .during(what)?
        .get(0);
    let total = budget.total.max(EventBudget::LEAST);
    if unsigned(sum) <= total {
        return Ok(None);
    }
    let excess = unsigned(sum).saturating_sub(low_water(total));
    let oldest = sqlx::query(sqlx::AssertSqlSafe(format!(
        "{COLUMNS} bytes > 0 ORDER BY
             runs.state IN ('provisioning', 'running', 'stopping', 'merging'), runs.number LIMIT 1"
    )))
    .fetch_optional(&mut **tx)
    .await
    .during(what)?;
    oldest.map(|row| over(&row, excess)).transpose()
}

/// What is left once something had to go: a little room, so that it does not begin again at once.
fn low_water(budget: u64) -> u64 {
    budget - budget / 16
}

fn over(row: &SqliteRow, excess: u64) -> Result<Over, StoreError> {
    Ok(Over {
        number: row.get(0),
        id: crate::error::parse("run id", &format!("\"{}\"", row.get::<&str, _>(1)))?,
        last_seq: row.get(2),
        output_through: row.get(3),
        other_through: row.get(4),
        excess,
    })
}

async fn drop_some(
    tx: &mut Transaction<'_, Sqlite>,
    over: &Over,
    slice: u32,
) -> Result<Retained, StoreError> {
    let what = "drop old events";
    let is_output_left = over.output_through < over.last_seq;
    let (kinds, from) = if is_output_left {
        (OUTPUT, over.output_through)
    } else {
        (OTHERS, over.other_through)
    };
    let (stretches, through) = stretches(tx, over, kinds, from, slice).await?;
    let (mut dropped, mut freed, mut added) = (0, 0, 0);
    for stretch in stretches.iter().filter(|stretch| stretch.is_news) {
        sqlx::query("DELETE FROM events WHERE run = ? AND seq BETWEEN ? AND ?")
            .bind(over.number)
            .bind(stretch.from)
            .bind(stretch.to)
            .execute(&mut **tx)
            .await
            .during(what)?;
        if !is_output_left {
            let (from, to) = index_rows(over.number, stretch.from, stretch.to);
            sqlx::query("DELETE FROM event_text WHERE rowid BETWEEN ? AND ?")
                .bind(from)
                .bind(to)
                .execute(&mut **tx)
                .await
                .during(what)?;
        }
        let row = gap(&over.id, stretch)?;
        added += row.bytes() as u64;
        insert(tx, over.number, &[row]).await?;
        dropped += stretch.events;
        freed += stretch.bytes;
    }
    let column = if is_output_left {
        "output_through"
    } else {
        "other_through"
    };
    sqlx::query(sqlx::AssertSqlSafe(format!(
        "UPDATE event_usage SET bytes = max(bytes - ?, 0), {column} = ? WHERE run = ?"
    )))
    .bind(signed(freed) - signed(added))
    .bind(through)
    .bind(over.number)
    .execute(&mut **tx)
    .await
    .during(what)?;
    Ok(Retained {
        run: Some(over.id.clone()),
        dropped,
        bytes: freed.saturating_sub(added),
    })
}

/// Stretches of rows to drop, and up to where nothing of these kinds is left after that.
async fn stretches(
    tx: &mut Transaction<'_, Sqlite>,
    over: &Over,
    kinds: &[&str],
    from: i64,
    slice: u32,
) -> Result<(Vec<Stretch>, i64), StoreError> {
    // The rows' lengths are in their headers: what they say is not read.
    let rows = sqlx::query(
        "SELECT seq, kind, at, octet_length(json) FROM events WHERE run = ? AND seq > ?
         ORDER BY seq LIMIT ?",
    )
    .bind(over.number)
    .bind(from)
    .bind(i64::from(slice))
    .fetch_all(&mut **tx)
    .await
    .during("find what to drop")?;
    let mut found: Vec<Stretch> = Vec::new();
    let (mut open, mut before, mut freed) = (false, from, 0);
    // Rows follow each other without holes, so one begins after the row before it.
    let mut through = if rows.len() < slice as usize {
        over.last_seq
    } else {
        from
    };
    for row in &rows {
        let (seq, kind, at): (i64, &str, i64) = (row.get(0), row.get(1), row.get(2));
        let bytes = unsigned(row.get(3)) + ROW_BYTES as u64;
        let is_gap = kind == "gap";
        let goes = kinds.contains(&kind);
        if goes && freed >= over.excess {
            // The rest stays; the next slice begins with the gap before it, if there is one.
            through = found
                .last()
                .filter(|_| open)
                .map_or(before, |stretch| stretch.from - 1);
            return Ok((found, through.max(from)));
        }
        if goes || is_gap {
            if !open {
                found.push(Stretch {
                    from: before + 1,
                    to: seq,
                    at,
                    bytes: 0,
                    events: 0,
                    is_news: false,
                });
            }
            if let Some(stretch) = found.last_mut() {
                stretch.to = seq;
                stretch.at = at;
                stretch.bytes += bytes;
                stretch.is_news |= goes || open;
                if goes {
                    stretch.events += unsigned(seq - before);
                    freed += bytes;
                }
            }
        }
        open = goes || is_gap;
        before = seq;
    }
    if rows.len() >= slice as usize {
        through = found
            .last()
            .filter(|_| open)
            .map_or(before, |stretch| stretch.from - 1);
    }
    Ok((found, through))
}

/// The event that stands for a stretch.
fn gap(run: &RunId, stretch: &Stretch) -> Result<EventRow, StoreError> {
    let (from, to) = (unsigned(stretch.from), unsigned(stretch.to));
    EventRow::of(&Event {
        v: WIRE_VERSION,
        run: run.clone(),
        seq: EventSeq(from),
        at: At::from_millis(stretch.at),
        step: None,
        process: None,
        kind: EventKind::Gap {
            from: EventSeq(from),
            to: EventSeq(to),
            count: to - from + 1,
            reason: REASON.to_owned(),
        },
    })
}
