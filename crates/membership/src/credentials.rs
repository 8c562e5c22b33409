//! Credentials of the control plane in a member: service accounts, their permissions and their tokens.

use std::time::Duration;

use api::Resource;
use api::cluster::LABEL_SYSTEM;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::{ClusterClient, Patch, ResourceRef, WriteOptions};
use object::request::Subresource;
use object::{Object, Status};
use serde_json::{Value, json};
use tokio::time::Instant;

pub const NAMESPACES: Resource = Resource::cluster("", "v1", "Namespace", "namespaces");
pub const SECRETS: Resource = Resource::namespaced("", "v1", "Secret", "secrets");
pub const SERVICE_ACCOUNTS: Resource = Resource::namespaced("", "v1", "ServiceAccount", "serviceaccounts");
pub const CLUSTER_ROLES: Resource = Resource::cluster("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles");
pub const CLUSTER_ROLE_BINDINGS: Resource =
    Resource::cluster("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings");

/// Timeout for the cluster's token controller to populate a token secret.
pub const TOKEN_TIMEOUT: Duration = Duration::from_secs(8);
const TOKEN_POLL: Duration = Duration::from_millis(200);
/// Requested when no controller populates token secrets: ten years; the cluster may grant less.
const TOKEN_SECONDS: i64 = 10 * 365 * 24 * 3600;

/// A token, and the CA that came with it.
pub struct Token {
    pub text: String,
    /// PEM.
    pub authority: Option<Vec<u8>>,
    /// Expiry time, set when the cluster does not issue long-lived tokens.
    pub expires: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    #[error("cannot create {kind} {name}: {status}")]
    Create { kind: &'static str, name: String, status: Status },
    #[error("{0}")]
    Api(#[from] Status),
    #[error("{key} of secret {secret} is not valid")]
    Unreadable { secret: String, key: &'static str },
    #[error(
        "the token secret {secret} was not populated within {TOKEN_TIMEOUT:?} (is the cluster's kube-controller-manager \
         running?), and requesting a token failed: {status}"
    )]
    NoToken { secret: String, status: Status },
}

/// Returns the name of the service account the control plane uses in a member.
pub fn service_account_of(cluster: &str) -> String {
    format!("karmada-{cluster}")
}

/// Returns the name of the ClusterRole of such an account.
pub fn role_of(service_account: &str) -> String {
    format!("karmada-controller-manager:{service_account}")
}

/// Returns the token of an account with full access to the cluster.
pub async fn cluster_token(client: &ClusterClient, namespace: &str, cluster: &str) -> Result<Token, CredentialError> {
    let account = service_account_of(cluster);
    let role = role_of(&account);
    ensure(client, &SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.object(namespace, &account)).await?;
    ensure(client, &CLUSTER_ROLES, full_access(&role)).await?;
    ensure(client, &CLUSTER_ROLE_BINDINGS, binding(&role, namespace, &account)).await?;
    token_of(client, namespace, &account).await
}

/// Returns the token of the account that impersonates users of the control plane. Its permissions are set later.
pub async fn impersonator_token(client: &ClusterClient, namespace: &str) -> Result<Token, CredentialError> {
    let account = service_account_of("impersonator");
    ensure(client, &SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.object(namespace, &account)).await?;
    token_of(client, namespace, &account).await
}

/// Creates the namespace unless it exists: an administrator may have created it for a user with fewer permissions.
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

/// Creates an object of the control plane. If it exists, from an earlier join for example, only its rules and
/// subjects are updated.
pub async fn ensure(client: &ClusterClient, resource: &Resource, mut object: Object) -> Result<(), CredentialError> {
    object.set_label(LABEL_SYSTEM, "true");
    let (name, needed) = (object.name().to_owned(), object.clone());
    let target = match object.namespace() {
        "" => ResourceRef::all(&resource.gvr()),
        namespace => ResourceRef::within(&resource.gvr(), namespace),
    };
    match client.create(target, object, WriteOptions::default()).await {
        Ok(_) => Ok(()),
        Err(status) if status.is_already_exists() => update_permissions(client, resource, &needed)
            .await
            .map_err(|status| CredentialError::Create { kind: resource.kind, name, status }),
        Err(status) => Err(CredentialError::Create { kind: resource.kind, name, status }),
    }
}

/// Updates the rules of a role and the subjects of a binding.
async fn update_permissions(client: &ClusterClient, resource: &Resource, needed: &Object) -> Result<(), Status> {
    let permissions = ["rules", "subjects"].into_iter().find_map(|field| Some((field, needed.get(&[field])?)));
    let Some((field, value)) = permissions else { return Ok(()) };
    let target = ResourceRef::cluster(&resource.gvr(), needed.name());
    if client.get(target.clone()).await?.get(&[field]) == Some(value) {
        return Ok(());
    }
    client.patch(target, Patch::merge(json!({field: value})), WriteOptions::default()).await.map(drop)
}

/// Returns a token without expiry from the secret the cluster's token controller populates, or, without such a
/// controller, a requested token that expires.
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
    let deadline = Instant::now() + TOKEN_TIMEOUT;
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

/// Requests a token from the TokenRequest API.
async fn request_token(client: &ClusterClient, namespace: &str, account: &str) -> Result<Token, Status> {
    let target = ResourceRef::namespaced(&SERVICE_ACCOUNTS.gvr(), namespace, account).subresource(Subresource::Token);
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": TOKEN_SECONDS},
    });
    let request = Object::from_value(request).unwrap_or_default();
    let answer = client.create(target, request, WriteOptions::default()).await?;
    let text = answer.str_at(&["status", "token"]).to_owned();
    if text.is_empty() {
        return Err(Status::internal(format!("the token request for {namespace}/{account} returned no token")));
    }
    let expires = answer.str_at(&["status", "expirationTimestamp"]).to_owned();
    Ok(Token { text, authority: None, expires: Some(expires) })
}

/// Refers to an object by name; an empty namespace means a cluster-scoped one.
pub fn target_of(resource: &Resource, namespace: &str, name: &str) -> ResourceRef {
    match namespace {
        "" => ResourceRef::cluster(&resource.gvr(), name),
        namespace => ResourceRef::namespaced(&resource.gvr(), namespace, name),
    }
}

/// Turns "not found" into success, for objects that are being removed.
pub fn ignore_missing<T>(answer: Result<T, Status>) -> Result<(), Status> {
    match answer {
        Err(status) if !status.is_not_found() => Err(status),
        _ => Ok(()),
    }
}
