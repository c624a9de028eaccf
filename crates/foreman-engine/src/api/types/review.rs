//! What a run changed, and taking it over.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A diff and what a merge of it must name.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DiffView {
    /// Token of head, base and policy revision; `run.merge` requires it.
    pub expect: String,
    /// Tip of the run.
    pub head: String,
    /// Where the base branch stands now.
    pub base: String,
    /// Files with added and removed lines.
    pub files: Vec<DiffFile>,
    /// The unified diff. Untrusted text.
    pub patch: String,
    /// True when `patch` was cut for its size.
    pub truncated: bool,
    /// What a reviewer must see first: planted hooks, editor and tool settings, nested repositories.
    pub flags: Vec<String>,
    /// Why a merge would be refused now; absent when it would go through.
    pub refusal: Option<String>,
}

/// One file of a diff.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DiffFile {
    /// Path in the repository. Untrusted text.
    pub path: String,
    /// `added`, `modified`, `deleted`, `renamed`, `mode`.
    pub change: String,
    /// Lines added; absent for binary files.
    pub added: Option<u32>,
    /// Lines removed; absent for binary files.
    pub removed: Option<u32>,
}

/// Merge what was reviewed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct MergeRequest {
    /// As typed.
    pub run: String,
    /// From [`DiffView::expect`].
    pub expect: String,
}
