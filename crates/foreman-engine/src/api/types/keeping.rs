//! Looking for events, and how many of them are kept.

use foreman_domain::Event;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to look for.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct SearchRequest {
    /// Words, all of which must occur; case does not matter. In all runs, words that begin so.
    pub text: String,
    /// One run, as typed: everything in it is searched, output too. All runs when absent: what an
    /// operator looks for, without output.
    pub run: Option<String>,
    /// Only these kinds (tags); all that are searched when empty.
    pub kinds: Vec<String>,
    /// Where the page before this one ended.
    pub before: Option<String>,
    /// At most this many; 50 when absent, capped at 512.
    pub limit: Option<u32>,
}

/// What was found.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct SearchPage {
    /// Newest first; by run, where several runs are searched.
    pub events: Vec<Event>,
    /// Where to go on with older ones; absent when everything was looked at.
    pub next: Option<String>,
    /// True when some events are not searchable yet: ask again in a moment.
    pub incomplete: bool,
}

/// Asks how many events are kept.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct RetentionRequest {}

/// Sets how many events are kept.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct RetentionChange {
    /// Bytes of one run's events; as it is when absent.
    pub per_run: Option<u64>,
    /// Bytes of all runs' events; as it is when absent.
    pub total: Option<u64>,
}

/// How many events are kept, and what they take.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct RetentionView {
    /// Most bytes of one run's events. Beyond it the oldest output goes.
    pub per_run: u64,
    /// Most bytes of all runs' events.
    pub total: u64,
    /// Bytes that all runs' events take.
    pub used: u64,
    /// Bytes of the run that takes most.
    pub largest_run: u64,
    /// Size of the database file.
    pub database: u64,
    /// Size of its write-ahead log.
    pub log: u64,
    /// Part of the file that holds nothing.
    pub free: u64,
}
