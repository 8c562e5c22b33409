//! Sign-in at an OIDC issuer: sends the browser there, and opens a session when it comes back with a code.

use std::sync::Arc;

use apiserver::auth::{Oidc, SignInAttempt};
use apiserver::extension::ExtensionRequest;
use apiserver::respond::{self, Body};
use apiserver::server::Server;
use http::{HeaderMap, HeaderValue, Response, header};
use object::Status;

use crate::{CONSOLE_PATH, WebConsole, endpoints, origin};

const CALLBACK: &str = "/console/api/oidc/callback";
/// Time for a sign-in at the issuer.
const ATTEMPT_SECONDS: u32 = 600;
/// The cookie comes back from another site, so that it cannot be `Strict`.
const ATTEMPT_ATTRIBUTES: &str = "Path=/; Secure; HttpOnly; SameSite=Lax";

/// The reason why a sign-in failed. The page has a text for each; details are in the log of the server.
#[derive(Clone, Copy)]
enum Failure {
    /// The browser did not begin this sign-in, or too long ago.
    Expired,
    /// The issuer or the rules for its tokens refused the user.
    Refused,
    Unreachable,
}

impl Failure {
    fn code(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
        }
    }
}

/// Sends the browser to the issuer.
pub async fn begin(server: &Server, headers: &HeaderMap) -> Result<Response<Body>, Status> {
    let issuer = server.oidc().ok_or_else(no_issuer)?;
    let attempt = SignInAttempt::begin().map_err(Status::internal)?;
    match issuer.sign_in_address(&attempt, &callback(headers)).await {
        Ok(address) => {
            let cookie = format!(
                "{}={}; Max-Age={ATTEMPT_SECONDS}; {ATTEMPT_ATTRIBUTES}",
                origin::attempt_cookie_name(headers),
                attempt.to_cookie()
            );
            redirect(&address, &[cookie])
        }
        Err(error) => failed(issuer, headers, Failure::Unreachable, &error.to_string()),
    }
}

/// The browser comes back from the issuer.
pub async fn finish(
    console: &WebConsole,
    server: &Server,
    request: &ExtensionRequest,
) -> Result<Response<Body>, Status> {
    let issuer = server.oidc().ok_or_else(no_issuer)?;
    let (headers, query) = (&request.incoming.headers, &request.incoming.query);
    let attempt = origin::cookie(headers, &origin::attempt_cookie_name(headers)).and_then(SignInAttempt::from_cookie);
    let state = query.get("state").unwrap_or_default();
    let Some(attempt) = attempt.filter(|attempt| attempt.state.matches(state)) else {
        return failed(issuer, headers, Failure::Expired, "the browser has no sign-in with this state");
    };
    let Some(code) = query.get("code").filter(|code| !code.is_empty()) else {
        return failed(issuer, headers, Failure::Refused, query.get("error").unwrap_or("the issuer sent no code"));
    };
    match issuer.finish_sign_in(&attempt, code, &callback(headers)).await {
        Ok((user, token)) => {
            let session = endpoints::open_session(console, headers, Arc::new(user), Some(token)).await?;
            redirect(CONSOLE_PATH, &[session, ended_attempt(headers)])
        }
        Err(error) => failed(issuer, headers, Failure::Refused, &error.to_string()),
    }
}

fn failed(issuer: &Oidc, headers: &HeaderMap, failure: Failure, reason: &str) -> Result<Response<Body>, Status> {
    let reason: String = reason.chars().filter(|one| !one.is_control()).take(300).collect();
    tracing::info!(issuer = issuer.issuer(), reason, "sign-in at the OIDC issuer failed");
    redirect(&format!("{CONSOLE_PATH}#signin={}", failure.code()), &[ended_attempt(headers)])
}

fn no_issuer() -> Status {
    Status::new(404, "NotFound", "the server has no OIDC issuer: start it with --oidc-issuer-url and --oidc-client-id")
}

fn callback(headers: &HeaderMap) -> String {
    format!("https://{}{CALLBACK}", origin::host(headers).unwrap_or_default())
}

fn ended_attempt(headers: &HeaderMap) -> String {
    format!("{}=; Max-Age=0; {ATTEMPT_ATTRIBUTES}", origin::attempt_cookie_name(headers))
}

fn redirect(address: &str, cookies: &[String]) -> Result<Response<Body>, Status> {
    let mut response = respond::text(303, "text/plain; charset=utf-8", "");
    let out = response.headers_mut();
    out.insert(header::LOCATION, HeaderValue::from_str(address).map_err(Status::internal)?);
    out.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    out.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    for cookie in cookies {
        out.append(header::SET_COOKIE, HeaderValue::from_str(cookie).map_err(Status::internal)?);
    }
    Ok(response)
}
