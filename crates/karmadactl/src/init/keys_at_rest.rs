//! The keys that seal what a control plane stores in etcd: created with a new control plane, and kept.

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::{ClusterClient, ResourceRef};
use encryption::file;
use membership::credentials::SECRETS;
use membership::plane_manifests::{ENCRYPTION_SECRET, ENCRYPTION_SECRET_KEY, PLANE, PlaneInstallation, PlaneStorage};

use crate::console::Console;

/// Returns the EncryptionConfiguration of an installation: the one in the host cluster, or a new one for a new control plane.
pub async fn of(
    console: &Console,
    host: &ClusterClient,
    installation: &PlaneInstallation,
) -> anyhow::Result<Option<String>> {
    if !is_needed(installation) {
        return Ok(None);
    }
    let namespace = installation.namespace.as_str();
    let target = ResourceRef::namespaced(&SECRETS.gvr(), namespace, ENCRYPTION_SECRET);
    let secret = host.find(target).await.with_context(|| format!("cannot read the Secret {ENCRYPTION_SECRET}"))?;
    if let Some(secret) = secret {
        let decoded = STANDARD.decode(secret.str_at(&["data", ENCRYPTION_SECRET_KEY])).unwrap_or_default();
        let text = String::from_utf8(decoded).ok().filter(|text| !text.is_empty());
        let text = text.with_context(|| {
            format!(
                "the Secret {namespace}/{ENCRYPTION_SECRET} has no EncryptionConfiguration in {ENCRYPTION_SECRET_KEY}"
            )
        })?;
        return Ok(Some(text));
    }
    let workload = ResourceRef::namespaced(&installation.workload_resource().gvr(), namespace, PLANE);
    if host.find(workload).await.with_context(|| format!("cannot read {PLANE}"))?.is_some() {
        // Servers without the keys could not read what the first updated one seals.
        console.note(
            "this control plane stores Secrets in etcd without encryption, and keeps doing so: docs/encryption.md has the steps",
        );
        return Ok(None);
    }
    for_new(installation)
}

/// Returns a new EncryptionConfiguration, if one is needed.
pub fn for_new(installation: &PlaneInstallation) -> anyhow::Result<Option<String>> {
    match is_needed(installation) {
        true => Ok(Some(file::render(&file::new_config()?)?)),
        false => Ok(None),
    }
}

/// Embedded storage has keys of its own, and a user's flag names others.
fn is_needed(installation: &PlaneInstallation) -> bool {
    let is_named = installation.arguments.iter().any(|argument| argument.starts_with("--encryption-provider-config"));
    matches!(installation.storage, PlaneStorage::Etcd(_)) && !is_named
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use cluster_client::testing::MemoryApi;
    use membership::agent_manifests::DEPLOYMENTS;
    use membership::plane_manifests::ExternalEtcd;
    use serde_json::json;

    use super::*;

    fn installation(storage: PlaneStorage) -> PlaneInstallation {
        PlaneInstallation {
            namespace: "karmada-system".into(),
            image: "flotilla:v1".into(),
            image_pull_policy: "Always".into(),
            image_pull_secrets: Vec::new(),
            storage,
            node_port: None,
            host_port: None,
            advertise_url: None,
            domain: "cluster.local".into(),
            tls_names: Vec::new(),
            authority: None,
            encryption: None,
            priority_class: None,
            node_selector: BTreeMap::new(),
            arguments: Vec::new(),
        }
    }

    fn on_etcd() -> PlaneInstallation {
        let servers = vec!["https://a:2379".into()];
        installation(PlaneStorage::Etcd(ExternalEtcd { servers, prefix: "/p".into(), tls: None, replicas: 3 }))
    }

    #[tokio::test]
    async fn a_new_control_plane_on_etcd_gets_keys_and_keeps_them() {
        let (console, ..) = crate::console::testing::console();
        let api = MemoryApi::default();
        let made = of(&console, &api.client(), &on_etcd()).await.expect("keys").expect("a new plane on etcd");
        assert!(made.contains("kind: EncryptionConfiguration") && made.contains("secretbox"), "{made}");
        assert_ne!(for_new(&on_etcd()).expect("keys").as_ref(), Some(&made), "every plane has its own");
        let mut secret = SECRETS.object("karmada-system", ENCRYPTION_SECRET);
        secret.set(&["data"], json!({ENCRYPTION_SECRET_KEY: STANDARD.encode(&made)}));
        api.seed(&SECRETS.gvr(), secret);
        api.seed(&DEPLOYMENTS.gvr(), DEPLOYMENTS.object("karmada-system", PLANE));
        assert_eq!(of(&console, &api.client(), &on_etcd()).await.expect("keys"), Some(made));
    }

    #[tokio::test]
    async fn an_unreadable_secret_is_not_replaced() {
        let (console, ..) = crate::console::testing::console();
        let api = MemoryApi::default();
        api.seed(&SECRETS.gvr(), SECRETS.object("karmada-system", ENCRYPTION_SECRET));
        let error = of(&console, &api.client(), &on_etcd()).await.expect_err("no keys");
        assert!(error.to_string().contains("has no EncryptionConfiguration"), "{error}");
    }

    #[tokio::test]
    async fn embedded_storage_named_keys_and_running_planes_get_none() {
        let (console, ..) = crate::console::testing::console();
        let api = MemoryApi::default();
        let client = api.client();
        assert_eq!(of(&console, &client, &installation(PlaneStorage::EmptyDir)).await.expect("an answer"), None);
        let mut named = on_etcd();
        named.arguments.push("--encryption-provider-config=/own".into());
        assert_eq!(of(&console, &client, &named).await.expect("an answer"), None);
        api.seed(&DEPLOYMENTS.gvr(), DEPLOYMENTS.object("karmada-system", PLANE));
        assert_eq!(of(&console, &client, &on_etcd()).await.expect("an answer"), None);
    }
}
