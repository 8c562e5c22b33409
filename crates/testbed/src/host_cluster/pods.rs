//! The state of the pods of the control plane and of the agents, for `status` and `doctor`.

use std::path::Path;
use std::time::Duration;

use api::names::SYSTEM_NAMESPACE;
use cluster_client::{ListOptions, ResourceRef};
use karmadactl::pod_problem::PodProblem;
use membership::agent_manifests::AGENT;
use object::{Object, conditions};
use provisioners::Condition;

use super::HOST;
use super::plane::CONTROLLERS;
use crate::bed::Testbed;
use crate::clusters::{PODS, open_within};

const CHECK_TIMEOUT: Duration = Duration::from_secs(3);

/// The state of a pod of the testbed itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodState {
    Ready {
        restarts: u32,
    },
    /// It exists and is not ready, with the reason.
    NotReady(String),
    /// No pod was found, with the reason.
    Missing(String),
}

impl PodState {
    pub fn condition(&self) -> Condition {
        match self {
            Self::Ready { .. } => Condition::Running,
            Self::NotReady(_) => Condition::Stopped,
            Self::Missing(_) => Condition::Missing,
        }
    }

    pub fn describe(&self) -> String {
        match self {
            Self::Ready { .. } => "its pod is ready".to_owned(),
            Self::NotReady(reason) | Self::Missing(reason) => reason.clone(),
        }
    }

    fn of(pods: &[&Object]) -> Self {
        let restarts = |pod: &Object| {
            let states = pod.items(&["status", "containerStatuses"]).iter();
            states.filter_map(|state| state["restartCount"].as_u64()).sum::<u64>()
        };
        let is_ready = |pod: &&&Object| conditions::is_true(pod, "Ready") && !pod.is_deleting();
        if let Some(pod) = pods.iter().find(is_ready) {
            return Self::Ready { restarts: u32::try_from(restarts(pod)).unwrap_or(u32::MAX) };
        }
        match pods.iter().find(|pod| !pod.is_deleting()) {
            Some(pod) => {
                let problem = PodProblem::of_unready(pod);
                let why = problem.map_or_else(|| "is starting".to_owned(), |problem| problem.summary());
                Self::NotReady(format!("pod {} {why}", pod.name()))
            }
            None => Self::Missing("it has no pod".to_owned()),
        }
    }
}

/// Looks at the pod of the control plane in the host cluster.
pub async fn plane_state(bed: &Testbed) -> PodState {
    look(&bed.place.member_config(HOST), CONTROLLERS).await
}

/// Looks at the pod of a member's agent.
pub async fn agent_state(bed: &Testbed, member: &str) -> PodState {
    look(&bed.place.member_config(member), AGENT).await
}

async fn look(kubeconfig: &Path, app: &str) -> PodState {
    let list = async {
        let client = open_within(kubeconfig, CHECK_TIMEOUT)?;
        let options = ListOptions { label_selector: Some(format!("app={app}")), ..ListOptions::default() };
        anyhow::Ok(client.list_all(ResourceRef::within(&PODS.gvr(), SYSTEM_NAMESPACE), options).await?)
    };
    match list.await {
        Ok(list) => PodState::of(&list.items.iter().map(AsRef::as_ref).collect::<Vec<&Object>>()),
        Err(error) => PodState::Missing(format!("its cluster does not respond: {error:#}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, ready: bool, deleted: bool) -> Object {
        let mut pod = json!({"metadata": {"name": name}, "status": {
            "phase": "Running", "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
            "containerStatuses": [{"name": "c", "ready": ready, "restartCount": 2, "state": {"running": {}}}]}});
        if deleted {
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        Object::from_value(pod).unwrap()
    }

    #[test]
    fn one_ready_pod_is_enough_and_pods_being_deleted_do_not_count() {
        let (old, new, broken) = (pod("a", true, true), pod("b", true, false), pod("c", false, false));
        assert_eq!(PodState::of(&[&old, &new]), PodState::Ready { restarts: 2 });
        assert_eq!(PodState::of(&[&broken, &new]), PodState::Ready { restarts: 2 });
        assert_eq!(PodState::of(&[&old]).condition(), Condition::Missing);
        let reason = "pod c container c runs, but is not ready".to_owned();
        assert_eq!(PodState::of(&[&broken]), PodState::NotReady(reason));
    }
}
