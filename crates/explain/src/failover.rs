//! `failover simulate`: what would move where if a cluster were lost, and which workloads lack capacity.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::cluster::TAINT_UNREACHABLE;
use api::work::{
    BindingSpec, BindingStatus, CLUSTER_RESOURCE_BINDINGS, GracefulEvictionTask, RESOURCE_BINDINGS, TargetCluster,
};
use jiff::Timestamp;
use object::taints::{Taint, Toleration};
use object::{Object, Status};
use propagation::binding_scope::check_stored;
use scheduler::{ClusterSnapshot, Explanation, Peers, Request, SchedulerOptions, explain};
use serde::Serialize;

use crate::document::Subject;
use crate::failover_text;
use crate::gather::Explainer;

/// Bindings examined in one simulation.
pub const BINDINGS_MAX: usize = 20_000;

/// The whole answer.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Simulation {
    pub cluster: String,
    /// Every workload fits into the other clusters.
    pub ok: bool,
    pub totals: Totals,
    /// All workloads of the cluster, in the order they would be moved.
    pub bindings: Vec<WorkloadEffect>,
    /// Replicas each of the other clusters would get.
    pub gains: BTreeMap<String, i64>,
    /// Additional notes for the reader.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The answer as text.
    pub text: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    pub moves: usize,
    pub covered: usize,
    pub stays: usize,
    pub does_not_fit: usize,
    pub replicas_moved: i64,
    #[serde(rename = "replicasWithoutRoom")]
    pub replicas_unplaced: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum FailoverEffect {
    Moves,
    /// Other clusters have all of it already.
    Covered,
    /// Its placement tolerates a lost cluster indefinitely.
    Stays,
    DoesNotFit,
}

/// The predicted result for one workload.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadEffect {
    pub subject: Subject,
    pub verdict: FailoverEffect,
    /// Its replicas in the cluster.
    pub replicas: i32,
    /// Clusters that would get replicas, and how many more than they have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<TargetCluster>,
    /// Replicas that would be placed without enough capacity, or nowhere.
    #[serde(rename = "withoutRoom", skip_serializing_if = "is_zero")]
    pub unplaced: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

impl Explainer {
    /// Simulates the loss of a cluster: the scheduler places every binding of it again, one after the other, each on
    /// the capacity the previous ones left.
    pub async fn simulate_failover(&self, cluster: &str) -> Result<Simulation, Status> {
        let clusters = self.clusters().await?;
        if !clusters.iter().any(|known| known.name() == cluster) {
            return Err(Status::not_found(&api::cluster::CLUSTERS.gvr().group_resource(), cluster));
        }
        let mut snapshot = self.snapshot(&clusters)?;
        snapshot.remove(cluster);
        snapshot.settle();
        let mut simulation = Simulation { cluster: cluster.to_owned(), ..Simulation::default() };
        if !self.parts.features.failover {
            simulation.notes.push("cluster failover is disabled: nothing would move by itself".to_owned());
        }
        for resource in [RESOURCE_BINDINGS, CLUSTER_RESOURCE_BINDINGS] {
            let mut bindings = self.list(resource, None).await?;
            bindings.retain(|binding| is_in(binding, cluster));
            bindings.sort_by(|a, b| (a.namespace(), a.name()).cmp(&(b.namespace(), b.name())));
            for binding in &bindings {
                if simulation.bindings.len() >= BINDINGS_MAX {
                    simulation.notes.push(format!("only the first {BINDINGS_MAX} workloads were simulated"));
                    break;
                }
                simulation.add(self.lose(&mut snapshot, binding, cluster)?);
            }
        }
        simulation.ok = simulation.totals.does_not_fit == 0;
        simulation.text = failover_text::text(&simulation);
        Ok(simulation)
    }

    fn lose(
        &self,
        snapshot: &mut ClusterSnapshot,
        binding: &Arc<Object>,
        cluster: &str,
    ) -> Result<WorkloadEffect, Status> {
        let mut spec: BindingSpec = api::read(binding)?;
        let status: BindingStatus = api::read_at(binding, &["status"])?;
        let replicas = spec.target(cluster).map_or(0, |target| target.replicas);
        let mut effect = WorkloadEffect {
            subject: subject_of(&spec),
            verdict: FailoverEffect::Moves,
            replicas,
            to: vec![],
            unplaced: 0,
            reason: String::new(),
        };
        let tolerations = spec.placement.as_ref().map(|own| own.cluster_tolerations.as_slice()).unwrap_or_default();
        if tolerates_forever(tolerations) {
            effect.verdict = FailoverEffect::Stays;
            "its placement tolerates a lost cluster indefinitely".clone_into(&mut effect.reason);
            return Ok(effect);
        }
        spec.clusters.retain(|target| target.name != cluster);
        let task = GracefulEvictionTask { from_cluster: cluster.to_owned(), ..GracefulEvictionTask::default() };
        spec.graceful_eviction_tasks.push(task);
        let (peers, options) = (Peers::default(), SchedulerOptions::new(&self.parts.features));
        let request = Request { spec: &spec, status: &status, peers: &peers, options: &options, answers: None };
        let (decision, explanation) = explain(snapshot, &request);
        match decision.result {
            Err(error) => {
                // The other copies of a duplicated workload are not touched.
                let is_elsewhere =
                    !spec.clusters.is_empty() && !spec.placement.as_ref().is_some_and(|p| p.is_divided());
                effect.verdict = if is_elsewhere { FailoverEffect::Covered } else { FailoverEffect::DoesNotFit };
                effect.unplaced = if is_elsewhere { 0 } else { i64::from(replicas) };
                effect.reason = error.to_string();
            }
            Ok(targets) => {
                effect.judge(&spec, &targets, &explanation);
                let key = format!("{}/{}", binding.namespace(), binding.name());
                snapshot.reserve(&key, &spec, &targets, Timestamp::UNIX_EPOCH);
            }
        }
        Ok(effect)
    }
}

impl Simulation {
    fn add(&mut self, effect: WorkloadEffect) {
        let count = match effect.verdict {
            FailoverEffect::Moves => &mut self.totals.moves,
            FailoverEffect::Covered => &mut self.totals.covered,
            FailoverEffect::Stays => &mut self.totals.stays,
            FailoverEffect::DoesNotFit => &mut self.totals.does_not_fit,
        };
        *count += 1;
        self.totals.replicas_unplaced += effect.unplaced;
        for target in &effect.to {
            *self.gains.entry(target.name.clone()).or_default() += i64::from(target.replicas);
            self.totals.replicas_moved += i64::from(target.replicas);
        }
        self.bindings.push(effect);
    }
}

impl WorkloadEffect {
    /// The clusters' gains, and how much of that exceeds their capacity: static weights ignore capacity.
    fn judge(&mut self, spec: &BindingSpec, targets: &[TargetCluster], explanation: &Explanation) {
        let gained = targets.iter().filter_map(|target| {
            let had = spec.target(&target.name).map(|had| had.replicas);
            let more = target.replicas - had.unwrap_or(0);
            (had.is_none() || more > 0).then(|| TargetCluster {
                name: target.name.clone(),
                replicas: more,
                ..TargetCluster::default()
            })
        });
        self.to = gained.collect();
        if self.to.is_empty() {
            self.verdict = FailoverEffect::Covered;
            "the other clusters run all of it already".clone_into(&mut self.reason);
            return;
        }
        let attempt = explanation.attempts.last();
        let capacity = |name: &str| {
            let candidates = attempt.map(|attempt| attempt.candidates.as_slice()).unwrap_or_default();
            candidates.iter().find(|candidate| candidate.cluster == name).map_or(i32::MAX, |c| c.allocatable)
        };
        let mut tight = Vec::new();
        for target in &self.to {
            let lacking = i64::from(target.replicas) - i64::from(capacity(&target.name));
            if lacking > 0 {
                self.unplaced += lacking;
                tight.push(format!(
                    "{} has capacity for {} of {}",
                    target.name,
                    capacity(&target.name),
                    target.replicas
                ));
            }
        }
        if !tight.is_empty() {
            self.verdict = FailoverEffect::DoesNotFit;
            self.reason = tight.join("; ");
        }
    }
}

fn is_in(binding: &Object, cluster: &str) -> bool {
    let is_acted_on = !binding.is_deleting() && check_stored(binding).is_ok();
    is_acted_on && binding.items(&["spec", "clusters"]).iter().any(|target| target["name"] == cluster)
}

fn tolerates_forever(tolerations: &[Toleration]) -> bool {
    let lost = Taint { key: TAINT_UNREACHABLE.to_owned(), effect: "NoExecute".to_owned(), ..Taint::default() };
    let first = tolerations.iter().find(|toleration| toleration.tolerates(&lost));
    first.is_some_and(|toleration| toleration.toleration_seconds.is_none())
}

fn subject_of(spec: &BindingSpec) -> Subject {
    let resource = &spec.resource;
    Subject {
        api_version: resource.api_version.clone(),
        kind: resource.kind.clone(),
        namespace: resource.namespace.clone(),
        name: resource.name.clone(),
    }
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests;
