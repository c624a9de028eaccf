//! Decisions: the record, the policy revisions they make, the block they answer, in one transaction.

use crate::error::{During, parse, write};
use crate::fold::{DECIDED, save_block};
use crate::open::remember_request;
use crate::revisions::{RunRow, next_policies};
use crate::{RequestKey, Store, StoreError};
use foreman_domain::{
    Amendment, AmendmentId, AmendmentState, At, Block, BlockId, BlockState, Decider, Decision,
    Fence, Revision, RunId, Scope, Surface,
};
use foreman_policy::{Denial, Layer, Origin, Policy, Rule, RuleId};
use sqlx::{Row, Sqlite, Transaction};

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
    /// Where it was decided.
    pub surface: Option<Surface>,
}

/// What was decided.
#[derive(Debug, Clone)]
pub enum Ruled {
    /// Let it go on by this rule.
    Allow {
        /// How far it reaches.
        scope: Scope,
        /// The rule.
        rule: Box<Rule>,
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

impl Store {
    /// Records a decision.
    ///
    /// # Errors
    /// [`StoreError::NoBlock`], [`StoreError::AlreadyDecided`], [`StoreError::RevisionMoved`],
    /// [`StoreError::StaleEpoch`]; [`StoreError::Statement`] and [`StoreError::DiskFull`].
    pub async fn decide(&self, fence: Fence, new: &NewDecision) -> Result<Recorded, StoreError> {
        let what = "record a decision";
        let mut tx = self.write_run(fence, new.block.run()).await?;
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
            Ruled::Deny { reason } => (
                Decision::Deny {
                    reason: reason.clone(),
                },
                Scope::Run,
            ),
        };
        let expires = match &new.ruled {
            Ruled::Allow { rule, .. } => rule.expires(),
            Ruled::Deny { .. } => None,
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
            expires,
            surface: new.surface,
        };
        let origin = origin_of(&amendment);
        let (rule, denial) = match &new.ruled {
            Ruled::Allow { rule, .. } => {
                block.state = BlockState::Amended { amendment: id };
                let mut rule = (**rule).clone();
                *rule.origin_mut() = origin;
                (Some(rule), None)
            }
            Ruled::Deny { reason } => {
                block.state = BlockState::Denied {
                    by: Decider::Operator,
                    reason: reason.clone(),
                };
                let subject = block.denied();
                (
                    None,
                    Some(Denial {
                        origin,
                        subject,
                        reason: reason.clone(),
                    }),
                )
            }
        };
        sqlx::query("UPDATE runs SET next_amendment = next_amendment + 1 WHERE number = ?")
            .bind(run.number)
            .execute(&mut *tx)
            .await
            .during(what)?;
        sqlx::query(
            "INSERT INTO amendments (run, number, order_id, repo_key, block, decision, scope,
                 state, json, rule_json, denial_json, decided_at, place)
             VALUES (?, ?, ?, ?, ?, ?, ?, 'active', ?, ?, ?, ?,
                 (SELECT coalesce(max(place), 0) + 1 FROM amendments))",
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
        .bind(
            denial
                .as_ref()
                .map(|denial| write("denial", denial))
                .transpose()?,
        )
        .bind(new.at.as_millis())
        .execute(&mut *tx)
        .await
        .during(what)?;
        save_block(&mut tx, run.number, &block, Some(revision)).await?;
        let policies = next_policies(&mut tx, &run, &amendment).await?;
        remember_request(&mut tx, new.key.as_ref(), &amendment.id.to_string(), new.at).await?;
        tx.commit().await.during(what)?;
        Ok(Recorded {
            amendment,
            block: Some(block),
            policies,
        })
    }

    /// Takes a decision back. Its block can be decided again.
    ///
    /// # Errors
    /// [`StoreError::NoAmendment`], [`StoreError::NotActive`], [`StoreError::StaleEpoch`];
    /// [`StoreError::Statement`] and [`StoreError::DiskFull`].
    pub async fn revoke(
        &self,
        fence: Fence,
        id: &AmendmentId,
        at: At,
        key: Option<&RequestKey>,
    ) -> Result<Recorded, StoreError> {
        let what = "take a decision back";
        let no_amendment = || StoreError::NoAmendment(id.clone());
        let mut tx = match self.write_run(fence, id.run()).await {
            Err(StoreError::NoRun(_)) => return Err(no_amendment()),
            other => other?,
        };
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
        Ok(Recorded {
            amendment,
            block,
            policies,
        })
    }
}

/// What nobody decided can be decided, and so can what was refused only because nobody attended.
fn is_decided(state: &BlockState) -> bool {
    !state.is_decidable()
        && !matches!(
            state,
            BlockState::Denied {
                by: Decider::Unattended,
                ..
            }
        )
}

fn origin_of(amendment: &Amendment) -> Origin {
    let verb = match amendment.decision {
        Decision::Allow => "amended",
        Decision::Deny { .. } => "denied",
    };
    Origin {
        id: RuleId(format!("{DECIDED}{}", amendment.id)),
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
        BlockState::Denied {
            by: Decider::Operator,
            ..
        } => {
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
