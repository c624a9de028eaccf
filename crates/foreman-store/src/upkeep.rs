//! Looking after the file: moving the write-ahead log into it, and giving freed pages back.
//!
//! None of it changes what is stored or waits for a reader; leaving it out costs only room on the disk.

use crate::error::During;
use crate::{Store, StoreError};
use sqlx::Row;
use std::path::PathBuf;

/// Pages given back in one go.
const PAGES: u32 = 2_000;

/// What the database takes on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSizes {
    /// The file itself.
    pub database: u64,
    /// Its write-ahead log.
    pub log: u64,
    /// Part of the file that holds nothing.
    pub free: u64,
}

impl Store {
    /// Moves what the write-ahead log holds into the file, as far as no reader needs it where it is.
    ///
    /// # Errors
    /// [`StoreError::Statement`] and [`StoreError::DiskFull`].
    pub async fn checkpoint(&self) -> Result<(), StoreError> {
        self.run_checkpoint("PRAGMA wal_checkpoint(PASSIVE)").await
    }

    /// As [`Store::checkpoint`], and empties the log when nobody reads right now.
    ///
    /// # Errors
    /// [`StoreError::Statement`] and [`StoreError::DiskFull`].
    pub async fn empty_log(&self) -> Result<(), StoreError> {
        self.run_checkpoint("PRAGMA wal_checkpoint(TRUNCATE)").await
    }

    async fn run_checkpoint(&self, statement: &'static str) -> Result<(), StoreError> {
        let what = "move the write-ahead log into the database";
        let mut writer = self.writer.acquire().await.during(what)?;
        // A reader is not waited for: writers would have to wait with us.
        for pragma in [
            "PRAGMA busy_timeout = 0",
            statement,
            "PRAGMA busy_timeout = 5000",
        ] {
            sqlx::query(pragma)
                .fetch_all(&mut *writer)
                .await
                .during(what)?;
        }
        Ok(())
    }

    /// Gives some of the pages that hold nothing back to the file system; true while there are more. A
    /// file that was made by an early version keeps its pages for what comes.
    ///
    /// # Errors
    /// [`StoreError::Statement`] and [`StoreError::DiskFull`].
    pub async fn give_back(&self) -> Result<bool, StoreError> {
        let what = "give free pages back";
        let mut writer = self.writer.acquire().await.during(what)?;
        let mode: i64 = sqlx::query("PRAGMA auto_vacuum")
            .fetch_one(&mut *writer)
            .await
            .during(what)?
            .get(0);
        if mode != 2 {
            return Ok(false);
        }
        sqlx::query(sqlx::AssertSqlSafe(format!(
            "PRAGMA incremental_vacuum({PAGES})"
        )))
        .fetch_all(&mut *writer)
        .await
        .during(what)?;
        let left: i64 = sqlx::query("PRAGMA freelist_count")
            .fetch_one(&mut *writer)
            .await
            .during(what)?
            .get(0);
        Ok(left > 0)
    }

    /// What is wrong with the file, as SQLite's own check of all of it says; empty when nothing is.
    ///
    /// # Errors
    /// [`StoreError::Statement`] when it is so damaged that it cannot be checked.
    pub async fn integrity(&self) -> Result<Vec<String>, StoreError> {
        let rows = sqlx::query("PRAGMA integrity_check")
            .fetch_all(&self.reader)
            .await
            .during("check the database")?;
        let said = rows.iter().map(|row| row.get::<String, _>(0));
        Ok(said.filter(|line| line != "ok").collect())
    }

    /// What the database takes on the disk.
    ///
    /// # Errors
    /// [`StoreError::Statement`].
    pub async fn file_sizes(&self) -> Result<FileSizes, StoreError> {
        let row = sqlx::query(
            "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size",
        )
        .fetch_one(&self.reader)
        .await
        .during("read how large the database is")?;
        Ok(FileSizes {
            database: size_of(self.path().to_owned()),
            log: self.log_bytes(),
            free: crate::open::unsigned(row.get(0)),
        })
    }

    /// What the write-ahead log takes on the disk.
    #[must_use]
    pub fn log_bytes(&self) -> u64 {
        let mut name = self.path().as_os_str().to_owned();
        name.push("-wal");
        size_of(name.into())
    }
}

/// A file that is not there takes nothing.
fn size_of(path: PathBuf) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}
