//! What a control plane needs to be let into a member: service accounts there, their rights and their tokens.

use std::time::Duration;

use api::Resource;
use api::cluster::LABEL_SYSTEM;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::{ClusterClient, Patch, ResourceRef, WriteOptions};
use object::{Object, Status};
use serde_json::{Value, json};
use tokio::time::Instant;

pub const NAMESPACES: Resource = Resource::cluster("", "v1", "Namespace", "namespaces");
pub const SECRETS: Resource = Resource::namespaced("", "v1", "Secret", "secrets");
pub const SERVICE_ACCOUNTS: Resource = Resource::namespaced("", "v1", "ServiceAccount", "serviceaccounts");
pub const CLUSTER_ROLES: Resource = Resource::cluster("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles");
pub const CLUSTER_ROLE_BINDINGS: Resource =
    Resource::cluster("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings");

/// How long a token controller in the cluster gets to fill a token secret.
pub const TOKEN_PATIENCE: Duration = Duration::from_secs(8);
const TOKEN_POLL: Duration = Duration::from_millis(200);
/// Asked for where nobody fills token secrets: ten years; the cluster may grant less.
const TOKEN_SECONDS: i64 = 10 * 365 * 24 * 3600;

/// A token, and the CA that came with it.
pub struct Token {
    pub text: String,
    /// PEM.
    pub authority: Option<Vec<u8>>,
    /// When it ends to be good, where the cluster has nobody who makes tokens that last.
    pub expires: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    #[error("cannot create {kind} {name}: {status}")]
    Create { kind: &'static str, name: String, status: Status },
    #[error("{0}")]
    Api(#[from] Status),
    #[error("{key} of secret {secret} cannot be read")]
    Unreadable { secret: String, key: &'static str },
    #[error(
        "nobody filled the token secret {secret} within {TOKEN_PATIENCE:?} (does the cluster's kube-controller-manager \
         run?), and a token could not be had otherwise: {status}"
    )]
    NoToken { secret: String, status: Status },
}

/// The service account the control plane works in a member as.
pub fn service_account_of(cluster: &str) -> String {
    format!("karmada-{cluster}")
}

/// The rights of such an account.
pub fn role_of(service_account: &str) -> String {
    format!("karmada-controller-manager:{service_account}")
}

/// The token of an account that may do everything in the cluster.
pub async fn cluster_token(client: &ClusterClient, namespace: &str, cluster: &str) -> Result<Token, CredentialError> {
    let account = service_account_of(cluster);
    let role = role_of(&account);
    ensure(client, &SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.object(namespace, &account)).await?;
    ensure(client, &CLUSTER_ROLES, full_access(&role)).await?;
    ensure(client, &CLUSTER_ROLE_BINDINGS, binding(&role, namespace, &account)).await?;
    token_of(client, namespace, &account).await
}

/// The token of an account that may act as those who the control plane says; which these are comes later.
pub async fn impersonator_token(client: &ClusterClient, namespace: &str) -> Result<Token, CredentialError> {
    let account = service_account_of("impersonator");
    ensure(client, &SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.object(namespace, &account)).await?;
    token_of(client, namespace, &account).await
}

/// The namespace may have been made in advance, by someone who may do more than this user.
pub async fn ensure_namespace(client: &ClusterClient, name: &str) -> Result<(), CredentialError> {
    if client.find(ResourceRef::cluster(&NAMESPACES.gvr(), name)).await?.is_some() {
        return Ok(());
    }
    ensure(client, &NAMESPACES, NAMESPACES.object("", name)).await
}

fn full_access(name: &str) -> Object {
    let mut role = CLUSTER_ROLES.object("", name);
    role.set(
        &["rules"],
        json!([
            {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
            {"verbs": ["get"], "nonResourceURLs": ["*"]},
        ]),
    );
    role
}

fn binding(role: &str, namespace: &str, account: &str) -> Object {
    let mut binding = CLUSTER_ROLE_BINDINGS.object("", role);
    binding.set(&["subjects"], json!([{"kind": "ServiceAccount", "name": account, "namespace": namespace}]));
    binding.set(&["roleRef"], json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}));
    binding
}

/// Creates an object of the control plane's own. One that is there, from an earlier join perhaps, keeps all but the
/// rights that are needed now.
pub async fn ensure(client: &ClusterClient, resource: &Resource, mut object: Object) -> Result<(), CredentialError> {
    object.set_label(LABEL_SYSTEM, "true");
    let (name, needed) = (object.name().to_owned(), object.clone());
    let target = match object.namespace() {
        "" => ResourceRef::all(&resource.gvr()),
        namespace => ResourceRef::within(&resource.gvr(), namespace),
    };
    match client.create(target, object, WriteOptions::default()).await {
        Ok(_) => Ok(()),
        Err(status) if status.is_already_exists() => renew_rights(client, resource, &needed)
            .await
            .map_err(|status| CredentialError::Create { kind: resource.kind, name, status }),
        Err(status) => Err(CredentialError::Create { kind: resource.kind, name, status }),
    }
}

/// Puts the rules of a role and the subjects of a binding right.
async fn renew_rights(client: &ClusterClient, resource: &Resource, needed: &Object) -> Result<(), Status> {
    let rights = ["rules", "subjects"].into_iter().find_map(|field| Some((field, needed.get(&[field])?)));
    let Some((field, value)) = rights else { return Ok(()) };
    let target = ResourceRef::cluster(&resource.gvr(), needed.name());
    if client.get(target.clone()).await?.get(&[field]) == Some(value) {
        return Ok(());
    }
    client.patch(target, Patch::merge(json!({field: value})), WriteOptions::default()).await.map(drop)
}

/// A token that does not expire, from the secret the cluster's token controller fills; where there is no such
/// controller, one that expires late.
async fn token_of(client: &ClusterClient, namespace: &str, account: &str) -> Result<Token, CredentialError> {
    let target = ResourceRef::namespaced(&SECRETS.gvr(), namespace, account);
    let mut secret = SECRETS.object(namespace, account);
    secret.set_annotation("kubernetes.io/service-account.name", account);
    secret.set(&["type"], "kubernetes.io/service-account-token");
    match client.create(ResourceRef::within(&SECRETS.gvr(), namespace), secret, WriteOptions::default()).await {
        Ok(_) => {}
        Err(status) if status.is_already_exists() => {}
        Err(status) => return Err(status.into()),
    }
    let deadline = Instant::now() + TOKEN_PATIENCE;
    loop {
        let secret = client.get(target.clone()).await?;
        if let Some(token) = token_in(&secret)? {
            return Ok(token);
        }
        if Instant::now() >= deadline {
            break;
        }
        tokio::time::sleep(TOKEN_POLL).await;
    }
    let requested = request_token(client, namespace, account).await;
    requested.map_err(|status| CredentialError::NoToken { secret: format!("{namespace}/{account}"), status })
}

fn token_in(secret: &Object) -> Result<Option<Token>, CredentialError> {
    let unreadable = |key| CredentialError::Unreadable { secret: secret.name().to_owned(), key };
    let read = |key: &'static str| -> Result<Option<Vec<u8>>, CredentialError> {
        match secret.get(&["data", key]).and_then(Value::as_str).filter(|text| !text.is_empty()) {
            Some(text) => STANDARD.decode(text).map(Some).map_err(|_| unreadable(key)),
            None => Ok(None),
        }
    };
    let Some(token) = read("token")? else { return Ok(None) };
    let text = String::from_utf8(token).map_err(|_| unreadable("token"))?;
    Ok(Some(Token { text, authority: read("ca.crt")?, expires: None }))
}

/// From the TokenRequest API, with the time it expires.
async fn request_token(client: &ClusterClient, namespace: &str, account: &str) -> Result<Token, Status> {
    let target = ResourceRef::namespaced(&SERVICE_ACCOUNTS.gvr(), namespace, account).subresource("token");
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": TOKEN_SECONDS},
    });
    let request = Object::from_value(request).unwrap_or_default();
    let answer = client.create(target, request, WriteOptions::default()).await?;
    let text = answer.str_at(&["status", "token"]).to_owned();
    if text.is_empty() {
        return Err(Status::internal(format!(
            "the token request for {namespace}/{account} was answered without a token"
        )));
    }
    let expires = answer.str_at(&["status", "expirationTimestamp"]).to_owned();
    Ok(Token { text, authority: None, expires: Some(expires) })
}
