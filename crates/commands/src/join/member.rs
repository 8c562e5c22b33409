//! What `join` does in the cluster that joins: a namespace, service accounts, their rights and their tokens.

use std::time::Duration;

use anyhow::{Context, anyhow};
use api::Resource;
use api::cluster::LABEL_SYSTEM;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::{ClusterClient, ResourceRef, WriteOptions};
use object::{Object, Status};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::console::Console;
use crate::join::{Joining, MemberAccess};

pub const NAMESPACES: Resource = Resource::cluster("", "v1", "Namespace", "namespaces");
pub const SECRETS: Resource = Resource::namespaced("", "v1", "Secret", "secrets");
pub const SERVICE_ACCOUNTS: Resource = Resource::namespaced("", "v1", "ServiceAccount", "serviceaccounts");
pub const CLUSTER_ROLES: Resource = Resource::cluster("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles");
pub const CLUSTER_ROLE_BINDINGS: Resource =
    Resource::cluster("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings");

const IMPERSONATOR: &str = "impersonator";
/// How long a token controller in the cluster gets to fill a token secret.
const TOKEN_PATIENCE: Duration = Duration::from_secs(8);
const TOKEN_POLL: Duration = Duration::from_millis(200);
/// Asked for where nobody fills token secrets: ten years; the cluster may grant less.
const TOKEN_SECONDS: i64 = 10 * 365 * 24 * 3600;

/// What the control plane needs to act in the cluster.
pub struct Credentials {
    /// PEM; empty when none is known.
    pub ca_bundle: Vec<u8>,
    pub token: String,
    pub impersonator_token: String,
}

/// A token, and the CA that came with it.
struct Token {
    text: String,
    authority: Option<Vec<u8>>,
}

pub fn service_account_of(cluster: &str) -> String {
    format!("karmada-{cluster}")
}

pub fn role_of(service_account: &str) -> String {
    format!("karmada-controller-manager:{service_account}")
}

/// What tells a cluster from every other: the UID of its kube-system namespace.
pub async fn cluster_id(client: &ClusterClient, endpoint: &str) -> anyhow::Result<String> {
    let namespace = client.get(ResourceRef::cluster(&NAMESPACES.gvr(), "kube-system")).await;
    let namespace = namespace.map_err(|status| match cluster_client::is_unreachable(&status) {
        true => anyhow!("cannot reach the joining cluster at {endpoint}: {status}; check --cluster-kubeconfig"),
        false => anyhow!("cannot read the ID of the joining cluster at {endpoint}: {status}"),
    })?;
    Ok(namespace.uid().to_owned())
}

/// Makes everything the control plane needs in the cluster, keeping what is there already.
pub async fn prepare(console: &Console, joining: &Joining, access: &MemberAccess) -> anyhow::Result<Credentials> {
    let client = &access.client;
    let namespace = joining.namespace.as_str();
    ensure_namespace(client, namespace).await?;
    let impersonator = service_account_of(IMPERSONATOR);
    ensure(client, &SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.object(namespace, &impersonator)).await?;
    let account = service_account_of(&joining.name);
    ensure(client, &SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.object(namespace, &account)).await?;
    ensure(client, &CLUSTER_ROLES, full_access(&role_of(&account))).await?;
    ensure(client, &CLUSTER_ROLE_BINDINGS, binding(&role_of(&account), namespace, &account)).await?;
    let (impersonator, token) = tokio::try_join!(
        token_of(console, client, namespace, &impersonator),
        token_of(console, client, namespace, &account),
    )
    .with_context(|| format!("failed to get serviceAccount secret from cluster({})", joining.name))?;
    let ca_bundle = token.authority.or_else(|| access.authority.clone()).unwrap_or_default();
    Ok(Credentials { ca_bundle, token: token.text, impersonator_token: impersonator.text })
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

/// The namespace may have been made in advance, by someone who may do more than this user.
pub async fn ensure_namespace(client: &ClusterClient, name: &str) -> anyhow::Result<()> {
    if client.find(ResourceRef::cluster(&NAMESPACES.gvr(), name)).await?.is_some() {
        return Ok(());
    }
    ensure(client, &NAMESPACES, NAMESPACES.object("", name)).await
}

/// Creates an object of the control plane's own, unless it is there.
async fn ensure(client: &ClusterClient, resource: &Resource, mut object: Object) -> anyhow::Result<()> {
    object.set_label(LABEL_SYSTEM, "true");
    let described = format!("{} {}", resource.kind, object.name());
    let target = match object.namespace() {
        "" => ResourceRef::all(&resource.gvr()),
        namespace => ResourceRef::within(&resource.gvr(), namespace),
    };
    match client.create(target, object, WriteOptions::default()).await {
        Ok(_) => Ok(()),
        Err(status) if status.is_already_exists() => Ok(()),
        Err(status) => Err(anyhow::Error::from(status).context(format!("cannot create {described}"))),
    }
}

/// A token that does not expire, from the secret the cluster's token controller fills; where there is no such
/// controller, one that expires late.
async fn token_of(console: &Console, client: &ClusterClient, namespace: &str, account: &str) -> anyhow::Result<Token> {
    let target = ResourceRef::namespaced(&SECRETS.gvr(), namespace, account);
    let mut secret = SECRETS.object(namespace, account);
    secret.set_annotation("kubernetes.io/service-account.name", account);
    secret.set(&["type"], "kubernetes.io/service-account-token");
    let created = client.create(ResourceRef::within(&SECRETS.gvr(), namespace), secret, WriteOptions::default()).await;
    match created {
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
    let (token, expires) = request_token(client, namespace, account).await.with_context(|| {
        format!(
            "nobody filled the token secret {namespace}/{account} within {TOKEN_PATIENCE:?} (does the cluster's \
             kube-controller-manager run?), and a token could not be had otherwise"
        )
    })?;
    console.warn(format!(
        "nobody filled the token secret {namespace}/{account} within {TOKEN_PATIENCE:?}, so the control plane uses a \
         token that expires at {expires}; join again before then, or start the cluster's kube-controller-manager"
    ));
    Ok(token)
}

fn token_in(secret: &Object) -> anyhow::Result<Option<Token>> {
    let read = |key: &str| -> anyhow::Result<Option<Vec<u8>>> {
        let Some(text) = secret.get(&["data", key]).and_then(Value::as_str).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        Ok(Some(STANDARD.decode(text).with_context(|| format!("{key} of secret {} is not base64", secret.name()))?))
    };
    let Some(token) = read("token")? else { return Ok(None) };
    let text = String::from_utf8(token).context("a token is not text")?;
    Ok(Some(Token { text, authority: read("ca.crt")? }))
}

/// From the TokenRequest API, with the time it expires.
async fn request_token(client: &ClusterClient, namespace: &str, account: &str) -> Result<(Token, String), Status> {
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
    Ok((Token { text, authority: None }, answer.str_at(&["status", "expirationTimestamp"]).to_owned()))
}
