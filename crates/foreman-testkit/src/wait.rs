//! Waiting on levels with a deadline: the one place where test code polls.

use anyhow::{Result, bail};
use std::time::{Duration, Instant};

/// Polls `level` until it gives a value, at most `limit` long.
///
/// # Errors
/// Names `what` when the limit passed.
pub fn until<T>(
    what: &str,
    limit: Duration,
    mut level: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let end = Instant::now() + limit;
    loop {
        if let Some(value) = level()? {
            return Ok(value);
        }
        if Instant::now() >= end {
            bail!("{what}: not so after {:.1} s", limit.as_secs_f32());
        }
        std::thread::sleep(Duration::from_millis(4));
    }
}

/// Polls until `level` is true, at most `limit` long.
///
/// # Errors
/// Names `what` when the limit passed.
pub fn eventually(what: &str, limit: Duration, mut level: impl FnMut() -> bool) -> Result<()> {
    until(what, limit, || Ok(level().then_some(())))
}
