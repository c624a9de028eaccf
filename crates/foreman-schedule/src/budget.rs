//! Budgets over a rolling window: reserved before launch, settled after.

use crate::WaitReason;
use foreman_domain::At;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What may be spent within the window. A budget that is missing or 0 is no budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
#[serde(default)]
pub struct Budgets {
    /// Length of the window in seconds.
    pub window_seconds: u64,
    /// Tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Cost in millionths of the account's currency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
    /// Seconds of wall time, summed over runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_seconds: Option<u64>,
}

impl Default for Budgets {
    fn default() -> Self {
        Self {
            window_seconds: 24 * 60 * 60,
            tokens: None,
            cost_micros: None,
            wall_seconds: None,
        }
    }
}

/// Which budget.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    specta::Type,
)]
#[serde(rename_all = "snake_case")]
pub enum BudgetKind {
    /// Tokens.
    Tokens,
    /// Millionths of the account's currency.
    CostMicros,
    /// Seconds of wall time.
    WallSeconds,
}

/// What an order says it needs. What it does not say takes all that is left of that budget, so that
/// nothing overshoots; such orders run one after the other.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, specta::Type,
)]
#[serde(default)]
pub struct Estimate {
    /// Tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Millionths of the account's currency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
    /// Seconds of wall time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_seconds: Option<u64>,
}

/// Amounts that are reserved or were spent.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, specta::Type,
)]
#[serde(default)]
pub struct Amounts {
    /// Tokens.
    pub tokens: u64,
    /// Millionths of the account's currency.
    pub cost_micros: u64,
    /// Seconds of wall time.
    pub wall_seconds: u64,
}

/// One line of the budget's book.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct BudgetUse {
    /// What is reserved, or, once settled, what was spent.
    pub amounts: Amounts,
    /// When it was settled. A reservation (nothing here) counts until it is settled, however old; what
    /// is settled counts for one window from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<At>,
}

/// The book at one point in time, with what a decision reserves written in.
pub(crate) struct Book {
    lines: [Line; 3],
}

/// One budget.
struct Line {
    what: BudgetKind,
    budget: Option<u64>,
    reserved: u64,
    /// What was spent, with the time at which it leaves the window; soonest first.
    spent: Vec<(At, u64)>,
}

impl Book {
    pub(crate) fn new(budgets: &Budgets, book: &[BudgetUse], now: At) -> Self {
        let lines = [
            (BudgetKind::Tokens, budgets.tokens),
            (BudgetKind::CostMicros, budgets.cost_micros),
            (BudgetKind::WallSeconds, budgets.wall_seconds),
        ];
        Self {
            lines: lines.map(|(what, budget)| {
                let mut line = Line {
                    what,
                    budget: budget.filter(|budget| *budget > 0),
                    reserved: 0,
                    spent: Vec::new(),
                };
                for entry in book {
                    let amount = entry.amounts.of(what);
                    match entry.settled {
                        None => line.reserved = line.reserved.saturating_add(amount),
                        Some(at) => {
                            let leaves = later(at, budgets.window_seconds);
                            if leaves > now {
                                line.spent.push((leaves, amount));
                            }
                        }
                    }
                }
                line.spent.sort_unstable();
                line
            }),
        }
    }

    /// Which budget is short for an order with these needs, if any.
    pub(crate) fn short(&self, estimate: &Estimate) -> Option<WaitReason> {
        self.lines
            .iter()
            .find_map(|line| line.short(estimate.of(line.what)))
    }

    /// Writes the reservation of an order in, for which nothing is short.
    pub(crate) fn reserve(&mut self, estimate: &Estimate) -> Amounts {
        let [tokens, cost_micros, wall_seconds] = &mut self.lines;
        Amounts {
            tokens: tokens.reserve(estimate.tokens),
            cost_micros: cost_micros.reserve(estimate.cost_micros),
            wall_seconds: wall_seconds.reserve(estimate.wall_seconds),
        }
    }
}

impl Line {
    fn left(&self, budget: u64) -> u64 {
        let spent = self.spent.iter().map(|(_, amount)| *amount);
        let used = spent.fold(self.reserved, u64::saturating_add);
        budget.saturating_sub(used)
    }

    fn short(&self, needs: Option<u64>) -> Option<WaitReason> {
        let budget = self.budget?;
        let left = self.left(budget);
        let wanted = needs.unwrap_or(1);
        (wanted > left).then(|| WaitReason::Budget {
            what: self.what,
            needs,
            left,
            until: self.until(budget, wanted),
        })
    }

    /// When enough of what was spent has left the window.
    fn until(&self, budget: u64, wanted: u64) -> Option<At> {
        (0..self.spent.len()).find_map(|last| {
            let still = self.spent[last + 1..].iter().map(|(_, amount)| *amount);
            let used = still.fold(self.reserved, u64::saturating_add);
            (budget.saturating_sub(used) >= wanted).then(|| self.spent[last].0)
        })
    }

    fn reserve(&mut self, needs: Option<u64>) -> u64 {
        let amount = match (needs, self.budget) {
            (Some(needs), _) => needs,
            (None, Some(budget)) => self.left(budget),
            (None, None) => 0,
        };
        self.reserved = self.reserved.saturating_add(amount);
        amount
    }
}

impl Amounts {
    fn of(&self, what: BudgetKind) -> u64 {
        match what {
            BudgetKind::Tokens => self.tokens,
            BudgetKind::CostMicros => self.cost_micros,
            BudgetKind::WallSeconds => self.wall_seconds,
        }
    }
}

impl Estimate {
    fn of(&self, what: BudgetKind) -> Option<u64> {
        match what {
            BudgetKind::Tokens => self.tokens,
            BudgetKind::CostMicros => self.cost_micros,
            BudgetKind::WallSeconds => self.wall_seconds,
        }
    }
}

/// `at` and so many seconds; the end of time when there is no such point.
fn later(at: At, seconds: u64) -> At {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    let later = at.0.checked_add(jiff::SignedDuration::from_secs(seconds));
    At(later.unwrap_or(jiff::Timestamp::MAX))
}
