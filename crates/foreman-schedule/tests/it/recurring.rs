//! Slots, clock changes, and slots that were missed.

use crate::making::{now, seconds_from_now};
use foreman_domain::At;
use foreman_schedule::{Cadence, Missed, Recurrence, RecurrenceError};
use jiff::tz::TimeZone;
use proptest::prelude::*;

fn at(text: &str) -> At {
    At(text.parse().unwrap())
}

fn calendar(text: &str) -> Recurrence {
    Recurrence {
        cadence: Cadence::Calendar {
            calendar: text.into(),
        },
        zone: None,
        missed: Missed::Once,
    }
}

fn every(every_seconds: u64, from: At) -> Recurrence {
    Recurrence {
        cadence: Cadence::Every {
            every_seconds,
            from,
        },
        zone: None,
        missed: Missed::Once,
    }
}

fn next(text: &str, after: &str) -> String {
    let next = calendar(text).next(&TimeZone::UTC, at(after)).unwrap();
    next.map_or_else(|| "never".into(), |at| at.to_string())
}

#[test]
fn a_calendar_is_read_as_cron_reads_it() {
    let after = "2026-03-04T10:30:00Z"; // a Wednesday
    for (text, expected) in [
        ("0 9 * * *", "2026-03-05T09:00:00Z"),
        ("30 10 * * *", "2026-03-05T10:30:00Z"),
        ("31 10 * * *", "2026-03-04T10:31:00Z"),
        ("*/15 * * * *", "2026-03-04T10:45:00Z"),
        ("5/20 * * * *", "2026-03-04T10:45:00Z"),
        ("0 9 * * mon-fri", "2026-03-05T09:00:00Z"),
        ("0 9 * * SUN", "2026-03-08T09:00:00Z"),
        ("0 9 * * 7", "2026-03-08T09:00:00Z"),
        ("0 0 1 jan *", "2027-01-01T00:00:00Z"),
        ("0 0 13 * fri", "2026-03-06T00:00:00Z"),
        ("0 0 29 2 *", "2028-02-29T00:00:00Z"),
        ("0 8-10/2,20 * * *", "2026-03-04T20:00:00Z"),
    ] {
        assert_eq!(next(text, after), expected, "{text}");
    }
}

#[test]
fn a_calendar_that_cannot_be_read_or_never_comes_is_refused() {
    let refused = |text: &str| calendar(text).check().unwrap_err();
    assert_eq!(refused("0 9 * *"), RecurrenceError::Fields { found: 4 });
    for text in [
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * * 13 *",
        "* * * * 8",
        "*/0 * * * *",
        "9-5 * * * *",
        "a * * * *",
        "-1 * * * *",
        "1, * * * *",
        "* * * * 1/x",
    ] {
        assert!(
            matches!(refused(text), RecurrenceError::Field { .. }),
            "{text}"
        );
    }
    assert_eq!(refused("0 0 31 feb *"), RecurrenceError::Never);
    assert!(refused("60 * * * *").to_string().contains("is no minute"));
    let distance = every(59, now()).check().unwrap_err();
    assert_eq!(distance, RecurrenceError::Distance { seconds: 59 });
    assert!(every(u64::MAX, now()).check().is_err());
}

#[test]
fn a_time_that_the_clock_leaves_out_comes_later_and_one_that_comes_twice_counts_once() {
    // Central Europe: the clock goes from 2 to 3 on 29 March 2026 and from 3 to 2 on 25 October 2026.
    let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
    let daily = calendar("30 2 * * *");
    let slots = |from: &str, to: &str| {
        let (slots, _) = daily.slots(&zone, at(from), at(to), 9).unwrap();
        slots.iter().map(At::to_string).collect::<Vec<_>>()
    };
    let spring = [
        "2026-03-28T01:30:00Z",
        "2026-03-29T01:30:00Z",
        "2026-03-30T00:30:00Z",
    ];
    assert_eq!(
        slots("2026-03-28T00:00:00Z", "2026-03-30T23:00:00Z"),
        spring
    );
    let autumn = [
        "2026-10-24T00:30:00Z",
        "2026-10-25T00:30:00Z",
        "2026-10-26T01:30:00Z",
    ];
    assert_eq!(
        slots("2026-10-23T23:00:00Z", "2026-10-26T22:00:00Z"),
        autumn
    );
}

#[test]
fn missed_slots_are_left_out_run_once_or_all_run_within_a_bound() {
    let due = |missed: Missed, taken: i64, now_: i64| {
        let recurrence = Recurrence {
            missed,
            ..every(100, now())
        };
        let due = recurrence
            .due(
                &TimeZone::UTC,
                seconds_from_now(taken),
                seconds_from_now(now_),
            )
            .unwrap();
        let run: Vec<i64> = due
            .run
            .iter()
            .map(|at| (at.as_millis() - now().as_millis()) / 1000)
            .collect();
        (run, due.left_out)
    };
    assert_eq!(
        due(Missed::Skip, 0, 450),
        (vec![400], true),
        "the slot of 400 is on time"
    );
    assert_eq!(due(Missed::Skip, 0, 470), (vec![], true), "it is over");
    assert_eq!(due(Missed::Once, 0, 470), (vec![400], true));
    assert_eq!(due(Missed::Once, 300, 470), (vec![400], false));
    assert_eq!(
        due(Missed::All { at_most: 2 }, 0, 470),
        (vec![300, 400], true)
    );
    assert_eq!(
        due(Missed::All { at_most: 9 }, 0, 470),
        (vec![100, 200, 300, 400], false)
    );
    assert_eq!(due(Missed::All { at_most: 0 }, 0, 470), (vec![], true));
    assert_eq!(due(Missed::Once, 400, 470), (vec![], false));
    assert_eq!(
        due(Missed::Once, -500, -1),
        (vec![], false),
        "it has not begun"
    );
}

#[test]
fn a_year_of_missed_minutes_is_counted_in_no_time() {
    let recurrence = Recurrence {
        missed: Missed::All { at_most: 5 },
        ..calendar("* * * * *")
    };
    let start = std::time::Instant::now();
    let due = recurrence
        .due(
            &TimeZone::UTC,
            at("2025-01-01T00:00:00Z"),
            at("2026-01-01T00:00:00Z"),
        )
        .unwrap();
    assert_eq!((due.run.len(), due.left_out), (5, true));
    assert_eq!(due.through, Some(at("2026-01-01T00:00:00Z")));
    assert!(start.elapsed().as_secs() < 5);
}

#[test]
fn a_recurrence_survives_json_and_unknown_cadences_are_refused() {
    let text = r#"{"calendar":"0 9 * * 1","zone":"Europe/Berlin","missed":{"all":{"at_most":3}}}"#;
    let recurrence: Recurrence = serde_json::from_str(text).unwrap();
    assert_eq!(recurrence.missed, Missed::All { at_most: 3 });
    let again = serde_json::to_string(&recurrence).unwrap();
    assert_eq!(
        serde_json::from_str::<Recurrence>(&again).unwrap(),
        recurrence
    );
    assert!(serde_json::from_str::<Recurrence>(r#"{"zone":"UTC"}"#).is_err());
}

fn some_calendar() -> impl Strategy<Value = Recurrence> {
    let minute = prop::sample::select(vec!["0", "*/20", "15,45", "30"]);
    let hour = prop::sample::select(vec!["*", "2", "9-17/4", "0,23"]);
    let day = prop::sample::select(vec!["*", "1,15", "31"]);
    let weekday = prop::sample::select(vec!["*", "mon", "sat-7"]);
    (minute, hour, day, weekday).prop_map(|(minute, hour, day, weekday)| {
        calendar(&format!("{minute} {hour} {day} * {weekday}"))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn walking_from_slot_to_slot_meets_each_slot_once(
        recurrence in prop_oneof![some_calendar(), (60u64..90_000).prop_map(|every_seconds| every(every_seconds, now()))],
        start in -4_000_000i64..40_000_000,
        span in 0i64..1_000_000,
    ) {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let (from, to) = (seconds_from_now(start), seconds_from_now(start + span));
        let mut walked = Vec::new();
        let mut place = from;
        while let Some(next) = recurrence.next(&zone, place).unwrap().filter(|next| *next <= to) {
            prop_assert!(next > place);
            walked.push(next);
            place = next;
        }
        let (all, more) = recurrence.slots(&zone, from, to, u32::MAX).unwrap();
        prop_assert_eq!(&walked, &all);
        prop_assert!(!more);
        let (latest, more) = recurrence.slots(&zone, from, to, 3).unwrap();
        prop_assert_eq!(more, all.len() > 3);
        prop_assert_eq!(&latest[..], &all[all.len().saturating_sub(3)..]);
    }

    #[test]
    fn a_slot_is_due_once_however_often_it_is_asked_for(
        steps in prop::collection::vec(-500i64..2_000, 1..40),
        at_most in 0u32..5,
        policy in 0u8..3,
    ) {
        let missed = [Missed::Skip, Missed::Once, Missed::All { at_most }][usize::from(policy)];
        let recurrence = Recurrence { missed, ..every(300, now()) };
        let (mut clock, mut taken) = (0, seconds_from_now(-1));
        let mut run = Vec::new();
        for step in steps {
            clock += step;
            let due = recurrence.due(&TimeZone::UTC, taken, seconds_from_now(clock)).unwrap();
            run.extend(due.run);
            taken = due.through.unwrap_or(taken);
        }
        for pair in run.windows(2) {
            prop_assert!(pair[0] < pair[1]);
        }
    }
}
