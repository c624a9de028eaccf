//! Records: the form in which events are written where many are kept, in journals and in the store.
//!
//! Consecutive lines of output that one step wrote to one stream and that were read in one go are one
//! record: the first of them as an event, the text of the others in `more`. Everything else is a record
//! of its own, and is then the event as it is. A record says nothing that its events do not say and
//! leaves nothing out: taking it apart gives back exactly the events that were put together, each with
//! its own number. So what is counted, paged, filtered and shown is events, and only what is kept is
//! smaller: a short line costs three bytes instead of about two hundred.

use crate::{At, Event, EventKind, EventSeq, ProcessRef, RunId, StepName};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

/// Most events in one record.
pub const RECORD_EVENTS: usize = 1024;
/// A record takes no more lines once its text has this many bytes.
pub const RECORD_BYTES: usize = 32 << 10;

/// Consecutive events that are written as one: never empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packed<'a>(&'a [Event]);

/// Puts consecutive events together, in order and without leaving one out.
pub fn pack(events: &[Event]) -> impl Iterator<Item = Packed<'_>> {
    let mut rest = events;
    std::iter::from_fn(move || {
        let (group, after) = rest.split_at_checked(length_of_first(rest))?;
        rest = after;
        (!group.is_empty()).then_some(Packed(group))
    })
}

/// How many of the events at the beginning go into one record.
fn length_of_first(events: &[Event]) -> usize {
    let Some((first, others)) = events.split_first() else {
        return 0;
    };
    let Some(text) = plain_line(first) else {
        return 1;
    };
    let (mut length, mut bytes, mut last) = (1, text.len(), first.seq);
    for event in others {
        let Some(text) = plain_line(event) else { break };
        let is_like_first = event.seq == last.next()
            && event.at == first.at
            && event.v == first.v
            && event.run == first.run
            && event.step == first.step
            && event.process == first.process
            && stream_of(event) == stream_of(first);
        bytes += text.len();
        if !is_like_first || length == RECORD_EVENTS || bytes > RECORD_BYTES {
            break;
        }
        length += 1;
        last = event.seq;
    }
    length
}

/// The text of a whole line of output that has no bytes beside it.
fn plain_line(event: &Event) -> Option<&str> {
    match &event.kind {
        EventKind::Output {
            text,
            raw: None,
            continued: false,
            ..
        } => Some(text),
        _ => None,
    }
}

fn stream_of(event: &Event) -> Option<crate::LogStream> {
    match &event.kind {
        EventKind::Output { stream, .. } => Some(*stream),
        _ => None,
    }
}

impl<'a> Packed<'a> {
    /// The events in it.
    #[must_use]
    pub fn events(self) -> &'a [Event] {
        self.0
    }

    /// The first of them.
    #[must_use]
    pub fn first(self) -> Option<&'a Event> {
        self.0.first()
    }

    /// The last number that it stands for; a gap stands for its whole range.
    #[must_use]
    pub fn last_seq(self) -> EventSeq {
        self.0.last().map_or(EventSeq(0), last_seq_of)
    }

    /// The text of the others, which are lines of output as the first is.
    pub fn more(self) -> impl Iterator<Item = &'a str> {
        self.0.iter().skip(1).filter_map(plain_line)
    }
}

/// The last number that an event stands for.
#[must_use]
pub fn last_seq_of(event: &Event) -> EventSeq {
    match &event.kind {
        EventKind::Gap { to, .. } => event.seq.max(*to),
        _ => event.seq,
    }
}

impl Serialize for Packed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(first) = self.first() else {
            return serializer.serialize_map(Some(0))?.end();
        };
        if self.0.len() == 1 {
            return first.serialize(serializer);
        }
        #[derive(Serialize)]
        struct Whole<'a> {
            #[serde(flatten)]
            first: &'a Event,
            more: Vec<&'a str>,
        }
        let more = self.more().collect();
        Whole { first, more }.serialize(serializer)
    }
}

/// A record as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    v: u8,
    run: RunId,
    seq: EventSeq,
    at: At,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    step: Option<StepName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    process: Option<ProcessRef>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    more: Vec<String>,
    #[serde(flatten)]
    kind: EventKind,
}

impl From<Event> for Record {
    fn from(event: Event) -> Self {
        Self::new(event, Vec::new())
    }
}

impl Record {
    /// An event and the text of the lines that follow it.
    #[must_use]
    pub fn new(first: Event, more: Vec<String>) -> Self {
        Self {
            v: first.v,
            run: first.run,
            seq: first.seq,
            at: first.at,
            step: first.step,
            process: first.process,
            more,
            kind: first.kind,
        }
    }

    /// The events that were put together, in order.
    pub fn into_events(self) -> impl Iterator<Item = Event> {
        let stream = match &self.kind {
            EventKind::Output { stream, .. } => *stream,
            _ => crate::LogStream::Stdout,
        };
        let first = Event {
            v: self.v,
            run: self.run,
            seq: self.seq,
            at: self.at,
            step: self.step,
            process: self.process,
            kind: self.kind,
        };
        let pattern = Event {
            kind: EventKind::Warning {
                message: String::new(),
            },
            ..first.clone()
        };
        let others = self.more.into_iter().enumerate().map(move |(at, text)| {
            let seq = EventSeq(pattern.seq.0.saturating_add(1 + at as u64));
            let kind = EventKind::Output {
                stream,
                text,
                raw: None,
                continued: false,
            };
            Event {
                seq,
                kind,
                ..pattern.clone()
            }
        });
        std::iter::once(first).chain(others)
    }
}

/// Which numbers a record stands for, without looking at what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first.
    pub first: EventSeq,
    /// The last.
    pub last: EventSeq,
}

impl Span {
    /// How many numbers it has.
    #[must_use]
    pub fn len(self) -> u64 {
        self.last.0.saturating_sub(self.first.0) + 1
    }

    /// Never: a record stands for one number at least.
    #[must_use]
    pub fn is_empty(self) -> bool {
        false
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Numbers {
            seq: EventSeq,
            #[serde(default)]
            more: Vec<serde::de::IgnoredAny>,
        }
        let numbers = Numbers::deserialize(deserializer)?;
        let more = numbers.more.len() as u64;
        Ok(Self {
            first: numbers.seq,
            last: EventSeq(numbers.seq.0.saturating_add(more)),
        })
    }
}

#[cfg(test)]
#[path = "record/tests.rs"]
mod tests;
