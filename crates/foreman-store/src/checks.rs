//! Rounds of checks, syncs that are under way, and what was pushed where.

use crate::error::During;
use crate::open::unsigned;
use crate::{Store, StoreError};
use foreman_domain::{At, Epoch, HoldId, RunId};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, Sqlite, Transaction};

/// A round of checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRound {
    /// Its number within the run, from 1.
    pub round: u32,
    /// The commit that it checks.
    pub head: String,
    /// When it began.
    pub started_at: At,
    /// When it was over.
    pub ended_at: Option<At>,
    /// How each check ended, as the engine wrote it.
    pub results: Option<String>,
    /// Why some have no result, as a sentence.
    pub trouble: Option<String>,
}

const ROUND: &str = "SELECT round, head, started_at, ended_at, results, trouble FROM check_rounds
    WHERE run = (SELECT number FROM runs WHERE id = ?) ";

impl Store {
    /// The round that checks `head`: the one that is open, or a new one. One that is open for another
    /// commit is ended first, without results.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`], [`StoreError::NoRun`]; [`StoreError::Statement`] and
    /// [`StoreError::DiskFull`].
    pub async fn begin_round(
        &self,
        epoch: Epoch,
        run: &RunId,
        head: &str,
        at: At,
    ) -> Result<u32, StoreError> {
        let what = "begin a round of checks";
        let mut tx = self.write(epoch).await?;
        let number = number_of(&mut tx, run).await?;
        sqlx::query(
            "UPDATE check_rounds SET ended_at = ?, trouble = 'another commit took its place'
             WHERE run = ? AND ended_at IS NULL AND head <> ?",
        )
        .bind(at.as_millis())
        .bind(number)
        .bind(head)
        .execute(&mut *tx)
        .await
        .during(what)?;
        let open = sqlx::query("SELECT round FROM check_rounds WHERE run = ? AND ended_at IS NULL")
            .bind(number)
            .fetch_optional(&mut *tx)
            .await
            .during(what)?;
        let round: i64 = match open {
            Some(row) => row.get(0),
            None => sqlx::query(
                "INSERT INTO check_rounds (run, round, head, started_at)
                 SELECT ?1, coalesce(max(round), 0) + 1, ?2, ?3 FROM check_rounds WHERE run = ?1
                 RETURNING round",
            )
            .bind(number)
            .bind(head)
            .bind(at.as_millis())
            .fetch_one(&mut *tx)
            .await
            .during(what)?
            .get(0),
        };
        tx.commit().await.during(what)?;
        Ok(u32::try_from(round).unwrap_or(u32::MAX))
    }

    /// Ends a round.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`], [`StoreError::NoRun`]; [`StoreError::Statement`] and
    /// [`StoreError::DiskFull`].
    pub async fn end_round(
        &self,
        epoch: Epoch,
        run: &RunId,
        round: u32,
        results: &str,
        trouble: Option<&str>,
        at: At,
    ) -> Result<(), StoreError> {
        let what = "end a round of checks";
        let mut tx = self.write(epoch).await?;
        let number = number_of(&mut tx, run).await?;
        sqlx::query(
            "UPDATE check_rounds SET ended_at = ?, results = ?, trouble = ?
             WHERE run = ? AND round = ? AND ended_at IS NULL",
        )
        .bind(at.as_millis())
        .bind(results)
        .bind(trouble)
        .bind(number)
        .bind(i64::from(round))
        .execute(&mut *tx)
        .await
        .during(what)?;
        tx.commit().await.during(what)
    }

    /// The newest round of a run.
    ///
    /// # Errors
    /// [`StoreError::Statement`].
    pub async fn newest_round(&self, run: &RunId) -> Result<Option<StoredRound>, StoreError> {
        let query = format!("{ROUND} ORDER BY round DESC LIMIT 1");
        Ok(sqlx::query(sqlx::AssertSqlSafe(query))
            .bind(run.as_str())
            .fetch_optional(&self.reader)
            .await
            .during("read a round of checks")?
            .as_ref()
            .map(round))
    }

    /// Rounds that are not over, each with its commit.
    ///
    /// # Errors
    /// [`StoreError::Statement`].
    pub async fn open_rounds(&self) -> Result<Vec<(RunId, String)>, StoreError> {
        let rows = sqlx::query(
            "SELECT r.id, c.head FROM check_rounds c JOIN runs r ON r.number = c.run
             WHERE c.ended_at IS NULL",
        )
        .fetch_all(&self.reader)
        .await
        .during("read rounds of checks")?;
        Ok(rows
            .iter()
            .filter_map(|row| Some((row.get::<&str, _>(0).parse().ok()?, row.get(1))))
            .collect())
    }

    /// The highest numbers of blocks and holds that a run has: what comes later goes on behind them.
    ///
    /// # Errors
    /// [`StoreError::Statement`].
    pub async fn highest_block(&self, run: &RunId) -> Result<(u32, HoldId), StoreError> {
        let row = sqlx::query(
            "SELECT coalesce(max(number), 0), coalesce(max(json_extract(json, '$.last_hold')), 0)
             FROM blocks WHERE run = (SELECT number FROM runs WHERE id = ?)",
        )
        .bind(run.as_str())
        .fetch_one(&self.reader)
        .await
        .during("read the blocks of a run")?;
        let blocks = u32::try_from(unsigned(row.get(0))).unwrap_or(u32::MAX);
        Ok((blocks, HoldId(unsigned(row.get(1)))))
    }

    /// Remembers a sync before it moves anything.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`], [`StoreError::NoRun`]; [`StoreError::Statement`] and
    /// [`StoreError::DiskFull`].
    pub async fn begin_sync(
        &self,
        epoch: Epoch,
        run: &RunId,
        json: &str,
    ) -> Result<(), StoreError> {
        let what = "remember a sync";
        let mut tx = self.write(epoch).await?;
        let number = number_of(&mut tx, run).await?;
        sqlx::query(
            "INSERT INTO syncs (run, json) VALUES (?, ?)
             ON CONFLICT (run) DO UPDATE SET json = excluded.json",
        )
        .bind(number)
        .bind(json)
        .execute(&mut *tx)
        .await
        .during(what)?;
        tx.commit().await.during(what)
    }

    /// Forgets a sync that has moved everything, or nothing.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`], [`StoreError::NoRun`]; [`StoreError::Statement`] and
    /// [`StoreError::DiskFull`].
    pub async fn end_sync(&self, epoch: Epoch, run: &RunId) -> Result<(), StoreError> {
        let what = "forget a sync";
        let mut tx = self.write(epoch).await?;
        let number = number_of(&mut tx, run).await?;
        sqlx::query("DELETE FROM syncs WHERE run = ?")
            .bind(number)
            .execute(&mut *tx)
            .await
            .during(what)?;
        tx.commit().await.during(what)
    }

    /// Syncs that were cut short, by run.
    ///
    /// # Errors
    /// [`StoreError::Statement`].
    pub async fn open_syncs(&self) -> Result<Vec<(RunId, String)>, StoreError> {
        let rows = sqlx::query("SELECT r.id, s.json FROM syncs s JOIN runs r ON r.number = s.run")
            .fetch_all(&self.reader)
            .await
            .during("read the syncs under way")?;
        Ok(rows
            .iter()
            .filter_map(|row| Some((row.get::<&str, _>(0).parse().ok()?, row.get(1))))
            .collect())
    }

    /// Notes where a branch of a remote was left.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`], [`StoreError::NoRun`]; [`StoreError::Statement`] and
    /// [`StoreError::DiskFull`].
    pub async fn note_push(
        &self,
        epoch: Epoch,
        run: &RunId,
        (remote, branch): (&str, &str),
        head: &str,
        at: At,
    ) -> Result<(), StoreError> {
        let what = "note what was pushed";
        let mut tx = self.write(epoch).await?;
        let number = number_of(&mut tx, run).await?;
        sqlx::query(
            "INSERT INTO pushes (run, remote, branch, head, at) VALUES (?, ?, ?, ?, ?)
             ON CONFLICT (run, remote, branch) DO UPDATE SET head = excluded.head, at = excluded.at",
        )
        .bind(number)
        .bind(remote)
        .bind(branch)
        .bind(head)
        .bind(at.as_millis())
        .execute(&mut *tx)
        .await
        .during(what)?;
        tx.commit().await.during(what)
    }

    /// Where the last push of a run left a branch of a remote.
    ///
    /// # Errors
    /// [`StoreError::Statement`].
    pub async fn pushed(
        &self,
        run: &RunId,
        (remote, branch): (&str, &str),
    ) -> Result<Option<String>, StoreError> {
        Ok(sqlx::query(
            "SELECT head FROM pushes WHERE run = (SELECT number FROM runs WHERE id = ?)
                 AND remote = ? AND branch = ?",
        )
        .bind(run.as_str())
        .bind(remote)
        .bind(branch)
        .fetch_optional(&self.reader)
        .await
        .during("read what was pushed")?
        .map(|row| row.get(0)))
    }
}

async fn number_of(tx: &mut Transaction<'_, Sqlite>, run: &RunId) -> Result<i64, StoreError> {
    Ok(sqlx::query("SELECT number FROM runs WHERE id = ?")
        .bind(run.as_str())
        .fetch_optional(&mut **tx)
        .await
        .during("look up a run")?
        .ok_or_else(|| StoreError::NoRun(run.clone()))?
        .get(0))
}

fn round(row: &SqliteRow) -> StoredRound {
    StoredRound {
        round: u32::try_from(unsigned(row.get(0))).unwrap_or(u32::MAX),
        head: row.get(1),
        started_at: At::from_millis(row.get(2)),
        ended_at: row.get::<Option<i64>, _>(3).map(At::from_millis),
        results: row.get(4),
        trouble: row.get(5),
    }
}
