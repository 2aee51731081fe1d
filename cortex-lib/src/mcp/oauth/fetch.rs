//! Fetches a document that a stranger named, without being used against this machine or its network.
//!
//! Only `https`, only from addresses that are everybody's: all that a name resolves to are looked at, and the
//! connection goes to one that was looked at, so that a second answer of the name server changes nothing. No redirect
//! is followed; size and time have bounds. HTTP and TLS are hyper's and rustls'. Written by hand is what no client
//! offers: the connection to the checked address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures_util::future::{Either, select};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};
use url::{Position, Url};

use crate::limits::{CLIENT_DOCUMENT_BYTES_MAX, CLIENT_DOCUMENT_TIMEOUT};

/// Fetches documents.
#[derive(Clone)]
pub(super) struct Fetcher {
    tls: OnceLock<Arc<ClientConfig>>,
    may_reach: fn(IpAddr) -> bool,
}

impl Fetcher {
    /// One that trusts the authorities of this machine and reaches public addresses alone.
    pub(super) fn new() -> Self {
        Self { tls: OnceLock::new(), may_reach: is_public }
    }

    /// One for a server of a test.
    #[cfg(test)]
    pub(super) fn trusting(roots: RootCertStore, may_reach: fn(IpAddr) -> bool) -> Self {
        let tls = OnceLock::new();
        tls.get_or_init(|| config(roots));
        Self { tls, may_reach }
    }

    /// The JSON document at `url`. The error says what is wrong with it.
    pub(super) async fn get(&self, url: &Url) -> Result<Bytes, String> {
        tokio::time::timeout(CLIENT_DOCUMENT_TIMEOUT, self.get_in_time(url))
            .await
            .unwrap_or_else(|_| Err("it did not come in time".to_owned()))
    }

    async fn get_in_time(&self, url: &Url) -> Result<Bytes, String> {
        let (Some(host), Some(port), "https") =
            (url.host_str(), url.port_or_known_default(), url.scheme())
        else {
            return Err("it is not at an https address".to_owned());
        };
        let stream = self.connect(host, port).await?;
        let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())
            .map_err(|error| error.to_string())?;
        let tls = self.tls.get_or_init(|| config(roots_of_this_machine()));
        let stream = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await;
        let stream = stream.map_err(|error| format!("TLS failed: {error}"))?;
        let said = |error: hyper::Error| error.to_string();
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(said)?;
        let request = Request::get(&url[Position::BeforePath..Position::AfterQuery])
            .header(HOST, &url[Position::BeforeHost..Position::AfterPort])
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("cortex/", env!("CARGO_PKG_VERSION")))
            .body(Empty::<Bytes>::new())
            .map_err(|error| error.to_string())?;
        let exchange = pin!(async move {
            let answer = sender.send_request(request).await.map_err(said)?;
            if answer.status() != StatusCode::OK {
                return Err(format!("it was answered with {}", answer.status()));
            }
            let kind =
                answer.headers().get(CONTENT_TYPE).map(|kind| kind.as_bytes().to_ascii_lowercase());
            let essence = kind.as_deref().and_then(|kind| kind.split(|byte| *byte == b';').next());
            let is_json = |kind: &[u8]| kind == b"application/json" || kind.ends_with(b"+json");
            if !essence.is_some_and(|essence| is_json(essence.trim_ascii())) {
                return Err("it is not application/json".to_owned());
            }
            let body = Limited::new(answer.into_body(), CLIENT_DOCUMENT_BYTES_MAX).collect().await;
            body.map(|body| body.to_bytes()).map_err(|error| error.to_string())
        });
        match select(exchange, pin!(connection)).await {
            Either::Left((answer, _)) => answer,
            // The connection may end before the last of the answer is read.
            Either::Right((_, exchange)) => exchange.await,
        }
    }

    async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, String> {
        let found = lookup_host((host.trim_matches(['[', ']']), port)).await;
        let found: Vec<SocketAddr> =
            found.map_err(|_| "its host is not known".to_owned())?.collect();
        // One that is not public makes the name suspect: it is made to reach what only this machine reaches.
        if !found.iter().all(|address| (self.may_reach)(address.ip())) {
            return Err("its host is not on the public internet".to_owned());
        }
        for address in found {
            if let Ok(stream) = TcpStream::connect(address).await {
                return Ok(stream);
            }
        }
        Err("its host cannot be reached".to_owned())
    }
}

fn roots_of_this_machine() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!("an authority of this machine cannot be read: {error}");
    }
    roots.add_parsable_certificates(found.certs);
    roots
}

fn config(roots: RootCertStore) -> Arc<ClientConfig> {
    let versions: &[_] = tokio_rustls::rustls::DEFAULT_VERSIONS;
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    #[expect(clippy::expect_used, reason = "ring has suites for both versions")]
    let builder = builder.with_protocol_versions(versions).expect("ring speaks TLS 1.2 and 1.3");
    Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Whether an address is everybody's: none of the special purposes of RFC 6890 and its registries.
fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let special = match ip.octets() {
        // This network, shared, protocol assignments, 6to4 relays, benchmarks, reserved.
        [0 | 240..=255, ..] => true,
        [100, 64..=127, ..] | [192, 0, 0, _] | [192, 88, 99, _] | [198, 18 | 19, ..] => true,
        _ => {
            ip.is_private()
                || ip.is_loopback()
                || ip.is_link_local()
                || ip.is_multicast()
                || ip.is_documentation()
        }
    };
    !special
}

/// Of IPv6 only `2000::/3` is global unicast, and of that not what stands for other things: protocol assignments with
/// Teredo, 6to4, documentation.
fn is_public_v6(ip: Ipv6Addr) -> bool {
    let [first, second, ..] = ip.segments();
    let special = matches!(
        (first, second),
        (0x2001, 0..=0x01ff | 0x0db8) | (0x2002, _) | (0x3fff, 0..=0x0fff)
    );
    first & 0xe000 == 0x2000 && !special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_reached() {
        for public in [
            "1.1.1.1",
            "93.184.216.34",
            "100.63.0.1",
            "172.32.0.1",
            "198.20.0.1",
            "2606:4700::1111",
            "2a00:1450::1",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for other in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "192.168.1.1",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.9",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:1.1.1.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "3fff::1",
            "100::1",
        ] {
            assert!(!is_public(other.parse().unwrap()), "{other}");
        }
    }
}
