//! What turns use: tokens and money.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was used. A figure that is not known is absent, never 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Usage {
    /// Tokens read by the model, without those from its cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Tokens written by the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Tokens read from its cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u64>,
    /// Cost in US dollars, as the runtime reckons it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

impl Usage {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Both together. What only one side knows is kept.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        fn sum<T>(a: Option<T>, b: Option<T>, add: impl FnOnce(T, T) -> T) -> Option<T> {
            match (a, b) {
                (Some(a), Some(b)) => Some(add(a, b)),
                (one, other) => one.or(other),
            }
        }
        Self {
            input_tokens: sum(self.input_tokens, other.input_tokens, u64::saturating_add),
            output_tokens: sum(self.output_tokens, other.output_tokens, u64::saturating_add),
            cached_tokens: sum(self.cached_tokens, other.cached_tokens, u64::saturating_add),
            cost_usd: sum(self.cost_usd, other.cost_usd, |a, b| a + b),
        }
    }
}
