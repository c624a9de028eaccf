//! Secrets of the operator: kept by name, handed to runs by name.

use foreman_domain::At;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Keep a secret.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct SecretSet {
    /// Its name.
    pub name: String,
    /// Its value: at least 8 bytes, at most 16 KiB.
    pub value: SecretValue,
    /// Where it is kept.
    #[serde(default)]
    pub store: SecretStore,
}

/// A value. It is shown nowhere, not by accident either.
#[derive(Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
#[serde(transparent)]
pub struct SecretValue(pub String);

impl std::fmt::Debug for SecretValue {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("SecretValue")
    }
}

/// Where a secret is kept.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, specta::Type,
)]
#[serde(rename_all = "snake_case")]
pub enum SecretStore {
    /// The keyring of the operator's session.
    #[default]
    Keyring,
    /// A file of the data directory that only its owner can read, not encrypted.
    File,
}

/// Which secrets.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct SecretList {}

/// Names a secret.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct SecretRef {
    /// Its name.
    pub name: String,
}

/// A secret, without its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct SecretView {
    /// Its name.
    pub name: String,
    /// Where it is kept.
    pub store: SecretStore,
    /// When its value was set.
    pub set_at: At,
}

/// Secrets that are kept.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct Secrets {
    /// By name.
    pub secrets: Vec<SecretView>,
    /// Why those of the keyring are not among them; absent when they are.
    pub keyring: Option<String>,
}
