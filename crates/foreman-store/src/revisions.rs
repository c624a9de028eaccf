//! Policies as they are put together of the part that was there at the start and the decisions in
//! force, and the revisions that decisions make.

use crate::error::{During, parse, write};
use crate::open::{signed, unsigned};
use crate::{NewPolicy, StoreError};
use foreman_domain::{Amendment, Block, BlockId, Revision, RunId, RunState, Scope};
use foreman_policy::{Denial, Policy, Rule};
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row, Sqlite, Transaction};

/// A run as far as decisions concern it.
pub(crate) struct RunRow {
    pub number: i64,
    pub id: RunId,
    pub order: String,
    pub repo_key: String,
    pub state: RunState,
    pub revision: Revision,
    pub next_amendment: u32,
    pub base_policy: Policy,
}

const RUN_COLUMNS: &str = "SELECT number, id, order_id, repo_key, state_json, revision, \
    next_amendment, base_policy_json FROM runs ";

impl RunRow {
    pub async fn read(tx: &mut Transaction<'_, Sqlite>, run: &RunId) -> Result<Self, StoreError> {
        let mut query = QueryBuilder::<Sqlite>::new(RUN_COLUMNS);
        query.push("WHERE id = ").push_bind(run.as_str());
        let row = query
            .build()
            .fetch_optional(&mut **tx)
            .await
            .during("read a run")?
            .ok_or_else(|| StoreError::NoRun(run.clone()))?;
        Self::parse(&row)
    }

    fn parse(row: &SqliteRow) -> Result<Self, StoreError> {
        Ok(Self {
            number: row.get(0),
            id: parse("run id", &format!("\"{}\"", row.get::<&str, _>(1)))?,
            order: row.get(2),
            repo_key: row.get(3),
            state: parse("run state", row.get(4))?,
            revision: Revision(unsigned(row.get(5))),
            next_amendment: u32::try_from(unsigned(row.get(6))).unwrap_or(u32::MAX),
            base_policy: parse("policy", row.get(7))?,
        })
    }

    pub async fn block(
        &self,
        tx: &mut Transaction<'_, Sqlite>,
        id: &BlockId,
    ) -> Result<Block, StoreError> {
        let row = sqlx::query("SELECT json FROM blocks WHERE run = ? AND number = ?")
            .bind(self.number)
            .bind(i64::from(id.number()))
            .fetch_optional(&mut **tx)
            .await
            .during("read a block")?
            .ok_or_else(|| StoreError::NoBlock(id.clone()))?;
        parse("block", row.get(0))
    }
}

/// Writes the next revision of the run itself and of every other live run that the scope reaches.
pub(crate) async fn next_policies(
    tx: &mut Transaction<'_, Sqlite>,
    run: &RunRow,
    amendment: &Amendment,
) -> Result<Vec<NewPolicy>, StoreError> {
    let what = "write a policy";
    let mut query = QueryBuilder::<Sqlite>::new(RUN_COLUMNS);
    query.push("WHERE number = ").push_bind(run.number);
    let reached = match amendment.scope {
        Scope::Once | Scope::Run => None,
        Scope::Order => Some(("order_id", &run.order)),
        Scope::Project => Some(("repo_key", &run.repo_key)),
    };
    if let Some((column, value)) = reached {
        query.push(" OR (state IN ('provisioning', 'running', 'stopping') AND ");
        query
            .push(column)
            .push(" = ")
            .push_bind(value.as_str())
            .push(")");
    }
    query.push(" ORDER BY number");
    let rows = query.build().fetch_all(&mut **tx).await.during(what)?;
    let mut policies = Vec::with_capacity(rows.len());
    for row in &rows {
        let reached = RunRow::parse(row)?;
        let rules =
            rules_in_force(tx, Some(reached.number), &reached.order, &reached.repo_key).await?;
        let policy = compose(&reached.base_policy, rules, reached.revision.next());
        sqlx::query("UPDATE runs SET revision = ?, policy_json = ? WHERE number = ?")
            .bind(signed(policy.revision.0))
            .bind(write("policy", &policy)?)
            .bind(reached.number)
            .execute(&mut **tx)
            .await
            .during(what)?;
        sqlx::query(
            "INSERT INTO revisions (run, revision, amendment_run, amendment_number)
             VALUES (?, ?, ?, ?)",
        )
        .bind(reached.number)
        .bind(signed(policy.revision.0))
        .bind(run.number)
        .bind(i64::from(amendment.id.number()))
        .execute(&mut **tx)
        .await
        .during(what)?;
        let live = reached.state.is_live();
        policies.push(NewPolicy {
            run: reached.id,
            live,
            policy,
        });
    }
    Ok(policies)
}

/// A rule or a denial of a recorded decision.
pub(crate) enum RuleInForce {
    Allow(Rule),
    Deny(Denial),
}

/// Rules of decisions in force for a run: its own, its order's, its repository's; oldest first.
pub(crate) async fn rules_in_force(
    tx: &mut Transaction<'_, Sqlite>,
    run: Option<i64>,
    order: &str,
    repo_key: &str,
) -> Result<Vec<RuleInForce>, StoreError> {
    let rows = sqlx::query(
        "SELECT rule_json, denial_json FROM amendments
         WHERE state = 'active' AND ((scope IN ('once', 'run') AND run = ?1)
             OR (scope = 'order' AND order_id = ?2) OR (scope = 'project' AND repo_key = ?3))
         ORDER BY place",
    )
    .bind(run)
    .bind(order)
    .bind(repo_key)
    .fetch_all(&mut **tx)
    .await
    .during("read decisions")?;
    let mut rules = Vec::with_capacity(rows.len());
    for row in &rows {
        if let Some(rule) = row.get::<Option<&str>, _>(0) {
            rules.push(RuleInForce::Allow(parse("rule", rule)?));
        }
        if let Some(denial) = row.get::<Option<&str>, _>(1) {
            rules.push(RuleInForce::Deny(parse("denial", denial)?));
        }
    }
    Ok(rules)
}

/// A policy from the part that was there at the start and the decisions in force.
pub(crate) fn compose(base: &Policy, rules: Vec<RuleInForce>, revision: Revision) -> Policy {
    let mut policy = base.clone();
    policy.revision = revision;
    for rule in rules {
        match rule {
            RuleInForce::Allow(rule) => policy.push(rule),
            RuleInForce::Deny(denial) => policy.denials.push(denial),
        }
    }
    policy
}
