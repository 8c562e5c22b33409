//! Sign-in of a browser at the OIDC issuer: the authorization code flow with PKCE.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use object::percent;
use object::request::User;
use pki::error::PkiError;
use pki::token::{Secret, random_bearer_token};
use ring::digest::{SHA256, digest};
use serde_json::Value;
use thiserror::Error;
use tokio::sync::{Mutex, Semaphore};

use super::oidc::{FetchError, Oidc, OidcRefused};
use super::with_authenticated_group;

/// Time for which the issuer's endpoints are remembered.
const ENDPOINTS_FOR: Duration = Duration::from_secs(600);
/// Codes exchanged at the same time; callers without credentials can cause these requests.
const EXCHANGES_MAX: usize = 8;

/// Settings for the sign-in of browsers at the issuer.
#[derive(Clone)]
pub struct SignInConfig {
    /// The secret of a confidential client; a public client has none.
    pub client_secret: Option<Secret>,
    pub scopes: Vec<String>,
}

impl Default for SignInConfig {
    fn default() -> Self {
        Self { client_secret: None, scopes: ["openid", "profile", "email"].map(str::to_owned).to_vec() }
    }
}

/// The secrets of one sign-in. The browser that began it keeps them in a cookie, so that any replica can finish it.
pub struct SignInAttempt {
    pub state: Secret,
    nonce: Secret,
    verifier: Secret,
}

#[derive(Debug, Error)]
pub enum SignInError {
    #[error("the issuer cannot be reached: {0}")]
    Fetch(#[from] FetchError),
    #[error("the issuer's answer has no {0}")]
    Missing(&'static str),
    #[error("the issuer refused the code: {0}")]
    Code(FetchError),
    #[error("{0}")]
    Token(#[from] OidcRefused),
    #[error("the token belongs to another sign-in")]
    Nonce,
    #[error("too many sign-ins at the same time; try again")]
    Busy,
}

/// State of the sign-ins at one issuer.
pub struct SignIns {
    pub config: SignInConfig,
    endpoints: Mutex<Option<(Instant, Endpoints)>>,
    exchanges: Semaphore,
}

#[derive(Clone)]
struct Endpoints {
    authorization: String,
    token: String,
}

impl SignInAttempt {
    pub fn begin() -> Result<Self, PkiError> {
        Ok(Self { state: random_bearer_token()?, nonce: random_bearer_token()?, verifier: random_bearer_token()? })
    }

    /// The value of the cookie. Its parts are URL-safe base64, which has no dot.
    pub fn to_cookie(&self) -> String {
        [&self.state, &self.nonce, &self.verifier].map(Secret::expose).join(".")
    }

    pub fn from_cookie(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split('.').collect();
        let [state, nonce, verifier] = parts[..] else { return None };
        let is_valid = |part: &str| part.len() == 43 && part.bytes().all(is_url_safe);
        let all = [state, nonce, verifier].into_iter().all(is_valid);
        all.then(|| Self { state: Secret::new(state), nonce: Secret::new(nonce), verifier: Secret::new(verifier) })
    }

    fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(digest(&SHA256, self.verifier.expose().as_bytes()))
    }
}

fn is_url_safe(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

impl SignIns {
    pub fn new(config: SignInConfig) -> Self {
        Self { config, endpoints: Mutex::new(None), exchanges: Semaphore::new(EXCHANGES_MAX) }
    }
}

impl Oidc {
    /// The address at the issuer where the user signs in and that leads back to `redirect`.
    pub async fn sign_in_address(&self, attempt: &SignInAttempt, redirect: &str) -> Result<String, SignInError> {
        let endpoint = self.endpoints().await?.authorization;
        let parameters = form(&[
            ("response_type", "code"),
            ("client_id", self.client_id()),
            ("redirect_uri", redirect),
            ("scope", &self.sign_ins.config.scopes.join(" ")),
            ("state", attempt.state.expose()),
            ("nonce", attempt.nonce.expose()),
            ("code_challenge", &attempt.challenge()),
            ("code_challenge_method", "S256"),
        ]);
        let separator = if endpoint.contains('?') { '&' } else { '?' };
        Ok(format!("{endpoint}{separator}{parameters}"))
    }

    /// Exchanges the code for a token and returns it with its user.
    pub async fn finish_sign_in(
        &self,
        attempt: &SignInAttempt,
        code: &str,
        redirect: &str,
    ) -> Result<(User, Secret), SignInError> {
        let _slot = self.sign_ins.exchanges.try_acquire().map_err(|_| SignInError::Busy)?;
        let endpoint = self.endpoints().await?.token;
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect),
            ("code_verifier", attempt.verifier.expose()),
        ];
        let authorization = self.sign_ins.config.client_secret.as_ref().map(|secret| {
            let pair = format!("{}:{}", percent::encode(self.client_id()), percent::encode(secret.expose()));
            Secret::new(format!("Basic {}", STANDARD.encode(pair)))
        });
        if authorization.is_none() {
            fields.push(("client_id", self.client_id()));
        }
        let answer = self.post(&endpoint, form(&fields), authorization).await.map_err(SignInError::Code)?;
        let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
        let token = answer["id_token"].as_str().ok_or(SignInError::Missing("id_token"))?;
        let (user, claims) = self.user_and_claims(token).await?;
        let is_ours = claims.get("nonce").and_then(Value::as_str).is_some_and(|nonce| attempt.nonce.matches(nonce));
        if !is_ours {
            return Err(SignInError::Nonce);
        }
        Ok((with_authenticated_group(user), Secret::new(token)))
    }

    /// Locked during a fetch, so that waiting sign-ins share it.
    async fn endpoints(&self) -> Result<Endpoints, SignInError> {
        let mut known = self.sign_ins.endpoints.lock().await;
        if let Some((since, endpoints)) = &*known
            && since.elapsed() < ENDPOINTS_FOR
        {
            return Ok(endpoints.clone());
        }
        let document = self.discover().await?;
        let read =
            |field: &'static str| document.url(field).map(str::to_owned).map_err(|_| SignInError::Missing(field));
        let endpoints = Endpoints { authorization: read("authorization_endpoint")?, token: read("token_endpoint")? };
        *known = Some((Instant::now(), endpoints.clone()));
        Ok(endpoints)
    }
}

/// Encodes fields as `application/x-www-form-urlencoded`.
fn form(fields: &[(&str, &str)]) -> String {
    let pairs = fields.iter().map(|(key, value)| format!("{key}={}", percent::encode(value)));
    pairs.collect::<Vec<String>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_survives_its_cookie_and_nothing_else_is_one() {
        let attempt = SignInAttempt::begin().expect("random");
        let read = SignInAttempt::from_cookie(&attempt.to_cookie()).expect("an attempt");
        assert_eq!(read.to_cookie(), attempt.to_cookie());
        let part = "a".repeat(43);
        for text in ["", "..", "a.b.c", &format!("{part}.{part}"), &format!("{part}.{part}.{}", "é".repeat(43))] {
            assert!(SignInAttempt::from_cookie(text).is_none(), "{text}");
        }
    }

    /// The example of RFC 7636, appendix B.
    #[test]
    fn the_challenge_is_the_hash_of_the_verifier() {
        let verifier = Secret::new("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        let attempt = SignInAttempt { state: Secret::new(""), nonce: Secret::new(""), verifier };
        assert_eq!(attempt.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }
}
