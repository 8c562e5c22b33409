//! Resource usage of pods and nodes for `metrics.k8s.io`.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use object::quantity::Quantity;
use object::selector::LabelSelector;
use object::{Object, time};
use serde_json::{Map, Value, json};

use crate::behaviour::{USAGE_CPU, USAGE_MEMORY};
use crate::simulation::{Simulation, until};
use crate::usage::{Moment, Program};

pub const GROUP: &str = "metrics.k8s.io";
pub const VERSION: &str = "v1beta1";

/// Usage of a container without a usage program: thousandths of its request, or else this default.
const CPU_PART_OF_REQUEST: i64 = 100;
const CPU_IDLE_MILLI: i64 = 1;
const MEMORY_PART_OF_REQUEST: i64 = 500;
const MEMORY_IDLE: i64 = 16 * 1024 * 1024;
/// Base usage of a node without pods.
const NODE_CPU_MILLI: i64 = 100;
const NODE_MEMORY: i64 = 512 * 1024 * 1024;

/// Selects the requested objects.
#[derive(Clone, Debug, Default)]
pub struct MetricsQuery<'a> {
    pub namespace: Option<&'a str>,
    pub name: Option<&'a str>,
    pub labels: Option<&'a LabelSelector>,
}

/// CPU in thousandths of a core, memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SimulatedUsage {
    cpu: i64,
    memory: i64,
}

/// Returns the owner of a pod with a shared load, as index key.
pub(crate) fn load_of(pod: &Object) -> Vec<String> {
    let shares =
        [USAGE_CPU, USAGE_MEMORY].iter().any(|name| pod.annotation(name).is_some_and(|t| t.contains("shared(")));
    let runs = pod.str_at(&["status", "phase"]) == "Running" && !pod.is_deleting();
    if !shares || !runs {
        return Vec::new();
    }
    pod.owner_references().into_iter().filter(|owner| owner.controller).map(|owner| owner.uid).collect()
}

impl Simulation {
    /// Returns metrics of pods running on these nodes, by namespace and name.
    pub fn pod_metrics(&self, wanted: &MetricsQuery<'_>) -> Vec<Object> {
        let inner = &self.inner;
        let pods = match (wanted.namespace, wanted.name) {
            (Some(namespace), Some(name)) => self.pod(namespace, name, "").into_iter().collect(),
            (Some(namespace), None) => inner.pods.list_within(namespace),
            (None, _) => inner.pods.list(),
        };
        let mine = pods.iter().filter(|pod| self.runs(pod.str_at(&["spec", "nodeName"])));
        let mine = mine.filter(|pod| wanted.labels.is_none_or(|labels| labels.matches(pod)));
        let now = self.now();
        mine.filter_map(|pod| {
            let containers: Vec<Value> = self
                .container_usages(pod, now)?
                .into_iter()
                .map(|(name, usage)| json!({"name": name, "usage": usage.to_value()}))
                .collect();
            let mut metrics = head("PodMetrics", pod, now);
            metrics.set(&["containers"], containers);
            Some(metrics)
        })
        .collect()
    }

    pub fn node_metrics(&self, wanted: &MetricsQuery<'_>) -> Vec<Object> {
        let nodes = self.inner.nodes.list();
        let mine = nodes.iter().filter(|node| self.runs(node.name()) && !self.is_silent(node.name()));
        let mine = mine.filter(|node| wanted.name.is_none_or(|name| node.name() == name));
        let mine = mine.filter(|node| wanted.labels.is_none_or(|labels| labels.matches(node)));
        let now = self.now();
        mine.map(|node| {
            let mut total = SimulatedUsage { cpu: NODE_CPU_MILLI, memory: NODE_MEMORY };
            for pod in self.inner.pods_by_node.list(node.name()) {
                for (_, usage) in self.container_usages(&pod, now).unwrap_or_default() {
                    total.cpu += usage.cpu;
                    total.memory += usage.memory;
                }
            }
            let mut metrics = head("NodeMetrics", node, now);
            metrics.set(&["usage"], total.to_value());
            metrics
        })
        .collect()
    }

    /// Returns the usage of each running container; `None` if none runs.
    fn container_usages(&self, pod: &Object, now: Timestamp) -> Option<Vec<(String, SimulatedUsage)>> {
        let started = time::parse(pod.str_at(&["status", "startTime"]))?;
        let lists = ["initContainerStatuses", "containerStatuses"];
        let statuses = lists.iter().flat_map(|list| pod.items(&["status", list]));
        let running = statuses.filter(|status| status["state"].get("running").is_some());
        let running: Vec<&str> = running.filter_map(|status| status["name"].as_str()).collect();
        if running.is_empty() {
            return None;
        }
        let since_epoch = Duration::from_millis(u64::try_from(now.as_millisecond()).unwrap_or(0));
        let siblings = load_of(pod).first().map_or(1, |owner| self.inner.pods_by_load.keys(owner).len() as u64);
        let moment = Moment { age: until(started, now), time: since_epoch, siblings };
        let amount = |name: &str| pod.annotation(name).and_then(Program::parse).map(|program| program.milli(moment));
        let share = |amount: i64| amount / running.len() as i64;
        let (cpu, memory) = (amount(USAGE_CPU).map(share), amount(USAGE_MEMORY).map(share).map(|milli| milli / 1000));
        let requests = requests(pod);
        let usage = |name: &str| {
            let asked = requests.get(name).copied().unwrap_or_default();
            let part = |amount: i64, part: i64, least: i64| (amount.saturating_mul(part) / 1000).max(least);
            SimulatedUsage {
                cpu: cpu.unwrap_or_else(|| part(asked.cpu, CPU_PART_OF_REQUEST, CPU_IDLE_MILLI)),
                memory: memory.unwrap_or_else(|| part(asked.memory, MEMORY_PART_OF_REQUEST, MEMORY_IDLE)),
            }
        };
        Some(running.iter().map(|name| ((*name).to_owned(), usage(name))).collect())
    }
}

fn requests(pod: &Object) -> HashMap<&str, SimulatedUsage> {
    let specs = ["initContainers", "containers"].iter().flat_map(|list| pod.items(&["spec", list]));
    let read = |spec: &Value, name: &str| {
        let text = spec["resources"]["requests"][name].as_str()?;
        Quantity::parse(text).ok()
    };
    specs
        .filter_map(|spec| {
            let cpu = read(spec, "cpu").map_or(0, |amount| amount.milli_value());
            let memory = read(spec, "memory").map_or(0, |amount| amount.value());
            Some((spec["name"].as_str()?, SimulatedUsage { cpu, memory }))
        })
        .collect()
}

impl SimulatedUsage {
    fn to_value(self) -> Value {
        json!({"cpu": format!("{}m", self.cpu), "memory": format!("{}Ki", self.memory / 1024)})
    }
}

fn head(kind: &str, about: &Object, now: Timestamp) -> Object {
    let labels: Map<String, Value> = about.labels().map(|(key, value)| (key.to_owned(), value.into())).collect();
    let mut metadata = json!({"name": about.name(), "creationTimestamp": time::format_seconds(now)});
    if !about.namespace().is_empty() {
        metadata["namespace"] = about.namespace().into();
    }
    if !labels.is_empty() {
        metadata["labels"] = labels.into();
    }
    let root = json!({"apiVersion": format!("{GROUP}/{VERSION}"), "kind": kind, "metadata": metadata,
        "timestamp": time::format_seconds(now), "window": "15s"});
    Object::from_value(root).unwrap_or_default()
}
