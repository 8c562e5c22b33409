//! Bearer tokens: finds the authenticator of a token and caches valid ones for a short time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use async_trait::async_trait;
use http::{HeaderMap, header};
use object::request::User;
use parking_lot::Mutex;
use pki::jwt::verifier::peek_issuer;
use pki::token::{BootstrapToken, Secret};

use super::certificate::sha256;
use super::oidc::{Oidc, OidcConfig};
use super::service_account::{ServiceAccountConfig, ServiceAccounts};
use super::webhook::TokenWebhook;
use super::{bootstrap_token, with_authenticated_group};
use crate::resources::Resources;

/// Time for which a valid token is cached, as in kube-apiserver.
const REMEMBERED_FOR: Duration = Duration::from_secs(10);
/// Maximum number of cached tokens; beyond it the cache is cleared.
const REMEMBERED_MAX: usize = 10_000;

/// The user a token stands for and which of the audiences asked for it is meant for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenUser {
    pub user: User,
    pub audiences: Vec<String>,
}

/// Authenticates tokens that it issued itself. It is asked for every request, so that a revoked token fails at once.
#[async_trait]
pub trait TokenAuthenticator: Send + Sync {
    /// Returns true for tokens of its form.
    fn recognizes(&self, token: &str) -> bool;

    /// `path` is the path of the request, for tokens that are valid below one path only; empty in a TokenReview.
    async fn user(&self, token: &str, path: &str) -> Result<User, String>;
}

pub struct Tokens {
    pub service_accounts: ServiceAccounts,
    issued: Option<Arc<dyn TokenAuthenticator>>,
    /// The issuer of the flags, at which browsers can sign in.
    pub sign_in_issuer: Option<Oidc>,
    /// The issuers of the configuration file.
    issuers: ArcSwap<Vec<Arc<Oidc>>>,
    fixed: Vec<(Secret, User)>,
    webhook: Option<TokenWebhook>,
    /// By SHA-256 of the token, so that a memory dump holds no token that is not on its way through.
    good: Mutex<HashMap<[u8; 32], Good>>,
}

/// A token that was checked.
struct Good {
    user: Arc<User>,
    since: Instant,
}

impl Tokens {
    pub fn new(
        service_accounts: ServiceAccountConfig,
        oidc: Option<OidcConfig>,
        static_tokens: Vec<(Secret, User)>,
        issued: Option<Arc<dyn TokenAuthenticator>>,
        webhook: Option<TokenWebhook>,
    ) -> Self {
        Self {
            service_accounts: ServiceAccounts::new(service_accounts),
            sign_in_issuer: oidc.map(Oidc::new),
            issuers: ArcSwap::default(),
            fixed: static_tokens,
            issued,
            webhook,
            good: Mutex::default(),
        }
    }

    /// Trusts these issuers, and those before no longer.
    pub fn replace_issuers(&self, issuers: Vec<OidcConfig>) {
        self.issuers.store(Arc::new(issuers.into_iter().map(|config| Arc::new(Oidc::new(config))).collect()));
        self.good.lock().clear();
    }

    /// The user of a request with `token`.
    pub async fn caller(&self, resources: Resources<'_>, token: &str, path: &str) -> Result<Arc<User>, String> {
        if let Some(issued) = self.issued.as_ref().filter(|issued| issued.recognizes(token)) {
            return issued.user(token, path).await.map(|user| Arc::new(with_authenticated_group(user)));
        }
        let key = sha256(token.as_bytes());
        if let Some(good) = self.good.lock().get(&key)
            && good.since.elapsed() < REMEMBERED_FOR
        {
            return Ok(good.user.clone());
        }
        let found = self.review(resources, token, &[]).await?.ok_or("invalid bearer token")?;
        let user = Arc::new(found.user);
        let mut good = self.good.lock();
        if good.len() >= REMEMBERED_MAX {
            good.clear();
        }
        good.insert(key, Good { user: user.clone(), since: Instant::now() });
        Ok(user)
    }

    /// `None` when no authenticator knows the token; the error explains why a known kind of token is invalid.
    pub async fn review(
        &self,
        resources: Resources<'_>,
        token: &str,
        audiences: &[String],
    ) -> Result<Option<TokenUser>, String> {
        let audiences = if audiences.is_empty() { self.service_accounts.audiences() } else { audiences };
        if let Some(issued) = self.issued.as_ref().filter(|issued| issued.recognizes(token)) {
            return Ok(self.for_any_audience(issued.user(token, "").await?, audiences));
        }
        // Every entry is compared, so that the time taken does not reveal the closest one.
        let keep_last =
            |found, (secret, user): &'_ (Secret, User)| if secret.matches(token) { Some(user.clone()) } else { found };
        if let Some(user) = self.fixed.iter().fold(None, keep_last) {
            return Ok(self.for_any_audience(user, audiences));
        }
        if let Some(bootstrap) = BootstrapToken::parse(token) {
            let user = bootstrap_token::user(resources, &bootstrap).await?;
            return Ok(user.and_then(|user| self.for_any_audience(user, audiences)));
        }
        let Some(issuer) = peek_issuer(token) else { return self.ask_webhook(token, audiences).await };
        if self.service_accounts.issued_by(&issuer) {
            let mut found = self.service_accounts.review(resources, token, audiences).await?;
            found.user = with_authenticated_group(found.user);
            return Ok(Some(found));
        }
        let configured = self.issuers.load_full();
        let mut known = self.sign_in_issuer.iter().chain(configured.iter().map(|oidc| &**oidc));
        match known.find(|oidc| oidc.issued_by(&issuer)) {
            Some(oidc) => {
                let user = oidc.user(token).await.map_err(|error| format!("oidc: {error}"))?;
                Ok(self.for_any_audience(user, audiences))
            }
            None => self.ask_webhook(token, audiences).await,
        }
    }

    /// Last, so that tokens of this server are not sent elsewhere.
    async fn ask_webhook(&self, token: &str, audiences: &[String]) -> Result<Option<TokenUser>, String> {
        let Some(webhook) = &self.webhook else { return Ok(None) };
        let found = webhook.user(token, audiences).await?;
        Ok(found.map(|found| TokenUser { user: with_authenticated_group(found.user), ..found }))
    }

    /// Tokens that name no audience of ours are meant for this server, and so count only where it is asked for.
    fn for_any_audience(&self, user: User, wanted: &[String]) -> Option<TokenUser> {
        let own = self.service_accounts.audiences();
        let audiences: Vec<String> = own.iter().filter(|audience| wanted.contains(audience)).cloned().collect();
        (!audiences.is_empty()).then(|| TokenUser { user: with_authenticated_group(user), audiences })
    }
}

/// The token of an `Authorization: Bearer` header; other schemes are ignored.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, token) = value.split_once(' ')?;
    let token = token.split(' ').next().unwrap_or_default();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
