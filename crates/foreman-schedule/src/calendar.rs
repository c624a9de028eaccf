//! Calendars of five fields, as cron reads them: minute, hour, day of month, month, day of week.
//!
//! When both the day of month and the day of week are restricted, a day that fits either counts. A time
//! that a clock change leaves out is taken as much later as the clock was moved; one that comes twice
//! counts once, the first time.

use crate::RecurrenceError;
use jiff::civil::{Date, Time};

/// A calendar that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Calendar {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    any_day: bool,
    any_weekday: bool,
}

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// A field: its name, the numbers it may have, and names for them from the lowest on.
struct Field {
    name: &'static str,
    low: u8,
    high: u8,
    names: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field {
        name: "minute",
        low: 0,
        high: 59,
        names: &[],
    },
    Field {
        name: "hour",
        low: 0,
        high: 23,
        names: &[],
    },
    Field {
        name: "day of month",
        low: 1,
        high: 31,
        names: &[],
    },
    Field {
        name: "month",
        low: 1,
        high: 12,
        names: &MONTHS,
    },
    Field {
        name: "day of week",
        low: 0,
        high: 7,
        names: &WEEKDAYS,
    },
];

impl Calendar {
    pub(crate) fn parse(text: &str) -> Result<Self, RecurrenceError> {
        let parts: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = parts[..] else {
            return Err(RecurrenceError::Fields { found: parts.len() });
        };
        let [of_minute, of_hour, of_day, of_month, of_weekday] = &FIELDS;
        let mut weekdays = of_weekday.parse(weekday)?;
        // Sunday is both 0 and 7.
        weekdays |= weekdays >> 7;
        Ok(Self {
            minutes: of_minute.parse(minute)?,
            hours: of_hour.parse(hour)?,
            days: of_day.parse(day)?,
            months: of_month.parse(month)?,
            weekdays,
            any_day: day.starts_with('*'),
            any_weekday: weekday.starts_with('*'),
        })
    }

    /// Whether there are slots on this day.
    pub(crate) fn has_day(&self, date: Date) -> bool {
        let day = has(self.days, date.day());
        let weekday = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        let fits = match (self.any_day, self.any_weekday) {
            (false, false) => day || weekday,
            (true, _) | (_, true) => day && weekday,
        };
        has(self.months, date.month()) && fits
    }

    /// The times of a day with slots, ascending.
    pub(crate) fn times(&self) -> impl DoubleEndedIterator<Item = Time> + '_ {
        (0..24 * 60i16).filter_map(|minute| {
            let (hour, minute) = (
                i8::try_from(minute / 60).ok()?,
                i8::try_from(minute % 60).ok()?,
            );
            let fits = has(self.hours, hour) && has(self.minutes, minute);
            fits.then(|| Time::new(hour, minute, 0, 0).ok()).flatten()
        })
    }
}

fn has(set: u64, number: i8) -> bool {
    u32::try_from(number)
        .is_ok_and(|number| set.checked_shr(number).is_some_and(|bit| bit & 1 == 1))
}

impl Field {
    fn parse(&self, text: &str) -> Result<u64, RecurrenceError> {
        let mut set = 0u64;
        for item in text.split(',') {
            let bad = || RecurrenceError::Field {
                name: self.name,
                text: item.to_owned(),
                low: self.low,
                high: self.high,
            };
            let (range, step) = match item.split_once('/') {
                Some((range, step)) => (range, step.parse::<u8>().ok().filter(|step| *step > 0)),
                None => (item, Some(1)),
            };
            let step = step.ok_or_else(bad)?;
            let (low, high) = if range == "*" {
                (self.low, self.high)
            } else if let Some((low, high)) = range.split_once('-') {
                (
                    self.number(low).ok_or_else(bad)?,
                    self.number(high).ok_or_else(bad)?,
                )
            } else {
                let only = self.number(range).ok_or_else(bad)?;
                // `5/10` is "from 5 on".
                (only, if item.contains('/') { self.high } else { only })
            };
            if low > high {
                return Err(bad());
            }
            for number in (low..=high).step_by(usize::from(step)) {
                set |= 1 << number;
            }
        }
        Ok(set)
    }

    fn number(&self, text: &str) -> Option<u8> {
        let named = self
            .names
            .iter()
            .position(|name| text.eq_ignore_ascii_case(name));
        let number = match named {
            Some(place) => u8::try_from(place).ok()?.checked_add(self.low)?,
            None => text.parse().ok()?,
        };
        (self.low..=self.high).contains(&number).then_some(number)
    }
}
