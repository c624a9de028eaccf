//! Runs and the orders they are attempts of.

use crate::error::{During, parse, write};
use crate::open::{remember_request, signed, unsigned};
use crate::order_moves::claim;
use crate::revisions::{compose, rules_in_force};
use crate::{RequestKey, Store, StoreError};
use foreman_domain::{
    At, Epoch, EventSeq, Fence, OrderId, Outcome, Revision, RunEpoch, RunId, RunState, StepKind,
    StepName, StepResult,
};
use foreman_policy::Policy;
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row, Sqlite};

/// A run to record before anything of it exists.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// Its id.
    pub id: RunId,
    /// Its order; made when it is new.
    pub order: OrderId,
    /// Names the repository, however it was reached.
    pub repo_key: String,
    /// Its title.
    pub title: String,
    /// What the engine keeps about it; opaque here.
    pub details: String,
    /// The policy without recorded decisions; those in force for the order and the repository are
    /// put on top of it.
    pub base_policy: Policy,
    /// Now.
    pub at: At,
    /// The request that made it.
    pub key: Option<RequestKey>,
    /// The run of the same order that it goes on from: the order stays that one's for now.
    pub follows: Option<RunId>,
}

/// A run as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRun {
    /// Its id.
    pub id: RunId,
    /// Its order.
    pub order: OrderId,
    /// Names its repository.
    pub repo_key: String,
    /// Its title.
    pub title: String,
    /// What the engine keeps about it.
    pub details: String,
    /// Where it stands.
    pub state: RunState,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// When a stop was asked for.
    pub stop_asked_at: Option<At>,
    /// The policy's number.
    pub revision: Revision,
    /// The newest revision that its shim confirmed.
    pub applied_revision: Revision,
    /// The policy with all decisions in force.
    pub policy: Policy,
    /// The newest event.
    pub last_seq: EventSeq,
    /// True when something was refused while nobody attended.
    pub denied_unattended: bool,
    /// When it was recorded.
    pub created_at: At,
    /// When it ended.
    pub ended_at: Option<At>,
    /// Its open blocks.
    pub open_blocks: u32,
    /// Subjects that were held or refused and stay so, the open ones included.
    pub blocked: u32,
    /// Subjects that a decision let go.
    pub allowed: u32,
    /// When the newest event happened.
    pub last_event_at: Option<At>,
    /// Processes that were killed when its cage was torn down; absent while that is not known.
    pub killed: Option<u32>,
}

/// A repository that had runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedRepository {
    /// Its newest run.
    pub newest: RunId,
    /// How many runs it had.
    pub runs: u64,
    /// When the newest was recorded.
    pub last_used: At,
}

/// A step of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredStep {
    /// Its name.
    pub name: StepName,
    /// What it is for.
    pub kind: StepKind,
    /// Its argument vector.
    pub argv: Vec<String>,
    /// How it ended.
    pub result: Option<StepResult>,
}

/// The claim of the engine that recorded a run.
pub const FIRST_CLAIM: RunEpoch = RunEpoch(1);

/// Columns of [`StoredRun`], in order.
const COLUMNS: &str = "SELECT id, order_id, repo_key, title, details, state_json, outcome_json, \
    stop_asked_at, revision, applied_revision, policy_json, last_seq, denied_unattended, \
    created_at, ended_at, \
    (SELECT count(*) FROM blocks WHERE blocks.run = runs.number AND blocks.state = 'open'), \
    killed, \
    (SELECT count(*) FROM blocks WHERE blocks.run = runs.number AND blocks.state <> 'amended'), \
    (SELECT count(*) FROM blocks WHERE blocks.run = runs.number AND blocks.state = 'amended'), \
    (SELECT at FROM events WHERE events.run = runs.number AND events.seq = runs.last_seq) \
    FROM runs ";

impl Store {
    /// Records a run and its order, and answers the policy it starts with: revision 1. The run is
    /// claimed: [`FIRST_CLAIM`].
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`]; [`StoreError::OrderHasRun`] and [`StoreError::OrderMoved`] when its
    /// order cannot be claimed for it; [`StoreError::Statement`] and [`StoreError::DiskFull`].
    pub async fn insert_run(&self, epoch: Epoch, new: &NewRun) -> Result<Policy, StoreError> {
        let what = "record a run";
        let mut tx = self.write(epoch).await?;
        sqlx::query(
            "INSERT INTO orders (id, repo_key, title, created_at) VALUES (?, ?, ?, ?)
             ON CONFLICT (id) DO NOTHING",
        )
        .bind(new.order.as_str())
        .bind(&new.repo_key)
        .bind(&new.title)
        .bind(new.at.as_millis())
        .execute(&mut *tx)
        .await
        .during(what)?;
        claim(&mut tx, &new.order, &new.id, new.follows.as_ref(), new.at).await?;
        let rules = rules_in_force(&mut tx, None, new.order.as_str(), &new.repo_key).await?;
        let policy = compose(&new.base_policy, rules, Revision(1));
        let state = RunState::Provisioning;
        sqlx::query(
            "INSERT INTO runs (id, order_id, repo_key, title, details, state, state_json, revision,
                 base_policy_json, policy_json, created_at, run_epoch)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)",
        )
        .bind(new.id.as_str())
        .bind(new.order.as_str())
        .bind(&new.repo_key)
        .bind(&new.title)
        .bind(&new.details)
        .bind(state.tag())
        .bind(write("run state", &state)?)
        .bind(signed(policy.revision.0))
        .bind(write("policy", &new.base_policy)?)
        .bind(write("policy", &policy)?)
        .bind(new.at.as_millis())
        .execute(&mut *tx)
        .await
        .during(what)?;
        remember_request(&mut tx, new.key.as_ref(), new.id.as_str(), new.at).await?;
        tx.commit().await.during(what)?;
        Ok(policy)
    }

    /// Replaces what the engine keeps about a run.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`], [`StoreError::NoRun`]; [`StoreError::Statement`] and
    /// [`StoreError::DiskFull`].
    pub async fn set_details(
        &self,
        fence: Fence,
        run: &RunId,
        details: &str,
    ) -> Result<(), StoreError> {
        let what = "update a run";
        let mut tx = self.write_run(fence, run).await?;
        let rows = sqlx::query("UPDATE runs SET details = ? WHERE id = ?")
            .bind(details)
            .bind(run.as_str())
            .execute(&mut *tx)
            .await
            .during(what)?
            .rows_affected();
        if rows == 0 {
            return Err(StoreError::NoRun(run.clone()));
        }
        tx.commit().await.during(what)
    }

    /// Records the wish that a run stop: it survives this engine. The first wish counts.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`], [`StoreError::NoRun`]; [`StoreError::Statement`] and
    /// [`StoreError::DiskFull`].
    pub async fn ask_stop(&self, fence: Fence, run: &RunId, at: At) -> Result<(), StoreError> {
        let what = "record a stop";
        let mut tx = self.write_run(fence, run).await?;
        let rows =
            sqlx::query("UPDATE runs SET stop_asked_at = coalesce(stop_asked_at, ?) WHERE id = ?")
                .bind(at.as_millis())
                .bind(run.as_str())
                .execute(&mut *tx)
                .await
                .during(what)?
                .rows_affected();
        if rows == 0 {
            return Err(StoreError::NoRun(run.clone()));
        }
        tx.commit().await.during(what)
    }

    /// One run.
    ///
    /// # Errors
    /// [`StoreError::NoRun`]; [`StoreError::Statement`] and [`StoreError::Unreadable`].
    pub async fn run(&self, run: &RunId) -> Result<StoredRun, StoreError> {
        let mut query = QueryBuilder::<Sqlite>::new(COLUMNS);
        query.push("WHERE id = ").push_bind(run.as_str());
        let row = query
            .build()
            .fetch_optional(&self.reader)
            .await
            .during("read a run")?
            .ok_or_else(|| StoreError::NoRun(run.clone()))?;
        stored(&row)
    }

    /// Runs, newest first.
    ///
    /// # Errors
    /// [`StoreError::Statement`] and [`StoreError::Unreadable`].
    pub async fn runs(&self, limit: u32) -> Result<Vec<StoredRun>, StoreError> {
        let mut query = QueryBuilder::<Sqlite>::new(COLUMNS);
        query
            .push("ORDER BY number DESC LIMIT ")
            .push_bind(i64::from(limit));
        self.select(query).await
    }

    /// Runs that were recorded before another one, newest first.
    ///
    /// # Errors
    /// [`StoreError::Statement`] and [`StoreError::Unreadable`].
    pub async fn runs_before(
        &self,
        before: &RunId,
        limit: u32,
    ) -> Result<Vec<StoredRun>, StoreError> {
        let mut query = QueryBuilder::<Sqlite>::new(COLUMNS);
        query
            .push("WHERE number < (SELECT number FROM runs WHERE id = ")
            .push_bind(before.as_str())
            .push(") ORDER BY number DESC LIMIT ")
            .push_bind(i64::from(limit));
        self.select(query).await
    }

    /// How many runs were recorded before another one.
    ///
    /// # Errors
    /// [`StoreError::Statement`].
    pub async fn count_before(&self, before: &RunId) -> Result<u64, StoreError> {
        let row = sqlx::query(
            "SELECT count(*) FROM runs WHERE number < (SELECT number FROM runs WHERE id = ?)",
        )
        .bind(before.as_str())
        .fetch_one(&self.reader)
        .await
        .during("count runs")?;
        Ok(unsigned(row.get(0)))
    }

    /// Runs whose id begins like this, newest first, at most `limit`.
    ///
    /// # Errors
    /// [`StoreError::Statement`].
    pub async fn runs_beginning(&self, prefix: &str, limit: u32) -> Result<Vec<RunId>, StoreError> {
        let rows = sqlx::query(
            "SELECT id FROM runs WHERE substr(id, 1, length(?1)) = ?1 ORDER BY number DESC LIMIT ?2",
        )
        .bind(prefix)
        .bind(i64::from(limit))
        .fetch_all(&self.reader)
        .await
        .during("look up a run")?;
        Ok(rows
            .iter()
            .filter_map(|row| row.get::<&str, _>(0).parse().ok())
            .collect())
    }

    /// Repositories that had runs, the one used last first.
    ///
    /// # Errors
    /// [`StoreError::Statement`].
    pub async fn used_repositories(&self, limit: u32) -> Result<Vec<UsedRepository>, StoreError> {
        // The other columns are those of the row with the largest number.
        let rows = sqlx::query(
            "SELECT max(number) AS newest, count(*), id, created_at FROM runs GROUP BY repo_key
             ORDER BY newest DESC LIMIT ?",
        )
        .bind(i64::from(limit))
        .fetch_all(&self.reader)
        .await
        .during("list repositories")?;
        rows.iter()
            .map(|row| {
                Ok(UsedRepository {
                    newest: parse("run id", &format!("\"{}\"", row.get::<&str, _>(2)))?,
                    runs: unsigned(row.get(1)),
                    last_used: At::from_millis(row.get(3)),
                })
            })
            .collect()
    }

    /// Runs that are not at rest: live ones, and those in the middle of a merge.
    ///
    /// # Errors
    /// [`StoreError::Statement`] and [`StoreError::Unreadable`].
    pub async fn unsettled_runs(&self) -> Result<Vec<StoredRun>, StoreError> {
        let mut query = QueryBuilder::<Sqlite>::new(COLUMNS);
        query.push(
            "WHERE state IN ('provisioning', 'running', 'stopping', 'merging') ORDER BY number",
        );
        self.select(query).await
    }

    /// Runs that are not over, newest first: those that are not at rest, and those that wait for a review.
    ///
    /// # Errors
    /// [`StoreError::Statement`] and [`StoreError::Unreadable`].
    pub async fn open_runs(&self, limit: u32) -> Result<Vec<StoredRun>, StoreError> {
        let mut query = QueryBuilder::<Sqlite>::new(COLUMNS);
        query
            .push("WHERE state IN ('provisioning', 'running', 'stopping', 'merging', 'review') ")
            .push("ORDER BY number DESC LIMIT ")
            .push_bind(i64::from(limit));
        self.select(query).await
    }

    /// Runs that wait for a review, newest first.
    ///
    /// # Errors
    /// [`StoreError::Statement`] and [`StoreError::Unreadable`].
    pub async fn runs_in_review(&self, limit: u32) -> Result<Vec<StoredRun>, StoreError> {
        let mut query = QueryBuilder::<Sqlite>::new(COLUMNS);
        query
            .push("WHERE state = 'review' ORDER BY number DESC LIMIT ")
            .push_bind(i64::from(limit));
        self.select(query).await
    }

    /// Steps of a run, in the order they started.
    ///
    /// # Errors
    /// [`StoreError::Statement`] and [`StoreError::Unreadable`].
    pub async fn steps(&self, run: &RunId) -> Result<Vec<StoredStep>, StoreError> {
        let rows = sqlx::query(
            "SELECT name, kind, argv_json, result_json FROM steps
             WHERE run = (SELECT number FROM runs WHERE id = ?) ORDER BY started_seq, name",
        )
        .bind(run.as_str())
        .fetch_all(&self.reader)
        .await
        .during("read steps")?;
        rows.iter()
            .map(|row| {
                let result: Option<&str> = row.get(3);
                Ok(StoredStep {
                    name: StepName(row.get(0)),
                    kind: parse("kind of step", &format!("\"{}\"", row.get::<&str, _>(1)))?,
                    argv: parse("argument vector", row.get(2))?,
                    result: result
                        .map(|text| parse("result of a step", text))
                        .transpose()?,
                })
            })
            .collect()
    }

    async fn select(&self, mut query: QueryBuilder<Sqlite>) -> Result<Vec<StoredRun>, StoreError> {
        let rows = query
            .build()
            .fetch_all(&self.reader)
            .await
            .during("read runs")?;
        rows.iter().map(stored).collect()
    }
}

fn stored(row: &SqliteRow) -> Result<StoredRun, StoreError> {
    let outcome: Option<&str> = row.get(6);
    let number = |index: usize| unsigned(row.get(index));
    let small = |index: usize| u32::try_from(number(index)).unwrap_or(u32::MAX);
    Ok(StoredRun {
        id: parse("run id", &format!("\"{}\"", row.get::<&str, _>(0)))?,
        order: OrderId::from(row.get::<String, _>(1)),
        repo_key: row.get(2),
        title: row.get(3),
        details: row.get(4),
        state: parse("run state", row.get(5))?,
        outcome: outcome.map(|text| parse("outcome", text)).transpose()?,
        stop_asked_at: row.get::<Option<i64>, _>(7).map(At::from_millis),
        revision: Revision(number(8)),
        applied_revision: Revision(number(9)),
        policy: parse("policy", row.get(10))?,
        last_seq: EventSeq(number(11)),
        denied_unattended: row.get::<i64, _>(12) != 0,
        created_at: At::from_millis(row.get(13)),
        ended_at: row.get::<Option<i64>, _>(14).map(At::from_millis),
        open_blocks: small(15),
        blocked: small(17),
        allowed: small(18),
        last_event_at: row.get::<Option<i64>, _>(19).map(At::from_millis),
        killed: row
            .get::<Option<i64>, _>(16)
            .and_then(|killed| u32::try_from(killed).ok()),
    })
}
