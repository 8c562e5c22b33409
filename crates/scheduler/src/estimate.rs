//! Replica estimates per candidate: the minimum of what its summary, its nodes and its quotas allow.

use api::work::BindingSpec;

use crate::capacity::{ComponentDemand, Demand, ResolvedDemand, parts_of};
use crate::explanation::Estimate;
use crate::schedule::{Request, SchedulerOptions};
use crate::snapshot::{ClusterSnapshot, Member};

pub const GENERAL: &str = "general-estimator";
pub const ACCURATE: &str = "scheduler-estimator";
/// An estimator of the member, asked over gRPC.
pub const REMOTE: &str = "karmada-scheduler-estimator";
/// A plugin of the accurate estimator, reported separately because it is another reason.
pub const QUOTAS: &str = "ResourceQuotaEstimator";

/// The estimate to make, prepared for many clusters.
pub(crate) enum EstimateRequest<'a> {
    /// It needs no capacity.
    Nothing,
    /// Replicas of one kind; without requirements only pods count.
    Replicas { wanted: ResolvedDemand<'a>, has_requirements: bool },
    /// Whole sets of components.
    Sets(Vec<ComponentDemand>),
}

/// Reports whether the workload is placed as a whole, in one cluster.
pub fn places_whole_sets(spec: &BindingSpec, options: &SchedulerOptions) -> bool {
    let constraints = spec.placement.iter().flat_map(|placement| &placement.spread_constraints);
    options.multiple_pod_templates
        && !spec.components.is_empty()
        && constraints
            .filter(|constraint| constraint.spread_by_field == "cluster")
            .any(|constraint| constraint.min_groups == 1 && constraint.max_groups == 1)
}

impl<'a> EstimateRequest<'a> {
    pub fn new(snapshot: &ClusterSnapshot, request: &Request<'_>, demand: &'a Demand) -> Self {
        let spec = request.spec;
        if spec.replicas == 0 && spec.components.is_empty() {
            return Self::Nothing;
        }
        if places_whole_sets(spec, request.options) {
            return Self::Sets(parts_of(spec));
        }
        let has_requirements = spec.replica_requirements.is_some();
        Self::Replicas { wanted: ResolvedDemand::new(&snapshot.resources, demand), has_requirements }
    }

    /// The estimate for one cluster.
    pub fn ask(&self, snapshot: &ClusterSnapshot, member: &Member, request: &Request<'_>) -> i32 {
        if matches!(self, Self::Nothing) {
            return i32::MAX;
        }
        let least = self.estimates(snapshot, member, request).into_iter().flatten().min();
        match least.unwrap_or(i32::MAX) {
            i32::MAX => request.spec.replicas,
            number => number,
        }
    }

    /// The estimate of each estimator; `None` if it does not apply.
    fn estimates(&self, snapshot: &ClusterSnapshot, member: &Member, request: &Request<'_>) -> [Option<i32>; 4] {
        let options = request.options;
        let answer = request.answers.and_then(|answers| answers.get(&member.name).copied());
        let (free, nodes) = (&member.free, member.nodes.as_ref());
        let has_nodes = options.estimate_from_nodes && free.has_nodes();
        let has_quotas = has_nodes && options.resource_quotas;
        match self {
            Self::Nothing => [None, None, None, None],
            Self::Replicas { wanted, has_requirements } => [
                Some(free.by_summary(has_requirements.then_some(wanted), options.resource_models)),
                if has_nodes { free.by_nodes(nodes, wanted) } else { None },
                if has_quotas { free.by_quotas(nodes, wanted.demand()) } else { None },
                answer,
            ],
            Self::Sets(parts) => [
                Some(free.sets_by_summary(&snapshot.resources, parts, options.resource_models)),
                if has_nodes { free.sets_by_nodes(nodes, &snapshot.resources, parts) } else { None },
                if has_quotas { free.sets_by_quotas(nodes, parts) } else { None },
                answer,
            ],
        }
    }

    /// The estimates with the names of their estimators.
    pub fn explain(&self, snapshot: &ClusterSnapshot, member: &Member, request: &Request<'_>) -> Vec<Estimate> {
        let named = [GENERAL, ACCURATE, QUOTAS, REMOTE].into_iter().zip(self.estimates(snapshot, member, request));
        named
            .filter_map(|(name, replicas)| Some(Estimate { estimator: name.to_owned(), replicas: replicas? }))
            .collect()
    }
}
