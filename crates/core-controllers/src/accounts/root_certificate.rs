//! Maintains the ConfigMap `kube-root-ca.crt` with the CA certificate of this control plane in every active
//! namespace.

use std::sync::Arc;

use cluster_client::{ClusterClient, ResourceRef, WriteOptions};
use object::Object;
use object::builtin;
use reconcile::{Controller, Mirror, MirrorSpec, ObjectKey, Outcome, ReconcileError};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{is_active, per_namespace};
use crate::resources::core_object;

const NAME: &str = "kube-root-ca.crt";
const KEY: &str = "ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
const DESCRIPTION_TEXT: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
    endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across \
    distributions of Kubernetes clusters.";

struct RootCertificatePublisher {
    writer: ClusterClient,
    namespaces: Mirror,
    maps: Mirror,
    ca_pem: String,
}

pub async fn run(
    reader: ClusterClient,
    writer: ClusterClient,
    namespaces: Mirror,
    ca_pem: String,
    cancel: CancellationToken,
) {
    let spec = MirrorSpec {
        field_selector: Some(format!("metadata.name={NAME}")),
        ..MirrorSpec::new(&builtin::config_maps())
    };
    let maps = Mirror::start(reader, spec, cancel.clone());
    let sources = per_namespace(&namespaces, &maps);
    let publisher = Arc::new(RootCertificatePublisher { writer, namespaces, maps, ca_pem });
    let reconcile = move |name: String| ensure(Arc::clone(&publisher), name);
    Controller::new("root-ca-certificate-publisher").run(sources, 2, cancel, reconcile).await;
}

async fn ensure(publisher: Arc<RootCertificatePublisher>, namespace: String) -> Result<Outcome, ReconcileError> {
    let found = publisher.namespaces.get(&ObjectKey::new("", &namespace));
    if !found.is_some_and(|found| is_active(&found)) {
        return Ok(Outcome::Done);
    }
    let current = publisher.maps.get(&ObjectKey::new(&namespace, NAME));
    let Some(desired) = plan(&namespace, current.as_deref(), &publisher.ca_pem) else { return Ok(Outcome::Done) };
    let gvr = publisher.maps.gvr();
    let written = match current {
        None => publisher.writer.create(ResourceRef::within(gvr, &namespace), desired, WriteOptions::default()).await,
        Some(current) => {
            publisher.writer.update(ResourceRef::of(gvr, &current), desired, WriteOptions::default()).await
        }
    };
    match written {
        Ok(_) => Ok(Outcome::Done),
        // The namespace is terminating, or the mirror lags behind and will trigger again.
        Err(status) if status.is_not_found() || status.code == 403 || status.is_already_exists() => Ok(Outcome::Done),
        Err(status) => Err(status.into()),
    }
}

/// Returns the desired ConfigMap, or `None` if it is up to date.
fn plan(namespace: &str, current: Option<&Object>, ca_pem: &str) -> Option<Object> {
    let data = json!({KEY: ca_pem});
    if current.is_some_and(|map| map.get(&["data"]) == Some(&data) && map.annotation(DESCRIPTION).is_some()) {
        return None;
    }
    let mut desired = current.cloned().unwrap_or_else(|| core_object("ConfigMap", namespace, NAME));
    desired.set(&["data"], data);
    desired.set_annotation(DESCRIPTION, DESCRIPTION_TEXT);
    Some(desired)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_certificate_is_restored() {
        let made = plan("a", None, "PEM").expect("a missing map is created");
        assert_eq!(made.str_at(&["data", "ca.crt"]), "PEM");
        assert_eq!(plan("a", Some(&made), "PEM"), None);
        let mut changed = made.clone();
        changed.set(&["data", "ca.crt"], "other");
        assert_eq!(plan("a", Some(&changed), "PEM"), Some(made));
    }
}
