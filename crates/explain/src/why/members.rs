//! The member stage: the health of the object in each of its clusters, and whether it can stay there.

use std::time::Duration;

use api::capacity::ClusterNodes;
use api::cluster::{CONDITION_READY, ClusterSpec};
use api::core::{find_condition, quantities};
use api::policy::is_dynamic;
use api::work::{
    AggregatedStatusItem, BindingSpec, BindingStatus, CONDITION_FULLY_APPLIED, STATUS_UNSCHEDULABLE, Unschedulable,
};
use jiff::Timestamp;
use object::taints::Taint;
use propagation::taint_eviction::{TaintVerdict, judge_taints, tolerations};
use serde_json::Value;

use super::BindingTarget;
use crate::document::{Stage, StageLines, State};
use crate::gather::Explainer;
use crate::reason::{PendingEviction, Reason, ReplicaDivision};

impl Explainer {
    pub(super) fn member_stage(
        &self,
        spec: &BindingSpec,
        status: &BindingStatus,
        targets: &[BindingTarget],
        now: Timestamp,
    ) -> Stage {
        let mut lines = StageLines::default();
        for target in targets {
            let item = status.aggregated_status.iter().find(|item| item.cluster_name == target.cluster);
            self.member_lines(spec, item, target, now, &mut lines);
        }
        let summary = match lines.state() {
            State::Done => "healthy in every member",
            State::Ahead => "nothing runs anywhere",
            _ => "not healthy in every member, or not for long",
        };
        lines.into_stage("members", summary)
    }

    fn member_lines(
        &self,
        spec: &BindingSpec,
        item: Option<&AggregatedStatusItem>,
        target: &BindingTarget,
        now: Timestamp,
        lines: &mut StageLines,
    ) {
        let cluster = target.cluster.clone();
        let Some(object) = &target.object else {
            let line = format!("{cluster}: there is no such cluster");
            return lines.push(State::Failed, line, Some(Reason::ClusterRemoved { cluster }));
        };
        let cluster_spec: ClusterSpec = api::read(object).unwrap_or_default();
        let (taints, eviction) = self.pending_eviction(spec, &cluster_spec, now);
        let not_ready = find_condition(&target.status.conditions, CONDITION_READY).filter(|ready| !ready.is_true());
        if let Some(ready) = not_ready {
            let since = &ready.last_transition_time;
            let line = format!("{cluster}: the cluster is not ready since {since}: {}; {eviction}", ready.message);
            let reason = Reason::ClusterNotReady { cluster: cluster.clone(), eviction };
            lines.push(State::Waiting, line, Some(reason));
        } else if eviction != PendingEviction::Never {
            let named: Vec<&str> = taints.iter().map(|taint| taint.key.as_str()).collect();
            let line = format!("{cluster}: the cluster has the NoExecute taint {}; {eviction}", named.join(", "));
            lines.push(
                State::Waiting,
                line,
                Some(Reason::EvictionPending { cluster: cluster.clone(), taints, eviction }),
            );
        }
        let seen = item.and_then(|item| item.status.as_ref());
        if let Some(waiting) = seen.and_then(unschedulable) {
            let since = waiting.since.keys().next().map(|since| format!(" since {since}")).unwrap_or_default();
            let line = format!(
                "{cluster}: {} of {} replicas cannot be scheduled{since}: {}",
                waiting.replicas, target.replicas, waiting.message
            );
            lines.push(State::Failed, line, Some(self.unschedulable_reason(spec, &cluster, waiting.replicas)));
        }
        let health = item.map_or("Unknown", |item| item.health.as_str());
        let state = if health == "Healthy" { State::Done } else { State::Waiting };
        let reason = (state != State::Done).then_some(Reason::Unhealthy { cluster: cluster.clone() });
        let reported = seen.map(|status| format!(", reports {}", summary_of(status))).unwrap_or_default();
        lines.push(state, format!("{cluster}: {health}{reported}"), reason);
    }

    /// The NoExecute taints of a cluster, and when they evict the workload.
    fn pending_eviction(
        &self,
        spec: &BindingSpec,
        cluster: &ClusterSpec,
        now: Timestamp,
    ) -> (Vec<Taint>, PendingEviction) {
        let taints: Vec<Taint> = cluster.taints.iter().filter(|taint| taint.effect == "NoExecute").cloned().collect();
        if taints.is_empty() || !self.parts.rules.evicts_by_taints || !self.parts.features.failover {
            return (taints, PendingEviction::Never);
        }
        let own = spec.placement.as_ref().map(|own| own.cluster_tolerations.as_slice()).unwrap_or_default();
        let tolerated = match self.parts.features.resilient_failover {
            true => tolerations(own, spec.failover.as_ref(), &self.parts.rules.default_tolerations),
            false => own.to_vec(),
        };
        let eviction = match judge_taints(&taints, &tolerated, now) {
            TaintVerdict::Stay => PendingEviction::Never,
            TaintVerdict::StayFor(wait) => PendingEviction::InSeconds { seconds: whole_seconds(wait) },
            TaintVerdict::Leave => PendingEviction::Now,
        };
        (taints, eviction)
    }

    fn unschedulable_reason(&self, spec: &BindingSpec, cluster: &str, replicas: i64) -> Reason {
        let division = match &spec.placement {
            Some(placement) if is_dynamic(placement) => ReplicaDivision::ByCapacity,
            Some(placement) if placement.is_divided() => ReplicaDivision::StaticWeights,
            _ => ReplicaDivision::Duplicated,
        };
        let nodes = self.parts.member_capacity.get(cluster);
        let exceeds_nodes = nodes.is_some_and(|nodes| exceeds_nodes(spec, &nodes));
        Reason::PodsUnschedulable { cluster: cluster.to_owned(), replicas, division, exceeds_nodes }
    }
}

/// Rounds up, so that a countdown does not end before its time.
fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

/// Returns true if one pod requests more than any node has in total.
fn exceeds_nodes(spec: &BindingSpec, nodes: &ClusterNodes) -> bool {
    let Some(requirements) = &spec.replica_requirements else { return false };
    let requests: Vec<(&str, i64)> = quantities(&requirements.resource_request)
        .map(|(name, quantity)| (name, if name == "cpu" { quantity.milli_value() } else { quantity.value() }))
        .collect();
    let fits = |allocatable: &api::capacity::Amounts| {
        requests.iter().all(|(name, amount)| *amount <= allocatable.get(*name).copied().unwrap_or(0))
    };
    !nodes.nodes.is_empty() && !nodes.nodes.iter().any(|node| fits(&node.allocatable))
}

fn unschedulable(status: &Value) -> Option<Unschedulable> {
    serde_json::from_value(status.get(STATUS_UNSCHEDULABLE)?.clone()).ok()
}

/// The numbers and texts of a status as `replicas=2, readyReplicas=1`; lists and objects are omitted.
fn summary_of(status: &Value) -> String {
    let fields = status.as_object().into_iter().flatten().filter_map(|(name, value)| match value {
        Value::Number(number) => Some(format!("{name}={number}")),
        Value::String(text) => Some(format!("{name}={text}")),
        Value::Bool(flag) => Some(format!("{name}={flag}")),
        _ => None,
    });
    let fields: Vec<String> = fields.collect();
    if fields.is_empty() { "no details".to_owned() } else { fields.join(", ") }
}

pub fn status_stage(status: &BindingStatus) -> Stage {
    match find_condition(&status.conditions, CONDITION_FULLY_APPLIED) {
        None => Stage::new("status", State::Ahead, "not aggregated yet"),
        Some(applied) => {
            let state = if applied.is_true() { State::Done } else { State::Waiting };
            Stage::new("status", state, applied.message.clone()).since(&applied.last_transition_time)
        }
    }
}
