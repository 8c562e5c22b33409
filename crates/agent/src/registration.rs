//! Makes the member known to the control plane: its secrets and its Cluster, once under one name.

use std::sync::Arc;

use api::cluster::{CLUSTERS, ClusterSpec, LABEL_SYSTEM, SECRET_CA_BUNDLE, SECRET_TOKEN, SecretReference, SyncMode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::{ClusterClient, ListOptions, Patch, ResourceRef, WriteOptions};
use object::{Object, Status};
use serde_json::{Value, json};

use crate::credentials::{self, CredentialError, NAMESPACES, SECRETS, Token};

/// Whoever writes for the agent itself.
pub const FIELD_MANAGER: &str = "karmada-agent";

/// What the control plane gets to know of the member.
#[derive(Clone, Debug, Default)]
pub struct Registration {
    pub name: String,
    /// Where the member's secrets are, on both sides.
    pub namespace: String,
    pub report: ReportSecrets,
    /// Where others reach the member, when they can.
    pub api_endpoint: String,
    /// Through which proxy.
    pub proxy: String,
    pub insecure: bool,
    pub provider: String,
    pub region: String,
    pub zones: Vec<String>,
    /// The CA of the member, where the token does not bring one.
    pub authority: Option<Vec<u8>>,
}

/// Which secrets of the member the control plane may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportSecrets {
    pub credentials: bool,
    pub impersonator: bool,
}

impl Default for ReportSecrets {
    fn default() -> Self {
        Self { credentials: true, impersonator: true }
    }
}

impl ReportSecrets {
    /// From the words of `--report-secrets`.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut report = Self { credentials: false, impersonator: false };
        let mut is_none = false;
        for word in words {
            match word {
                "KubeCredentials" => report.credentials = true,
                "KubeImpersonator" => report.impersonator = true,
                "None" => is_none = true,
                other => return Err(format!("{other:?} is none of KubeCredentials, KubeImpersonator and None")),
            }
        }
        match is_none && (report.credentials || report.impersonator) {
            true => Err("None goes with nothing else".to_owned()),
            false => Ok(report),
        }
    }
}

/// The control plane has another cluster of this name or id, so this agent must not act for it.
#[derive(Debug, thiserror::Error)]
#[error("the cluster ID {id} or the cluster name {name} has been registered: {why}")]
pub struct Refused {
    pub id: String,
    pub name: String,
    pub why: String,
}

#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error("the control plane: {0}")]
    Plane(#[source] Status),
    #[error("the member: {0}")]
    Member(#[source] CredentialError),
}

/// Registers the member, or brings what is registered up to date.
pub async fn register(
    plane: &ClusterClient,
    member: &ClusterClient,
    registration: &Registration,
) -> Result<(), RegisterError> {
    let id = member.get(ResourceRef::cluster(&NAMESPACES.gvr(), "kube-system")).await;
    let id = id.map_err(|status| RegisterError::Member(status.into()))?.uid().to_owned();
    let known = known_clusters(plane, &registration.name).await.map_err(RegisterError::Plane)?;
    let current = judge(&known, &id, &registration.name)?;
    let tokens = tokens(member, registration).await.map_err(RegisterError::Member)?;
    write(plane, registration, &id, current, &tokens).await.map_err(RegisterError::Plane)
}

/// All clusters, or where an agent may see but its own, that.
async fn known_clusters(plane: &ClusterClient, name: &str) -> Result<Vec<Arc<Object>>, Status> {
    match plane.list_all(ResourceRef::all(&CLUSTERS.gvr()), ListOptions::default()).await {
        Ok(list) => Ok(list.items),
        Err(status) if status.code == 403 => {
            let own = plane.find(ResourceRef::cluster(&CLUSTERS.gvr(), name)).await?;
            Ok(own.into_iter().collect())
        }
        Err(status) => Err(status),
    }
}

/// The Cluster this member has already, or the reason why it may have none.
fn judge<'a>(known: &'a [Arc<Object>], id: &str, name: &str) -> Result<Option<&'a Arc<Object>>, Refused> {
    let id_of = |cluster: &Object| cluster.str_at(&["spec", "id"]).to_owned();
    let refused = |why: String| Refused { id: id.to_owned(), name: name.to_owned(), why };
    let own = known.iter().find(|cluster| cluster.name() == name);
    if let Some(own) = own {
        return match id_of(own) == id {
            true => Ok(Some(own)),
            false => Err(refused(format!("cluster {name} is another cluster, with the ID {:?}", id_of(own)))),
        };
    }
    match known.iter().find(|cluster| id_of(cluster) == id) {
        Some(other) => Err(refused(format!("this cluster is registered as {}", other.name()))),
        None => Ok(None),
    }
}

#[derive(Default)]
struct Tokens {
    cluster: Option<Token>,
    impersonator: Option<Token>,
}

async fn tokens(member: &ClusterClient, registration: &Registration) -> Result<Tokens, CredentialError> {
    let namespace = registration.namespace.as_str();
    let mut tokens = Tokens::default();
    if registration.report == (ReportSecrets { credentials: false, impersonator: false }) {
        return Ok(tokens);
    }
    credentials::ensure_namespace(member, namespace).await?;
    if registration.report.impersonator {
        tokens.impersonator = Some(credentials::impersonator_token(member, namespace).await?);
    }
    if registration.report.credentials {
        tokens.cluster = Some(credentials::cluster_token(member, namespace, &registration.name).await?);
    }
    for token in [&tokens.impersonator, &tokens.cluster].into_iter().flatten() {
        if let Some(expires) = &token.expires {
            tracing::warn!(expires, "the member makes no tokens that last; it must be registered anew before then");
        }
    }
    Ok(tokens)
}

/// Secrets first, so that whoever sees the Cluster finds its credentials.
async fn write(
    plane: &ClusterClient,
    registration: &Registration,
    id: &str,
    current: Option<&Arc<Object>>,
    tokens: &Tokens,
) -> Result<(), Status> {
    let namespace = registration.namespace.as_str();
    ensure_plane_namespace(plane, namespace).await?;
    let secrets = secrets_of(registration, tokens);
    for (name, data) in &secrets {
        put_secret(plane, namespace, name, data).await?;
    }
    let cluster = match current {
        None => {
            let cluster = cluster_object(None, registration, id)?;
            let options = WriteOptions::managed_by(FIELD_MANAGER);
            plane.create(ResourceRef::all(&CLUSTERS.gvr()), cluster, options).await?
        }
        Some(current) => update_cluster(plane, current, registration, id).await?,
    };
    for (name, _) in &secrets {
        own_secret(plane, namespace, name, &cluster).await?;
    }
    Ok(())
}

async fn update_cluster(
    plane: &ClusterClient,
    current: &Arc<Object>,
    registration: &Registration,
    id: &str,
) -> Result<Arc<Object>, Status> {
    let desired = cluster_object(Some(current), registration, id)?;
    if desired.get(&["spec"]) == current.get(&["spec"]) {
        return Ok(Arc::clone(current));
    }
    let target = ResourceRef::cluster(&CLUSTERS.gvr(), current.name());
    match plane.update(target, desired, WriteOptions::managed_by(FIELD_MANAGER)).await {
        // Karmada's agents may not change their Cluster; what it said before still leads to the member.
        Err(status) if status.code == 403 => {
            tracing::warn!(%status, "the Cluster is not as this agent was told it should be");
            Ok(Arc::clone(current))
        }
        answer => answer,
    }
}

/// An agent may not make namespaces, nor always see them; where it is not there, the secrets say so.
async fn ensure_plane_namespace(plane: &ClusterClient, name: &str) -> Result<(), Status> {
    match plane.find(ResourceRef::cluster(&NAMESPACES.gvr(), name)).await {
        Ok(None) => {}
        Ok(Some(_)) => return Ok(()),
        Err(status) if status.code == 403 => return Ok(()),
        Err(status) => return Err(status),
    }
    let mut namespace = NAMESPACES.object("", name);
    namespace.set_label(LABEL_SYSTEM, "true");
    match plane.create(ResourceRef::all(&NAMESPACES.gvr()), namespace, WriteOptions::default()).await {
        Err(status) if !status.is_already_exists() => Err(status),
        _ => Ok(()),
    }
}

fn secrets_of(registration: &Registration, tokens: &Tokens) -> Vec<(String, Value)> {
    let impersonator = tokens.impersonator.as_ref().map(|token| {
        (format!("{}-impersonator", registration.name), json!({SECRET_TOKEN: STANDARD.encode(&token.text)}))
    });
    let cluster = tokens.cluster.as_ref().map(|token| {
        let authority = token.authority.as_ref().or(registration.authority.as_ref()).cloned().unwrap_or_default();
        let data = json!({SECRET_CA_BUNDLE: STANDARD.encode(authority), SECRET_TOKEN: STANDARD.encode(&token.text)});
        (registration.name.clone(), data)
    });
    impersonator.into_iter().chain(cluster).collect()
}

/// Registering by command leaves an empty secret to fill, and then an agent may make none.
async fn put_secret(plane: &ClusterClient, namespace: &str, name: &str, data: &Value) -> Result<(), Status> {
    let options = WriteOptions::managed_by(FIELD_MANAGER);
    let target = ResourceRef::namespaced(&SECRETS.gvr(), namespace, name);
    match plane.patch(target, Patch::merge(json!({"data": data})), options.clone()).await {
        Err(status) if status.is_not_found() => {}
        answer => return answer.map(drop),
    }
    let mut secret = SECRETS.object(namespace, name);
    secret.set_label(LABEL_SYSTEM, "true");
    secret.set(&["data"], data.clone());
    plane.create(ResourceRef::within(&SECRETS.gvr(), namespace), secret, options).await.map(drop)
}

/// The secret goes when the Cluster goes.
async fn own_secret(plane: &ClusterClient, namespace: &str, name: &str, cluster: &Object) -> Result<(), Status> {
    let patch = Patch::merge(json!({"metadata": {"ownerReferences": [owner(cluster, true)]}}));
    let target = ResourceRef::namespaced(&SECRETS.gvr(), namespace, name);
    plane.patch(target, patch, WriteOptions::managed_by(FIELD_MANAGER)).await.map(drop)
}

/// The Cluster as the owner of something.
pub fn owner(cluster: &Object, is_controller: bool) -> Value {
    let mut owner = json!({
        "apiVersion": CLUSTERS.api_version(), "kind": CLUSTERS.kind, "name": cluster.name(), "uid": cluster.uid(),
    });
    if is_controller {
        owner["controller"] = true.into();
        owner["blockOwnerDeletion"] = true.into();
    }
    owner
}

/// The Cluster as it should be: what the agent says of it, and all else as it is.
pub fn cluster_object(current: Option<&Object>, registration: &Registration, id: &str) -> Result<Object, Status> {
    let mut cluster = current.cloned().unwrap_or_else(|| CLUSTERS.object("", &registration.name));
    let mut spec: ClusterSpec = api::read(&cluster)?;
    let secret = |name: String| Some(SecretReference { namespace: registration.namespace.clone(), name });
    spec.sync_mode = SyncMode::Pull;
    spec.id = id.to_owned();
    spec.api_endpoint = registration.api_endpoint.clone();
    spec.proxy_url = registration.proxy.clone();
    spec.insecure_skip_tls_verification = registration.insecure;
    for (field, said) in [(&mut spec.provider, &registration.provider), (&mut spec.region, &registration.region)] {
        if !said.is_empty() {
            field.clone_from(said);
        }
    }
    if !registration.zones.is_empty() {
        spec.zones.clone_from(&registration.zones);
    }
    if registration.report.credentials {
        spec.secret_ref = secret(registration.name.clone());
    }
    if registration.report.impersonator {
        spec.impersonator_secret_ref = secret(format!("{}-impersonator", registration.name));
    }
    let Value::Object(fields) = serde_json::to_value(spec).map_err(Status::internal)? else {
        return Err(Status::internal("a spec is a map"));
    };
    for (field, value) in fields {
        cluster.set(&["spec", &field], value);
    }
    for (field, is_empty) in [
        ("apiEndpoint", registration.api_endpoint.is_empty()),
        ("proxyURL", registration.proxy.is_empty()),
        ("insecureSkipTLSVerification", !registration.insecure),
    ] {
        if is_empty {
            cluster.remove(&["spec", field]);
        }
    }
    Ok(cluster)
}

#[cfg(test)]
mod tests;
