//! Measures the resource usage of the machine and its containers.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::cri::image_messages::ContainerStats;
use crate::machine::{cpu_nanoseconds, meminfo};
use crate::node::KubeletNode;
use crate::sandbox::{LABEL_CONTAINER, LABEL_NAME, LABEL_NAMESPACE, LABEL_UID};

/// Sampling interval; cpu usage is the rate over it.
const SAMPLE_EVERY: Duration = Duration::from_secs(5);

/// The resource usage of a container or node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceUsage {
    pub cpu_nanocores: u64,
    pub memory_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodUsage {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub containers: BTreeMap<String, ResourceUsage>,
}

/// One sample of everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeUsage {
    pub at: Timestamp,
    /// The interval of the cpu measurement.
    pub window: Duration,
    pub node: ResourceUsage,
    pub pods: Vec<PodUsage>,
}

#[derive(Default)]
pub(crate) struct UsageSampler {
    latest: Mutex<Option<NodeUsage>>,
}

impl UsageSampler {
    pub fn latest(&self) -> Option<NodeUsage> {
        self.latest.lock().clone()
    }
}

/// Monotonic counters and the time they were read.
struct Counters {
    read: Instant,
    node: u64,
    containers: BTreeMap<String, u64>,
}

/// Measures until cancelled.
pub(crate) async fn run(node: &KubeletNode, cancel: CancellationToken) {
    let mut before: Option<Counters> = None;
    loop {
        match node.runtime.container_stats().await {
            Ok(stats) => {
                let counters = count(&stats);
                if let Some(before) = &before {
                    let usage = measure(before, &counters, &stats, node.clock.now());
                    *node.samples.latest.lock() = Some(usage);
                }
                before = Some(counters);
            }
            Err(error) => tracing::debug!(%error, "failed to measure usage"),
        }
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(SAMPLE_EVERY) => {}
        }
    }
}

fn count(stats: &[ContainerStats]) -> Counters {
    let of = |stat: &ContainerStats| {
        let id = stat.attributes.as_ref()?.id.clone();
        Some((id, stat.cpu.as_ref()?.usage_core_nano_seconds.as_ref()?.value))
    };
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    Counters { read: Instant::now(), node: cpu_nanoseconds(&stat), containers: stats.iter().filter_map(of).collect() }
}

fn measure(before: &Counters, now: &Counters, stats: &[ContainerStats], at: Timestamp) -> NodeUsage {
    let window = now.read.duration_since(before.read).max(Duration::from_millis(1));
    let rate = |grown: u64| u64::try_from(u128::from(grown) * 1_000_000_000 / window.as_nanos()).unwrap_or(u64::MAX);
    let mut pods: BTreeMap<String, PodUsage> = BTreeMap::new();
    for stat in stats {
        let Some(attributes) = &stat.attributes else { continue };
        let label = |name: &str| attributes.labels.get(name).cloned().unwrap_or_default();
        let counted = now.containers.get(&attributes.id).copied().unwrap_or_default();
        let counted_before = before.containers.get(&attributes.id).copied().unwrap_or(counted);
        let memory = stat.memory.as_ref().and_then(|memory| memory.working_set_bytes.as_ref());
        let usage = ResourceUsage {
            cpu_nanocores: rate(counted.saturating_sub(counted_before)),
            memory_bytes: memory.map(|bytes| bytes.value).unwrap_or_default(),
        };
        let pod = pods.entry(label(LABEL_UID)).or_insert_with(|| PodUsage {
            namespace: label(LABEL_NAMESPACE),
            name: label(LABEL_NAME),
            uid: label(LABEL_UID),
            containers: BTreeMap::new(),
        });
        pod.containers.insert(label(LABEL_CONTAINER), usage);
    }
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let used = meminfo(&memory, "MemTotal").saturating_sub(meminfo(&memory, "MemAvailable"));
    let node = ResourceUsage {
        cpu_nanocores: rate(now.node.saturating_sub(before.node)),
        memory_bytes: u64::try_from(used).unwrap_or_default(),
    };
    NodeUsage { at, window, node, pods: pods.into_values().collect() }
}

#[cfg(test)]
mod tests {
    use crate::cri::image_messages::{ContainerAttributes, CpuUsage, MemoryUsage, UInt64Value};

    use super::*;

    fn stat(nanoseconds: u64) -> ContainerStats {
        let labels = [(LABEL_UID, "u"), (LABEL_NAME, "web"), (LABEL_NAMESPACE, "default"), (LABEL_CONTAINER, "a")];
        let labels = labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let value = |value| Some(UInt64Value { value });
        ContainerStats {
            attributes: Some(ContainerAttributes { id: "c".into(), metadata: None, labels }),
            cpu: Some(CpuUsage { usage_core_nano_seconds: value(nanoseconds), ..Default::default() }),
            memory: Some(MemoryUsage { working_set_bytes: value(4096), ..Default::default() }),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn cpu_usage_is_a_rate() {
        let before = count(&[stat(1_000_000_000)]);
        tokio::time::advance(Duration::from_secs(2)).await;
        let stats = [stat(2_000_000_000)];
        let usage = measure(&before, &count(&stats), &stats, Timestamp::UNIX_EPOCH);
        let expected = ResourceUsage { cpu_nanocores: 500_000_000, memory_bytes: 4096 };
        assert_eq!(usage.pods[0].containers, BTreeMap::from([("a".to_owned(), expected)]));
        assert_eq!((usage.pods[0].name.as_str(), usage.window), ("web", Duration::from_secs(2)));
    }
}
