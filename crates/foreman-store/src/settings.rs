//! What the operator has set: one JSON value a key.

use crate::error::{During, parse, write};
use crate::{Store, StoreError};
use foreman_domain::Epoch;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::Row;

impl Store {
    /// What is set under a key; `None` where nothing was set.
    ///
    /// # Errors
    /// [`StoreError::Statement`] and [`StoreError::Unreadable`].
    pub async fn setting<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, StoreError> {
        let row = sqlx::query("SELECT json FROM settings WHERE key = ?")
            .bind(key)
            .fetch_optional(&self.reader)
            .await
            .during("read a setting")?;
        row.map(|row| parse("setting", row.get(0))).transpose()
    }

    /// Sets a key.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`]; [`StoreError::Encode`], [`StoreError::Statement`] and
    /// [`StoreError::DiskFull`].
    pub async fn set_setting<T: Serialize + Sync>(
        &self,
        epoch: Epoch,
        key: &str,
        value: &T,
    ) -> Result<(), StoreError> {
        let what = "write a setting";
        let json = write("setting", value)?;
        let mut tx = self.write(epoch).await?;
        sqlx::query(
            "INSERT INTO settings (key, json) VALUES (?, ?)
             ON CONFLICT (key) DO UPDATE SET json = excluded.json",
        )
        .bind(key)
        .bind(json)
        .execute(&mut *tx)
        .await
        .during(what)?;
        tx.commit().await.during(what)
    }
}
