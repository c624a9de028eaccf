//! Orders that come again: slots in time, and what becomes of slots that were missed.

use crate::calendar::Calendar;
use foreman_domain::At;
use jiff::ToSpan;
use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When an order comes again, and what to do about slots that passed while nothing was running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct Recurrence {
    /// When.
    #[serde(flatten)]
    pub cadence: Cadence,
    /// The time zone that a calendar is read in (`Europe/Berlin`); the machine's own when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// What becomes of missed slots.
    #[serde(default)]
    pub missed: Missed,
}

/// The pattern of slots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
#[serde(untagged)]
pub enum Cadence {
    /// At fixed distances.
    Every {
        /// Seconds between slots, at least 60.
        every_seconds: u64,
        /// The first slot.
        from: At,
    },
    /// By the calendar.
    Calendar {
        /// Five fields: minute, hour, day of month, month, day of week; `*`, numbers, lists, ranges,
        /// steps, and English names of months and days.
        calendar: String,
    },
}

/// What becomes of slots that were missed.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, specta::Type,
)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// They are left out.
    Skip,
    /// The latest one runs, once.
    #[default]
    Once,
    /// The latest ones run, oldest first.
    All {
        /// At most so many.
        at_most: u32,
    },
}

/// Why a recurrence cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecurrenceError {
    /// The distance is too short, or beyond any calendar.
    #[error(
        "{seconds} seconds are no distance between slots: it must be from 60 seconds to ten years"
    )]
    Distance {
        /// What was given.
        seconds: u64,
    },
    /// The calendar has not five fields.
    #[error(
        "a calendar has five fields (minute, hour, day of month, month, day of week) and this one has \
         {found}"
    )]
    Fields {
        /// How many there are.
        found: usize,
    },
    /// A field cannot be read.
    #[error(
        "\"{text}\" is no {name}: numbers are from {low} to {high}, with lists, ranges and steps"
    )]
    Field {
        /// The field.
        name: &'static str,
        /// What it says.
        text: String,
        /// The lowest number that it may have.
        low: u8,
        /// The highest number that it may have.
        high: u8,
    },
    /// No day fits the calendar.
    #[error("no day fits this calendar")]
    Never,
    /// The time zone is not known.
    #[error("\"{zone}\" is no time zone that is known here")]
    Zone {
        /// What was given.
        zone: String,
    },
}

/// Slots that are due.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Due {
    /// The slots to run, oldest first. Record each as taken once and for all, by (order, slot).
    pub run: Vec<At>,
    /// The latest slot that is over, run or not: where to go on from. Nothing when none was due.
    pub through: Option<At>,
    /// Whether slots were left out.
    pub left_out: bool,
}

/// A slot is on time for so many seconds; then it is missed.
pub const ON_TIME_SECONDS: i64 = 60;

/// How far into the future a calendar is read: a 29th of February is at most eight years away.
const DAYS_AHEAD: i32 = 366 * 9;

const SHORTEST: u64 = 60;
const LONGEST: u64 = 10 * 366 * 24 * 60 * 60;

impl Recurrence {
    /// Checks that the recurrence can be read and has slots.
    ///
    /// # Errors
    /// [`RecurrenceError`] with what is wrong. The zone's name is checked by whoever looks it up.
    pub fn check(&self) -> Result<(), RecurrenceError> {
        match &self.cadence {
            Cadence::Every { every_seconds, .. } => {
                let fits = (SHORTEST..=LONGEST).contains(every_seconds);
                let seconds = *every_seconds;
                fits.then_some(())
                    .ok_or(RecurrenceError::Distance { seconds })
            }
            Cadence::Calendar { calendar } => {
                let calendar = Calendar::parse(calendar)?;
                // Years repeat after 400; eight years from a leap year on have every kind of day.
                let mut days = jiff::civil::date(2000, 1, 1).series(1.days());
                let some = days.by_ref().take(8 * 366).any(|day| calendar.has_day(day));
                some.then_some(()).ok_or(RecurrenceError::Never)
            }
        }
    }

    /// The first slot after `after`; nothing when there is none.
    ///
    /// # Errors
    /// As [`Recurrence::check`].
    pub fn next(&self, zone: &TimeZone, after: At) -> Result<Option<At>, RecurrenceError> {
        self.check()?;
        match &self.cadence {
            Cadence::Every {
                every_seconds,
                from,
            } => {
                if after < *from {
                    return Ok(Some(*from));
                }
                let passed = after.0.as_second() - from.0.as_second();
                let step = seconds(*every_seconds);
                Ok(from_on(*from, (passed / step + 1).saturating_mul(step)))
            }
            Cadence::Calendar { calendar } => {
                let calendar = Calendar::parse(calendar)?;
                let first = zone.to_datetime(after.0).date();
                let days = (0..DAYS_AHEAD).map_while(|ahead| first.checked_add(ahead.days()).ok());
                let mut slots = days.filter(|day| calendar.has_day(*day)).flat_map(|day| {
                    calendar
                        .times()
                        .filter_map(move |time| slot(zone, day, time))
                });
                Ok(slots.find(|slot| *slot > after))
            }
        }
    }

    /// The slots after `after` up to and with `until`, oldest first; the latest `at_most` of them. The
    /// flag says whether there were more.
    ///
    /// # Errors
    /// As [`Recurrence::check`].
    pub fn slots(
        &self,
        zone: &TimeZone,
        after: At,
        until: At,
        at_most: u32,
    ) -> Result<(Vec<At>, bool), RecurrenceError> {
        self.check()?;
        let enough = usize::try_from(at_most)
            .unwrap_or(usize::MAX)
            .saturating_add(1);
        let mut latest: Vec<At> = match &self.cadence {
            Cadence::Every {
                every_seconds,
                from,
            } => {
                let step = seconds(*every_seconds);
                let passed = until.0.as_second() - from.0.as_second();
                let last = passed.div_euclid(step);
                let back = (0..=last)
                    .rev()
                    .filter_map(|number| from_on(*from, number * step));
                let back = back.skip_while(|slot| *slot > until);
                back.take_while(|slot| *slot > after).take(enough).collect()
            }
            Cadence::Calendar { calendar } => {
                let calendar = Calendar::parse(calendar)?;
                let (first, last) = (
                    zone.to_datetime(after.0).date(),
                    zone.to_datetime(until.0).date(),
                );
                let mut day = last;
                let mut found = Vec::new();
                // A day before the first: a slot that a clock change moved past midnight.
                let first = first.yesterday().unwrap_or(first);
                while day >= first && found.len() < enough {
                    if calendar.has_day(day) {
                        let slots = calendar
                            .times()
                            .rev()
                            .filter_map(|time| slot(zone, day, time));
                        found.extend(slots.filter(|slot| *slot > after && *slot <= until));
                    }
                    let Ok(before) = day.yesterday() else { break };
                    day = before;
                }
                found.sort_unstable_by(|left, right| right.cmp(left));
                found.dedup();
                found
            }
        };
        let more = latest.len() >= enough;
        latest.truncate(enough - 1);
        latest.reverse();
        Ok((latest, more))
    }

    /// What is due at `now`, when slots up to `taken` were dealt with before.
    ///
    /// # Errors
    /// As [`Recurrence::check`].
    pub fn due(&self, zone: &TimeZone, taken: At, now: At) -> Result<Due, RecurrenceError> {
        let (latest, before) = self.slots(zone, taken, now, 1)?;
        let Some(last) = latest.first().copied() else {
            return Ok(Due::default());
        };
        let on_time = now.0.as_second() - last.0.as_second() < ON_TIME_SECONDS;
        let (run, left_out) = match self.missed {
            Missed::Skip if on_time => (latest, before),
            Missed::Skip => (Vec::new(), true),
            Missed::Once => (latest, before),
            Missed::All { at_most } => self.slots(zone, taken, now, at_most)?,
        };
        Ok(Due {
            run,
            through: Some(last),
            left_out,
        })
    }
}

fn seconds(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

fn from_on(from: At, seconds: i64) -> Option<At> {
    let later = from.0.checked_add(jiff::SignedDuration::from_secs(seconds));
    later.ok().map(At)
}

fn slot(zone: &TimeZone, day: Date, time: Time) -> Option<At> {
    let zoned = zone
        .to_ambiguous_zoned_datetime(day.to_datetime(time))
        .compatible();
    zoned.ok().map(|zoned| At(zoned.timestamp()))
}
