//! Folders that are watched, and what became of each order file in them.

use crate::error::{During, parse, write};
use crate::orders::{NewOrder, OrderEdit, edit_in, insert};
use crate::{Store, StoreError};
use foreman_domain::{At, Epoch, OrderId};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, Sqlite, Transaction};

/// What became of one content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderFile {
    /// The file.
    pub path: String,
    /// The watched folder that it is in.
    pub folder: String,
    /// Names its content.
    pub hash: String,
    /// Orders that it made.
    pub orders: Vec<OrderId>,
    /// Why this content gave none, or did not change those that it had made.
    pub fault: Option<String>,
    /// When this content was looked at.
    pub seen_at: At,
}

impl Store {
    /// Watched folders, by name.
    ///
    /// # Errors
    /// [`StoreError::Statement`].
    pub async fn watched_folders(&self) -> Result<Vec<String>, StoreError> {
        let rows = sqlx::query("SELECT folder FROM watched_folders ORDER BY folder")
            .fetch_all(&self.reader)
            .await
            .during("read watched folders")?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// Watches a folder from now on; true when it was not watched before.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`]; [`StoreError::Statement`] and [`StoreError::DiskFull`].
    pub async fn watch_folder(
        &self,
        epoch: Epoch,
        folder: &str,
        at: At,
    ) -> Result<bool, StoreError> {
        let what = "watch a folder";
        let mut tx = self.write(epoch).await?;
        let rows = sqlx::query(
            "INSERT INTO watched_folders (folder, added_at) VALUES (?, ?)
             ON CONFLICT (folder) DO NOTHING",
        )
        .bind(folder)
        .bind(at.as_millis())
        .execute(&mut *tx)
        .await
        .during(what)?
        .rows_affected();
        tx.commit().await.during(what)?;
        Ok(rows > 0)
    }

    /// Watches a folder no more; true when it was. Its orders stay, and what its files made is still
    /// known if it is watched again.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`]; [`StoreError::Statement`] and [`StoreError::DiskFull`].
    pub async fn unwatch_folder(&self, epoch: Epoch, folder: &str) -> Result<bool, StoreError> {
        let what = "stop watching a folder";
        let mut tx = self.write(epoch).await?;
        let rows = sqlx::query("DELETE FROM watched_folders WHERE folder = ?")
            .bind(folder)
            .execute(&mut *tx)
            .await
            .during(what)?
            .rows_affected();
        tx.commit().await.during(what)?;
        Ok(rows > 0)
    }

    /// What became of files, by path.
    ///
    /// # Errors
    /// [`StoreError::Statement`] and [`StoreError::Unreadable`].
    pub async fn order_files(&self) -> Result<Vec<OrderFile>, StoreError> {
        let rows = sqlx::query(
            "SELECT path, folder, hash, orders, fault, seen_at FROM order_files ORDER BY path",
        )
        .fetch_all(&self.reader)
        .await
        .during("read order files")?;
        rows.iter().map(stored).collect()
    }

    /// Takes a file in: its new orders, the changes of those that it had made, and what became of it;
    /// all of that, or nothing.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`], [`StoreError::OrderExists`], [`StoreError::NoOrder`],
    /// [`StoreError::OrderMoved`]; [`StoreError::Statement`] and [`StoreError::DiskFull`].
    pub async fn take_order_file(
        &self,
        epoch: Epoch,
        file: &OrderFile,
        new: &[NewOrder],
        edits: &[(OrderId, OrderEdit)],
    ) -> Result<(), StoreError> {
        let mut tx = self.write(epoch).await?;
        for order in new {
            insert(&mut tx, order).await?;
        }
        for (id, edit) in edits {
            edit_in(&mut tx, id, edit, file.seen_at).await?;
        }
        remember(&mut tx, file).await?;
        tx.commit().await.during("take an order file in")
    }

    /// A file got another name: what became of it goes with it.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`]; [`StoreError::Statement`] and [`StoreError::DiskFull`].
    pub async fn move_order_file(
        &self,
        epoch: Epoch,
        from: &str,
        to: &str,
        folder: &str,
    ) -> Result<(), StoreError> {
        let what = "note that an order file was renamed";
        let mut tx = self.write(epoch).await?;
        sqlx::query("UPDATE order_files SET path = ?, folder = ? WHERE path = ?")
            .bind(to)
            .bind(folder)
            .bind(from)
            .execute(&mut *tx)
            .await
            .during(what)?;
        tx.commit().await.during(what)
    }

    /// Forgets the fault of a file that is gone; what it made stays known.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`]; [`StoreError::Statement`] and [`StoreError::DiskFull`].
    pub async fn order_file_is_gone(&self, epoch: Epoch, path: &str) -> Result<(), StoreError> {
        let what = "note that an order file is gone";
        let mut tx = self.write(epoch).await?;
        sqlx::query("DELETE FROM order_files WHERE path = ? AND orders = '[]'")
            .bind(path)
            .execute(&mut *tx)
            .await
            .during(what)?;
        sqlx::query("UPDATE order_files SET fault = NULL WHERE path = ?")
            .bind(path)
            .execute(&mut *tx)
            .await
            .during(what)?;
        tx.commit().await.during(what)
    }
}

async fn remember(tx: &mut Transaction<'_, Sqlite>, file: &OrderFile) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO order_files (path, folder, hash, orders, fault, seen_at)
         VALUES (?, ?, ?, ?, ?, ?)
         ON CONFLICT (path) DO UPDATE SET folder = excluded.folder, hash = excluded.hash,
             orders = excluded.orders, fault = excluded.fault, seen_at = excluded.seen_at",
    )
    .bind(&file.path)
    .bind(&file.folder)
    .bind(&file.hash)
    .bind(write("list of orders", &file.orders)?)
    .bind(&file.fault)
    .bind(file.seen_at.as_millis())
    .execute(&mut **tx)
    .await
    .during("remember an order file")?;
    Ok(())
}

fn stored(row: &SqliteRow) -> Result<OrderFile, StoreError> {
    Ok(OrderFile {
        path: row.get(0),
        folder: row.get(1),
        hash: row.get(2),
        orders: parse("list of orders", row.get(3))?,
        fault: row.get(4),
        seen_at: At::from_millis(row.get(5)),
    })
}
