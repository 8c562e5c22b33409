//! Authentication, impersonation and authorization of every request.

mod anonymous;
mod bootstrap_token;
mod certificate;
mod front_proxy;
mod impersonation;
mod openid;
mod policy;
mod refusal;
mod service_account;
mod token;
pub mod webhook;

pub mod bootstrap;
pub mod escalation;
mod oidc;
mod oidc_sign_in;
pub mod param_access;
pub mod structured;
pub(crate) mod token_request;

use std::sync::Arc;

use access::{AccessDecision, Action};
use arc_swap::ArcSwap;
use async_trait::async_trait;
use http::HeaderMap;
use object::request::User;
use object::request::user::{ANONYMOUS_USER, AUTHENTICATED_GROUP, UNAUTHENTICATED_GROUP};
use object::{GroupResource, Object, Status};
use pki::tls::client_trust::ClientTrust;
use pki::token::Secret;

use crate::http::Peer;
use crate::request::RequestInfo;
use crate::resources::Resources;

pub use anonymous::AnonymousAccess;
pub use front_proxy::FrontProxyConfig;
pub use oidc::{Discovery, Oidc, OidcConfig, TokenRules};
pub use oidc_sign_in::{SignInAttempt, SignInConfig};
pub use policy::LivePolicy;
pub use service_account::ServiceAccountConfig;
use structured::AuthenticationConfig;
pub use token::{TokenAuthenticator, TokenUser, bearer as bearer_token};
use webhook::{AccessWebhook, TokenWebhook};

/// The key in the user's extra that identifies the credential.
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The sources of identity that the server trusts.
pub struct AuthConfig {
    pub client_ca: Arc<ClientTrust>,
    pub front_proxy: Option<FrontProxyConfig>,
    pub service_accounts: ServiceAccountConfig,
    pub oidc: Option<OidcConfig>,
    pub static_tokens: Vec<(Secret, User)>,
    /// Tokens that another component issues and revokes.
    pub issued_tokens: Option<Arc<dyn TokenAuthenticator>>,
    /// Asked for tokens that nothing else here knows.
    pub token_webhook: Option<TokenWebhook>,
    pub authorizers: Vec<Authorizer>,
    pub anonymous: AnonymousAccess,
}

/// One of the authorizers, which are asked in their order. The first that allows or denies decides.
#[derive(Clone)]
pub enum Authorizer {
    Rbac,
    Webhook(Arc<AccessWebhook>),
}

/// Identifies callers by a credential that is neither a certificate nor a bearer token, such as a session cookie.
#[async_trait]
pub trait RequestAuthenticator: Send + Sync {
    /// `None` when the request has no credential of this kind; the error says why it is not valid.
    async fn user(
        &self,
        auth: &Auth,
        resources: Resources<'_>,
        headers: &HeaderMap,
    ) -> Option<Result<Arc<User>, String>>;
}

/// The authenticators and the authorizer of the server.
pub struct Auth {
    certificates: certificate::Certificates,
    front_proxy: Option<front_proxy::FrontProxy>,
    tokens: token::Tokens,
    policy: LivePolicy,
    /// Replaced when their configuration file changes.
    authorizers: ArcSwap<Vec<Authorizer>>,
    /// Replaced when the configuration file changes.
    anonymous: ArcSwap<AnonymousAccess>,
    /// The setting of the flag, for files without one.
    anonymous_default: AnonymousAccess,
    anonymous_user: Arc<User>,
}

impl Auth {
    pub fn new(config: AuthConfig) -> Self {
        Self {
            certificates: certificate::Certificates::new(config.client_ca),
            front_proxy: config.front_proxy.map(front_proxy::FrontProxy::new),
            tokens: token::Tokens::new(
                config.service_accounts,
                config.oidc,
                config.static_tokens,
                config.issued_tokens,
                config.token_webhook,
            ),
            policy: LivePolicy::default(),
            authorizers: ArcSwap::from_pointee(config.authorizers),
            anonymous: ArcSwap::from_pointee(config.anonymous.clone()),
            anonymous_default: config.anonymous,
            anonymous_user: Arc::new(User::anonymous()),
        }
    }

    /// Applies an AuthenticationConfiguration to requests that come from now on.
    pub fn configure(&self, config: AuthenticationConfig) {
        self.tokens.replace_issuers(config.issuers);
        self.anonymous.store(Arc::new(config.anonymous.unwrap_or_else(|| self.anonymous_default.clone())));
    }

    /// Replaces the authorizers for requests that come from now on.
    pub fn replace_authorizers(&self, authorizers: Vec<Authorizer>) {
        self.authorizers.store(Arc::new(authorizers));
    }

    /// The user behind a request; 401 when the credentials given are wrong, or none are and the request needs some.
    pub async fn authenticate(
        &self,
        resources: Resources<'_>,
        authenticators: &[Box<dyn RequestAuthenticator>],
        peer: &Peer,
        headers: &HeaderMap,
        info: &RequestInfo,
    ) -> Result<Arc<User>, Status> {
        let mut refused = false;
        if !peer.certificates.is_empty() {
            let proxied = self.front_proxy.as_ref().and_then(|proxy| proxy.user(&peer.certificates, headers));
            if let Some(user) = proxied {
                return Ok(user);
            }
            match self.certificates.user(&peer.certificates) {
                Ok(user) => return Ok(user),
                Err(error) => {
                    tracing::debug!(%error, peer = %peer.address, "client certificate refused");
                    refused = true;
                }
            }
        }
        if let Some(token) = token::bearer(headers) {
            match self.tokens.caller(resources, token, &info.path).await {
                Ok(user) => return Ok(user),
                Err(reason) => {
                    tracing::debug!(reason, peer = %peer.address, "bearer token refused");
                    refused = true;
                }
            }
        }
        if !refused {
            for authenticator in authenticators {
                match authenticator.user(self, resources, headers).await {
                    Some(Ok(user)) => return Ok(user),
                    Some(Err(reason)) => {
                        tracing::debug!(reason, peer = %peer.address, "credentials refused");
                        refused = true;
                    }
                    None => {}
                }
            }
        }
        match !refused && self.anonymous.load().covers(info) {
            true => Ok(self.anonymous_user.clone()),
            false => Err(Status::unauthorized()),
        }
    }

    /// Returns the user that the request acts as: the caller, or the user in the `Impersonate-*` headers when the
    /// caller may.
    pub async fn impersonated(
        &self,
        resources: Resources<'_>,
        caller: &Arc<User>,
        headers: &HeaderMap,
        info: &RequestInfo,
    ) -> Result<Arc<User>, Status> {
        match impersonation::read(headers)? {
            None => Ok(caller.clone()),
            Some(wanted) => impersonation::assume(self, resources, caller, wanted, info).await.map(Arc::new),
        }
    }

    /// 403 unless the user may do this.
    pub async fn authorize(&self, resources: Resources<'_>, user: &User, info: &RequestInfo) -> Result<(), Status> {
        self.require(resources, user, &refusal::action_of(info)).await
    }

    /// 403 unless the user may do this, for questions that are not the request itself.
    pub async fn require(&self, resources: Resources<'_>, user: &User, action: &Action<'_>) -> Result<(), Status> {
        let decision = self.decide(resources, user, action).await?;
        if decision.allowed { Ok(()) } else { Err(refusal::forbidden(user, action, &decision.reason)) }
    }

    /// The 403 of a request that another authorizer than this server's refused.
    pub fn refusal(user: &User, info: &RequestInfo, reason: &str) -> Status {
        refusal::forbidden(user, &refusal::action_of(info), reason)
    }

    /// Returns the verdict of the current policy, with its reason.
    pub async fn decide(
        &self,
        resources: Resources<'_>,
        user: &User,
        action: &Action<'_>,
    ) -> Result<AccessDecision, Status> {
        if user.is_master() {
            return Ok(AccessDecision::allow(""));
        }
        let mut last = AccessDecision::deny("");
        for authorizer in self.authorizers.load_full().iter() {
            match authorizer {
                Authorizer::Rbac => last = self.policy.decide(resources, user, action).await?,
                Authorizer::Webhook(webhook) => {
                    if let Some(decision) = webhook.opinion(user, action).await.decision() {
                        return Ok(decision);
                    }
                }
            }
            if last.allowed {
                break;
            }
        }
        Ok(last)
    }

    pub fn policy(&self) -> &LivePolicy {
        &self.policy
    }

    /// The user behind a token that is meant for one of `audiences` (this server's own when empty); the error says why not.
    pub async fn review_token(
        &self,
        resources: Resources<'_>,
        token: &str,
        audiences: &[String],
    ) -> Result<Option<TokenUser>, String> {
        self.tokens.review(resources, token, audiences).await
    }

    /// The issuer at which browsers can sign in.
    pub fn oidc(&self) -> Option<&Oidc> {
        self.tokens.sign_in_issuer.as_ref()
    }

    pub fn service_accounts(&self) -> &service_account::ServiceAccounts {
        &self.tokens.service_accounts
    }

    /// The OIDC documents by which others verify this server's tokens.
    pub fn openid(&self, path: &str) -> Result<http::Response<crate::respond::Body>, Status> {
        openid::document(self.service_accounts(), path)
    }
}

/// Adds `system:authenticated` to authenticated users.
fn with_authenticated_group(mut user: User) -> User {
    let settled = user.name == ANONYMOUS_USER
        || user.groups.iter().any(|g| g == AUTHENTICATED_GROUP || g == UNAUTHENTICATED_GROUP);
    if !settled {
        user.groups.push(AUTHENTICATED_GROUP.to_owned());
    }
    user
}

/// A core/v1 object as it is stored now.
async fn find_core(
    resources: Resources<'_>,
    plural: &str,
    namespace: &str,
    name: &str,
) -> Result<Option<Object>, Status> {
    let key = crate::storage::key(&GroupResource::new("", plural), namespace, name);
    Ok(resources.objects.get(&key).await?.map(|current| current.object))
}
