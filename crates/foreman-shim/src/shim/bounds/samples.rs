//! What the journal is told of what a run uses: when it changed by a tenth, and after half a minute.

use foreman_domain::EventKind;
use std::time::{Duration, Instant};

/// At the latest after so long, and never sooner than that.
pub(super) const LATEST: Duration = Duration::from_secs(30);
const SOONEST: Duration = Duration::from_secs(1);
/// Changes below these are not told, however large a part they are.
const LEAST_BYTES: u64 = 1 << 20;
const LEAST_PROCESSES: u64 = 4;

/// What was seen at one moment. What is absent was not looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Seen {
    pub(super) cpu_ms: Option<u64>,
    pub(super) memory: Option<u64>,
    pub(super) processes: Option<u64>,
    pub(super) disk: Option<u64>,
}

/// Decides what is told.
#[derive(Debug, Default)]
pub(super) struct Samples {
    last: Option<(Instant, Seen)>,
}

impl Samples {
    /// The event, where this is to be told.
    pub(super) fn take_in(&mut self, seen: Seen, now: Instant) -> Option<EventKind> {
        let before = self.last;
        if let Some((at, last)) = before {
            let age = now.saturating_duration_since(at);
            let is_due = age >= LATEST || (age >= SOONEST && has_changed(&last, &seen));
            if !is_due {
                return None;
            }
        }
        self.last = Some((now, seen));
        let cpu_millicores = before.and_then(|(at, last)| {
            let millis = now.saturating_duration_since(at).as_millis();
            let millis = u64::try_from(millis).ok().filter(|millis| *millis > 0)?;
            let used = seen.cpu_ms?.checked_sub(last.cpu_ms?)?;
            u32::try_from(used.saturating_mul(1_000) / millis).ok()
        });
        Some(EventKind::Sample {
            cpu_millicores,
            memory_bytes: seen.memory,
            processes: seen
                .processes
                .map(|count| u32::try_from(count).unwrap_or(u32::MAX)),
            disk_bytes: seen.disk,
        })
    }
}

fn has_changed(last: &Seen, seen: &Seen) -> bool {
    differs(last.memory, seen.memory, LEAST_BYTES)
        || differs(last.disk, seen.disk, LEAST_BYTES)
        || differs(last.processes, seen.processes, LEAST_PROCESSES)
}

fn differs(last: Option<u64>, now: Option<u64>, least: u64) -> bool {
    match (last, now) {
        (Some(last), Some(now)) => {
            let change = last.abs_diff(now);
            change >= least && change >= last / 10
        }
        // A first figure is news; that there is none for once is not.
        (None, Some(_)) => true,
        (_, None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(memory: u64) -> Seen {
        Seen {
            cpu_ms: Some(memory >> 20),
            memory: Some(memory),
            processes: Some(3),
            disk: None,
        }
    }

    #[test]
    fn a_change_of_a_tenth_is_told_and_else_one_in_half_a_minute() {
        let mut samples = Samples::default();
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        let mut told = |memory, millis| samples.take_in(seen(memory), at(millis)).is_some();
        assert!(told(100 << 20, 0));
        assert!(!told(105 << 20, 2_000));
        assert!(!told(200 << 20, 500), "not more than one a second");
        assert!(told(111 << 20, 2_000));
        assert!(!told(112 << 20, 31_000));
        assert!(told(112 << 20, 32_000));
    }

    #[test]
    fn small_figures_may_double_without_being_news_and_the_first_of_a_kind_is() {
        let mut samples = Samples::default();
        let begin = Instant::now();
        samples.take_in(seen(1 << 18), begin);
        let later = begin + Duration::from_secs(2);
        assert!(samples.take_in(seen(1 << 19), later).is_none());
        let with_disk = Seen {
            disk: Some(7),
            ..seen(1 << 18)
        };
        assert!(samples.take_in(with_disk, later).is_some());
    }

    #[test]
    fn processor_time_is_what_was_used_since_the_one_before() {
        let mut samples = Samples::default();
        let begin = Instant::now();
        samples.take_in(seen(0), begin);
        let told = samples.take_in(seen(1_000 << 20), begin + Duration::from_secs(2));
        let Some(EventKind::Sample { cpu_millicores, .. }) = told else {
            panic!("{told:?}")
        };
        assert_eq!(cpu_millicores, Some(500));
    }
}
