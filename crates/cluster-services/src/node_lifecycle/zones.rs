//! The health of each zone and the eviction rate in it.

use std::collections::HashMap;
use std::time::Duration;

use object::Object;
use tokio::time::Instant;

use crate::node_lifecycle::taints::{Readiness, readiness_of};
use crate::settings::ClusterServiceSettings;

/// A zone with fewer unhealthy nodes than this is not disrupted.
const UNWELL_MIN: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneState {
    Normal,
    /// So many nodes are unhealthy that the cause may be elsewhere.
    Partial,
    /// All nodes are unhealthy.
    Full,
}

/// Permission to evict the pods of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    Now,
    After(Duration),
    /// Not in the current state of the zone.
    Never,
    /// All nodes of all zones are unhealthy: most likely the control plane is disconnected. Nothing is evicted, and
    /// pending evictions are cancelled.
    Withdrawn,
}

#[derive(Default)]
pub struct Zones {
    nodes: HashMap<String, (String, bool)>,
    counts: HashMap<String, ZoneCount>,
}

#[derive(Default)]
struct ZoneCount {
    well: usize,
    unwell: usize,
    /// When the next node may be evicted.
    next: Option<Instant>,
}

pub fn zone_of(node: &Object) -> String {
    let label = |key: &str| node.label(key).unwrap_or_default();
    format!("{}:{}", label("topology.kubernetes.io/region"), label("topology.kubernetes.io/zone"))
}

impl Zones {
    pub fn set(&mut self, node: &Object) {
        self.remove(node.name());
        let (zone, is_well) = (zone_of(node), readiness_of(node) == Readiness::Ready);
        let count = self.counts.entry(zone.clone()).or_default();
        *count.of(is_well) += 1;
        self.nodes.insert(node.name().to_owned(), (zone, is_well));
    }

    pub fn remove(&mut self, name: &str) {
        let Some((zone, was_well)) = self.nodes.remove(name) else { return };
        // Empty zones are kept, with the time of their last eviction. There are few.
        if let Some(count) = self.counts.get_mut(&zone) {
            *count.of(was_well) -= 1;
        }
    }

    fn state_of(count: &ZoneCount, settings: &ClusterServiceSettings) -> ZoneState {
        let share = count.unwell as f64 / (count.well + count.unwell).max(1) as f64;
        match (count.well, count.unwell) {
            (0, 1..) => ZoneState::Full,
            (_, unwell) if unwell > UNWELL_MIN && share >= settings.unhealthy_zone_threshold => ZoneState::Partial,
            _ => ZoneState::Normal,
        }
    }

    /// Reports whether every zone with nodes is fully disrupted.
    pub fn is_all_lost(&self, settings: &ClusterServiceSettings) -> bool {
        let mut peopled = self.counts.values().filter(|count| count.well + count.unwell > 0).peekable();
        peopled.peek().is_some() && peopled.all(|count| Self::state_of(count, settings) == ZoneState::Full)
    }

    /// Requests the eviction of a node; if granted, it uses up the zone's rate.
    pub fn ask(&mut self, node: &Object, settings: &ClusterServiceSettings) -> Permission {
        if self.is_all_lost(settings) {
            return Permission::Withdrawn;
        }
        let Some(count) = self.counts.get_mut(&zone_of(node)) else { return Permission::Never };
        let size = count.well + count.unwell;
        let rate = match Self::state_of(count, settings) {
            ZoneState::Partial if size > settings.large_cluster_size_threshold => settings.secondary_node_eviction_rate,
            ZoneState::Partial => 0.0,
            ZoneState::Normal | ZoneState::Full => settings.node_eviction_rate,
        };
        if rate <= 0.0 {
            return Permission::Never;
        }
        let now = Instant::now();
        match count.next {
            Some(next) if next > now => Permission::After(next - now),
            _ => {
                count.next = Some(now + Duration::from_secs_f64(1.0 / rate));
                Permission::Now
            }
        }
    }
}

impl ZoneCount {
    fn of(&mut self, is_well: bool) -> &mut usize {
        if is_well { &mut self.well } else { &mut self.unwell }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str, zone: &str, ready: bool) -> Object {
        let node = json!({"metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
            "status": {"conditions": [{"type": "Ready", "status": if ready { "True" } else { "Unknown" }}]}});
        Object::from_value(node).expect("a map")
    }

    fn zones(nodes: &[(&str, usize, usize)]) -> Zones {
        let mut zones = Zones::default();
        for (zone, well, unwell) in nodes {
            for index in 0..well + unwell {
                zones.set(&node(&format!("{zone}{index}"), zone, index >= *unwell));
            }
        }
        zones
    }

    #[track_caller]
    fn check(nodes: &[(&str, usize, usize)], expected: Permission) {
        let asked = node("a0", "a", false);
        assert_eq!(zones(nodes).ask(&asked, &ClusterServiceSettings::default()), expected, "{nodes:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn pods_are_evicted_only_from_faulty_nodes() {
        check(&[("a", 3, 1)], Permission::Now);
        check(&[("a", 2, 3)], Permission::Never);
        check(&[("a", 20, 40)], Permission::Now);
        check(&[("a", 0, 3)], Permission::Withdrawn);
        check(&[("a", 0, 1)], Permission::Withdrawn);
        check(&[("a", 0, 3), ("b", 1, 0)], Permission::Now);
        check(&[("a", 0, 3), ("b", 0, 1)], Permission::Withdrawn);
    }

    #[tokio::test(start_paused = true)]
    async fn one_node_at_a_time() {
        let mut zones = zones(&[("a", 5, 2)]);
        let settings = ClusterServiceSettings::default();
        assert_eq!(zones.ask(&node("a0", "a", false), &settings), Permission::Now);
        assert_eq!(zones.ask(&node("a1", "a", false), &settings), Permission::After(Duration::from_secs(10)));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(zones.ask(&node("a1", "a", false), &settings), Permission::Now);
    }
}
