//! The address by which clients from elsewhere reach the endpoint.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use url::{Host, Position, Url};

use crate::error::{Code, Error, Problem, Result};
use crate::mcp::guard::PATH;

/// A public address: a scheme, a host and perhaps a port, for a reverse proxy that serves this endpoint there.
///
/// It has no path: what clients look for first stands at the root of the host (RFC 8414, RFC 9728).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicUrl(Url);

impl PublicUrl {
    /// Takes an address apart.
    ///
    /// # Errors
    ///
    /// `core.config_invalid` when it is not `https`, or has more than a host and a port. `http` is for this machine alone.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |why: &str| {
            Error::invalid(Code::ConfigInvalid, vec![Problem::new("mcp.public_url", why)])
        };
        let url = Url::parse(text).map_err(|error| wrong(&format!("is no address: {error}")))?;
        match url.scheme() {
            "https" => {}
            "http" if is_loopback(&url) => {}
            _ => return Err(wrong("must be https, or http on a loopback host")),
        }
        if url.host().is_none() || !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("must have a host and no user"));
        }
        if url.path() != "/" {
            return Err(wrong("must have no path: clients look at the root of the host"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("must have no query and no fragment"));
        }
        Ok(Self(url))
    }

    /// The address without anything behind the host and port: the issuer.
    pub fn origin(&self) -> String {
        self.0.origin().ascii_serialization()
    }

    /// Whether a Host header names it. The port of the scheme may be told or left out (RFC 9110, 4.2.3).
    pub(super) fn is_host(&self, host: &str) -> bool {
        let own = &self.0[Position::BeforeHost..Position::AfterPort];
        let implied = self.0.port().is_none().then(|| self.0.port_or_known_default()).flatten();
        let bare = implied.and_then(|port| host.strip_suffix(&format!(":{port}")));
        bare.unwrap_or(host).eq_ignore_ascii_case(own)
    }

    /// Whether it is an address of this machine.
    pub(super) fn is_loopback(&self) -> bool {
        is_loopback(&self.0)
    }

    /// The address of a path at it.
    pub(super) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.origin())
    }

    /// Where clients send their messages: what their tokens are for (RFC 8707).
    pub fn resource(&self) -> String {
        self.at(PATH)
    }

    /// Whether a text names that resource.
    pub(super) fn is_resource(&self, text: &str) -> bool {
        Url::parse(text).is_ok_and(|url| url.as_str() == self.resource())
    }
}

impl fmt::Display for PublicUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin())
    }
}

/// Whether an address is this machine's own, by a number or as `localhost`.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip == Ipv4Addr::LOCALHOST,
        Some(Host::Ipv6(ip)) => ip == Ipv6Addr::LOCALHOST,
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_scheme_a_host_and_a_port() {
        let url = PublicUrl::parse("https://Cortex.Example.com").unwrap();
        assert_eq!(url.origin(), "https://cortex.example.com");
        assert_eq!(url.resource(), "https://cortex.example.com/mcp");
        let url = PublicUrl::parse("https://cortex.example.com:8443/").unwrap();
        assert_eq!(url.to_string(), "https://cortex.example.com:8443");
        for local in ["http://127.0.0.1:1", "http://localhost", "http://[::1]:7"] {
            assert!(PublicUrl::parse(local).is_ok(), "{local}");
        }
        for (wrong, said) in [
            ("", "no address"),
            ("cortex.example.com", "no address"),
            ("http://cortex.example.com", "https"),
            ("http://127.0.0.2", "https"),
            ("ftp://cortex.example.com", "https"),
            ("https://me@cortex.example.com", "user"),
            ("https://cortex.example.com/mcp", "path"),
            ("https://cortex.example.com/?a", "query"),
            ("https://cortex.example.com/#a", "fragment"),
        ] {
            let error = PublicUrl::parse(wrong).unwrap_err();
            let problem = &error.problems().first().unwrap().message;
            assert!(problem.contains(said), "{wrong}: {problem}");
        }
    }

    #[test]
    fn a_host_is_told_with_its_port_unless_the_scheme_implies_it() {
        let here = "http://127.0.0.1:80 http://localhost:9 http://[::1]";
        assert!(here.split(' ').all(|url| PublicUrl::parse(url).unwrap().is_loopback()));
        for (url, ours, others) in [
            (
                "https://a.example",
                ["a.example", "A.Example:443"],
                ["a.example:80", "a.example:", "a.example:443:443", "b.a.example", "a.example."],
            ),
            (
                "https://a.example:8443",
                ["a.example:8443", "A.EXAMPLE:8443"],
                ["a.example", "a.example:443", "a.example:8443:443", "a.example:08443", ""],
            ),
            (
                "http://[::1]",
                ["[::1]", "[::1]:80"],
                ["::1", "[::1]:443", "::1:80", "127.0.0.1", "localhost"],
            ),
        ] {
            let url = PublicUrl::parse(url).unwrap();
            assert!(ours.into_iter().all(|host| url.is_host(host)), "{url}");
            assert!(!others.into_iter().any(|host| url.is_host(host)), "{url}");
        }
        assert!(!PublicUrl::parse("https://a.example").unwrap().is_loopback());
    }

    #[test]
    fn the_resource_is_one() {
        let url = PublicUrl::parse("https://a.example:443").unwrap();
        for same in ["https://a.example/mcp", "https://A.example:443/mcp"] {
            assert!(url.is_resource(same), "{same}");
        }
        for other in [
            "https://a.example",
            "https://a.example/mcp/",
            "https://a.example/mcp?x",
            "https://a.example:1/mcp",
            "http://a.example/mcp",
            "https://b.example/mcp",
            "mcp",
        ] {
            assert!(!url.is_resource(other), "{other}");
        }
    }
}
