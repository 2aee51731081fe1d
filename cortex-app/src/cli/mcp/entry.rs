//! A server in the file of a client: what stands there, and how it is put there without touching the rest.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstRootNode};
use toml_edit::{Array, DocumentMut, Item, Table, value};

/// The keys of a server, in their order.
pub(super) type Entry = Vec<(&'static str, Setting)>;

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Setting {
    Text(String),
    Words(Vec<String>),
    Number(i64),
    Flag(bool),
}

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// JSON, with comments where its client takes them.
    Json,
    Toml,
}

impl Format {
    /// The text of a file with the server `name` under `servers`. Comments, order and everything else stay.
    /// The error says why the text is none of this form.
    pub(super) fn put(
        self,
        text: &str,
        servers: &str,
        name: &str,
        entry: &Entry,
    ) -> Result<String, String> {
        match self {
            Self::Json => put_json(text, servers, name, entry),
            Self::Toml => put_toml(text, servers, name, entry),
        }
    }
}

fn put_json(text: &str, servers: &str, name: &str, entry: &Entry) -> Result<String, String> {
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    let root =
        CstRootNode::parse(text, &ParseOptions::default()).map_err(|error| error.to_string())?;
    let whole = root.object_value_or_create().ok_or("it is no JSON object")?;
    let known = whole.object_value_or_create(servers).ok_or_else(|| no_table(servers))?;
    let fields = entry.iter().map(|(key, setting)| ((*key).to_owned(), json(setting))).collect();
    let server = CstInputValue::Object(fields);
    match known.get(name) {
        Some(present) => present.set_value(server),
        None => drop(known.append(name, server)),
    }
    Ok(root.to_string())
}

fn json(setting: &Setting) -> CstInputValue {
    match setting {
        Setting::Text(text) => CstInputValue::String(text.clone()),
        Setting::Words(words) => {
            CstInputValue::Array(words.iter().cloned().map(CstInputValue::String).collect())
        }
        Setting::Number(number) => CstInputValue::Number(number.to_string()),
        Setting::Flag(flag) => CstInputValue::Bool(*flag),
    }
}

fn put_toml(text: &str, servers: &str, name: &str, entry: &Entry) -> Result<String, String> {
    let mut whole: DocumentMut =
        text.parse().map_err(|error: toml_edit::TomlError| error.to_string())?;
    let mut fresh = Table::new();
    // Only the servers in it have a heading.
    fresh.set_implicit(true);
    let known = whole.entry(servers).or_insert(Item::Table(fresh));
    let known = known.as_table_like_mut().ok_or_else(|| no_table(servers))?;
    let mut server = Table::new();
    for (key, setting) in entry {
        server.insert(key, toml(setting));
    }
    known.insert(name, Item::Table(server));
    Ok(whole.to_string())
}

fn toml(setting: &Setting) -> Item {
    match setting {
        Setting::Text(text) => value(text),
        Setting::Words(words) => value(words.iter().collect::<Array>()),
        Setting::Number(number) => value(*number),
        Setting::Flag(flag) => value(*flag),
    }
}

fn no_table(servers: &str) -> String {
    format!("`{servers}` is there and holds no servers")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        vec![
            ("command", Setting::Text("/bin/cortex".into())),
            ("args", Setting::Words(vec!["mcp".into()])),
            ("timeout", Setting::Number(5)),
            ("enabled", Setting::Flag(true)),
        ]
    }

    #[test]
    fn a_new_file_holds_the_server_alone() {
        let json = Format::Json.put("", "mcpServers", "cortex", &entry()).unwrap();
        let want = r#"{
  "mcpServers": {
    "cortex": {
      "command": "/bin/cortex",
      "args": ["mcp"],
      "timeout": 5,
      "enabled": true
    }
  }
}
"#;
        assert_eq!(json, want);
        let toml = Format::Toml.put("", "mcp_servers", "cortex", &entry()).unwrap();
        let want = "[mcp_servers.cortex]\ncommand = \"/bin/cortex\"\nargs = [\"mcp\"]\ntimeout = 5\nenabled = true\n";
        assert_eq!(toml, want);
    }

    #[test]
    fn the_rest_of_a_file_stays_as_it_is() {
        let json = "{\n    // mine\n    \"mcpServers\": {\n        \"other\": { \"url\": \"x\" }, // theirs\n    },\n    \"z\": 1\n}\n";
        let put = Format::Json.put(json, "mcpServers", "cortex", &entry()).unwrap();
        for line in [
            "    // mine\n",
            "        \"other\": { \"url\": \"x\" }, // theirs\n",
            "    \"z\": 1\n",
        ] {
            assert!(put.contains(line), "{put}");
        }
        let toml = "model = \"m\" # mine\n\n[mcp_servers.other]\nurl = \"x\"\n\n[z]\na = 1\n";
        let put = Format::Toml.put(toml, "mcp_servers", "cortex", &entry()).unwrap();
        for part in ["model = \"m\" # mine\n", "[mcp_servers.other]\nurl = \"x\"\n", "[z]\na = 1\n"]
        {
            assert!(put.contains(part), "{put}");
        }
    }

    #[test]
    fn servers_on_one_line_stay_on_it() {
        let text = "s = { other = { url = \"x\" } }\nz = 1\n";
        let put = Format::Toml.put(text, "s", "cortex", &entry()).unwrap();
        let want = "s = { other = { url = \"x\" } , cortex = { command = \"/bin/cortex\", args = [\"mcp\"], timeout = 5, enabled = true } }\nz = 1\n";
        assert_eq!(put, want);
        assert_eq!(Format::Toml.put(&put, "s", "cortex", &entry()).unwrap(), put);
    }

    #[test]
    fn a_server_of_that_name_is_replaced_and_once_is_enough() {
        for (format, text) in [
            (Format::Json, r#"{ "s": { "cortex": { "url": "old" } } }"#),
            (Format::Toml, "[s.cortex]\nurl = \"old\"\n"),
        ] {
            let put = format.put(text, "s", "cortex", &entry()).unwrap();
            assert!(!put.contains("old"), "{put}");
            assert_eq!(format.put(&put, "s", "cortex", &entry()).unwrap(), put);
        }
    }

    #[test]
    fn a_file_of_another_form_is_left_alone() {
        for (format, text) in [
            (Format::Json, "{"),
            (Format::Json, "[]"),
            (Format::Json, r#"{ "s": [] }"#),
            (Format::Toml, "s ="),
            (Format::Toml, "s = 1"),
        ] {
            assert!(format.put(text, "s", "cortex", &entry()).is_err(), "{text}");
        }
    }
}
