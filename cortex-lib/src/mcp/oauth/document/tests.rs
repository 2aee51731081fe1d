use std::net::{IpAddr, Ipv4Addr};

use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use super::*;
use crate::env::SystemEnv;

/// A server of one answer, whatever is asked, for every connection.
struct Server {
    id: String,
    roots: RootCertStore,
    work: JoinSet<()>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// `answer` is made from the address of the document.
    async fn answering(answer: impl FnOnce(&str) -> String) -> Self {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(cert.der().clone()).unwrap();
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let id = format!("https://localhost:{}/client.json", listener.local_addr().unwrap().port());
        let answer = answer(&id);
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let mut work = JoinSet::new();
        let seen = Arc::clone(&asked);
        work.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let mut head = vec![0; 4096];
                let length = stream.read(&mut head).await.unwrap_or(0);
                head.truncate(length);
                seen.lock().unwrap().push(String::from_utf8(head).unwrap());
                if answer.is_empty() {
                    // It never answers.
                    std::future::pending::<()>().await;
                }
                drop(stream.write_all(answer.as_bytes()).await);
                drop(stream.shutdown().await);
            }
        });
        Self { id, roots, work, asked }
    }

    fn documents(&self, may_reach: fn(IpAddr) -> bool) -> Documents {
        let fetcher = Fetcher::trusting(self.roots.clone(), may_reach);
        Documents::new(Arc::new(SystemEnv::new()), fetcher)
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// Makes the answer of a server from the address of its document.
type Make = Box<dyn FnOnce(&str) -> String>;

fn document(id: &str) -> Value {
    json!({ "client_id": id, "client_name": "Documented", "redirect_uris": ["http://127.0.0.1/cb"], "token_endpoint_auth_method": "none" })
}

fn answer(body: &Value) -> String {
    answer_with("200 OK", "application/json", &body.to_string())
}

fn answer_with(status: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nLocation: https://localhost/\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

fn anywhere(_: IpAddr) -> bool {
    true
}

#[tokio::test]
async fn a_document_is_fetched_once_and_then_known() {
    let mut server = Server::answering(|id| answer(&document(id))).await;
    let documents = server.documents(anywhere);
    assert_eq!(documents.known(&server.id), None);
    let client = documents.fetch(&server.id).await.unwrap();
    assert_eq!((client.name.as_str(), client.id.as_str()), ("Documented", server.id.as_str()));
    assert_eq!(documents.known(&server.id), Some(client));
    let asked = server.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    let asked = asked.concat();
    assert!(asked.starts_with("GET /client.json HTTP/1.1\r\n"), "{asked}");
    assert!(!asked.to_ascii_lowercase().contains("authorization"), "{asked}");
    server.work.shutdown().await;
}

#[tokio::test]
async fn documents_that_do_not_hold_are_refused() {
    let with = |id: &str, name: &str, value: Value| {
        let mut document = document(id);
        document.as_object_mut().unwrap().insert(name.to_owned(), value);
        answer(&document)
    };
    let cases: Vec<(&str, Make)> = vec![
        ("another client_id", Box::new(|id| answer(&document(&format!("{id}x"))))),
        ("does not hold", Box::new(|_| answer(&json!([])))),
        ("a secret", Box::new(move |id| with(id, "client_secret", json!("s")))),
        (
            "public clients",
            Box::new(move |id| with(id, "token_endpoint_auth_method", json!("private_key_jwt"))),
        ),
        ("redirect", Box::new(move |id| with(id, "redirect_uris", json!(["javascript:x"])))),
        ("redirect", Box::new(move |id| with(id, "redirect_uris", json!([])))),
        (
            "302",
            Box::new(|id| answer_with("302 Found", "application/json", &document(id).to_string())),
        ),
        (
            "404",
            Box::new(|id| {
                answer_with("404 Not Found", "application/json", &document(id).to_string())
            }),
        ),
        (
            "application/json",
            Box::new(|id| answer_with("200 OK", "text/html", &document(id).to_string())),
        ),
        ("length limit", Box::new(move |id| with(id, "x", json!("x".repeat(6000))))),
    ];
    for (said, make) in cases {
        let mut server = Server::answering(make).await;
        let documents = server.documents(anywhere);
        let why = documents.fetch(&server.id).await.unwrap_err();
        assert!(why.contains(said), "{said}: {why}");
        assert_eq!(documents.known(&server.id), None, "{said}");
        assert_eq!(server.asked().len(), 1, "no redirect is followed");
        server.work.shutdown().await;
    }
}

/// A name may resolve to what only this machine reaches.
#[tokio::test]
async fn nothing_is_sent_to_an_address_that_is_not_public() {
    let mut server = Server::answering(|id| answer(&document(id))).await;
    let fetcher = Fetcher::new();
    let documents = Documents::new(Arc::new(SystemEnv::new()), fetcher);
    let port = Url::parse(&server.id).unwrap().port().unwrap();
    for host in ["localhost", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"] {
        let id = Url::parse(&format!("https://{host}:{port}/client.json")).unwrap();
        let why = documents.fetch(id.as_str()).await.unwrap_err();
        assert!(why.contains("not on the public internet"), "{id}: {why}");
    }
    assert_eq!(server.asked(), Vec::<String>::new());
    server.work.shutdown().await;
}

#[tokio::test]
async fn a_server_that_nobody_vouches_for_is_not_believed() {
    let mut server = Server::answering(|id| answer(&document(id))).await;
    let fetcher = Fetcher::trusting(RootCertStore::empty(), anywhere);
    let documents = Documents::new(Arc::new(SystemEnv::new()), fetcher);
    let why = documents.fetch(&server.id).await.unwrap_err();
    assert!(why.contains("TLS failed"), "{why}");
    server.work.shutdown().await;
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_given_up() {
    let mut server = Server::answering(|_| String::new()).await;
    let documents = server.documents(anywhere);
    let why = documents.fetch(&server.id).await.unwrap_err();
    assert!(why.contains("in time"), "{why}");
    server.work.shutdown().await;
}

#[test]
fn an_identifier_is_spelled_in_one_way() {
    assert!(address("https://client.example/oauth/client.json?v=1").is_ok());
    for wrong in [
        "https://client.example",
        "https://client.example/",
        "https://client.example/a/../b",
        "https://client.example:443/a",
        "https://Client.example/a",
        "https://me@client.example/a",
        "https://client.example/a#b",
        "http://client.example/a",
        "https://",
    ] {
        assert!(address(wrong).is_err(), "{wrong}");
    }
}
