//! What is refused, in the words of the standards.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{HOST, Params, REDIRECT, Remote, exchange, question, renewal, sent_to, with};
use crate::http::Request;
use crate::{PING, Served};

#[tokio::test]
async fn pages_from_elsewhere_come_by_the_public_address_alone() {
    let remote = Remote::open().await;
    let port = remote.server.port();
    let here = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    let pages = ["https://elsewhere.example", "null", "http://192.168.0.1", "http://localhost@a.b"];
    let from = async |host: &str, page: &str| {
        let ping = Request::post(port, "cortex_user_0", PING).with("Host", host);
        ping.with("Origin", page).send(port).await.status
    };
    for page in pages {
        assert_eq!(from(HOST, page).await, 200, "{page}");
        for host in &here {
            assert_eq!(from(host, page).await, 403, "{page} at {host}");
        }
    }
    for host in [HOST, here[0].as_str(), here[1].as_str()] {
        assert_eq!(from(host, "http://localhost:3000").await, 200, "a local page at {host}");
    }
    let metadata = Request::new("GET", "/.well-known/oauth-protected-resource", port);
    assert_eq!(metadata.with("Origin", pages[0]).send(port).await.status, 403);
}

/// An address to try things out is one that every page on this machine reaches.
#[tokio::test]
async fn pages_from_elsewhere_do_not_come_by_an_address_of_this_machine() {
    let remote =
        Remote::open_in(Arc::new(tempfile::tempdir().unwrap()), "http://localhost:1").await;
    let port = remote.server.port();
    for (page, status) in [("https://elsewhere.example", 403), ("http://localhost:3000", 200)] {
        let ping = Request::post(port, "cortex_user_0", PING).with("Host", "localhost:1");
        assert_eq!(ping.with("Origin", page).send(port).await.status, status, "{page}");
    }
    let form = Request::new("POST", "/token", port).with("Host", "localhost:1");
    assert_eq!(form.with("Origin", "null").send(port).await.status, 403);
}

/// Who cannot be known to be good is told on a page, and the browser goes nowhere.
#[tokio::test]
async fn nobody_is_sent_to_an_address_that_is_not_the_clients() {
    let remote = Remote::open().await;
    let client = remote.register().await;
    let good = question(&client);
    let mut twice = good.clone();
    twice.push(("client_id", client.clone()));
    let questions: Vec<(&str, Params)> = vec![
        ("no client", with(&good, "client_id", "")),
        ("an unknown client", with(&good, "client_id", "cortex-0")),
        ("a client that is twice", twice),
        ("another address", with(&good, "redirect_uri", "https://evil.example/")),
        ("another path", with(&good, "redirect_uri", "http://127.0.0.1:4000/callback/x")),
        ("a longer address", with(&good, "redirect_uri", &format!("{REDIRECT}@evil.example"))),
        ("a script", with(&good, "redirect_uri", "javascript:alert(1)")),
        ("a document at http", with(&good, "client_id", "http://client.example/c.json")),
        ("a document at this machine", with(&good, "client_id", "https://127.0.0.1/c.json")),
        (
            "a document at a name of this machine",
            with(&good, "client_id", "https://localhost/c.json"),
        ),
        ("a document without a path", with(&good, "client_id", "https://client.example/")),
        ("a document in a private network", with(&good, "client_id", "https://10.0.0.1/c.json")),
        (
            "a document at the address of metadata",
            with(&good, "client_id", "https://169.254.169.254/c.json"),
        ),
        (
            "a document at a mapped address",
            with(&good, "client_id", "https://[::ffff:127.0.0.1]/c.json"),
        ),
    ];
    for (what, asked) in questions {
        let answer = remote.authorize(&asked).await;
        assert_eq!((answer.status, answer.header("location")), (400, None), "{what}");
        assert!(answer.header("content-type").unwrap().starts_with("text/html"), "{what}");
    }
    assert_eq!(remote.connections().await, []);
}

/// A good client that asks wrongly is told at its address, when that is on this machine.
#[tokio::test]
async fn a_client_that_asks_wrongly_is_told() {
    let remote = Remote::open().await;
    let client = remote.register().await;
    let good = question(&client);
    let questions = [
        ("response_type", "", "invalid_request"),
        ("response_type", "token", "unsupported_response_type"),
        ("code_challenge", "", "invalid_request"),
        ("code_challenge", "short", "invalid_request"),
        ("code_challenge_method", "", "invalid_request"),
        ("code_challenge_method", "plain", "invalid_request"),
        ("resource", "https://cortex.example", "invalid_target"),
        ("resource", "https://other.example/mcp", "invalid_target"),
        ("scope", "everything", "invalid_scope"),
    ];
    for (name, value, error) in questions {
        let told = sent_to(&remote.authorize(&with(&good, name, value)).await, REDIRECT);
        assert_eq!(told["error"], error, "{name}={value}");
        assert_eq!(told["iss"], super::ISSUER, "{name}={value}");
        assert_eq!(told["state"], "a b&c", "{name}={value}");
    }
    assert_eq!(remote.connections().await, []);
    // What it may leave out.
    for name in ["state", "scope", "resource", "redirect_uri"] {
        let answer = remote.authorize(&with(&good, name, "")).await;
        assert!(answer.header("location").unwrap().starts_with("/authorize/wait"), "{name}");
    }
}

/// Anybody may register an address, so a browser is not sent there for a mistake alone.
#[tokio::test]
async fn a_mistake_sends_no_browser_elsewhere() {
    let remote = Remote::open().await;
    let elsewhere = "https://client.example/callback";
    let body = json!({ "redirect_uris": [elsewhere], "client_name": "<b>" }).to_string();
    let registered = remote.post("/register", "application/json", body).await.json();
    let client = registered["client_id"].as_str().unwrap();
    let asked = with(&question(client), "redirect_uri", elsewhere);
    let answer = remote.authorize(&with(&asked, "scope", "everything")).await;
    assert_eq!((answer.status, answer.header("location")), (400, None));
    let html = String::from_utf8(answer.body).unwrap();
    assert!(
        html.contains("href=\"https://client.example/callback?error=invalid_scope&amp;"),
        "{html}"
    );
    assert!(!html.contains("refresh"), "{html}");
    // The person's word does.
    let page = remote.authorize(&asked).await.header("location").unwrap().to_owned();
    assert!(!String::from_utf8(remote.get(&page).await.body).unwrap().contains("<b><"));
    remote.allow(&page).await;
    sent_to(&remote.get(&page).await, elsewhere);
}

#[tokio::test]
async fn a_code_is_exchanged_by_who_asked_for_it() {
    let remote = Remote::open().await;
    let client = remote.register().await;
    let other = remote.register().await;
    let code = remote.code_for(&client).await;
    let good = exchange(&client, &code);
    let requests = [
        ("grant_type", "", "invalid_request"),
        ("grant_type", "password", "unsupported_grant_type"),
        ("client_id", "", "invalid_request"),
        ("client_id", other.as_str(), "invalid_grant"),
        ("code", "", "invalid_request"),
        ("code", "cortex_code_0", "invalid_grant"),
        ("code_verifier", "", "invalid_request"),
        ("code_verifier", "short", "invalid_request"),
        ("code_verifier", "0123456789012345678901234567890123456789abd", "invalid_grant"),
        ("redirect_uri", "http://127.0.0.1:4001/callback", "invalid_grant"),
        ("resource", "https://other.example/mcp", "invalid_target"),
    ];
    for (name, value, error) in requests {
        let answer = remote.post_form("/token", &with(&good, name, value)).await;
        assert_eq!(
            (answer.status, &answer.json()["error"]),
            (400, &json!(error)),
            "{name}={value}"
        );
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{name}={value}");
        assert_eq!(answer.header("content-type"), Some("application/json"), "{name}={value}");
    }
    let mut twice = good.clone();
    twice.push(("code", code.clone()));
    assert_eq!(remote.post_form("/token", &twice).await.json()["error"], "invalid_request");
    // Nothing of that used it up. The redirect_uri may be left out (OAuth 2.1).
    let tokens =
        super::Tokens::of(&remote.post_form("/token", &with(&good, "redirect_uri", "")).await);
    let request = renewal(&client, &tokens);
    for (name, value, error) in [
        ("client_id", other.as_str(), "invalid_grant"),
        ("refresh_token", tokens.access.as_str(), "invalid_grant"),
        ("refresh_token", "", "invalid_request"),
        ("resource", "https://other.example/mcp", "invalid_target"),
        ("scope", "everything", "invalid_scope"),
    ] {
        let answer = remote.post_form("/token", &with(&request, name, value)).await;
        assert_eq!(
            (answer.status, &answer.json()["error"]),
            (400, &json!(error)),
            "{name}={value}"
        );
    }
    super::Tokens::of(&remote.post_form("/token", &request).await);
}

#[tokio::test]
async fn registrations_that_do_not_hold_are_refused() {
    let remote = Remote::open().await;
    let long = format!("https://client.example/{}", "x".repeat(3000));
    let many: Vec<_> = (0..17).map(|nth| format!("https://client.example/{nth}")).collect();
    for (body, error) in [
        (json!([]), "invalid_client_metadata"),
        (json!({}), "invalid_redirect_uri"),
        (json!({ "redirect_uris": [] }), "invalid_redirect_uri"),
        (json!({ "redirect_uris": ["http://client.example/"] }), "invalid_redirect_uri"),
        (json!({ "redirect_uris": ["https://client.example/#x"] }), "invalid_redirect_uri"),
        (json!({ "redirect_uris": [long] }), "invalid_redirect_uri"),
        (json!({ "redirect_uris": many }), "invalid_redirect_uri"),
        (
            json!({ "redirect_uris": [REDIRECT], "grant_types": ["implicit"] }),
            "invalid_client_metadata",
        ),
        (
            json!({ "redirect_uris": [REDIRECT], "response_types": ["token"] }),
            "invalid_client_metadata",
        ),
    ] {
        let answer = remote.post("/register", "application/json", body.to_string()).await;
        assert_eq!((answer.status, &answer.json()["error"]), (400, &json!(error)), "{body}");
    }
    let confidential =
        json!({ "redirect_uris": [REDIRECT], "token_endpoint_auth_method": "client_secret_basic" });
    let answer =
        remote.post("/register", "application/json", confidential.to_string()).await.json();
    assert_eq!(answer["token_endpoint_auth_method"], "none", "every client is public");
    assert_eq!(answer.get("client_secret"), None);
}

#[tokio::test]
async fn methods_kinds_and_sizes_are_checked() {
    let remote = Remote::open().await;
    for (method, path, allowed) in [
        ("POST", "/authorize", "GET"),
        ("POST", "/authorize/wait", "GET"),
        ("DELETE", "/.well-known/oauth-authorization-server", "GET"),
        ("GET", "/token", "POST"),
        ("GET", "/register", "POST"),
        ("OPTIONS", "/revoke", "POST"),
    ] {
        let answer = remote.request(method, path).send(remote.server.port()).await;
        assert_eq!(
            (answer.status, answer.header("allow")),
            (405, Some(allowed)),
            "{method} {path}"
        );
    }
    for (path, kind) in
        [("/token", "application/json"), ("/register", "text/plain"), ("/revoke", "")]
    {
        let answer = remote.post(path, kind, "{}".to_owned()).await;
        assert_eq!(
            (answer.status, &answer.json()["error"]),
            (400, &json!("invalid_request")),
            "{path}"
        );
    }
    let large = json!({ "redirect_uris": [REDIRECT], "x": "x".repeat(20_000) }).to_string();
    assert_eq!(remote.post("/register", "application/json", large).await.status, 400);
    let page = remote.get("/authorize/wait?page=cortex_page_0").await;
    assert_eq!(page.status, 404);
    assert_eq!(remote.get("/authorize/wait").await.status, 404);
    for other in ["/", "/authorize/", "/token/x", "/.well-known/openid-configuration"] {
        assert_eq!(remote.get(other).await.status, 404, "{other}");
    }
}

#[tokio::test]
async fn without_a_public_address_nothing_of_it_exists() {
    let served = Served::open().await;
    let port = served.port();
    for path in [
        "/.well-known/oauth-authorization-server",
        "/.well-known/oauth-authorization-server/mcp",
        "/.well-known/openid-configuration",
        "/authorize",
        "/authorize/wait",
        "/token",
        "/register",
        "/revoke",
    ] {
        for method in ["GET", "POST"] {
            let answer = Request::new(method, path, port).send(port).await;
            assert_eq!(answer.status, 404, "{method} {path}");
            assert_eq!(answer.json()["error"]["code"], "http.not_found", "{method} {path}");
        }
    }
    let metadata =
        Request::new("GET", "/.well-known/oauth-protected-resource", port).send(port).await;
    assert_eq!(metadata.json().get("authorization_servers"), None::<&Value>);
    let hosted = served.post(PING).with("Host", HOST);
    assert_eq!(hosted.send(port).await.status, 403);
}
