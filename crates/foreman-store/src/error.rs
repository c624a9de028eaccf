//! What can go wrong with the store. A variant is the operation with its subject.

use foreman_domain::{Block, BlockId, Epoch, EventSeq, Revision, RunId};
use std::path::PathBuf;

/// Why the store did not do it. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file cannot be opened or prepared.
    #[error("the database {} cannot be opened", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the library said.
        source: sqlx::Error,
    },
    /// A newer binary has changed the file's layout.
    #[error(
        "the database {} was written by a newer version of this program (layout {found}, this one \
         knows {known})",
        path.display()
    )]
    NewerLayout {
        /// The file.
        path: PathBuf,
        /// Layout in the file.
        found: i64,
        /// Newest layout that this binary knows.
        known: i64,
    },
    /// The layout cannot be brought up to date.
    #[error("the database {} cannot be brought to the layout of this version", path.display())]
    Migrate {
        /// The file.
        path: PathBuf,
        /// What the library said.
        source: Box<sqlx::migrate::MigrateError>,
    },
    /// The file is damaged, or is no database.
    #[error("the database {} is damaged", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What the library said.
        source: sqlx::Error,
    },
    /// The file, or the directory it is in, cannot be written.
    #[error("the database {} cannot be written: it or its directory is read-only", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
        /// What the library said.
        source: sqlx::Error,
    },
    /// Another engine has taken the data directory since.
    #[error("another engine has taken over (epoch {now}; this one is {mine})")]
    StaleEpoch {
        /// The writer's epoch.
        mine: Epoch,
        /// The epoch in force.
        now: Epoch,
    },
    /// The run was claimed anew since.
    #[error("run {run} was claimed anew since (claim {now}; this one is {mine})")]
    StaleClaim {
        /// The run.
        run: RunId,
        /// The writer's claim.
        mine: foreman_domain::RunEpoch,
        /// The claim in force.
        now: foreman_domain::RunEpoch,
    },
    /// Events do not follow those that are stored.
    #[error("events of run {run} have a hole: expected number {expected}, found {found}")]
    Hole {
        /// The run.
        run: RunId,
        /// What would have followed.
        expected: EventSeq,
        /// What came.
        found: EventSeq,
    },
    /// An event of another run was among them.
    #[error("an event of run {found} came in as one of run {run}")]
    ForeignEvent {
        /// The run that was meant.
        run: RunId,
        /// The event's run.
        found: RunId,
    },
    /// There is no such run.
    #[error("there is no run {0}")]
    NoRun(RunId),
    /// There is no such order.
    #[error("there is no order {0}")]
    NoOrder(foreman_domain::OrderId),
    /// Two orders cannot have one id.
    #[error("there is an order {0} already")]
    OrderExists(foreman_domain::OrderId),
    /// The order does not stand where it would have to.
    #[error("order {order} is {state}")]
    OrderMoved {
        /// The order.
        order: foreman_domain::OrderId,
        /// Where it stands, as a tag.
        state: &'static str,
    },
    /// An order has one live run at a time.
    #[error("order {order} has a live run already: {run}")]
    OrderHasRun {
        /// The order.
        order: foreman_domain::OrderId,
        /// Its run.
        run: String,
    },
    /// There is no such block.
    #[error("there is no block {0}")]
    NoBlock(BlockId),
    /// There is no such decision.
    #[error("there is no amendment {0}")]
    NoAmendment(foreman_domain::AmendmentId),
    /// The policy has moved since it was shown.
    #[error("the policy of run {run} has moved on from revision {shown} to {now}")]
    RevisionMoved {
        /// The run.
        run: RunId,
        /// What was shown.
        shown: Revision,
        /// What is in force.
        now: Revision,
    },
    /// The block is decided.
    #[error("block {} is decided already", .0.id)]
    AlreadyDecided(Box<Block>),
    /// The decision is no longer in force.
    #[error("amendment {} is not in force any more", .0.id)]
    NotActive(Box<foreman_domain::Amendment>),
    /// A stored value is none that this version knows.
    #[error("the database holds a {what} that this version does not know")]
    Unreadable {
        /// What kind of value.
        what: &'static str,
        /// What the parser said.
        source: serde_json::Error,
    },
    /// A value does not encode.
    #[error("a {what} does not encode")]
    Encode {
        /// What kind of value.
        what: &'static str,
        /// What the encoder said.
        source: serde_json::Error,
    },
    /// The disk is full.
    #[error("the disk is full: the database could not {what}")]
    DiskFull {
        /// What was tried.
        what: &'static str,
    },
    /// A statement failed.
    #[error("the database could not {what}")]
    Statement {
        /// What was tried.
        what: &'static str,
        /// What the library said.
        source: sqlx::Error,
    },
}

/// Names the operation that a statement belongs to.
pub(crate) trait During<T> {
    /// Attaches the operation to a failure.
    fn during(self, what: &'static str) -> Result<T, StoreError>;
}

impl<T> During<T> for Result<T, sqlx::Error> {
    fn during(self, what: &'static str) -> Result<T, StoreError> {
        self.map_err(|source| {
            if is_disk_full(&source) {
                StoreError::DiskFull { what }
            } else {
                StoreError::Statement { what, source }
            }
        })
    }
}

/// What stands in the way of opening the file.
pub(crate) fn opening(path: &std::path::Path, source: sqlx::Error) -> StoreError {
    if is_disk_full(&source) {
        return StoreError::DiskFull { what: "be opened" };
    }
    let path = path.to_owned();
    match primary_code(&source) {
        // SQLITE_CORRUPT, SQLITE_NOTADB
        Some(11 | 26) => StoreError::Damaged { path, source },
        // SQLITE_READONLY
        Some(8) => StoreError::ReadOnly { path, source },
        _ if is_read_only(&source) => StoreError::ReadOnly { path, source },
        _ => StoreError::Open { path, source },
    }
}

/// What stands in the way of bringing its layout up to date.
pub(crate) fn migrating(path: &std::path::Path, source: sqlx::migrate::MigrateError) -> StoreError {
    match source {
        sqlx::migrate::MigrateError::Execute(source)
            if is_disk_full(&source) || matches!(primary_code(&source), Some(8 | 11 | 26)) =>
        {
            opening(path, source)
        }
        source => StoreError::Migrate {
            path: path.to_owned(),
            source: Box::new(source),
        },
    }
}

/// SQLite's result code without what it adds to it.
fn primary_code(error: &sqlx::Error) -> Option<u32> {
    let code = error.as_database_error()?.code()?;
    code.parse::<u32>().ok().map(|code| code & 0xff)
}

fn is_read_only(error: &sqlx::Error) -> bool {
    let sqlx::Error::Io(error) = error else {
        return false;
    };
    matches!(
        error.kind(),
        std::io::ErrorKind::ReadOnlyFilesystem | std::io::ErrorKind::PermissionDenied
    )
}

/// `SQLITE_FULL`, or `SQLITE_IOERR_SHMSIZE`: the index of the write-ahead log could not grow, which
/// is what a full disk looks like while the file is opened.
pub(crate) fn is_disk_full(error: &sqlx::Error) -> bool {
    if let sqlx::Error::Io(error) = error {
        return matches!(
            error.kind(),
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded
        );
    }
    error
        .as_database_error()
        .and_then(|error| error.code())
        .is_some_and(|code| matches!(&*code, "13" | "4874"))
}

/// Parses a JSON column.
pub(crate) fn parse<T: serde::de::DeserializeOwned>(
    what: &'static str,
    text: &str,
) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|source| StoreError::Unreadable { what, source })
}

/// Writes a JSON column.
pub(crate) fn write<T: serde::Serialize>(
    what: &'static str,
    value: &T,
) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|source| StoreError::Encode { what, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    #[test]
    fn a_full_disk_is_told_from_other_failures_to_open() {
        let path = std::path::Path::new("/x/foreman.db");
        let failed = |kind: ErrorKind| opening(path, sqlx::Error::Io(kind.into()));
        assert!(matches!(
            failed(ErrorKind::StorageFull),
            StoreError::DiskFull { .. }
        ));
        for kind in [ErrorKind::PermissionDenied, ErrorKind::ReadOnlyFilesystem] {
            assert!(matches!(failed(kind), StoreError::ReadOnly { .. }));
        }
        assert!(matches!(
            failed(ErrorKind::IsADirectory),
            StoreError::Open { .. }
        ));
    }
}
