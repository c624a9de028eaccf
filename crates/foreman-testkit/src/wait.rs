//! Waiting on levels with a deadline: the one place where test code polls.

use anyhow::{Result, bail};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How much longer a deadline is on a machine that is known to be slow: `FOREMAN_TEST_PATIENCE` times.
fn patience() -> u32 {
    static TIMES: OnceLock<u32> = OnceLock::new();
    *TIMES.get_or_init(|| {
        let given = std::env::var("FOREMAN_TEST_PATIENCE").ok();
        given.and_then(|text| text.parse().ok()).unwrap_or(1)
    })
}

/// Polls `level` until it gives a value, at most `limit` long (longer on a machine that is said to be slow).
///
/// # Errors
/// Names `what` when the limit passed.
pub fn until<T>(
    what: &str,
    limit: Duration,
    mut level: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let limit = limit * patience();
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
