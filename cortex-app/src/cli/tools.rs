//! `cortex tools`: what can be called.

use clap::Args;
use cortex_lib::api::{Catalogue, CommandDef, Effect};
use cortex_lib::error::Result;
use serde_json::{Value, json};

use super::Exit;
use super::screen::{Screen, table};

/// List the tools and the operator commands
#[derive(Debug, Args)]
pub(super) struct Tools {}

impl Tools {
    #[expect(clippy::unused_self, reason = "all commands run alike")]
    pub(super) fn run(self, screen: Screen) -> Result<Exit> {
        let catalogue = Catalogue::CORTEX;
        let tools: Vec<&CommandDef> = catalogue.tools.iter().map(|tool| &**tool).collect();
        let operator: Vec<&CommandDef> = catalogue.operator.iter().collect();
        let list = json!({
            "tools": tools.iter().map(|def| describe(def)).collect::<Vec<_>>(),
            "operator": operator.iter().map(|def| describe(def)).collect::<Vec<_>>(),
        });
        screen.show(&list, |_| {
            let rows = |defs: &[&CommandDef]| {
                let row = |def: &&CommandDef| {
                    [def.name.to_owned(), effect(def).to_owned(), gist(def.description())]
                };
                table(["TOOL", "EFFECT", "WHAT IT DOES"], defs.iter().map(row), "none")
            };
            format!(
                "{}\n\nOnly for the person who runs Cortex, never over MCP:\n\n{}",
                rows(&tools),
                rows(&operator).replacen("TOOL   ", "COMMAND", 1)
            )
        })?;
        Ok(Exit::Done)
    }
}

fn describe(def: &CommandDef) -> Value {
    json!({
        "name": def.name,
        "description": def.description(),
        "effect": effect(def),
        "input_schema": def.input_schema(),
        "output_schema": def.output_schema(),
    })
}

fn effect(def: &CommandDef) -> &'static str {
    match def.effect {
        Effect::Reads => "reads",
        Effect::Writes | Effect::WritesLast => "writes",
        Effect::WritesOnce => "writes once",
    }
}

/// What it does, without the conditions.
fn gist(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let ends = [". ", ": ", "; "].iter().filter_map(|end| line.find(end));
    let gist = ends.min().and_then(|end| line.get(..end)).unwrap_or(line);
    gist.trim_end_matches('.').to_owned()
}
