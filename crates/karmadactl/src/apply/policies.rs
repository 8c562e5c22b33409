//! The policies of `apply -C`: one for every applied object.

use anyhow::bail;
use api::policy::{CLUSTER_PROPAGATION_POLICIES, PROPAGATION_POLICIES};
use cluster_client::ResourceRef;
use object::Object;
use serde_json::json;

use crate::console::Console;
use crate::plane::PlaneClient;

/// Refuses clusters that do not exist.
pub async fn check_clusters(plane: &PlaneClient, clusters: &[String]) -> anyhow::Result<()> {
    if clusters.is_empty() {
        return Ok(());
    }
    let existing = plane.clusters().await?;
    match clusters.iter().find(|cluster| !existing.iter().any(|known| known.name() == *cluster)) {
        Some(missing) => bail!("cluster {missing} does not exist"),
        None => Ok(()),
    }
}

/// Propagates each object to the clusters, or to all.
pub async fn apply(
    console: &Console,
    plane: &PlaneClient,
    objects: &[Object],
    clusters: &[String],
) -> anyhow::Result<()> {
    for object in objects {
        apply_policy(console, plane, policy_for(object, clusters)).await?;
    }
    Ok(())
}

/// Builds the policy that propagates one object to the given clusters, or to all.
fn policy_for(object: &Object, clusters: &[String]) -> Object {
    let (namespace, gvk) = (object.namespace(), object.gvk());
    let name = api::names::policy_name(namespace, object.name(), &gvk.to_string());
    let kind = if namespace.is_empty() { &CLUSTER_PROPAGATION_POLICIES } else { &PROPAGATION_POLICIES };
    let mut policy = kind.object(namespace, &name);
    let mut selector = json!({"apiVersion": gvk.api_version(), "kind": gvk.kind, "name": object.name()});
    if !namespace.is_empty() {
        selector["namespace"] = namespace.into();
    }
    let affinity = if clusters.is_empty() { json!({}) } else { json!({"clusterNames": clusters}) };
    policy.set(&["spec"], json!({"resourceSelectors": [selector], "placement": {"clusterAffinity": affinity}}));
    policy
}

async fn apply_policy(console: &Console, plane: &PlaneClient, policy: Object) -> anyhow::Result<()> {
    let (kind, name) = (policy.kind().to_lowercase(), policy.name().to_owned());
    let gvr = match policy.namespace() {
        "" => CLUSTER_PROPAGATION_POLICIES.gvr(),
        _ => PROPAGATION_POLICIES.gvr(),
    };
    let target = match policy.namespace() {
        "" => ResourceRef::cluster(&gvr, &name),
        namespace => ResourceRef::namespaced(&gvr, namespace, &name),
    };
    let existed = plane.client.find(target.clone()).await?.is_some();
    plane.client.apply(target, policy, "karmadactl").await?;
    let word = if existed { "configured" } else { "created" };
    console.line(format!("{kind}.policy.karmada.io/{name} {word}"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_applied_object_gets_its_own_policy() {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}});
        let policy = policy_for(&Object::from_value(object).unwrap(), &["m1".into()]);
        assert_eq!(policy.kind(), "ClusterPropagationPolicy");
        assert_eq!(policy.get(&["spec", "placement"]), Some(&json!({"clusterAffinity": {"clusterNames": ["m1"]}})));
        let object =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "x"}});
        let policy = policy_for(&Object::from_value(object).unwrap(), &[]);
        assert_eq!((policy.kind(), policy.namespace()), ("PropagationPolicy", "x"));
        assert_eq!(policy.get(&["spec", "placement"]), Some(&json!({"clusterAffinity": {}})));
        assert_eq!(policy.name(), api::names::policy_name("x", "web", "apps/v1, Kind=Deployment"));
    }
}
