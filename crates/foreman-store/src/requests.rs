//! What runs were asked to do, kept for as long as they may be tried again.

use crate::error::During;
use crate::{Store, StoreError};
use foreman_domain::{Epoch, RunId};
use sqlx::Row;

impl Store {
    /// Keeps what `run` was asked to do; opaque here. It goes when the run is merged or discarded.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`], [`StoreError::NoRun`]; [`StoreError::Statement`] and
    /// [`StoreError::DiskFull`].
    pub async fn keep_request(
        &self,
        epoch: Epoch,
        run: &RunId,
        json: &str,
    ) -> Result<(), StoreError> {
        let what = "keep what a run was asked to do";
        let mut tx = self.write(epoch).await?;
        let rows = sqlx::query(
            "INSERT INTO run_requests (run, json) SELECT number, ? FROM runs WHERE id = ?
             ON CONFLICT (run) DO UPDATE SET json = excluded.json",
        )
        .bind(json)
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

    /// What `run` was asked to do; none when that was never kept, or is not kept any more.
    ///
    /// # Errors
    /// [`StoreError::Statement`].
    pub async fn kept_request(&self, run: &RunId) -> Result<Option<String>, StoreError> {
        let row = sqlx::query(
            "SELECT json FROM run_requests WHERE run = (SELECT number FROM runs WHERE id = ?)",
        )
        .bind(run.as_str())
        .fetch_optional(&self.reader)
        .await
        .during("read what a run was asked to do")?;
        Ok(row.map(|row| row.get(0)))
    }
}
