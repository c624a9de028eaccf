//! Rations processor time where no control group does: a cage that has used more than its share of a period
//! is paused for as long as makes up for it.

use std::time::Duration;

/// How long a cage runs between two looks.
pub(super) const PERIOD: Duration = Duration::from_millis(250);
/// The same while it uses less than half of its share.
pub(super) const CALM_PERIOD: Duration = Duration::from_secs(1);
/// The longest pause at once: what is still owed is taken from the next periods.
const LONGEST_REST: Duration = Duration::from_secs(20);
/// What may be saved up while little is used.
const SAVINGS: Duration = Duration::from_millis(500);

/// What a cage still has of its share, in thousandths of a millisecond of one processor.
#[derive(Debug, Default)]
pub(super) struct Ration {
    last_ms: Option<u64>,
    /// Below zero, it owes.
    left: i128,
}

/// What follows from a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rest {
    /// How long it is to be paused.
    pub(super) pause: Duration,
    /// When to look again after that.
    pub(super) next: Duration,
}

impl Ration {
    /// Takes in how much it has used so far, after it ran (or was paused) for `elapsed`.
    pub(super) fn look(&mut self, used_ms: u64, elapsed: Duration, millicores: u64) -> Rest {
        // Time of what ended without anybody waiting for it is lost: the sum may go back.
        let used = self.last_ms.map_or(0, |last| used_ms.saturating_sub(last));
        self.last_ms = Some(used_ms);
        let given = i128::try_from(elapsed.as_millis()).unwrap_or(0) * i128::from(millicores);
        let spent = i128::from(used) * 1_000;
        let savings = i128::try_from(SAVINGS.as_millis()).unwrap_or(0) * i128::from(millicores);
        self.left = (self.left + given - spent).min(savings);
        let pause = match u64::try_from(-self.left) {
            Ok(owed) if owed > 0 && millicores > 0 => Duration::from_millis(owed / millicores),
            _ => Duration::ZERO,
        };
        let is_calm = spent * 2 < given;
        Rest {
            pause: pause.min(LONGEST_REST),
            next: if is_calm { CALM_PERIOD } else { PERIOD },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a cage that would use this many processors for a while; gives what it got, in thousandths.
    fn share(wants: u64, millicores: u64) -> u64 {
        let mut ration = Ration::default();
        let (mut used, mut time, mut slice) = (0, 0, PERIOD);
        ration.look(0, Duration::ZERO, millicores);
        let mut since = Duration::ZERO;
        while time < 120_000 {
            let millis = u64::try_from(slice.as_millis()).unwrap();
            used += millis * wants;
            time += millis;
            since += slice;
            let rest = ration.look(used, since, millicores);
            time += u64::try_from(rest.pause.as_millis()).unwrap();
            since = rest.pause;
            slice = rest.next;
        }
        used * 1_000 / time
    }

    #[test]
    fn whoever_wants_more_gets_its_share_and_hardly_more() {
        for (wants, millicores) in [(1, 500), (2, 1_500), (8, 1_000), (64, 2_000), (4, 100)] {
            let got = share(wants, millicores);
            let least = millicores * 9 / 10;
            let most = millicores + millicores / 10 + 20;
            assert!(
                (least..=most).contains(&got),
                "{wants} of {millicores}: {got}"
            );
        }
    }

    #[test]
    fn whoever_wants_less_is_never_paused() {
        let mut ration = Ration::default();
        for look in 0..100_u64 {
            let rest = ration.look(look * 200, PERIOD, 1_000);
            assert_eq!(rest.pause, Duration::ZERO);
        }
        let rest = ration.look(0, PERIOD, 1_000);
        assert_eq!((rest.pause, rest.next), (Duration::ZERO, CALM_PERIOD));
    }
}
