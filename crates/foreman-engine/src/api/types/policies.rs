//! Policies, their explanation, and trust.

use foreman_domain::Amendment;
use foreman_policy::{Bounds, Layer, Policy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Whose policy: a run, or a repository.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct PolicyQuery {
    /// A run, as typed.
    pub run: Option<String>,
    /// Any path inside a repository.
    pub repo: Option<PathBuf>,
}

/// A policy in force.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct PolicyView {
    /// Its rules.
    pub policy: Policy,
    /// Bounds in force.
    pub bounds: Bounds,
    /// Recorded decisions behind it, newest first.
    pub amendments: Vec<Amendment>,
    /// State of the repository's policy file: `absent`, `trusted`, `untrusted`, `changed`.
    pub project_file: String,
}

/// A destination to explain.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct PolicyWhy {
    /// Whose policy.
    #[serde(flatten)]
    pub of: PolicyQuery,
    /// `host:port`, optionally behind `tcp ` or `udp `.
    pub destination: String,
}

/// Which rule decides, or that none matches.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct Explanation {
    /// `allowed`, `held`, `refused`.
    pub verdict: String,
    /// The layer that decided; absent when no rule matches.
    pub layer: Option<Layer>,
    /// The rule that decided; absent when no rule matches.
    pub rule: Option<String>,
    /// The same in words.
    pub words: String,
}

/// Trust a repository's policy file.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct TrustRequest {
    /// Any path inside the repository.
    pub repo: PathBuf,
    /// Hash of the content that was shown; absent to only show it.
    pub expect: Option<String>,
}

/// A repository's policy file.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct TrustView {
    /// The file.
    pub file: PathBuf,
    /// Its text, as found now.
    pub text: String,
    /// Hash of the text, to trust it.
    pub expect: String,
    /// Whether exactly this text is trusted.
    pub trusted: bool,
}
