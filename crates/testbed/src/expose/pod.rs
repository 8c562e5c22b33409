//! Finding the pod a port leads to, and a way into it: straight to its address where it has a real one, else through its API.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use api::Resource;
use async_trait::async_trait;
use cluster_client::{ClusterClient, ListOptions, ResourceRef};
use object::{Object, conditions};
use provisioners::process::forward::{Dial, Pipe};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use crate::clusters::{NODES, PODS, open};
use crate::expose::{Exposure, PodChoice};

const DIRECT_PATIENCE: Duration = Duration::from_secs(1);
/// Runtimes whose pods have addresses this host can reach.
const REAL_RUNTIMES: [&str; 3] = ["containerd://", "cri-o://", "docker://"];
/// Labels that change when a pod is replaced by its owner.
const PASSING_LABELS: [&str; 5] = [
    "pod-template-hash",
    "controller-revision-hash",
    "pod-template-generation",
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
];

/// Looks up the pod again for each connection.
pub struct Following {
    exposure: Exposure,
    client: Mutex<Option<ClusterClient>>,
}

/// The pod that answers now.
pub struct Found {
    pub namespace: String,
    pub name: String,
    pub address: String,
    /// Can this host reach the address?
    pub is_real: bool,
}

impl Found {
    pub fn describe(&self, port: u16) -> String {
        let way = if self.is_real { format!("{}:{port}", self.address) } else { format!("port-forward to {port}") };
        format!("{}/{} ({way})", self.namespace, self.name)
    }
}

impl Following {
    pub fn new(exposure: Exposure) -> Self {
        Self { exposure, client: Mutex::default() }
    }

    pub async fn find(&self) -> anyhow::Result<Found> {
        let client = self.client().await?;
        let pods = list(&client, &self.exposure.namespace, &self.exposure.pod).await?;
        let pod = choose(&pods).with_context(|| match &self.exposure.pod {
            PodChoice::Name(name) => format!("no pod {name} is ready in namespace {}", self.exposure.namespace),
            PodChoice::Selector(labels) => {
                format!("no pod with {labels} is ready in namespace {}", self.exposure.namespace)
            }
        })?;
        let node = pod.str_at(&["spec", "nodeName"]);
        let node = client.find(ResourceRef::cluster(&NODES.gvr(), node)).await?;
        let runtime = node.as_ref().map_or("", |node| node.str_at(&["status", "nodeInfo", "containerRuntimeVersion"]));
        Ok(Found {
            namespace: pod.namespace().to_owned(),
            name: pod.name().to_owned(),
            address: pod.str_at(&["status", "podIP"]).to_owned(),
            is_real: REAL_RUNTIMES.iter().any(|real| runtime.starts_with(real)),
        })
    }

    async fn client(&self) -> anyhow::Result<ClusterClient> {
        let mut held = self.client.lock().await;
        if let Some(client) = &*held {
            return Ok(client.clone());
        }
        let client = open(&self.exposure.kubeconfig)?;
        Ok(held.insert(client).clone())
    }

    async fn connect(&self) -> anyhow::Result<Box<dyn Pipe>> {
        let found = match self.find().await {
            Ok(found) => found,
            Err(error) => {
                // The cluster may be another one now, with other credentials.
                *self.client.lock().await = None;
                return Err(error);
            }
        };
        if found.is_real {
            let address = format!("{}:{}", found.address, self.exposure.port);
            let direct = tokio::time::timeout(DIRECT_PATIENCE, TcpStream::connect(&address)).await;
            if let Ok(Ok(stream)) = direct {
                stream.set_nodelay(true)?;
                return Ok(Box::new(stream));
            }
        }
        crate::expose::tunnel::open(&self.exposure.kubeconfig, &found, self.exposure.port).await
    }
}

#[async_trait]
impl Dial for Following {
    async fn dial(&self) -> io::Result<Box<dyn Pipe>> {
        self.connect().await.map_err(|error| {
            tracing::warn!(forward = %self.exposure.name, error = %format!("{error:#}"), "no way to the pod");
            io::Error::other(error)
        })
    }
}

/// Kinds that select pods, with the names kubectl has for them and the field of their labels.
const OWNERS: [(&[&str], Resource, &[&str]); 4] = [
    (&["svc", "service", "services"], Resource::namespaced("", "v1", "Service", "services"), &["spec", "selector"]),
    (
        &["deploy", "deployment", "deployments"],
        Resource::namespaced("apps", "v1", "Deployment", "deployments"),
        &["spec", "selector", "matchLabels"],
    ),
    (
        &["sts", "statefulset", "statefulsets"],
        Resource::namespaced("apps", "v1", "StatefulSet", "statefulsets"),
        &["spec", "selector", "matchLabels"],
    ),
    (
        &["ds", "daemonset", "daemonsets"],
        Resource::namespaced("apps", "v1", "DaemonSet", "daemonsets"),
        &["spec", "selector", "matchLabels"],
    ),
];

/// Returns the pods of a workload or Service, such as `deploy/web`.
async fn pods_of(client: &ClusterClient, namespace: &str, kind: &str, name: &str) -> anyhow::Result<PodChoice> {
    let known = OWNERS.iter().find(|(names, _, _)| names.contains(&kind.to_lowercase().as_str()));
    let Some((_, resource, path)) = known else {
        bail!("--pod {kind}/{name}: expected deploy/NAME, sts/NAME, ds/NAME or svc/NAME");
    };
    let owner = client.find(ResourceRef::namespaced(&resource.gvr(), namespace, name)).await?;
    let owner = owner.with_context(|| format!("--pod: {kind}/{name} not found in namespace {namespace}"))?;
    let labels = owner.get(path).and_then(Value::as_object);
    let labels: Vec<String> =
        labels.into_iter().flatten().filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?))).collect();
    anyhow::ensure!(!labels.is_empty(), "--pod: {kind}/{name} selects no pods by labels");
    Ok(PodChoice::Selector(labels.join(",")))
}

/// Parses the value of `--pod`: labels, a workload or Service, or the name of a pod. A pod that its owner would replace by another is
/// followed by its labels.
pub async fn understand(client: &ClusterClient, namespace: &str, typed: &str) -> anyhow::Result<PodChoice> {
    if typed.contains(['=', '!', ',', '(']) {
        object::selector::LabelSelector::parse(typed)
            .map_err(|error| anyhow!("--pod {typed:?} selects nothing: {error}"))?;
        return Ok(PodChoice::Selector(typed.to_owned()));
    }
    if let Some((kind, name)) = typed.split_once('/') {
        return pods_of(client, namespace, kind, name).await;
    }
    let pod = client.find(ResourceRef::namespaced(&PODS.gvr(), namespace, typed)).await?;
    let Some(pod) = pod else {
        bail!("pod {typed} not found in namespace {namespace}; use labels such as --pod app=web for future pods");
    };
    let labels: Vec<String> = pod
        .labels()
        .filter(|(key, _)| !PASSING_LABELS.contains(key))
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let has_owner = pod.owner_references().iter().any(|owner| owner.controller);
    // A StatefulSet's pods keep their names.
    let keeps_name = pod.label("statefulset.kubernetes.io/pod-name").is_some();
    if has_owner && !keeps_name && !labels.is_empty() {
        return Ok(PodChoice::Selector(labels.join(",")));
    }
    Ok(PodChoice::Name(typed.to_owned()))
}

async fn list(client: &ClusterClient, namespace: &str, pod: &PodChoice) -> anyhow::Result<Vec<Arc<Object>>> {
    match pod {
        PodChoice::Name(name) => {
            let found = client.find(ResourceRef::namespaced(&PODS.gvr(), namespace, name)).await?;
            Ok(found.into_iter().collect())
        }
        PodChoice::Selector(labels) => {
            let options = ListOptions { label_selector: Some(labels.clone()), ..ListOptions::default() };
            Ok(client.list_all(ResourceRef::within(&PODS.gvr(), namespace), options).await?.items)
        }
    }
}

/// The oldest that is ready, so that connections stay with one pod while it lives.
fn choose(pods: &[Arc<Object>]) -> Option<&Arc<Object>> {
    let is_ready = |pod: &&Arc<Object>| !pod.is_deleting() && conditions::is_true(pod, "Ready");
    pods.iter().filter(is_ready).min_by_key(|pod| (pod.creation_timestamp().to_owned(), pod.name().to_owned()))
}

#[cfg(test)]
mod tests {
    use cluster_client::testing::MemoryApi;
    use serde_json::json;

    use super::*;

    fn pod(name: &str, labels: Value, is_ready: bool) -> Object {
        let mut pod = PODS.object("default", name);
        pod.set(&["metadata", "labels"], labels);
        let status = if is_ready { "True" } else { "False" };
        pod.set(&["status"], json!({"conditions": [{"type": "Ready", "status": status}], "podIP": "10.0.0.1"}));
        pod
    }

    #[tokio::test]
    async fn a_pod_of_a_deployment_is_selected_by_its_stable_labels() {
        let api = MemoryApi::default();
        let mut owned = pod("web-1", json!({"app": "web", "pod-template-hash": "1"}), true);
        owned.set(
            &["metadata", "ownerReferences"],
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true}]),
        );
        api.seed(&PODS.gvr(), owned);
        api.seed(&PODS.gvr(), pod("lone", json!({"app": "lone"}), true));
        let client = api.client();
        let understood = |typed: &'static str| understand(&client, "default", typed);
        assert_eq!(understood("web-1").await.unwrap(), PodChoice::Selector("app=web".into()));
        assert_eq!(understood("lone").await.unwrap(), PodChoice::Name("lone".into()));
        assert_eq!(understood("app=web").await.unwrap(), PodChoice::Selector("app=web".into()));
        assert!(understood("missing").await.is_err());
        let mut service = OWNERS[0].1.object("default", "web");
        service.set(&["spec", "selector"], json!({"app": "web", "tier": "front"}));
        api.seed(&OWNERS[0].1.gvr(), service);
        assert_eq!(understood("svc/web").await.unwrap(), PodChoice::Selector("app=web,tier=front".into()));
        for wrong in ["svc/missing", "node/web"] {
            assert!(understood(wrong).await.is_err(), "{wrong}");
        }
    }

    #[tokio::test]
    async fn only_pods_that_are_ready_get_connections() {
        let api = MemoryApi::default();
        for (name, is_ready) in [("a", false), ("b", true), ("c", true)] {
            api.seed(&PODS.gvr(), pod(name, json!({"app": "web"}), is_ready));
        }
        let pods = list(&api.client(), "default", &PodChoice::Selector("app=web".into())).await.unwrap();
        assert_eq!(choose(&pods).map(|pod| pod.name()), Some("b"));
        assert!(choose(&pods[..1]).is_none());
    }
}
