//! Karmada's own metrics, under its names, labels and buckets (v1.18, `pkg/metrics` and `pkg/scheduler/metrics`).

use std::time::Duration;

use api::cluster::{CONDITION_READY, ClusterStatus};
use api::core::{ResourceList, find_condition};
use metrics::{Counter, Gauge, Histogram, Registry, exponential};
use object::quantity::Quantity;

/// Label of member clusters.
const MEMBER: &[&str] = &["member_cluster"];
const RESULT: &[&str] = &["result"];

/// client_golang's default buckets.
const DEFAULT_SECONDS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Templates, policies, bindings and works.
#[derive(Clone)]
pub struct PropagationMetrics {
    match_time: Histogram,
    apply_time: Histogram,
    apply_attempts: Counter,
    preemptions: Counter,
    work_time: Histogram,
    workload_time: Histogram,
    created: Counter,
    updated: Counter,
    deleted: Counter,
    cron_time: Histogram,
    cron_rule_time: Histogram,
}

impl PropagationMetrics {
    pub fn new(registry: &Registry) -> Self {
        let seconds = exponential(0.001, 2.0, 12);
        let histogram = |name, labels, help| registry.histogram(name, labels, &seconds, help);
        Self {
            match_time: histogram(
                "resource_match_policy_duration_seconds",
                &[],
                "Time to find the policy that matches a template.",
            ),
            apply_time: histogram(
                "resource_apply_policy_duration_seconds",
                RESULT,
                "Time to apply a policy to a template, by result.",
            ),
            apply_attempts: registry.counter(
                "policy_apply_attempts_total",
                RESULT,
                "Attempts to apply a policy to a template, by result.",
            ),
            preemptions: registry.counter(
                "policy_preemption_total",
                RESULT,
                "Templates preempted by another policy, by result.",
            ),
            work_time: histogram(
                "binding_sync_work_duration_seconds",
                RESULT,
                "Time to write the Works of a binding, by result.",
            ),
            workload_time: histogram(
                "work_sync_workload_duration_seconds",
                RESULT,
                "Time to sync a Work to its member, by result.",
            ),
            created: registry.counter(
                "create_resource_to_cluster",
                &["result", "apiversion", "kind", "member_cluster", "recreate"],
                "Objects created in members, by result; recreate when they existed before.",
            ),
            updated: registry.counter(
                "update_resource_to_cluster",
                &["result", "apiversion", "kind", "member_cluster", "operationResult"],
                "Objects updated in members, by result and operation result.",
            ),
            deleted: registry.counter(
                "delete_resource_from_cluster",
                &["result", "apiversion", "kind", "member_cluster"],
                "Objects deleted in members, by result.",
            ),
            cron_time: histogram(
                "cronfederatedhpa_process_duration_seconds",
                RESULT,
                "Time to process a CronFederatedHPA, by result.",
            ),
            cron_rule_time: histogram(
                "cronfederatedhpa_rule_process_duration_seconds",
                RESULT,
                "Time to process a rule of a CronFederatedHPA, by result.",
            ),
        }
    }

    pub fn policy_matched(&self, took: Duration) {
        self.match_time.observe(&[], took);
    }

    pub fn policy_applied(&self, is_ok: bool, took: Duration) {
        self.apply_time.observe(&[result(is_ok)], took);
        self.apply_attempts.add_one(&[result(is_ok)]);
    }

    pub fn policy_preempted(&self, is_ok: bool) {
        self.preemptions.add_one(&[result(is_ok)]);
    }

    pub fn works_made(&self, is_ok: bool, took: Duration) {
        self.work_time.observe(&[result(is_ok)], took);
    }

    pub fn work_dispatched(&self, is_ok: bool, took: Duration) {
        self.workload_time.observe(&[result(is_ok)], took);
    }

    pub fn created(&self, is_ok: bool, subject: AppliedObject<'_>, is_recreation: bool) {
        let AppliedObject { api_version, kind, cluster } = subject;
        let recreate = if is_recreation { "true" } else { "false" };
        self.created.add_one(&[result(is_ok), api_version, kind, cluster, recreate]);
    }

    /// `changed`: the object in the member differs from before.
    pub fn updated(&self, is_ok: bool, subject: AppliedObject<'_>, changed: bool) {
        let AppliedObject { api_version, kind, cluster } = subject;
        let operation_result = match (is_ok, changed) {
            (true, true) => "updated",
            (true, false) => "unchanged",
            (false, _) => "none",
        };
        self.updated.add_one(&[result(is_ok), api_version, kind, cluster, operation_result]);
    }

    pub fn deleted(&self, is_ok: bool, subject: AppliedObject<'_>) {
        self.deleted.add_one(&[result(is_ok), subject.api_version, subject.kind, subject.cluster]);
    }

    pub fn cron_processed(&self, is_ok: bool, took: Duration) {
        self.cron_time.observe(&[result(is_ok)], took);
    }

    pub fn cron_rule_processed(&self, is_ok: bool, took: Duration) {
        self.cron_rule_time.observe(&[result(is_ok)], took);
    }
}

/// Autoscaling by the load in members.
#[derive(Clone)]
pub struct AutoscalingMetrics {
    process_time: Histogram,
    pull_time: Histogram,
}

impl AutoscalingMetrics {
    pub fn new(registry: &Registry) -> Self {
        let seconds = exponential(0.001, 2.0, 12);
        let histogram = |name, labels, help| registry.histogram(name, labels, &seconds, help);
        Self {
            process_time: histogram(
                "federatedhpa_process_duration_seconds",
                RESULT,
                "Time to process a FederatedHPA, by result.",
            ),
            pull_time: histogram(
                "federatedhpa_pull_metrics_duration_seconds",
                &["result", "metricType"],
                "Time to read the metrics of a FederatedHPA from members, by result and type.",
            ),
        }
    }

    pub fn processed(&self, is_ok: bool, took: Duration) {
        self.process_time.observe(&[result(is_ok)], took);
    }

    pub fn pulled(&self, is_ok: bool, metric_type: &'static str, took: Duration) {
        self.pull_time.observe(&[result(is_ok), metric_type], took);
    }
}

/// An object that was applied to a member.
#[derive(Clone, Copy)]
pub struct AppliedObject<'a> {
    pub api_version: &'a str,
    pub kind: &'a str,
    pub cluster: &'a str,
}

/// MemberMetrics and what is driven out of them.
#[derive(Clone)]
pub struct MemberMetrics {
    figures: [Gauge; 9],
    sync_time: Histogram,
    eviction_depth: Gauge,
    eviction_kinds: Gauge,
    eviction_time: Histogram,
    evictions: Counter,
}

impl MemberMetrics {
    pub fn new(registry: &Registry) -> Self {
        let gauge = |name, help| registry.gauge(name, MEMBER, help);
        Self {
            figures: [
                gauge("cluster_ready_state", "Whether a member is ready: 1 if it is, else 0."),
                gauge("cluster_node_number", "Nodes of a member."),
                gauge("cluster_ready_node_number", "Nodes of a member that are ready."),
                gauge("cluster_memory_allocatable_bytes", "Memory a member has for pods."),
                gauge("cluster_cpu_allocatable_number", "CPUs a member has for pods."),
                gauge("cluster_pod_allocatable_number", "Pods a member can run."),
                gauge("cluster_memory_allocated_bytes", "Memory requested by the pods of a member."),
                gauge("cluster_cpu_allocated_number", "CPUs requested by the pods of a member."),
                gauge("cluster_pod_allocated_number", "Pods in a member."),
            ],
            sync_time: registry.histogram(
                "cluster_sync_status_duration_seconds",
                MEMBER,
                DEFAULT_SECONDS,
                "Time to sync the status of a member once.",
            ),
            eviction_depth: registry.gauge("eviction_queue_depth", &["name"], "Evictions waiting in the queue."),
            eviction_kinds: registry.gauge(
                "eviction_kind_total",
                &["member_cluster", "resource_kind"],
                "Evictions waiting in the queue, by member and kind.",
            ),
            eviction_time: registry.histogram(
                "eviction_processing_latency_seconds",
                &["name"],
                &exponential(0.001, 2.0, 15),
                "Time to process an eviction.",
            ),
            evictions: registry.counter(
                "eviction_processing_total",
                &["name", "result"],
                "Evictions processed, by result.",
            ),
        }
    }

    /// Unknown values are not reported; resources missing in a known sum are reported as 0.
    pub fn observed(&self, cluster: &str, status: &ClusterStatus) {
        let is_ready = find_condition(&status.conditions, CONDITION_READY).is_some_and(|ready| ready.status == "True");
        let nodes = status.node_summary.as_ref();
        let summary = status.resource_summary.as_ref();
        let allocatable = summary.map(|summary| &summary.allocatable).filter(|list| !list.is_empty());
        let allocated = summary.map(|summary| &summary.allocated).filter(|list| !list.is_empty());
        let values = [
            Some(f64::from(u8::from(is_ready))),
            nodes.map(|nodes| f64::from(nodes.total_num)),
            nodes.map(|nodes| f64::from(nodes.ready_num)),
            amount(allocatable, "memory"),
            amount(allocatable, "cpu"),
            amount(allocatable, "pods"),
            amount(allocated, "memory"),
            amount(allocated, "cpu"),
            amount(allocated, "pods"),
        ];
        for (gauge, value) in self.figures.iter().zip(values) {
            if let Some(value) = value {
                gauge.set(&[cluster], value);
            }
        }
    }

    pub fn status_synced(&self, cluster: &str, took: Duration) {
        self.sync_time.observe(&[cluster], took);
    }

    pub fn forget(&self, cluster: &str) {
        self.figures.iter().for_each(|gauge| gauge.remove(&[cluster]));
        self.sync_time.remove(&[cluster]);
    }

    /// One more, or with -1 one less, waits to be driven out of a member.
    pub fn eviction_waits(&self, queue: &str, cluster: &str, kind: &str, change: f64) {
        self.eviction_depth.with(&[queue]).add(change);
        if !cluster.is_empty() && !kind.is_empty() {
            self.eviction_kinds.with(&[cluster, kind]).add(change);
        }
    }

    pub fn eviction_processed(&self, queue: &str, is_ok: bool, took: Duration) {
        self.eviction_time.observe(&[queue], took);
        self.evictions.add_one(&[queue, result(is_ok)]);
    }
}

/// Scheduling decisions.
#[derive(Clone)]
pub struct SchedulingMetrics {
    attempts: Counter,
    end_to_end: Histogram,
    algorithm: Histogram,
    incoming: Counter,
    pending: Gauge,
}

/// Event that put a binding into the scheduling queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueReason {
    BindingAdd,
    BindingUpdate,
    ScheduleAttemptFailure,
    PolicyChanged,
    ClusterChanged,
}

/// The trigger of a decision, as Karmada labels it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleType {
    Reconcile,
    Scale,
}

impl SchedulingMetrics {
    pub fn new(registry: &Registry) -> Self {
        let seconds = exponential(0.001, 2.0, 15);
        let labels = &["result", "schedule_type"];
        Self {
            attempts: registry.counter(
                "karmada_scheduler_schedule_attempts_total",
                labels,
                "Attempts to schedule a binding.",
            ),
            end_to_end: registry.histogram(
                "karmada_scheduler_e2e_scheduling_duration_seconds",
                labels,
                &seconds,
                "Time from taking a binding out of the queue to its placement written.",
            ),
            algorithm: registry.histogram(
                "karmada_scheduler_scheduling_algorithm_duration_seconds",
                &["schedule_step"],
                &seconds,
                "Duration of each scheduling step.",
            ),
            incoming: registry.counter(
                "karmada_scheduler_queue_incoming_bindings_total",
                &["event"],
                "Bindings added to the queue, by event.",
            ),
            pending: registry.gauge(
                "scheduler_pending_bindings",
                &["queue"],
                "Pending bindings: active, in backoff, or unschedulable.",
            ),
        }
    }

    pub fn attempted(&self, is_ok: bool, kind: ScheduleType, took: Duration) {
        let result = if is_ok { "scheduled" } else { "error" };
        let kind = match kind {
            ScheduleType::Reconcile => "ReconcileSchedule",
            ScheduleType::Scale => "ScaleSchedule",
        };
        self.attempts.add_one(&[result, kind]);
        self.end_to_end.observe(&[result, kind], took);
    }

    /// `step` as Karmada has it: Filter, Score, Select, AssignReplicas.
    pub fn step(&self, step: &str, took: Duration) {
        self.algorithm.observe(&[step], took);
    }

    pub fn incoming(&self, event: QueueReason) {
        let event = match event {
            QueueReason::BindingAdd => "BindingAdd",
            QueueReason::BindingUpdate => "BindingUpdate",
            QueueReason::ScheduleAttemptFailure => "ScheduleAttemptFailure",
            QueueReason::PolicyChanged => "PolicyChanged",
            QueueReason::ClusterChanged => "ClusterChanged",
        };
        self.incoming.add_one(&[event]);
    }

    pub fn pending(&self, active: usize, backoff: usize, unschedulable: usize) {
        for (queue, count) in [("active", active), ("backoff", backoff), ("unschedulable", unschedulable)] {
            self.pending.set(&[queue], count as f64);
        }
    }
}

fn amount(list: Option<&ResourceList>, name: &str) -> Option<f64> {
    let text = list?.get(name);
    Some(text.and_then(|text| Quantity::parse(&text.0).ok()).map_or(0.0, |quantity| quantity.as_f64()))
}

pub(crate) fn result(is_ok: bool) -> &'static str {
    if is_ok { "success" } else { "error" }
}
