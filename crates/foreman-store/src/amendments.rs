//! Reading recorded decisions.

use crate::error::{During, parse};
use crate::open::{signed, unsigned};
use crate::{Store, StoreError};
use foreman_domain::{Amendment, AmendmentId, AmendmentState, At, Epoch, Revision, RunId};
use foreman_policy::Rule;
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
    pub rule: Option<Rule>,
    /// How often its rule let something through.
    pub hits: u64,
    /// When it did last.
    pub last_hit: Option<At>,
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

    /// Lets decisions lapse whose time is over; gives those.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`]; [`StoreError::Statement`] and [`StoreError::Unreadable`].
    pub async fn lapse_expired(&self, epoch: Epoch, now: At) -> Result<Vec<Amendment>, StoreError> {
        let what = "let decisions lapse";
        let mut query = QueryBuilder::<Sqlite>::new(AMENDMENT_COLUMNS);
        query.push(
            "WHERE amendments.state = 'active' AND json_extract(amendments.json, '$.expires') IS NOT NULL",
        );
        let mut over: Vec<Amendment> = self
            .select_amendments(query)
            .await?
            .into_iter()
            .map(|stored| stored.amendment)
            .filter(|amendment| amendment.expires.is_some_and(|expires| expires <= now))
            .collect();
        if over.is_empty() {
            return Ok(over);
        }
        let mut tx = self.write(epoch).await?;
        for amendment in &mut over {
            amendment.state = AmendmentState::Lapsed;
            sqlx::query(
                "UPDATE amendments SET state = 'lapsed',
                     json = json_set(json, '$.state', 'lapsed'), ended_at = ?
                 WHERE run = (SELECT number FROM runs WHERE id = ?) AND number = ?
                     AND state = 'active'",
            )
            .bind(now.as_millis())
            .bind(amendment.id.run().as_str())
            .bind(i64::from(amendment.id.number()))
            .execute(&mut *tx)
            .await
            .during(what)?;
        }
        tx.commit().await.during(what)?;
        Ok(over)
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
    amendments.rule_json, rule_hits.hits, rule_hits.last_at FROM amendments \
    JOIN runs ON runs.number = amendments.run \
    LEFT JOIN rule_hits ON rule_hits.rule = 'amendment:' || runs.id || '-a' || amendments.number ";

fn stored(row: &SqliteRow) -> Result<StoredAmendment, StoreError> {
    let rule: Option<&str> = row.get(2);
    Ok(StoredAmendment {
        amendment: parse("amendment", row.get(0))?,
        repo_key: row.get(1),
        rule: rule.map(|text| parse("rule", text)).transpose()?,
        hits: unsigned(row.get::<Option<i64>, _>(3).unwrap_or(0)),
        last_hit: row.get::<Option<i64>, _>(4).map(At::from_millis),
    })
}
