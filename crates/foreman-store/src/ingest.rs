//! Taking in a run's events exactly once; what they say is folded in the same transaction
//! ([`crate::fold`]), which several runs may share ([`crate::intake`]).

use crate::error::{During, parse, write};
use crate::fold::{Folding, fold, has_meaning, save};
use crate::leases::check_claim;
use crate::open::{signed, unsigned};
use crate::rows::EventRow;
use crate::{Store, StoreError};
use foreman_domain::{Event, EventSeq, Fence, Revision, RunId, RunState, last_seq_of, pack};
use sqlx::{QueryBuilder, Row, Sqlite, Transaction};
use std::sync::Arc;

/// Rows in one INSERT, the largest. Whole powers of two, so that few statements are ever prepared.
const ROWS_PER_INSERT: usize = 128;

/// What came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ingested {
    /// The newest event stored now.
    pub last_seq: EventSeq,
    /// How many of the events were new.
    pub new: usize,
    /// Where the run stands now.
    pub state: RunState,
}

/// Events of one run, ready to be written after the event that they follow.
#[derive(Debug)]
pub(crate) struct Batch {
    fence: Fence,
    run: RunId,
    /// What they follow.
    after: EventSeq,
    last: EventSeq,
    count: usize,
    rows: Vec<EventRow>,
    bytes: usize,
    /// Those that say something about more than themselves.
    meaningful: Vec<Event>,
    urgent: bool,
}

/// What became of a batch.
#[derive(Debug)]
pub(crate) enum Taken {
    /// It is stored.
    Stored(Ingested),
    /// Some of it was there already: up to here.
    Known { last_seq: EventSeq, state: RunState },
}

impl Store {
    /// Takes events in. Those that are stored already are passed over, so a batch may be given
    /// twice; those that are new must follow without a hole (a `gap` event stands for its range).
    /// What else waits to be stored is stored with them ([`Store::ingest_in_group`]).
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`], [`StoreError::StaleClaim`], [`StoreError::NoRun`],
    /// [`StoreError::Hole`], [`StoreError::ForeignEvent`]; [`StoreError::Statement`] and
    /// [`StoreError::DiskFull`].
    pub async fn ingest(
        &self,
        fence: Fence,
        run: &RunId,
        events: &[Event],
    ) -> Result<Ingested, StoreError> {
        self.take_in(fence, run, events, true).await
    }

    /// As [`Store::ingest`], but lets a batch without states, blocks and decisions wait for up to 25 ms
    /// for those of other runs.
    ///
    /// # Errors
    /// As [`Store::ingest`].
    pub async fn ingest_in_group(
        &self,
        fence: Fence,
        run: &RunId,
        events: &[Event],
    ) -> Result<Ingested, StoreError> {
        let urgent = events.iter().any(|event| event.kind.is_durable_at_once());
        self.take_in(fence, run, events, urgent).await
    }

    async fn take_in(
        &self,
        fence: Fence,
        run: &RunId,
        events: &[Event],
        urgent: bool,
    ) -> Result<Ingested, StoreError> {
        if let Some(foreign) = events.iter().find(|event| event.run != *run) {
            return Err(StoreError::ForeignEvent {
                run: run.clone(),
                found: foreign.run.clone(),
            });
        }
        let before = |event: &Event| EventSeq(event.seq.0.saturating_sub(1));
        let mut after = events.first().map_or(EventSeq(0), before);
        let mut fresh = events;
        loop {
            let mut batch = Batch::new(fence, run, after, fresh)?;
            batch.urgent = urgent;
            match self.submit(Arc::new(batch)).await? {
                Taken::Stored(ingested) => return Ok(ingested),
                Taken::Known { last_seq, state } => {
                    let first_new = fresh.iter().position(|event| event.seq > last_seq);
                    fresh = fresh
                        .get(first_new.unwrap_or(fresh.len())..)
                        .unwrap_or_default();
                    if fresh.is_empty() {
                        return Ok(Ingested {
                            last_seq,
                            new: 0,
                            state,
                        });
                    }
                    after = last_seq;
                }
            }
        }
    }

    /// Writes batches in one transaction, each by itself: one that is refused writes nothing and does
    /// not keep the others from it.
    pub(crate) async fn store_batches(
        &self,
        batches: &[&Batch],
    ) -> Result<Vec<Result<Taken, StoreError>>, StoreError> {
        let mut tx = self.begin().await?;
        let mut answers = Vec::with_capacity(batches.len());
        for batch in batches {
            match store_batch(&mut tx, batch).await {
                Err(
                    refused @ (StoreError::StaleEpoch { .. }
                    | StoreError::StaleClaim { .. }
                    | StoreError::NoRun(_)
                    | StoreError::Hole { .. }
                    | StoreError::ForeignEvent { .. }),
                ) => answers.push(Err(refused)),
                taken => answers.push(Ok(taken?)),
            }
        }
        let written = |answer: &Result<Taken, _>| matches!(answer, Ok(Taken::Stored(_)));
        if answers.iter().any(written) {
            tx.commit().await.during("store events")?;
        }
        Ok(answers)
    }
}

impl Batch {
    fn new(
        fence: Fence,
        run: &RunId,
        after: EventSeq,
        events: &[Event],
    ) -> Result<Self, StoreError> {
        let mut last = after;
        for event in events {
            if event.seq != last.next() {
                return Err(StoreError::Hole {
                    run: run.clone(),
                    expected: last.next(),
                    found: event.seq,
                });
            }
            last = last_seq_of(event);
        }
        let rows = pack(events)
            .filter_map(EventRow::packed)
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            fence,
            run: run.clone(),
            after,
            last,
            count: events.len(),
            bytes: rows.iter().map(EventRow::bytes).sum(),
            rows,
            meaningful: events
                .iter()
                .filter(|event| has_meaning(&event.kind))
                .cloned()
                .collect(),
            urgent: false,
        })
    }

    /// How many events it has.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Somebody waits for it.
    pub fn is_urgent(&self) -> bool {
        self.urgent
    }
}

async fn store_batch(tx: &mut Transaction<'_, Sqlite>, batch: &Batch) -> Result<Taken, StoreError> {
    let what = "store events";
    let now = crate::open::epoch_now(tx).await?;
    if now != batch.fence.engine {
        let mine = batch.fence.engine;
        return Err(StoreError::StaleEpoch { mine, now });
    }
    check_claim(tx, batch.fence, &batch.run).await?;
    let row = sqlx::query(
        "SELECT number, last_seq, state_json, outcome_json, ended_at, applied_revision,
             denied_unattended FROM runs WHERE id = ?",
    )
    .bind(batch.run.as_str())
    .fetch_optional(&mut **tx)
    .await
    .during(what)?
    .ok_or_else(|| StoreError::NoRun(batch.run.clone()))?;
    let outcome: Option<&str> = row.get(3);
    let mut folding = Folding {
        number: row.get(0),
        state: parse("run state", row.get(2))?,
        outcome: outcome.map(|text| parse("outcome", text)).transpose()?,
        ended_at: row.get(4),
        applied: Revision(unsigned(row.get(5))),
        denied_unattended: row.get::<i64, _>(6) != 0,
        just_ended: false,
        blocks: Default::default(),
    };
    let stored = EventSeq(unsigned(row.get(1)));
    if stored > batch.after || batch.count == 0 {
        return Ok(Taken::Known {
            last_seq: stored,
            state: folding.state,
        });
    }
    if stored < batch.after {
        return Err(StoreError::Hole {
            run: batch.run.clone(),
            expected: stored.next(),
            found: batch.after.next(),
        });
    }
    insert(tx, folding.number, &batch.rows).await?;
    for event in &batch.meaningful {
        fold(tx, &mut folding, event).await?;
    }
    save(tx, &folding).await?;
    let outcome = folding
        .outcome
        .as_ref()
        .map(|outcome| write("outcome", outcome))
        .transpose()?;
    sqlx::query(
        "UPDATE runs SET last_seq = ?, state = ?, state_json = ?, outcome_json = ?,
             ended_at = ?, applied_revision = ?, denied_unattended = ? WHERE number = ?",
    )
    .bind(signed(batch.last.0))
    .bind(folding.state.tag())
    .bind(write("run state", &folding.state)?)
    .bind(outcome)
    .bind(folding.ended_at)
    .bind(signed(folding.applied.0))
    .bind(i64::from(folding.denied_unattended))
    .bind(folding.number)
    .execute(&mut **tx)
    .await
    .during(what)?;
    sqlx::query(
        "INSERT INTO event_usage (run, bytes) VALUES (?1, ?2)
         ON CONFLICT (run) DO UPDATE SET bytes = bytes + ?2",
    )
    .bind(folding.number)
    .bind(signed(batch.bytes as u64))
    .execute(&mut **tx)
    .await
    .during(what)?;
    Ok(Taken::Stored(Ingested {
        last_seq: batch.last,
        new: batch.count,
        state: folding.state,
    }))
}

pub(crate) async fn insert(
    tx: &mut Transaction<'_, Sqlite>,
    number: i64,
    rows: &[EventRow],
) -> Result<(), StoreError> {
    let mut rest = rows;
    while !rest.is_empty() {
        let size = if rest.len() >= ROWS_PER_INSERT {
            ROWS_PER_INSERT
        } else {
            1 << rest.len().ilog2()
        };
        let (chunk, after) = rest.split_at(size);
        rest = after;
        let mut query =
            QueryBuilder::<Sqlite>::new("INSERT INTO events (run, seq, kind, at, json) ");
        query.push_values(chunk, |mut values, row| {
            values
                .push_bind(number)
                .push_bind(signed(row.last.0))
                .push_bind(row.kind)
                .push_bind(row.at.as_millis())
                .push_bind(row.json.as_str());
        });
        query
            .build()
            .execute(&mut **tx)
            .await
            .during("store events")?;
    }
    Ok(())
}
