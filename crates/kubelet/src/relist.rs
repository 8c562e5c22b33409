//! Polls the runtime for changes: exited containers, removed sandboxes, growing logs.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use reconcile::ObjectKey;
use tokio_util::sync::CancellationToken;

use crate::cri::RuntimeError;
use crate::cri::messages::{Container, ContainerState};
use crate::logs::{LOG_BYTES_MAX, rotated};
use crate::node::KubeletNode;
use crate::sandbox::{LABEL_NAME, LABEL_NAMESPACE, LABEL_UID};

/// Poll interval.
const RELIST_EVERY: Duration = Duration::from_secs(1);
/// Rounds between two checks of log sizes.
const LOGS_EVERY_ROUNDS: u64 = 10;

/// The ids and states of a pod's sandboxes and containers.
type Fingerprint = BTreeMap<String, i32>;

/// Triggers pods whose containers changed, until cancelled.
pub(crate) async fn run(node: &Arc<KubeletNode>, cancel: CancellationToken) {
    let mut before: BTreeMap<ObjectKey, Fingerprint> = BTreeMap::new();
    for round in 0_u64.. {
        match list(node).await {
            Ok((now, containers)) => {
                for key in changed(&before, &now) {
                    node.wake(&key);
                }
                before = now;
                if round % LOGS_EVERY_ROUNDS == 0 {
                    rotate_large_logs(node, &containers).await;
                }
            }
            Err(error) => tracing::debug!(%error, "failed to list containers"),
        }
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(RELIST_EVERY) => {}
        }
    }
}

async fn list(node: &KubeletNode) -> Result<(BTreeMap<ObjectKey, Fingerprint>, Vec<Container>), RuntimeError> {
    let mut all: BTreeMap<ObjectKey, Fingerprint> = BTreeMap::new();
    let mut note = |labels: &BTreeMap<String, String>, id: &str, state: i32| {
        if let (Some(namespace), Some(name)) = (labels.get(LABEL_NAMESPACE), labels.get(LABEL_NAME)) {
            all.entry(ObjectKey::new(namespace, name)).or_default().insert(id.to_owned(), state);
        }
    };
    for sandbox in node.runtime.list_sandboxes(BTreeMap::new()).await? {
        note(&sandbox.labels, &sandbox.id, sandbox.state);
    }
    let containers = node.runtime.list_containers(BTreeMap::new()).await?;
    for container in &containers {
        note(&container.labels, &container.id, container.state);
    }
    Ok((all, containers))
}

fn changed(before: &BTreeMap<ObjectKey, Fingerprint>, now: &BTreeMap<ObjectKey, Fingerprint>) -> Vec<ObjectKey> {
    let gone = before.keys().filter(|key| !now.contains_key(key));
    let different = now.iter().filter(|(key, fingerprint)| before.get(key) != Some(fingerprint)).map(|(key, _)| key);
    gone.chain(different).cloned().collect()
}

/// Rotates large logs and makes the runtime reopen them.
async fn rotate_large_logs(node: &KubeletNode, containers: &[Container]) {
    for container in containers.iter().filter(|container| container.state() == ContainerState::Running) {
        let label = |name: &str| container.labels.get(name).map(String::as_str).unwrap_or_default();
        let Some(metadata) = &container.metadata else { continue };
        let directory = node.log_directory(label(LABEL_NAMESPACE), label(LABEL_NAME), label(LABEL_UID));
        let path = directory.join(&metadata.name).join(format!("{}.log", metadata.attempt));
        let is_large = fs::metadata(&path).is_ok_and(|file| file.len() > LOG_BYTES_MAX);
        if !is_large {
            continue;
        }
        let moved = fs::rename(&path, rotated(&path));
        let reopened = node.runtime.reopen_log(&container.id).await;
        if moved.is_err() || reopened.is_err() {
            tracing::warn!(path = %path.display(), ?moved, "failed to rotate log");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changed_pods_are_triggered() {
        let key = |name: &str| ObjectKey::new("default", name);
        let print = |state: i32| Fingerprint::from([("id".to_owned(), state)]);
        let before = BTreeMap::from([(key("same"), print(1)), (key("ended"), print(1)), (key("gone"), print(1))]);
        let now = BTreeMap::from([(key("same"), print(1)), (key("ended"), print(2)), (key("new"), print(0))]);
        assert_eq!(changed(&before, &now), [key("gone"), key("ended"), key("new")]);
    }
}
