//! Gives pods the service account they run as, with its token and pull secrets.

use async_trait::async_trait;
use object::{Object, Status};
use serde_json::{Value, json};

use super::{Admission, Attributes, Operation};
use crate::admission::AdmissionScope;
use crate::context::Context;
use crate::generated_name::generate_name;
use crate::resources::Resources;

const VOLUME_PREFIX: &str = "kube-api-access-";
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const TOKEN_SECONDS: i64 = 3607;

pub struct ServiceAccountDefaults;

#[async_trait]
impl Admission for ServiceAccountDefaults {
    fn name(&self) -> &'static str {
        "ServiceAccount"
    }

    async fn mutate(
        &self,
        scope: AdmissionScope<'_>,
        _ctx: &Context,
        attributes: &Attributes<'_>,
        pod: &mut Object,
    ) -> Result<(), Status> {
        let kind = &attributes.resource.kind;
        let is_pod = kind.gvk.kind == "Pod" && kind.gvk.group.is_empty();
        if attributes.operation != Operation::Create || !is_pod || attributes.subresource.is_some() {
            return Ok(());
        }
        // Mirror pods reflect what a node runs already and have no account.
        if pod.annotation("kubernetes.io/config.mirror").is_some() {
            return Ok(());
        }
        if pod.str_at(&["spec", "serviceAccountName"]).is_empty() {
            let older = pod.str_at(&["spec", "serviceAccount"]).to_owned();
            pod.set(&["spec", "serviceAccountName"], if older.is_empty() { "default" } else { &older });
        }
        let name = pod.str_at(&["spec", "serviceAccountName"]).to_owned();
        pod.set(&["spec", "serviceAccount"], name.clone());
        let account = account(scope.resources, attributes, pod, &name).await?;
        if pod.items(&["spec", "imagePullSecrets"]).is_empty() {
            let secrets = account.items(&["imagePullSecrets"]).to_vec();
            if !secrets.is_empty() {
                pod.set(&["spec", "imagePullSecrets"], secrets);
            }
        }
        let automount = pod.bool_at(&["spec", "automountServiceAccountToken"]);
        if automount.or(account.bool_at(&["automountServiceAccountToken"])).unwrap_or(true) {
            mount_token(pod);
        }
        Ok(())
    }
}

async fn account(
    resources: Resources<'_>,
    attributes: &Attributes<'_>,
    pod: &Object,
    name: &str,
) -> Result<Object, Status> {
    let pods = attributes.resource.kind.group_resource();
    let namespace = attributes.namespace;
    let refuse = || {
        let detail = format!("error looking up service account {namespace}/{name}: serviceaccount {name:?} not found");
        Status::forbidden(&pods, attributes.name_in_refusals(Some(pod)), detail)
    };
    let accounts = resources.registry.find("", "v1", "serviceaccounts").ok_or_else(refuse)?;
    let found = resources.objects.get(&accounts.key(namespace, name)).await?;
    found.map(|current| current.object).ok_or_else(refuse)
}

/// A projected volume with a token that is renewed, the CA and the namespace, mounted where clients look for them.
///
/// A pod that webhooks have changed comes here again: containers that came later share the volume of those before.
fn mount_token(pod: &mut Object) {
    let names = pod.items(&["spec", "volumes"]).iter().filter_map(|volume| volume["name"].as_str());
    let known = names.filter(|name| name.starts_with(VOLUME_PREFIX)).map(str::to_owned).next();
    let volume = known.clone().unwrap_or_else(|| generate_name(VOLUME_PREFIX));
    let mut mounted = false;
    for list in ["initContainers", "containers"] {
        let mut containers = pod.items(&["spec", list]).to_vec();
        for container in &mut containers {
            mounted |= add_mount(container, &volume);
        }
        if !containers.is_empty() {
            pod.set(&["spec", list], containers);
        }
    }
    if !mounted || known.is_some() {
        return;
    }
    let mut volumes = pod.items(&["spec", "volumes"]).to_vec();
    volumes.push(json!({"name": volume, "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
    ]}}));
    pod.set(&["spec", "volumes"], volumes);
}

fn add_mount(container: &mut Value, volume: &str) -> bool {
    let mut mounts = container["volumeMounts"].as_array().cloned().unwrap_or_default();
    if mounts.iter().any(|mount| mount["mountPath"] == TOKEN_PATH) {
        return false;
    }
    mounts.push(json!({"name": volume, "readOnly": true, "mountPath": TOKEN_PATH}));
    container["volumeMounts"] = mounts.into();
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ephemeral_containers_share_the_volume() {
        let pod = json!({"spec": {"containers": [{"name": "a"}]}});
        let mut pod = Object::from_value(pod).expect("a map");
        mount_token(&mut pod);
        let mut containers = pod.items(&["spec", "containers"]).to_vec();
        containers.push(json!({"name": "sidecar"}));
        pod.set(&["spec", "containers"], containers);
        mount_token(&mut pod);
        let volumes = pod.items(&["spec", "volumes"]);
        assert_eq!(volumes.len(), 1);
        for container in pod.items(&["spec", "containers"]) {
            assert_eq!(container["volumeMounts"].as_array().map(Vec::len), Some(1), "{container}");
            assert_eq!(container["volumeMounts"][0]["name"], volumes[0]["name"]);
        }
    }
}
