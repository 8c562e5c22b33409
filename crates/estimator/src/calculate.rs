//! The estimate for a request of another scheduler: what the nodes and, with the gate ResourceQuotaEstimate, the quotas of a
//! member allow.

use std::sync::Arc;

use api::capacity::ClusterNodes;
use api::cluster::ClusterSpec;
use api::work::{BindingSpec, ReplicaRequirements};
use scheduler::capacity::{Demand, Free, ResolvedDemand, ResourceNames, parts_of};

/// Replicas or whole sets of components.
pub enum Wanted {
    Replicas(Option<ReplicaRequirements>),
    Sets(Box<BindingSpec>),
}

/// `assumed`: workloads that the caller has assigned to the member already and that do not show in its capacity yet.
pub fn estimate(nodes: &Arc<ClusterNodes>, wanted: &Wanted, assumed: &[BindingSpec], with_quotas: bool) -> i32 {
    let mut names = ResourceNames::default();
    let mut free = Free::new(&mut names, &ClusterSpec::default(), None, Some(nodes));
    for workload in assumed {
        for part in parts_of(workload) {
            free.deduct(Some(nodes), &names, &part);
        }
    }
    let (by_nodes, by_quotas) = match wanted {
        Wanted::Replicas(requirements) => {
            let demand = Demand::new(&BindingSpec::default(), requirements.as_ref());
            let resolved = ResolvedDemand::new(&names, &demand);
            (free.by_nodes(Some(nodes), &resolved), free.by_quotas(Some(nodes), &demand))
        }
        Wanted::Sets(spec) => {
            let parts = parts_of(spec);
            (free.sets_by_nodes(Some(nodes), &names, &parts), free.sets_by_quotas(Some(nodes), &parts))
        }
    };
    by_nodes.into_iter().chain(by_quotas.filter(|_| with_quotas)).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use api::capacity::{NodeCapacity, QuotaCapacity};
    use serde_json::{Value, json};

    use super::*;

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
}
