//! `cortex mcp config`: what clients need in their configuration, and how it gets there.
#![cfg(unix)]

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use crate::home::{Home, Ran};

const CLIENTS: [(&str, &str); 6] = [
    ("claude-code", ".claude.json"),
    ("codex", ".codex/config.toml"),
    ("opencode", ".config/opencode/opencode.json"),
    ("vscode", ".config/Code/User/mcp.json"),
    ("cursor", ".cursor/mcp.json"),
    ("inspector", ".mcp-inspector/mcp.json"),
];

fn config(home: &Home, client: &str, flags: &[&str]) -> Ran {
    let args = [&["mcp", "config", "--client", client], flags].concat();
    let mut command = home.command(&args);
    for name in ["CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "MCP_CATALOG_PATH"] {
        command.env_remove(name);
    }
    crate::home::run(&mut command)
}

fn installed(home: &Home, client: &str, flags: &[&str]) -> Ran {
    config(home, client, &[&["--install", "--yes"], flags].concat()).good()
}

fn file_of(home: &Home, client: &str) -> PathBuf {
    let (_, file) = CLIENTS.into_iter().find(|(name, _)| *name == client).unwrap();
    home.path().join(file)
}

#[test]
fn what_is_printed_is_what_is_installed() {
    let home = Home::new();
    let mut all = String::new();
    for (client, _) in CLIENTS {
        let printed = config(&home, client, &[]).good();
        assert!(printed.err.contains(&file_of(&home, client).display().to_string()), "{printed:?}");
        let shown = installed(&home, client, &[]);
        assert_eq!(std::fs::read_to_string(file_of(&home, client)).unwrap(), printed.out);
        // The change was shown.
        assert!(
            printed.out.lines().all(|line| shown.err.contains(&format!("+{line}"))),
            "{shown:?}"
        );
        let again = installed(&home, client, &[]);
        assert!(again.out.contains("has it already") && again.err.is_empty(), "{again:?}");
        all.extend(["== ", client, "\n", &printed.out]);
    }
    let all = all.replace(env!("CARGO_BIN_EXE_cortex"), "/usr/bin/cortex");
    let all = all.replace(&home.data_dir().display().to_string(), "/data");
    insta::assert_snapshot!("clients", all);
}

#[test]
fn the_words_of_the_bridge_are_those_of_the_configuration() {
    let home = Home::new();
    let text = config(&home, "cursor", &["--embedded", "--name", "work", "--json"]).good().json();
    let text = text["text"].as_str().unwrap().to_owned();
    assert!(text.contains("\"work\": {") && text.contains("\"mcp\", \"--embedded\"]"), "{text}");
    let wrong = config(&home, "cursor", &["--name", "my server"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("name: "), "{}", wrong.err);
}

#[test]
fn secrets_beside_a_change_are_not_shown() {
    let home = Home::new();
    let file = file_of(&home, "codex");
    std::fs::create_dir(file.parent().unwrap()).unwrap();
    let other = "[mcp_servers.other.env]\nAPI_KEY = \"sk-proj-0123456789abcdefghij\"\n";
    std::fs::write(&file, other).unwrap();
    let shown = installed(&home, "codex", &[]);
    assert!(shown.err.contains(" API_KEY = "), "{}", shown.err);
    assert!(!shown.err.contains("0123456789abcdefghij"), "{}", shown.err);
    assert!(std::fs::read_to_string(&file).unwrap().starts_with(other));
}

#[test]
fn nobody_is_asked_without_a_terminal() {
    let home = Home::new();
    let asked = config(&home, "codex", &["--install"]);
    assert_eq!(asked.code, 2);
    assert!(
        asked.err.contains("+[mcp_servers.cortex]") && asked.err.contains("yes: "),
        "{asked:?}"
    );
    assert!(!file_of(&home, "codex").exists());
}

#[test]
fn a_file_keeps_its_place_its_rights_and_what_is_in_it() {
    let home = Home::new();
    let (real, link) = (home.path().join("dotfiles.toml"), file_of(&home, "codex"));
    std::fs::write(&real, "# mine\nmodel = \"m\"\n").unwrap();
    std::fs::set_permissions(&real, PermissionsExt::from_mode(0o640)).unwrap();
    std::fs::create_dir(link.parent().unwrap()).unwrap();
    symlink(&real, &link).unwrap();
    installed(&home, "codex", &[]);
    assert!(link.is_symlink());
    assert_eq!(real.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    let text = std::fs::read_to_string(&real).unwrap();
    assert!(text.starts_with("# mine\nmodel = \"m\"\n\n[mcp_servers.cortex]\n"), "{text}");
    let left = std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!left.into_iter().any(|name| name.to_string_lossy().starts_with(".cortex-")));
}

#[test]
fn a_file_that_cannot_be_read_is_left_alone() {
    let home = Home::new();
    let file = file_of(&home, "claude-code");
    std::fs::write(&file, "{ \"mcpServers\": ").unwrap();
    let refused = config(&home, "claude-code", &["--install", "--yes"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains(&file.display().to_string()), "{}", refused.err);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{ \"mcpServers\": ");
}
