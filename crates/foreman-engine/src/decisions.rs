//! Amend, deny, undo, revoke: recorded in one transaction, then put in force by the shims it reaches.
//!
//! A decision is bound to what was shown. It is recorded before any shim hears of it; a shim that
//! cannot be told now is told when it is reached again ([`Engine::bring_up_to_date`]), because shims
//! take revisions in order and the store knows which decision made each.

use crate::api::{AmendRequest, Decided, DenyRequest, RevokeRequest, UndoRequest};
use crate::blocks::{Card, candidates};
use crate::details::RunDetails;
use crate::engine::Engine;
use crate::failures::{OrFail, already_decided, policy as policy_failure};
use crate::live::LiveRun;
use crate::programs::patience::came_late;
use crate::tokens;
use foreman_domain::{
    AmendmentId, AmendmentState, At, Block, BlockId, BlockState, BoundKind, Code, Decider,
    EventKind, Failure, HoldId, Revision, RunId, Scope, Subject, Surface,
};
use foreman_policy::{Rule, Use, figure_in_words, parse_bounds};
use foreman_shim::client::{Applied, ClientError};
use foreman_shim::wire::Refusal;
use foreman_store::{NewDecision, Recorded, RequestKey, Ruled, StoreError};
use std::sync::Arc;
use std::time::Duration;

/// How long a decision can be undone without looking it up.
const UNDO: Duration = Duration::from_secs(10);
/// The furthest end of a rule.
const LONGEST_EXPIRY_MS: i64 = 366 * 24 * 60 * 60 * 1000;
/// Longest reason that an agent is told.
const LONGEST_REASON: usize = 1000;

impl Engine {
    /// Lets a held subject go on.
    pub async fn amend(
        self: &Arc<Self>,
        request: AmendRequest,
        key: &RequestKey,
    ) -> Result<Decided, Failure> {
        if let Some(done) = self.done_before(key).await? {
            return Ok(done);
        }
        let card = self.find_card(&request.block).await?;
        let counted = still_decidable(&card, &request.expect)?;
        let (scope, words, rule) = chosen(&card, &request, counted)?;
        if scope < Scope::Order && !card.run.state.is_live() {
            return Err(Failure::new(
                Code::Conflict,
                format!(
                    "run {} is over, so a rule of scope {scope} would let nothing go on",
                    card.run.id
                ),
            )
            .hint("Choose the scope order or project, which count for later runs."));
        }
        let ruled = Ruled::Allow {
            scope,
            rule: Box::new(rule),
        };
        let surface = request.surface;
        let decided = self.decide(&card, ruled, words, key, surface).await?;
        let late = RunDetails::of(&card.run)?
            .agent
            .filter(|_| decided.in_force)
            .and_then(|agent| came_late(&agent, &card.block, decided.amendment.decided_at));
        Ok(Decided { late, ..decided })
    }

    /// Refuses a held subject for the rest of its run.
    pub async fn deny(
        self: &Arc<Self>,
        request: DenyRequest,
        key: &RequestKey,
    ) -> Result<Decided, Failure> {
        if let Some(done) = self.done_before(key).await? {
            return Ok(done);
        }
        if request.reason.chars().count() > LONGEST_REASON {
            return Err(Failure::new(
                Code::BadInput,
                format!("a reason may have at most {LONGEST_REASON} characters"),
            ));
        }
        let card = self.find_card(&request.block).await?;
        still_decidable(&card, &request.expect)?;
        let words = format!("Refuse {} for the rest of this run", card.block.denied());
        self.decide(
            &card,
            Ruled::Deny {
                reason: request.reason,
            },
            words,
            key,
            request.surface,
        )
        .await
    }

    async fn decide(
        self: &Arc<Self>,
        card: &Card,
        ruled: Ruled,
        words: String,
        key: &RequestKey,
        surface: Option<Surface>,
    ) -> Result<Decided, Failure> {
        let new = NewDecision {
            block: card.block.id.clone(),
            shown: card.run.revision,
            ruled,
            words,
            at: At::now(),
            key: Some(key.clone()),
            surface,
        };
        let fence = self.fence(new.block.run()).await?;
        match self.store.decide(fence, &new).await {
            Err(StoreError::AlreadyDecided(_)) => {
                // Somebody was faster between our look and the transaction: say who and when.
                let now = self.find_card(&card.block.id.to_string()).await?;
                Err(already_decided(&now.block, now.decided.as_deref()))
            }
            other => self.put_in_force(other.or_fail()?).await,
        }
    }

    /// Takes back the newest decision of the last ten seconds, or the named one of them.
    pub async fn undo(
        self: &Arc<Self>,
        request: UndoRequest,
        key: &RequestKey,
    ) -> Result<Decided, Failure> {
        if let Some(done) = self.done_before(key).await? {
            return Ok(done);
        }
        let newest = match &request.amendment {
            Some(id) => Some(self.store.amendment(id).await.or_fail()?),
            None => self.store.newest_decision().await.or_fail()?,
        };
        let Some(stored) = newest else {
            return Err(
                Failure::new(Code::NotFound, "there is no decision that can be undone")
                    .hint("What was decided for a run ends with it; see `foreman policy show`."),
            );
        };
        let amendment = stored.amendment;
        if self.decided.age(&amendment, At::now()) > UNDO {
            return Err(Failure::new(
                Code::Stale,
                format!("{} was decided more than ten seconds ago", amendment.id),
            )
            .hint(format!(
                "`foreman policy revoke {}` takes it back at any time.",
                amendment.id
            )));
        }
        self.take_back(&amendment.id, key).await
    }

    /// Takes a decision back, at any time.
    pub async fn revoke(
        self: &Arc<Self>,
        request: RevokeRequest,
        key: &RequestKey,
    ) -> Result<Decided, Failure> {
        if let Some(done) = self.done_before(key).await? {
            return Ok(done);
        }
        self.take_back(&request.amendment, key).await
    }

    async fn take_back(
        self: &Arc<Self>,
        id: &AmendmentId,
        key: &RequestKey,
    ) -> Result<Decided, Failure> {
        let recorded = self
            .store
            .revoke(self.fence(id.run()).await?, id, At::now(), Some(key))
            .await
            .or_fail()?;
        self.put_in_force(recorded).await
    }

    /// What the same request did when it was asked before, by a caller that lost its engine since.
    async fn done_before(&self, key: &RequestKey) -> Result<Option<Decided>, Failure> {
        let Some(subject) = self.store.subject_of_request(key).await.or_fail()? else {
            return Ok(None);
        };
        let Ok(id) = subject.parse::<AmendmentId>() else {
            return Ok(None);
        };
        let amendment = self.store.amendment(&id).await.or_fail()?.amendment;
        let mut decided = Decided {
            block: Some(amendment.block.clone()),
            amendment,
            in_force: false,
            released: 0,
            refused: 0,
            cut: 0,
            late: None,
        };
        if let Some(live) = self.live.get(id.run()) {
            self.bring_up_to_date(&live).await?;
            decided.in_force = true;
        }
        Ok(Some(decided))
    }

    /// Tells every shim that a recorded decision reaches; what it did in its own run is the answer.
    async fn put_in_force(self: &Arc<Self>, recorded: Recorded) -> Result<Decided, Failure> {
        let id = recorded.amendment.id.clone();
        if recorded.amendment.state == AmendmentState::Active {
            self.decided.note(&id);
        }
        for next in &recorded.policies {
            self.news.tell(&next.run);
        }
        self.news.tell_block(&recorded.amendment.block);
        let mut own = None;
        let mut untold = Vec::new();
        for next in recorded.policies.iter().filter(|next| next.live) {
            match self.tell_shim(&next.run, next.policy.revision).await {
                Ok(applied) if next.run == *id.run() => own = applied,
                Ok(_) => {}
                Err(error) => untold.push((next.run.clone(), error)),
            }
        }
        if recorded
            .policies
            .iter()
            .all(|next| next.run != *id.run() || !next.live)
        {
            self.note_in_journal(&recorded).await;
        }
        if let Some((run, error)) = untold.into_iter().next() {
            return Err(Failure::new(
                Code::Environment,
                format!(
                    "{id} is recorded, but the supervisor of run {run} did not confirm it: {error}"
                ),
            )
            .hint("It is put in force as soon as the supervisor answers; see `foreman show`."));
        }
        let block: Option<BlockId> = recorded.block.map(|block| block.id);
        let counts = own.unwrap_or(Applied {
            released: 0,
            refused: 0,
            cut: 0,
        });
        Ok(Decided {
            amendment: recorded.amendment,
            block,
            in_force: own.is_some(),
            released: counts.released,
            refused: counts.refused,
            cut: counts.cut,
            late: None,
        })
    }

    /// Has a run's shim take everything up to a revision; `None` when the run came to its end.
    async fn tell_shim(
        self: &Arc<Self>,
        run: &RunId,
        revision: Revision,
    ) -> Result<Option<Applied>, Failure> {
        if self.live.get(run).is_none() {
            let stored = self.store.run(run).await.or_fail()?;
            if !stored.state.is_live() {
                return Ok(None);
            }
            if RunDetails::of(&stored)?.shim().is_some() {
                self.attach(&stored)?;
            }
        }
        let Some(live) = self.live.get(run) else {
            // Being prepared: its shim is brought up to date when it is first reached.
            return Ok(Some(Applied {
                released: 0,
                refused: 0,
                cut: 0,
            }));
        };
        self.bring_up_to_date(&live).await?;
        Ok(live.applying.lock().await.result(revision))
    }

    /// Gives a shim, in order, every revision that it does not have yet. Each carries the policy as it
    /// is now: a rule that was taken back meanwhile never comes to life again.
    pub async fn bring_up_to_date(&self, live: &LiveRun) -> Result<(), Failure> {
        let mut standing = live.applying.lock().await;
        let missing = self
            .store
            .revisions_after(&live.run, standing.revision)
            .await
            .or_fail()?;
        if missing.is_empty() {
            return Ok(());
        }
        let current = self.store.run(&live.run).await.or_fail()?.policy;
        for (revision, amendment) in missing {
            let mut policy = current.clone();
            policy.revision = revision;
            let block = Some(&amendment.block)
                .filter(|block| *block.run() == live.run)
                .cloned();
            let client = live.line().await?;
            match client.apply(policy, amendment, block).await {
                Ok(applied) => standing.note(revision, applied),
                Err(ClientError::Refused {
                    reason: Refusal::Ended,
                    ..
                }) => return Ok(()),
                Err(error) => return Err(error).or_fail(),
            }
        }
        Ok(())
    }

    /// A decision on a run that is over is noted in its journal by the engine.
    async fn note_in_journal(&self, recorded: &Recorded) {
        let run = recorded.amendment.id.run();
        let noting = async {
            let _turn = self.turn(run).await;
            let details = RunDetails::of(&self.store.run(run).await.or_fail()?)?;
            let log = self.open_log(run, &details).await?;
            let amendment = recorded.amendment.clone();
            let mut events = vec![EventKind::Amendment { amendment }];
            events.extend(
                recorded
                    .block
                    .clone()
                    .map(|block| EventKind::Block { block }),
            );
            self.append(&log, events).await.map(drop)
        };
        if let Err(error) = noting.await {
            // The store has it; only the feed of that run lacks the line.
            tracing::warn!(%run, %error, "a decision was not noted in the journal");
        }
    }
}

/// The newest hold that was on the card; refused when the block is decided or the card has moved.
fn still_decidable(card: &Card, expect: &str) -> Result<HoldId, Failure> {
    if let Some(decided) = card.decided.as_deref().filter(|_| !can_be_decided(card)) {
        return Err(already_decided(&card.block, Some(decided)));
    }
    tokens::check_block(expect, &card.block, card.run.revision, &card.offers).ok_or_else(|| {
        Failure::new(
            Code::Stale,
            format!("{} is not as it was shown any more", card.block.id),
        )
        .hint("Look at it again and decide again.")
    })
}

fn can_be_decided(card: &Card) -> bool {
    card.block.state.is_decidable()
        || matches!(
            card.block.state,
            BlockState::Denied {
                by: Decider::Unattended,
                ..
            }
        )
}

/// Why no candidate of the card is the one that was asked for.
fn not_on_the_card(card: &Card, request: &AmendRequest, scope: Option<Scope>) -> Failure {
    let id = &card.block.id;
    let offered = candidates(&card.offers);
    let numbered = |number| offered.iter().find(|candidate| candidate.number == number);
    let nothing_waits = !offered.iter().any(|offer| offer.scope == Scope::Once);
    match (request.rule, request.rule.and_then(numbered), scope) {
        (Some(number), Some(found), Some(scope)) => Failure::new(
            Code::BadInput,
            format!(
                "rule {number} of {id} has the scope {}, not {scope}",
                found.scope
            ),
        )
        .hint("Give --rule or --scope, or both so that they agree."),
        (_, _, Some(Scope::Once)) | (Some(1), _, _) if nothing_waits => Failure::new(
            Code::Stale,
            format!("nothing waits under {id} any more, so there is nothing to allow once"),
        )
        .hint("Amend it with the scope run: a retry then goes through."),
        (Some(number), _, _) => Failure::new(
            Code::BadInput,
            format!("the card of {id} has no rule {number}"),
        )
        .hint("The numbers are on the card: see `foreman blocks`."),
        (None, _, _) => Failure::new(
            Code::BadInput,
            format!("the card of {id} offers no rule of that scope"),
        )
        .hint("The scopes are on the card: see `foreman blocks`."),
    }
}

/// The chosen candidate as a rule. Never a wider one than was asked for: a scope without a number is
/// the first candidate of that scope, a number without a scope is that candidate, both must agree.
fn chosen(
    card: &Card,
    request: &AmendRequest,
    counted: HoldId,
) -> Result<(Scope, String, Rule), Failure> {
    let offered = candidates(&card.offers);
    if offered.is_empty() {
        return Err(Failure::new(
            Code::Conflict,
            match &card.closed {
                Some(why) => format!("no rule can open {}: {why}", card.block.what()),
                None => format!(
                    "no rule can open {}: it is on the floor",
                    card.block.subject
                ),
            },
        ));
    }
    let scope = match (request.scope, request.rule) {
        // What an agent asks is about this one; an answer for longer is asked for by name.
        (None, None) => match card.block.subject {
            Subject::Question { .. } => Some(Scope::Once),
            Subject::Egress { .. }
            | Subject::File { .. }
            | Subject::Socket { .. }
            | Subject::Bound { .. } => Some(Scope::Run),
        },
        (scope, _) => scope,
    };
    let candidate = offered.into_iter().find(|candidate| {
        scope.is_none_or(|scope| candidate.scope == scope)
            && request.rule.is_none_or(|number| candidate.number == number)
    });
    let Some(candidate) = candidate else {
        return Err(not_on_the_card(card, request, scope));
    };
    if candidate.needs_confirmation && !request.confirmed {
        return Err(Failure::new(
            Code::Usage,
            format!(
                "\"{}\" opens more than what waits, so it needs a second yes",
                candidate.words
            ),
        )
        .hint("Add --yes, or choose a narrower rule."));
    }
    let mut rule = candidate.rule;
    if let Some(Use::Holds { through, .. }) = rule.applies_mut() {
        *through = counted;
    }
    let mut words = candidate.words;
    if let Some(text) = &request.limit {
        words = set_limit(&card.block, &mut rule, text, candidate.scope)?;
    }
    if let Some(expires) = request.expires {
        check_expiry(candidate.scope, expires, At::now())?;
        let Some(end) = rule.expires_mut() else {
            return Err(Failure::new(Code::Usage, "that has no end of its own")
                .hint("Leave the end out: `foreman policy revoke` takes it back at any time."));
        };
        *end = Some(expires);
        words = format!("{words}, and no longer than until {expires}");
    }
    Ok((candidate.scope, words, rule))
}

/// Puts a figure of the operator's own in place of the one on the card.
fn set_limit(block: &Block, rule: &mut Rule, text: &str, scope: Scope) -> Result<String, Failure> {
    let (Rule::Bound(rule), Some(breach)) = (rule, block.breach) else {
        return Err(Failure::new(
            Code::Usage,
            "a limit can be given for a bound only",
        ));
    };
    let bound = rule.bound;
    let typed = parse_bounds(&format!("{}={text}", bound_key(bound)))
        .map_err(|error| policy_failure(Code::BadInput, &error))?;
    let limit = typed.of(bound).unwrap_or_default();
    let figure = figure_in_words(bound, limit);
    if limit <= breach.seen || limit <= breach.limit {
        let used = figure_in_words(bound, breach.seen.max(breach.limit));
        return Err(Failure::new(
            Code::BadInput,
            format!("the bound of {bound} cannot be {figure}: {used} are used already"),
        )
        .hint("Give a limit above that, or deny it to stop the run."));
    }
    rule.limit = limit;
    Ok(match scope {
        Scope::Once | Scope::Run => format!("Raise {bound} to {figure} for this run"),
        Scope::Order => format!("Raise {bound} to {figure} for every run of this work order"),
        Scope::Project => format!("Raise {bound} to {figure} for every run in this project"),
    })
}

/// As `--bounds` names it.
fn bound_key(bound: BoundKind) -> &'static str {
    match bound {
        BoundKind::Wall => "wall",
        BoundKind::Cpu => "cpu",
        BoundKind::Memory => "memory",
        BoundKind::Processes => "processes",
        BoundKind::Disk => "disk",
        BoundKind::Output => "output",
        BoundKind::OpenFiles => "open_files",
        BoundKind::Tokens => "tokens",
        BoundKind::Cost => "cost",
        BoundKind::Turns => "turns",
    }
}

/// Refuses an end that no rule can have.
fn check_expiry(scope: Scope, expires: At, now: At) -> Result<(), Failure> {
    let left = expires.as_millis().saturating_sub(now.as_millis());
    if scope == Scope::Once {
        return Err(
            Failure::new(Code::Usage, "what is let go once has no time to run out")
                .hint("Leave the end out, or choose the scope run."),
        );
    }
    if left <= 0 {
        return Err(
            Failure::new(Code::BadInput, "the rule would end before it begins")
                .hint("Give a time that is still to come."),
        );
    }
    if left > LONGEST_EXPIRY_MS {
        return Err(
            Failure::new(Code::BadInput, "a rule can end by itself within a year")
                .hint("Leave the end out: `foreman policy revoke` takes a rule back at any time."),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_ends_after_it_begins_and_within_a_year() {
        let now = At::from_millis(1_000);
        let check = |scope, at| check_expiry(scope, At::from_millis(at), now).is_ok();
        assert!(check(Scope::Run, 2_000) && check(Scope::Project, LONGEST_EXPIRY_MS));
        assert!(!check(Scope::Run, 1_000) && !check(Scope::Run, 0));
        assert!(!check(Scope::Once, 2_000) && !check(Scope::Order, i64::MAX));
    }
}
