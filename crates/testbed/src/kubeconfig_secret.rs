//! The Secret `karmada-kubeconfig` in the control plane, where Karmada's guides read the administrator's kubeconfig.

use anyhow::Context;
use api::names::SYSTEM_NAMESPACE;
use base64::Engine;
use cluster_client::{ClusterClient, ResourceRef};
use membership::credentials::SECRETS;
use object::Object;
use serde_json::json;

use crate::place::TestbedDir;

const NAME: &str = "karmada-kubeconfig";
const FIELD_MANAGER: &str = "flotilla-up";

/// Writes the kubeconfig of the control plane into the Secret.
pub async fn publish(plane: &ClusterClient, place: &TestbedDir) -> anyhow::Result<()> {
    let path = place.plane_config();
    let text = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": NAME, "namespace": SYSTEM_NAMESPACE},
        "data": {"kubeconfig": base64::engine::general_purpose::STANDARD.encode(text)},
    });
    let secret = Object::from_value(secret).context("not an object")?;
    let target = ResourceRef::namespaced(&SECRETS.gvr(), SYSTEM_NAMESPACE, NAME);
    let applied = plane.apply(target, secret, FIELD_MANAGER).await;
    applied.map(drop).with_context(|| format!("cannot write the Secret {SYSTEM_NAMESPACE}/{NAME}"))
}
