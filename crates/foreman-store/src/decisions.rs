//! Decisions: the record, the policy revisions they make, the block they answer, in one transaction.

use crate::error::{During, parse, write};
use crate::ingest::save_block;
use crate::open::{remember_request, signed, unsigned};
use crate::{RequestKey, Store, StoreError};
use foreman_domain::{
    Amendment, AmendmentId, AmendmentState, At, Block, BlockId, BlockState, Decider, Decision,
    Epoch, Revision, RunId, RunState, Scope,
};
use foreman_policy::{Denial, EgressRule, Layer, Origin, Policy, RuleId};
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row, Sqlite, Transaction};

/// A decision about a block, bound to what was shown.
#[derive(Debug, Clone)]
pub struct NewDecision {
    /// The block.
    pub block: BlockId,
    /// The run's policy revision that was shown.
    pub shown: Revision,
    /// What was decided. The rule's origin is filled in here.
    pub ruled: Ruled,
    /// What it opens or closes, in words.
    pub words: String,
    /// Now.
    pub at: At,
    /// The request that made it.
    pub key: Option<RequestKey>,
}

/// What was decided.
#[derive(Debug, Clone)]
pub enum Ruled {
    /// Let it go on by this rule.
    Allow {
        /// How far it reaches.
        scope: Scope,
        /// The rule.
        rule: Box<EgressRule>,
    },
    /// Refuse it, in this run.
    Deny {
        /// What the agent is told; may be empty.
        reason: String,
    },
}

/// A recorded decision, and what follows from it.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The record.
    pub amendment: Amendment,
    /// The block afterwards.
    pub block: Option<Block>,
    /// Policies that changed: of the run it was made in, and of other live runs it reaches.
    pub policies: Vec<NewPolicy>,
}

/// A run's next policy.
#[derive(Debug, Clone)]
pub struct NewPolicy {
    /// The run.
    pub run: RunId,
    /// Whether a shim is expected to take it.
    pub live: bool,
    /// The policy.
    pub policy: Policy,
}

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
    /// Records a decision.
    ///
    /// # Errors
    /// [`StoreError::NoBlock`], [`StoreError::AlreadyDecided`], [`StoreError::RevisionMoved`],
    /// [`StoreError::StaleEpoch`]; [`StoreError::Statement`] and [`StoreError::DiskFull`].
    pub async fn decide(&self, epoch: Epoch, new: &NewDecision) -> Result<Recorded, StoreError> {
        let what = "record a decision";
        let mut tx = self.write(epoch).await?;
        let run = RunRow::read(&mut tx, new.block.run()).await?;
        let mut block = run.block(&mut tx, &new.block).await?;
        if is_decided(&block.state) {
            return Err(StoreError::AlreadyDecided(Box::new(block)));
        }
        if run.revision != new.shown {
            return Err(StoreError::RevisionMoved {
                run: run.id,
                shown: new.shown,
                now: run.revision,
            });
        }
        let number = run.next_amendment;
        let id = AmendmentId::new(run.id.clone(), number);
        let revision = run.revision.next();
        let (decision, scope) = match &new.ruled {
            Ruled::Allow { scope, .. } => (Decision::Allow, *scope),
            Ruled::Deny { reason } => (Decision::Deny { reason: reason.clone() }, Scope::Run),
        };
        let amendment = Amendment {
            id: id.clone(),
            block: new.block.clone(),
            decision,
            scope,
            words: new.words.clone(),
            state: AmendmentState::Active,
            decided_at: new.at,
            revision,
        };
        let origin = origin_of(&amendment);
        let (rule, denial) = match &new.ruled {
            Ruled::Allow { rule, .. } => {
                block.state = BlockState::Amended { amendment: id };
                (Some(EgressRule { origin, ..(**rule).clone() }), None)
            }
            Ruled::Deny { reason } => {
                block.state =
                    BlockState::Denied { by: Decider::Operator, reason: reason.clone() };
                let subject = block.subject.clone();
                (None, Some(Denial { origin, subject, reason: reason.clone() }))
            }
        };
        sqlx::query("UPDATE runs SET next_amendment = next_amendment + 1 WHERE number = ?")
            .bind(run.number)
            .execute(&mut *tx)
            .await
            .during(what)?;
        sqlx::query(
            "INSERT INTO amendments (run, number, order_id, repo_key, block, decision, scope,
                 state, json, rule_json, denial_json, decided_at)
             VALUES (?, ?, ?, ?, ?, ?, ?, 'active', ?, ?, ?, ?)",
        )
        .bind(run.number)
        .bind(i64::from(number))
        .bind(&run.order)
        .bind(&run.repo_key)
        .bind(i64::from(new.block.number()))
        .bind(if rule.is_some() { "allow" } else { "deny" })
        .bind(scope.to_string())
        .bind(write("amendment", &amendment)?)
        .bind(rule.as_ref().map(|rule| write("rule", rule)).transpose()?)
        .bind(denial.as_ref().map(|denial| write("denial", denial)).transpose()?)
        .bind(new.at.as_millis())
        .execute(&mut *tx)
        .await
        .during(what)?;
        save_block(&mut tx, run.number, &block, Some(revision)).await?;
        let policies = next_policies(&mut tx, &run, &amendment).await?;
        remember_request(&mut tx, new.key.as_ref(), &amendment.id.to_string(), new.at).await?;
        tx.commit().await.during(what)?;
        Ok(Recorded { amendment, block: Some(block), policies })
    }

    /// Takes a decision back. Its block can be decided again.
    ///
    /// # Errors
    /// [`StoreError::NoAmendment`], [`StoreError::NotActive`], [`StoreError::StaleEpoch`];
    /// [`StoreError::Statement`] and [`StoreError::DiskFull`].
    pub async fn revoke(
        &self,
        epoch: Epoch,
        id: &AmendmentId,
        at: At,
        key: Option<&RequestKey>,
    ) -> Result<Recorded, StoreError> {
        let what = "take a decision back";
        let mut tx = self.write(epoch).await?;
        let no_amendment = || StoreError::NoAmendment(id.clone());
        let run = match RunRow::read(&mut tx, id.run()).await {
            Err(StoreError::NoRun(_)) => return Err(no_amendment()),
            other => other?,
        };
        let row = sqlx::query("SELECT json FROM amendments WHERE run = ? AND number = ?")
            .bind(run.number)
            .bind(i64::from(id.number()))
            .fetch_optional(&mut *tx)
            .await
            .during(what)?
            .ok_or_else(no_amendment)?;
        let mut amendment: Amendment = parse("amendment", row.get(0))?;
        if amendment.state != AmendmentState::Active {
            return Err(StoreError::NotActive(Box::new(amendment)));
        }
        amendment.state = AmendmentState::Revoked;
        sqlx::query(
            "UPDATE amendments SET state = 'revoked', json = ?, ended_at = ?
             WHERE run = ? AND number = ? AND state = 'active'",
        )
        .bind(write("amendment", &amendment)?)
        .bind(at.as_millis())
        .bind(run.number)
        .bind(i64::from(id.number()))
        .execute(&mut *tx)
        .await
        .during(what)?;
        let block = reopen(&mut tx, &run, &amendment).await?;
        let policies = next_policies(&mut tx, &run, &amendment).await?;
        remember_request(&mut tx, key, &amendment.id.to_string(), at).await?;
        tx.commit().await.during(what)?;
        Ok(Recorded { amendment, block, policies })
    }

    /// One decision.
    ///
    /// # Errors
    /// [`StoreError::NoAmendment`]; [`StoreError::Statement`] and [`StoreError::Unreadable`].
    pub async fn amendment(&self, id: &AmendmentId) -> Result<StoredAmendment, StoreError> {
        let mut query = QueryBuilder::<Sqlite>::new(AMENDMENT_COLUMNS);
        query.push("WHERE runs.id = ").push_bind(id.run().as_str());
        query.push(" AND amendments.number = ").push_bind(i64::from(id.number()));
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
        query.push(" AND amendments.order_id = ").push_bind(stored_run.order.as_str().to_owned());
        query.push(") OR (amendments.scope = 'project' AND amendments.repo_key = ");
        query.push_bind(stored_run.repo_key);
        query.push("))) ORDER BY amendments.decided_at DESC, amendments.number DESC");
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
        query.push(" ORDER BY amendments.decided_at DESC, amendments.number DESC");
        self.select_amendments(query).await
    }

    /// The newest decision that is in force, of all runs.
    ///
    /// # Errors
    /// [`StoreError::Statement`] and [`StoreError::Unreadable`].
    pub async fn newest_decision(&self) -> Result<Option<StoredAmendment>, StoreError> {
        let mut query = QueryBuilder::<Sqlite>::new(AMENDMENT_COLUMNS);
        query.push("WHERE amendments.state = 'active'");
        query.push(" ORDER BY amendments.decided_at DESC, amendments.number DESC LIMIT 1");
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
            .map(|row| Ok((Revision(unsigned(row.get(0))), parse("amendment", row.get(1))?)))
            .collect()
    }

    async fn select_amendments(
        &self,
        mut query: QueryBuilder<Sqlite>,
    ) -> Result<Vec<StoredAmendment>, StoreError> {
        let rows = query.build().fetch_all(&self.reader).await.during("read decisions")?;
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

/// A run as far as decisions concern it.
struct RunRow {
    number: i64,
    id: RunId,
    order: String,
    repo_key: String,
    state: RunState,
    revision: Revision,
    next_amendment: u32,
    base_policy: Policy,
}

const RUN_COLUMNS: &str = "SELECT number, id, order_id, repo_key, state_json, revision, \
    next_amendment, base_policy_json FROM runs ";

impl RunRow {
    async fn read(tx: &mut Transaction<'_, Sqlite>, run: &RunId) -> Result<Self, StoreError> {
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

    async fn block(
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

/// What nobody decided can be decided, and so can what was refused only because nobody attended.
fn is_decided(state: &BlockState) -> bool {
    !state.is_decidable() && !matches!(state, BlockState::Denied { by: Decider::Unattended, .. })
}

fn origin_of(amendment: &Amendment) -> Origin {
    let verb = match amendment.decision {
        Decision::Allow => "amended",
        Decision::Deny { .. } => "denied",
    };
    Origin {
        id: RuleId(format!("amendment:{}", amendment.id)),
        layer: match amendment.scope {
            Scope::Once | Scope::Run => Layer::Amendment,
            Scope::Order => Layer::Order,
            Scope::Project => Layer::Project,
        },
        source: format!("{verb} by you"),
        amendment: Some(amendment.id.clone()),
        reason: None,
    }
}

/// The block of a decision that was taken back: nothing of it waits, a retry is held anew.
async fn reopen(
    tx: &mut Transaction<'_, Sqlite>,
    run: &RunRow,
    amendment: &Amendment,
) -> Result<Option<Block>, StoreError> {
    let mut block = match run.block(tx, &amendment.block).await {
        Err(StoreError::NoBlock(_)) => return Ok(None),
        other => other?,
    };
    let is_its_answer = match &block.state {
        BlockState::Amended { amendment: by } => *by == amendment.id,
        BlockState::Denied { by: Decider::Operator, .. } => {
            matches!(amendment.decision, Decision::Deny { .. })
        }
        BlockState::Denied { .. } | BlockState::Open | BlockState::Expired | BlockState::Gone => {
            false
        }
    };
    if is_its_answer {
        block.state = BlockState::Gone;
        block.waiting = 0;
        save_block(tx, run.number, &block, Some(run.revision.next())).await?;
    }
    Ok(Some(block))
}

/// Writes the next revision of the run itself and of every other live run that the scope reaches.
async fn next_policies(
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
        query.push(column).push(" = ").push_bind(value.as_str()).push(")");
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
        policies.push(NewPolicy { run: reached.id, live, policy });
    }
    Ok(policies)
}

/// A rule or a denial of a recorded decision.
pub(crate) enum RuleInForce {
    Allow(EgressRule),
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
         ORDER BY decided_at, run, number",
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
            RuleInForce::Allow(rule) => policy.egress.push(rule),
            RuleInForce::Deny(denial) => policy.denials.push(denial),
        }
    }
    policy
}
