//! Opening the file, the epoch, and the one way to write.

use crate::StoreError;
use crate::error::During;
use crate::error::{migrating, opening};
use crate::intake::Intake;
use foreman_domain::{At, Epoch};
use sqlx::sqlite::{
    Sqlite, SqliteAutoVacuum, SqliteConnectOptions, SqliteJournalMode, SqlitePool,
    SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{Row, Transaction};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!("./migrations");

/// How long a request's key is remembered, in milliseconds: far longer than any caller retries.
const KEY_LIFE_MS: i64 = 24 * 60 * 60 * 1000;

/// Names one request of one caller, so that asking again does not do it again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestKey(pub String);

/// The database of one data directory.
#[derive(Debug, Clone)]
pub struct Store {
    path: PathBuf,
    /// One connection: writers queue here, so `BEGIN IMMEDIATE` never waits for another of ours.
    pub(crate) writer: SqlitePool,
    pub(crate) reader: SqlitePool,
    pub(crate) intake: Arc<Intake>,
}

impl Store {
    /// Opens the file, making it when absent, and brings it to the layout of this version.
    ///
    /// # Errors
    /// [`StoreError::NewerLayout`] when a newer binary wrote it, [`StoreError::Open`] and
    /// [`StoreError::Migrate`] when it cannot be used.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        let open = |source| opening(path, source);
        make_private(path).map_err(|error| open(sqlx::Error::Io(error)))?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(Duration::from_secs(5));
        let writing = options
            .clone()
            // For a file that is new: what retention drops can be given back to the file system.
            .auto_vacuum(SqliteAutoVacuum::Incremental)
            .optimize_on_close(true, 400);
        let writer = SqlitePoolOptions::new()
            .max_connections(1)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_with(writing)
            .await
            .map_err(open)?;
        refuse_newer(path, &writer).await?;
        MIGRATIONS
            .run(&writer)
            .await
            .map_err(|source| migrating(path, source))?;
        // The names of what was made are on the disk before anything is acknowledged in it.
        sync_folder_of(path).map_err(|error| open(sqlx::Error::Io(error)))?;
        let reader = SqlitePoolOptions::new()
            .max_connections(4)
            .connect_with(options.create_if_missing(false).read_only(true))
            .await
            .map_err(open)?;
        Ok(Self {
            path: path.to_owned(),
            writer,
            reader,
            intake: Arc::default(),
        })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes ownership: the epoch after the last one. Every older engine's writes fail from now on.
    ///
    /// # Errors
    /// [`StoreError::Statement`] or [`StoreError::DiskFull`] when it cannot be written.
    pub async fn take_epoch(&self) -> Result<Epoch, StoreError> {
        let epoch: i64 =
            sqlx::query("UPDATE meta SET epoch = epoch + 1 WHERE id = 1 RETURNING epoch")
                .fetch_one(&self.writer)
                .await
                .during("take a new epoch")?
                .get(0);
        Ok(Epoch(unsigned(epoch)))
    }

    /// Finishes what is under way and closes the file.
    pub async fn close(self) {
        self.reader.close().await;
        self.writer.close().await;
    }

    /// Begins a write that no epoch is needed for: the one that makes an epoch.
    pub(crate) async fn begin(&self) -> Result<Transaction<'_, Sqlite>, StoreError> {
        let what = "begin a transaction";
        match self.writer.begin_with("BEGIN IMMEDIATE").await {
            // A full disk makes SQLite roll back by itself, and the library, whose own rollback then
            // failed, takes the connection for one in a transaction for ever: another one is opened.
            Err(sqlx::Error::InvalidSavePointStatement) => {
                let broken = self.writer.acquire().await.during(what)?;
                broken.close().await.during(what)?;
                self.writer.begin_with("BEGIN IMMEDIATE").await.during(what)
            }
            begun => begun.during(what),
        }
    }

    /// Begins a write of the engine with this epoch. The epoch is compared inside the transaction,
    /// which holds the write lock until it ends: nobody can take over in between.
    pub(crate) async fn write(&self, epoch: Epoch) -> Result<Transaction<'_, Sqlite>, StoreError> {
        let mut tx = self.begin().await?;
        let now = epoch_now(&mut tx).await?;
        if now != epoch {
            return Err(StoreError::StaleEpoch { mine: epoch, now });
        }
        Ok(tx)
    }

    /// Remembers that a request concerns this subject, before what it asks for is done.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`]; [`StoreError::Statement`] and [`StoreError::DiskFull`].
    pub async fn note_request(
        &self,
        epoch: Epoch,
        key: &RequestKey,
        subject: &str,
        at: At,
    ) -> Result<(), StoreError> {
        let mut tx = self.write(epoch).await?;
        remember_request(&mut tx, Some(key), subject, at).await?;
        tx.commit().await.during("remember a request")
    }

    /// What a request with this key did: the id of the run or decision it made.
    ///
    /// # Errors
    /// [`StoreError::Statement`] when it cannot be read.
    pub async fn subject_of_request(&self, key: &RequestKey) -> Result<Option<String>, StoreError> {
        Ok(sqlx::query("SELECT subject FROM requests WHERE key = ?")
            .bind(&key.0)
            .fetch_optional(&self.reader)
            .await
            .during("look up a request")?
            .map(|row| row.get(0)))
    }
}

/// The epoch in force.
pub(crate) async fn epoch_now(tx: &mut Transaction<'_, Sqlite>) -> Result<Epoch, StoreError> {
    let now: i64 = sqlx::query("SELECT epoch FROM meta WHERE id = 1")
        .fetch_one(&mut **tx)
        .await
        .during("read the epoch")?
        .get(0);
    Ok(Epoch(unsigned(now)))
}

/// Remembers what a request did, inside the transaction that did it.
pub(crate) async fn remember_request(
    tx: &mut Transaction<'_, Sqlite>,
    key: Option<&RequestKey>,
    subject: &str,
    at: At,
) -> Result<(), StoreError> {
    let Some(key) = key else { return Ok(()) };
    sqlx::query("DELETE FROM requests WHERE at < ?")
        .bind(at.as_millis() - KEY_LIFE_MS)
        .execute(&mut **tx)
        .await
        .during("forget old requests")?;
    sqlx::query(
        "INSERT INTO requests (key, subject, at) VALUES (?, ?, ?)
         ON CONFLICT (key) DO UPDATE SET subject = excluded.subject, at = excluded.at",
    )
    .bind(&key.0)
    .bind(subject)
    .bind(at.as_millis())
    .execute(&mut **tx)
    .await
    .during("remember a request")?;
    Ok(())
}

/// Makes the file for its owner alone; what the library makes beside it has the same permissions.
fn make_private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    options
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
        .map(drop)
}

fn sync_folder_of(path: &Path) -> std::io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    std::fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

async fn refuse_newer(path: &Path, pool: &SqlitePool) -> Result<(), StoreError> {
    let what = "read its layout";
    let has_layout = sqlx::query(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '_sqlx_migrations'",
    )
    .fetch_optional(pool)
    .await
    .map_err(|source| opening(path, source))?
    .is_some();
    if !has_layout {
        return Ok(());
    }
    let found: Option<i64> = sqlx::query("SELECT max(version) FROM _sqlx_migrations")
        .fetch_one(pool)
        .await
        .during(what)?
        .get(0);
    let known = MIGRATIONS
        .iter()
        .map(|migration| migration.version)
        .max()
        .unwrap_or(0);
    match found {
        Some(found) if found > known => Err(StoreError::NewerLayout {
            path: path.to_owned(),
            found,
            known,
        }),
        _ => Ok(()),
    }
}

/// Numbers are stored signed and are never negative.
pub(crate) fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// Numbers are counters far below the signed limit.
pub(crate) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
