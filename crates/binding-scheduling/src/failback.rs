//! Returns workloads to clusters they left by failover, if their policy asks for failback and the cluster has been
//! healthy for long enough. Keeps other workloads from drifting back.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use api::failover::{ANNOTATION_FAILBACK, ANNOTATION_HISTORY, REASON_FAILBACK};
use api::policy::{ANNOTATION_CLUSTER_PROPAGATION_NAME, ANNOTATION_PROPAGATION_NAME, ANNOTATION_PROPAGATION_NAMESPACE};
use api::work::{BindingSpec, BindingStatus, GracefulEvictionTask, TargetCluster};
use jiff::Timestamp;
use object::Object;
use object::time::format_seconds;
use plane_metrics::QueueReason;
use propagation::eviction::Eviction;
use propagation::failback::{Failback, well_since};
use propagation::failover_history::History;
use reconcile::ObjectKey;
use scheduler::{ClusterSnapshot, Decision, Explanation, Need, Peers, Request, explain};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::gather::{Binding, priority_of};
use crate::{BINDINGS_PER_TURN, BindingScheduler};

/// Interval for checking the clusters that were left.
const LOOK_EVERY: Duration = Duration::from_secs(2);
const PRODUCER: &str = "failback-controller";

/// Maximum number of policies whose rate is tracked. A policy beyond that starts with a full allowance, which at
/// worst lets one workload return too early.
const PACES_MAX: usize = 10_000;

/// One value if the binding left a cluster by failover and was not assigned to it again.
pub fn left_a_cluster(binding: &Object) -> Vec<()> {
    if binding.annotation(ANNOTATION_HISTORY).is_none() {
        return Vec::new();
    }
    let Ok(clusters) = api::read_at::<Vec<TargetCluster>>(binding, &["spec", "clusters"]) else { return Vec::new() };
    let spec = BindingSpec { clusters, ..BindingSpec::default() };
    if History::of(binding).left(&spec).is_empty() { Vec::new() } else { vec![()] }
}

/// One value if failback is enabled.
pub fn wants_failback(policy: &Object) -> Vec<()> {
    if policy.annotation(ANNOTATION_FAILBACK).is_some() { vec![()] } else { Vec::new() }
}

/// The failback allowance of each policy.
#[derive(Default)]
struct Paces(HashMap<ObjectKey, (f32, Instant)>);

impl Paces {
    /// Takes one from the policy's allowance, if its rate permits.
    fn take(&mut self, policy: &ObjectKey, rate: f32) -> bool {
        if self.0.len() > PACES_MAX {
            self.0.clear();
        }
        let now = Instant::now();
        let (tokens, last) = self.0.entry(policy.clone()).or_insert((1.0, now));
        // Unused allowance does not accumulate: a pause must not end in a burst.
        let saved_max = (rate * LOOK_EVERY.as_secs_f32()).max(1.0);
        *tokens = (*tokens + rate * now.duration_since(*last).as_secs_f32()).min(saved_max);
        *last = now;
        if *tokens < 1.0 {
            return false;
        }
        *tokens -= 1.0;
        true
    }
}

/// Looks for workloads that may return, until cancelled.
pub async fn watch(scheduler: &Arc<BindingScheduler>) {
    let mut paces = Paces::default();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let failback_settings = gather_failback_settings(scheduler);
        if failback_settings.is_empty() {
            continue;
        }
        for left in &scheduler.left {
            for some in left.list(&()).chunks(BINDINGS_PER_TURN) {
                for object in some {
                    grant(scheduler, object, &failback_settings, &mut paces).await;
                }
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Returns the failback settings by policy. An unreadable policy has none; admission reported the error when it was
/// written.
fn gather_failback_settings(scheduler: &BindingScheduler) -> HashMap<ObjectKey, Failback> {
    let policies = scheduler.failback_policies.iter().flat_map(|index| index.list(&()));
    let failback = |policy: Arc<Object>| {
        let text = policy.annotation(ANNOTATION_FAILBACK)?;
        Some((ObjectKey::of(&policy), Failback::parse(text).ok().flatten()?))
    };
    policies.filter_map(failback).collect()
}

fn policy_of(binding: &Object) -> Option<ObjectKey> {
    if let Some(name) = binding.annotation(ANNOTATION_PROPAGATION_NAME) {
        return Some(ObjectKey::new(binding.annotation(ANNOTATION_PROPAGATION_NAMESPACE)?, name));
    }
    binding.annotation(ANNOTATION_CLUSTER_PROPAGATION_NAME).map(|name| ObjectKey::new("", name))
}

async fn grant(
    scheduler: &BindingScheduler,
    object: &Arc<Object>,
    failback_settings: &HashMap<ObjectKey, Failback>,
    paces: &mut Paces,
) {
    let Some((policy, failback)) =
        policy_of(object).and_then(|policy| Some((policy.clone(), failback_settings.get(&policy)?)))
    else {
        return;
    };
    let Ok(binding) = Binding::read(object) else { return };
    let is_suspended = binding.spec.suspension.as_ref().is_some_and(|own| own.scheduling == Some(true));
    if object.is_deleting() || is_suspended || scheduler.failbacks.lock().contains_key(&binding.key) {
        return;
    }
    let now = scheduler.clock.now();
    let (well, unwell): (Vec<String>, Vec<String>) =
        History::of(object).left(&binding.spec).into_iter().partition(|name| {
            let cluster = scheduler.clusters.get(&ObjectKey::new("", name));
            cluster.as_deref().and_then(well_since).is_some_and(|since| failback.is_due(since, now))
        });
    if well.is_empty() {
        return;
    }
    let peers = scheduler.gather_peers(&binding);
    let wanted = PlannedReturn { well, unwell };
    let is_better = {
        let mut snapshot = scheduler.snapshot.lock();
        scheduler.refresh_capacity(&mut snapshot);
        wanted.decide(scheduler, &snapshot, &binding, &peers).is_some()
    };
    if is_better && paces.take(&policy, failback.rate) {
        scheduler.failbacks.lock().insert(binding.key.clone(), wanted);
        scheduler.queue.add(binding.key, priority_of(object), false, QueueReason::ClusterChanged).await;
    }
}

/// A planned return: the clusters that are healthy for long enough, and those that are not.
pub struct PlannedReturn {
    well: Vec<String>,
    unwell: Vec<String>,
}

impl PlannedReturn {
    /// Returns the placement from scratch, or `None` if it contains no cluster the workload left.
    pub fn decide(
        &self,
        scheduler: &BindingScheduler,
        snapshot: &ClusterSnapshot,
        binding: &Binding,
        peers: &Peers,
    ) -> Option<(Decision, Explanation)> {
        let mut spec = binding.spec.clone();
        spec.clusters.clear();
        spec.reschedule_triggered_at = None;
        spec.graceful_eviction_tasks.retain(|task| !self.well.contains(&task.from_cluster));
        spec.graceful_eviction_tasks.extend(self.unwell.iter().map(|name| passed_over(name)));
        // The first affinity group is the preferred one.
        let status = BindingStatus { scheduler_observed_affinity_name: String::new(), ..binding.status.clone() };
        let request = Request { spec: &spec, status: &status, peers, options: &scheduler.options, answers: None };
        let (decision, explanation) = explain(snapshot, &request);
        scheduler.count_estimates(&request, &explanation);
        let targets = decision.result.as_ref().ok()?;
        targets.iter().any(|target| self.well.contains(&target.name)).then_some((decision, explanation))
    }
}

/// Marks a cluster as unusable for the filters, which already exclude clusters under eviction.
fn passed_over(cluster: &str) -> GracefulEvictionTask {
    GracefulEvictionTask { from_cluster: cluster.to_owned(), ..GracefulEvictionTask::default() }
}

/// Returns the binding without the clusters it left by failover when it is only scaled; otherwise it would silently
/// drift back to them, without graceful eviction. `None` if there is no such cluster.
pub fn without_left(binding: &Binding, need: Need) -> Option<HeldBinding> {
    let placement = binding.spec.placement.as_ref()?;
    let is_moved_by_user = matches!(need, Need::PlacementChanged | Need::Reschedule);
    if is_moved_by_user || !placement.is_divided() || binding.object.annotation(ANNOTATION_HISTORY).is_none() {
        return None;
    }
    let left = History::of(&binding.object).left(&binding.spec);
    if left.is_empty() || binding.spec.clusters.is_empty() {
        return None;
    }
    let mut spec = binding.spec.clone();
    spec.graceful_eviction_tasks.extend(left.iter().map(|name| passed_over(name)));
    Some(HeldBinding { spec, left })
}

/// A binding that is kept away from clusters it left.
pub struct HeldBinding {
    pub spec: BindingSpec,
    left: Vec<String>,
}

impl HeldBinding {
    /// Replaces the reason: to the filters these clusters looked like clusters under eviction.
    pub fn replace_reason(&self, mut explanation: Explanation) -> Explanation {
        let left_out = explanation.attempts.iter_mut().flat_map(|attempt| &mut attempt.left_out);
        for own in left_out.filter(|own| self.left.contains(&own.cluster)) {
            for reason in own.reasons.iter_mut().filter(|reason| reason.plugin == "ClusterEviction") {
                "the workload left it by failover and failback is not enabled".clone_into(&mut reason.message);
            }
        }
        explanation
    }
}

/// Changes of a placement besides `spec.clusters`, as parts of a merge patch: the failover history and, on a
/// failback, the eviction tasks that keep old replicas until the new ones are ready.
pub struct PlacementNotes {
    pub history: Option<String>,
    pub tasks: Option<Value>,
}

pub fn notes(binding: &Binding, targets: &[TargetCluster], is_return: bool, now: Timestamp) -> PlacementNotes {
    let mut history = History::of(&binding.object);
    if !is_return {
        let is_news = history.place(&binding.spec.clusters, targets, now);
        return PlacementNotes { history: is_news.then(|| history.text()), tasks: None };
    }
    let names: BTreeSet<&str> = targets.iter().map(|target| target.name.as_str()).collect();
    let is_staying = |task: &&Value| !task["fromCluster"].as_str().is_some_and(|from| names.contains(from));
    let mut tasks: Vec<Value> =
        binding.object.items(&["spec", "gracefulEvictionTasks"]).iter().filter(is_staying).cloned().collect();
    for name in &names {
        history.end(name, "Returned", true, now);
    }
    for old in binding.spec.clusters.iter().filter(|old| gives_up(old, targets)) {
        let eviction = Eviction {
            purge_mode: "Gracefully".to_owned(),
            reason: REASON_FAILBACK.to_owned(),
            message: "a preferred cluster is healthy again".to_owned(),
            producer: PRODUCER.to_owned(),
            ..Eviction::default()
        };
        let replicas = Some(old.replicas).filter(|replicas| *replicas > 0);
        history.begin(&old.name, replicas, &eviction, now);
        tasks.push(json!(GracefulEvictionTask {
            from_cluster: old.name.clone(),
            purge_mode: eviction.purge_mode,
            replicas,
            reason: eviction.reason,
            message: eviction.message,
            producer: eviction.producer,
            creation_timestamp: Some(format_seconds(now)),
            ..GracefulEvictionTask::default()
        }));
    }
    history.place(&binding.spec.clusters, targets, now);
    let tasks = if tasks.is_empty() { Value::Null } else { Value::Array(tasks) };
    PlacementNotes { history: Some(history.text()), tasks: Some(tasks) }
}

/// Reports whether a cluster loses all or some of its replicas. It then keeps them until they are ready elsewhere.
fn gives_up(old: &TargetCluster, targets: &[TargetCluster]) -> bool {
    targets.iter().find(|new| new.name == old.name).is_none_or(|new| new.replicas < old.replicas)
}
