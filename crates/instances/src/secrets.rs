//! Secrets of instances in the manager: the administrator's kubeconfig, and those that a spec refers to.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::remote::config::Pem;
use cluster_client::{ClusterClient, Kubeconfig, ResourceRef, WriteOptions};
use manager_kinds::instance::{KUBECONFIG_KEY, LABEL_MANAGED_BY, MANAGED_BY, resource_name};
use object::builtin;
use object::{GroupVersionKind, GroupVersionResource, Object, Status};
use pki::kubeconfig::{Credential, kubeconfig};
use reconcile::commit_object;
use serde_json::json;

const FIELD_MANAGER: &str = "flotilla-manager";
/// Name of the context, as in Karmada's own kubeconfigs.
const CONTEXT: &str = "karmada-apiserver";

pub fn secrets() -> GroupVersionResource {
    builtin::secrets()
}

/// Reads one key of a Secret.
pub async fn read(client: &ClusterClient, namespace: &str, name: &str, key: &str) -> Result<Vec<u8>, String> {
    let found = client.find(ResourceRef::namespaced(&secrets(), namespace, name)).await;
    let found = found.map_err(|status| format!("Secret {namespace}/{name} cannot be read: {status}"))?;
    let secret = found.ok_or_else(|| format!("there is no Secret {namespace}/{name}"))?;
    let decoded = STANDARD.decode(secret.str_at(&["data", key])).ok().filter(|bytes| !bytes.is_empty());
    decoded.ok_or_else(|| format!("Secret {namespace}/{name} has no key {key}"))
}

/// Reads a key of a Secret that must be text.
pub async fn read_text(client: &ClusterClient, namespace: &str, name: &str, key: &str) -> Result<String, String> {
    let bytes = read(client, namespace, name, key).await?;
    String::from_utf8(bytes).map_err(|_| format!("{key} of Secret {namespace}/{name} is not text"))
}

/// Returns the kubeconfig of the plane's administrator for another address of the plane.
pub fn admin_kubeconfig(own: &Path, url: &str, ca_pem: &str) -> Result<String, String> {
    let parsed = Kubeconfig::load(&[own.to_owned()]).map_err(|error| error.to_string())?;
    let config = parsed.remote(None).map_err(|error| error.to_string())?;
    let pair = config.credentials.client_certificate.ok_or("the kubeconfig has no client certificate")?;
    let text = |pem: &Pem| {
        let bytes = pem.read().map_err(|error| error.to_string())?;
        String::from_utf8(bytes).map_err(|error| error.to_string())
    };
    let (certificate_pem, key_pem) = (text(&pair.certificate)?, text(&pair.key)?);
    let credential = Credential::ClientCertificate { certificate_pem: &certificate_pem, key_pem: &key_pem };
    Ok(kubeconfig(url, ca_pem, &credential, CONTEXT))
}

/// Writes the Secret with the administrator's kubeconfig. It is removed with the instance.
pub async fn write_admin_config(client: &ClusterClient, instance: &Object, text: &str) -> Result<String, Status> {
    let name = resource_name(instance.name(), "admin-config");
    let target = ResourceRef::namespaced(&secrets(), instance.namespace(), &name);
    let mut wanted = Object::new(&GroupVersionKind::new("", "v1", "Secret"), Some(instance.namespace()), &name);
    wanted.set_label(LABEL_MANAGED_BY, MANAGED_BY);
    wanted.set(&["type"], "Opaque");
    wanted.set(&["data", KUBECONFIG_KEY], STANDARD.encode(text));
    let owner = json!([{
        "apiVersion": instance.api_version(), "kind": instance.kind(),
        "name": instance.name(), "uid": instance.uid(), "controller": true,
    }]);
    wanted.set(&["metadata", "ownerReferences"], owner);
    match client.find(target.clone()).await? {
        None => {
            let collection = ResourceRef::within(&secrets(), instance.namespace());
            client.create(collection, wanted, WriteOptions::managed_by(FIELD_MANAGER)).await?;
        }
        Some(current) => drop(commit_object(client, target, &current, &wanted, FIELD_MANAGER).await?),
    }
    Ok(name)
}
