//! What a live run uses, measured while somebody asks.
//!
//! Nothing is measured by itself: whoever asks makes its shim look, at most once a second however many
//! ask, and finds what the others before him had measured. It is forgotten with the run's supervisor.

use super::LONGEST_WAIT_MS;
use crate::api::{Sample, Samples, SamplesRequest};
use crate::details::RunDetails;
use crate::engine::Engine;
use crate::failures::OrFail;
use crate::live::LiveRun;
use foreman_domain::{At, Failure};
use foreman_shim::protocol::Usage;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// Between two looks.
const EVERY: Duration = Duration::from_secs(1);
/// Samples that are kept.
const KEPT: usize = 300;
/// Two looks that are further apart say nothing about processor time between them.
const FAR_APART_MS: u64 = 60_000;

/// What was measured of a run lately.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    samples: VecDeque<Sample>,
    /// When and what was measured last.
    last: Option<(Instant, Usage)>,
}

impl Measured {
    /// Takes a look in.
    fn take_in(&mut self, at: At, usage: Usage) {
        let before = self.last.replace((Instant::now(), usage));
        self.samples.push_back(Sample {
            at: match self.samples.back() {
                // Cursors go by it, and the clock may go back.
                Some(last) if last.at >= at => At::from_millis(last.at.as_millis() + 1),
                _ => at,
            },
            cpu_millicores: before.and_then(|(_, before)| millicores(&before, &usage)),
            memory_bytes: usage.memory_bytes,
            processes: usage.processes,
            disk_bytes: usage.disk_bytes,
        });
        if self.samples.len() > KEPT {
            self.samples.pop_front();
        }
    }

    fn after(&self, after: Option<At>) -> Vec<Sample> {
        let is_news = |sample: &&Sample| after.is_none_or(|after| sample.at > after);
        self.samples.iter().filter(is_news).cloned().collect()
    }
}

/// Processor time between two looks; unknown where they say nothing about it.
fn millicores(before: &Usage, now: &Usage) -> Option<u32> {
    let millis = now.elapsed_ms.checked_sub(before.elapsed_ms)?;
    if millis == 0 || millis > FAR_APART_MS {
        return None;
    }
    // What ended without anybody waiting for it takes its time along.
    let used = now.cpu_ms?.checked_sub(before.cpu_ms?)?;
    u32::try_from(used.saturating_mul(1000) / millis).ok()
}

impl Engine {
    /// What a run used lately; with a wait, until there is something newer than what the caller has.
    pub async fn samples(&self, request: SamplesRequest) -> Result<Samples, Failure> {
        let id = self.find_run(&request.run).await?;
        let run = self.store.run(&id).await.or_fail()?;
        let details = RunDetails::of(&run)?;
        let nothing = Samples {
            samples: Vec::new(),
            bounds: details.bounds.raised_by(&run.policy),
            wall_left_ms: None,
        };
        let Some(live) = self.live.get(&id).filter(|_| run.state.is_live()) else {
            return Ok(nothing);
        };
        let wait = Duration::from_millis(request.wait_ms.min(LONGEST_WAIT_MS).into());
        let deadline = Instant::now() + wait;
        loop {
            let next = self.look(&live).await;
            let measured = live.measured.lock().await;
            let samples = measured.after(request.after);
            let wall_left_ms = measured.last.and_then(|(_, usage)| usage.wall_left_ms);
            drop(measured);
            let is_news = !samples.is_empty();
            if is_news || next.is_none_or(|next| next > deadline) {
                return Ok(Samples {
                    samples,
                    wall_left_ms,
                    ..nothing
                });
            }
            tokio::select! {
                () = tokio::time::sleep_until(next.unwrap_or(deadline)) => {}
                () = self.cancel.cancelled() => return Ok(nothing),
            }
        }
    }

    /// Has the shim look, unless it did so just now; when to ask again, or none where there is nothing to
    /// ask.
    async fn look(&self, live: &LiveRun) -> Option<Instant> {
        let mut measured = live.measured.lock().await;
        if let Some((at, _)) = measured.last
            && at.elapsed() < EVERY
        {
            return Some(at + EVERY);
        }
        // A shim that does not answer, and one that cannot measure, are alike: nothing is known.
        let client = live.line().await.ok()?;
        match client.measure().await {
            Ok(Some(usage)) => {
                measured.take_in(At::now(), usage);
                Some(Instant::now() + EVERY)
            }
            Ok(None) => None,
            Err(error) => {
                tracing::debug!(run = %live.run, %error, "a run was not measured");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(elapsed_ms: u64, cpu_ms: u64) -> Usage {
        Usage {
            elapsed_ms,
            cpu_ms: Some(cpu_ms),
            ..Usage::default()
        }
    }

    #[test]
    fn processor_time_is_what_was_used_between_two_looks() {
        let one = usage(1_000, 500);
        assert_eq!(millicores(&one, &usage(3_000, 3_500)), Some(1_500));
        assert_eq!(millicores(&one, &usage(1_000, 600)), None);
        assert_eq!(millicores(&one, &usage(2_000, 400)), None);
        assert_eq!(millicores(&one, &usage(1_000_000, 600)), None);
    }

    #[test]
    fn the_last_ones_are_kept_in_order_whatever_the_clock_does() {
        let mut measured = Measured::default();
        for look in 0..400_u32 {
            let at = At::from_millis(if look == 350 {
                0
            } else {
                i64::from(look) * 1_000
            });
            measured.take_in(at, usage(u64::from(look) * 1_000, 0));
        }
        let all = measured.after(None);
        assert_eq!(all.len(), KEPT);
        assert!(all.windows(2).all(|pair| pair[0].at < pair[1].at));
        assert_eq!(measured.after(all.last().map(|last| last.at)), []);
        assert_eq!(all.last().and_then(|last| last.cpu_millicores), Some(0));
    }
}
