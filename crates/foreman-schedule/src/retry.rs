//! When a failure that may pass by itself is tried again.

use crate::RetryAt;
use foreman_domain::At;
use std::time::Duration;

/// A failure that may pass by itself. Nothing else is ever tried again without being asked to: an
/// agent's edits cannot be repeated as if they had not happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PassingFailure {
    /// Preparing the run failed, before the agent started.
    Provision {
        /// What failed, as a sentence.
        message: String,
    },
    /// The agent's vendor lets it do no more for a while.
    AgentLimit {
        /// When it may again, if the vendor said so.
        resets_at: Option<At>,
        /// What was said, as a sentence.
        message: String,
    },
}

/// The wait before the second attempt, before jitter.
pub const FIRST_WAIT: Duration = Duration::from_secs(10);

/// The longest wait between attempts, jitter included.
pub const LONGEST_WAIT: Duration = Duration::from_secs(30 * 60);

/// How long to wait after the `attempt`-th attempt (from 1): twice as long each time, with a tenth of
/// jitter either way, within [`LONGEST_WAIT`]. `fraction` is a random number from 0 to 1; what is outside
/// of that counts as its nearer end.
#[must_use]
pub fn backoff(attempt: u32, fraction: f64) -> Duration {
    let doublings = attempt.saturating_sub(1).min(20);
    let wait = FIRST_WAIT.saturating_mul(1 << doublings).min(LONGEST_WAIT);
    let fraction = if fraction.is_nan() {
        0.5
    } else {
        fraction.clamp(0.0, 1.0)
    };
    wait.mul_f64(0.9 + 0.2 * fraction).min(LONGEST_WAIT)
}

/// When an order whose `attempt`-th attempt (from 1) failed so is tried again; nothing when its retries
/// are used up. A vendor's limit is waited for until the vendor said, and then as long as it takes.
#[must_use]
pub fn retry(
    failure: &PassingFailure,
    attempt: u32,
    retries: u32,
    now: At,
    fraction: f64,
) -> Option<RetryAt> {
    if attempt > retries {
        return None;
    }
    let wait = backoff(attempt, fraction);
    let after = |from: At| At(from.0.checked_add(wait).unwrap_or(jiff::Timestamp::MAX));
    let (from, why) = match failure {
        PassingFailure::Provision { message } => (now, message),
        PassingFailure::AgentLimit { resets_at, message } => {
            (resets_at.map_or(now, |at| at.max(now)), message)
        }
    };
    Some(RetryAt {
        at: after(from),
        why: why.clone(),
    })
}
