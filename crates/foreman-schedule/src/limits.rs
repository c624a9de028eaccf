//! How much may run at once.

use crate::Budgets;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Caps on what runs at once, and budgets. In every cap 0 means "no cap".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
#[serde(default)]
pub struct Limits {
    /// Runs at once, in total. Default 4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u32>,
    /// Runs at once in any one repository. No cap unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_repository: Option<u32>,
    /// Runs at once of a kind. A kind that is not named has no cap.
    pub per_kind: BTreeMap<String, u32>,
    /// Runs at once of a concurrency class. A class that is not named runs one at a time: that is what
    /// an order says by naming a class.
    pub per_class: BTreeMap<String, u32>,
    /// The kinds that are dispatched; everything when missing. An order without a kind is always
    /// accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kinds_accepted: Option<Vec<String>>,
    /// What may be spent.
    pub budgets: Budgets,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            total: Some(4),
            per_repository: None,
            per_kind: BTreeMap::new(),
            per_class: BTreeMap::new(),
            kinds_accepted: None,
            budgets: Budgets::default(),
        }
    }
}
