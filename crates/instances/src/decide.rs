//! Decides the next step in the life cycle of one instance, from its object and what is known about its plane.

use std::time::Duration;

use manager_kinds::annotations::{InstanceSettings, Mode};
use manager_kinds::spec::PlaneSpec;
use serde::{Deserialize, Serialize};

/// Failed starts after which an instance is shown as degraded rather than failed.
pub const FAILURES_DEGRADED: u32 = 5;
/// Failed probes in a row after which an instance is degraded.
pub const PROBES_DEGRADED: u32 = 2;
/// Probes in a row without an answer after which a plane of the manager is taken for hung and restarted.
pub const PROBES_HUNG: u32 = 6;
/// Time after which a plane counts as stable: its end is not the failure of its start.
pub const STABLE_AFTER: Duration = Duration::from_secs(600);
/// Reason of an instance whose data is not on this replica.
pub const DATA_MISSING: &str = "DataMissing";
/// Reason of an instance whose storage has reached its size limit.
pub const STORAGE_FULL: &str = "StorageFull";
/// Interval for looking for data that is missing.
const MISSING_DATA_WAIT: Duration = Duration::from_secs(10);

/// The phase of an instance, `status.phase`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Pending,
    Starting,
    Running,
    Degraded,
    Suspended,
    Hibernated,
    Deleting,
    Failed,
}

impl Phase {
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Starting => "Starting",
            Self::Running => "Running",
            Self::Degraded => "Degraded",
            Self::Suspended => "Suspended",
            Self::Hibernated => "Hibernated",
            Self::Deleting => "Deleting",
            Self::Failed => "Failed",
        }
    }
}

/// Settings and requests at the time of a start; a difference to the present ones means that something has to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartedWith {
    pub fingerprint: String,
    pub restarted_at: Option<String>,
    #[serde(default)]
    pub hibernated_at: Option<String>,
}

/// The plane of an instance as it runs now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunningFacts {
    pub started_with: StartedWith,
    /// Why it must be restarted.
    pub broken: Option<String>,
    /// Time since it was started.
    pub ran_for: Duration,
    pub idle: Duration,
    pub failed_probes: u32,
    /// Those of them at the end that got no answer at all.
    pub unanswered_probes: u32,
    pub probe_message: String,
    /// The storage has reached its size limit.
    pub full_storage: Option<String>,
}

/// Joined clusters of the plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clusters {
    /// Not asked: the decision does not depend on it, or no plane runs.
    NotAsked,
    Count(usize),
    Unknown(String),
}

/// Starts in a row that failed, or after which the plane ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedStart {
    pub count: u32,
    pub message: String,
    /// Time until the next attempt.
    pub wait: Duration,
    /// The settings and requests of the last attempt.
    pub tried_with: StartedWith,
}

/// Everything a decision depends on.
#[derive(Clone, Debug)]
pub struct Inputs<'a> {
    pub is_deleting: bool,
    pub has_finalizer: bool,
    pub keeps_plane: bool,
    /// The phase in the status is Hibernated.
    pub was_hibernated: bool,
    pub settings: &'a InstanceSettings,
    pub spec: &'a PlaneSpec,
    /// Problems of a stored spec that today's rules refuse.
    pub spec_problem: Option<String>,
    /// The settings the plane should be started with.
    pub fingerprint: String,
    pub running: Option<RunningFacts>,
    pub clusters: Clusters,
    pub is_woken: bool,
    pub failure: Option<FailedStart>,
    /// Why the data of an instance that was ready before cannot be used here.
    pub missing_data: Option<String>,
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Nothing,
    /// Set the finalizer and the label that karmada-operator sets.
    Adopt,
    Start,
    Stop,
    Restart,
    /// Take out a plane that has ended or hangs, count this as a failed start and wait before the next one.
    GiveUp,
    /// Stop the plane, move its data away and remove the finalizer.
    Remove {
        keeps_plane: bool,
    },
    /// The object is going without our finalizer: stop the plane and leave its data.
    Forget,
}

/// A step with the state to report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LifecycleDecision {
    pub step: Step,
    pub phase: Phase,
    pub is_ready: bool,
    pub reason: &'static str,
    pub message: String,
    /// Look again after this time.
    pub again: Option<Duration>,
}

impl LifecycleDecision {
    fn new(step: Step, phase: Phase, reason: &'static str, message: impl Into<String>) -> Self {
        Self { step, phase, is_ready: false, reason, message: message.into(), again: None }
    }

    fn ready(mut self, is_ready: bool) -> Self {
        self.is_ready = is_ready;
        self
    }

    fn again(mut self, wait: Duration) -> Self {
        self.again = Some(wait);
        self
    }
}

/// Returns true if the decision depends on the number of joined clusters.
pub fn needs_clusters(is_deleting: bool, keeps_plane: bool, settings: &InstanceSettings) -> bool {
    settings.mode != Mode::Imported && ((is_deleting && !keeps_plane) || may_hibernate(settings))
}

fn may_hibernate(settings: &InstanceSettings) -> bool {
    settings.hibernate_after.is_some() || settings.hibernated_at.is_some()
}

pub fn decide(inputs: &Inputs<'_>) -> LifecycleDecision {
    if inputs.is_deleting {
        return decide_deletion(inputs);
    }
    if !inputs.has_finalizer {
        return LifecycleDecision::new(Step::Adopt, Phase::Pending, "Progressing", "the instance has been accepted");
    }
    if let Some(problem) = &inputs.spec_problem {
        return LifecycleDecision::new(Step::Nothing, Phase::Failed, "ValidationError", problem.clone());
    }
    if inputs.spec.is_suspended {
        let text = "spec.suspend is true: the control plane is neither started, stopped nor changed";
        return LifecycleDecision::new(Step::Nothing, Phase::Suspended, "Suspended", text)
            .ready(inputs.running.is_some());
    }
    if inputs.spec.is_stopped {
        let step = if inputs.running.is_some() { Step::Stop } else { Step::Nothing };
        return LifecycleDecision::new(step, Phase::Suspended, "Stopped", "the API server has zero replicas");
    }
    match &inputs.running {
        None => decide_start(inputs),
        Some(running) => decide_running(inputs, running),
    }
}

fn decide_deletion(inputs: &Inputs<'_>) -> LifecycleDecision {
    if !inputs.has_finalizer {
        return LifecycleDecision::new(Step::Forget, Phase::Deleting, "Deleting", "the finalizer was removed by hand");
    }
    let removal = Step::Remove { keeps_plane: inputs.keeps_plane || inputs.settings.mode == Mode::Imported };
    match &inputs.clusters {
        Clusters::Count(count) if *count > 0 && !inputs.keeps_plane => {
            let text = format!(
                "{count} clusters are still joined: remove them, or keep the control plane with the label \
                operator.karmada.io/disable-cascading-deletion=true"
            );
            let held = LifecycleDecision::new(Step::Nothing, Phase::Deleting, "ClustersJoined", text);
            held.ready(inputs.running.is_some()).again(Duration::from_secs(2))
        }
        Clusters::Unknown(problem) if !inputs.keeps_plane => {
            let text = format!("cannot find out whether clusters are joined: {problem}");
            let held = LifecycleDecision::new(Step::Nothing, Phase::Deleting, "ClustersUnknown", text);
            held.ready(false).again(Duration::from_secs(2))
        }
        _ => LifecycleDecision::new(removal, Phase::Deleting, "Deleting", "the control plane is being removed"),
    }
}

fn decide_start(inputs: &Inputs<'_>) -> LifecycleDecision {
    if inputs.was_hibernated && may_hibernate(inputs.settings) && !inputs.is_woken {
        return LifecycleDecision::new(
            Step::Nothing,
            Phase::Hibernated,
            "Hibernated",
            "a request starts the control plane",
        );
    }
    if let Some(problem) = &inputs.missing_data {
        return LifecycleDecision::new(Step::Nothing, Phase::Failed, DATA_MISSING, problem.clone())
            .again(MISSING_DATA_WAIT);
    }
    match inputs.failure.as_ref().filter(|failure| waits(failure, inputs)) {
        Some(FailedStart { count, message, wait, .. }) => {
            let phase = if *count >= FAILURES_DEGRADED { Phase::Degraded } else { Phase::Failed };
            let text = format!("{message} (attempt {count}, the next one in {} s)", wait.as_secs() + 1);
            LifecycleDecision::new(Step::Nothing, phase, "Failed", text).again(*wait)
        }
        None => LifecycleDecision::new(Step::Start, Phase::Starting, "Progressing", "the control plane is starting"),
    }
}

/// Changed settings and a requested restart do not wait: they may be the remedy.
fn waits(failure: &FailedStart, inputs: &Inputs<'_>) -> bool {
    let StartedWith { fingerprint, restarted_at, .. } = &failure.tried_with;
    !failure.wait.is_zero() && *fingerprint == inputs.fingerprint && *restarted_at == inputs.settings.restarted_at
}

fn decide_running(inputs: &Inputs<'_>, running: &RunningFacts) -> LifecycleDecision {
    let restart = |why: &str| LifecycleDecision::new(Step::Restart, Phase::Starting, "Progressing", why);
    if let Some(problem) = &running.broken {
        if running.ran_for < STABLE_AFTER {
            return LifecycleDecision::new(Step::GiveUp, Phase::Failed, "Failed", problem.clone());
        }
        return restart(&format!("the control plane has stopped and is started again: {problem}"));
    }
    if running.started_with.restarted_at != inputs.settings.restarted_at {
        return restart("a restart was requested");
    }
    if running.started_with.fingerprint != inputs.fingerprint {
        return restart("the settings have changed");
    }
    // A plane that waits for an external etcd does not get better by a restart.
    let is_all_ours = inputs.settings.mode != Mode::Imported && inputs.spec.etcd.is_none();
    if running.unanswered_probes >= PROBES_HUNG && is_all_ours {
        let text = format!("the control plane does not answer and is started again: {}", running.probe_message);
        return LifecycleDecision::new(Step::GiveUp, Phase::Degraded, "Unreachable", text);
    }
    if running.failed_probes >= PROBES_DEGRADED {
        return LifecycleDecision::new(Step::Nothing, Phase::Degraded, "Unreachable", running.probe_message.clone());
    }
    let ready = match &running.full_storage {
        Some(problem) => LifecycleDecision::new(Step::Nothing, Phase::Degraded, STORAGE_FULL, problem.clone()),
        None => {
            LifecycleDecision::new(Step::Nothing, Phase::Running, "Completed", "the control plane is ready").ready(true)
        }
    };
    if inputs.settings.mode == Mode::Imported {
        return ready;
    }
    // A request is done once: the plane that starts after it was started with it.
    let requested_at = &inputs.settings.hibernated_at;
    let is_requested = requested_at.is_some() && running.started_with.hibernated_at != *requested_at;
    let after = if is_requested { Some(Duration::ZERO) } else { inputs.settings.hibernate_after };
    let Some(after) = after else { return ready };
    match inputs.clusters {
        // Members need their heartbeats and changes: only a plane without members may sleep.
        Clusters::Count(0) if running.idle >= after => {
            LifecycleDecision::new(Step::Stop, Phase::Hibernated, "Hibernated", "a request starts the control plane")
        }
        _ if is_requested => {
            let text = "the control plane is ready; it hibernates when no cluster is joined";
            LifecycleDecision { message: text.to_owned(), ..ready }.again(Duration::from_secs(2))
        }
        Clusters::Count(0) => ready.again(after.saturating_sub(running.idle).max(Duration::from_millis(200))),
        _ => ready.again(after),
    }
}

#[cfg(test)]
mod tests;
