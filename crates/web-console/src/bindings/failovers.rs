//! Failovers that bindings remember, and the workloads that could return to a cluster.

use std::sync::Arc;

use api::failover::Move;
use api::work::{BindingSpec, ObjectReference, TargetCluster};
use object::Object;
use propagation::failover_history::History;
use serde::Serialize;
use serde_json::{Value, json};

/// Workloads named as having left a cluster; the rest is counted.
const LEFT_MAX: usize = 2_000;

/// One move of one workload.
#[derive(Serialize)]
struct MovedWorkload {
    subject: ObjectReference,
    #[serde(flatten)]
    entry: Move,
}

/// The moves of all bindings that were added.
#[derive(Default)]
pub struct Failovers {
    /// Moves out of other clusters are left out; empty for all.
    cluster: String,
    moves: Vec<MovedWorkload>,
    left: Vec<ObjectReference>,
    left_total: usize,
}

impl Failovers {
    pub fn of_cluster(cluster: &str) -> Self {
        Self { cluster: cluster.to_owned(), ..Self::default() }
    }

    pub fn add(&mut self, binding: &Arc<Object>) {
        let history = History::of(binding);
        if history.0.is_empty() {
            return;
        }
        // An unreadable part of a binding hides nothing else: its controllers report it.
        let template: ObjectReference = api::read_at(binding, &["spec", "resource"]).unwrap_or_default();
        let subject = ObjectReference { uid: String::new(), resource_version: String::new(), ..template };
        let clusters: Vec<TargetCluster> = api::read_at(binding, &["spec", "clusters"]).unwrap_or_default();
        let spec = BindingSpec { clusters, ..BindingSpec::default() };
        if !self.cluster.is_empty() && history.left(&spec).contains(&self.cluster) {
            self.left_total += 1;
            if self.left.len() < LEFT_MAX {
                self.left.push(subject.clone());
            }
        }
        let is_wanted = |entry: &Move| self.cluster.is_empty() || entry.from == self.cluster;
        let wanted = history.0.into_iter().filter(is_wanted);
        self.moves.extend(wanted.map(|entry| MovedWorkload { subject: subject.clone(), entry }));
    }

    /// The newest moves, and the workloads that left the cluster and did not return.
    pub fn newest(mut self, limit: usize) -> Value {
        let total = self.moves.len();
        self.moves.sort_by(|one, other| other.entry.time.cmp(&one.entry.time));
        self.moves.truncate(limit);
        json!({"items": self.moves, "total": total, "left": self.left, "leftTotal": self.left_total})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding(name: &str, cluster: &str, history: &Value) -> Arc<Object> {
        let value = json!({
            "metadata": {"name": name, "annotations": {"flotilla.dev/failover-history": history.to_string()}},
            "spec": {
                "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": name},
                "clusters": [{"name": cluster, "replicas": 1}],
            },
        });
        Arc::new(Object::from_value(value).expect("an object"))
    }

    fn moved(time: &str, from: &str, returned: &str) -> Value {
        json!({"time": time, "from": from, "reason": "TaintUntolerated", "by": "TaintManager",
            "to": [{"name": "m9"}], "returned": returned})
    }

    fn failovers(cluster: &str) -> Failovers {
        let mut found = Failovers::of_cluster(cluster);
        let twice = json!([
            moved("2026-01-01T00:00:01Z", "m1", "2026-01-01T00:00:02Z"),
            moved("2026-01-01T00:00:03Z", "m1", ""),
        ]);
        found.add(&binding("web", "m2", &twice));
        found.add(&binding("back", "m1", &json!([moved("2026-01-01T00:00:05Z", "m1", "2026-01-01T00:00:06Z")])));
        found.add(&binding("other", "m4", &json!([moved("2026-01-01T00:00:04Z", "m3", "")])));
        found.add(&binding("quiet", "m1", &json!([])));
        found
    }

    #[test]
    fn moves_of_all_bindings_are_listed_newest_first() {
        let value = failovers("").newest(3);
        let from: Vec<&Value> = value["items"].as_array().expect("a list").iter().map(|one| &one["from"]).collect();
        assert_eq!((json!(from), &value["total"]), (json!(["m1", "m3", "m1"]), &json!(4)));
        assert_eq!(value["items"][0]["subject"]["name"], "back");
        assert_eq!(value["left"], json!([]), "asked for no cluster");
    }

    #[test]
    fn only_workloads_that_did_not_return_are_to_be_failed_back() {
        let value = failovers("m1").newest(100);
        assert_eq!(value["total"], 3);
        assert_eq!(value["leftTotal"], 1);
        let left = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"}]);
        assert_eq!(value["left"], left);
    }
}
