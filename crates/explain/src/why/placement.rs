//! The binding and scheduling stages: where the scheduler put the template, or why it could not.

use std::sync::Arc;

use api::cluster::ClusterSpec;
use api::core::find_condition;
use api::features::Features;
use api::policy::{ClusterAffinity, Placement};
use api::work::{BindingSpec, BindingStatus, CONDITION_SCHEDULED};
use object::taints::Taint;
use object::{Object, Status};
use scheduler::explanation::LeftOut;
use scheduler::plugins::Plugin;
use scheduler::{ClusterSnapshot, Explanation, Peers, Request, SchedulerOptions, explain};
use serde_json::json;

use crate::document::{Stage, State};
use crate::gather::Explainer;
use crate::reason::Reason;
use crate::scheduling;

/// The scheduler that is built in.
const OWN_SCHEDULER: &str = "default-scheduler";

pub fn binding_stage(binding: &Object, spec: &BindingSpec) -> Stage {
    let mut summary = format!("{}/{}", binding.kind(), binding.name());
    if spec.replicas > 0 {
        summary.push_str(&format!(", {} replicas", spec.replicas));
    }
    let mut details = Vec::new();
    for task in &spec.graceful_eviction_tasks {
        details.push(format!("leaves {}: {} by {}", task.from_cluster, task.reason, task.producer));
    }
    if is_suspended(spec) {
        details.push("scheduling is suspended".to_owned());
    }
    Stage::new("binding", State::Done, summary).since(binding.creation_timestamp()).details(details)
}

impl Explainer {
    /// The recorded reasons of the scheduler, or those of a decision made now.
    pub(super) fn scheduling_stage(
        &self,
        binding: &Object,
        spec: &BindingSpec,
        status: &BindingStatus,
        clusters: &[Arc<Object>],
    ) -> Result<Stage, Status> {
        let Some(placement) = &spec.placement else { return Ok(dependency_stage(spec)) };
        let key = match binding.namespace() {
            "" => binding.name().to_owned(),
            namespace => format!("{namespace}/{}", binding.name()),
        };
        let (explanation, note) = match self.parts.decisions.get(&key) {
            Some(known) => ((*known.explanation).clone(), format!("decided at {}", known.time.strftime("%FT%TZ"))),
            None => {
                let decided = explain_now(spec, status, &self.snapshot(clusters)?, &self.parts.features);
                (decided, "as it would be decided now".to_owned())
            }
        };
        let mut stage = match find_condition(&status.conditions, CONDITION_SCHEDULED) {
            Some(condition) if condition.is_true() => {
                Stage::new("scheduling", State::Done, scheduled_to(spec)).since(&condition.last_transition_time)
            }
            Some(condition) => {
                let text = format!("{}: {}", condition.reason, condition.message);
                let state = if condition.reason == "Unschedulable" { State::Waiting } else { State::Failed };
                Stage::new("scheduling", state, text).since(&condition.last_transition_time)
            }
            None => Stage::new("scheduling", State::Waiting, "not decided yet"),
        };
        stage.reason = match stage.state {
            State::Done => clusters_missing(placement, clusters),
            _ => scheduling_reason(spec, placement, &explanation, clusters),
        };
        if let Some(Reason::ClustersMissing { names, .. }) = &stage.reason {
            stage.details.extend(names.iter().map(|name| format!("the policy names {name}, which does not exist")));
        }
        stage.details.extend(scheduling::lines(&explanation));
        stage.details.push(note);
        stage.data = json!(explanation);
        Ok(stage)
    }
}

fn dependency_stage(spec: &BindingSpec) -> Stage {
    if spec.required_by.is_empty() {
        return Stage::new("scheduling", State::Done, "no policy places it");
    }
    let by: Vec<String> = spec.required_by.iter().map(|by| format!("{}/{}", by.namespace, by.name)).collect();
    Stage::new("scheduling", State::Done, format!("follows the bindings that depend on it: {}", by.join(", ")))
}

/// The scheduler's decision for the current state.
fn explain_now(
    spec: &BindingSpec,
    status: &BindingStatus,
    snapshot: &ClusterSnapshot,
    features: &Features,
) -> Explanation {
    let (peers, options) = (Peers::default(), SchedulerOptions::new(features));
    explain(snapshot, &Request { spec, status, peers: &peers, options: &options, answers: None }).1
}

fn is_suspended(spec: &BindingSpec) -> bool {
    spec.suspension.as_ref().is_some_and(|suspension| suspension.scheduling == Some(true))
}

fn scheduled_to(spec: &BindingSpec) -> String {
    if spec.clusters.is_empty() {
        return "no cluster".to_owned();
    }
    let targets = spec.clusters.iter().map(|target| match target.replicas {
        0 => target.name.clone(),
        replicas => format!("{} ({replicas})", target.name),
    });
    targets.collect::<Vec<_>>().join(", ")
}

/// The cause why nothing was decided, or why no cluster was found.
fn scheduling_reason(
    spec: &BindingSpec,
    placement: &Placement,
    explanation: &Explanation,
    clusters: &[Arc<Object>],
) -> Option<Reason> {
    if is_suspended(spec) {
        return Some(Reason::SchedulingSuspended);
    }
    if !spec.scheduler_name.is_empty() && spec.scheduler_name != OWN_SCHEDULER {
        return Some(Reason::OtherScheduler { name: spec.scheduler_name.clone() });
    }
    if clusters.is_empty() {
        return Some(Reason::NoClusters);
    }
    let attempt = explanation.attempts.last()?;
    if attempt.candidates.is_empty() {
        return filter_reason(&attempt.left_out, placement, clusters);
    }
    match explanation.reason.as_str() {
        "Success" => None,
        "Unschedulable" => Some(Reason::NoCapacity { replicas: spec.replicas }),
        _ => Some(Reason::PlacementUnsatisfiable),
    }
}

/// The filter that is easiest to pass. Clusters the policy asks for are considered first: passing the filters of the others
/// would not help.
fn filter_reason(left_out: &[LeftOut], placement: &Placement, clusters: &[Arc<Object>]) -> Option<Reason> {
    let is_refused_by =
        |cluster: &LeftOut, plugin: Plugin| cluster.reasons.iter().any(|reason| reason.plugin == plugin.name());
    let wanted = left_out.iter().filter(|cluster| !is_refused_by(cluster, Plugin::ClusterAffinity));
    let Some(easiest) = wanted.min_by_key(|cluster| cluster.reasons.len()) else {
        let missing = clusters_missing(placement, clusters);
        return missing.or_else(|| Some(Reason::AffinityMismatch { cluster: left_out.first()?.cluster.clone() }));
    };
    let cluster = easiest.cluster.clone();
    let plugin = Plugin::ALL.into_iter().find(|plugin| is_refused_by(easiest, *plugin));
    Some(match plugin {
        Some(Plugin::ApiEnablement) => Reason::KindNotServed { cluster },
        Some(Plugin::TaintToleration) => {
            Reason::Tainted { taints: untolerated(&cluster, placement, clusters), cluster }
        }
        Some(Plugin::SpreadConstraint) => Reason::TopologyMissing { cluster },
        Some(Plugin::ClusterEviction) => Reason::RecentlyEvicted { cluster },
        Some(Plugin::WorkloadAffinity | Plugin::WorkloadAntiAffinity) => Reason::WorkloadAffinity { cluster },
        Some(Plugin::ClusterAffinity | Plugin::ClusterLocality) => Reason::AffinityMismatch { cluster },
        // A cluster that is being removed is not filtered by a plugin.
        None => Reason::ClusterLeaving { cluster },
    })
}

fn untolerated(cluster: &str, placement: &Placement, clusters: &[Arc<Object>]) -> Vec<Taint> {
    let found = clusters.iter().find(|known| known.name() == cluster);
    let spec: ClusterSpec = found.and_then(|cluster| api::read(cluster).ok()).unwrap_or_default();
    let is_tolerated = |taint: &Taint| placement.cluster_tolerations.iter().any(|own| own.tolerates(taint));
    let repels = |taint: &Taint| taint.effect == "NoSchedule" || taint.effect == "NoExecute";
    spec.taints.into_iter().filter(|taint| repels(taint) && !is_tolerated(taint)).collect()
}

/// The clusters that the affinities of a placement name and that do not exist.
pub fn clusters_missing(placement: &Placement, clusters: &[Arc<Object>]) -> Option<Reason> {
    let groups = placement.cluster_affinities.iter().flat_map(|group| {
        let overflow = group.overflow_affinities.iter().flatten().map(|term| &term.affinity);
        std::iter::once(&group.affinity).chain(overflow)
    });
    let affinities: Vec<&ClusterAffinity> = placement.cluster_affinity.iter().chain(groups).collect();
    let mut names: Vec<String> = Vec::new();
    for name in affinities.into_iter().flat_map(|affinity| &affinity.cluster_names) {
        if !clusters.iter().any(|cluster| cluster.name() == name) && !names.contains(name) {
            names.push(name.clone());
        }
    }
    if names.is_empty() {
        return None;
    }
    Some(Reason::ClustersMissing { names, known: clusters.iter().map(|cluster| cluster.name().to_owned()).collect() })
}
