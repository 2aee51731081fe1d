//! `/register` (RFC 7591): a client that is not known here describes itself. Every client is public and gets no secret.

use hyper::StatusCode;
use serde_json::json;

use super::answer::{Denial, json as json_answer};
use super::client::{Metadata, Wrong};
use super::{Public, SCOPE};
use crate::mcp::refusal::Answer;
use crate::store::RegisteredClient;

impl Public {
    pub(super) async fn register(&self, body: &[u8]) -> Result<Answer, Denial> {
        if !self.has_turn() {
            let why = "too many clients register just now";
            return Err(Denial::new("temporarily_unavailable", why));
        }
        let invalid = |why: String| Denial::new("invalid_client_metadata", why);
        let metadata: Metadata =
            serde_json::from_slice(body).map_err(|error| invalid(error.to_string()))?;
        let client = metadata.client(format!("cortex-{}", self.core.env().mint_v4()));
        let client = client.map_err(|wrong| match wrong {
            Wrong::RedirectUri(why) => Denial::new("invalid_redirect_uri", why),
            Wrong::Metadata(why) => invalid(why),
        })?;
        let registered = RegisteredClient {
            id: client.id,
            name: client.name,
            redirect_uris: client.redirect_uris,
        };
        let answer = json!({
            "client_id": registered.id,
            "client_id_issued_at": self.core.env().now().as_millis() / 1000,
            "client_name": registered.name,
            "redirect_uris": registered.redirect_uris,
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "scope": SCOPE,
        });
        self.core.check_ready()?;
        if !self.core.store().write(move |tx| tx.register_client(&registered)).await? {
            let why = "as many clients are connected as may be registered";
            return Err(Denial::new("temporarily_unavailable", why));
        }
        Ok(json_answer(StatusCode::CREATED, &answer))
    }
}
