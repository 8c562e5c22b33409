//! The control plane's side of `join`: the secrets of the member and its Cluster object.

use api::cluster::{CLUSTERS, ClusterSpec, LABEL_SYSTEM, SECRET_CA_BUNDLE, SECRET_TOKEN, SecretReference, SyncMode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::{ClusterClient, DeleteOptions, ListOptions, Patch, ResourceRef, WriteOptions};
use object::{Object, Status};
use serde_json::{Value, json};

use crate::MembershipError;
use crate::credentials::{SECRETS, ensure_namespace};
use crate::join::JoinOptions;
use crate::join::member::MemberCredentials;
use crate::registration::owner;

/// Refuses a cluster that is already joined, under this or another name.
pub async fn refuse_duplicates(options: &JoinOptions, id: &str) -> Result<(), MembershipError> {
    let client = &options.control_plane;
    let mut clusters = client.list_all(ResourceRef::all(&CLUSTERS.gvr()), ListOptions::default()).await?.items;
    clusters.sort_by(|a, b| a.name().cmp(b.name()));
    let refused = |reason: String| {
        Err(MembershipError::AlreadyRegistered { id: id.to_owned(), name: options.name.clone(), reason })
    };
    for cluster in clusters {
        let spec: ClusterSpec = api::read(&cluster)?;
        if cluster.name() == options.name {
            return refused(format!("there is a cluster {} already (at {})", options.name, spec.api_endpoint));
        }
        if spec.id == id {
            return refused(format!("this is the cluster that joined as {}", cluster.name()));
        }
    }
    Ok(())
}

/// Creates the secrets before the Cluster, so that the Cluster never lacks its credentials. If the Cluster is refused,
/// the secrets created for it are removed.
pub async fn register(
    options: &JoinOptions,
    id: &str,
    annotations: &[(&str, &str)],
    credentials: &MemberCredentials,
) -> Result<(), MembershipError> {
    let client = &options.control_plane;
    let created = write_secrets(options, credentials).await?;
    let mut cluster = cluster_object(options, id)?;
    annotations.iter().for_each(|(key, value)| cluster.set_annotation(key, value));
    match client.create(ResourceRef::all(&CLUSTERS.gvr()), cluster, WriteOptions::default()).await {
        Ok(cluster) => own_secrets(options, &cluster).await,
        Err(status) => {
            for name in created {
                let target = ResourceRef::namespaced(&SECRETS.gvr(), &options.namespace, &name);
                // The refusal of the Cluster is the error to report.
                let _ = client.delete(target, DeleteOptions::default()).await;
            }
            Err(MembershipError::CreateCluster { name: options.name.clone(), status })
        }
    }
}

/// Writes the secrets with the credentials, and returns the names of those that are new.
pub async fn write_secrets(
    options: &JoinOptions,
    credentials: &MemberCredentials,
) -> Result<Vec<String>, MembershipError> {
    let (client, namespace) = (&options.control_plane, options.namespace.as_str());
    ensure_namespace(client, namespace).await.map_err(MembershipError::CreateNamespace)?;
    let [name, impersonator] = secret_names(options);
    let secrets = [
        (impersonator, json!({SECRET_TOKEN: STANDARD.encode(&credentials.impersonator_token)})),
        (
            name,
            json!({
                SECRET_CA_BUNDLE: STANDARD.encode(&credentials.ca_bundle),
                SECRET_TOKEN: STANDARD.encode(&credentials.token),
            }),
        ),
    ];
    let mut created = Vec::new();
    for (name, data) in secrets {
        match put_secret(client, namespace, &name, data).await {
            Ok(true) => created.push(name),
            Ok(false) => {}
            Err(status) => return Err(MembershipError::CreateSecret { namespace: namespace.to_owned(), name, status }),
        }
    }
    Ok(created)
}

/// Makes the Cluster the owner of its secrets, so that they are deleted together.
pub async fn own_secrets(options: &JoinOptions, cluster: &Object) -> Result<(), MembershipError> {
    for name in secret_names(options) {
        let owned = own_secret(&options.control_plane, &options.namespace, &name, cluster).await;
        owned.map_err(|status| MembershipError::OwnSecret { namespace: options.namespace.clone(), name, status })?;
    }
    Ok(())
}

fn secret_names(options: &JoinOptions) -> [String; 2] {
    [options.name.clone(), format!("{}-impersonator", options.name)]
}

/// Returns true when the secret is new. A secret left from an earlier join gets the new credentials.
async fn put_secret(client: &ClusterClient, namespace: &str, name: &str, data: Value) -> Result<bool, Status> {
    let mut secret = SECRETS.object(namespace, name);
    secret.set_label(LABEL_SYSTEM, "true");
    secret.set(&["data"], data.clone());
    match client.create(ResourceRef::within(&SECRETS.gvr(), namespace), secret, WriteOptions::default()).await {
        Ok(_) => Ok(true),
        Err(status) if status.is_already_exists() => {
            let patch = Patch::merge(json!({"data": data, "metadata": {"ownerReferences": null}}));
            let target = ResourceRef::namespaced(&SECRETS.gvr(), namespace, name);
            client.patch(target, patch, WriteOptions::default()).await?;
            Ok(false)
        }
        Err(status) => Err(status),
    }
}

fn cluster_object(options: &JoinOptions, id: &str) -> Result<Object, Status> {
    let secret = |name: String| SecretReference { namespace: options.namespace.clone(), name };
    let [name, impersonator] = secret_names(options);
    let spec = ClusterSpec {
        id: id.to_owned(),
        sync_mode: SyncMode::Push,
        api_endpoint: options.member.endpoint.clone(),
        secret_ref: Some(secret(name)),
        impersonator_secret_ref: Some(secret(impersonator)),
        insecure_skip_tls_verification: options.member.insecure,
        proxy_url: options.member.proxy.clone().unwrap_or_default(),
        provider: options.location.provider.clone(),
        region: options.location.region.clone(),
        zones: options.location.zones.clone(),
        ..ClusterSpec::default()
    };
    let mut cluster = CLUSTERS.object("", &options.name);
    cluster.set(&["spec"], serde_json::to_value(spec).map_err(Status::internal)?);
    Ok(cluster)
}

async fn own_secret(client: &ClusterClient, namespace: &str, name: &str, cluster: &Object) -> Result<(), Status> {
    let patch = Patch::merge(json!({"metadata": {"ownerReferences": [owner(cluster, true)]}}));
    let target = ResourceRef::namespaced(&SECRETS.gvr(), namespace, name);
    client.patch(target, patch, WriteOptions::default()).await.map(drop)
}
