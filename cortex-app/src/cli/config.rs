//! `cortex config`: what is set, and what can be.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use cortex_lib::error::Result;
use serde_json::json;

use super::screen::{Screen, pretty};
use super::{Exit, Global};
use crate::config::Config;

/// What is set, and what can be
#[derive(Debug, Args)]
pub(super) struct Configuration {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print what is in force: the file and the defaults; values of variables are hidden
    Show,
    /// Check the file
    Check,
    /// Print the JSON schema of the file
    Schema,
}

impl Configuration {
    pub(super) fn run(self, global: &Global, screen: Screen) -> Result<Exit> {
        match self.action {
            Action::Show => {
                let mut config = Config::read(&global.data_dir()?)?;
                hide_variables(&mut config);
                screen.line(&pretty(&config)?)?;
            }
            Action::Check => {
                let data_dir = global.data_dir()?;
                let path = Config::path(&data_dir);
                Config::read(&data_dir)?;
                let (exists, file) = (path.exists(), path.display().to_string());
                screen.show(&json!({ "file": file, "exists": exists, "valid": true }), |_| {
                    if exists {
                        format!("{file} holds")
                    } else {
                        format!("{file} is not there: everything is as by default")
                    }
                })?;
            }
            Action::Schema => screen.line(&pretty(&Config::json_schema())?)?,
        }
        Ok(Exit::Done)
    }
}

/// Variables are where people keep keys, and what is printed is pasted.
fn hide_variables(config: &mut Config) {
    let runtimes = &mut config.runtimes;
    let commands = runtimes.commands.values_mut().map(|program| &mut program.env);
    let own = [&mut runtimes.claude_code.env, &mut runtimes.codex.env, &mut runtimes.opencode.env];
    let variables = own.into_iter().chain(commands);
    for value in variables.flat_map(BTreeMap::values_mut) {
        "[hidden]".clone_into(value);
    }
}
