//! `cortex call`: any command, by name and with JSON.

use std::io::Read as _;

use clap::Args;
use cortex_lib::error::{Code, Error, Problem, Result};
use serde_json::{Map, Value};

use super::screen::{Screen, pretty};
use super::{Exit, Global, with_door};

/// Give any command by its name, with JSON arguments
#[derive(Debug, Args)]
pub(super) struct Call {
    /// The tool or operator command; `cortex tools` lists them
    #[arg(value_name = "TOOL")]
    name: String,
    /// Its arguments as a JSON object; `-` reads them from standard input
    #[arg(value_name = "JSON|-", default_value = "{}")]
    args: String,
}

impl Call {
    pub(super) async fn run(self, global: &Global, screen: Screen) -> Result<Exit> {
        let args = self.arguments()?;
        let answer = with_door(global, async |door| door.call_json(&self.name, args).await).await?;
        screen.line(&pretty(&answer)?)?;
        Ok(Exit::Done)
    }

    fn arguments(&self) -> Result<Value> {
        let invalid =
            |why: String| Error::invalid(Code::InvalidArguments, vec![Problem::new("JSON", why)]);
        let mut text = self.args.clone();
        if text == "-" {
            text.clear();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| invalid(error.to_string()))?;
        }
        if text.trim().is_empty() {
            return Ok(Map::new().into());
        }
        serde_json::from_str(&text).map_err(|error| invalid(format!("is no JSON: {error}")))
    }
}
