//! Counts replicas that flow from namespaces, policies or workloads into clusters, bounded so that a map stays readable.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use object::{Object, Status};
use serde_json::{Value, json};

use crate::bindings::filter::policy_of;

/// Nodes of each side; the smaller ones become one.
const SOURCES_MAX: usize = 24;
const CLUSTERS_MAX: usize = 40;
const REST: &str = "…";

/// The kind of the sources of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowGrouping {
    Namespace,
    Policy,
    Workload,
}

impl FlowGrouping {
    pub fn parse(text: &str) -> Result<Self, Status> {
        match text {
            "" | "namespace" => Ok(Self::Namespace),
            "policy" => Ok(Self::Policy),
            "workload" => Ok(Self::Workload),
            other => Err(Status::bad_request(format!("by must be namespace, policy or workload, not {other:?}"))),
        }
    }

    fn source_of(self, binding: &Object) -> String {
        let part = |field: &str| binding.str_at(&["spec", "resource", field]);
        match self {
            Self::Namespace => part("namespace").to_owned(),
            Self::Workload => format!("{}/{} ({})", part("namespace"), part("name"), part("kind")),
            Self::Policy => policy_of(binding)
                .and_then(|policy| policy.rsplit_once('/').map(|(_, name)| name.to_owned()))
                .unwrap_or_else(|| "–".to_owned()),
        }
    }
}

/// The replicas of all bindings that were added, by source and cluster.
pub struct ReplicaFlows {
    by: FlowGrouping,
    counts: BTreeMap<String, BTreeMap<String, i64>>,
}

impl ReplicaFlows {
    pub fn by(by: FlowGrouping) -> Self {
        Self { by, counts: BTreeMap::new() }
    }

    pub fn add(&mut self, binding: &Arc<Object>) {
        for target in binding.items(&["spec", "clusters"]) {
            // Objects without replicas, such as ConfigMaps, are no flow of replicas.
            let replicas = target["replicas"].as_i64().unwrap_or(0);
            let Some(cluster) = target["name"].as_str().filter(|_| replicas > 0) else { continue };
            let row = self.counts.entry(self.by.source_of(binding)).or_default();
            *row.entry(cluster.to_owned()).or_default() += replicas;
        }
    }

    /// The largest sources and clusters by name; the rest of each side is one node.
    pub fn to_value(&self) -> Value {
        let mut by_source: BTreeMap<&str, i64> = BTreeMap::new();
        let mut by_cluster: BTreeMap<&str, i64> = BTreeMap::new();
        for (source, cluster, replicas) in self.cells() {
            *by_source.entry(source).or_default() += replicas;
            *by_cluster.entry(cluster).or_default() += replicas;
        }
        let (sources, clusters) = (largest(&by_source, SOURCES_MAX), largest(&by_cluster, CLUSTERS_MAX));
        let mut flows: BTreeMap<(&str, &str), i64> = BTreeMap::new();
        for (source, cluster, replicas) in self.cells() {
            let from = if sources.contains(source) { source } else { REST };
            let to = if clusters.contains(cluster) { cluster } else { REST };
            *flows.entry((from, to)).or_default() += replicas;
        }
        let (from, to) = (
            nodes(flows.iter().map(|((from, _), replicas)| (*from, *replicas))),
            nodes(flows.iter().map(|((_, to), replicas)| (*to, *replicas))),
        );
        let flows: Vec<Value> =
            flows.iter().map(|((from, to), replicas)| json!({"from": from, "to": to, "replicas": replicas})).collect();
        json!({"sources": from, "clusters": to, "flows": flows})
    }

    fn cells(&self) -> impl Iterator<Item = (&str, &str, i64)> {
        self.counts.iter().flat_map(|(source, row)| {
            row.iter().map(move |(cluster, count)| (source.as_str(), cluster.as_str(), *count))
        })
    }
}

fn largest<'a>(totals: &BTreeMap<&'a str, i64>, max: usize) -> BTreeSet<&'a str> {
    let mut all: Vec<(&str, i64)> = totals.iter().map(|(name, total)| (*name, *total)).collect();
    all.sort_by_key(|(_, total)| std::cmp::Reverse(*total));
    all.into_iter().take(max).map(|(name, _)| name).collect()
}

/// One side of the map by name, with the rest at its end.
fn nodes<'a>(parts: impl Iterator<Item = (&'a str, i64)>) -> Vec<Value> {
    let mut weights: BTreeMap<(bool, &str), i64> = BTreeMap::new();
    for (name, replicas) in parts {
        *weights.entry((name == REST, name)).or_default() += replicas;
    }
    weights.into_iter().map(|((_, name), weight)| json!({"id": name, "text": name, "weight": weight})).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding(namespace: &str, name: &str, clusters: &Value) -> Arc<Object> {
        let value = json!({
            "metadata": {"name": name, "annotations": {"clusterpropagationpolicy.karmada.io/name": "all"}},
            "spec": {"resource": {"kind": "Deployment", "namespace": namespace, "name": name}, "clusters": clusters},
        });
        Arc::new(Object::from_value(value).expect("an object"))
    }

    fn flows(by: &str, bindings: &[Arc<Object>]) -> Value {
        let mut flows = ReplicaFlows::by(FlowGrouping::parse(by).expect("a grouping"));
        bindings.iter().for_each(|binding| flows.add(binding));
        flows.to_value()
    }

    #[test]
    fn replicas_are_summed_by_source_and_cluster() {
        let bindings = [
            binding("shop", "web", &json!([{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 1}])),
            binding("shop", "api", &json!([{"name": "m1", "replicas": 3}])),
            binding("data", "db", &json!([{"name": "m2", "replicas": 1}, {"name": "m3"}])),
        ];
        let value = flows("namespace", &bindings);
        let flow = |from: &str, to: &str, replicas: i64| json!({"from": from, "to": to, "replicas": replicas});
        assert_eq!(value["flows"], json!([flow("data", "m2", 1), flow("shop", "m1", 5), flow("shop", "m2", 1)]));
        let node = |id: &str, weight: i64| json!({"id": id, "text": id, "weight": weight});
        assert_eq!(value["sources"], json!([node("data", 1), node("shop", 6)]));
        assert_eq!(value["clusters"], json!([node("m1", 5), node("m2", 2)]), "m3 gets no replicas");
        assert_eq!(flows("policy", &bindings)["sources"], json!([node("all", 7)]));
        assert_eq!(flows("workload", &bindings)["sources"][0], node("data/db (Deployment)", 1));
        assert_eq!(FlowGrouping::parse("colour").expect_err("no grouping").code, 400);
    }

    #[test]
    fn small_sources_become_one_at_the_end() {
        let many: Vec<Arc<Object>> = (0..100)
            .map(|number| {
                let replicas = if number < 50 { 1 } else { 100 + number };
                binding(&format!("ns{number:03}"), "web", &json!([{"name": "m1", "replicas": replicas}]))
            })
            .collect();
        let value = flows("namespace", &many);
        let sources = value["sources"].as_array().expect("a list");
        assert_eq!(
            (sources.len(), &sources[0]["id"], &sources[SOURCES_MAX]["id"]),
            (25, &json!("ns076"), &json!(REST))
        );
        let total: i64 = sources.iter().filter_map(|source| source["weight"].as_i64()).sum();
        assert_eq!(value["clusters"], json!([{"id": "m1", "text": "m1", "weight": total}]), "no replica is lost");
    }
}
