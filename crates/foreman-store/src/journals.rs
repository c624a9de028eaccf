//! Journals whose runs have ended and whose every event is stored: up to where they were cut.

use crate::error::{During, parse};
use crate::open::{signed, unsigned};
use crate::{Store, StoreError};
use foreman_domain::{Epoch, EventSeq, RunId};
use sqlx::Row;

/// A run at rest whose journal may still be long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleJournal {
    /// The run.
    pub run: RunId,
    /// The newest event stored.
    pub last_seq: EventSeq,
}

impl Store {
    /// Runs at rest that have events since their journal was looked after last, oldest first.
    ///
    /// # Errors
    /// [`StoreError::Statement`] and [`StoreError::Unreadable`].
    pub async fn idle_journals(&self, limit: u32) -> Result<Vec<IdleJournal>, StoreError> {
        let rows = sqlx::query(
            "SELECT runs.id, runs.last_seq FROM runs
             LEFT JOIN journals_cut ON journals_cut.run = runs.number
             WHERE runs.state NOT IN ('provisioning', 'running', 'stopping', 'merging')
                 AND runs.last_seq > coalesce(journals_cut.through, 0)
             ORDER BY runs.number LIMIT ?",
        )
        .bind(i64::from(limit))
        .fetch_all(&self.reader)
        .await
        .during("look for journals that may be cut")?;
        rows.iter()
            .map(|row| {
                Ok(IdleJournal {
                    run: parse("run id", &format!("\"{}\"", row.get::<&str, _>(0)))?,
                    last_seq: EventSeq(unsigned(row.get(1))),
                })
            })
            .collect()
    }

    /// Notes that a run's journal needs no more looking after up to an event.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`]; [`StoreError::Statement`] and [`StoreError::DiskFull`].
    pub async fn note_journal(
        &self,
        epoch: Epoch,
        run: &RunId,
        through: EventSeq,
    ) -> Result<(), StoreError> {
        let what = "note that a journal was cut";
        let mut tx = self.write(epoch).await?;
        sqlx::query(
            "INSERT INTO journals_cut (run, through)
             SELECT number, ?2 FROM runs WHERE id = ?1
             ON CONFLICT (run) DO UPDATE SET through = excluded.through",
        )
        .bind(run.as_str())
        .bind(signed(through.0))
        .execute(&mut *tx)
        .await
        .during(what)?;
        tx.commit().await.during(what)
    }
}
