//! The credential, and the methods that are only told to who has one.

use serde_json::json;

use super::{ID, Row, answered, pong, refused, row};
use crate::http::Request;
use crate::{PING, Served};

/// What a caller without a good credential is told. Other errors have the same form.
pub fn challenged(served: &Served, code: &str, message: &str) -> String {
    let (named, remediation) = if code == "auth.missing" {
        ("", "Send the header Authorization: Bearer with the token of `cortex token show`.")
    } else {
        (
            ", error=\"invalid_token\"",
            "Use the token of `cortex token show`; an old one ends with a rotation.",
        )
    };
    let port = served.port();
    let headers = format!(
        "www-authenticate: Bearer resource_metadata=\"http://127.0.0.1:{port}/.well-known/oauth-protected-resource/mcp\"{named}\r\nconnection: close\r\n"
    );
    let body = json!({ "error": {
        "kind": "authentication_error",
        "code": code,
        "message": message,
        "remediation": remediation,
        "correlation_id": ID,
    }});
    answered("401 Unauthorized", &headers, &body.to_string())
}

pub fn tokens(served: &Served) -> Vec<Row> {
    let ping = served.post(PING);
    let token = served.token.expose();
    let with = |credential: &str| ping.clone().with("Authorization", credential);
    let bearer = |token: &str| with(&format!("Bearer {token}"));
    let missing = || challenged(served, "auth.missing", "the request has no credential");
    let unknown = || challenged(served, "auth.invalid", "the credential is not known");
    let none = || challenged(served, "auth.invalid", "the credential is not one Bearer token");
    let (beginning, end) = token.split_at(token.len() - 1);
    let last = if end == "a" { "b" } else { "a" };
    let changed = format!("{beginning}{last}");
    vec![
        row("the token", &ping, pong()),
        row("the scheme in small letters", &with(&format!("bearer {token}")), pong()),
        row("more than one space", &with(&format!("Bearer   {token} ")), pong()),
        row("none", &ping.clone().without("Authorization"), missing()),
        row("another token", &bearer("cortex_user_0000"), unknown()),
        row("all but the last letter", &bearer(beginning), unknown()),
        row("another last letter", &bearer(&changed), unknown()),
        row("another first letter", &bearer(&format!("x{token}")), unknown()),
        row("the token in capitals", &bearer(&token.to_uppercase()), unknown()),
        row("the token twice", &bearer(&format!("{token} {token}")), unknown()),
        row("the token in quotes", &bearer(&format!("\"{token}\"")), unknown()),
        row("another scheme", &with(&format!("Basic {token}")), none()),
        row("no scheme", &with(token), none()),
        row("no token", &with("Bearer"), none()),
        row("an empty token", &with("Bearer "), none()),
        row("an empty credential", &with(""), none()),
        row("letters that are not ASCII", &bearer("tökön"), none()),
        row("two", &ping.clone().and("Authorization", "Bearer x"), none()),
        row(
            "the same twice",
            &ping.clone().and("Authorization", format!("Bearer {token}")),
            none(),
        ),
        row(
            "in the target",
            &ping
                .clone()
                .line("POST", &format!("/mcp?access_token={token}"))
                .without("Authorization"),
            missing(),
        ),
        row(
            "in a cookie",
            &ping.clone().without("Authorization").with("Cookie", format!("token={token}")),
            missing(),
        ),
        row(
            "for a proxy",
            &ping
                .clone()
                .without("Authorization")
                .with("Proxy-Authorization", format!("Bearer {token}")),
            missing(),
        ),
    ]
}

pub fn methods(served: &Served) -> Vec<Row> {
    let port = served.port();
    let mut rows = Vec::new();
    for method in ["GET", "DELETE", "PUT", "PATCH", "OPTIONS", "TRACE", "post", "PROPFIND"] {
        let message = format!("{method} is not taken here, only POST");
        let error = json!({ "error": { "code": "http.method_not_allowed", "message": message } });
        let told = answered(
            "405 Method Not Allowed",
            "allow: POST\r\nconnection: close\r\n",
            &error.to_string(),
        );
        let request = served.post("").line(method, "/mcp").without("Content-Length");
        rows.push(row("another method", &request, told));
        // Clients look for the challenge in the answer to any request.
        let stranger = Request::new(method, "/mcp", port);
        let told = challenged(served, "auth.missing", "the request has no credential");
        rows.push(row("another method without a credential", &stranger, told));
    }
    // The answer to HEAD has the head of the answer to GET.
    let head = json!({ "error": {
        "code": "http.method_not_allowed",
        "message": "HEAD is not taken here, only POST",
    }});
    let told = answered(
        "405 Method Not Allowed",
        "allow: POST\r\nconnection: close\r\n",
        &head.to_string(),
    );
    let (told, _) = told.split_once('{').unwrap();
    rows.push(row("HEAD", &served.post("").line("HEAD", "/mcp").without("Content-Length"), told));
    let preflight = Request::new("OPTIONS", "/mcp", port)
        .with("Origin", "https://evil.example")
        .with("Access-Control-Request-Method", "POST");
    let told = "the Origin header names a page from elsewhere";
    rows.push(row(
        "a browser that asks",
        &preflight,
        refused("403 Forbidden", "http.forbidden_origin", told),
    ));
    rows
}
