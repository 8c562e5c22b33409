//! What simulated nodes are like and how long things take on them.

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::behaviour::Fault;

/// A set of simulated nodes, all alike but for their names, addresses and places.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Shown on the page pods answer with.
    pub cluster_name: String,
    pub nodes: u32,
    /// Nodes are called `PREFIX-1`, `PREFIX-2` and so on.
    pub name_prefix: String,
    pub capacity: Capacity,
    /// Such as `v1.36.4`, as `kubectl get nodes` shows it.
    pub kubernetes_version: String,
    /// Given out in turn, so that each zone has as many nodes as the next; none leaves the label out.
    pub zones: Vec<String>,
    pub regions: Vec<String>,
    /// On every node.
    pub labels: Vec<(String, String)>,
    pub delays: Delays,
    /// The first whose image matches counts; annotations of a pod go before.
    pub rules: Vec<Rule>,
    /// Nodes' own addresses are counted from here.
    pub node_network: Ipv4Addr,
    /// Pods' addresses: each node has a range of its own, counted from here.
    pub pod_network: Ipv4Addr,
}

#[derive(Clone, Debug)]
pub struct Capacity {
    /// As quantities: `8`, `32Gi`.
    pub cpu: String,
    pub memory: String,
    pub pods: u32,
    pub ephemeral_storage: String,
    /// Such as `nvidia.com/gpu`.
    pub extended: Vec<(String, String)>,
}

/// How long things take.
#[derive(Clone, Debug)]
pub struct Delays {
    /// From a pod's arrival until its containers start.
    pub create: Duration,
    /// From a start until probes that are there succeed, besides their own initial delay.
    pub ready: Duration,
    /// What an init container runs for.
    pub init: Duration,
    /// What a container runs for that is to come to an end by itself.
    pub job: Duration,
    /// What a container that is to crash runs for.
    pub crash: Duration,
    /// What a container takes to stop once asked.
    pub stop: Duration,
    pub backoff_first: Duration,
    pub backoff_max: Duration,
    /// Between lines of a container's log that has nothing else to say.
    pub log_every: Duration,
}

/// What containers of some image do.
#[derive(Clone, Debug)]
pub struct Rule {
    /// `*` stands for anything: `*/broken:*`.
    pub image: String,
    pub fault: Option<Fault>,
    pub start_delay: Option<Duration>,
    pub run_for: Option<Duration>,
    pub exit_code: Option<i32>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cluster_name: "member".to_owned(),
            nodes: 1,
            name_prefix: "node".to_owned(),
            capacity: Capacity::default(),
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

impl Default for Capacity {
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
    /// Everything at once, for measuring others.
    pub fn none() -> Self {
        let zero = Duration::ZERO;
        Self { create: zero, ready: zero, init: zero, job: zero, stop: zero, ..Self::default() }
    }
}

impl Settings {
    pub fn node_name(&self, index: u32) -> String {
        format!("{}-{}", self.name_prefix, index + 1)
    }

    /// Which of the nodes it is; `None` for nodes of others.
    pub fn node_index(&self, name: &str) -> Option<u32> {
        let number = name.strip_prefix(&self.name_prefix)?.strip_prefix('-')?;
        let index = number.parse::<u32>().ok()?.checked_sub(1)?;
        (index < self.nodes && number == (index + 1).to_string()).then_some(index)
    }
}

/// Does the text match a pattern in which `*` stands for anything?
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
    fn nodes_are_known_by_their_names() {
        let settings = Settings { nodes: 3, name_prefix: "m1-node".into(), ..Settings::default() };
        assert_eq!(settings.node_name(0), "m1-node-1");
        for index in 0..3 {
            assert_eq!(settings.node_index(&settings.node_name(index)), Some(index));
        }
        for other in ["m1-node-4", "m1-node-0", "m1-node-01", "m1-node-", "m1-node-+1", "node-1", ""] {
            assert_eq!(settings.node_index(other), None, "{other}");
        }
    }
}
