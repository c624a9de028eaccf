//! Taking in a run's events exactly once, and folding them into the tables that are asked about.
//!
//! | event | what it changes |
//! |---|---|
//! | state | the run's state; with the first state of rest also outcome and end, and its own decisions (scope once, run) lapse |
//! | step_started, step_ended | the step |
//! | block | the block, unless a decision newer than this news was recorded meanwhile: then its counts only |
//! | amendment | active → revoked or lapsed, never back |
//! | policy_applied | the revision that the shim confirmed |
//! | refusals of an unattended run | the run's mark |

use crate::error::{During, parse, write};
use crate::open::{signed, unsigned};
use crate::{Store, StoreError};
use foreman_domain::{
    Amendment, AmendmentState, Block, BlockState, ConnectVerdict, Decider, Epoch, Event, EventKind,
    EventSeq, Outcome, Revision, RunId, RunState,
};
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

/// The run while its events are folded.
struct Folding {
    number: i64,
    state: RunState,
    outcome: Option<Outcome>,
    ended_at: Option<i64>,
    applied: Revision,
    denied_unattended: bool,
    just_ended: bool,
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
            return Ok(Ingested { last_seq, new: 0, state: folding.state });
        }
        insert(&mut tx, folding.number, fresh).await?;
        for event in fresh {
            fold(&mut tx, &mut folding, event).await?;
        }
        if folding.just_ended {
            lapse_own_decisions(&mut tx, folding.number, folding.ended_at).await?;
        }
        let outcome =
            folding.outcome.as_ref().map(|outcome| write("outcome", outcome)).transpose()?;
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
        Ok(Ingested { last_seq, new: fresh.len(), state: folding.state })
    }
}

/// The part of a batch that is new, checked for holes, and the newest number after it.
fn following<'a>(
    run: &RunId,
    stored: EventSeq,
    events: &'a [Event],
) -> Result<(&'a [Event], EventSeq), StoreError> {
    if let Some(foreign) = events.iter().find(|event| event.run != *run) {
        return Err(StoreError::ForeignEvent { run: run.clone(), found: foreign.run.clone() });
    }
    let first_new = events.iter().position(|event| event.seq > stored).unwrap_or(events.len());
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
        query.build().execute(&mut **tx).await.during("store events")?;
    }
    Ok(())
}

async fn fold(
    tx: &mut Transaction<'_, Sqlite>,
    run: &mut Folding,
    event: &Event,
) -> Result<(), StoreError> {
    match &event.kind {
        EventKind::State { to } => {
            fold_state(run, to, event);
            Ok(())
        }
        EventKind::StepStarted { what, argv } => {
            let Some(step) = &event.step else { return Ok(()) };
            let kind = write("kind of step", what)?;
            sqlx::query(
                "INSERT INTO steps (run, name, kind, argv_json, started_seq)
                 VALUES (?, ?, ?, ?, ?) ON CONFLICT (run, name) DO NOTHING",
            )
            .bind(run.number)
            .bind(&step.0)
            .bind(kind.trim_matches('"'))
            .bind(write("argument vector", argv)?)
            .bind(signed(event.seq.0))
            .execute(&mut **tx)
            .await
            .during("store a step")?;
            Ok(())
        }
        EventKind::StepEnded { result, .. } => {
            let Some(step) = &event.step else { return Ok(()) };
            sqlx::query("UPDATE steps SET result_json = ? WHERE run = ? AND name = ?")
                .bind(write("result of a step", result)?)
                .bind(run.number)
                .bind(&step.0)
                .execute(&mut **tx)
                .await
                .during("store a step")?;
            Ok(())
        }
        EventKind::Block { block } => {
            if is_unattended_denial(&block.state) {
                run.denied_unattended = true;
            }
            fold_block(tx, run, block).await
        }
        EventKind::Amendment { amendment } => fold_amendment(tx, amendment, event).await,
        EventKind::PolicyApplied { revision, .. } => {
            run.applied = run.applied.max(*revision);
            Ok(())
        }
        EventKind::Egress { verdict: ConnectVerdict::Refused { by: Decider::Unattended, .. }, .. } => {
            run.denied_unattended = true;
            Ok(())
        }
        EventKind::Egress { .. }
        | EventKind::Progress { .. }
        | EventKind::Warning { .. }
        | EventKind::Probe { .. }
        | EventKind::Output { .. }
        | EventKind::NameLookedUp { .. }
        | EventKind::ConnectionClosed { .. }
        | EventKind::Bound { .. }
        | EventKind::Commits { .. }
        | EventKind::Gap { .. } => Ok(()),
    }
}

fn is_unattended_denial(state: &BlockState) -> bool {
    matches!(state, BlockState::Denied { by: Decider::Unattended, .. })
}

/// A shim's states are live ones; those of rest come from the engine. A run at rest never becomes
/// live again, and one that is stopping does not go back to running when its next step starts.
fn fold_state(run: &mut Folding, to: &RunState, event: &Event) {
    let was_live = run.state.is_live();
    if to.is_live() {
        let backwards = matches!(run.state, RunState::Stopping { .. })
            && !matches!(to, RunState::Stopping { .. });
        if was_live && !backwards {
            run.state = to.clone();
        }
        return;
    }
    run.state = to.clone();
    if was_live {
        run.outcome = outcome_of(to);
        run.ended_at = Some(event.at.as_millis());
        run.just_ended = true;
    }
}

fn outcome_of(state: &RunState) -> Option<Outcome> {
    match state.clone() {
        RunState::Review { head, base, agent_succeeded } => {
            Some(Outcome::Changes { head, base, agent_succeeded })
        }
        RunState::NoChanges => Some(Outcome::NoChanges),
        RunState::Failed { reason } => Some(Outcome::Failed { reason }),
        RunState::Cancelled { by } => Some(Outcome::Cancelled { by }),
        RunState::Interrupted { reason } => Some(Outcome::Interrupted { reason }),
        RunState::Provisioning
        | RunState::Running { .. }
        | RunState::Stopping { .. }
        | RunState::Merging
        | RunState::Merged { .. }
        | RunState::Discarded { .. } => None,
    }
}

async fn fold_block(
    tx: &mut Transaction<'_, Sqlite>,
    run: &Folding,
    news: &Block,
) -> Result<(), StoreError> {
    let what = "store a block";
    let known = sqlx::query(
        "SELECT json, decided_revision FROM blocks WHERE run = ? AND number = ?",
    )
    .bind(run.number)
    .bind(i64::from(news.id.number()))
    .fetch_optional(&mut **tx)
    .await
    .during(what)?;
    let mut block = news.clone();
    if let Some(row) = &known {
        let stored: Block = parse("block", row.get(0))?;
        let decided: Option<i64> = row.get(1);
        if decided.is_some_and(|decided| is_older_news(run, news, Revision(unsigned(decided)))) {
            block.state = stored.state;
        }
    }
    save_block(tx, run.number, &block, None).await
}

/// News that the shim wrote before it knew of the decision.
fn is_older_news(run: &Folding, news: &Block, decided: Revision) -> bool {
    run.applied < decided && news.revision < decided
}

/// Writes a block; `decided` is the revision of a decision on it, which is kept when absent.
pub(crate) async fn save_block(
    tx: &mut Transaction<'_, Sqlite>,
    run: i64,
    block: &Block,
    decided: Option<Revision>,
) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO blocks (run, number, state, first_at, json, decided_revision)
         VALUES (?, ?, ?, ?, ?, ?)
         ON CONFLICT (run, number) DO UPDATE SET state = excluded.state, json = excluded.json,
             decided_revision = coalesce(excluded.decided_revision, decided_revision)",
    )
    .bind(run)
    .bind(i64::from(block.id.number()))
    .bind(block.state.tag())
    .bind(block.first_at.as_millis())
    .bind(write("block", block)?)
    .bind(decided.map(|revision| signed(revision.0)))
    .execute(&mut **tx)
    .await
    .during("store a block")?;
    Ok(())
}

async fn fold_amendment(
    tx: &mut Transaction<'_, Sqlite>,
    news: &Amendment,
    event: &Event,
) -> Result<(), StoreError> {
    if news.state == AmendmentState::Active {
        return Ok(());
    }
    let state = write("state of an amendment", &news.state)?;
    let state = state.trim_matches('"');
    sqlx::query(
        "UPDATE amendments SET state = ?1, json = json_set(json, '$.state', ?1), ended_at = ?2
         WHERE run = (SELECT number FROM runs WHERE id = ?3) AND number = ?4 AND state = 'active'",
    )
    .bind(state)
    .bind(event.at.as_millis())
    .bind(news.id.run().as_str())
    .bind(i64::from(news.id.number()))
    .execute(&mut **tx)
    .await
    .during("store a decision")?;
    Ok(())
}

async fn lapse_own_decisions(
    tx: &mut Transaction<'_, Sqlite>,
    run: i64,
    at: Option<i64>,
) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE amendments SET state = 'lapsed', json = json_set(json, '$.state', 'lapsed'),
             ended_at = ?
         WHERE run = ? AND state = 'active' AND scope IN ('once', 'run')",
    )
    .bind(at)
    .bind(run)
    .execute(&mut **tx)
    .await
    .during("let decisions lapse")?;
    Ok(())
}
