//! How many replicas each candidate can take: the least of what its summary, its nodes and its quotas allow.

use api::work::BindingSpec;

use crate::capacity::{Demand, Part, Wanted, parts_of};
use crate::explanation::Estimate;
use crate::schedule::{Options, Request};
use crate::snapshot::{Member, Snapshot};

pub const GENERAL: &str = "general-estimator";
pub const ACCURATE: &str = "scheduler-estimator";
/// A plugin of the accurate estimator, told of on its own: it is another reason.
pub const QUOTAS: &str = "ResourceQuotaEstimator";

/// What is to be estimated, prepared for many clusters.
pub(crate) enum Question<'a> {
    /// It needs no room.
    Nothing,
    /// Replicas of one kind; without requirements only pods are counted.
    Replicas { wanted: Wanted<'a>, has_requirements: bool },
    /// Whole sets of components.
    Sets(Vec<Part>),
}

/// Is the workload placed as a whole, in one cluster?
pub(crate) fn is_set(spec: &BindingSpec, options: &Options) -> bool {
    let constraints = spec.placement.iter().flat_map(|placement| &placement.spread_constraints);
    options.multiple_pod_templates
        && !spec.components.is_empty()
        && constraints
            .filter(|constraint| constraint.spread_by_field == "cluster")
            .any(|constraint| constraint.min_groups == 1 && constraint.max_groups == 1)
}

impl<'a> Question<'a> {
    pub fn new(snapshot: &Snapshot, request: &Request<'_>, demand: &'a Demand) -> Self {
        let spec = request.spec;
        if spec.replicas == 0 && spec.components.is_empty() {
            return Self::Nothing;
        }
        if is_set(spec, request.options) {
            return Self::Sets(parts_of(spec));
        }
        let has_requirements = spec.replica_requirements.is_some();
        Self::Replicas { wanted: Wanted::new(&snapshot.resources, demand), has_requirements }
    }

    /// The answer for one cluster.
    pub fn ask(&self, snapshot: &Snapshot, member: &Member, request: &Request<'_>) -> i32 {
        if matches!(self, Self::Nothing) {
            return i32::MAX;
        }
        let least = self.estimates(snapshot, member, request.options).into_iter().flatten().min();
        match least.unwrap_or(i32::MAX) {
            i32::MAX => request.spec.replicas,
            number => number,
        }
    }

    /// What each estimator says; none where it is not asked.
    fn estimates(&self, snapshot: &Snapshot, member: &Member, options: &Options) -> [Option<i32>; 3] {
        let (free, nodes) = (&member.free, member.nodes.as_ref());
        let has_nodes = options.estimate_from_nodes && free.has_nodes();
        let has_quotas = has_nodes && options.resource_quotas;
        match self {
            Self::Nothing => [None, None, None],
            Self::Replicas { wanted, has_requirements } => [
                Some(free.by_summary(has_requirements.then_some(wanted), options.resource_models)),
                if has_nodes { free.by_nodes(nodes, wanted) } else { None },
                if has_quotas { free.by_quotas(nodes, wanted.demand()) } else { None },
            ],
            Self::Sets(parts) => [
                Some(free.sets_by_summary(&snapshot.resources, parts, options.resource_models)),
                if has_nodes { free.sets_by_nodes(nodes, &snapshot.resources, parts) } else { None },
                if has_quotas { free.sets_by_quotas(nodes, parts) } else { None },
            ],
        }
    }

    /// The answers with the names of who gave them.
    pub fn explain(&self, snapshot: &Snapshot, member: &Member, options: &Options) -> Vec<Estimate> {
        let named = [GENERAL, ACCURATE, QUOTAS].into_iter().zip(self.estimates(snapshot, member, options));
        named
            .filter_map(|(name, replicas)| Some(Estimate { estimator: name.to_owned(), replicas: replicas? }))
            .collect()
    }
}
