//! Clients that describe themselves in a document at the address that is their identifier (CIMD,
//! draft-ietf-oauth-client-id-metadata-document). What was fetched counts for a short while.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use url::Url;

use super::client::{Client, Metadata, Wrong};
use super::fetch::Fetcher;
use crate::env::Env;
use crate::limits::{
    CLIENT_DOCUMENT_LIFE, CLIENT_DOCUMENTS_FETCHED_MAX, CLIENT_DOCUMENTS_MAX, OAUTH_URI_BYTES_MAX,
};

/// The documents of clients.
pub(super) struct Documents {
    env: Arc<dyn Env>,
    fetcher: Fetcher,
    places: Semaphore,
    // Taken for a look at a small map; nothing waits while it is held.
    known: Mutex<BTreeMap<String, (Duration, Client)>>,
}

impl Documents {
    pub(super) fn new(env: Arc<dyn Env>, fetcher: Fetcher) -> Self {
        let places = Semaphore::new(CLIENT_DOCUMENTS_FETCHED_MAX);
        Self { env, fetcher, places, known: Mutex::default() }
    }

    /// Whether an identifier is the address of a document.
    pub(super) fn is_address(id: &str) -> bool {
        id.starts_with("https://")
    }

    /// The client whose document is known and fresh.
    pub(super) fn known(&self, id: &str) -> Option<Client> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, client) = known.get(id)?;
        let age = self.env.monotonic().saturating_sub(*at);
        (age < CLIENT_DOCUMENT_LIFE).then(|| client.clone())
    }

    /// The client of the document at `id`. The error says what is wrong with it.
    pub(super) async fn fetch(&self, id: &str) -> Result<Client, String> {
        let url = address(id)?;
        let Ok(_place) = self.places.try_acquire() else {
            return Err("too many documents are fetched just now".to_owned());
        };
        let body = self.fetcher.get(&url).await?;
        let client = read(id, &body)?;
        let now = self.env.monotonic();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, (at, _)| now.saturating_sub(*at) < CLIENT_DOCUMENT_LIFE);
        if known.len() >= CLIENT_DOCUMENTS_MAX {
            let oldest = known.iter().min_by_key(|(_, (at, _))| *at).map(|(id, _)| id.clone());
            oldest.and_then(|oldest| known.remove(&oldest));
        }
        known.insert(id.to_owned(), (now, client.clone()));
        Ok(client)
    }
}

/// Checks an identifier by the rules of the draft (section 3).
fn address(id: &str) -> Result<Url, String> {
    let wrong = |why: &str| Err(format!("the client_id {why}"));
    if id.len() > OAUTH_URI_BYTES_MAX {
        return wrong("is too long");
    }
    let Ok(url) = Url::parse(id) else { return wrong("is no address") };
    if url.scheme() != "https" {
        return wrong("is not https");
    }
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return wrong("must have no user and no fragment");
    }
    if url.path() == "/" {
        return wrong("must have a path");
    }
    // Dot segments, default ports and letters of other sizes would be two spellings of one client.
    if url.as_str() != id {
        return wrong("is not spelled as addresses are compared");
    }
    Ok(url)
}

fn read(id: &str, body: &[u8]) -> Result<Client, String> {
    let metadata: Metadata = serde_json::from_slice(body)
        .map_err(|error| format!("the document of the client does not hold: {error}"))?;
    if metadata.client_id.as_deref() != Some(id) {
        return Err("the document is about another client_id".to_owned());
    }
    if metadata.client_secret.is_some() {
        return Err("the document tells a secret".to_owned());
    }
    if metadata.token_endpoint_auth_method.as_deref().is_some_and(|method| method != "none") {
        return Err("only public clients are taken: token_endpoint_auth_method none".to_owned());
    }
    metadata.client(id.to_owned()).map_err(|wrong| match wrong {
        Wrong::RedirectUri(why) | Wrong::Metadata(why) => why,
    })
}

#[cfg(test)]
mod tests;
