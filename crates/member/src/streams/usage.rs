//! Resource usage of pods and nodes, measured or simulated by the backend, for the metrics API.

use apiserver::usage::{Asked, UsageSource, Usages};
use async_trait::async_trait;
use kubelet::{Kubelet, NodeUsage};
use object::{Object, Status, time};
use serde_json::{Value, json};
use simulated_nodes::metrics::MetricsQuery;

use crate::backends::{Backends, Runner};

/// The usage of this member's nodes; empty while they start.
pub struct MemberUsage {
    pub backends: Backends,
}

#[async_trait]
impl UsageSource for MemberUsage {
    async fn pods(&self, asked: &Asked<'_>) -> Result<Usages, Status> {
        let items = match self.backends.runner() {
            Ok(Runner::Simulated(simulation)) => simulation.pod_metrics(&wanted(asked)),
            Ok(Runner::Containers(kubelet)) => measured_pods(kubelet, asked),
            Err(_) => Vec::new(),
        };
        Ok(Usages { items, ..Usages::default() })
    }

    async fn nodes(&self, asked: &Asked<'_>) -> Result<Usages, Status> {
        let items = match self.backends.runner() {
            Ok(Runner::Simulated(simulation)) => simulation.node_metrics(&wanted(asked)),
            Ok(Runner::Containers(kubelet)) => measured_node(kubelet, asked).into_iter().collect(),
            Err(_) => Vec::new(),
        };
        Ok(Usages { items, ..Usages::default() })
    }
}

fn wanted<'a>(asked: &Asked<'a>) -> MetricsQuery<'a> {
    MetricsQuery { namespace: asked.namespace, name: asked.name, labels: asked.labels }
}

fn measured_pods(kubelet: &Kubelet, asked: &Asked<'_>) -> Vec<Object> {
    let Some(usage) = kubelet.usage() else { return Vec::new() };
    let mut found = Vec::new();
    for pod in &usage.pods {
        let is_asked = asked.namespace.is_none_or(|namespace| namespace == pod.namespace)
            && asked.name.is_none_or(|name| name == pod.name);
        let object = kubelet.find_pod(&pod.namespace, &pod.name).filter(|object| object.uid() == pod.uid);
        let Some(object) = object.filter(|object| is_asked && asked.labels.is_none_or(|labels| labels.matches(object)))
        else {
            continue;
        };
        let containers = pod.containers.iter().map(|(name, used)| json!({"name": name, "usage": amounts(used)}));
        let mut metrics = head("PodMetrics", &pod.name, &usage);
        metrics.set(&["metadata", "namespace"], pod.namespace.as_str());
        if let Some(labels) = object.get(&["metadata", "labels"]) {
            metrics.set(&["metadata", "labels"], labels.clone());
        }
        metrics.set(&["containers"], containers.collect::<Vec<Value>>());
        found.push(metrics);
    }
    found.sort_by(|a, b| (a.namespace(), a.name()).cmp(&(b.namespace(), b.name())));
    found
}

fn measured_node(kubelet: &Kubelet, asked: &Asked<'_>) -> Option<Object> {
    let name = kubelet.node_name();
    if asked.name.is_some_and(|wanted| wanted != name) {
        return None;
    }
    let usage = kubelet.usage()?;
    let mut metrics = head("NodeMetrics", name, &usage);
    metrics.set(&["usage"], amounts(&usage.node));
    Some(metrics)
}

fn amounts(usage: &kubelet::ResourceUsage) -> Value {
    json!({"cpu": format!("{}n", usage.cpu_nanocores), "memory": format!("{}Ki", usage.memory_bytes / 1024)})
}

fn head(kind: &str, name: &str, usage: &NodeUsage) -> Object {
    let at = time::format_seconds(usage.at);
    let root = json!({"apiVersion": "metrics.k8s.io/v1beta1", "kind": kind,
        "metadata": {"name": name, "creationTimestamp": at}, "timestamp": at,
        "window": format!("{}s", usage.window.as_secs().max(1))});
    Object::from_value(root).unwrap_or_default()
}
