//! Leaving a member: when a workload goes, and when what it leaves behind may be taken away.

mod care;

use std::collections::BTreeMap;
use std::time::Duration;

use api::features::Features;
use api::policy::ApplicationFailoverBehavior;
use api::work::{AggregatedStatusItem, BindingSpec, BindingStatus, GracefulEvictionTask};
use jiff::{SignedDuration, Timestamp};
use object::Object;
use object::time::{format_seconds, parse};
use serde_json::{Value, json};

use crate::failover_history::History;
use crate::state::{self, StateError};

pub use crate::eviction::care::{Care, ClusterState, ClusterStates, assess_with_care};

/// Default time a copy stays in the cluster it is evicted from.
pub const GRACEFUL_TIMEOUT: Duration = Duration::from_secs(600);

/// The outcome of one eviction task, with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskOutcome {
    /// It is new; its time begins now.
    Begin,
    /// A user decided to keep the copy.
    KeptByUser,
    /// Not yet healthy elsewhere, and there is time.
    Wait {
        remaining: Duration,
    },
    /// A user decided to remove the copy.
    ReleasedByUser,
    TimedOut,
    /// The workload is healthy in all members it was scheduled to.
    HealthyElsewhere,
    /// The timeout is over, but the workload is not known to be healthy in another cluster.
    InDoubt,
    /// There is no other place, and the member is well again: the workload stays where it was.
    Returned,
}

impl TaskOutcome {
    /// Does the task stay?
    pub fn is_kept(self) -> bool {
        matches!(self, Self::Begin | Self::KeptByUser | Self::Wait { .. } | Self::InDoubt)
    }

    /// Does it change the binding?
    pub fn is_news(self) -> bool {
        !matches!(self, Self::Wait { .. } | Self::KeptByUser | Self::InDoubt)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Begin => "Begin",
            Self::KeptByUser => "KeptByUser",
            Self::Wait { .. } => "Wait",
            Self::ReleasedByUser => "ReleasedByUser",
            Self::TimedOut => "TimedOut",
            Self::HealthyElsewhere => "HealthyElsewhere",
            Self::InDoubt => "InDoubt",
            Self::Returned => "Returned",
        }
    }
}

/// The outcome of all eviction tasks of a binding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assessment {
    /// In the order of the tasks.
    pub outcomes: Vec<TaskOutcome>,
    /// Time until the next check when nothing changes.
    pub again_in: Option<Duration>,
}

/// Decides on each task. The copy in the old member goes once the workload is healthy in its new ones, as far as the
/// scheduler has seen the binding as it is; or when its timeout is over; or when a user requests it.
pub fn assess(
    spec: &BindingSpec,
    status: &BindingStatus,
    generation: i64,
    now: Timestamp,
    timeout: Duration,
) -> Assessment {
    let is_scheduled = status.scheduler_observed_generation == Some(generation);
    let is_healthy = is_scheduled && is_healthy_everywhere(spec, &status.aggregated_status);
    let mut assessment = Assessment::default();
    for task in &spec.graceful_eviction_tasks {
        let timeout = timeout_of(task, timeout);
        assessment.add(task, outcome(task, now, timeout, is_healthy), timeout);
    }
    assessment
}

impl Assessment {
    fn add(&mut self, task: &GracefulEvictionTask, outcome: TaskOutcome, timeout: Duration) {
        let again_in = match outcome {
            TaskOutcome::Begin if task.suppress_deletion.is_none() => Some(timeout),
            TaskOutcome::Wait { remaining } => Some(remaining),
            _ => None,
        };
        self.again_in = self.again_in.into_iter().chain(again_in).min();
        self.outcomes.push(outcome);
    }
}

fn timeout_of(task: &GracefulEvictionTask, default: Duration) -> Duration {
    task.grace_period_seconds.map_or(default, |seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

fn outcome(task: &GracefulEvictionTask, now: Timestamp, timeout: Duration, is_healthy: bool) -> TaskOutcome {
    let Some(began) = task.creation_timestamp.as_deref().and_then(parse) else { return TaskOutcome::Begin };
    match task.suppress_deletion {
        Some(true) => return TaskOutcome::KeptByUser,
        Some(false) => return TaskOutcome::ReleasedByUser,
        None => {}
    }
    let timeout = SignedDuration::try_from(timeout).unwrap_or(SignedDuration::MAX);
    let remaining = timeout.saturating_sub(now.duration_since(began));
    if remaining.is_negative() {
        TaskOutcome::TimedOut
    } else if is_healthy {
        TaskOutcome::HealthyElsewhere
    } else {
        // A moment more: a task whose time ends just now is not over it yet.
        let remaining = remaining.unsigned_abs() + Duration::from_millis(1);
        TaskOutcome::Wait { remaining }
    }
}

fn is_healthy_everywhere(spec: &BindingSpec, items: &[AggregatedStatusItem]) -> bool {
    spec.clusters.iter().all(|target| {
        items.iter().find(|item| item.cluster_name == target.name).is_some_and(|item| item.health == "Healthy")
    })
}

/// The fields of the binding after an assessment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settled {
    /// The tasks that stay, as they are to be written.
    pub tasks: Vec<Value>,
    /// The members whose tasks go, and why.
    pub ended: Vec<(String, TaskOutcome)>,
    /// The scheduled clusters, when a cluster takes its share back.
    pub clusters: Option<Vec<Value>>,
}

pub fn settle(binding: &Object, assessment: &Assessment, now: Timestamp) -> Settled {
    let tasks = binding.items(&["spec", "gracefulEvictionTasks"]);
    let mut settled = Settled::default();
    for (task, outcome) in tasks.iter().zip(&assessment.outcomes) {
        let cluster = task["fromCluster"].as_str().unwrap_or_default();
        if *outcome == TaskOutcome::Returned {
            let scheduled = binding.items(&["spec", "clusters"]);
            let mut target = json!({"name": cluster});
            if !task["replicas"].is_null() {
                target["replicas"] = task["replicas"].clone();
            }
            settled.clusters.get_or_insert_with(|| scheduled.to_vec()).push(target);
        }
        if !outcome.is_kept() {
            settled.ended.push((cluster.to_owned(), *outcome));
            continue;
        }
        let mut task = task.clone();
        if *outcome == TaskOutcome::Begin {
            task["creationTimestamp"] = format_seconds(now).into();
        }
        settled.tasks.push(task);
    }
    settled
}

/// Reason and mode of an eviction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Eviction {
    pub purge_mode: String,
    pub reason: String,
    pub message: String,
    pub producer: String,
    pub grace_period_seconds: Option<i32>,
    pub suppress_deletion: Option<bool>,
    pub preserved_label_state: BTreeMap<String, String>,
    pub clusters_before_failover: Vec<String>,
}

/// Takes a member out of what was scheduled and puts a task in its place, unless there is one already. Says whether the
/// binding changed.
pub fn evict(binding: &mut Object, cluster: &str, eviction: Eviction) -> bool {
    let targets = binding.items(&["spec", "clusters"]);
    let Some(target) = targets.iter().find(|target| target["name"] == cluster) else { return false };
    let replicas = target["replicas"].as_i64().and_then(|replicas| i32::try_from(replicas).ok());
    let rest: Vec<Value> = targets.iter().filter(|target| target["name"] != cluster).cloned().collect();
    if rest.is_empty() {
        binding.remove(&["spec", "clusters"]);
    } else {
        binding.set(&["spec", "clusters"], rest);
    }
    let tasks = binding.items(&["spec", "gracefulEvictionTasks"]);
    if tasks.iter().any(|task| task["fromCluster"] == cluster) {
        return true;
    }
    let task = GracefulEvictionTask {
        from_cluster: cluster.to_owned(),
        purge_mode: eviction.purge_mode,
        replicas: replicas.filter(|replicas| *replicas > 0),
        reason: eviction.reason,
        message: eviction.message,
        producer: eviction.producer,
        grace_period_seconds: eviction.grace_period_seconds,
        suppress_deletion: eviction.suppress_deletion,
        preserved_label_state: eviction.preserved_label_state,
        creation_timestamp: None,
        clusters_before_failover: eviction.clusters_before_failover,
    };
    let tasks: Vec<Value> = tasks.iter().cloned().chain([json!(task)]).collect();
    binding.set(&["spec", "gracefulEvictionTasks"], tasks);
    true
}

/// `evict`, and the binding remembers it.
pub fn evict_on_record(binding: &mut Object, cluster: &str, eviction: Eviction, now: Timestamp) -> bool {
    let has_task = |binding: &Object| {
        binding.items(&["spec", "gracefulEvictionTasks"]).iter().any(|task| task["fromCluster"] == cluster)
    };
    let target = binding.items(&["spec", "clusters"]).iter().find(|target| target["name"] == cluster);
    let replicas = target.and_then(|target| i32::try_from(target["replicas"].as_i64()?).ok());
    if !has_task(binding) && target.is_some() {
        let mut history = History::of(binding);
        history.begin(cluster, replicas, &eviction, now);
        history.write_to(binding);
    }
    evict(binding, cluster, eviction)
}

/// The binding as what it needs sees it: a copy that stays until its successors are well still needs what it needed.
/// `None` where no copy stays.
pub fn with_staying_copies(binding: &Object) -> Option<Object> {
    let scheduled = binding.items(&["spec", "clusters"]);
    let tasks = binding.items(&["spec", "gracefulEvictionTasks"]).iter();
    let stays = |task: &&Value| !matches!(task["purgeMode"].as_str(), Some("Immediately" | "Directly"));
    let is_new = |task: &&Value| !scheduled.iter().any(|target| target["name"] == task["fromCluster"]);
    let staying: Vec<Value> =
        tasks.filter(stays).filter(is_new).map(|task| json!({"name": task["fromCluster"]})).collect();
    if staying.is_empty() {
        return None;
    }
    let mut whole = binding.clone();
    whole.set(&["spec", "clusters"], scheduled.iter().cloned().chain(staying).collect::<Vec<Value>>());
    Some(whole)
}

/// The reason an eviction cannot start yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvictionError {
    #[error("the application status has not yet been collected from Cluster({0})")]
    NoStatus(String),
    #[error(transparent)]
    State(#[from] StateError),
    #[error("GracefulEviction featureGate must be enabled when purgeMode is {0}")]
    GateIsOff(String),
}

/// Returns the eviction of a workload from a cluster in which it is unhealthy.
pub fn application_eviction(
    behavior: &ApplicationFailoverBehavior,
    spec: &BindingSpec,
    items: &[AggregatedStatusItem],
    cluster: &str,
    features: &Features,
) -> Result<Eviction, EvictionError> {
    let purge_mode = behavior.purge_mode.clone();
    let mut eviction =
        Eviction { purge_mode: purge_mode.clone(), reason: "ApplicationFailure".to_owned(), ..Default::default() };
    let rules = behavior.state_preservation.as_ref().filter(|preservation| !preservation.rules.is_empty());
    if let Some(rules) = rules.filter(|_| features.stateful_failover_injection) {
        let item = items.iter().find(|item| item.cluster_name == cluster);
        let status = item.and_then(|item| item.status.as_ref());
        let status = status.ok_or_else(|| EvictionError::NoStatus(cluster.to_owned()))?;
        eviction.preserved_label_state = state::preserve(rules, status)?;
        eviction.clusters_before_failover = spec.clusters.iter().map(|target| target.name.clone()).collect();
    }
    match purge_mode.as_str() {
        "Graciously" | "Gracefully" if !features.graceful_eviction => return Err(EvictionError::GateIsOff(purge_mode)),
        "Graciously" | "Gracefully" => eviction.grace_period_seconds = behavior.grace_period_seconds,
        "Never" => eviction.suppress_deletion = Some(true),
        _ => {}
    }
    Ok(eviction)
}

/// First time the workload was seen unhealthy, by cluster.
pub type Unhealthy = BTreeMap<String, Timestamp>;

/// The decision of an application failover: the clusters to evict from now, and the time of the next check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failover {
    pub evicted: Vec<String>,
    pub again_in: Option<Duration>,
}

/// Decides which members a workload leaves because it has been unhealthy there for longer than tolerated, and keeps
/// track of since when. Members it is leaving already are not asked; a healthy or unknown one starts over.
pub fn detect_failures(
    spec: &BindingSpec,
    items: &[AggregatedStatusItem],
    unhealthy: &mut Unhealthy,
    tolerated: Duration,
    now: Timestamp,
) -> Failover {
    let mut failover = Failover::default();
    let is_leaving = |cluster: &str| spec.graceful_eviction_tasks.iter().any(|task| task.from_cluster == cluster);
    for item in items {
        let cluster = item.cluster_name.as_str();
        match item.health.as_str() {
            "Unhealthy" if !is_leaving(cluster) => {}
            "Healthy" | "Unknown" => {
                unhealthy.remove(cluster);
                continue;
            }
            _ => continue,
        }
        let since = *unhealthy.entry(cluster.to_owned()).or_insert(now);
        let tolerated = SignedDuration::try_from(tolerated).unwrap_or(SignedDuration::MAX);
        let remaining = tolerated.saturating_sub(now.duration_since(since));
        if remaining.is_negative() {
            failover.evicted.push(cluster.to_owned());
        } else {
            let remaining = remaining.unsigned_abs() + Duration::from_millis(1);
            failover.again_in = failover.again_in.into_iter().chain([remaining]).min();
        }
    }
    unhealthy.retain(|cluster, _| spec.target(cluster).is_some());
    failover
}

#[cfg(test)]
mod tests;
