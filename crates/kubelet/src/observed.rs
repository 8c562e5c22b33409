//! The sandboxes and containers of a pod in the runtime.

use std::collections::BTreeMap;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use reconcile::ObjectKey;

use crate::container::ANNOTATION_HASH;
use crate::cri::messages::{Container, ContainerState, ContainerStatus, SandboxState};
use crate::cri::{Runtime, RuntimeError};
use crate::sandbox::{LABEL_NAME, LABEL_NAMESPACE, LABEL_UID};

/// Newest first in both lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Observed {
    pub sandboxes: Vec<Sandbox>,
    pub containers: Vec<ObservedContainer>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sandbox {
    pub id: String,
    pub attempt: u32,
    pub is_ready: bool,
    pub ips: Vec<String>,
    pub created_at: i64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ObservedState {
    /// Created but not started, or in an unknown state.
    #[default]
    Created,
    Running,
    Exited,
}

/// A container; times are nanoseconds since 1970, 0 if unset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ObservedContainer {
    pub id: String,
    pub name: String,
    pub attempt: u32,
    pub sandbox_id: String,
    pub state: ObservedState,
    pub created_at: i64,
    pub started_at: i64,
    pub finished_at: i64,
    pub exit_code: i32,
    pub reason: String,
    pub message: String,
    pub image: String,
    pub image_ref: String,
    pub hash: String,
}

impl Observed {
    /// Returns the current or last sandbox.
    pub fn sandbox(&self) -> Option<&Sandbox> {
        self.sandboxes.first()
    }

    /// Returns the newest container of that name.
    pub fn latest(&self, name: &str) -> Option<&ObservedContainer> {
        self.containers.iter().find(|seen| seen.name == name)
    }

    /// Returns the container before the latest.
    pub fn previous(&self, name: &str) -> Option<&ObservedContainer> {
        self.containers.iter().filter(|seen| seen.name == name).nth(1)
    }

    pub fn running(&self) -> impl Iterator<Item = &ObservedContainer> {
        self.containers.iter().filter(|seen| seen.state == ObservedState::Running)
    }
}

/// Returns everything under a pod's name, by uid: an earlier pod of the same name may still be terminating.
pub(crate) async fn gather_observed(
    runtime: &Runtime,
    key: &ObjectKey,
) -> Result<BTreeMap<String, Observed>, RuntimeError> {
    let labels = || {
        BTreeMap::from([(LABEL_NAMESPACE.to_owned(), key.namespace.clone()), (LABEL_NAME.to_owned(), key.name.clone())])
    };
    let mut all: BTreeMap<String, Observed> = BTreeMap::new();
    for sandbox in runtime.list_sandboxes(labels()).await? {
        let is_ready = sandbox.state() == SandboxState::Ready;
        let ips = if is_ready { sandbox_ips(runtime, &sandbox.id).await? } else { Vec::new() };
        let attempt = sandbox.metadata.map(|m| m.attempt).unwrap_or_default();
        let uid = sandbox.labels.get(LABEL_UID).cloned().unwrap_or_default();
        let sandbox = Sandbox { id: sandbox.id, attempt, is_ready, ips, created_at: sandbox.created_at };
        all.entry(uid).or_default().sandboxes.push(sandbox);
    }
    let listed = runtime.list_containers(labels()).await?;
    let mut asked: FuturesUnordered<_> = listed.into_iter().map(|container| seen(runtime, container)).collect();
    while let Some(answer) = asked.next().await {
        if let Some((uid, seen)) = answer? {
            all.entry(uid).or_default().containers.push(seen);
        }
    }
    for observed in all.values_mut() {
        observed.sandboxes.sort_by_key(|sandbox| std::cmp::Reverse((sandbox.created_at, sandbox.attempt)));
        observed.containers.sort_by_key(|seen| std::cmp::Reverse((seen.attempt, seen.created_at)));
    }
    Ok(all)
}

async fn sandbox_ips(runtime: &Runtime, id: &str) -> Result<Vec<String>, RuntimeError> {
    let status = match runtime.sandbox_status(id, false).await {
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        result => result?.status,
    };
    let Some(network) = status.and_then(|status| status.network) else { return Ok(Vec::new()) };
    let more = network.additional_ips.into_iter().map(|ip| ip.ip);
    Ok(std::iter::once(network.ip).chain(more).filter(|ip| !ip.is_empty()).collect())
}

/// Returns the container with its pod's uid; `None` if it was removed since it was listed.
async fn seen(runtime: &Runtime, container: Container) -> Result<Option<(String, ObservedContainer)>, RuntimeError> {
    let uid = container.labels.get(LABEL_UID).cloned().unwrap_or_default();
    let status = runtime.container_status(&container.id).await?;
    Ok(status.map(|status| (uid, to_seen(container.pod_sandbox_id, status))))
}

fn to_seen(sandbox_id: String, status: ContainerStatus) -> ObservedContainer {
    let state = match status.state() {
        ContainerState::Running => ObservedState::Running,
        ContainerState::Exited => ObservedState::Exited,
        ContainerState::Created | ContainerState::Unknown => ObservedState::Created,
    };
    let metadata = status.metadata.unwrap_or_default();
    ObservedContainer {
        id: status.id,
        name: metadata.name,
        attempt: metadata.attempt,
        sandbox_id,
        state,
        created_at: status.created_at,
        started_at: status.started_at,
        finished_at: status.finished_at,
        exit_code: status.exit_code,
        reason: status.reason,
        message: status.message,
        image: status.image.map(|image| image.image).unwrap_or_default(),
        image_ref: status.image_ref,
        hash: status.annotations.get(ANNOTATION_HASH).cloned().unwrap_or_default(),
    }
}
