//! What `join` does in the control plane: the secrets of the member and its Cluster object.

use anyhow::{Context, bail};
use api::cluster::{CLUSTERS, ClusterSpec, LABEL_SYSTEM, SECRET_CA_BUNDLE, SECRET_TOKEN, SecretReference, SyncMode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::{ClusterClient, DeleteOptions, Patch, ResourceRef, WriteOptions};
use object::Object;
use serde_json::{Value, json};

use crate::join::member::{Credentials, SECRETS, ensure_namespace};
use crate::join::{Joining, MemberAccess};
use crate::plane::Plane;

/// A cluster is joined once, under one name.
pub async fn refuse_duplicates(plane: &Plane, joining: &Joining, id: &str) -> anyhow::Result<()> {
    for cluster in plane.clusters().await? {
        let spec: ClusterSpec = api::read(&cluster)?;
        let taken = format!("the cluster ID {id} or the cluster name {} has been registered", joining.name);
        if cluster.name() == joining.name {
            bail!("{taken}: there is a cluster {} already (at {})", joining.name, spec.api_endpoint);
        }
        if spec.id == id {
            bail!("{taken}: this is the cluster that joined as {}", cluster.name());
        }
    }
    Ok(())
}

/// Secrets first, so that whoever sees the Cluster finds its credentials; should the Cluster be refused, the secrets
/// made for it go again.
pub async fn register(
    plane: &Plane,
    joining: &Joining,
    access: &MemberAccess,
    id: &str,
    credentials: &Credentials,
) -> anyhow::Result<()> {
    let client = &plane.client;
    let namespace = joining.namespace.as_str();
    ensure_namespace(client, namespace).await.context("failed to create the namespace in control plane")?;
    let impersonator = format!("{}-impersonator", joining.name);
    let secrets = [
        (impersonator.as_str(), json!({SECRET_TOKEN: STANDARD.encode(&credentials.impersonator_token)})),
        (
            joining.name.as_str(),
            json!({
                SECRET_CA_BUNDLE: STANDARD.encode(&credentials.ca_bundle),
                SECRET_TOKEN: STANDARD.encode(&credentials.token),
            }),
        ),
    ];
    let mut made: Vec<&str> = Vec::new();
    for (name, data) in &secrets {
        let is_new = put_secret(client, namespace, name, data.clone()).await;
        if is_new.with_context(|| format!("failed to create secret {namespace}/{name} in control plane"))? {
            made.push(name);
        }
    }
    let cluster = cluster_object(joining, access, id, &impersonator)?;
    let created = client.create(ResourceRef::all(&CLUSTERS.gvr()), cluster, WriteOptions::default()).await;
    let cluster = match created {
        Ok(cluster) => cluster,
        Err(status) => {
            for name in made {
                let target = ResourceRef::namespaced(&SECRETS.gvr(), namespace, name);
                // The refusal is what the user must hear of.
                let _ = client.delete(target, DeleteOptions::default()).await;
            }
            return Err(
                anyhow::Error::from(status).context(format!("failed to create cluster({}) object", joining.name))
            );
        }
    };
    for (name, _) in &secrets {
        own(client, namespace, name, &cluster)
            .await
            .with_context(|| format!("failed to patch secret {namespace}/{name}"))?;
    }
    Ok(())
}

/// True when the secret is new. One left over from an earlier join gets the new credentials.
async fn put_secret(client: &ClusterClient, namespace: &str, name: &str, data: Value) -> anyhow::Result<bool> {
    let mut secret = SECRETS.object(namespace, name);
    secret.set_label(LABEL_SYSTEM, "true");
    secret.set(&["data"], data.clone());
    let created = client.create(ResourceRef::within(&SECRETS.gvr(), namespace), secret, WriteOptions::default()).await;
    match created {
        Ok(_) => Ok(true),
        Err(status) if status.is_already_exists() => {
            let patch = Patch::merge(json!({"data": data, "metadata": {"ownerReferences": null}}));
            client
                .patch(ResourceRef::namespaced(&SECRETS.gvr(), namespace, name), patch, WriteOptions::default())
                .await?;
            Ok(false)
        }
        Err(status) => Err(status.into()),
    }
}

fn cluster_object(joining: &Joining, access: &MemberAccess, id: &str, impersonator: &str) -> anyhow::Result<Object> {
    let secret = |name: &str| SecretReference { namespace: joining.namespace.clone(), name: name.to_owned() };
    let spec = ClusterSpec {
        id: id.to_owned(),
        sync_mode: SyncMode::Push,
        api_endpoint: access.endpoint.clone(),
        secret_ref: Some(secret(&joining.name)),
        impersonator_secret_ref: Some(secret(impersonator)),
        insecure_skip_tls_verification: access.insecure,
        proxy_url: access.proxy.clone().unwrap_or_default(),
        provider: joining.provider.clone().unwrap_or_default(),
        region: joining.region.clone().unwrap_or_default(),
        zones: joining.zones.clone(),
        ..ClusterSpec::default()
    };
    let mut cluster = CLUSTERS.object("", &joining.name);
    cluster.set(&["spec"], serde_json::to_value(spec)?);
    Ok(cluster)
}

/// The secret goes when the Cluster goes.
async fn own(client: &ClusterClient, namespace: &str, name: &str, cluster: &Object) -> anyhow::Result<()> {
    let owner = json!({
        "apiVersion": CLUSTERS.api_version(), "kind": CLUSTERS.kind, "name": cluster.name(), "uid": cluster.uid(),
        "controller": true, "blockOwnerDeletion": true,
    });
    let patch = Patch::merge(json!({"metadata": {"ownerReferences": [owner]}}));
    client.patch(ResourceRef::namespaced(&SECRETS.gvr(), namespace, name), patch, WriteOptions::default()).await?;
    Ok(())
}
