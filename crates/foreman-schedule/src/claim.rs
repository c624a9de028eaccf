//! Scope claims: which paths an order means to change, and what that keeps others from.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The paths that an order means to change, as gitignore-like patterns from the repository's root.
///
/// A claim without patterns says nothing and counts as no claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct ScopeClaim {
    /// The patterns: `src/**`, `docs/`, `*.toml`.
    pub patterns: Vec<String>,
    /// How long the claim holds others off.
    #[serde(default)]
    pub enforcement: Enforcement,
    /// With a mandatory claim: also never beside work that declares no scope.
    #[serde(default)]
    pub strict: bool,
}

/// How long a claim holds others off.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    Default,
    Serialize,
    Deserialize,
    JsonSchema,
    specta::Type,
)]
#[serde(rename_all = "snake_case")]
pub enum Enforcement {
    /// While the order's run lives.
    #[default]
    Advisory,
    /// As a lease for the order's lifetime: from dispatch until it is done, failed or cancelled.
    Mandatory,
}

/// Two patterns that may match one path.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema, specta::Type,
)]
pub struct Overlap {
    /// The waiting order's pattern.
    pub ours: String,
    /// The holder's pattern.
    pub theirs: String,
}

/// Compares patterns with patterns, never with lists of files: a file that does not exist yet is
/// part of a scope too.
pub trait CompareScopes {
    /// The first pair that may match one path; nothing only when no path can match both sides.
    fn overlap(&self, ours: &[String], theirs: &[String]) -> Option<Overlap>;
}
