//! The host, the page and the path of a request.

use serde_json::json;

use super::{CLOSES, Row, answered, pong, refused, row};
use crate::http::Request;
use crate::{PING, Served};

/// A page whose own name points at this machine sends that name.
pub fn hosts(served: &Served) -> Vec<Row> {
    let port = served.port();
    let ping = served.post(PING);
    let host = |host: &str| ping.clone().with("Host", host);
    let to = |target: String| ping.clone().line("POST", &target);
    let message = format!("the Host header is neither 127.0.0.1:{port} nor localhost:{port}");
    let no = || refused("403 Forbidden", "http.forbidden_host", &message);
    vec![
        row("by address", &ping, pong()),
        row("by name", &host(&format!("localhost:{port}")), pong()),
        row("another name", &host("evil.example"), no()),
        row("another name on our port", &host(&format!("evil.example:{port}")), no()),
        row("another port", &host("127.0.0.1:1"), no()),
        row("no port", &host("127.0.0.1"), no()),
        row("a port with a zero before it", &host(&format!("127.0.0.1:0{port}")), no()),
        row("a name that ends in a point", &host(&format!("localhost.:{port}")), no()),
        row("a name that begins like ours", &host(&format!("localhost.evil.example:{port}")), no()),
        row("a name with a user before it", &host(&format!("evil@127.0.0.1:{port}")), no()),
        row("ours as the user", &host(&format!("127.0.0.1:{port}@evil.example")), no()),
        row("a list", &host(&format!("127.0.0.1:{port}, evil.example")), no()),
        row("the address in another form", &host(&format!("127.1:{port}")), no()),
        row("any address", &host(&format!("0.0.0.0:{port}")), no()),
        row("the address of IPv6", &host(&format!("[::1]:{port}")), no()),
        row("an empty one", &host(""), no()),
        row("none", &ping.clone().without("Host"), no()),
        row("two", &ping.clone().and("Host", "evil.example"), no()),
        row("the same twice", &ping.clone().and("Host", format!("127.0.0.1:{port}")), no()),
        row("ours in the target", &to(format!("http://127.0.0.1:{port}/mcp")), pong()),
        row("another in the target", &to("http://evil.example/mcp".into()), no()),
        row("a user in the target", &to(format!("http://evil@127.0.0.1:{port}/mcp")), no()),
        row(
            "ours in the target alone",
            &to(format!("http://127.0.0.1:{port}/mcp")).with("Host", "evil.example"),
            no(),
        ),
        row(
            "a proxy's name beside ours",
            &ping.clone().and("X-Forwarded-Host", "evil.example"),
            pong(),
        ),
        row("a tunnel", &Request::new("CONNECT", &format!("127.0.0.1:{port}"), port), {
            refused("404 Not Found", "http.not_found", "nothing is at this path")
        }),
        row("a tunnel elsewhere", &Request::new("CONNECT", "evil.example:80", port), no()),
    ]
}

/// Browsers say which page sends.
pub fn origins(served: &Served) -> Vec<Row> {
    let ping = served.post(PING);
    let from = |origin: &str| ping.clone().with("Origin", origin);
    let no = || {
        let message = "the Origin header names a page from elsewhere";
        refused("403 Forbidden", "http.forbidden_origin", message)
    };
    vec![
        row("a local page", &from("http://localhost:3000"), pong()),
        row("a local page over TLS", &from("https://localhost"), pong()),
        row("a local page over IPv6", &from("http://[::1]:5173"), pong()),
        row("a page from elsewhere", &from("https://evil.example"), no()),
        row("a page without an origin", &from("null"), no()),
        row("an empty one", &from(""), no()),
        row("one that begins like ours", &from("http://localhost.evil.example"), no()),
        row("ours as the user", &from("http://localhost@evil.example"), no()),
        row("another machine of this network", &from("http://192.168.0.1"), no()),
        row("a file", &from("file://localhost"), no()),
        row("an extension", &from("chrome-extension://abcdefghijklmnop"), no()),
        row("a page, not an origin", &from("http://localhost/page"), no()),
        row("two", &from("http://localhost").and("Origin", "https://evil.example"), no()),
        row("a list", &from("http://localhost https://evil.example"), no()),
    ]
}

pub fn paths(served: &Served) -> Vec<Row> {
    let port = served.port();
    let to = |target: &str| served.post(PING).line("POST", target);
    let ask = |method: &str, target: &str| Request::new(method, target, port);
    let no = || refused("404 Not Found", "http.not_found", "nothing is at this path");
    let metadata = json!({
        "resource": served.server.url(),
        "resource_name": "Cortex",
        "bearer_methods_supported": ["header"],
    });
    let get_only = json!({ "error": {
        "code": "http.method_not_allowed",
        "message": "POST is not taken here, only GET",
    }});
    let get_only = answered(
        "405 Method Not Allowed",
        "allow: GET\r\nconnection: close\r\n",
        &get_only.to_string(),
    );
    let mut rows = vec![
        row("a question behind the path", &to("/mcp?x=1"), pong()),
        row("the metadata", &ask("GET", "/.well-known/oauth-protected-resource"), {
            answered("200 OK", CLOSES, &metadata.to_string())
        }),
        row(
            "the metadata of the path",
            &ask("GET", "/.well-known/oauth-protected-resource/mcp"),
            answered("200 OK", CLOSES, &metadata.to_string()),
        ),
        row(
            "a word to the metadata",
            &ask("POST", "/.well-known/oauth-protected-resource"),
            get_only,
        ),
    ];
    for target in [
        "/",
        "/mcp/",
        "//mcp",
        "/./mcp",
        "/x/../mcp",
        "/mcp/x",
        "/MCP",
        "/%6dcp",
        "/mcp%2f",
        "/mcp%00",
        "/mcp;x",
        "*",
    ] {
        rows.push(row("another path", &to(target), no()));
    }
    for target in [
        "oauth-authorization-server",
        "oauth-authorization-server/mcp",
        "openid-configuration",
        "oauth-protected-resource/other",
        "oauth-protected-resource/mcp/",
        "oauth-protected-resourcex",
    ] {
        // Clients that find one of these ignore the credential that they were configured with.
        rows.push(row("another well-known", &ask("GET", &format!("/.well-known/{target}")), no()));
    }
    rows
}
