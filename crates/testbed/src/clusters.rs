//! Clients and kubeconfigs of the clusters of a testbed.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use api::Resource;
use cluster_client::{ClusterClient, Endpoint, Kubeconfig};
use object::yaml;
use serde_json::{Value, json};

use crate::host_cluster::HOST;
use crate::place::{INSTANCE_MEMBER, PLANE_CONTEXT, TestbedDir};
use crate::spec::{Spec, write_file};

pub const PODS: Resource = Resource::namespaced("", "v1", "Pod", "pods");
pub const NODES: Resource = Resource::cluster("", "v1", "Node", "nodes");

/// Request timeout; the clusters of a testbed are local.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Connects to the cluster of a kubeconfig's current context.
pub fn open(kubeconfig: &Path) -> anyhow::Result<ClusterClient> {
    open_within(kubeconfig, REQUEST_TIMEOUT)
}

pub fn open_within(kubeconfig: &Path, patience: Duration) -> anyhow::Result<ClusterClient> {
    let mut remote = Kubeconfig::load(&[kubeconfig.to_owned()])?.remote(None)?;
    remote.request_timeout = patience;
    Ok(ClusterClient::connect(Endpoint::Remote(remote))?)
}

/// Why an API server is not ready.
#[derive(Debug, thiserror::Error)]
pub enum NotReady {
    #[error("{0}")]
    NoConnection(String),
    /// The server answered /readyz with an error.
    #[error("/readyz returned {code}: {body}")]
    Answered { code: http::StatusCode, body: String },
}

/// Checks /readyz of the API server of a kubeconfig.
pub async fn check_ready(kubeconfig: &Path, timeout: Duration) -> Result<(), NotReady> {
    let failed = |error: String| NotReady::NoConnection(error);
    let client = open_within(kubeconfig, timeout).map_err(|error| failed(format!("{error:#}")))?;
    let request = http::Request::get("/readyz").body(bytes::Bytes::new()).map_err(|error| failed(error.to_string()))?;
    let response = client.raw(request).await.map_err(|status| failed(status.to_string()))?;
    match response.status() {
        http::StatusCode::OK => Ok(()),
        code => Err(NotReady::Answered { code, body: String::from_utf8_lossy(response.body()).trim().to_owned() }),
    }
}

/// Rewrites a kubeconfig: the same cluster and user with another name and server.
pub fn rewrite(kubeconfig: &str, name: &str, server: &str) -> anyhow::Result<String> {
    let mut config: Value = serde_saphyr::from_str(kubeconfig).context("not a kubeconfig")?;
    let current = config["current-context"].as_str().unwrap_or_default().to_owned();
    let context = named(&config, "contexts", &current).map(|context| context["context"].clone());
    let context = context.with_context(|| format!("the kubeconfig has no context {current:?}"))?;
    let find = |list: &str, field: &str| {
        let wanted = context[field].as_str().unwrap_or_default();
        named(&config, list, wanted).cloned().with_context(|| format!("the kubeconfig has no {field} {wanted:?}"))
    };
    let (mut cluster, mut user) = (find("clusters", "cluster")?, find("users", "user")?);
    cluster["name"] = name.into();
    cluster["cluster"]["server"] = server.into();
    user["name"] = name.into();
    config = json!({
        "apiVersion": "v1", "kind": "Config",
        "clusters": [cluster], "users": [user],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    });
    Ok(yaml::to_string(&config))
}

fn named<'a>(config: &'a Value, list: &str, name: &str) -> Option<&'a Value> {
    config[list].as_array()?.iter().find(|entry| entry["name"] == name)
}

/// Writes a kubeconfig with a context per cluster, the control plane's first.
pub fn write_merged(place: &TestbedDir, spec: &Spec) -> anyhow::Result<()> {
    let members = spec.members.iter().map(|member| place.member_config(&member.name));
    let host = spec.host.iter().map(|_| place.member_config(HOST));
    let managed = [place.manager_config(), place.instance_config(), place.member_config(INSTANCE_MEMBER)];
    let managed = managed.into_iter().filter(|_| spec.manager.is_some());
    let paths = std::iter::once(place.plane_config()).chain(host).chain(members).chain(managed);
    let mut merged = json!({
        "apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": [],
        "current-context": PLANE_CONTEXT,
    });
    for path in paths.filter(|path| path.exists()) {
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let config: Value = serde_saphyr::from_str(&text).with_context(|| format!("{} is damaged", path.display()))?;
        for list in ["clusters", "users", "contexts"] {
            let (Some(all), Some(new)) = (merged[list].as_array_mut(), config[list].as_array()) else {
                bail!("{} has no {list}", path.display());
            };
            all.extend(new.iter().cloned());
        }
    }
    write_if_changed(&place.merged_config(), &yaml::to_string(&merged))
}

/// Writes the file unless it already has this content.
pub fn write_if_changed(path: &Path, text: &str) -> anyhow::Result<()> {
    if std::fs::read_to_string(path).is_ok_and(|present| present == text) {
        return Ok(());
    }
    write_file(path, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: &str = "
apiVersion: v1
kind: Config
clusters:
- {name: other, cluster: {server: 'https://far'}}
- {name: inner, cluster: {server: 'https://127.0.0.1:1', certificate-authority-data: Q0E=}}
users:
- {name: admin, user: {token: secret}}
contexts:
- {name: here, context: {cluster: inner, user: admin, namespace: x}}
current-context: here
";

    #[test]
    fn a_rewritten_kubeconfig_has_one_context_named_after_its_cluster() {
        let text = rewrite(GIVEN, "member1", "https://127.0.0.1:16441").unwrap();
        let config = Kubeconfig::parse(&text, Path::new("/")).unwrap();
        assert_eq!(config.contexts().collect::<Vec<_>>(), ["member1"]);
        let remote = config.remote(None).unwrap();
        assert_eq!(remote.server, "https://127.0.0.1:16441");
        assert_eq!(remote.credentials.token.as_deref(), Some("secret"));
        assert!(remote.ca.is_some());
        assert!(rewrite("a: b", "m", "s").is_err());
    }
}
