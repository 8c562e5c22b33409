//! Decides the next actions for a pod from its spec and its state in the runtime. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use object::Object;
use serde_json::Value;

use crate::container::hash;
use crate::observed::{Observed, ObservedContainer, ObservedState};
use crate::pod::{
    RestartPolicy, Role, containers, grace_seconds, is_finished, recorded_restarts, restart_policy, restarts, text,
};

/// Probe results of a container, by its id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Health {
    /// Its startup probe has not succeeded yet, or its postStart hook still runs.
    pub is_starting: bool,
    pub is_ready: bool,
    /// The reason why it must be restarted.
    pub unhealthy: Option<String>,
}

/// The inputs of a decision.
pub(crate) struct PodInputs<'a> {
    pub pod: &'a Object,
    pub observed: &'a Observed,
    /// Names of containers that are being started or stopped.
    pub busy: &'a BTreeSet<String>,
    /// By container id; a missing entry is healthy.
    pub health: &'a BTreeMap<String, Health>,
    /// Remaining backoff before a container may be restarted, by name.
    pub waits: &'a BTreeMap<String, Duration>,
    /// `activeDeadlineSeconds` has passed.
    pub is_past_deadline: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Stop everything; the pod is finished, for this reason.
    End(End),
    Go(PodActions),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub grace: Duration,
    pub why: EndReason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndReason {
    Deleted,
    /// All containers completed, or will not be restarted.
    Done,
    PastDeadline,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodActions {
    /// A sandbox to create first, with its attempt number.
    pub sandbox: Option<u32>,
    pub starts: Vec<Start>,
    pub stops: Vec<Stop>,
    /// Containers in backoff with the remaining time.
    pub waits: Vec<(String, Duration)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    pub name: String,
    pub attempt: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stop {
    pub id: String,
    pub name: String,
    pub why: String,
}

pub(crate) fn decide(view: &PodInputs) -> Next {
    let grace = Duration::from_secs(grace_seconds(view.pod));
    let end = |why| Next::End(End { grace, why });
    if view.pod.is_deleting() {
        return end(EndReason::Deleted);
    }
    if view.is_past_deadline {
        return end(EndReason::PastDeadline);
    }
    if is_finished(view.pod) || outcome(view.pod, view.observed).is_some() {
        return end(EndReason::Done);
    }
    let mut work = PodActions::default();
    let current = view.observed.sandbox().filter(|sandbox| sandbox.is_ready);
    let Some(sandbox) = current else {
        // Containers of an earlier sandbox lost their network and start over.
        work.sandbox = Some(view.observed.sandbox().map_or(0, |old| old.attempt + 1));
        for seen in view.observed.running().filter(|seen| !view.busy.contains(&seen.name)) {
            work.stops.push(stop(seen, "Pod sandbox changed, it will be killed and re-created."));
        }
        return Next::Go(work);
    };
    plan_containers(view, &sandbox.id, &mut work);
    Next::Go(work)
}

/// Processes the containers in order and stops at the first that blocks later ones.
fn plan_containers(view: &PodInputs, sandbox_id: &str, work: &mut PodActions) {
    let all = containers(view.pod);
    let in_sandbox = |name: &str| view.observed.latest(name).filter(|seen| seen.sandbox_id == sandbox_id);
    let has_begun = all.iter().any(|(role, c)| *role == Role::Main && in_sandbox(text(c, "name")).is_some());
    for (role, container) in all {
        let seen = in_sandbox(text(container, "name"));
        if role == Role::Init && has_begun {
            continue;
        }
        plan_container(view, role, container, seen, work);
        let holds_up = match role {
            Role::Init => !seen.is_some_and(|seen| seen.state == ObservedState::Exited && seen.exit_code == 0),
            Role::Sidecar => !has_begun && !seen.is_some_and(|seen| is_started(view, seen)),
            Role::Main | Role::Ephemeral => false,
        };
        if holds_up {
            return;
        }
    }
}

fn is_started(view: &PodInputs, seen: &ObservedContainer) -> bool {
    seen.state == ObservedState::Running && view.health.get(&seen.id).is_none_or(|health| !health.is_starting)
}

fn plan_container(
    view: &PodInputs,
    role: Role,
    container: &Value,
    seen: Option<&ObservedContainer>,
    work: &mut PodActions,
) {
    let name = text(container, "name");
    if view.busy.contains(name) {
        return;
    }
    let start = |work: &mut PodActions| {
        // If the runtime lost its containers, the attempt numbers continue.
        let before = view.observed.latest(name).map(|latest| latest.attempt);
        let attempt = before.or_else(|| recorded_restarts(view.pod, name)).map_or(0, |attempt| attempt + 1);
        match view.waits.get(name) {
            Some(wait) if !wait.is_zero() => work.waits.push((name.to_owned(), *wait)),
            _ => work.starts.push(Start { name: name.to_owned(), attempt }),
        }
    };
    let Some(seen) = seen else { return start(work) };
    match seen.state {
        ObservedState::Running => {
            if seen.hash != hash(container) {
                let why = format!("Container {name} definition changed, will be restarted");
                work.stops.push(stop(seen, &why));
            } else if let Some(why) = view.health.get(&seen.id).and_then(|health| health.unhealthy.as_deref()) {
                work.stops.push(stop(seen, why));
            }
        }
        ObservedState::Exited if restarts(restart_policy(view.pod), role, seen.exit_code) => start(work),
        ObservedState::Exited => {}
        // Its creator was interrupted before starting it.
        ObservedState::Created => start(work),
    }
}

fn stop(seen: &ObservedContainer, why: &str) -> Stop {
    Stop { id: seen.id.clone(), name: seen.name.clone(), why: why.to_owned() }
}

/// Returns the result of a pod: `Some(true)` on success; `None` while something runs or will run.
pub(crate) fn outcome(pod: &Object, observed: &Observed) -> Option<bool> {
    let policy = restart_policy(pod);
    let mut all_well = true;
    for (role, container) in containers(pod) {
        let seen = observed.latest(text(container, "name"));
        let exited = seen.filter(|seen| seen.state == ObservedState::Exited);
        match role {
            Role::Sidecar | Role::Ephemeral => {}
            Role::Init => {
                if policy == RestartPolicy::Never && exited.is_some_and(|seen| seen.exit_code != 0) {
                    return Some(false);
                }
            }
            Role::Main => {
                // It ran, must not run twice, and its exit code is lost.
                let is_lost = policy == RestartPolicy::Never && seen.is_none();
                if is_lost && recorded_restarts(pod, text(container, "name")).is_some() {
                    all_well = false;
                    continue;
                }
                let exited = exited?;
                if restarts(policy, role, exited.exit_code) {
                    return None;
                }
                all_well &= exited.exit_code == 0;
            }
        }
    }
    Some(all_well)
}

#[cfg(test)]
mod tests;
