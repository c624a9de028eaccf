//! Where runs stand, and nothing more: what a hint carries.

use crate::error::During;
use crate::open::unsigned;
use crate::{Store, StoreError};
use foreman_domain::{EventSeq, RunId};
use sqlx::{QueryBuilder, Row, Sqlite};
use std::collections::HashMap;

/// Where a run stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The newest event.
    pub last_seq: EventSeq,
    /// The tag of its state.
    pub state: String,
}

impl Store {
    /// True while an order waits for its turn, or a folder is watched for orders.
    ///
    /// # Errors
    /// [`StoreError::Statement`] when it cannot be read.
    pub async fn has_queued_work(&self) -> Result<bool, StoreError> {
        let row = sqlx::query(
            "SELECT EXISTS (SELECT 1 FROM work_orders WHERE state = 'queued')
                 OR EXISTS (SELECT 1 FROM watched_folders)",
        )
        .fetch_one(&self.reader)
        .await
        .during("look for queued orders")?;
        Ok(row.get(0))
    }

    /// Where these runs stand; those that are not known are left out.
    ///
    /// # Errors
    /// [`StoreError::Statement`] when it cannot be read.
    pub async fn heads(&self, runs: &[RunId]) -> Result<HashMap<RunId, Head>, StoreError> {
        if runs.is_empty() {
            return Ok(HashMap::new());
        }
        let mut query =
            QueryBuilder::<Sqlite>::new("SELECT id, last_seq, state FROM runs WHERE id IN (");
        let mut ids = query.separated(", ");
        for run in runs {
            ids.push_bind(run.as_str());
        }
        query.push(")");
        let rows = query
            .build()
            .fetch_all(&self.reader)
            .await
            .during("read where runs stand")?;
        let head = |row: &sqlx::sqlite::SqliteRow| {
            let id: RunId = row.get::<&str, _>(0).parse().ok()?;
            let head = Head {
                last_seq: EventSeq(unsigned(row.get(1))),
                state: row.get(2),
            };
            Some((id, head))
        };
        Ok(rows.iter().filter_map(head).collect())
    }
}
