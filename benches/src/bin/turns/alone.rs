//! Turns on a runtime that answers at once: what a core takes with no CLI beside it.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use cortex_lib::port::{Script, ScriptedRuntime};
use serde_json::json;

use crate::bare::Seat as _;
use crate::cli::USE_A_TOOL;
use crate::cortex::Core;
use crate::run::Asked;
use crate::table::{MEMORY, Spread, WARM_UP};

/// Measures it and prints it.
pub(crate) async fn measure(asked: &Asked) -> Result<()> {
    println!(
        "\n== a core alone: {} turns, ms: median (quarter, three quarters, 95 of 100)",
        asked.rounds
    );
    for (what, text) in [("a turn of one answer", "say a word"), ("a turn with a tool", USE_A_TOOL)]
    {
        for (place, folder) in [("in memory", Path::new(MEMORY)), ("on disk", &asked.disk)] {
            let took = turns(text, asked.rounds, folder).await?;
            println!("  {what:<22} {place:<10} {took}");
        }
    }
    Ok(())
}

async fn turns(text: &str, rounds: usize, folder: &Path) -> Result<Spread> {
    let (root, data) = (tempfile::tempdir()?, tempfile::tempdir_in(folder)?);
    let runtime = ScriptedRuntime::new("at-once").turn(|turn| match &*turn.instruction {
        USE_A_TOOL => Script::new().ask("shell", json!({ "command": "true" })).answer("done"),
        _ => Script::new().answer("done"),
    });
    let core = Core::of(Arc::new(runtime), root.path().to_owned(), data.path()).await?;
    let mut agent = core.agent("ada").await?;
    let mut took = Vec::new();
    for _ in 0..rounds.saturating_add(WARM_UP) {
        took.push(agent.turn(text).await?.whole);
    }
    core.close().await?;
    Ok(Spread::of(took.into_iter().skip(WARM_UP)))
}
