//! Metrics of a control plane and of an agent, under the names that dashboards and alerts for Karmada use.

mod estimates;
mod leader;
mod plane;
mod webhooks;

use metrics::{Controllers, Registry};

pub use estimates::{EstimatePlugin, EstimatePoint, EstimateType, EstimatorMetrics};
pub use leader::LeaderMetrics;
pub use plane::{
    AppliedObject, AutoscalingMetrics, MemberMetrics, PropagationMetrics, QueueReason, ScheduleType, SchedulingMetrics,
};
pub use webhooks::{WebhookMetrics, WebhookRequest, WebhookSeries};

/// All metrics of one control plane or agent. Clones share them.
#[derive(Clone)]
pub struct PlaneMetrics {
    registry: Registry,
    pub controllers: Controllers,
    pub propagation: PropagationMetrics,
    pub autoscaling: AutoscalingMetrics,
    pub members: MemberMetrics,
    pub scheduling: SchedulingMetrics,
    pub estimator: EstimatorMetrics,
    pub webhooks: WebhookMetrics,
    pub leader: LeaderMetrics,
}

impl Default for PlaneMetrics {
    fn default() -> Self {
        Self::new(&Registry::default())
    }
}

impl std::fmt::Debug for PlaneMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PlaneMetrics")
    }
}

impl PlaneMetrics {
    /// Declares the metrics in a registry that others may render.
    pub fn new(registry: &Registry) -> Self {
        Self {
            controllers: Controllers::new(registry),
            propagation: PropagationMetrics::new(registry),
            autoscaling: AutoscalingMetrics::new(registry),
            members: MemberMetrics::new(registry),
            scheduling: SchedulingMetrics::new(registry),
            estimator: EstimatorMetrics::new(registry),
            webhooks: WebhookMetrics::new(registry),
            leader: LeaderMetrics::new(registry),
            registry: registry.clone(),
        }
    }

    /// Sets `karmada_build_info` to the running version.
    pub fn build(&self, version: &str) {
        let labels = &["git_version", "git_commit", "git_short_commit", "git_tree_state", "build_date", "platform"];
        let help = "Build of the running binary as labels; always 1.";
        let platform = format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH);
        let build = self.registry.gauge("karmada_build_info", labels, help);
        build.set(&[version, "", "", "", "", &platform], 1.0);
    }

    /// Appends all metrics in Prometheus' text format.
    pub fn render(&self, out: &mut String) {
        self.registry.render(out);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use metrics::Ending;

    use super::*;

    /// The names and labels of Karmada 1.18's `pkg/metrics`, `pkg/scheduler/metrics` and of controller-runtime 0.23.
    #[test]
    fn names_labels_and_buckets_match_karmada() {
        let metrics = PlaneMetrics::default();
        let subject = AppliedObject { api_version: "apps/v1", kind: "Deployment", cluster: "m1" };
        let took = Duration::from_millis(3);
        metrics.build("v1");
        let status = serde_json::json!({
            "conditions": [{"type": "Ready", "status": "True", "reason": "", "message": "", "lastTransitionTime": ""}],
            "nodeSummary": {"totalNum": 3, "readyNum": 2},
            "resourceSummary": {"allocatable": {"cpu": "1500m", "memory": "1Gi"}},
        });
        let status: api::cluster::ClusterStatus = serde_json::from_value(status).expect("a status");
        metrics.propagation.policy_matched(took);
        metrics.propagation.policy_applied(true, took);
        metrics.propagation.policy_preempted(false);
        metrics.propagation.works_made(true, took);
        metrics.propagation.work_dispatched(false, took);
        metrics.propagation.created(true, subject, true);
        metrics.propagation.updated(true, subject, false);
        metrics.propagation.deleted(false, subject);
        metrics.members.observed("m1", &status);
        metrics.members.status_synced("m1", took);
        metrics.members.eviction_waits("q", "m1", "Deployment", 1.0);
        metrics.members.eviction_processed("q", true, took);
        metrics.scheduling.attempted(true, ScheduleType::Scale, took);
        metrics.scheduling.step("Filter", took);
        metrics.scheduling.incoming(QueueReason::ClusterChanged);
        metrics.scheduling.pending(1, 2, 3);
        metrics.estimator.answered(EstimateType::GetUnschedulableReplicas, false, took);
        metrics.estimator.made(EstimateType::MaxAvailableReplicas, 3);
        metrics.estimator.made(EstimateType::MaxAvailableComponentSets, 0);
        metrics.estimator.all_plugins(EstimatePoint::Components, || {
            metrics.estimator.plugin(EstimatePoint::Replicas, EstimatePlugin::Quotas, || ());
        });
        let queue = metrics.controllers.queue("binding");
        queue.adds.add(1);
        queue.depth.add(1.0);
        let workers = metrics.controllers.workers("binding", 5);
        let started = workers.started();
        started.ended(Ending::Error);
        let mut text = String::new();
        metrics.render(&mut text);
        let expected = [
            "resource_match_policy_duration_seconds_bucket{le=\"0.004\"} 1",
            "resource_match_policy_duration_seconds_bucket{le=\"2.048\"} 1",
            "resource_apply_policy_duration_seconds_count{result=\"success\"} 1",
            "policy_apply_attempts_total{result=\"success\"} 1",
            "policy_preemption_total{result=\"error\"} 1",
            "binding_sync_work_duration_seconds_count{result=\"success\"} 1",
            "work_sync_workload_duration_seconds_count{result=\"error\"} 1",
            "create_resource_to_cluster{result=\"success\",apiversion=\"apps/v1\",kind=\"Deployment\",member_cluster=\"m1\",recreate=\"true\"} 1",
            "update_resource_to_cluster{result=\"success\",apiversion=\"apps/v1\",kind=\"Deployment\",member_cluster=\"m1\",operationResult=\"unchanged\"} 1",
            "delete_resource_from_cluster{result=\"error\",apiversion=\"apps/v1\",kind=\"Deployment\",member_cluster=\"m1\"} 1",
            "cluster_ready_state{member_cluster=\"m1\"} 1",
            "cluster_node_number{member_cluster=\"m1\"} 3",
            "cluster_ready_node_number{member_cluster=\"m1\"} 2",
            "cluster_cpu_allocatable_number{member_cluster=\"m1\"} 1.5",
            "cluster_memory_allocatable_bytes{member_cluster=\"m1\"} 1073741824",
            "cluster_pod_allocatable_number{member_cluster=\"m1\"} 0",
            "cluster_sync_status_duration_seconds_bucket{member_cluster=\"m1\",le=\"0.005\"} 1",
            "eviction_queue_depth{name=\"q\"} 1",
            "eviction_kind_total{member_cluster=\"m1\",resource_kind=\"Deployment\"} 1",
            "eviction_processing_latency_seconds_bucket{name=\"q\",le=\"16.384\"} 1",
            "eviction_processing_total{name=\"q\",result=\"success\"} 1",
            "karmada_scheduler_schedule_attempts_total{result=\"scheduled\",schedule_type=\"ScaleSchedule\"} 1",
            "karmada_scheduler_e2e_scheduling_duration_seconds_bucket{result=\"scheduled\",schedule_type=\"ScaleSchedule\",le=\"0.004\"} 1",
            "karmada_scheduler_scheduling_algorithm_duration_seconds_count{schedule_step=\"Filter\"} 1",
            "karmada_scheduler_queue_incoming_bindings_total{event=\"ClusterChanged\"} 1",
            "karmada_scheduler_estimator_estimating_request_total{result=\"error\",type=\"GetUnschedulableReplicas\"} 1",
            "karmada_scheduler_estimator_estimating_request_total{result=\"success\",type=\"MaxAvailableReplicas\"} 3",
            "karmada_scheduler_estimator_estimating_algorithm_duration_seconds_bucket{result=\"error\",type=\"GetUnschedulableReplicas\",step=\"Total\",le=\"0.512\"} 1",
            "karmada_scheduler_estimator_estimating_plugin_extension_point_duration_seconds_count{estimating_plugin_extension_point=\"estimate_components\"} 1",
            "karmada_scheduler_estimator_estimating_plugin_execution_duration_seconds_count{estimating_plugin=\"ResourceQuotaEstimator\",estimating_plugin_extension_point=\"estimate_replicas\"} 1",
            "scheduler_pending_bindings{queue=\"backoff\"} 2",
            "workqueue_adds_total{name=\"binding\",controller=\"binding\"} 1",
            "workqueue_depth{name=\"binding\",controller=\"binding\",priority=\"\"} 1",
            "workqueue_longest_running_processor_seconds{name=\"binding\",controller=\"binding\"} 0",
            "controller_runtime_max_concurrent_reconciles{controller=\"binding\"} 5",
            "controller_runtime_active_workers{controller=\"binding\"} 0",
            "controller_runtime_reconcile_total{controller=\"binding\",result=\"error\"} 1",
            "controller_runtime_reconcile_errors_total{controller=\"binding\"} 1",
        ];
        for line in expected {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("MaxAvailableComponentSets"), "nothing was estimated");
        assert!(!text.contains("cluster_memory_allocated_bytes"), "unknown values are left out");
        metrics.members.forget("m1");
        text.clear();
        metrics.render(&mut text);
        assert!(!text.contains("cluster_ready_state") && !text.contains("cluster_sync_status"), "{text}");
    }
}
