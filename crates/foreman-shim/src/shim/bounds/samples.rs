//! What the journal is told of what a run uses: when it changed by a tenth, and, in passing, after half a
//! minute.

use foreman_domain::EventKind;
use std::time::{Duration, Instant};

/// At the latest after so long, and never sooner than that.
pub(super) const LATEST: Duration = Duration::from_secs(30);
const SOONEST: Duration = Duration::from_secs(1);
/// Changes below these are not told, however large a part they are.
const LEAST_BYTES: u64 = 1 << 20;
const LEAST_PROCESSES: u64 = 4;
/// A run that used less of the processor than this is doing nothing.
const IDLE_MILLICORES: u32 = 10;

/// What was seen at one moment. What is absent was not looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Seen {
    pub(super) cpu_ms: Option<u64>,
    pub(super) memory: Option<u64>,
    pub(super) processes: Option<u64>,
    pub(super) disk: Option<u64>,
}

/// What is to be told.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) sample: EventKind,
    /// The run does nothing: whoever keeps this need not be woken for it.
    pub(super) in_passing: bool,
}

/// Decides what is told.
#[derive(Debug, Default)]
pub(super) struct Samples {
    last: Option<(Instant, Seen)>,
}

impl Samples {
    /// What is to be told of this, if anything.
    pub(super) fn take_in(&mut self, seen: Seen, now: Instant) -> Option<Told> {
        let before = self.last;
        let mut is_unchanged = false;
        if let Some((at, last)) = before {
            let age = now.saturating_duration_since(at);
            is_unchanged = !has_changed(&last, &seen);
            if age < if is_unchanged { LATEST } else { SOONEST } {
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
        let sample = EventKind::Sample {
            cpu_millicores,
            memory_bytes: seen.memory,
            processes: seen
                .processes
                .map(|count| u32::try_from(count).unwrap_or(u32::MAX)),
            disk_bytes: seen.disk,
        };
        let in_passing = is_unchanged && cpu_millicores.is_some_and(|used| used < IDLE_MILLICORES);
        Some(Told { sample, in_passing })
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
        let Some(EventKind::Sample { cpu_millicores, .. }) = told.map(|told| told.sample) else {
            panic!("a change of a gigabyte is told")
        };
        assert_eq!(cpu_millicores, Some(500));
    }

    #[test]
    fn only_what_a_run_that_does_nothing_uses_is_told_in_passing() {
        let mut samples = Samples::default();
        let begin = Instant::now();
        let mut in_passing = |cpu_ms, seconds| {
            let seen = Seen {
                cpu_ms: Some(cpu_ms),
                ..seen(1 << 20)
            };
            let told = samples.take_in(seen, begin + Duration::from_secs(seconds));
            told.map(|told| told.in_passing)
        };
        assert_eq!(in_passing(0, 0), Some(false), "the first is news");
        assert_eq!(in_passing(5, 30), Some(true));
        assert_eq!(
            in_passing(15_000, 60),
            Some(false),
            "it works without a word"
        );
    }
}
