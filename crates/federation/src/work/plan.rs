//! Plans the Works of one binding. Synchronous and from gathered facts alone, so that a plan can be replayed.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use api::cluster::ClusterSpec;
use api::work::{BindingSpec, TargetCluster};
use interpreter::question::ReviseReplicas;
use interpreter::{Interpreter, Operation, WebhookAnswer};
use jiff::Timestamp;
use object::Object;
use propagation::overrides::{self, Considered, Member};
use propagation::works::ownership::{check_same_object, is_made_by, named_bindings, stands_behind};
use propagation::works::{self, BindingRef, Delivery, DesiredWork, WorkChange, WorkError};
use reconcile::ObjectKey;

use crate::bindings::title;
use crate::work::policies::Candidates;

/// Everything a plan depends on.
pub struct DeliveryFacts<'a> {
    pub binding: &'a Object,
    pub spec: &'a BindingSpec,
    /// Without managed fields: members get none, and they are the longest part of most objects.
    pub template: Object,
    pub targets: &'a [TargetCluster],
    pub rules: &'a Interpreter,
    /// Answers of a webhook that revises replicas, by the number of replicas. Empty for kinds without such a webhook.
    pub revisions: BTreeMap<i32, WebhookAnswer>,
    pub policies: Candidates,
    /// A workload keeps its preserved labels when it moves.
    pub injects_labels: bool,
    pub now: Timestamp,
}

/// The state of the control plane that concerns one member.
pub struct TargetFacts<'a> {
    pub target: &'a TargetCluster,
    pub cluster: Option<Arc<Object>>,
    /// The Work under the name that the template's Work has.
    pub existing: Option<Arc<Object>>,
    /// Other bindings that the existing Work names and that may propagate.
    pub rivals: Vec<Arc<Object>>,
}

impl TargetFacts<'_> {
    /// Reports whether nothing is to be written: the member is being removed, and its namespace accepts nothing new.
    pub fn is_leaving(&self) -> bool {
        self.existing.is_none() && self.cluster.as_ref().is_some_and(|cluster| cluster.is_deleting())
    }
}

/// The writes for all members of one binding.
#[derive(Debug, Default, PartialEq)]
pub struct DeliveryPlan {
    pub works: Vec<PlannedWork>,
    pub failures: Vec<PlanFailure>,
}

/// A Work to write.
#[derive(Debug, PartialEq)]
pub struct PlannedWork {
    pub cluster: String,
    pub key: ObjectKey,
    pub change: WorkChange,
    pub considered: Vec<Considered>,
}

/// A member that gets no Work.
#[derive(Debug, PartialEq)]
pub struct PlanFailure {
    pub cluster: String,
    /// Shown to users in events.
    pub reason: String,
    /// The override policies up to the one that failed, if one did.
    pub considered: Vec<Considered>,
}

/// Plans the Work of every member. A failure for one member does not block others.
pub fn plan(facts: &DeliveryFacts<'_>, members: &[TargetFacts<'_>]) -> DeliveryPlan {
    let DeliveryFacts { spec, template, targets, rules, .. } = facts;
    let planner = Planner {
        facts,
        completions: works::divide_completions(template, spec, targets),
        revises: spec.is_workload() && rules.has_hook(&template.gvk(), Operation::ReviseReplica),
    };
    let mut plan = DeliveryPlan::default();
    for member in members {
        match planner.plan_one(member) {
            Ok(Some(work)) => plan.works.push(work),
            Ok(None) => {}
            Err((reason, considered)) => {
                plan.failures.push(PlanFailure { cluster: member.target.name.clone(), reason, considered });
            }
        }
    }
    plan
}

/// The facts, and what follows from them for all members.
struct Planner<'a> {
    facts: &'a DeliveryFacts<'a>,
    completions: Option<BTreeMap<&'a str, i32>>,
    revises: bool,
}

/// The reason and the override policies considered.
type Refusal = (String, Vec<Considered>);

impl Planner<'_> {
    /// `None` when the Work is up to date.
    fn plan_one(&self, member: &TargetFacts<'_>) -> Result<Option<PlannedWork>, Refusal> {
        let refused = |reason: String| (reason, Vec::new());
        let TargetFacts { target, cluster, existing, rivals } = member;
        let not_found = || refused(format!("Cluster.cluster.karmada.io \"{}\" not found", target.name));
        let cluster = cluster.as_deref().ok_or_else(not_found)?;
        if let Some(work) = existing {
            self.check_takeover(work, rivals).map_err(|refusal| refused(refusal.to_string()))?;
        }
        if member.is_leaving() {
            return Ok(None);
        }
        let mut manifest = self.revise(target).map_err(refused)?;
        if let Some(share) = self.completions.as_ref().and_then(|shares| shares.get(target.name.as_str())) {
            works::set_completions(&mut manifest, *share);
        }
        let (recorded, considered) = self.apply_overrides(cluster, &mut manifest)?;
        let DeliveryFacts { binding, spec, targets, injects_labels, .. } = self.facts;
        let preserved_labels = match injects_labels {
            true => works::preserved_labels(spec, targets, &target.name),
            false => None,
        };
        let desired = DesiredWork::of_binding(Delivery {
            binding: BindingRef::of(binding),
            spec,
            cluster: &target.name,
            manifest,
            overrides: recorded,
            preserved_labels,
        });
        let key = ObjectKey::new(&desired.namespace, &desired.name);
        let change = desired.plan(existing.as_deref()).map_err(|error| refused(error.to_string()))?;
        Ok(match change {
            WorkChange::Unchanged => None,
            change => Some(PlannedWork { cluster: target.name.clone(), key, change, considered }),
        })
    }

    /// Refuses to overwrite a Work that another binding stands behind, or that carries another object.
    fn check_takeover(&self, work: &Object, rivals: &[Arc<Object>]) -> Result<(), WorkError> {
        if is_made_by(work, BindingRef::of(self.facts.binding)) {
            return Ok(());
        }
        for named in named_bindings(work) {
            let is_named = |rival: &&Arc<Object>| (rival.namespace(), rival.name()) == (named.namespace, named.name);
            if rivals.iter().filter(is_named).any(|rival| stands_behind(rival, named, work)) {
                let owner = title(&ObjectKey::new(named.namespace, named.name));
                let (namespace, name) = (work.namespace().to_owned(), work.name().to_owned());
                return Err(WorkError::OwnedByOther { namespace, name, owner });
            }
        }
        check_same_object(work, &self.facts.template)
    }

    /// The template with the member's share of the replicas.
    fn revise(&self, target: &TargetCluster) -> Result<Object, String> {
        let DeliveryFacts { template, rules, revisions, now, .. } = self.facts;
        if !self.revises {
            return Ok(template.clone());
        }
        let question = ReviseReplicas { object: Cow::Borrowed(template), replicas: i64::from(target.replicas) };
        rules.answer(question, *now, revisions.get(&target.replicas)).map_err(|error| error.to_string())
    }

    fn apply_overrides(
        &self,
        cluster: &Object,
        manifest: &mut Object,
    ) -> Result<(overrides::Recorded, Vec<Considered>), Refusal> {
        let Candidates { cluster: cluster_policies, namespaced } = &self.facts.policies;
        if cluster_policies.is_empty() && namespaced.is_empty() {
            return Ok(Default::default());
        }
        let spec: ClusterSpec = api::read(cluster).map_err(|status| (status.to_string(), Vec::new()))?;
        let member = Member { cluster, spec: &spec };
        let cluster_policies = cluster_policies.iter().map(Arc::as_ref);
        match overrides::apply(manifest, member, cluster_policies, namespaced.iter().map(Arc::as_ref)) {
            Ok(applied) => Ok((applied.recorded(), applied.considered)),
            Err(failure) => Err((failure.to_string(), failure.considered)),
        }
    }
}

#[cfg(test)]
mod tests;
