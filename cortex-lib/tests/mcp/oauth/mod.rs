//! OAuth at a public address, as a remote client and a person's browser meet it.

mod flow;
mod refusals;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cortex_lib::Cortex;
use cortex_lib::api::operator::{AllowConnection, ListConnections};
use cortex_lib::api::view::ConnectionView;
use cortex_lib::env::{Env, SystemEnv};
use cortex_lib::mcp::oauth::PublicUrl;
use cortex_lib::mcp::{self, McpServer};
use cortex_lib::secret::Secret;
use cortex_lib::time::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use url::{Url, form_urlencoded};

use crate::PING;
use crate::http::{Answer, Request};

const HOST: &str = "cortex.example";
const ISSUER: &str = "https://cortex.example";
const RESOURCE: &str = "https://cortex.example/mcp";
const REDIRECT: &str = "http://127.0.0.1:4000/callback";
const VERIFIER: &str = "0123456789012345678901234567890123456789abc";

/// A clock that tests set forward.
#[derive(Debug, Default)]
struct Clock {
    system: SystemEnv,
    ahead_secs: AtomicU64,
}

impl Clock {
    fn ahead(&self) -> Duration {
        Duration::from_secs(self.ahead_secs.load(Ordering::SeqCst))
    }
}

impl Env for Clock {
    fn now(&self) -> Timestamp {
        self.system.now().after(self.ahead())
    }

    fn monotonic(&self) -> Duration {
        self.system.monotonic() + self.ahead()
    }

    fn fill(&self, bytes: &mut [u8]) {
        self.system.fill(bytes);
    }

    fn minted(&self) -> &AtomicU64 {
        self.system.minted()
    }
}

/// A core whose endpoint has a public address.
struct Remote {
    cortex: Cortex,
    server: McpServer,
    clock: Arc<Clock>,
    dir: Arc<TempDir>,
}

/// The parameters of a request.
type Params = Vec<(&'static str, String)>;

/// `params` with one set anew; with an empty value: without it.
fn with(params: &Params, name: &'static str, value: &str) -> Params {
    let mut params: Params = params.iter().filter(|(known, _)| *known != name).cloned().collect();
    if !value.is_empty() {
        params.push((name, value.to_owned()));
    }
    params
}

fn form(params: &Params) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(params).finish()
}

/// The question of a client that does everything right.
fn question(client: &str) -> Params {
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(VERIFIER));
    vec![
        ("response_type", "code".to_owned()),
        ("client_id", client.to_owned()),
        ("redirect_uri", REDIRECT.to_owned()),
        ("state", "a b&c".to_owned()),
        ("scope", "mcp".to_owned()),
        ("code_challenge", challenge),
        ("code_challenge_method", "S256".to_owned()),
        ("resource", RESOURCE.to_owned()),
    ]
}

fn exchange(client: &str, code: &str) -> Params {
    vec![
        ("grant_type", "authorization_code".to_owned()),
        ("client_id", client.to_owned()),
        ("code", code.to_owned()),
        ("code_verifier", VERIFIER.to_owned()),
        ("redirect_uri", REDIRECT.to_owned()),
        ("resource", RESOURCE.to_owned()),
    ]
}

fn renewal(client: &str, tokens: &Tokens) -> Params {
    vec![
        ("grant_type", "refresh_token".to_owned()),
        ("client_id", client.to_owned()),
        ("refresh_token", tokens.refresh.clone()),
    ]
}

/// The parameters of the address that a browser is sent to.
fn sent_to(answer: &Answer, place: &str) -> Value {
    assert_eq!(answer.status, 303, "{}", String::from_utf8_lossy(&answer.body));
    let url = Url::parse(answer.header("location").unwrap()).unwrap();
    assert!(url.as_str().starts_with(place), "{url}");
    url.query_pairs().map(|(name, value)| (name.into_owned(), json!(value))).collect()
}

impl Remote {
    async fn open() -> Self {
        Self::open_in(Arc::new(tempfile::tempdir().unwrap()), ISSUER).await
    }

    async fn open_in(dir: Arc<TempDir>, url: &str) -> Self {
        let clock = Arc::new(Clock::default());
        let builder = Cortex::builder(dir.path().join("data"));
        let cortex = builder.env(Arc::clone(&clock) as Arc<dyn Env>).open().await.unwrap();
        let socket = mcp::bind(0).await.unwrap().public_url(PublicUrl::parse(url).unwrap());
        let server = socket.serve(&cortex, &Secret::new("cortex_user_0"));
        Self { cortex, server, clock, dir }
    }

    /// Stops the core and opens it again on the same data directory.
    async fn reopen(self, url: &str) -> Self {
        self.server.stop().await;
        self.cortex.shutdown().await.unwrap();
        let dir = self.dir;
        drop(self.cortex);
        Self::open_in(dir, url).await
    }

    fn pass(&self, secs: u64) {
        self.clock.ahead_secs.fetch_add(secs, Ordering::SeqCst);
    }

    fn request(&self, method: &str, target: &str) -> Request {
        Request::new(method, target, self.server.port()).with("Host", HOST)
    }

    async fn get(&self, target: &str) -> Answer {
        self.request("GET", target).send(self.server.port()).await
    }

    async fn post(&self, target: &str, kind: &str, body: String) -> Answer {
        let request = self.request("POST", target).with("Content-Type", kind).with_body(body);
        request.send(self.server.port()).await
    }

    async fn post_form(&self, target: &str, params: &Params) -> Answer {
        self.post(target, "application/x-www-form-urlencoded", form(params)).await
    }

    async fn register(&self) -> String {
        let client = json!({ "client_name": "Some client", "redirect_uris": [REDIRECT] });
        let answer = self.post("/register", "application/json", client.to_string()).await;
        assert_eq!(answer.status, 201, "{}", answer.json());
        answer.json()["client_id"].as_str().unwrap().to_owned()
    }

    async fn authorize(&self, params: &Params) -> Answer {
        self.get(&format!("/authorize?{}", form(params))).await
    }

    /// Asks, and answers with the address of the page that waits.
    async fn ask(&self, client: &str) -> String {
        let answer = self.authorize(&question(client)).await;
        assert_eq!(answer.status, 303, "{}", String::from_utf8_lossy(&answer.body));
        let page = answer.header("location").unwrap();
        assert!(page.starts_with("/authorize/wait?page="), "{page}");
        page.to_owned()
    }

    /// What the person reads on the page that waits.
    async fn code_on(&self, page: &str) -> String {
        let answer = self.get(page).await;
        assert_eq!(answer.status, 200);
        let html = String::from_utf8(answer.body).unwrap();
        let (_, rest) = html.split_once("<p class=\"code\">").unwrap();
        rest.split_once('<').unwrap().0.to_owned()
    }

    async fn allow(&self, page: &str) -> ConnectionView {
        let code = self.code_on(page).await;
        self.cortex.as_user().call(AllowConnection { code }).await.unwrap().connection
    }

    async fn connections(&self) -> Vec<ConnectionView> {
        self.cortex.as_user().call(ListConnections {}).await.unwrap().connections
    }

    /// The authorization code of a client that the person allowed.
    async fn code_for(&self, client: &str) -> String {
        let page = self.ask(client).await;
        self.allow(&page).await;
        let told = sent_to(&self.get(&page).await, REDIRECT);
        told["code"].as_str().unwrap().to_owned()
    }

    /// Connects a new client.
    async fn connect(&self) -> (String, Tokens) {
        let client = self.register().await;
        let code = self.code_for(&client).await;
        let answer = self.post_form("/token", &exchange(&client, &code)).await;
        (client, Tokens::of(&answer))
    }

    async fn ping(&self, token: &str) -> Answer {
        let request = Request::post(self.server.port(), token, PING).with("Host", HOST);
        request.send(self.server.port()).await
    }
}

/// What a client got.
#[derive(Debug)]
struct Tokens {
    access: String,
    refresh: String,
}

impl Tokens {
    fn of(answer: &Answer) -> Self {
        let told = answer.json();
        assert_eq!(answer.status, 200, "{told}");
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("pragma"), Some("no-cache"));
        assert_eq!((&told["token_type"], &told["scope"]), (&json!("Bearer"), &json!("mcp")));
        assert_eq!(told["expires_in"], 3600);
        let token = |name: &str| told[name].as_str().unwrap().to_owned();
        Self { access: token("access_token"), refresh: token("refresh_token") }
    }
}
