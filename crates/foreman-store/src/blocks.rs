//! Blocks as the shims told of them, with the operator's decisions folded in.

use crate::error::{During, parse};
use crate::{Store, StoreError};
use foreman_domain::{Block, BlockId, RunId};
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row, Sqlite};

/// Which blocks.
#[derive(Debug, Clone, Default)]
pub struct BlockFilter {
    /// Only of this run.
    pub run: Option<RunId>,
    /// Only open ones.
    pub open_only: bool,
    /// Only those that ask the operator something: open ones, and as long as their run is neither merged
    /// nor discarded, what [`Block::asks`] says of those that are not.
    pub asking: bool,
    /// Only with this number in its run.
    pub number: Option<u32>,
    /// At most this many; a thousand when absent.
    pub limit: Option<u32>,
}

/// A block with what its card needs of its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBlock {
    /// The block.
    pub block: Block,
    /// Title of its run.
    pub title: String,
}

impl Store {
    /// Blocks, oldest first.
    ///
    /// # Errors
    /// [`StoreError::Statement`] and [`StoreError::Unreadable`].
    pub async fn blocks(&self, filter: &BlockFilter) -> Result<Vec<StoredBlock>, StoreError> {
        let mut query = QueryBuilder::<Sqlite>::new(
            "SELECT blocks.json, runs.title FROM blocks
             JOIN runs ON runs.number = blocks.run WHERE 1 = 1",
        );
        if filter.open_only {
            query.push(" AND blocks.state = 'open'");
        }
        if filter.asking {
            query.push(
                " AND (blocks.state = 'open' OR blocks.state = 'gone'
                       AND json_extract(blocks.json, '$.subject.bound') IN ('processes', 'open_files')
                       AND runs.state NOT IN ('merged', 'discarded'))",
            );
        }
        if let Some(run) = &filter.run {
            query.push(" AND runs.id = ").push_bind(run.as_str());
        }
        if let Some(number) = filter.number {
            query
                .push(" AND blocks.number = ")
                .push_bind(i64::from(number));
        }
        query.push(" ORDER BY blocks.first_at, blocks.run, blocks.number LIMIT ");
        query.push_bind(i64::from(filter.limit.unwrap_or(1000)));
        let rows = query
            .build()
            .fetch_all(&self.reader)
            .await
            .during("read blocks")?;
        rows.iter().map(stored).collect()
    }

    /// One block.
    ///
    /// # Errors
    /// [`StoreError::NoBlock`]; [`StoreError::Statement`] and [`StoreError::Unreadable`].
    pub async fn block(&self, id: &BlockId) -> Result<StoredBlock, StoreError> {
        let row = sqlx::query(
            "SELECT blocks.json, runs.title FROM blocks JOIN runs ON runs.number = blocks.run
             WHERE runs.id = ? AND blocks.number = ?",
        )
        .bind(id.run().as_str())
        .bind(i64::from(id.number()))
        .fetch_optional(&self.reader)
        .await
        .during("read a block")?
        .ok_or_else(|| StoreError::NoBlock(id.clone()))?;
        stored(&row)
    }
}

fn stored(row: &SqliteRow) -> Result<StoredBlock, StoreError> {
    Ok(StoredBlock {
        block: parse("block", row.get(0))?,
        title: row.get(1),
    })
}
