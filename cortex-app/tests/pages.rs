//! The pages of `docs/` that the program writes say what the program says.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

use cortex_app::cli::reference;
use cortex_app::config::Config;

/// Compares a page with what is stored; with `UPDATE` set, stores it.
fn is_current(name: &str, page: &str) {
    let path = format!("{}/../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, page).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored.replace("\r\n", "\n") == page,
        "docs/{name} is stale: run `UPDATE=1 cargo test -p cortex-app --test pages`"
    );
}

#[test]
fn the_command_line_is_described() {
    is_current("cli.md", &reference::page());
}

#[test]
fn the_configuration_has_a_schema() {
    let schema = serde_json::to_string_pretty(&Config::json_schema()).unwrap();
    is_current("config.schema.json", &format!("{schema}\n"));
}

#[test]
fn the_default_configuration_holds() {
    let written = serde_json::to_string(&Config::default()).unwrap();
    assert_eq!(Config::parse(&written).unwrap(), Config::default());
    assert_eq!(Config::parse("{}").unwrap(), Config::default());
}
