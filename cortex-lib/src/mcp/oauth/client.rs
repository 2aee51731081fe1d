//! What a client says about itself, by registration (RFC 7591) or in a document (CIMD), and what of it holds.

use serde::Deserialize;
use url::Url;

use super::public_url::is_loopback;
use crate::limits::{CLIENT_NAME_CHARS_MAX, OAUTH_URI_BYTES_MAX, REDIRECT_URIS_MAX};

/// A client that may ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Client {
    /// Its identifier.
    pub id: String,
    /// What it calls itself, made fit to be shown.
    pub name: String,
    /// Where its answers may go.
    pub redirect_uris: Vec<String>,
}

/// The fields that count here; others are for other servers.
#[derive(Debug, Deserialize)]
pub(super) struct Metadata {
    pub client_id: Option<String>,
    client_name: Option<String>,
    #[serde(default)]
    redirect_uris: Vec<String>,
    grant_types: Option<Vec<String>>,
    response_types: Option<Vec<String>>,
    pub token_endpoint_auth_method: Option<String>,
    pub client_secret: Option<serde_json::Value>,
}

/// What is wrong with what a client says, in the words of RFC 7591 (3.2.2).
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// `invalid_redirect_uri`.
    RedirectUri(String),
    /// `invalid_client_metadata`.
    Metadata(String),
}

impl Metadata {
    /// The client that this describes, under the identifier `id`.
    pub(super) fn client(self, id: String) -> Result<Client, Wrong> {
        let wants = |list: &Option<Vec<String>>, what: &str| {
            list.as_ref().is_none_or(|list| list.iter().any(|one| one == what))
        };
        if !wants(&self.grant_types, "authorization_code") {
            return Err(Wrong::Metadata("grant_types lacks authorization_code".to_owned()));
        }
        if !wants(&self.response_types, "code") {
            return Err(Wrong::Metadata("response_types lacks code".to_owned()));
        }
        if self.redirect_uris.is_empty() || self.redirect_uris.len() > REDIRECT_URIS_MAX {
            let message = format!("redirect_uris must have 1 to {REDIRECT_URIS_MAX} addresses");
            return Err(Wrong::RedirectUri(message));
        }
        for uri in &self.redirect_uris {
            check_redirect(uri).map_err(|why| Wrong::RedirectUri(why.to_owned()))?;
        }
        let name = self.client_name.as_deref().map(shown).unwrap_or_default();
        let name = if name.is_empty() { "a client without a name".to_owned() } else { name };
        Ok(Client { id, name, redirect_uris: self.redirect_uris })
    }
}

impl Client {
    /// Whether an answer may go there: to one of its addresses to the letter. On this machine the port is free, because
    /// a program takes any (RFC 8252, 7.3).
    pub(super) fn may_answer_to(&self, uri: &str) -> bool {
        let allowed = |own: &String| own == uri || same_but_for_port(own, uri);
        check_redirect(uri).is_ok() && self.redirect_uris.iter().any(allowed)
    }
}

fn same_but_for_port(own: &str, uri: &str) -> bool {
    let without_port = |text: &str| {
        let mut url = Url::parse(text).ok().filter(is_loopback_http)?;
        url.set_port(None).ok()?;
        Some(url)
    };
    // Of two texts that mean the same, one may be in another spelling: the path must be the same text.
    let tail = |text: &str| text.splitn(4, '/').nth(3).map(str::to_owned);
    without_port(own).is_some_and(|own| Some(own) == without_port(uri)) && tail(own) == tail(uri)
}

fn is_loopback_http(url: &Url) -> bool {
    url.scheme() == "http" && is_loopback(url)
}

/// Whether an address may be one for answers: `https`, or this machine (MCP, authorization).
fn check_redirect(uri: &str) -> Result<(), &'static str> {
    if uri.len() > OAUTH_URI_BYTES_MAX {
        return Err("a redirect address is too long");
    }
    if !uri.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("a redirect address has characters that must be escaped");
    }
    let url = Url::parse(uri).map_err(|_| "a redirect address is no absolute address")?;
    if url.scheme() != "https" && !is_loopback_http(&url) {
        return Err("a redirect address must be https, or http on a loopback host");
    }
    if url.host().is_none() || !url.username().is_empty() || url.password().is_some() {
        return Err("a redirect address must have a host and no user");
    }
    if url.fragment().is_some() {
        return Err("a redirect address must have no fragment (RFC 6749, 3.1.2)");
    }
    Ok(())
}

/// A name without what would make it look like something else: control and direction characters, line breaks.
fn shown(name: &str) -> String {
    let plain = |c: &char| {
        !c.is_control()
            && !matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let name: String = name.chars().filter(plain).take(CLIENT_NAME_CHARS_MAX).collect();
    name.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(uris: &[&str]) -> Result<Client, Wrong> {
        let value =
            serde_json::json!({ "client_name": "  A\u{202e}\u{61c}B\n ", "redirect_uris": uris });
        serde_json::from_value::<Metadata>(value).unwrap().client("c".to_owned())
    }

    #[test]
    fn answers_go_to_https_or_to_this_machine() {
        for good in [
            "https://a.example/cb",
            "http://127.0.0.1/cb",
            "http://localhost:1/cb",
            "http://[::1]:9/",
        ] {
            assert_eq!(client(&[good]).map(|client| client.name), Ok("AB".to_owned()), "{good}");
        }
        for wrong in [
            "",
            "cb",
            "/cb",
            "http://a.example/cb",
            "http://127.0.0.1.a.example/",
            "javascript:alert(1)",
            "data:text/html,x",
            "https://a.example/cb#x",
            "https://u@a.example/cb",
            "cursor://cb",
            "https://a.example/a b",
            "http://10.0.0.1/",
        ] {
            assert!(matches!(client(&[wrong]), Err(Wrong::RedirectUri(_))), "{wrong}");
        }
        assert!(client(&[]).is_err());
        assert!(client(&[&format!("https://a.example/{}", "x".repeat(3000))]).is_err());
    }

    #[test]
    fn an_answer_goes_to_the_letter_except_for_a_port_of_this_machine() {
        let it =
            client(&["https://a.example/cb", "http://127.0.0.1:33418/cb?x=1", "http://localhost/"])
                .unwrap();
        for good in [
            "https://a.example/cb",
            "http://127.0.0.1:1/cb?x=1",
            "http://127.0.0.1/cb?x=1",
            "http://localhost:99/",
        ] {
            assert!(it.may_answer_to(good), "{good}");
        }
        for other in [
            "https://a.example/cb/",
            "https://a.example/cb?x",
            "https://a.example:443/cb",
            "https://a.example:1/cb",
            "https://A.example/cb",
            "https://evil.example/cb",
            "http://127.0.0.1:1/cb",
            "http://127.0.0.1:1/c%62?x=1",
            "http://[::1]:1/cb?x=1",
            "http://localhost:1/cb",
            "https://localhost:1/",
            "http://localhost:1/#x",
            "http://localhost@evil.example/",
            "https://a.example/cb/../cb",
        ] {
            assert!(!it.may_answer_to(other), "{other}");
        }
    }
}
