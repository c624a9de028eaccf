//! Taking in a run's events exactly once; what they say is folded in the same transaction
//! ([`crate::fold`]).

use crate::error::{During, parse, write};
use crate::fold::{Folding, fold, lapse_own_decisions};
use crate::open::{signed, unsigned};
use crate::{Store, StoreError};
use foreman_domain::{Epoch, Event, EventKind, EventSeq, Revision, RunId, RunState};
use sqlx::{QueryBuilder, Row, Sqlite, Transaction};

/// Rows in one INSERT: five columns each stay far below the limit of bound values.
const ROWS_PER_INSERT: usize = 1024;

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

impl Store {
    /// Takes events in. Those that are stored already are passed over, so a batch may be given
    /// twice; those that are new must follow without a hole (a `gap` event stands for its range).
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`], [`StoreError::NoRun`], [`StoreError::Hole`],
    /// [`StoreError::ForeignEvent`]; [`StoreError::Statement`] and [`StoreError::DiskFull`].
    pub async fn ingest(
        &self,
        epoch: Epoch,
        run: &RunId,
        events: &[Event],
    ) -> Result<Ingested, StoreError> {
        let what = "store events";
        let mut tx = self.write(epoch).await?;
        let row = sqlx::query(
            "SELECT number, last_seq, state_json, outcome_json, ended_at, applied_revision,
                 denied_unattended FROM runs WHERE id = ?",
        )
        .bind(run.as_str())
        .fetch_optional(&mut *tx)
        .await
        .during(what)?
        .ok_or_else(|| StoreError::NoRun(run.clone()))?;
        let outcome: Option<&str> = row.get(3);
        let mut folding = Folding {
            number: row.get(0),
            state: parse("run state", row.get(2))?,
            outcome: outcome.map(|text| parse("outcome", text)).transpose()?,
            ended_at: row.get(4),
            applied: Revision(unsigned(row.get(5))),
            denied_unattended: row.get::<i64, _>(6) != 0,
            just_ended: false,
        };
        let stored = EventSeq(unsigned(row.get(1)));
        let (fresh, last_seq) = following(run, stored, events)?;
        if fresh.is_empty() {
            return Ok(Ingested {
                last_seq,
                new: 0,
                state: folding.state,
            });
        }
        insert(&mut tx, folding.number, fresh).await?;
        for event in fresh {
            fold(&mut tx, &mut folding, event).await?;
        }
        if folding.just_ended {
            lapse_own_decisions(&mut tx, folding.number, folding.ended_at).await?;
        }
        let outcome = folding
            .outcome
            .as_ref()
            .map(|outcome| write("outcome", outcome))
            .transpose()?;
        sqlx::query(
            "UPDATE runs SET last_seq = ?, state = ?, state_json = ?, outcome_json = ?,
                 ended_at = ?, applied_revision = ?, denied_unattended = ? WHERE number = ?",
        )
        .bind(signed(last_seq.0))
        .bind(folding.state.tag())
        .bind(write("run state", &folding.state)?)
        .bind(outcome)
        .bind(folding.ended_at)
        .bind(signed(folding.applied.0))
        .bind(i64::from(folding.denied_unattended))
        .bind(folding.number)
        .execute(&mut *tx)
        .await
        .during(what)?;
        tx.commit().await.during(what)?;
        Ok(Ingested {
            last_seq,
            new: fresh.len(),
            state: folding.state,
        })
    }
}

/// The part of a batch that is new, checked for holes, and the newest number after it.
fn following<'a>(
    run: &RunId,
    stored: EventSeq,
    events: &'a [Event],
) -> Result<(&'a [Event], EventSeq), StoreError> {
    if let Some(foreign) = events.iter().find(|event| event.run != *run) {
        return Err(StoreError::ForeignEvent {
            run: run.clone(),
            found: foreign.run.clone(),
        });
    }
    let first_new = events
        .iter()
        .position(|event| event.seq > stored)
        .unwrap_or(events.len());
    let fresh = events.get(first_new..).unwrap_or_default();
    let mut last = stored;
    for event in fresh {
        if event.seq != last.next() {
            return Err(StoreError::Hole {
                run: run.clone(),
                expected: last.next(),
                found: event.seq,
            });
        }
        last = match &event.kind {
            EventKind::Gap { to, .. } => event.seq.max(*to),
            _ => event.seq,
        };
    }
    Ok((fresh, last))
}

async fn insert(
    tx: &mut Transaction<'_, Sqlite>,
    number: i64,
    events: &[Event],
) -> Result<(), StoreError> {
    for chunk in events.chunks(ROWS_PER_INSERT) {
        let mut rows = Vec::with_capacity(chunk.len());
        for event in chunk {
            rows.push((event, write("event", event)?));
        }
        let mut query =
            QueryBuilder::<Sqlite>::new("INSERT INTO events (run, seq, kind, at, json) ");
        query.push_values(rows, |mut row, (event, json)| {
            row.push_bind(number)
                .push_bind(signed(event.seq.0))
                .push_bind(event.kind.tag())
                .push_bind(event.at.as_millis())
                .push_bind(json);
        });
        query
            .build()
            .execute(&mut **tx)
            .await
            .during("store events")?;
    }
    Ok(())
}
