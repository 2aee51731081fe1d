//! `cortex-scripted`: serves one script to coding CLIs, in place of a model.
#![expect(clippy::print_stdout, reason = "what was asked is the product")]

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::builder::PossibleValuesParser;
use clap::{Parser, ValueHint};
use cortex_scripted::{Api, Script, ScriptedServer, reference};

const LANGUAGE: &str = r#"The script is JSON: {"rules": [{"when": …, "answer": …}], "otherwise": …}. The first rule that fits a request answers it.

  when    last_user: the user's last text contains this          during, results: the step of an instruction
          tool_result: a tool's result contains this             times: "every", {"first": n}, {"nth": n}
          any_text, tool_offered, model: …                       take: a word of the conversation, for {{name}}
  answer  blocks: [{"text": …}, {"thinking": …}, {"tool": {"name": "Bash", "input": {"command": "ls"}}}]
          usage, quota, stop_reason, pace: {"before_ms": 500}    fault: {"status": …}, {"cut": …}, {"hang": …}, …

docs/scripted-models.md describes all of it and how CLIs are led here; --example prints a script to begin with."#;

/// Serve a script on 127.0.0.1 in place of a model
///
/// Prints one line with the address, then one for each request: what was asked, and which rule answered.
#[derive(Debug, Parser)]
#[command(version, after_help = LANGUAGE)]
struct Arguments {
    /// The model API that is spoken
    #[arg(long, default_value = Api::Anthropic.as_str(), value_parser = apis(), value_name = "API")]
    api: String,
    /// The port; 0: any free one
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Print the example script and end
    #[arg(long)]
    example: bool,
    /// The script
    #[arg(value_hint = ValueHint::FilePath, required_unless_present = "example")]
    script: Option<PathBuf>,
}

fn apis() -> PossibleValuesParser {
    PossibleValuesParser::new(Api::ALL.map(Api::as_str))
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let Some(file) = arguments.script.filter(|_| !arguments.example) else {
        print!("{}", reference::EXAMPLE);
        return Ok(());
    };
    let api = Api::ALL.into_iter().find(|api| api.as_str() == arguments.api);
    let api = api.context("this API is not known")?;
    let server = ScriptedServer::listen(api, read(&file)?, arguments.port).await;
    let server =
        server.with_context(|| format!("port {} of 127.0.0.1 cannot be had", arguments.port))?;
    println!("{}", server.url());
    tokio::select! {
        () = tell(&server) => Ok(()),
        interrupted = tokio::signal::ctrl_c() => Ok(interrupted?),
    }
}

fn read(file: &Path) -> Result<Script> {
    let text = fs_err::read_to_string(file)?;
    serde_json::from_str(&text).with_context(|| format!("{} is no script", file.display()))
}

/// Prints each request as it comes.
async fn tell(server: &ScriptedServer) {
    let requests = async {
        for number in 0.. {
            let request = server.request(number).await;
            println!("{request} -> {}", request.answered_by);
        }
    };
    let others = async {
        for number in 0.. {
            println!("{} -> not scripted", server.other(number).await);
        }
    };
    let strangers = async {
        for number in 0.. {
            println!("{} -> another host, refused", server.stranger(number).await);
        }
    };
    tokio::join!(requests, others, strangers);
}
