//! Reading recorded decisions.

use crate::error::{During, parse};
use crate::open::{signed, unsigned};
use crate::{Store, StoreError};
use foreman_domain::{Amendment, AmendmentId, Revision, RunId};
use foreman_policy::EgressRule;
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row, Sqlite};

/// A decision as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredAmendment {
    /// The record.
    pub amendment: Amendment,
    /// The repository it was made in.
    pub repo_key: String,
    /// The rule of an allowing one.
    pub rule: Option<EgressRule>,
}

impl Store {
    /// One decision.
    ///
    /// # Errors
    /// [`StoreError::NoAmendment`]; [`StoreError::Statement`] and [`StoreError::Unreadable`].
    pub async fn amendment(&self, id: &AmendmentId) -> Result<StoredAmendment, StoreError> {
        let mut query = QueryBuilder::<Sqlite>::new(AMENDMENT_COLUMNS);
        query.push("WHERE runs.id = ").push_bind(id.run().as_str());
        query
            .push(" AND amendments.number = ")
            .push_bind(i64::from(id.number()));
        let row = query
            .build()
            .fetch_optional(&self.reader)
            .await
            .during("read a decision")?
            .ok_or_else(|| StoreError::NoAmendment(id.clone()))?;
        stored(&row)
    }

    /// Decisions made in a run, or that reach it from its order or repository; newest first.
    ///
    /// # Errors
    /// [`StoreError::NoRun`]; [`StoreError::Statement`] and [`StoreError::Unreadable`].
    pub async fn amendments_of_run(&self, run: &RunId) -> Result<Vec<StoredAmendment>, StoreError> {
        let stored_run = self.run(run).await?;
        let mut query = QueryBuilder::<Sqlite>::new(AMENDMENT_COLUMNS);
        query.push("WHERE runs.id = ").push_bind(run.as_str());
        query.push(" OR (amendments.state = 'active' AND ((amendments.scope = 'order'");
        query
            .push(" AND amendments.order_id = ")
            .push_bind(stored_run.order.as_str().to_owned());
        query.push(") OR (amendments.scope = 'project' AND amendments.repo_key = ");
        query.push_bind(stored_run.repo_key);
        query.push("))) ORDER BY amendments.place DESC");
        self.select_amendments(query).await
    }

    /// Decisions of all runs, newest first, at most `limit`: those in force, or all.
    ///
    /// # Errors
    /// [`StoreError::Statement`] and [`StoreError::Unreadable`].
    pub async fn amendments(
        &self,
        all: bool,
        limit: u32,
    ) -> Result<Vec<StoredAmendment>, StoreError> {
        let mut query = QueryBuilder::<Sqlite>::new(AMENDMENT_COLUMNS);
        if !all {
            query.push("WHERE amendments.state = 'active' ");
        }
        query
            .push("ORDER BY amendments.place DESC LIMIT ")
            .push_bind(i64::from(limit));
        self.select_amendments(query).await
    }

    /// Decisions with project scope in a repository, newest first.
    ///
    /// # Errors
    /// [`StoreError::Statement`] and [`StoreError::Unreadable`].
    pub async fn amendments_of_repo(
        &self,
        repo_key: &str,
    ) -> Result<Vec<StoredAmendment>, StoreError> {
        let mut query = QueryBuilder::<Sqlite>::new(AMENDMENT_COLUMNS);
        query.push("WHERE amendments.scope = 'project' AND amendments.repo_key = ");
        query.push_bind(repo_key);
        query.push(" ORDER BY amendments.place DESC");
        self.select_amendments(query).await
    }

    /// The newest decision that is in force, of all runs.
    ///
    /// # Errors
    /// [`StoreError::Statement`] and [`StoreError::Unreadable`].
    pub async fn newest_decision(&self) -> Result<Option<StoredAmendment>, StoreError> {
        let mut query = QueryBuilder::<Sqlite>::new(AMENDMENT_COLUMNS);
        query.push("WHERE amendments.state = 'active'");
        query.push(" ORDER BY amendments.place DESC LIMIT 1");
        Ok(self.select_amendments(query).await?.pop())
    }

    /// The decisions that made a run's policy revisions after this one, in order: what a shim that
    /// stands at `after` has to be told.
    ///
    /// # Errors
    /// [`StoreError::Statement`] and [`StoreError::Unreadable`].
    pub async fn revisions_after(
        &self,
        run: &RunId,
        after: Revision,
    ) -> Result<Vec<(Revision, Amendment)>, StoreError> {
        let rows = sqlx::query(
            "SELECT revisions.revision, amendments.json FROM revisions
             JOIN amendments ON amendments.run = revisions.amendment_run
                 AND amendments.number = revisions.amendment_number
             WHERE revisions.run = (SELECT number FROM runs WHERE id = ?)
                 AND revisions.revision > ?
             ORDER BY revisions.revision",
        )
        .bind(run.as_str())
        .bind(signed(after.0))
        .fetch_all(&self.reader)
        .await
        .during("read decisions")?;
        rows.iter()
            .map(|row| {
                Ok((
                    Revision(unsigned(row.get(0))),
                    parse("amendment", row.get(1))?,
                ))
            })
            .collect()
    }

    async fn select_amendments(
        &self,
        mut query: QueryBuilder<Sqlite>,
    ) -> Result<Vec<StoredAmendment>, StoreError> {
        let rows = query
            .build()
            .fetch_all(&self.reader)
            .await
            .during("read decisions")?;
        rows.iter().map(stored).collect()
    }
}

const AMENDMENT_COLUMNS: &str = "SELECT amendments.json, amendments.repo_key, \
    amendments.rule_json FROM amendments JOIN runs ON runs.number = amendments.run ";

fn stored(row: &SqliteRow) -> Result<StoredAmendment, StoreError> {
    let rule: Option<&str> = row.get(2);
    Ok(StoredAmendment {
        amendment: parse("amendment", row.get(0))?,
        repo_key: row.get(1),
        rule: rule.map(|text| parse("rule", text)).transpose()?,
    })
}
