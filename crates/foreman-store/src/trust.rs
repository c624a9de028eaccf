//! Consent to a repository's policy file, kept outside the repository and bound to its content.

use crate::error::During;
use crate::{Store, StoreError};
use foreman_domain::{At, Epoch};

impl Store {
    /// Trusts this content of a repository's policy file.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`]; [`StoreError::Statement`] and [`StoreError::DiskFull`].
    pub async fn trust(
        &self,
        epoch: Epoch,
        repo_key: &str,
        hash: &str,
        at: At,
    ) -> Result<(), StoreError> {
        let mut tx = self.write(epoch).await?;
        sqlx::query(
            "INSERT INTO trust (repo_key, hash, trusted_at) VALUES (?, ?, ?)
             ON CONFLICT (repo_key, hash) DO NOTHING",
        )
        .bind(repo_key)
        .bind(hash)
        .bind(at.as_millis())
        .execute(&mut *tx)
        .await
        .during("trust a policy file")?;
        tx.commit().await.during("trust a policy file")
    }

    /// Whether exactly this content is trusted.
    ///
    /// # Errors
    /// [`StoreError::Statement`].
    pub async fn is_trusted(&self, repo_key: &str, hash: &str) -> Result<bool, StoreError> {
        Ok(
            sqlx::query("SELECT 1 FROM trust WHERE repo_key = ? AND hash = ?")
                .bind(repo_key)
                .bind(hash)
                .fetch_optional(&self.reader)
                .await
                .during("look up trust")?
                .is_some(),
        )
    }

    /// Whether any content of this repository's policy file was ever trusted.
    ///
    /// # Errors
    /// [`StoreError::Statement`].
    pub async fn was_ever_trusted(&self, repo_key: &str) -> Result<bool, StoreError> {
        Ok(
            sqlx::query("SELECT 1 FROM trust WHERE repo_key = ? LIMIT 1")
                .bind(repo_key)
                .fetch_optional(&self.reader)
                .await
                .during("look up trust")?
                .is_some(),
        )
    }
}
