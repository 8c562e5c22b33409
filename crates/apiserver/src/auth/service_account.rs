//! ServiceAccount tokens: signed and verified here, valid only while the account and the bound object exist.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use jiff::Timestamp;
use object::request::User;
use object::request::user::{service_account_groups, service_account_user, split_service_account};
use object::{Object, Status};
use pki::jwt::Algorithm;
use pki::jwt::jwks::VerificationKey;
use pki::jwt::signer::JwtSigner;
use pki::jwt::verifier::{JwtError, JwtVerifier, TimeRules};
use pki::token::constant_time_eq;
use serde_json::{Map, Value};

use super::token::TokenUser;
use super::{CREDENTIAL_ID, find_core};
use crate::resources::Resources;

/// The issuer of tokens in secrets of type `kubernetes.io/service-account-token`.
pub const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";
/// Tolerated clock skew, and the time for which a deleted object is still accepted.
const LEEWAY: Duration = Duration::from_secs(60);
const INVALID_SINCE_LABEL: &str = "kubernetes.io/legacy-token-invalid-since";

pub struct ServiceAccountConfig {
    /// `iss` of the tokens made here.
    pub issuer: String,
    /// Other issuers whose tokens are accepted: names this server had before.
    pub former_issuers: Vec<String>,
    pub signer: JwtSigner,
    /// Keys accepted in addition to the signer's own.
    pub keys: Vec<VerificationKey>,
    /// Accepted audiences; the issuer when empty.
    pub audiences: Vec<String>,
    /// Requires that the secret of a legacy token still holds it.
    pub lookup: bool,
    /// URL of the keys, when it is not under the issuer.
    pub jwks_uri: Option<String>,
}

impl ServiceAccountConfig {
    pub fn new(issuer: &str, signer: JwtSigner) -> Self {
        Self {
            issuer: issuer.to_owned(),
            former_issuers: Vec::new(),
            signer,
            keys: Vec::new(),
            audiences: Vec::new(),
            lookup: true,
            jwks_uri: None,
        }
    }
}

pub struct ServiceAccounts {
    config: ServiceAccountConfig,
    keys: Vec<VerificationKey>,
    verifier: JwtVerifier,
}

impl ServiceAccounts {
    pub fn new(mut config: ServiceAccountConfig) -> Self {
        if config.audiences.is_empty() {
            config.audiences = vec![config.issuer.clone()];
        }
        let mut keys = vec![VerificationKey::new(config.signer.public_key().clone())];
        keys.extend(config.keys.iter().filter(|key| **key != keys[0]).cloned().collect::<Vec<_>>());
        // Legacy tokens have no expiry; that bound ones have is checked with their claims.
        let times = TimeRules { leeway: LEEWAY, requires_expiry: false };
        let verifier = JwtVerifier::new(keys.clone(), Algorithm::SERVICE_ACCOUNT, times);
        Self { config, keys, verifier }
    }

    pub fn issuer(&self) -> &str {
        &self.config.issuer
    }

    /// The audiences of tokens for this server.
    pub fn audiences(&self) -> &[String] {
        &self.config.audiences
    }

    pub fn signer(&self) -> &JwtSigner {
        &self.config.signer
    }

    pub fn keys(&self) -> &[VerificationKey] {
        &self.keys
    }

    pub fn jwks_uri(&self) -> String {
        let default = || format!("{}/openid/v1/jwks", self.config.issuer.trim_end_matches('/'));
        self.config.jwks_uri.clone().unwrap_or_else(default)
    }

    pub fn issued_by(&self, issuer: &str) -> bool {
        issuer == self.config.issuer
            || issuer == LEGACY_ISSUER
            || self.config.former_issuers.iter().any(|i| i == issuer)
    }

    pub async fn review(&self, resources: Resources<'_>, token: &str, wanted: &[String]) -> Result<TokenUser, String> {
        let claims = self.verifier.verify(token, Timestamp::now()).map_err(describe)?.claims;
        let audiences = self.audiences_met(&claims, wanted)?;
        let user = match claims.get("iss").and_then(Value::as_str) {
            Some(LEGACY_ISSUER) => self.legacy_user(resources, token, &claims).await?,
            _ => bound_user(resources, &claims).await?,
        };
        Ok(TokenUser { user, audiences })
    }

    fn audiences_met(&self, claims: &Map<String, Value>, wanted: &[String]) -> Result<Vec<String>, String> {
        let stated: Vec<String> = match claims.get("aud") {
            Some(Value::String(one)) => vec![one.clone()],
            Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        let stated = if stated.is_empty() { self.config.audiences.clone() } else { stated };
        let met: Vec<String> = stated.iter().filter(|audience| wanted.contains(audience)).cloned().collect();
        if met.is_empty() {
            let quote = access::rule::quote_list;
            let (stated, wanted) = (quote(&stated), quote(wanted));
            return Err(format!("token audiences {stated} is invalid for the target audiences {wanted}"));
        }
        Ok(met)
    }

    /// A token from a secret is valid while the secret holds it.
    async fn legacy_user(
        &self,
        resources: Resources<'_>,
        token: &str,
        claims: &Map<String, Value>,
    ) -> Result<User, String> {
        let claim = |name: &str| {
            let value = claims.get(&format!("kubernetes.io/serviceaccount/{name}")).and_then(Value::as_str);
            value.filter(|value| !value.is_empty()).ok_or_else(|| format!("{name} claim is missing"))
        };
        let (namespace, secret_name) = (claim("namespace")?, claim("secret.name")?);
        let (name, uid) = (claim("service-account.name")?, claim("service-account.uid")?);
        let subject = claims.get("sub").and_then(Value::as_str).unwrap_or_default();
        if split_service_account(subject) != Some((namespace, name)) {
            return Err("sub claim is invalid".to_owned());
        }
        if self.config.lookup {
            let secret = find(resources, "secrets", namespace, secret_name).await?;
            let secret = secret.filter(|s| !s.is_deleting()).ok_or("Token has been invalidated")?;
            if !constant_time_eq(&secret_data(&secret, "token"), token.as_bytes()) {
                return Err("Token does not match server's copy".to_owned());
            }
            let account = find(resources, "serviceaccounts", namespace, name).await?;
            let account = account.ok_or_else(|| format!("serviceaccounts {name:?} not found"))?;
            if account.is_deleting() {
                return Err(format!("ServiceAccount {namespace}/{name} has been deleted"));
            }
            if account.uid() != uid {
                return Err(format!("ServiceAccount UID ({}) does not match claim ({uid})", account.uid()));
            }
            if secret.label(INVALID_SINCE_LABEL).is_some_and(|since| !since.is_empty()) {
                return Err(format!("the token in secret {namespace}/{secret_name} has been marked invalid"));
            }
        }
        Ok(user(namespace, name, uid, BTreeMap::new()))
    }
}

/// The claim of a token about a bound object.
struct Reference<'a> {
    name: &'a str,
    uid: &'a str,
}

impl<'a> Reference<'a> {
    fn read(value: Option<&'a Value>) -> Option<Self> {
        let value = value?;
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
        Some(Self { name: text("name"), uid: text("uid") })
    }
}

async fn bound_user(resources: Resources<'_>, claims: &Map<String, Value>) -> Result<User, String> {
    if !claims.contains_key("exp") {
        return Err("exp claim is missing".to_owned());
    }
    let private = claims.get("kubernetes.io").ok_or("kubernetes.io claim is missing")?;
    let namespace = private["namespace"].as_str().unwrap_or_default();
    let account = Reference::read(private.get("serviceaccount")).ok_or("service account claim is missing")?;
    check_account(resources, namespace, &account).await?;
    let (pod, node) = (Reference::read(private.get("pod")), Reference::read(private.get("node")));
    if let Some(secret) = Reference::read(private.get("secret")) {
        check_bound(resources, "secret", namespace, &secret).await?;
    }
    let mut extra = BTreeMap::new();
    let mut put = |key: &str, value: &str| {
        if !value.is_empty() {
            extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value.to_owned()]);
        }
    };
    match (&pod, &node) {
        (Some(pod), _) => check_bound(resources, "pod", namespace, pod).await?,
        (None, Some(node)) => check_bound(resources, "node", "", node).await?,
        (None, None) => {}
    }
    // The node of a pod-bound token is information: it is the pod that must exist.
    for (kind, reference) in [("pod", &pod), ("node", &node)] {
        if let Some(reference) = reference {
            put(&format!("{kind}-name"), reference.name);
            put(&format!("{kind}-uid"), reference.uid);
        }
    }
    if let Some(id) = claims.get("jti").and_then(Value::as_str).filter(|id| !id.is_empty()) {
        extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("JTI={id}")]);
    }
    Ok(user(namespace, account.name, account.uid, extra))
}

async fn check_account(resources: Resources<'_>, namespace: &str, claimed: &Reference<'_>) -> Result<(), String> {
    let account = find(resources, "serviceaccounts", namespace, claimed.name).await?;
    let account = account.ok_or_else(|| format!("serviceaccounts {:?} not found", claimed.name))?;
    if account.uid() != claimed.uid {
        return Err(format!("service account UID ({}) does not match claim ({})", account.uid(), claimed.uid));
    }
    if deleted_for_long(&account) {
        return Err(format!("service account {namespace}/{} has been deleted", claimed.name));
    }
    Ok(())
}

async fn check_bound(
    resources: Resources<'_>,
    kind: &str,
    namespace: &str,
    claimed: &Reference<'_>,
) -> Result<(), String> {
    let found = find(resources, &format!("{kind}s"), namespace, claimed.name).await?;
    let found = found.filter(|object| object.uid() != claimed.uid || !deleted_for_long(object));
    let found = found.ok_or("service account token has been invalidated")?;
    if found.uid() != claimed.uid {
        let (is, was) = (found.uid(), claimed.uid);
        return Err(format!("{kind} UID ({is}) does not match service account {kind} ref claim ({was})"));
    }
    Ok(())
}

/// The tokens of an object that is being deleted stay valid for a short time, so that it can finish.
fn deleted_for_long(object: &Object) -> bool {
    let Some(at) = object.deletion_timestamp() else { return false };
    match at.parse::<Timestamp>() {
        Ok(at) => at.as_second() < Timestamp::now().as_second() - LEEWAY.as_secs() as i64,
        Err(_) => true,
    }
}

async fn find(resources: Resources<'_>, plural: &str, namespace: &str, name: &str) -> Result<Option<Object>, String> {
    find_core(resources, plural, namespace, name).await.map_err(|status: Status| status.message)
}

fn user(namespace: &str, name: &str, uid: &str, extra: BTreeMap<String, Vec<String>>) -> User {
    let groups = service_account_groups(namespace);
    User { name: service_account_user(namespace, name), uid: uid.to_owned(), groups, extra }
}

/// A value of a secret's data, decoded; empty when it is not there or not readable.
pub fn secret_data(secret: &Object, key: &str) -> Vec<u8> {
    base64::engine::general_purpose::STANDARD.decode(secret.str_at(&["data", key])).unwrap_or_default()
}

fn describe(error: JwtError) -> String {
    match error {
        JwtError::Expired(_) => "service account token has expired".to_owned(),
        JwtError::NotYetValid(_) => "service account token is not valid yet".to_owned(),
        JwtError::IssuedInFuture(_) => "service account token is issued in the future".to_owned(),
        JwtError::UnknownKey => "invalid signature, no keys found".to_owned(),
        other => other.to_string(),
    }
}
