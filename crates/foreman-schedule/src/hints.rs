//! What the operator says about an order's place in the queue.

use crate::Recurrence;
use foreman_domain::At;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An order's scheduling hints. All of them may be left out.
#[derive(
    Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, specta::Type,
)]
#[serde(default, rename = "SchedulingHints")]
pub struct Hints {
    /// Before everything that has no priority.
    pub priority: bool,
    /// How much it is worth; missing sorts last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impact: Option<Impact>,
    /// How much it takes; missing sorts last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub complexity: Option<Complexity>,
    /// Whether the queue may start it.
    pub autonomy: Autonomy,
    /// What sort of work it is, for the caps and the list of kinds that are accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Orders that share something outside of the repository (a database, a device) share a class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency_class: Option<String>,
    /// Not started before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before: Option<At>,
    /// When it comes again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recurrence: Option<Recurrence>,
    /// How often a failure that may pass by itself is tried again.
    pub retries: u32,
}

/// How much an order is worth.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    specta::Type,
)]
#[serde(rename_all = "snake_case")]
pub enum Impact {
    /// First.
    High,
    /// After high.
    Medium,
    /// After medium.
    Low,
}

/// How much an order takes.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    specta::Type,
)]
#[serde(rename_all = "snake_case")]
pub enum Complexity {
    /// First.
    Small,
    /// After small.
    Medium,
    /// After medium.
    Large,
}

/// Whether the queue may start an order.
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
pub enum Autonomy {
    /// Only when the operator dispatches it by hand.
    #[serde(alias = "human-only")]
    HumanOnly,
    /// The queue starts it; a person reviews.
    #[default]
    Supervised,
    /// The queue starts it.
    Autonomous,
}
