//! Access tokens of users: issued, listed and revoked here, stored as hashes, checked on every request.

use apiserver::auth::TokenAuthenticator;
use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::{ClusterClient, ListOptions, ResourceRef, WriteOptions};
use http::{HeaderMap, header};
use jiff::Timestamp;
use manager_kinds::{INSTANCE_NAMESPACE, KARMADAS};
use object::builtin;
use object::request::User;
use object::{GroupVersionKind, GroupVersionResource, Object, Status, time};
use pki::token::{constant_time_eq, hash, random_bearer_token, random_lowercase};
use serde_json::{Value, json};
use std::sync::OnceLock;
use std::time::Duration;

use crate::access::Rights;
use crate::bootstrap::CREDENTIAL_NAMESPACE;
use crate::proxy;

const PREFIX: &str = "flm_";
const TYPE: &str = "manager.flotilla.dev/access-token";
const FIELD_MANAGER: &str = "flotilla-manager";
const ID_LENGTH: usize = 12;
/// The longest time a token may be valid for.
pub const VALID_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// A token without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenInfo {
    pub id: String,
    pub user: String,
    /// The only instance it is for; the whole manager when absent.
    pub instance: Option<String>,
    pub issued_at: String,
    pub expires_at: String,
}

/// The scope of a new token.
pub struct TokenRequest<'a> {
    pub user: &'a User,
    /// Path segment and UID of the only instance it is for.
    pub instance: Option<(&'a str, &'a str)>,
    pub valid_for: Duration,
}

impl TokenRequest<'_> {
    /// Refuses times that are too short or too long.
    pub fn check(&self) -> Result<(), Status> {
        if self.valid_for > VALID_MAX || self.valid_for.is_zero() {
            let text = format!("a token is valid for 1 s to {} days", VALID_MAX.as_secs() / 86_400);
            return Err(Status::bad_request(text));
        }
        Ok(())
    }
}

/// Issues and checks tokens. It is created before the server it authenticates for, and gets its client afterwards.
#[derive(Default)]
pub struct AccessTokens {
    deps: OnceLock<(ClusterClient, Rights)>,
}

fn secrets() -> GroupVersionResource {
    builtin::secrets()
}

fn target(id: &str) -> ResourceRef {
    ResourceRef::namespaced(&secrets(), CREDENTIAL_NAMESPACE, &format!("token-{id}"))
}

impl AccessTokens {
    pub fn connect(&self, client: ClusterClient, rights: Rights) {
        assert!(self.deps.set((client, rights)).is_ok(), "tokens are connected once");
    }

    fn deps(&self) -> Result<&(ClusterClient, Rights), Status> {
        self.deps.get().ok_or_else(|| Status::unavailable("the manager is starting"))
    }

    /// Issues a token and returns it with its id. Only its hash is stored.
    pub async fn issue(&self, request: &TokenRequest<'_>) -> Result<(TokenInfo, String), Status> {
        let (client, rights) = self.deps()?;
        request.check()?;
        let id = random_lowercase(ID_LENGTH).map_err(Status::internal)?;
        let secret = random_bearer_token().map_err(Status::internal)?;
        let now = Timestamp::now();
        let expires = time::after(now, i64::try_from(request.valid_for.as_secs()).unwrap_or(i64::MAX));
        let record = json!({
            "user": request.user.name, "uid": request.user.uid, "groups": request.user.groups,
            "userObject": rights.account_uid(&request.user.name),
            "instance": request.instance.map(|(name, _)| name), "instanceUID": request.instance.map(|(_, uid)| uid),
            "issuedAt": time::format_seconds(now), "expiresAt": time::format_seconds(expires),
            "hash": hash(secret.expose()),
        });
        let mut stored =
            Object::new(&GroupVersionKind::new("", "v1", "Secret"), Some(CREDENTIAL_NAMESPACE), &format!("token-{id}"));
        stored.set(&["type"], TYPE);
        stored.set(&["data", "record"], STANDARD.encode(record.to_string()));
        let collection = ResourceRef::within(&secrets(), CREDENTIAL_NAMESPACE);
        client.create(collection, stored, WriteOptions::managed_by(FIELD_MANAGER)).await?;
        Ok((info(&id, &record), format!("{PREFIX}{id}_{}", secret.expose())))
    }

    /// Lists tokens that have not expired.
    pub async fn list(&self) -> Result<Vec<TokenInfo>, Status> {
        let (client, _) = self.deps()?;
        let fields = Some(format!("type={TYPE}"));
        let options = ListOptions { field_selector: fields, ..ListOptions::default() };
        let list = client.list_all(ResourceRef::within(&secrets(), CREDENTIAL_NAMESPACE), options).await?;
        let read = list.items.iter().filter_map(|secret| {
            let id = secret.name().strip_prefix("token-")?;
            Some(info(id, &record_of(secret)?))
        });
        let now = time::format_seconds(Timestamp::now());
        Ok(read.filter(|token| token.expires_at > now).collect())
    }

    /// Revokes a token; the next request with it fails.
    pub async fn revoke(&self, id: &str) -> Result<(), Status> {
        let (client, _) = self.deps()?;
        client.delete(target(id), Default::default()).await.map(drop)
    }

    /// Returns false for a token that was revoked or has expired; requests without one depend on other credentials.
    pub async fn is_valid(&self, token: Option<&str>, path: &str) -> bool {
        match token {
            None => true,
            Some(token) => self.check(token, path).await.is_ok(),
        }
    }

    async fn check(&self, token: &str, path: &str) -> Result<User, String> {
        let (client, rights) = self.deps().map_err(|status| status.to_string())?;
        let body = token.strip_prefix(PREFIX).ok_or("not an access token")?;
        let (id, secret) = body.split_at_checked(ID_LENGTH).ok_or("not an access token")?;
        let secret = secret.strip_prefix('_').ok_or("not an access token")?;
        if !id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) {
            return Err("not an access token".to_owned());
        }
        let found = client.find(target(id)).await.map_err(|status| status.to_string())?;
        let record = found.as_deref().and_then(record_of).ok_or("the token was revoked or never issued")?;
        let text = |field: &str| record[field].as_str().unwrap_or_default();
        if !constant_time_eq(text("hash").as_bytes(), hash(secret).as_bytes()) {
            return Err("the token was revoked or never issued".to_owned());
        }
        if time::parse(text("expiresAt")).is_none_or(|end| end <= Timestamp::now()) {
            return Err("the token has expired".to_owned());
        }
        let user = text("user");
        if rights.is_disabled(user) || record["userObject"].as_str().map(str::to_owned) != rights.account_uid(user) {
            return Err(format!("the user {user} is disabled or was removed"));
        }
        check_instance(&record, path)?;
        if let (Some(name), Some(uid)) = (record["instance"].as_str(), record["instanceUID"].as_str()) {
            let (namespace, name) = name.split_once('~').unwrap_or((INSTANCE_NAMESPACE, name));
            let instance = ResourceRef::namespaced(&KARMADAS.gvr(), namespace, name);
            let instance = client.find(instance).await.map_err(|status| status.to_string())?;
            if instance.is_none_or(|instance| instance.uid() != uid) {
                return Err("the instance of the token was deleted".to_owned());
            }
        }
        let groups = record["groups"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let groups = groups.map(str::to_owned).collect();
        Ok(User { name: user.to_owned(), uid: text("uid").to_owned(), groups, extra: Default::default() })
    }
}

/// Returns the access token of a request, if it has one.
pub fn bearer(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let token = value.strip_prefix("Bearer ").filter(|token| token.starts_with(PREFIX))?;
    Some(token.to_owned())
}

/// Returns the id in an access token.
pub fn id_of(token: &str) -> Option<&str> {
    token.strip_prefix(PREFIX)?.split_at_checked(ID_LENGTH).map(|(id, _)| id)
}

/// A token for one instance is valid below its path only.
fn check_instance(record: &Value, path: &str) -> Result<(), String> {
    let Some(instance) = record["instance"].as_str() else { return Ok(()) };
    let below = path.strip_prefix(proxy::PREFIX).and_then(|rest| rest.strip_prefix(instance));
    match below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
        true => Ok(()),
        false => Err(format!("the token is for the instance {instance} only")),
    }
}

fn record_of(secret: &Object) -> Option<Value> {
    let bytes = STANDARD.decode(secret.str_at(&["data", "record"])).ok()?;
    serde_json::from_slice(&bytes).ok()
}

fn info(id: &str, record: &Value) -> TokenInfo {
    let text = |field: &str| record[field].as_str().unwrap_or_default().to_owned();
    TokenInfo {
        id: id.to_owned(),
        user: text("user"),
        instance: record["instance"].as_str().map(str::to_owned),
        issued_at: text("issuedAt"),
        expires_at: text("expiresAt"),
    }
}

#[async_trait]
impl TokenAuthenticator for AccessTokens {
    fn recognizes(&self, token: &str) -> bool {
        token.starts_with(PREFIX)
    }

    async fn user(&self, token: &str, path: &str) -> Result<User, String> {
        self.check(token, path).await
    }
}
