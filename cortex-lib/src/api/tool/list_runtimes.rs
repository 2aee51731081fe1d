//! `list_runtimes`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::view::RuntimeView;
use crate::api::{Access, Command, Effect, Granted, Tool};
use crate::error::{Code, Result};

/// List the runtimes agents can run on: the `runtime_id` that `create_agent` needs, what each one can do and whether it can start now, with a remediation when it cannot.
/// Cost: reads only, at once. It never waits for a health check: what is old is looked at behind the answer, and a later call sees it. Next: `create_agent`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListRuntimes {}

/// Runtimes, ordered by their ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuntimeList {
    /// The runtimes.
    pub runtimes: Vec<RuntimeView>,
}

impl Command for ListRuntimes {
    type Output = RuntimeList;
    const NAME: &'static str = "list_runtimes";
    const ACCESS: Access = Access::EVERYONE;
    const EFFECT: Effect = Effect::Reads;
    const ERRORS: &'static [Code] = &[];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let core = cx.core();
        let runtimes =
            core.runtimes().values().map(|runtime| RuntimeView::of(runtime, core.health(runtime)));
        Ok(RuntimeList { runtimes: runtimes.collect() })
    }
}

impl Tool for ListRuntimes {}
