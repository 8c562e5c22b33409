//! The settings of simulated nodes and their delays.

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::behaviour::PodFault;

/// A set of simulated nodes that differ only in name, addresses and zone.
#[derive(Clone, Debug)]
pub struct SimulatedNodeSettings {
    /// Shown on the page served by pods.
    pub cluster_name: String,
    pub nodes: u32,
    /// Nodes are named `PREFIX-1`, `PREFIX-2` and so on.
    pub name_prefix: String,
    pub capacity: NodeCapacity,
    /// For example `v1.36.4`, as shown by `kubectl get nodes`.
    pub kubernetes_version: String,
    /// Assigned round-robin; empty omits the label.
    pub zones: Vec<String>,
    pub regions: Vec<String>,
    /// On every node.
    pub labels: Vec<(String, String)>,
    pub delays: Delays,
    /// The first rule that matches the image applies; pod annotations take precedence.
    pub rules: Vec<ImageRule>,
    /// First address of nodes.
    pub node_network: Ipv4Addr,
    /// Pod addresses: each node has its own range, starting here.
    pub pod_network: Ipv4Addr,
}

#[derive(Clone, Debug)]
pub struct NodeCapacity {
    /// As quantities: `8`, `32Gi`.
    pub cpu: String,
    pub memory: String,
    pub pods: u32,
    pub ephemeral_storage: String,
    /// For example `nvidia.com/gpu`.
    pub extended: Vec<(String, String)>,
}

/// Simulated delays.
#[derive(Clone, Debug)]
pub struct Delays {
    /// From a pod's arrival until its containers start.
    pub create: Duration,
    /// From a start until probes succeed, in addition to their initial delay.
    pub ready: Duration,
    /// Run time of an init container.
    pub init: Duration,
    /// Run time of a container that completes by itself.
    pub job: Duration,
    /// Run time of a container that crashes.
    pub crash: Duration,
    /// Time a container takes to stop.
    pub stop: Duration,
    pub backoff_first: Duration,
    pub backoff_max: Duration,
    /// Interval between generated log lines.
    pub log_every: Duration,
}

/// The behaviour of containers by image.
#[derive(Clone, Debug)]
pub struct ImageRule {
    /// `*` matches any text: `*/broken:*`.
    pub image: String,
    pub fault: Option<PodFault>,
    pub start_delay: Option<Duration>,
    pub run_for: Option<Duration>,
    pub exit_code: Option<i32>,
}

impl Default for SimulatedNodeSettings {
    fn default() -> Self {
        Self {
            cluster_name: "member".to_owned(),
            nodes: 1,
            name_prefix: "node".to_owned(),
            capacity: NodeCapacity::default(),
            kubernetes_version: "v1.36.4".to_owned(),
            zones: Vec::new(),
            regions: Vec::new(),
            labels: Vec::new(),
            delays: Delays::default(),
            rules: Vec::new(),
            node_network: Ipv4Addr::new(172, 18, 0, 0),
            pod_network: Ipv4Addr::new(10, 64, 0, 0),
        }
    }
}

impl Default for NodeCapacity {
    fn default() -> Self {
        Self {
            cpu: "8".to_owned(),
            memory: "32Gi".to_owned(),
            pods: 110,
            ephemeral_storage: "100Gi".to_owned(),
            extended: Vec::new(),
        }
    }
}

impl Default for Delays {
    fn default() -> Self {
        Self {
            create: Duration::from_millis(200),
            ready: Duration::from_millis(200),
            init: Duration::from_millis(200),
            job: Duration::from_secs(1),
            crash: Duration::from_secs(1),
            stop: Duration::from_millis(100),
            backoff_first: Duration::from_secs(10),
            backoff_max: Duration::from_secs(300),
            log_every: Duration::from_secs(10),
        }
    }
}

impl Delays {
    /// No delays, for benchmarks of other components.
    pub fn none() -> Self {
        let zero = Duration::ZERO;
        Self { create: zero, ready: zero, init: zero, job: zero, stop: zero, ..Self::default() }
    }
}

impl SimulatedNodeSettings {
    pub fn node_name(&self, index: u32) -> String {
        format!("{}-{}", self.name_prefix, index + 1)
    }

    /// Returns the index of a node; `None` for other nodes.
    pub fn node_index(&self, name: &str) -> Option<u32> {
        let number = name.strip_prefix(&self.name_prefix)?.strip_prefix('-')?;
        let index = number.parse::<u32>().ok()?.checked_sub(1)?;
        (index < self.nodes && number == (index + 1).to_string()).then_some(index)
    }
}

/// Matches a pattern in which `*` matches any text.
pub fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut rest) = text.strip_prefix(head) else { return false };
    let mut parts: Vec<&str> = tail.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_images() {
        let cases = [
            ("nginx", "nginx", true),
            ("nginx", "nginx:1.25", false),
            ("nginx*", "nginx:1.25", true),
            ("*/broken:*", "registry/team/broken:v1", true),
            ("*broken", "broken:v1", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b", "ab", true),
            ("ab*b", "ab", false),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(matches(pattern, text), expected, "{pattern} on {text}");
        }
    }

    #[test]
    fn node_indexes_are_parsed_from_names() {
        let settings =
            SimulatedNodeSettings { nodes: 3, name_prefix: "m1-node".into(), ..SimulatedNodeSettings::default() };
        assert_eq!(settings.node_name(0), "m1-node-1");
        for index in 0..3 {
            assert_eq!(settings.node_index(&settings.node_name(index)), Some(index));
        }
        for other in ["m1-node-4", "m1-node-0", "m1-node-01", "m1-node-", "m1-node-+1", "node-1", ""] {
            assert_eq!(settings.node_index(other), None, "{other}");
        }
    }
}
