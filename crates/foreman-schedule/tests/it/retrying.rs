//! When a failure is tried again.

use crate::making::{now, seconds_from_now};
use foreman_schedule::{FIRST_WAIT, LONGEST_WAIT, PassingFailure, backoff, retry};
use proptest::prelude::*;

fn provision() -> PassingFailure {
    PassingFailure::Provision {
        message: "the remote did not answer".into(),
    }
}

#[test]
fn retries_are_used_up() {
    assert!(retry(&provision(), 1, 0, now(), 0.5).is_none());
    assert!(retry(&provision(), 2, 2, now(), 0.5).is_some());
    assert!(retry(&provision(), 3, 2, now(), 0.5).is_none());
}

#[test]
fn a_vendors_limit_is_waited_for_until_the_time_it_gave() {
    let limit = |resets_at| PassingFailure::AgentLimit {
        resets_at,
        message: "no more until noon".into(),
    };
    let again = |resets_at| retry(&limit(resets_at), 1, 1, now(), 0.5).unwrap();
    assert_eq!(
        again(Some(seconds_from_now(3600))).at,
        seconds_from_now(3610)
    );
    assert_eq!(
        again(Some(seconds_from_now(-3600))).at,
        seconds_from_now(10),
        "a time that is over is now"
    );
    assert_eq!(again(None).at, seconds_from_now(10));
    assert_eq!(again(None).why, "no more until noon");
}

proptest! {
    #[test]
    fn waits_grow_spread_and_are_bounded(attempt in 1u32..1000, low in 0.0f64..=1.0, high in 0.0f64..=1.0) {
        let (low, high) = (low.min(high), low.max(high));
        prop_assert!(backoff(attempt, low) <= backoff(attempt, high));
        prop_assert!(backoff(attempt, 1.0) <= backoff(attempt + 1, 0.0).max(LONGEST_WAIT.mul_f64(0.9)).max(backoff(attempt, 1.0).min(LONGEST_WAIT)));
        prop_assert!(backoff(attempt, low) <= LONGEST_WAIT);
        prop_assert!(backoff(attempt, low) >= FIRST_WAIT.mul_f64(0.9));
    }
}

#[test]
fn each_wait_is_twice_the_last_until_the_longest() {
    let waits: Vec<u64> = (1..=10)
        .map(|attempt| backoff(attempt, 0.5).as_secs())
        .collect();
    assert_eq!(waits, [10, 20, 40, 80, 160, 320, 640, 1280, 1800, 1800]);
    for odd in [f64::NAN, f64::INFINITY, -7.0] {
        assert!(backoff(3, odd) <= LONGEST_WAIT);
    }
}
