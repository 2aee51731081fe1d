//! Remote clients that ask at the public address of a core that serves, and the person at the command line.
#![cfg(unix)]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::home::{Home, Serving};

const QUESTION: &str = "/authorize?response_type=code&code_challenge_method=S256&code_challenge=\
                        E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&state=s&client_id=";

/// Sends a request as the reverse proxy does; the whole answer.
fn ask(serving: &Serving, method: &str, target: &str, body: &str) -> String {
    let url = serving.facts["mcp"]["url"].as_str().unwrap();
    let address = url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let request = format!(
        "{method} {target} HTTP/1.1\r\nHost: cortex.example\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn location(answer: &str) -> &str {
    let line = answer.lines().find_map(|line| line.strip_prefix("location: "));
    line.unwrap_or_else(|| panic!("{answer}"))
}

/// A client that registered itself and waits; its page.
fn client(serving: &Serving) -> String {
    let body = json!({ "client_name": "Far", "redirect_uris": ["http://127.0.0.1/cb"] });
    let answer = ask(serving, "POST", "/register", &body.to_string());
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let registered: Value = serde_json::from_str(body).unwrap();
    let question = format!("{QUESTION}{}", registered["client_id"].as_str().unwrap());
    location(&ask(serving, "GET", &question, "")).to_owned()
}

#[test]
fn a_person_lets_clients_in_and_ends_them() {
    let home = Home::new();
    home.configure(&json!({ "mcp": { "port": 0, "public_url": "https://cortex.example" } }));
    let serving = home.serve();
    assert!(home.cortex(&["connection", "list"]).good().out.contains("No client asks"));

    let page = client(&serving);
    let html = ask(&serving, "GET", &page, "");
    let (_, code) = html.split_once("<p class=\"code\">").unwrap();
    let (code, _) = code.split_once('<').unwrap();
    let list = home.cortex(&["connection", "list"]).good().out;
    assert!(list.contains("pending") && list.contains("Far") && !list.contains(code), "{list}");
    let wrong = home.cortex(&["connection", "allow", "BBBB-BBBB"]);
    assert!(wrong.err.contains("(connection.not_found)"), "{}", wrong.err);
    home.cortex(&["connection", "allow", &code.to_lowercase()]).good();
    let answered = ask(&serving, "GET", &page, "");
    assert!(location(&answered).starts_with("http://127.0.0.1/cb?code=cortex_code_"), "{answered}");

    let list = home.cortex(&["connection", "list", "--json"]).good().json();
    let id = list["connections"][0]["connection_id"].as_str().unwrap();
    assert!(home.cortex(&["connection", "show", id]).good().out.contains("allowed"));
    home.cortex(&["connection", "revoke", id]).good();
    assert!(home.cortex(&["connection", "list"]).good().out.contains("No client asks"));
    let all = home.cortex(&["connection", "list", "--all"]).good().out;
    assert!(all.contains("revoked"), "{all}");

    let page = client(&serving);
    let list = home.cortex(&["connection", "list", "--json"]).good().json();
    let id = list["connections"][0]["connection_id"].as_str().unwrap();
    home.cortex(&["connection", "deny", id]).good();
    let answered = ask(&serving, "GET", &page, "");
    assert!(location(&answered).contains("error=access_denied"), "{answered}");
    let gone = home.cortex(&["connection", "show", "x"]);
    assert!(gone.err.contains("(connection.not_found)"), "{}", gone.err);
}

#[test]
fn an_address_that_is_none_is_refused() {
    let home = Home::new();
    home.configure(&json!({ "mcp": { "public_url": "http://cortex.example" } }));
    let ran = home.cortex(&["config", "check"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("mcp.public_url") && ran.err.contains("https"), "{}", ran.err);
}
