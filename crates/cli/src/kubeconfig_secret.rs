//! Publishes the administrator's kubeconfig of a control plane that runs as a pod, in a Secret of its cluster.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::{ClusterClient, Endpoint, Kubeconfig, RemoteConfig, ResourceRef};
use membership::credentials::SECRETS;
use object::Object;
use serde_json::json;

const FIELD_MANAGER: &str = "flotilla-server";
/// Interval for reading the file again: it changes when its certificate is renewed.
const CHECK_EVERY: Duration = Duration::from_secs(60);
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The Secret to publish the kubeconfig in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretName {
    namespace: String,
    name: String,
}

impl SecretName {
    /// Parses `NAMESPACE/NAME`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty());
        let (namespace, name) = parts.filter(|(_, name)| !name.contains('/')).ok_or("expected NAMESPACE/NAME")?;
        Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

/// Keeps the Secret equal to the file until the task is dropped.
pub fn publish(secret: SecretName, file: PathBuf) -> anyhow::Result<tokio::task::JoinHandle<()>> {
    let cluster = RemoteConfig::in_cluster().context("--kubeconfig-secret: this process does not run in a cluster")?;
    let cluster = ClusterClient::connect(Endpoint::Remote(cluster)).context("--kubeconfig-secret")?;
    Ok(tokio::spawn(async move {
        let mut published = Vec::new();
        loop {
            let wait = match write(&cluster, &secret, &file, &mut published).await {
                Ok(()) => CHECK_EVERY,
                Err(error) => {
                    tracing::warn!("cannot publish the kubeconfig, will retry: {error:#}");
                    RETRY_AFTER
                }
            };
            tokio::time::sleep(wait).await;
        }
    }))
}

/// Writes the Secret if the file differs from what was published last.
async fn write(
    cluster: &ClusterClient,
    secret: &SecretName,
    file: &Path,
    published: &mut Vec<u8>,
) -> anyhow::Result<()> {
    let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    if text == *published {
        return Ok(());
    }
    let target = ResourceRef::namespaced(&SECRETS.gvr(), &secret.namespace, &secret.name);
    cluster.apply(target, object(secret, &text)?, FIELD_MANAGER).await?;
    tracing::info!(secret = format!("{}/{}", secret.namespace, secret.name), "published the kubeconfig");
    *published = text;
    Ok(())
}

fn object(secret: &SecretName, kubeconfig: &[u8]) -> anyhow::Result<Object> {
    let parsed = Kubeconfig::parse(&String::from_utf8_lossy(kubeconfig), Path::new("/"))?.remote(None)?;
    let authority = parsed.ca.as_ref().map(|ca| ca.read()).transpose()?.unwrap_or_default();
    let value = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": secret.name, "namespace": secret.namespace,
            "labels": {"app.kubernetes.io/managed-by": "flotilla"}},
        "data": {"kubeconfig": STANDARD.encode(kubeconfig), "ca.crt": STANDARD.encode(authority)},
    });
    Object::from_value(value).context("not an object")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_is_named_with_its_namespace() {
        let found = SecretName::parse("karmada-system/karmada-kubeconfig");
        assert_eq!(
            found.map(|secret| (secret.namespace, secret.name)).ok(),
            Some(("karmada-system".into(), "karmada-kubeconfig".into()))
        );
        for bad in ["", "name", "/name", "namespace/", "a/b/c"] {
            assert!(SecretName::parse(bad).is_err(), "{bad}");
        }
    }
}
