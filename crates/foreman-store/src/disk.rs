//! Removals that are not done yet, and the log of what was removed and kept.

use crate::error::{During, parse};
use crate::open::{signed, unsigned};
use crate::{Store, StoreError};
use foreman_domain::{At, Epoch, RunId};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

/// A removal that was asked for and is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingRemoval {
    /// The run.
    pub run: RunId,
    /// When it was asked for first.
    pub asked_at: At,
    /// How often it was tried.
    pub tries: u32,
    /// When it was tried last.
    pub tried_at: Option<At>,
    /// Why that did not finish it, as a sentence.
    pub error: Option<String>,
}

/// What was done about a run's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskAction {
    /// Everything went; a snapshot has it.
    Removed,
    /// They stay.
    Kept,
    /// They were to go and did not.
    Failed,
}

impl DiskAction {
    /// The word in the table and on the wire.
    #[must_use]
    pub fn tag(self) -> &'static str {
        match self {
            Self::Removed => "removed",
            Self::Kept => "kept",
            Self::Failed => "failed",
        }
    }
}

/// One entry of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskEntry {
    /// When.
    pub at: At,
    /// The run.
    pub run: RunId,
    /// What was done.
    pub action: DiskAction,
    /// Snapshot, reason or error.
    pub detail: String,
    /// Bytes that it is about.
    pub bytes: u64,
}

impl Store {
    /// Records that a run's files are to go; the first time counts.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`]; [`StoreError::Statement`] and [`StoreError::DiskFull`].
    pub async fn ask_removal(&self, epoch: Epoch, run: &RunId, at: At) -> Result<(), StoreError> {
        let what = "record a removal";
        let mut tx = self.write(epoch).await?;
        sqlx::query(
            "INSERT INTO removals (run, asked_at) VALUES (?, ?) ON CONFLICT (run) DO NOTHING",
        )
        .bind(run.as_str())
        .bind(at.as_millis())
        .execute(&mut *tx)
        .await
        .during(what)?;
        tx.commit().await.during(what)
    }

    /// Records that a try did not finish it.
    ///
    /// # Errors
    /// As [`Store::ask_removal`].
    pub async fn removal_failed(
        &self,
        epoch: Epoch,
        run: &RunId,
        at: At,
        error: &str,
    ) -> Result<(), StoreError> {
        let what = "record a removal";
        let mut tx = self.write(epoch).await?;
        sqlx::query("UPDATE removals SET tries = tries + 1, tried_at = ?, error = ? WHERE run = ?")
            .bind(at.as_millis())
            .bind(error)
            .bind(run.as_str())
            .execute(&mut *tx)
            .await
            .during(what)?;
        tx.commit().await.during(what)
    }

    /// Records that nothing is left to remove, or that nothing is to be removed any more.
    ///
    /// # Errors
    /// As [`Store::ask_removal`].
    pub async fn forget_removal(&self, epoch: Epoch, run: &RunId) -> Result<(), StoreError> {
        let what = "end a removal";
        let mut tx = self.write(epoch).await?;
        sqlx::query("DELETE FROM removals WHERE run = ?")
            .bind(run.as_str())
            .execute(&mut *tx)
            .await
            .during(what)?;
        tx.commit().await.during(what)
    }

    /// Removals that are not done, oldest first.
    ///
    /// # Errors
    /// [`StoreError::Statement`] and [`StoreError::Unreadable`].
    pub async fn pending_removals(&self) -> Result<Vec<PendingRemoval>, StoreError> {
        let rows = sqlx::query(
            "SELECT run, asked_at, tries, tried_at, error FROM removals ORDER BY asked_at, run",
        )
        .fetch_all(&self.reader)
        .await
        .during("read removals")?;
        rows.iter()
            .map(|row| {
                Ok(PendingRemoval {
                    run: run_id(row, 0)?,
                    asked_at: At::from_millis(row.get(1)),
                    tries: u32::try_from(row.get::<i64, _>(2)).unwrap_or(u32::MAX),
                    tried_at: row.get::<Option<i64>, _>(3).map(At::from_millis),
                    error: row.get(4),
                })
            })
            .collect()
    }

    /// Notes what was done about a run's files, unless that is what was noted last about it.
    ///
    /// # Errors
    /// As [`Store::ask_removal`].
    pub async fn note_disk(&self, epoch: Epoch, entry: &DiskEntry) -> Result<(), StoreError> {
        let what = "write the disk log";
        let mut tx = self.write(epoch).await?;
        sqlx::query(
            "INSERT INTO disk_log (at, run, action, detail, bytes)
             SELECT ?1, ?2, ?3, ?4, ?5 WHERE NOT EXISTS (
                 SELECT 1 FROM disk_log WHERE number =
                     (SELECT max(number) FROM disk_log WHERE run = ?2)
                 AND action = ?3 AND detail = ?4 AND action <> 'removed')",
        )
        .bind(entry.at.as_millis())
        .bind(entry.run.as_str())
        .bind(entry.action.tag())
        .bind(&entry.detail)
        .bind(signed(entry.bytes))
        .execute(&mut *tx)
        .await
        .during(what)?;
        tx.commit().await.during(what)
    }

    /// When the newest event of a run that is still stored happened.
    ///
    /// # Errors
    /// [`StoreError::Statement`].
    pub async fn last_news_at(&self, run: &RunId) -> Result<Option<At>, StoreError> {
        let row = sqlx::query(
            "SELECT at FROM events WHERE run = (SELECT number FROM runs WHERE id = ?)
             ORDER BY seq DESC LIMIT 1",
        )
        .bind(run.as_str())
        .fetch_optional(&self.reader)
        .await
        .during("read the newest event")?;
        Ok(row.map(|row| At::from_millis(row.get(0))))
    }

    /// The newest entries of the log, newest first.
    ///
    /// # Errors
    /// [`StoreError::Statement`] and [`StoreError::Unreadable`].
    pub async fn disk_log(&self, limit: u32) -> Result<Vec<DiskEntry>, StoreError> {
        let rows = sqlx::query(
            "SELECT at, run, action, detail, bytes FROM disk_log ORDER BY number DESC LIMIT ?",
        )
        .bind(i64::from(limit))
        .fetch_all(&self.reader)
        .await
        .during("read the disk log")?;
        rows.iter()
            .map(|row| {
                let action = format!("\"{}\"", row.get::<&str, _>(2));
                Ok(DiskEntry {
                    at: At::from_millis(row.get(0)),
                    run: run_id(row, 1)?,
                    action: parse("disk action", &action)?,
                    detail: row.get(3),
                    bytes: unsigned(row.get(4)),
                })
            })
            .collect()
    }
}

fn run_id(row: &SqliteRow, index: usize) -> Result<RunId, StoreError> {
    parse("run id", &format!("\"{}\"", row.get::<&str, _>(index)))
}
