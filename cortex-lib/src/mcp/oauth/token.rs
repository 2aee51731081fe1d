//! `/token` (RFC 6749, RFC 7636) and `/revoke` (RFC 7009).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::StatusCode;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::answer::{Denial, json as json_answer, nothing};
use super::authorize::check_scope;
use super::document::Documents;
use super::params::Params;
use super::{Public, SCOPE};
use crate::limits::ACCESS_TOKEN_LIFE;
use crate::mcp::refusal::Answer;
use crate::progress::{Exchange, Tokens};
use crate::secret::Secret;
use crate::store::Connection;

impl Public {
    /// Exchanges a code or a refresh token for tokens.
    pub(super) async fn token(&self, form: &Params) -> Result<Answer, Denial> {
        let grant = form.need("grant_type")?;
        let client = form.need("client_id")?.to_owned();
        // One that is described in a document is not kept; what it exchanges tells whose that is.
        if !Documents::is_address(&client) {
            self.registered(&client)?;
        }
        self.core.check_ready()?;
        let exchange = match grant {
            "authorization_code" => self.exchange_code(form, client).await?,
            "refresh_token" => self.exchange_refresh_token(form, client).await?,
            _ => {
                let why = "grant_type is neither authorization_code nor refresh_token";
                return Err(Denial::new("unsupported_grant_type", why));
            }
        };
        match exchange {
            Exchange::Tokens(tokens) => Ok(granted(&tokens)),
            Exchange::Refused(why) => Err(Denial::new("invalid_grant", why)),
            Exchange::Reused => {
                let why = "it was used before, so what it gave was revoked";
                Err(Denial::new("invalid_grant", why))
            }
        }
    }

    async fn exchange_code(&self, form: &Params, client: String) -> Result<Exchange, Denial> {
        let code = Secret::new(form.need("code")?).hash();
        let verifier = form.need("code_verifier")?;
        let is_letter =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
        if !(43..=128).contains(&verifier.len()) || !verifier.bytes().all(is_letter) {
            return Err(Denial::request("code_verifier is none (RFC 7636, 4.1)"));
        }
        self.check_resource(form)?;
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier));
        let redirect_uri = form.get("redirect_uri").map(str::to_owned);
        let resource = self.url.resource();
        let fits = move |asked: &Connection| {
            if asked.client_id != client {
                return Err("the code is another client's");
            }
            // OAuth 2.1 does not have it any more: the challenge binds the code. Who still sends it must send the same.
            if redirect_uri.is_some_and(|uri| uri != asked.redirect_uri) {
                return Err("the redirect_uri is not the one that was asked with");
            }
            if asked.resource != resource {
                return Err("the code is for another address of this server");
            }
            if !bool::from(asked.challenge.as_bytes().ct_eq(challenge.as_bytes())) {
                return Err("the code_verifier is not the one of the code_challenge");
            }
            Ok(())
        };
        Ok(self.core.store().write(move |tx| tx.exchange_code(&code, fits)).await?)
    }

    async fn exchange_refresh_token(
        &self,
        form: &Params,
        client: String,
    ) -> Result<Exchange, Denial> {
        let token = Secret::new(form.need("refresh_token")?).hash();
        self.check_resource(form)?;
        check_scope(form)?;
        let resource = self.url.resource();
        let exchange = self
            .core
            .store()
            .write(move |tx| tx.exchange_refresh_token(&token, &client, &resource));
        Ok(exchange.await?)
    }

    /// Takes a token back. One that nobody knows is as good as taken back.
    pub(super) async fn revoke(&self, form: &Params) -> Result<Answer, Denial> {
        let token = Secret::new(form.need("token")?).hash();
        let client = form.need("client_id")?.to_owned();
        self.core.check_ready()?;
        if self.core.store().write(move |tx| tx.take_token_back(&token, &client)).await? {
            return Ok(nothing());
        }
        Err(Denial::new("invalid_grant", "the token is another client's"))
    }
}

fn granted(tokens: &Tokens) -> Answer {
    let body = json!({
        "access_token": tokens.access.expose(),
        "token_type": "Bearer",
        "expires_in": ACCESS_TOKEN_LIFE.as_secs(),
        "refresh_token": tokens.refresh.expose(),
        "scope": SCOPE,
    });
    json_answer(StatusCode::OK, &body)
}
