//! `cortex config`: what is set, and what can be.

use clap::{Args, Subcommand};
use cortex_lib::error::Result;
use serde_json::{Value, json};

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
                let config = Config::read(&global.data_dir()?)?;
                let shown = hide_variables(serde_json::to_value(&config).unwrap_or_default());
                screen.line(&pretty(&shown)?);
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
            Action::Schema => screen.line(&pretty(&Config::json_schema())?),
        }
        Ok(Exit::Done)
    }
}

/// Variables are where people keep keys, and what is printed is pasted.
fn hide_variables(mut value: Value) -> Value {
    match &mut value {
        Value::Object(object) => {
            for (key, inner) in object {
                let inner_value = std::mem::take(inner);
                *inner = match inner_value {
                    Value::Object(variables) if key == "env" => variables
                        .into_iter()
                        .map(|(name, _)| (name, Value::from("[hidden]")))
                        .collect(),
                    other => hide_variables(other),
                };
            }
        }
        Value::Array(items) => {
            for item in items {
                *item = hide_variables(std::mem::take(item));
            }
        }
        _ => {}
    }
    value
}
