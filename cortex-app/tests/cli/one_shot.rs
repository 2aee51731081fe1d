//! Commands that open the core themselves.

use cortex_lib::api::Catalogue;
use serde_json::{Value, json};

use crate::home::Home;

#[test]
fn a_project_is_added_listed_verified_and_removed() {
    let home = Home::new();
    assert!(home.cortex(&["project", "list"]).good().out.starts_with("no projects"));
    let root = home.folder("web");
    home.cortex(&["project", "add", "web", &root]).good();
    let set = ["project", "set-verification", "web", "--timeout", "60", "--", "cargo", "test"];
    home.cortex(&set).good();
    let list = home.cortex(&["project", "list", "--json"]).good().json();
    assert_eq!(list["projects"][0]["name"], "web");
    let verification = json!({ "commands": [{ "argv": ["cargo", "test"] }], "timeout_secs": 60 });
    assert_eq!(list["projects"][0]["verification"], verification);
    home.cortex(&["project", "set-verification", "web", "--clear"]).good();
    let list = home.cortex(&["project", "list", "--json"]).good().json();
    assert_eq!(list["projects"][0].get("verification"), None);
    for (word, trusted) in [("trust", true), ("untrust", false)] {
        let shown = home.cortex(&["project", word, "web", "--json"]).good().json();
        assert_eq!(shown["project"]["trusted"], trusted);
    }

    let twice = home.cortex(&["project", "add", "web", &root]);
    assert_eq!((twice.code, twice.err.contains("(project.name_taken)")), (4, true));
    home.cortex(&["project", "remove", "web"]).good();
    let gone = home.cortex(&["project", "remove", "web"]);
    assert_eq!((gone.code, gone.err.contains("(project.not_found)")), (3, true));
    assert!(std::path::Path::new(&root).exists());
}

#[test]
fn a_verification_of_several_commands_comes_from_a_file() {
    let home = Home::new();
    home.cortex(&["project", "add", "web", &home.folder("web")]).good();
    let file = home.path().join("verification.json");
    let file = file.to_str().unwrap();
    std::fs::write(file, r#"{"commands":[{"argv":["a"]},{"argv":[]}]}"#).unwrap();
    let set = ["project", "set-verification", "web", "--file", file];
    let refused = home.cortex(&set);
    assert_eq!((refused.code, refused.err.contains("commands[1].argv")), (2, true));
    std::fs::write(file, r#"{"commands":[{"argv":["a"]},{"argv":["b"]}]}"#).unwrap();
    home.cortex(&set).good();
    assert!(home.cortex(&["project", "list"]).good().out.contains("a; b"));
}

#[test]
fn the_tools_are_those_of_the_catalogue() {
    let home = Home::new();
    let list = home.cortex(&["tools", "--json"]).good().json();
    let names = |key: &str| -> Vec<String> {
        let defs = list[key].as_array().unwrap();
        defs.iter().map(|def| def["name"].as_str().unwrap().to_owned()).collect()
    };
    let catalogue = Catalogue::CORTEX;
    assert_eq!(names("tools"), catalogue.tools.iter().map(|def| def.name).collect::<Vec<_>>());
    assert_eq!(
        names("operator"),
        catalogue.operator.iter().map(|def| def.name).collect::<Vec<_>>()
    );
    let all: Vec<&Value> =
        ["tools", "operator"].iter().flat_map(|key| list[*key].as_array().unwrap()).collect();
    for (told, def) in all.into_iter().zip(catalogue.iter()) {
        assert_eq!(&told["input_schema"], def.input_schema(), "{}", def.name);
    }
}

#[test]
fn a_call_takes_json_from_the_command_line_or_from_standard_input() {
    let home = Home::new();
    let add = json!({ "name": "web", "root": home.folder("web") }).to_string();
    let added = home.cortex_with(&["call", "add_project", "-"], &add).good().json();
    assert_eq!(added["project"]["name"], "web");
    let list = home.cortex(&["call", "list_projects"]).good().json();
    assert_eq!(list["projects"][0], added["project"]);
}

#[test]
fn a_call_with_an_unknown_field_names_it() {
    let home = Home::new();
    let ran = home.cortex(&["call", "list_agents", r#"{"projekt_id":"x"}"#]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("projekt_id: is not a known property"), "{}", ran.err);
    assert!(ran.err.contains("\n  next: "), "{}", ran.err);
    let ran = home.cortex(&["call", "list_agent"]);
    assert_eq!((ran.code, ran.err.contains("(tool.not_found)")), (3, true));
}

#[test]
fn an_agent_is_not_started_in_a_core_that_ends_at_once() {
    let home = Home::new();
    home.cortex(&["project", "add", "web", &home.folder("web")]).good();
    let create = ["agent", "create", "ada", "--project", "web", "--runtime", "command:cat"];
    home.cortex(&create).good();
    let ran = home.cortex(&["agent", "start", "ada"]);
    assert_eq!((ran.code, ran.err.contains(" serve`")), (4, true));
    assert!(home.cortex(&["agent", "list"]).good().out.contains("CREATED"));
    home.cortex(&["agent", "remove", "ada"]).good();
    assert_eq!(home.cortex(&["agent", "show", "ada"]).code, 3);
}

#[test]
fn a_token_is_made_once_and_replaced_by_rotation() {
    let home = Home::new();
    let token = |args: &[&str]| home.cortex(args).good().out.trim().to_owned();
    let first = token(&["token", "show"]);
    assert!(first.starts_with("cortex_user_"), "{first}");
    assert_eq!(token(&["token", "show"]), first);
    let second = token(&["token", "rotate"]);
    assert_ne!(second, first);
    assert_eq!(token(&["token", "show"]), second);
}

#[test]
fn shells_get_completions() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = home.cortex(&["completions", shell]).good().out;
        assert!(script.contains("set-verification"), "{shell}");
    }
}

#[test]
fn a_command_line_that_means_nothing_is_a_usage_error() {
    let home = Home::new();
    assert_eq!(home.cortex(&["sing"]).code, 2);
    assert_eq!(home.cortex(&["project", "set-verification", "web"]).code, 2);
    assert!(home.cortex(&["--help"]).good().out.contains("Exit codes:"));
}
