//! Registration of a pull-mode member by its agent: its secrets and its Cluster, once under one name.

use std::sync::Arc;

use api::cluster::{CLUSTERS, ClusterSpec, LABEL_SYSTEM, SECRET_CA_BUNDLE, SECRET_TOKEN, SecretReference, SyncMode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::{ClusterClient, ListOptions, Patch, ResourceRef, WriteOptions};
use object::{Object, Status};
use serde_json::{Value, json};

use crate::ClusterLocation;
use crate::credentials::{self, CredentialError, NAMESPACES, SECRETS, Token};

/// Field manager of the agent's own writes.
pub const FIELD_MANAGER: &str = "karmada-agent";

/// The member as its agent registers it.
#[derive(Clone, Debug, Default)]
pub struct Registration {
    pub name: String,
    /// Namespace of the member's secrets, in the control plane and in the member.
    pub namespace: String,
    pub report: ReportSecrets,
    /// URL others reach the member at; empty when there is none.
    pub api_endpoint: String,
    /// Proxy through which others reach the member.
    pub proxy: String,
    pub insecure: bool,
    pub location: ClusterLocation,
    /// CA of the member, used when the token comes without one.
    pub authority: Option<Vec<u8>>,
}

/// Secrets of the member that are reported to the control plane.
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
    /// Parses the values of `--report-secrets`.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut report = Self { credentials: false, impersonator: false };
        let mut is_none = false;
        for word in words {
            match word {
                "KubeCredentials" => report.credentials = true,
                "KubeImpersonator" => report.impersonator = true,
                "None" => is_none = true,
                other => return Err(format!("{other:?} is not valid: use KubeCredentials, KubeImpersonator or None")),
            }
        }
        match is_none && (report.credentials || report.impersonator) {
            true => Err("None cannot be combined with other values".to_owned()),
            false => Ok(report),
        }
    }
}

/// The control plane has another cluster with this name or ID, so this agent must not act for it.
#[derive(Debug, thiserror::Error)]
#[error("the cluster ID {id} or the cluster name {name} has been registered: {reason}")]
pub struct DuplicateCluster {
    pub id: String,
    pub name: String,
    pub reason: String,
}

#[derive(Debug, thiserror::Error)]
pub enum RegistrationError {
    #[error(transparent)]
    Duplicate(#[from] DuplicateCluster),
    #[error("cannot register in the control plane: {0}")]
    ControlPlane(#[source] Status),
    #[error("cannot prepare credentials in the member: {0}")]
    Member(#[source] CredentialError),
}

/// Registers the member, or updates its registration.
pub async fn ensure_registered(
    plane: &ClusterClient,
    member: &ClusterClient,
    registration: &Registration,
) -> Result<(), RegistrationError> {
    let id = member.get(ResourceRef::cluster(&NAMESPACES.gvr(), "kube-system")).await;
    let id = id.map_err(|status| RegistrationError::Member(status.into()))?.uid().to_owned();
    let known = known_clusters(plane, &registration.name).await.map_err(RegistrationError::ControlPlane)?;
    let current = find_current(&known, &id, &registration.name)?;
    let tokens = tokens(member, registration).await.map_err(RegistrationError::Member)?;
    write(plane, registration, &id, current, &tokens).await.map_err(RegistrationError::ControlPlane)
}

/// Lists all clusters, or only the agent's own when it may not list them.
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

/// Returns the existing Cluster of this member, or refuses a duplicate.
fn find_current<'a>(
    known: &'a [Arc<Object>],
    id: &str,
    name: &str,
) -> Result<Option<&'a Arc<Object>>, DuplicateCluster> {
    let id_of = |cluster: &Object| cluster.str_at(&["spec", "id"]).to_owned();
    let refused = |reason: String| DuplicateCluster { id: id.to_owned(), name: name.to_owned(), reason };
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
struct MemberTokens {
    cluster: Option<Token>,
    impersonator: Option<Token>,
}

async fn tokens(member: &ClusterClient, registration: &Registration) -> Result<MemberTokens, CredentialError> {
    let namespace = registration.namespace.as_str();
    let mut tokens = MemberTokens::default();
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
            tracing::warn!(expires, "the member issues only tokens that expire; register it again before then");
        }
    }
    Ok(tokens)
}

/// Writes the secrets before the Cluster, so that the Cluster never lacks its credentials.
async fn write(
    plane: &ClusterClient,
    registration: &Registration,
    id: &str,
    current: Option<&Arc<Object>>,
    tokens: &MemberTokens,
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
        // Karmada's agents may not change their Cluster; its previous spec still works.
        Err(status) if status.code == 403 => {
            tracing::warn!(%status, "the agent may not update its Cluster; its spec differs from the agent's flags");
            Ok(Arc::clone(current))
        }
        answer => answer,
    }
}

/// Creates the namespace if allowed. An agent may not be able to create or read it; a missing namespace then shows when
/// the secrets are written.
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

fn secrets_of(registration: &Registration, tokens: &MemberTokens) -> Vec<(String, Value)> {
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

/// Patches the secret first: `register` creates empty secrets, and its agents may not create any.
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

/// Makes the Cluster the owner of the secret, so that they are deleted together.
async fn own_secret(plane: &ClusterClient, namespace: &str, name: &str, cluster: &Object) -> Result<(), Status> {
    let patch = Patch::merge(json!({"metadata": {"ownerReferences": [owner(cluster, true)]}}));
    let target = ResourceRef::namespaced(&SECRETS.gvr(), namespace, name);
    plane.patch(target, patch, WriteOptions::managed_by(FIELD_MANAGER)).await.map(drop)
}

/// Builds an owner reference to the Cluster.
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

/// Builds the desired Cluster: the fields the agent sets, and all others as they are.
pub fn cluster_object(current: Option<&Object>, registration: &Registration, id: &str) -> Result<Object, Status> {
    let mut cluster = current.cloned().unwrap_or_else(|| CLUSTERS.object("", &registration.name));
    let mut spec: ClusterSpec = api::read(&cluster)?;
    let secret = |name: String| Some(SecretReference { namespace: registration.namespace.clone(), name });
    spec.sync_mode = SyncMode::Pull;
    spec.id = id.to_owned();
    spec.api_endpoint = registration.api_endpoint.clone();
    spec.proxy_url = registration.proxy.clone();
    spec.insecure_skip_tls_verification = registration.insecure;
    let location = &registration.location;
    for (field, value) in [(&mut spec.provider, &location.provider), (&mut spec.region, &location.region)] {
        if !value.is_empty() {
            field.clone_from(value);
        }
    }
    if !location.zones.is_empty() {
        spec.zones.clone_from(&location.zones);
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
