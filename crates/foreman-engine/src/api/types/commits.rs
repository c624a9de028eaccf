//! The commits of a run.

use foreman_domain::At;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which commits of a run.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct CommitsRequest {
    /// As typed.
    pub run: String,
    /// From [`DiffView::expect`](super::DiffView::expect) or [`CommitPage::expect`]; refused when head
    /// or base have moved since, so that pages fit together. Whatever is there now when absent.
    #[serde(default)]
    pub expect: Option<String>,
    /// So many of the newest are left out; [`CommitPage::next`] of the page before.
    #[serde(default)]
    pub skip: u32,
    /// At most this many; a hundred when absent, two hundred at most.
    #[serde(default)]
    pub limit: Option<u32>,
}

impl CommitsRequest {
    /// The newest commits of a run.
    #[must_use]
    pub fn new(run: impl Into<String>) -> Self {
        Self {
            run: run.into(),
            expect: None,
            skip: 0,
            limit: None,
        }
    }
}

/// A page of the commits that a merge of a run would bring.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct CommitPage {
    /// Token of head, base and policy revision, the same as that of the diff.
    pub expect: String,
    /// Tip of the run.
    pub head: String,
    /// How many there are; no more than 100,000 are listed.
    pub total: u32,
    /// True when there are more than can be listed.
    pub truncated: bool,
    /// Newest first: children before their parents, whatever dates they carry.
    pub commits: Vec<CommitView>,
    /// What the next page leaves out; absent when this is the last.
    pub next: Option<u32>,
}

/// A commit of a run. What it says of itself is the run's to choose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct CommitView {
    /// Its full name.
    pub sha: String,
    /// The first line of its message, with marks for what cannot be seen, cut to 200 characters; may be
    /// empty. Untrusted text.
    pub subject: String,
    /// When it says that it was written. Untrusted.
    pub authored_at: At,
    /// Its parents: two or more for a merge.
    pub parents: u32,
    /// Files that it changes against its first parent.
    pub files: u32,
    /// Lines added in them; absent where they were too many to count.
    pub added: Option<u64>,
    /// Lines removed in them; absent where they were too many to count.
    pub removed: Option<u64>,
}
