//! The paths of the console: its files, sign-in and sign-out, and the tickets for links that sign in.

use std::sync::Arc;
use std::time::Instant;

use apiserver::auth::bearer_token;
use apiserver::extension::{Extension, ExtensionRequest};
use apiserver::respond::{self, Body};
use apiserver::server::Server;
use async_trait::async_trait;
use http::{HeaderMap, HeaderValue, Method, Response, header};
use jiff::Timestamp;
use object::Status;
use object::request::User;
use object::request::user::AUTHENTICATED_GROUP;
use pki::token::{Secret, random_bearer_token};
use serde_json::{Value, json};

use crate::{CONSOLE_PATH, WebConsole, assets, oidc, origin, pages, sessions, tickets};

const LOGIN: &str = "/console/api/login";
const LOGOUT: &str = "/console/api/logout";
const SESSION: &str = "/console/api/session";
const WAYS: &str = "/console/api/ways";
const OIDC_BEGIN: &str = "/console/api/oidc/begin";
const OIDC_CALLBACK: &str = "/console/api/oidc/callback";
const CALLS: [&str; 6] = [LOGIN, LOGOUT, SESSION, WAYS, OIDC_BEGIN, OIDC_CALLBACK];
const API: &str = "/console/api/";
const TICKETS: &str = "/flotilla/v1alpha1/console/tickets";

/// Serves the page to everyone, and the sessions behind it.
pub struct ConsolePages {
    pub console: Arc<WebConsole>,
}

impl ConsolePages {
    /// Opens a session for the user of a bearer token, a client certificate or a ticket.
    async fn login(&self, request: &ExtensionRequest) -> Result<Response<Body>, Status> {
        let headers = &request.incoming.headers;
        origin::check(headers).map_err(forbidden)?;
        let (user, token) = match ticket(headers) {
            Some(ticket) => self.console.tickets.redeem(ticket, Instant::now()).ok_or_else(|| {
                let text = "the sign-in link was used before or has expired; `flotilla console` prints a new one";
                Status::new(401, "Unauthorized", text)
            })?,
            None => {
                let token = bearer_token(headers);
                let is_session = token.is_none() && origin::session_cookie(headers).is_some();
                if is_session || !is_authenticated(&request.user) {
                    return Err(Status::new(401, "Unauthorized", "the token is not valid for this control plane"));
                }
                (Arc::clone(&request.user), token.map(Secret::new))
            }
        };
        let cookie = open_session(&self.console, headers, Arc::clone(&user), token).await?;
        with_cookie(respond::value(200, &self.describe(&user)), &cookie)
    }

    fn describe(&self, user: &User) -> Value {
        json!({
            "user": user.name,
            "groups": user.groups,
            "sessionSecondsMax": sessions::LIFETIME.as_secs(),
            "managesInstances": self.console.manages_instances,
        })
    }

    /// The ways to sign in, for callers who have not yet done so.
    fn ways(&self, server: &Server) -> Value {
        let oidc = server.oidc().map(|issuer| json!({"issuer": issuer.issuer()}));
        json!({"oidc": oidc, "password": self.console.manages_instances})
    }

    async fn logout(&self, headers: &HeaderMap) -> Result<Response<Body>, Status> {
        origin::check(headers).map_err(forbidden)?;
        if let Some(id) = origin::session_cookie(headers) {
            self.console.sessions.close(id).await;
        }
        let cookie = format!("{}=; Max-Age=0; {COOKIE_ATTRIBUTES}", origin::cookie_name(headers));
        with_cookie(respond::value(200, &json!({})), &cookie)
    }
}

#[async_trait]
impl Extension for ConsolePages {
    fn handles(&self, path: &str) -> bool {
        path.starts_with(CONSOLE_PATH) || path == CONSOLE_PATH.trim_end_matches('/')
    }

    /// A browser that opens the server's address is sent to the console; other clients get the list of paths.
    fn handles_page(&self, path: &str, headers: &HeaderMap) -> bool {
        let accepts = |value: &HeaderValue| value.to_str().is_ok_and(|value| value.contains("text/html"));
        path == "/" && headers.get(header::ACCEPT).is_some_and(accepts)
    }

    fn judges_callers(&self) -> bool {
        true
    }

    fn is_public(&self) -> bool {
        true
    }

    async fn serve(&self, server: &Arc<Server>, request: ExtensionRequest) -> Result<Response<Body>, Status> {
        let headers = &request.incoming.headers;
        match (request.incoming.info.path.as_str(), &request.incoming.method) {
            (LOGIN, &Method::POST) => self.login(&request).await,
            (LOGOUT, &Method::POST) => self.logout(headers).await,
            (WAYS, &Method::GET) => Ok(respond::value(200, &self.ways(server))),
            (OIDC_BEGIN, &Method::GET) => oidc::begin(server, headers).await,
            (OIDC_CALLBACK, &Method::GET) => oidc::finish(&self.console, server, &request).await,
            (SESSION, &Method::GET) if is_authenticated(&request.user) => {
                Ok(respond::value(200, &self.describe(&request.user)))
            }
            (SESSION, &Method::GET) => Err(Status::unauthorized()),
            (path, &Method::GET | &Method::HEAD) if !path.starts_with(API) => pages::serve(path, headers),
            (path, _) if path.starts_with(API) && !CALLS.contains(&path) => Ok(respond::no_such_page()),
            _ => Err(Status::method_not_served()),
        }
    }
}

/// Issues tickets to authenticated callers, for themselves.
pub struct ConsoleTickets {
    pub console: Arc<WebConsole>,
}

#[async_trait]
impl Extension for ConsoleTickets {
    fn handles(&self, path: &str) -> bool {
        path == TICKETS
    }

    fn judges_callers(&self) -> bool {
        true
    }

    async fn serve(&self, _server: &Arc<Server>, request: ExtensionRequest) -> Result<Response<Body>, Status> {
        request.check_method(&Method::POST, "request a ticket with POST")?;
        let headers = &request.incoming.headers;
        if !is_authenticated(&request.user) {
            return Err(Status::unauthorized());
        }
        // A session must not extend itself.
        if origin::session_cookie(headers).is_some() {
            return Err(forbidden("a session cannot request a ticket"));
        }
        let secret = random_bearer_token().map_err(Status::internal)?;
        let token = bearer_token(headers).map(Secret::new);
        self.console.tickets.issue(&secret, Arc::clone(&request.user), token, Instant::now());
        let answer = json!({
            "path": format!("{CONSOLE_PATH}#ticket={}", secret.expose()),
            "expiresInSeconds": tickets::LIFETIME.as_secs(),
            "built": assets::page().is_some(),
        });
        Ok(respond::value(201, &answer))
    }
}

/// Opens a session in place of the one the browser had, and returns its cookie.
pub(crate) async fn open_session(
    console: &WebConsole,
    headers: &HeaderMap,
    user: Arc<User>,
    token: Option<Secret>,
) -> Result<String, Status> {
    if let Some(former) = origin::session_cookie(headers) {
        console.sessions.close(former).await;
    }
    let id = random_bearer_token().map_err(Status::internal)?;
    tracing::info!(user = user.name, "signed in to the console");
    console.sessions.open(&id, user, token, Timestamp::now()).await;
    Ok(format!("{}={}; {COOKIE_ATTRIBUTES}", origin::cookie_name(headers), id.expose()))
}

const COOKIE_ATTRIBUTES: &str = "Path=/; Secure; HttpOnly; SameSite=Strict";

/// The ticket in an `Authorization: Ticket` header.
fn ticket(headers: &HeaderMap) -> Option<&str> {
    let (scheme, ticket) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("ticket").then_some(ticket.trim())
}

fn is_authenticated(user: &User) -> bool {
    user.groups.iter().any(|group| group == AUTHENTICATED_GROUP)
}

fn forbidden(reason: &str) -> Status {
    Status::new(403, "Forbidden", reason)
}

fn with_cookie(mut response: Response<Body>, cookie: &str) -> Result<Response<Body>, Status> {
    let value = HeaderValue::from_str(cookie).map_err(Status::internal)?;
    response.headers_mut().insert(header::SET_COOKIE, value);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
