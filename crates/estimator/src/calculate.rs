//! The estimate for a request of another scheduler: what the nodes and, with the gate ResourceQuotaEstimate, the quotas of a
//! member allow.

use std::sync::Arc;

use api::capacity::ClusterNodes;
use api::cluster::ClusterSpec;
use api::work::{BindingSpec, ReplicaRequirements};
use plane_metrics::{EstimatePlugin, EstimatePoint, EstimatorMetrics};
use scheduler::capacity::{Demand, Free, ResolvedDemand, ResourceNames, parts_of};

/// Replicas or whole sets of components.
pub enum Wanted {
    Replicas(Option<ReplicaRequirements>),
    Sets(Box<BindingSpec>),
}

/// The inputs of estimates for one member, and the metrics that record their duration.
pub struct MemberEstimator<'a> {
    pub nodes: &'a Arc<ClusterNodes>,
    pub with_quotas: bool,
    pub metrics: &'a EstimatorMetrics,
}

impl MemberEstimator<'_> {
    /// `assumed`: workloads that the caller has assigned to the member already and that do not show in its capacity yet.
    pub fn estimate(&self, wanted: &Wanted, assumed: &[BindingSpec]) -> i32 {
        let mut names = ResourceNames::default();
        let mut free = Free::new(&mut names, &ClusterSpec::default(), None, Some(self.nodes));
        for workload in assumed {
            for part in parts_of(workload) {
                free.deduct(Some(self.nodes), &names, &part);
            }
        }
        match wanted {
            Wanted::Replicas(requirements) => {
                let demand = Demand::new(&BindingSpec::default(), requirements.as_ref());
                let resolved = ResolvedDemand::new(&names, &demand);
                self.least(
                    EstimatePoint::Replicas,
                    || free.by_nodes(Some(self.nodes), &resolved),
                    || free.by_quotas(Some(self.nodes), &demand),
                )
            }
            Wanted::Sets(spec) => {
                let parts = parts_of(spec);
                self.least(
                    EstimatePoint::Components,
                    || free.sets_by_nodes(Some(self.nodes), &names, &parts),
                    || free.sets_by_quotas(Some(self.nodes), &parts),
                )
            }
        }
    }

    /// Runs what Karmada has as plugins: nodes always, quotas if the gate is on.
    fn least(
        &self,
        point: EstimatePoint,
        by_nodes: impl FnOnce() -> Option<i32>,
        by_quotas: impl FnOnce() -> Option<i32>,
    ) -> i32 {
        let metrics = self.metrics;
        let estimates = metrics.all_plugins(point, || {
            let by_nodes = metrics.plugin(point, EstimatePlugin::Nodes, by_nodes);
            let by_quotas = self.with_quotas.then(|| metrics.plugin(point, EstimatePlugin::Quotas, by_quotas));
            [by_nodes, by_quotas.flatten()]
        });
        estimates.into_iter().flatten().min().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use api::capacity::{NodeCapacity, QuotaCapacity};
    use plane_metrics::PlaneMetrics;
    use serde_json::{Value, json};

    use super::*;

    fn estimate(nodes: &Arc<ClusterNodes>, wanted: &Wanted, assumed: &[BindingSpec], with_quotas: bool) -> i32 {
        let metrics = PlaneMetrics::default().estimator;
        MemberEstimator { nodes, with_quotas, metrics: &metrics }.estimate(wanted, assumed)
    }

    fn member() -> Arc<ClusterNodes> {
        let node = |name: &str, zone: &str| NodeCapacity {
            name: name.to_owned(),
            labels: [("zone".to_owned(), zone.to_owned())].into(),
            allocatable: [("cpu".to_owned(), 4000), ("pods".to_owned(), 10)].into(),
            requested: [("cpu".to_owned(), 1000), ("pods".to_owned(), 1)].into(),
            ..NodeCapacity::default()
        };
        let quota = QuotaCapacity { free: [("cpu".to_owned(), 2000)].into(), ..QuotaCapacity::default() };
        Arc::new(ClusterNodes {
            nodes: vec![node("n1", "a"), node("n2", "b")],
            quotas: [("team".to_owned(), vec![quota])].into(),
        })
    }

    fn replicas(requirements: Value) -> Wanted {
        Wanted::Replicas(serde_json::from_value(requirements).expect("requirements"))
    }

    #[test]
    fn nodes_quotas_and_assumed_workloads_limit_the_estimate() {
        let check = |wanted: &Wanted, assumed: &[BindingSpec], quotas: bool, expected: i32| {
            assert_eq!(estimate(&member(), wanted, assumed, quotas), expected);
        };
        let one_cpu = |namespace: &str| replicas(json!({"resourceRequest": {"cpu": "1"}, "namespace": namespace}));
        check(&one_cpu("team"), &[], false, 6);
        check(&one_cpu("team"), &[], true, 2);
        check(&one_cpu("other"), &[], true, 6);
        check(&Wanted::Replicas(None), &[], false, 18);
        let in_zone = |zone: &str| {
            replicas(json!({"resourceRequest": {"cpu": "1"}, "nodeClaim": {"nodeSelector": {"zone": zone}}}))
        };
        check(&in_zone("a"), &[], false, 3);
        check(&in_zone("c"), &[], false, 0);
        let set = |namespace: &str| {
            let part = |name: &str, replicas: i32| {
                json!({"name": name, "replicas": replicas, "replicaRequirements": {"resourceRequest": {"cpu": "500m"},
                    "namespace": namespace}})
            };
            let spec = json!({"components": [part("leader", 1), part("worker", 3)]});
            serde_json::from_value::<BindingSpec>(spec).expect("a spec")
        };
        check(&Wanted::Sets(Box::new(set("other"))), &[], true, 3);
        check(&Wanted::Sets(Box::new(set("team"))), &[], true, 1);
        check(&one_cpu("other"), &[set("other")], true, 4);
        check(&one_cpu("team"), &[set("team")], true, 0);
        let empty = Arc::new(ClusterNodes::default());
        assert_eq!(estimate(&empty, &one_cpu("team"), &[], false), 0);
    }

    #[test]
    fn each_plugin_that_runs_is_measured() {
        let metrics = PlaneMetrics::default();
        let nodes = member();
        let estimator = MemberEstimator { nodes: &nodes, with_quotas: false, metrics: &metrics.estimator };
        estimator.estimate(&Wanted::Replicas(None), &[]);
        let estimator = MemberEstimator { with_quotas: true, ..estimator };
        estimator.estimate(&Wanted::Replicas(None), &[]);
        estimator.estimate(&Wanted::Sets(Box::default()), &[]);
        let mut text = String::new();
        metrics.render(&mut text);
        let prefix = "karmada_scheduler_estimator_estimating_plugin_";
        let counts = text.lines().filter_map(|line| line.strip_prefix(prefix)).filter(|line| line.contains("_count"));
        let point = "estimating_plugin_extension_point";
        let expected = [
            format!(
                "execution_duration_seconds_count{{estimating_plugin=\"NodeResourceEstimator\",{point}=\"estimate_components\"}} 1"
            ),
            format!(
                "execution_duration_seconds_count{{estimating_plugin=\"NodeResourceEstimator\",{point}=\"estimate_replicas\"}} 2"
            ),
            format!(
                "execution_duration_seconds_count{{estimating_plugin=\"ResourceQuotaEstimator\",{point}=\"estimate_components\"}} 1"
            ),
            format!(
                "execution_duration_seconds_count{{estimating_plugin=\"ResourceQuotaEstimator\",{point}=\"estimate_replicas\"}} 1"
            ),
            format!("extension_point_duration_seconds_count{{{point}=\"estimate_components\"}} 1"),
            format!("extension_point_duration_seconds_count{{{point}=\"estimate_replicas\"}} 2"),
        ];
        assert_eq!(counts.collect::<Vec<_>>(), expected);
    }
}
