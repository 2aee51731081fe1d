//! From a question to tokens, and how they end.

use std::sync::Arc;

use cortex_lib::api::operator::{AllowConnection, DenyConnection, RevokeConnection};
use cortex_lib::domain::connection::ConnectionState;
use cortex_lib::domain::event::EventKind;
use cortex_lib::error::Code;
use serde_json::json;

use super::{
    ISSUER, REDIRECT, RESOURCE, Remote, Tokens, exchange, question, renewal, sent_to, with,
};
use crate::PING;
use crate::http::Request;

#[tokio::test]
async fn a_client_finds_its_way_from_the_challenge_to_a_call() {
    let remote = Remote::open().await;
    let nobody = remote.request("POST", "/mcp").send(remote.server.port()).await;
    assert_eq!(nobody.status, 401);
    let metadata = "https://cortex.example/.well-known/oauth-protected-resource/mcp";
    let challenge = format!("Bearer resource_metadata=\"{metadata}\", scope=\"mcp\"");
    assert_eq!(nobody.header("www-authenticate"), Some(challenge.as_str()));

    let resource = remote.get(metadata.strip_prefix(ISSUER).unwrap()).await.json();
    assert_eq!(resource["resource"], RESOURCE);
    assert_eq!(resource["authorization_servers"], json!([ISSUER]));
    let server = remote.get("/.well-known/oauth-authorization-server").await.json();
    assert_eq!(server["issuer"], ISSUER);
    assert_eq!(server["code_challenge_methods_supported"], json!(["S256"]));
    assert_eq!(server["authorization_response_iss_parameter_supported"], true);
    assert_eq!(server["client_id_metadata_document_supported"], true);
    for (endpoint, path) in [
        ("authorization_endpoint", "/authorize"),
        ("token_endpoint", "/token"),
        ("registration_endpoint", "/register"),
        ("revocation_endpoint", "/revoke"),
    ] {
        assert_eq!(server[endpoint], format!("{ISSUER}{path}"));
    }

    let client = remote.register().await;
    let page = remote.ask(&client).await;
    let shown = remote.get(&page).await;
    let html = String::from_utf8_lossy(&shown.body);
    assert!(html.contains("Some client") && html.contains("127.0.0.1"), "{html}");
    assert!(html.contains("http-equiv=\"refresh\"") && !html.contains("<script"), "{html}");
    let policy = shown.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"));
    assert_eq!(shown.header("x-frame-options"), Some("DENY"));
    assert_eq!(shown.header("referrer-policy"), Some("no-referrer"));
    assert_eq!(shown.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(shown.header("cache-control"), Some("no-store"));

    // However often the page is looked at, nothing is granted.
    assert_eq!(remote.get(&page).await.status, 200);
    let waits = remote.connections().await.remove(0);
    assert_eq!(waits.state, ConnectionState::Pending);
    let code = remote.code_on(&page).await;
    assert!(
        !serde_json::to_string(&waits).unwrap().contains(&code),
        "the code is on the page alone"
    );

    assert_eq!(remote.allow(&page).await.state, ConnectionState::Allowed);
    let told = sent_to(&remote.get(&page).await, REDIRECT);
    assert_eq!((&told["state"], &told["iss"]), (&json!("a b&c"), &json!(ISSUER)));
    let code = told["code"].as_str().unwrap();
    // The page gives the code out once.
    let again = remote.get(&page).await;
    assert_eq!((again.status, again.header("location")), (200, None));

    let answer = remote.post_form("/token", &exchange(&client, code)).await;
    let tokens = Tokens::of(&answer);
    assert_eq!(remote.ping(&tokens.access).await.status, 200);
    let connected = remote.connections().await.remove(0);
    assert_eq!(connected.state, ConnectionState::Connected);
    assert!(connected.renewed_at.is_some());
    let mut feed = remote.cortex.events(None);
    let mut kinds = Vec::new();
    while kinds.len() < 3 {
        let event = feed.next().await.unwrap().unwrap();
        if event.kind.as_str().starts_with("connection.") {
            assert!(!event.data.to_string().contains("cortex_"), "{}", event.data);
            kinds.push(event.kind);
        }
    }
    let wanted = [
        EventKind::ConnectionRequested,
        EventKind::ConnectionDecided,
        EventKind::ConnectionEstablished,
    ];
    assert_eq!(kinds, wanted);
}

#[tokio::test]
async fn a_token_opens_the_public_address_alone() {
    let remote = Remote::open().await;
    let (_, tokens) = remote.connect().await;
    let port = remote.server.port();
    assert_eq!(remote.ping(&tokens.access).await.status, 200);
    let at_home = Request::post(port, &tokens.access, PING).send(port).await;
    assert_eq!(at_home.status, 401, "a remote client's token at 127.0.0.1");
    let challenge = at_home.header("www-authenticate").unwrap();
    assert!(challenge.contains("http://127.0.0.1:") && challenge.contains("invalid_token"));
    assert_eq!(
        remote.ping(&tokens.refresh).await.status,
        401,
        "a refresh token is no access token"
    );
    assert_eq!(remote.ping("cortex_user_0").await.status, 200, "the user's own token");
    let other = Request::post(port, &tokens.access, PING).with("Host", "other.example");
    let other = other.send(port).await;
    assert_eq!(other.status, 403);
    // Whoever sets up a proxy reads what it should have passed on.
    let said = other.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(said.ends_with("nor that of the public address"), "{said}");
    // At this machine no client is led to OAuth.
    let home = Request::new("GET", "/.well-known/oauth-protected-resource", port).send(port).await;
    assert_eq!(home.json().get("authorization_servers"), None);
    for path in ["/.well-known/oauth-authorization-server", "/authorize", "/register"] {
        assert_eq!(Request::new("GET", path, port).send(port).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn a_denied_client_is_told_so() {
    let remote = Remote::open().await;
    let client = remote.register().await;
    let page = remote.ask(&client).await;
    let connection_id = remote.connections().await.remove(0).connection_id;
    let code = remote.code_on(&page).await;
    let user = remote.cortex.as_user();
    user.call(DenyConnection { connection_id: connection_id.clone() }).await.unwrap();
    let told = sent_to(&remote.get(&page).await, REDIRECT);
    assert_eq!(told["error"], "access_denied");
    assert_eq!((&told["state"], &told["iss"]), (&json!("a b&c"), &json!(ISSUER)));
    assert_eq!(told.get("code"), None);
    let late = user.call(AllowConnection { code }).await.unwrap_err();
    assert_eq!(late.code(), Code::ConnectionStateConflict);
    let again = user.call(DenyConnection { connection_id }).await.unwrap_err();
    assert_eq!(again.code(), Code::ConnectionStateConflict);
    let unknown = user.call(AllowConnection { code: "BBBB-BBBB".to_owned() }).await.unwrap_err();
    assert_eq!(unknown.code(), Code::ConnectionNotFound);
}

#[tokio::test]
async fn a_code_that_is_used_twice_ends_what_it_gave() {
    let remote = Remote::open().await;
    let client = remote.register().await;
    let code = remote.code_for(&client).await;
    let request = exchange(&client, &code);
    let tokens = Tokens::of(&remote.post_form("/token", &request).await);
    assert_eq!(remote.ping(&tokens.access).await.status, 200);
    let again = remote.post_form("/token", &request).await;
    assert_eq!((again.status, &again.json()["error"]), (400, &json!("invalid_grant")));
    assert_eq!(remote.ping(&tokens.access).await.status, 401);
    let renewed = remote.post_form("/token", &renewal(&client, &tokens)).await;
    assert_eq!(renewed.json()["error"], "invalid_grant");
    let ended = remote.connections().await.remove(0);
    assert_eq!(ended.state, ConnectionState::Revoked);
    assert!(ended.reason.unwrap().contains("twice"));
}

#[tokio::test]
async fn a_refresh_token_that_is_used_twice_ends_the_whole_family() {
    let remote = Remote::open().await;
    let (client, first) = remote.connect().await;
    let (_, other) = remote.connect().await;
    let second = remote.post_form("/token", &renewal(&client, &first)).await;
    let second = Tokens::of(&second);
    let third = Tokens::of(&remote.post_form("/token", &renewal(&client, &second)).await);
    for token in [&first.access, &second.access, &third.access] {
        assert_eq!(remote.ping(token).await.status, 200);
    }
    let stolen = remote.post_form("/token", &renewal(&client, &first)).await;
    assert_eq!((stolen.status, &stolen.json()["error"]), (400, &json!("invalid_grant")));
    for token in [&first.access, &second.access, &third.access] {
        assert_eq!(remote.ping(token).await.status, 401);
    }
    let newest = remote.post_form("/token", &renewal(&client, &third)).await;
    assert_eq!(newest.json()["error"], "invalid_grant");
    assert_eq!(remote.ping(&other.access).await.status, 200, "another connection goes on");
}

#[tokio::test]
async fn the_person_ends_a_connection() {
    let remote = Remote::open().await;
    let (client, tokens) = remote.connect().await;
    let connection_id = remote.connections().await.remove(0).connection_id;
    let user = remote.cortex.as_user();
    user.call(RevokeConnection { connection_id: connection_id.clone() }).await.unwrap();
    let ping = remote.ping(&tokens.access).await;
    assert_eq!(ping.status, 401);
    assert!(ping.header("www-authenticate").unwrap().contains("error=\"invalid_token\""));
    let renewed = remote.post_form("/token", &renewal(&client, &tokens)).await;
    assert_eq!(renewed.json()["error"], "invalid_grant");
    let again = user.call(RevokeConnection { connection_id }).await.unwrap_err();
    assert_eq!(again.code(), Code::ConnectionStateConflict);
}

#[tokio::test]
async fn a_client_gives_its_tokens_back() {
    let remote = Remote::open().await;
    let (client, tokens) = remote.connect().await;
    let (stranger, _) = remote.connect().await;
    let back = |client: &str, token: &str| {
        vec![("client_id", client.to_owned()), ("token", token.to_owned())]
    };
    let others = remote.post_form("/revoke", &back(&stranger, &tokens.refresh)).await;
    assert_eq!((others.status, &others.json()["error"]), (400, &json!("invalid_grant")));
    assert_eq!(remote.ping(&tokens.access).await.status, 200);
    // An access token ends alone,
    assert_eq!(remote.post_form("/revoke", &back(&client, &tokens.access)).await.status, 200);
    assert_eq!(remote.ping(&tokens.access).await.status, 401);
    let second = Tokens::of(&remote.post_form("/token", &renewal(&client, &tokens)).await);
    assert_eq!(remote.ping(&second.access).await.status, 200);
    // a refresh token with all that came of it.
    assert_eq!(remote.post_form("/revoke", &back(&client, &second.refresh)).await.status, 200);
    assert_eq!(remote.ping(&second.access).await.status, 401);
    assert_eq!(remote.post_form("/revoke", &back(&client, "unknown")).await.status, 200);
}

#[tokio::test]
async fn a_restart_ends_no_connection() {
    let remote = Remote::open().await;
    let (client, first) = remote.connect().await;
    let second = Tokens::of(&remote.post_form("/token", &renewal(&client, &first)).await);
    let waits = remote.ask(&client).await;
    let remote = remote.reopen(ISSUER).await;
    assert_eq!(remote.ping(&second.access).await.status, 200);
    let third = Tokens::of(&remote.post_form("/token", &renewal(&client, &second)).await);
    assert_eq!(remote.allow(&waits).await.state, ConnectionState::Allowed);
    // What was used before the restart is known to be used after it.
    let stolen = remote.post_form("/token", &renewal(&client, &first)).await;
    assert_eq!(stolen.json()["error"], "invalid_grant");
    assert_eq!(remote.ping(&third.access).await.status, 401);
}

#[tokio::test]
async fn tokens_are_for_the_address_that_they_were_asked_for() {
    let remote = Remote::open().await;
    let (client, tokens) = remote.connect().await;
    let remote = remote.reopen("https://new.example").await;
    let port = remote.server.port();
    let ping = Request::post(port, &tokens.access, PING).with("Host", "new.example");
    assert_eq!(ping.send(port).await.status, 401);
    let request = super::form(&renewal(&client, &tokens));
    let request = Request::new("POST", "/token", port)
        .with("Host", "new.example")
        .with("Content-Type", "application/x-www-form-urlencoded")
        .with_body(request);
    assert_eq!(request.send(port).await.json()["error"], "invalid_grant");
}

#[tokio::test]
async fn nothing_is_kept_but_hashes() {
    let remote = Remote::open().await;
    let client = remote.register().await;
    let page = remote.ask(&client).await;
    remote.allow(&page).await;
    let told = sent_to(&remote.get(&page).await, REDIRECT);
    let code = told["code"].as_str().unwrap();
    let tokens = Tokens::of(&remote.post_form("/token", &exchange(&client, code)).await);
    let dir = Arc::clone(&remote.dir);
    remote.server.stop().await;
    remote.cortex.shutdown().await.unwrap();
    let (_, page) = page.split_once('=').unwrap();
    for secret in [page, code, &tokens.access, &tokens.refresh] {
        assert_eq!(secret.rsplit('_').next().unwrap().len(), 64, "256 bits in hexadecimal");
        for file in ["cortex.db", "cortex.db-wal"] {
            let kept = fs_err::read(dir.path().join("data").join(file)).unwrap_or_default();
            let found = kept.windows(secret.len()).any(|bytes| bytes == secret.as_bytes());
            assert!(!found, "{file} has a secret");
        }
    }
}

#[tokio::test]
async fn time_ends_codes_tokens_and_questions() {
    let remote = Remote::open().await;
    let client = remote.register().await;
    let code = remote.code_for(&client).await;
    remote.pass(61);
    let late = remote.post_form("/token", &exchange(&client, &code)).await;
    assert_eq!(late.json()["error"], "invalid_grant", "a code counts for 60 s");

    let code = remote.code_for(&client).await;
    let tokens = Tokens::of(&remote.post_form("/token", &exchange(&client, &code)).await);
    remote.pass(3599);
    assert_eq!(remote.ping(&tokens.access).await.status, 200);
    remote.pass(2);
    assert_eq!(remote.ping(&tokens.access).await.status, 401, "an access token counts for 1 h");
    let second = Tokens::of(&remote.post_form("/token", &renewal(&client, &tokens)).await);
    assert_eq!(remote.ping(&second.access).await.status, 200);

    let page = remote.ask(&client).await;
    remote.pass(601);
    // Any change wakes the core.
    remote.register().await;
    let mut feed = remote.cortex.events(None);
    loop {
        let event = feed.next().await.unwrap().unwrap();
        if event.kind == EventKind::ConnectionEnded
            && event.data["reason"] == "nobody decided in time"
        {
            break;
        }
    }
    assert_eq!(remote.get(&page).await.status, 200);
    assert!(remote.connections().await.iter().all(|one| one.state != ConnectionState::Pending));
}

#[tokio::test]
async fn a_client_on_this_machine_takes_any_port() {
    let remote = Remote::open().await;
    let client = remote.register().await;
    let asked = question(&client);
    let elsewhere = "http://127.0.0.1:59999/callback";
    let answer = remote.authorize(&with(&asked, "redirect_uri", elsewhere)).await;
    let page = answer.header("location").unwrap().to_owned();
    remote.allow(&page).await;
    let told = sent_to(&remote.get(&page).await, elsewhere);
    let request = exchange(&client, told["code"].as_str().unwrap());
    let wrong = remote.post_form("/token", &request).await;
    assert_eq!(
        wrong.json()["error"],
        "invalid_grant",
        "it must send the address that it asked with"
    );
    Tokens::of(&remote.post_form("/token", &with(&request, "redirect_uri", elsewhere)).await);
}

#[tokio::test]
async fn strangers_take_no_more_than_their_share() {
    let remote = Remote::open().await;
    let client = remote.register().await;
    let first = remote.ask(&client).await;
    for _ in 0..16 {
        remote.ask(&client).await;
    }
    let waiting = remote.connections().await;
    let waiting = waiting.iter().filter(|one| one.state == ConnectionState::Pending).count();
    assert_eq!(waiting, 16, "the one that waited longest made room");
    let gone = remote.get(&first).await;
    assert!(String::from_utf8_lossy(&gone.body).contains("It ended"));
    // Turns run out,
    let mut answers = Vec::new();
    for _ in 0..30 {
        answers.push(remote.authorize(&question(&client)).await.status);
    }
    assert!(answers.ends_with(&[429]), "{answers:?}");
    let body = json!({ "redirect_uris": [REDIRECT] }).to_string();
    let refused = remote.post("/register", "application/json", body).await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("5")));
    // and come back.
    remote.pass(60);
    remote.register().await;
}

#[tokio::test]
async fn registrations_that_nobody_uses_are_forgotten() {
    let remote = Remote::open().await;
    let (connected, tokens) = remote.connect().await;
    let unused = remote.register().await;
    remote.pass(25 * 3600);
    remote.register().await;
    let answer = remote.authorize(&question(&unused)).await;
    assert_eq!((answer.status, answer.header("location")), (400, None));
    remote.ask(&connected).await;
    Tokens::of(&remote.post_form("/token", &renewal(&connected, &tokens)).await);
    // However many come, no more than 200 are kept, and who is connected stays.
    for _ in 0..210 {
        remote.pass(2);
        remote.register().await;
    }
    remote.ask(&connected).await;
}

/// It must know that, or it asks for ever by an identifier that means nothing any more.
#[tokio::test]
async fn a_client_that_was_forgotten_is_told_to_register_again() {
    let remote = Remote::open().await;
    let (client, tokens) = remote.connect().await;
    let connection_id = remote.connections().await.remove(0).connection_id;
    remote.cortex.as_user().call(RevokeConnection { connection_id }).await.unwrap();
    let request = renewal(&client, &tokens);
    let ended = remote.post_form("/token", &request).await;
    assert_eq!((ended.status, &ended.json()["error"]), (400, &json!("invalid_grant")));
    remote.pass(25 * 3600);
    remote.register().await;
    let forgotten = remote.post_form("/token", &request).await;
    assert_eq!((forgotten.status, &forgotten.json()["error"]), (400, &json!("invalid_client")));
}
