//! Caps, budgets and pauses: set by the operator, kept in the store.

use crate::api::{LimitsChange, QueuePause, QueueView};
use crate::engine::Engine;
use crate::failures::OrFail;
use crate::policies::open_repository;
use foreman_domain::{At, Code, Failure};
use foreman_schedule::{Amounts, BudgetUse, Limits};
use foreman_store::StoredReservation;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

const LIMITS: &str = "orders.limits";
const PAUSES: &str = "orders.pauses";
/// Far more than any machine carries.
const HIGHEST_CAP: u32 = 1_000;
/// Most names with a cap of their own.
const MOST_NAMES: usize = 200;
/// From a minute to a year.
const WINDOW: (u64, u64) = (60, 366 * 86_400);
const HIGHEST_BUDGET: u64 = 10 * 366 * 86_400;

/// What is paused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pauses {
    /// Everything.
    #[serde(default)]
    pub all: bool,
    /// Repositories: their name and where they are.
    #[serde(default)]
    pub repos: BTreeMap<String, PathBuf>,
}

impl Engine {
    /// Caps and budgets in force.
    pub(super) async fn limits(&self) -> Result<Limits, Failure> {
        Ok(self
            .store
            .setting(LIMITS)
            .await
            .or_fail()?
            .unwrap_or_default())
    }

    pub(super) async fn pauses(&self) -> Result<Pauses, Failure> {
        Ok(self
            .store
            .setting(PAUSES)
            .await
            .or_fail()?
            .unwrap_or_default())
    }

    /// Changes caps and budgets.
    pub async fn change_limits(&self, change: LimitsChange) -> Result<QueueView, Failure> {
        let turn = self.queue.turn.lock().await;
        let mut limits = self.limits().await?;
        apply(&mut limits, change)?;
        self.store
            .set_setting(self.epoch, LIMITS, &limits)
            .await
            .or_fail()?;
        drop(turn);
        self.queue.wake();
        self.queue_view().await
    }

    /// Pauses or resumes dispatching. What runs goes on.
    pub async fn pause_queue(&self, request: QueuePause) -> Result<QueueView, Failure> {
        let repo = match &request.repo {
            Some(path) => Some(open_repository(path).await?),
            None => None,
        };
        let turn = self.queue.turn.lock().await;
        let mut pauses = self.pauses().await?;
        match repo {
            Some(repo) if request.paused => {
                pauses.repos.insert(repo.slug(), repo.root().to_owned());
            }
            Some(repo) => drop(pauses.repos.remove(&repo.slug())),
            None => pauses.all = request.paused,
        }
        self.store
            .set_setting(self.epoch, PAUSES, &pauses)
            .await
            .or_fail()?;
        drop(turn);
        self.queue.wake();
        self.queue_view().await
    }

    /// The budget's book, from the window's beginning on.
    pub(super) async fn book(&self, limits: &Limits, now: At) -> Result<Vec<BudgetUse>, Failure> {
        let window = i64::try_from(limits.budgets.window_seconds).unwrap_or(i64::MAX);
        let since = now.as_millis().saturating_sub(window.saturating_mul(1000));
        let lines = self
            .store
            .reservations_since(At::from_millis(since))
            .await
            .or_fail()?;
        Ok(lines.iter().filter_map(in_book).collect())
    }
}

/// A line of the book. One that is unreadable is told of and left out: it never stops the others.
fn in_book(line: &StoredReservation) -> Option<BudgetUse> {
    match serde_json::from_str::<Amounts>(&line.amounts) {
        Ok(amounts) => Some(BudgetUse {
            amounts,
            settled: line.settled,
        }),
        Err(error) => {
            tracing::warn!(order = %line.order, %error, "a line of the budget's book is unreadable");
            None
        }
    }
}

fn apply(limits: &mut Limits, change: LimitsChange) -> Result<(), Failure> {
    let cap = |value: u32| match value {
        0 => Ok(None),
        1..=HIGHEST_CAP => Ok(Some(value)),
        _ => Err(Failure::new(
            Code::BadInput,
            format!("a cap of {value} is not to be meant"),
        )
        .hint(format!(
            "From 1 to {HIGHEST_CAP} is possible; 0 takes a cap away."
        ))),
    };
    if let Some(total) = change.total {
        // No cap is said by 0: without a value the default would come back.
        limits.total = Some(cap(total)?.unwrap_or(0));
    }
    if let Some(per_repository) = change.per_repository {
        limits.per_repository = cap(per_repository)?;
    }
    for (names, changes, what) in [
        (&mut limits.per_class, change.per_class, "class"),
        (&mut limits.per_kind, change.per_kind, "kind"),
    ] {
        for (name, value) in changes {
            super::check::check_name(what, &name)?;
            names.insert(name, cap(value)?.unwrap_or(0));
        }
        if names.len() > MOST_NAMES {
            let message = format!("at most {MOST_NAMES} names can have a cap of their own");
            return Err(Failure::new(Code::BadInput, message));
        }
    }
    if let Some(kinds) = change.kinds_accepted {
        for kind in &kinds {
            super::check::check_name("kind", kind)?;
        }
        limits.kinds_accepted = (!kinds.is_empty()).then_some(kinds);
    }
    if let Some(seconds) = change.window_seconds {
        if !(WINDOW.0..=WINDOW.1).contains(&seconds) {
            return Err(Failure::new(
                Code::BadInput,
                format!("a budget's window of {seconds} seconds is not to be meant"),
            )
            .hint("From 1 minute to 366 days is possible."));
        }
        limits.budgets.window_seconds = seconds;
    }
    // Nothing is said by 0.
    if let Some(tokens) = change.budget_tokens {
        limits.budgets.tokens = (tokens > 0).then_some(tokens);
    }
    if let Some(micros) = change.budget_cost_micros {
        limits.budgets.cost_micros = (micros > 0).then_some(micros);
    }
    if let Some(seconds) = change.budget_wall_seconds {
        if seconds > HIGHEST_BUDGET {
            return Err(Failure::new(
                Code::BadInput,
                format!("a budget of {seconds} seconds of wall time is not to be meant"),
            ));
        }
        limits.budgets.wall_seconds = (seconds > 0).then_some(seconds);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caps_are_set_taken_away_and_refused_when_absurd() {
        let mut limits = Limits::default();
        let change = LimitsChange {
            total: Some(0),
            per_repository: Some(2),
            per_class: vec![("db".into(), 3)],
            ..LimitsChange::default()
        };
        apply(&mut limits, change).unwrap();
        assert_eq!((limits.total, limits.per_repository), (Some(0), Some(2)));
        assert_eq!(limits.per_class.get("db"), Some(&3));
        let absurd = LimitsChange {
            total: Some(1_000_000),
            ..LimitsChange::default()
        };
        assert_eq!(apply(&mut limits, absurd).unwrap_err().code, Code::BadInput);
        let nameless = LimitsChange {
            per_kind: vec![("a b".into(), 1)],
            ..LimitsChange::default()
        };
        assert!(apply(&mut limits, nameless).is_err());
        for (tokens, kept) in [(5, Some(5)), (0, None)] {
            let budget = LimitsChange {
                budget_tokens: Some(tokens),
                ..LimitsChange::default()
            };
            apply(&mut limits, budget).unwrap();
            assert_eq!(limits.budgets.tokens, kept);
        }
        assert_eq!(limits.per_repository, Some(2));
    }
}
