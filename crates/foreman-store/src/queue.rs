//! The merge queue: what was approved to be merged, and what became of it.

use crate::error::During;
use crate::open::{remember_request, signed, unsigned};
use crate::{RequestKey, Store, StoreError};
use foreman_domain::{At, Epoch, Revision, RunId};
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row, Sqlite};

/// Who put a run into the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskedBy {
    /// The operator.
    Operator,
    /// The order's own gate, because nothing was found that the operator has to look at.
    Checks,
}

impl AskedBy {
    fn tag(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Checks => "checks",
        }
    }
}

/// Where an entry stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MergeStanding {
    /// Others are before it.
    Waiting,
    /// It is being synced, checked or merged.
    Working,
    /// It is in the base branch.
    Merged {
        /// The base branch's tip after it.
        commit: String,
    },
    /// It went back to Review.
    Returned {
        /// Why, as a sentence.
        reason: String,
    },
}

impl MergeStanding {
    /// True when nothing more becomes of it.
    #[must_use]
    pub fn is_over(&self) -> bool {
        match self {
            Self::Waiting | Self::Working => false,
            Self::Merged { .. } | Self::Returned { .. } => true,
        }
    }
}

/// An entry to put into the queue.
#[derive(Debug, Clone)]
pub struct NewMerge {
    /// The run.
    pub run: RunId,
    /// Who asked.
    pub by: AskedBy,
    /// The tip that was approved.
    pub head: String,
    /// The policy revision that was approved with it.
    pub revision: Revision,
    /// Why it may be merged although its checks did not pass.
    pub despite: Option<String>,
    /// Now.
    pub at: At,
    /// The request that asked.
    pub key: Option<RequestKey>,
}

/// An entry of the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMerge {
    /// Its number; entries of one repository are worked on in this order.
    pub number: i64,
    /// The run.
    pub run: RunId,
    /// Names the repository.
    pub repo_key: String,
    /// Who asked.
    pub by: AskedBy,
    /// Where it stands.
    pub standing: MergeStanding,
    /// The tip that was approved.
    pub head: String,
    /// The policy revision that was approved with it.
    pub revision: Revision,
    /// Why it may be merged although its checks did not pass.
    pub despite: Option<String>,
    /// When it was put in.
    pub queued_at: At,
    /// When it was over.
    pub ended_at: Option<At>,
}

/// Which entries.
#[derive(Debug, Clone, Copy, Default)]
pub struct MergeFilter<'a> {
    /// Only of this run.
    pub run: Option<&'a RunId>,
    /// Also those that are over.
    pub all: bool,
    /// At most this many.
    pub limit: u32,
}

const COLUMNS: &str = "SELECT m.number, r.id, m.repo_key, m.asked_by, m.state, m.head, m.revision, \
    m.despite, m.commit_id, m.reason, m.queued_at, m.ended_at \
    FROM merges m JOIN runs r ON r.number = m.run ";

impl Store {
    /// Puts a run into the queue of its repository. One that is in it already stays where it is, and
    /// its entry is answered.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`], [`StoreError::NoRun`]; [`StoreError::Statement`] and
    /// [`StoreError::DiskFull`].
    pub async fn queue_merge(&self, epoch: Epoch, new: &NewMerge) -> Result<i64, StoreError> {
        let what = "put a run into the merge queue";
        let mut tx = self.write(epoch).await?;
        let row = sqlx::query("SELECT number, repo_key FROM runs WHERE id = ?")
            .bind(new.run.as_str())
            .fetch_optional(&mut *tx)
            .await
            .during(what)?
            .ok_or_else(|| StoreError::NoRun(new.run.clone()))?;
        let (run, repo_key): (i64, String) = (row.get(0), row.get(1));
        let open = sqlx::query("SELECT number FROM merges WHERE run = ? AND ended_at IS NULL")
            .bind(run)
            .fetch_optional(&mut *tx)
            .await
            .during(what)?;
        let number = match open {
            Some(row) => row.get(0),
            None => sqlx::query(
                "INSERT INTO merges (run, repo_key, asked_by, state, head, revision, despite, queued_at)
                 VALUES (?, ?, ?, 'waiting', ?, ?, ?, ?) RETURNING number",
            )
            .bind(run)
            .bind(repo_key)
            .bind(new.by.tag())
            .bind(&new.head)
            .bind(signed(new.revision.0))
            .bind(&new.despite)
            .bind(new.at.as_millis())
            .fetch_one(&mut *tx)
            .await
            .during(what)?
            .get(0),
        };
        remember_request(&mut tx, new.key.as_ref(), new.run.as_str(), new.at).await?;
        tx.commit().await.during(what)?;
        Ok(number)
    }

    /// Records a run that is not put into the queue, with the reason: it is not asked about again.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`], [`StoreError::NoRun`]; [`StoreError::Statement`] and
    /// [`StoreError::DiskFull`].
    pub async fn refuse_merge(
        &self,
        epoch: Epoch,
        new: &NewMerge,
        reason: &str,
    ) -> Result<(), StoreError> {
        let what = "note why a run is not merged";
        let mut tx = self.write(epoch).await?;
        let recorded = sqlx::query(
            "INSERT INTO merges (run, repo_key, asked_by, state, head, revision, despite, reason,
                 queued_at, ended_at)
             SELECT number, repo_key, ?1, 'returned', ?2, ?3, ?4, ?5, ?6, ?6 FROM runs WHERE id = ?7",
        )
        .bind(new.by.tag())
        .bind(&new.head)
        .bind(signed(new.revision.0))
        .bind(&new.despite)
        .bind(reason)
        .bind(new.at.as_millis())
        .bind(new.run.as_str())
        .execute(&mut *tx)
        .await
        .during(what)?
        .rows_affected();
        if recorded == 0 {
            return Err(StoreError::NoRun(new.run.clone()));
        }
        tx.commit().await.during(what)
    }

    /// Notes where an entry stands. One that is over stays so.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`]; [`StoreError::Statement`] and [`StoreError::DiskFull`].
    pub async fn move_merge(
        &self,
        epoch: Epoch,
        number: i64,
        to: &MergeStanding,
        at: At,
    ) -> Result<(), StoreError> {
        let what = "note how a merge goes on";
        let (state, commit, reason) = match to {
            MergeStanding::Waiting => ("waiting", None, None),
            MergeStanding::Working => ("working", None, None),
            MergeStanding::Merged { commit } => ("merged", Some(commit), None),
            MergeStanding::Returned { reason } => ("returned", None, Some(reason)),
        };
        let mut tx = self.write(epoch).await?;
        sqlx::query(
            "UPDATE merges SET state = ?, commit_id = ?, reason = ?, ended_at = ?
             WHERE number = ? AND ended_at IS NULL",
        )
        .bind(state)
        .bind(commit)
        .bind(reason)
        .bind(to.is_over().then(|| at.as_millis()))
        .bind(number)
        .execute(&mut *tx)
        .await
        .during(what)?;
        tx.commit().await.during(what)
    }

    /// Entries: those that are not over in the order in which they are worked on, then those that are,
    /// newest first.
    ///
    /// # Errors
    /// [`StoreError::Statement`] and [`StoreError::Unreadable`].
    pub async fn merges(&self, filter: MergeFilter<'_>) -> Result<Vec<StoredMerge>, StoreError> {
        let mut query = QueryBuilder::<Sqlite>::new(COLUMNS);
        query.push("WHERE (m.ended_at IS NULL OR ");
        query.push_bind(i64::from(filter.all)).push(")");
        if let Some(run) = filter.run {
            query.push(" AND r.id = ").push_bind(run.as_str());
        }
        query.push(
            " ORDER BY m.ended_at IS NOT NULL,
              CASE WHEN m.ended_at IS NULL THEN m.number ELSE -m.number END LIMIT ",
        );
        query.push_bind(i64::from(filter.limit));
        let rows = query
            .build()
            .fetch_all(&self.reader)
            .await
            .during("read the merge queue")?;
        rows.iter().map(stored).collect()
    }

    /// The run's newest entry.
    ///
    /// # Errors
    /// [`StoreError::Statement`] and [`StoreError::Unreadable`].
    pub async fn newest_merge(&self, run: &RunId) -> Result<Option<StoredMerge>, StoreError> {
        let mut query = QueryBuilder::<Sqlite>::new(COLUMNS);
        query.push("WHERE r.id = ").push_bind(run.as_str());
        query.push(" ORDER BY m.number DESC LIMIT 1");
        query
            .build()
            .fetch_optional(&self.reader)
            .await
            .during("read the merge queue")?
            .as_ref()
            .map(stored)
            .transpose()
    }
}

fn stored(row: &SqliteRow) -> Result<StoredMerge, StoreError> {
    let text = |index: usize| row.get::<Option<String>, _>(index).unwrap_or_default();
    let standing = match row.get::<&str, _>(4) {
        "working" => MergeStanding::Working,
        "merged" => MergeStanding::Merged { commit: text(8) },
        "returned" => MergeStanding::Returned { reason: text(9) },
        // The column has a CHECK.
        _ => MergeStanding::Waiting,
    };
    Ok(StoredMerge {
        number: row.get(0),
        run: crate::error::parse("run id", &format!("\"{}\"", row.get::<&str, _>(1)))?,
        repo_key: row.get(2),
        by: match row.get::<&str, _>(3) {
            "checks" => AskedBy::Checks,
            _ => AskedBy::Operator,
        },
        standing,
        head: row.get(5),
        revision: Revision(unsigned(row.get(6))),
        despite: row.get(7),
        queued_at: At::from_millis(row.get(10)),
        ended_at: row.get::<Option<i64>, _>(11).map(At::from_millis),
    })
}
