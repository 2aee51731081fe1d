//! `check_runtimes`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::tool::list_runtimes::RuntimeList;
use crate::api::view::RuntimeView;
use crate::api::{Access, Command, Effect, Granted};
use crate::error::{Code, Error, Result};

/// Look at every runtime now and wait for what is found: its program, its version, its login, and what to do when it cannot start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckRuntimes {}

impl Command for CheckRuntimes {
    type Output = RuntimeList;
    const NAME: &'static str = "check_runtimes";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::Reads;
    const ERRORS: &'static [Code] = &[];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let core = cx.core();
        let checks = core.runtimes().values().map(async |runtime| {
            let stopped = || Error::new(Code::CoreStopped, "the core has stopped");
            Ok(RuntimeView::of(runtime, core.check_health(runtime).await.ok_or_else(stopped)?))
        });
        let runtimes =
            futures_util::future::join_all(checks).await.into_iter().collect::<Result<_>>()?;
        Ok(RuntimeList { runtimes })
    }
}
