//! Maintains `kube-public/cluster-info`: the address and CA of this control plane, signed with every signing token.

use std::sync::Arc;
use std::time::Duration;

use cluster_client::{ClusterClient, ResourceRef, WriteOptions};
use jiff::Timestamp;
use object::Object;
use object::builtin;
use pki::jwt::detached::detached_signature;
use reconcile::{Clock, Controller, Mirror, MirrorSpec, Outcome, ReconcileError, Source};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::token;
use crate::resources::core_object;

const NAMESPACE: &str = "kube-public";
const NAME: &str = "cluster-info";
const KUBECONFIG: &str = "kubeconfig";
const SIGNATURE_PREFIX: &str = "jws-kubeconfig-";
/// Tokens expire without an event.
const RECHECK: Duration = Duration::from_secs(60);

pub async fn run(
    client: ClusterClient,
    tokens: Mirror,
    kubeconfig: String,
    clock: Arc<dyn Clock>,
    cancel: CancellationToken,
) {
    let spec = MirrorSpec {
        field_selector: Some(format!("metadata.name={NAME}")),
        ..MirrorSpec::new(&builtin::config_maps()).within(NAMESPACE)
    };
    let info = Mirror::start(client.clone(), spec, cancel.clone());
    let controller = Controller::<()>::new("bootstrap-signer");
    // Without any token there is no event that would trigger the first reconcile.
    controller.queue().add_after((), Duration::ZERO, reconcile::Priority::NORMAL);
    let sources = vec![Source::new(&info, |_| vec![()]), Source::new(&tokens, |_| vec![()])];
    let kubeconfig: Arc<str> = kubeconfig.into();
    let reconcile = move |()| sign(client.clone(), tokens.clone(), Arc::clone(&kubeconfig), clock.now());
    controller.run(sources, 1, cancel, reconcile).await;
}

async fn sign(
    client: ClusterClient,
    tokens: Mirror,
    kubeconfig: Arc<str>,
    now: Timestamp,
) -> Result<Outcome, ReconcileError> {
    let gvr = builtin::config_maps();
    let place = ResourceRef::namespaced(&gvr, NAMESPACE, NAME);
    let current = client.find(place.clone()).await?;
    let secrets = tokens.list();
    let outcome =
        if secrets.iter().any(|s| token::expiration(s).is_some()) { Outcome::After(RECHECK) } else { Outcome::Done };
    let data = plan(&kubeconfig, secrets.iter().map(|secret| &**secret), current.as_deref(), now);
    match current {
        Some(current) if current.get(&["data"]).and_then(Value::as_object) == Some(&data) => {}
        Some(current) => {
            let mut desired = Object::clone(&current);
            desired.set(&["data"], data);
            client.update(place, desired, WriteOptions::default()).await?;
        }
        None => {
            let mut desired = core_object("ConfigMap", NAMESPACE, NAME);
            desired.set(&["data"], data);
            client.create(ResourceRef::within(&gvr, NAMESPACE), desired, WriteOptions::default()).await?;
        }
    }
    Ok(outcome)
}

/// Returns the data of the ConfigMap: unrelated keys stay, old signatures are removed.
fn plan<'a>(
    kubeconfig: &str,
    secrets: impl Iterator<Item = &'a Object>,
    current: Option<&Object>,
    now: Timestamp,
) -> Map<String, Value> {
    let kept = current.and_then(|map| map.get(&["data"])).and_then(Value::as_object).cloned().unwrap_or_default();
    let mut data: Map<String, Value> = kept.into_iter().filter(|(key, _)| !key.starts_with(SIGNATURE_PREFIX)).collect();
    data.insert(KUBECONFIG.to_owned(), kubeconfig.into());
    for (id, key) in secrets.filter_map(|secret| token::signing(secret, now)) {
        let signature = detached_signature(kubeconfig.as_bytes(), &id, &key);
        data.insert(format!("{SIGNATURE_PREFIX}{id}"), signature.into());
    }
    data
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;

    use super::*;

    fn secret(id: &str, signing: &str, expiration: &str) -> Object {
        let data: Map<String, Value> = [
            ("token-id", id),
            ("token-secret", "0123456789abcdef"),
            ("usage-bootstrap-signing", signing),
            ("expiration", expiration),
        ]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), STANDARD.encode(value).into()))
        .collect();
        let object = json!({"metadata": {"name": format!("bootstrap-token-{id}")}, "data": data});
        Object::from_value(object).expect("a map")
    }

    #[test]
    fn tokens_sign_cluster_info_and_old_signatures_are_removed() {
        let now = "2026-01-01T00:00:00Z".parse().expect("a time");
        let secrets = [
            secret("abcdef", "true", ""),
            secret("nosign", "false", ""),
            secret("future", "true", "2026-01-02T00:00:00Z"),
            secret("expired", "true", "2025-01-02T00:00:00Z"),
        ];
        let current = json!({"data": {"jws-kubeconfig-gone": "x", "other": "stays"}});
        let current = Object::from_value(current).expect("a map");
        let data = plan("text", secrets.iter(), Some(&current), now);
        let keys: Vec<&str> = data.keys().map(String::as_str).collect();
        assert_eq!(keys, ["jws-kubeconfig-abcdef", "jws-kubeconfig-future", "kubeconfig", "other"]);
    }
}
