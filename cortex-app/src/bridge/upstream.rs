//! The endpoint behind the bridge: where it is, with what credential, and one request for each message.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use cortex_lib::api::operator::CoreStatus;
use cortex_lib::error::{Code, Error, Problem, Result};
use cortex_lib::mcp::UserToken;
use cortex_lib::secret::Secret;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::Mutex;

use super::message::Message;
use crate::boot::Life;
use crate::cli::Global;
use crate::door::{Door, Opening};

/// Where a session of an agent finds the endpoint.
const URL: &str = "CORTEX_MCP_URL";
/// The credential of that session.
const TOKEN: &str = "CORTEX_MCP_TOKEN";
/// An idle connection is given back before the endpoint closes it.
const IDLE_MAX: Duration = Duration::from_secs(5);
/// Of which version of the protocol a message is.
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// Its method, and the tool that it calls: since 2026-07-28 a message says in its head what it is.
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The way to an endpoint.
pub(crate) struct Upstream {
    place: Place,
    http: Client<HttpConnector, Full<Bytes>>,
    /// On which version of the protocol the client and the endpoint have settled.
    version: Mutex<Option<HeaderValue>>,
}

enum Place {
    /// That of the session which this program runs in.
    Session { url: Uri, token: Secret },
    /// That of whichever core serves the data directory.
    Core { global: Global, embedded: bool, door: Mutex<Option<Door>> },
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Upstream")
    }
}

impl Upstream {
    /// The endpoint of the session that this program runs in, if it runs in one; else that of the core which serves
    /// the data directory. `embedded`: a core is opened here when none does.
    ///
    /// # Errors
    ///
    /// `input.invalid_arguments` when the environment says only half of what is needed.
    pub(crate) fn of(global: &Global, embedded: bool) -> Result<Self> {
        let said = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let place = match (said(URL), said(TOKEN)) {
            (Some(url), Some(token)) => {
                let url = url.parse().map_err(|error| {
                    let problem = Problem::new(URL, format!("is no address: {error}"));
                    Error::invalid(Code::InvalidArguments, vec![problem])
                })?;
                Place::Session { url, token: Secret::new(token) }
            }
            // The person's own credential goes to nobody but the person's own core.
            (Some(_), None) => {
                let problem = Problem::new(TOKEN, format!("is missing beside {URL}"));
                return Err(Error::invalid(Code::InvalidArguments, vec![problem]));
            }
            (None, _) => Place::Core { global: global.clone(), embedded, door: Mutex::default() },
        };
        let http = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_MAX)
            .build(HttpConnector::new());
        Ok(Self { place, http, version: Mutex::default() })
    }

    /// From now on messages are of this version of the protocol.
    pub(super) async fn settle(&self, version: HeaderValue) {
        *self.version.lock().await = Some(version);
    }

    /// Sends a message. It is sent once: nobody knows what one that broke off has done.
    ///
    /// # Errors
    ///
    /// `core.stopped` when no core is there, or it went away before it answered; `mcp.disabled`; those of the command
    /// line.
    pub(super) async fn send(&self, message: &Message) -> Result<Response<Incoming>> {
        let (url, token) = match &self.place {
            Place::Session { url, token } => (url.clone(), token.clone()),
            Place::Core { global, embedded, door } => {
                let url = reach(global, *embedded, &mut *door.lock().await).await?;
                (url, user_token(global)?)
            }
        };
        let request = self.request(message, url.clone(), &token).await?;
        self.http.request(request).await.map_err(|error| {
            let text = if error.is_connect() {
                format!("nothing answers at {url}")
            } else {
                format!("{url} went away before it answered; what was asked may have been done")
            };
            tracing::debug!("{text}: {error:?}");
            Error::new(Code::CoreStopped, text)
        })
    }

    async fn request(
        &self,
        message: &Message,
        url: Uri,
        token: &Secret,
    ) -> Result<Request<Full<Bytes>>> {
        let mut request = Request::post(url)
            .header(AUTHORIZATION, format!("Bearer {}", token.expose()))
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .body(Full::new(message.line.clone()))
            .map_err(|error| {
                Error::new(Code::Defect, format!("the request cannot be made: {error}"))
            })?;
        let told = |text: &Option<String>| HeaderValue::from_str(text.as_deref()?).ok();
        let headers = request.headers_mut();
        let own = told(&message.version);
        if own.is_some() {
            headers.extend(told(&message.method).map(|method| (METHOD, method)));
            headers.extend(told(&message.tool).map(|tool| (NAME, tool)));
        }
        let version = match own {
            Some(version) => Some(version),
            None if message.is_initialize() => None,
            None => self.version.lock().await.clone(),
        };
        request.headers_mut().extend(version.map(|version| (VERSION, version)));
        Ok(request)
    }

    /// Leaves: a core that was opened here is stopped in order.
    ///
    /// # Errors
    ///
    /// Those of [`Door::close`].
    pub(crate) async fn close(&self) -> Result<()> {
        let Place::Core { door, .. } = &self.place else { return Ok(()) };
        let open = door.lock().await.take();
        match open {
            Some(door) => door.close().await,
            None => Ok(()),
        }
    }
}

/// Where the endpoint of the core is. It is asked each time: another program may listen there once the core is gone.
async fn reach(global: &Global, embedded: bool, door: &mut Option<Door>) -> Result<Uri> {
    if let Some(open) = door.as_ref() {
        match open.call(CoreStatus {}).await {
            Ok(status) => return endpoint(status.mcp_url),
            // Its next life, or another core, may be there already.
            Err(error) if error.code() == Code::CoreStopped => {}
            Err(error) => return Err(error),
        }
    }
    if let Some(gone) = door.take() {
        gone.close().await?;
    }
    let found = if embedded {
        Door::open_with(global, Opening::of(Life::Long)).await?
    } else {
        Door::open_running(global).await?.ok_or_else(|| nobody(global))?
    };
    let status = door.insert(found).call(CoreStatus {}).await?;
    endpoint(status.mcp_url)
}

fn endpoint(url: Option<String>) -> Result<Uri> {
    let url = url.ok_or_else(|| Error::new(Code::McpDisabled, "the core serves no MCP"))?;
    url.parse().map_err(|error| {
        Error::new(Code::Defect, format!("the endpoint of the core is no address: {error}"))
    })
}

fn nobody(global: &Global) -> Error {
    let program = global.program();
    let message = match global.data_dir() {
        Ok(data_dir) => format!("no core runs on {}", data_dir.display()),
        Err(error) => return error,
    };
    Error::new(Code::CoreStopped, message).remedy(format!(
        "Start one: `{}`. Or give the client `{}`, which starts its own when none runs.",
        program.call("serve"),
        program.call("mcp --embedded"),
    ))
}

fn user_token(global: &Global) -> Result<Secret> {
    let token = UserToken::of(&global.data_dir()?);
    token.load()?.ok_or_else(|| {
        let message = format!("there is no credential at {}", token.path().display());
        let remedy = format!("Make one: `{}`.", global.program().call("token rotate"));
        Error::new(Code::AuthMissing, message).remedy(remedy)
    })
}
