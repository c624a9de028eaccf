//! What events say, folded into the tables that are asked about.
//!
//! | event | what it changes |
//! |---|---|
//! | state | the run's state; with Review the outcome; with the first state of rest also outcome and end, and its own decisions (scope once, run) lapse |
//! | step_started, step_ended | the step |
//! | block | the block, unless a decision newer than this news was recorded meanwhile: then its counts only |
//! | amendment | active → revoked or lapsed, never back |
//! | policy_applied | the revision that the shim confirmed |
//! | egress or a file that a decision's rule allowed | the rule's hits |
//! | refusals of an unattended run | the run's mark |

use crate::StoreError;
use crate::error::{During, parse, write};
use crate::open::{signed, unsigned};
use foreman_domain::{
    Amendment, AmendmentState, Block, BlockState, ConnectVerdict, Decider, Event, EventKind,
    Outcome, Revision, RunState,
};
use sqlx::{QueryBuilder, Row, Sqlite, Transaction};
use std::collections::BTreeMap;

/// How the rules of decisions are named ([`crate::Store::decide`]).
pub(crate) const DECIDED: &str = "amendment:";
/// Blocks in one INSERT.
const BLOCKS_PER_INSERT: usize = 64;

/// The run while its events are folded.
pub(crate) struct Folding {
    pub number: i64,
    pub state: RunState,
    pub outcome: Option<Outcome>,
    pub ended_at: Option<i64>,
    pub applied: Revision,
    pub denied_unattended: bool,
    pub just_ended: bool,
    /// Blocks that its events told of, as they are after them.
    pub blocks: BTreeMap<u32, FoldedBlock>,
}

/// A block while events are folded.
pub(crate) struct FoldedBlock {
    block: Block,
    decided: Option<Revision>,
}

/// True for kinds that say something about more than themselves.
pub(crate) fn has_meaning(kind: &EventKind) -> bool {
    match kind {
        EventKind::State { .. }
        | EventKind::StepStarted { .. }
        | EventKind::StepEnded { .. }
        | EventKind::Block { .. }
        | EventKind::Amendment { .. }
        | EventKind::PolicyApplied { .. }
        | EventKind::Egress { .. }
        | EventKind::File { .. } => true,
        EventKind::Progress { .. }
        | EventKind::Warning { .. }
        | EventKind::Probe { .. }
        | EventKind::Output { .. }
        | EventKind::Agent { .. }
        | EventKind::ShellOpened { .. }
        | EventKind::ShellEnded { .. }
        | EventKind::PortOpened { .. }
        | EventKind::PortClosed { .. }
        | EventKind::NameLookedUp { .. }
        | EventKind::ConnectionClosed { .. }
        | EventKind::Exec { .. }
        | EventKind::Exit { .. }
        | EventKind::Bound { .. }
        | EventKind::Sample { .. }
        | EventKind::Commits { .. }
        | EventKind::Gap { .. } => false,
    }
}

/// Folds one event.
pub(crate) async fn fold(
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
            let Some(step) = &event.step else {
                return Ok(());
            };
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
            let Some(step) = &event.step else {
                return Ok(());
            };
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
        EventKind::Egress {
            verdict:
                ConnectVerdict::Refused {
                    by: Decider::Unattended,
                    ..
                },
            ..
        }
        | EventKind::File {
            verdict:
                ConnectVerdict::Refused {
                    by: Decider::Unattended,
                    ..
                },
            ..
        } => {
            run.denied_unattended = true;
            Ok(())
        }
        EventKind::Egress {
            verdict: ConnectVerdict::Allowed { rule },
            count,
            ..
        }
        | EventKind::File {
            verdict: ConnectVerdict::Allowed { rule },
            count,
            ..
        } if rule.starts_with(DECIDED) => fold_hit(tx, rule, *count, event).await,
        EventKind::Egress { .. }
        | EventKind::File { .. }
        | EventKind::Progress { .. }
        | EventKind::Warning { .. }
        | EventKind::Probe { .. }
        | EventKind::Output { .. }
        | EventKind::Agent { .. }
        | EventKind::ShellOpened { .. }
        | EventKind::ShellEnded { .. }
        | EventKind::PortOpened { .. }
        | EventKind::PortClosed { .. }
        | EventKind::NameLookedUp { .. }
        | EventKind::ConnectionClosed { .. }
        | EventKind::Exec { .. }
        | EventKind::Exit { .. }
        | EventKind::Bound { .. }
        | EventKind::Sample { .. }
        | EventKind::Commits { .. }
        | EventKind::Gap { .. } => Ok(()),
    }
}

/// What a decision's rule let through.
async fn fold_hit(
    tx: &mut Transaction<'_, Sqlite>,
    rule: &str,
    count: u64,
    event: &Event,
) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO rule_hits (rule, hits, last_at) VALUES (?1, ?2, ?3)
         ON CONFLICT (rule) DO UPDATE SET hits = hits + ?2, last_at = max(last_at, ?3)",
    )
    .bind(rule)
    .bind(signed(count))
    .bind(event.at.as_millis())
    .execute(&mut **tx)
    .await
    .during("count what a decision let through")?;
    Ok(())
}

fn is_unattended_denial(state: &BlockState) -> bool {
    matches!(
        state,
        BlockState::Denied {
            by: Decider::Unattended,
            ..
        }
    )
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
    // What there is to review may be brought onto another base while the run is at rest.
    if let RunState::Review { .. } = to {
        run.outcome = outcome_of(to);
    }
    if was_live {
        run.outcome = outcome_of(to);
        run.ended_at = Some(event.at.as_millis());
        run.just_ended = true;
    }
}

fn outcome_of(state: &RunState) -> Option<Outcome> {
    match state.clone() {
        RunState::Review {
            head,
            base,
            agent_succeeded,
        } => Some(Outcome::Changes {
            head,
            base,
            agent_succeeded,
        }),
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
    run: &mut Folding,
    news: &Block,
) -> Result<(), StoreError> {
    let number = news.id.number();
    let known = match run.blocks.remove(&number) {
        Some(known) => Some(known),
        None => stored_block(tx, run.number, number).await?,
    };
    let mut folded = FoldedBlock {
        block: news.clone(),
        decided: None,
    };
    if let Some(known) = known {
        folded.decided = known.decided;
        if known
            .decided
            .is_some_and(|decided| is_older_news(run, news, decided))
        {
            folded.block.state = known.block.state;
        }
    }
    run.blocks.insert(number, folded);
    Ok(())
}

async fn stored_block(
    tx: &mut Transaction<'_, Sqlite>,
    run: i64,
    number: u32,
) -> Result<Option<FoldedBlock>, StoreError> {
    let row = sqlx::query("SELECT json, decided_revision FROM blocks WHERE run = ? AND number = ?")
        .bind(run)
        .bind(i64::from(number))
        .fetch_optional(&mut **tx)
        .await
        .during("store a block")?;
    row.map(|row| {
        Ok(FoldedBlock {
            block: parse("block", row.get(0))?,
            decided: row
                .get::<Option<i64>, _>(1)
                .map(|decided| Revision(unsigned(decided))),
        })
    })
    .transpose()
}

/// Writes what was folded in memory: each block once, however often it changed.
pub(crate) async fn save(
    tx: &mut Transaction<'_, Sqlite>,
    run: &Folding,
) -> Result<(), StoreError> {
    let blocks: Vec<_> = run.blocks.values().collect();
    for chunk in blocks.chunks(BLOCKS_PER_INSERT) {
        let mut rows = Vec::with_capacity(chunk.len());
        for folded in chunk {
            rows.push((folded, write("block", &folded.block)?));
        }
        let mut query = QueryBuilder::<Sqlite>::new(
            "INSERT INTO blocks (run, number, state, first_at, json, decided_revision) ",
        );
        query.push_values(rows, |mut values, (folded, json)| {
            let block = &folded.block;
            values
                .push_bind(run.number)
                .push_bind(i64::from(block.id.number()))
                .push_bind(block.state.tag())
                .push_bind(block.first_at.as_millis())
                .push_bind(json)
                .push_bind(folded.decided.map(|revision| signed(revision.0)));
        });
        query.push(
            " ON CONFLICT (run, number) DO UPDATE SET state = excluded.state, json = excluded.json",
        );
        query
            .build()
            .execute(&mut **tx)
            .await
            .during("store a block")?;
    }
    if run.just_ended {
        lapse_own_decisions(tx, run.number, run.ended_at).await?;
    }
    Ok(())
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

/// Decisions that reach no further than a run end with it.
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
