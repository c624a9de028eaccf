//! Policies, their explanation, and trust.

use foreman_domain::Amendment;
use foreman_policy::{Bounds, Layer, Policy, SecretUse, Toolchain};
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
    /// Toolchains that it shows.
    #[serde(default)]
    pub toolchains: Vec<ToolchainView>,
    /// Secrets that a run is handed, by name.
    #[serde(default)]
    pub secrets: Vec<SecretUse>,
}

/// A toolchain of the operator's, as a run sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct ToolchainView {
    /// Which.
    pub toolchain: Toolchain,
    /// Who says that it is needed: a file of the repository, a policy file, or "as asked for". Untrusted
    /// text.
    pub chosen_by: String,
    /// False where the operator has none that may be shown: a run has what the system has.
    pub found: bool,
    /// Folders and files that are shown, read-only, at their own places.
    pub mounts: Vec<PathBuf>,
    /// Folders that programs are looked for in, before the system's.
    pub path: Vec<PathBuf>,
    /// Variables that are set.
    pub set: Vec<(String, String)>,
    /// Names of variables of the operator's that are let through.
    pub passes: Vec<String>,
    /// What is not shown and why, as sentences.
    pub notes: Vec<String>,
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
