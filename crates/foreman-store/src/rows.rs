//! How events are laid out in the table: a record a row ([`foreman_domain::pack`]), under the last
//! number that it stands for.
//!
//! The row of the first number above a cursor is therefore the one to read on with, also when the
//! cursor points into a record or into a range that was dropped: a `gap` row covers its range.

use crate::StoreError;
use crate::error::{parse, write};
use foreman_domain::{
    At, Event, EventKind, EventSeq, Packed, ProcessRef, Record, RunId, StepName, WIRE_VERSION,
    last_seq_of,
};
use serde::{Deserialize, Serialize};

/// What a row takes beside its text, about.
pub(crate) const ROW_BYTES: usize = 32;

/// A row to write.
#[derive(Debug)]
pub(crate) struct EventRow {
    /// The last number that it stands for.
    pub last: EventSeq,
    pub kind: &'static str,
    pub at: At,
    pub json: String,
}

#[derive(Serialize)]
struct Body<'a> {
    at: At,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: &'a Option<StepName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    process: &'a Option<ProcessRef>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    more: Vec<&'a str>,
    #[serde(flatten)]
    kind: &'a EventKind,
}

#[derive(Deserialize)]
struct StoredBody {
    at: At,
    #[serde(default)]
    step: Option<StepName>,
    #[serde(default)]
    process: Option<ProcessRef>,
    #[serde(default)]
    more: Vec<String>,
    #[serde(flatten)]
    kind: EventKind,
}

impl EventRow {
    /// The row of one event.
    pub fn of(event: &Event) -> Result<Self, StoreError> {
        Self::encode(event, Vec::new(), last_seq_of(event))
    }

    /// The row of events that are one record.
    pub fn packed(packed: Packed<'_>) -> Option<Result<Self, StoreError>> {
        let first = packed.first()?;
        let more = packed.more().collect();
        Some(Self::encode(first, more, packed.last_seq()))
    }

    fn encode(first: &Event, more: Vec<&str>, last: EventSeq) -> Result<Self, StoreError> {
        let body = Body {
            at: first.at,
            step: &first.step,
            process: &first.process,
            more,
            kind: &first.kind,
        };
        Ok(Self {
            last,
            kind: first.kind.tag(),
            at: first.at,
            json: write("event", &body)?,
        })
    }

    /// What it takes in the file, about.
    pub fn bytes(&self) -> usize {
        self.json.len() + ROW_BYTES
    }
}

/// The events of a row.
pub(crate) fn events_of(
    run: &RunId,
    last: EventSeq,
    json: &str,
) -> Result<impl Iterator<Item = Event> + use<>, StoreError> {
    let body: StoredBody = parse("event", json)?;
    let seq = match &body.kind {
        EventKind::Gap { from, .. } => *from,
        _ => EventSeq(last.0.saturating_sub(body.more.len() as u64)),
    };
    let first = Event {
        v: WIRE_VERSION,
        run: run.clone(),
        seq,
        at: body.at,
        step: body.step,
        process: body.process,
        kind: body.kind,
    };
    Ok(Record::new(first, body.more).into_events())
}
