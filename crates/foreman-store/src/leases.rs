//! Who is in charge: the engine of the file, and its claim of each run.
//!
//! A lease is for what no transaction can fence (a process that is started, a branch that is moved): its
//! holder acts only while it is sure of it, and nobody else takes over before it has expired. What is
//! written here is fenced by the epochs alone, which need no clock.
//!
//! The file's clock decides expiry: `unixepoch` inside the transaction that asks.

use crate::error::During;
use crate::open::{signed, unsigned};
use crate::{Store, StoreError};
use foreman_domain::{At, Epoch, Fence, RunEpoch, RunId};
use sqlx::{Row, Sqlite, Transaction};
use std::time::Duration;

/// Milliseconds since the Unix epoch, as SQLite sees the time.
const NOW: &str = "CAST(unixepoch('subsec') * 1000 AS INTEGER)";

/// Whether the file was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// It is ours, under this epoch.
    Ours(Epoch),
    /// Another engine's lease has not expired.
    Held {
        /// That engine, as it described itself.
        holder: String,
        /// When its lease ends if it is not renewed.
        expires_in: Duration,
    },
}

/// Where an engine's claim of a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunLease {
    /// The newest claim.
    pub epoch: RunEpoch,
    /// When it was renewed last.
    pub heartbeat_at: Option<At>,
    /// When it ends.
    pub expires_at: Option<At>,
}

impl Store {
    /// Takes the file: the next epoch, with a lease of `ttl`, unless another engine's lease has not
    /// expired. `known_dead` says that the engine with this description has ended for certain; its
    /// lease is then not waited for.
    ///
    /// # Errors
    /// [`StoreError::Statement`] or [`StoreError::DiskFull`] when it cannot be written.
    pub async fn take_over(
        &self,
        holder: &str,
        ttl: Duration,
        known_dead: Option<&str>,
    ) -> Result<Taken, StoreError> {
        let what = "take the file over";
        let mut tx = self.begin().await?;
        let row = sqlx::query(sqlx::AssertSqlSafe(format!(
            "SELECT holder, lease_expires_at - {NOW} FROM meta WHERE id = 1"
        )))
        .fetch_one(&mut *tx)
        .await
        .during(what)?;
        let (before, left): (Option<String>, i64) = (row.get(0), row.get(1));
        if let Some(before) = before
            && left > 0
            && known_dead != Some(before.as_str())
        {
            return Ok(Taken::Held {
                holder: before,
                expires_in: Duration::from_millis(unsigned(left)),
            });
        }
        let epoch: i64 = sqlx::query(sqlx::AssertSqlSafe(format!(
            "UPDATE meta SET epoch = epoch + 1, holder = ?, lease_expires_at = {NOW} + ?
             WHERE id = 1 RETURNING epoch"
        )))
        .bind(holder)
        .bind(millis(ttl))
        .fetch_one(&mut *tx)
        .await
        .during(what)?
        .get(0);
        tx.commit().await.during(what)?;
        Ok(Taken::Ours(Epoch(unsigned(epoch))))
    }

    /// The engine that took the file last, as it described itself.
    ///
    /// # Errors
    /// [`StoreError::Statement`] when it cannot be read.
    pub async fn holder(&self) -> Result<Option<String>, StoreError> {
        Ok(sqlx::query("SELECT holder FROM meta WHERE id = 1")
            .fetch_one(&self.reader)
            .await
            .during("read who holds the file")?
            .get(0))
    }

    /// A heartbeat: renews the lease of the file and those of the followed runs, and answers the runs
    /// whose claim is no longer the newest one.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`]; [`StoreError::Statement`] and [`StoreError::DiskFull`].
    pub async fn renew(
        &self,
        epoch: Epoch,
        runs: &[(RunId, RunEpoch)],
        ttl: Duration,
    ) -> Result<Vec<RunId>, StoreError> {
        let what = "renew a lease";
        let mut tx = self.write(epoch).await?;
        sqlx::query(sqlx::AssertSqlSafe(format!(
            "UPDATE meta SET lease_expires_at = {NOW} + ? WHERE id = 1"
        )))
        .bind(millis(ttl))
        .execute(&mut *tx)
        .await
        .during(what)?;
        let mut lost = Vec::new();
        for (run, claim) in runs {
            let renewed = sqlx::query(sqlx::AssertSqlSafe(format!(
                "UPDATE runs SET lease_expires_at = {NOW} + ?, heartbeat_at = {NOW}
                 WHERE id = ? AND run_epoch = ?"
            )))
            .bind(millis(ttl))
            .bind(run.as_str())
            .bind(signed(claim.0))
            .execute(&mut *tx)
            .await
            .during(what)?
            .rows_affected();
            if renewed == 0 {
                lost.push(run.clone());
            }
        }
        tx.commit().await.during(what)?;
        Ok(lost)
    }

    /// Gives the file back: the next engine need not wait.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`]; [`StoreError::Statement`] and [`StoreError::DiskFull`].
    pub async fn release(&self, epoch: Epoch) -> Result<(), StoreError> {
        let what = "give a lease back";
        let mut tx = self.write(epoch).await?;
        sqlx::query("UPDATE meta SET lease_expires_at = 0 WHERE id = 1")
            .execute(&mut *tx)
            .await
            .during(what)?;
        tx.commit().await.during(what)
    }

    /// Claims a run: every older claim of it can write no more.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`], [`StoreError::NoRun`]; [`StoreError::Statement`] and
    /// [`StoreError::DiskFull`].
    pub async fn claim_run(
        &self,
        epoch: Epoch,
        run: &RunId,
        ttl: Duration,
    ) -> Result<RunEpoch, StoreError> {
        let what = "claim a run";
        let mut tx = self.write(epoch).await?;
        let claimed = sqlx::query(sqlx::AssertSqlSafe(format!(
            "UPDATE runs SET run_epoch = run_epoch + 1, heartbeat_at = {NOW},
                 lease_expires_at = {NOW} + ? WHERE id = ? RETURNING run_epoch"
        )))
        .bind(millis(ttl))
        .bind(run.as_str())
        .fetch_optional(&mut *tx)
        .await
        .during(what)?
        .ok_or_else(|| StoreError::NoRun(run.clone()))?
        .get(0);
        tx.commit().await.during(what)?;
        Ok(RunEpoch(unsigned(claimed)))
    }

    /// Lets a run go that nobody follows any more. The claim stays the newest one.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`], [`StoreError::StaleClaim`], [`StoreError::NoRun`];
    /// [`StoreError::Statement`] and [`StoreError::DiskFull`].
    pub async fn let_go(&self, fence: Fence, run: &RunId) -> Result<(), StoreError> {
        let what = "let a run go";
        let mut tx = self.write_run(fence, run).await?;
        sqlx::query("UPDATE runs SET lease_expires_at = NULL WHERE id = ?")
            .bind(run.as_str())
            .execute(&mut *tx)
            .await
            .during(what)?;
        tx.commit().await.during(what)
    }

    /// Where the claim of a run stands.
    ///
    /// # Errors
    /// [`StoreError::NoRun`]; [`StoreError::Statement`] when it cannot be read.
    pub async fn run_lease(&self, run: &RunId) -> Result<RunLease, StoreError> {
        let row =
            sqlx::query("SELECT run_epoch, heartbeat_at, lease_expires_at FROM runs WHERE id = ?")
                .bind(run.as_str())
                .fetch_optional(&self.reader)
                .await
                .during("read the lease of a run")?
                .ok_or_else(|| StoreError::NoRun(run.clone()))?;
        Ok(RunLease {
            epoch: RunEpoch(unsigned(row.get(0))),
            heartbeat_at: row.get::<Option<i64>, _>(1).map(At::from_millis),
            expires_at: row.get::<Option<i64>, _>(2).map(At::from_millis),
        })
    }

    /// Notes how many processes were killed when a run's cage was torn down.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`], [`StoreError::StaleClaim`], [`StoreError::NoRun`];
    /// [`StoreError::Statement`] and [`StoreError::DiskFull`].
    pub async fn note_killed(
        &self,
        fence: Fence,
        run: &RunId,
        killed: u32,
    ) -> Result<(), StoreError> {
        let what = "note what was killed";
        let mut tx = self.write_run(fence, run).await?;
        sqlx::query("UPDATE runs SET killed = ? WHERE id = ?")
            .bind(i64::from(killed))
            .bind(run.as_str())
            .execute(&mut *tx)
            .await
            .during(what)?;
        tx.commit().await.during(what)
    }

    /// Begins a write to a run. Both epochs are compared inside the transaction, which holds the write
    /// lock until it ends.
    pub(crate) async fn write_run(
        &self,
        fence: Fence,
        run: &RunId,
    ) -> Result<Transaction<'_, Sqlite>, StoreError> {
        let mut tx = self.write(fence.engine).await?;
        check_claim(&mut tx, fence, run).await?;
        Ok(tx)
    }
}

/// Refuses a write to a run under another claim than the newest one, inside its transaction.
pub(crate) async fn check_claim(
    tx: &mut Transaction<'_, Sqlite>,
    fence: Fence,
    run: &RunId,
) -> Result<(), StoreError> {
    let now: i64 = sqlx::query("SELECT run_epoch FROM runs WHERE id = ?")
        .bind(run.as_str())
        .fetch_optional(&mut **tx)
        .await
        .during("read who claimed a run")?
        .ok_or_else(|| StoreError::NoRun(run.clone()))?
        .get(0);
    let now = RunEpoch(unsigned(now));
    if now != fence.run {
        return Err(StoreError::StaleClaim {
            run: run.clone(),
            mine: fence.run,
            now,
        });
    }
    Ok(())
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
