//! Deletes pods no kubelet will finish: pods of deleted nodes, deleted pods without a node, and old finished pods.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use cluster_client::{DeleteOptions, Preconditions, ResourceRef};
use object::builtin;
use object::conditions::{self, NewCondition};
use object::{Object, Status};
use parking_lot::Mutex;
use reconcile::{Change, ObjectKey, commit_status};
use tokio::time::Instant;

use crate::mirrors::{ClusterMirrors, FIELD_MANAGER};
use crate::start::Service;

const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// The pods and nodes that may need collection, updated on pod events.
#[derive(Default)]
struct GcIndex {
    /// Number of pods by node name.
    nodes: HashMap<String, usize>,
    /// Deleted without a node: no kubelet will finish them.
    unbound: HashSet<ObjectKey>,
    /// Finished pods, oldest first.
    ended: BTreeSet<(String, ObjectKey)>,
}

struct PodGc {
    mirrors: Arc<ClusterMirrors>,
    index: Mutex<GcIndex>,
    /// Nodes that pods refer to but that do not exist, with the time this was noticed.
    missing: Mutex<HashMap<String, Instant>>,
}

pub fn start(mirrors: &Arc<ClusterMirrors>) -> Service {
    let gc = Arc::new(PodGc { mirrors: Arc::clone(mirrors), index: Mutex::default(), missing: Mutex::default() });
    let listener = Arc::clone(&gc);
    Service::new(run(gc)).on_pods(move |change| listener.index.lock().pod_changed(change))
}

async fn run(gc: Arc<PodGc>) {
    let cancel = gc.mirrors.cancel.clone();
    let rounds = async {
        gc.mirrors.pods_dispatched().await;
        loop {
            tokio::time::sleep(gc.mirrors.settings.pod_gc_period).await;
            gc.collect_ended().await;
            gc.collect_orphans().await;
            gc.collect_homeless().await;
            gc.collect_out_of_service().await;
        }
    };
    tokio::select! {
        () = cancel.cancelled() => {}
        () = rounds => {}
    }
}

impl GcIndex {
    fn pod_changed(&mut self, change: &Change) {
        if let Some(before) = &change.before {
            self.forget(&change.key, before);
        }
        if let Some(now) = &change.now {
            self.note(&change.key, now);
        }
    }

    fn note(&mut self, key: &ObjectKey, pod: &Object) {
        match pod.str_at(&["spec", "nodeName"]) {
            "" if pod.is_deleting() => drop(self.unbound.insert(key.clone())),
            "" => {}
            node => *self.nodes.entry(node.to_owned()).or_insert(0) += 1,
        }
        if has_ended(pod) {
            self.ended.insert((pod.creation_timestamp().to_owned(), key.clone()));
        }
    }

    fn forget(&mut self, key: &ObjectKey, pod: &Object) {
        self.unbound.remove(key);
        if let Some(count) = self.nodes.get_mut(pod.str_at(&["spec", "nodeName"])) {
            *count -= 1;
            if *count == 0 {
                self.nodes.remove(pod.str_at(&["spec", "nodeName"]));
            }
        }
        if has_ended(pod) {
            self.ended.remove(&(pod.creation_timestamp().to_owned(), key.clone()));
        }
    }
}

fn has_ended(pod: &Object) -> bool {
    matches!(pod.str_at(&["status", "phase"]), "Succeeded" | "Failed")
}

impl PodGc {
    /// Keeps only the newest finished pods.
    async fn collect_ended(&self) {
        let threshold = self.mirrors.settings.terminated_pod_gc_threshold;
        let surplus: Vec<ObjectKey> = {
            let index = self.index.lock();
            let extra = index.ended.len().saturating_sub(threshold);
            if threshold == 0 {
                Vec::new()
            } else {
                index.ended.iter().take(extra).map(|(_, key)| key.clone()).collect()
            }
        };
        for pod in surplus.iter().filter_map(|key| self.mirrors.pods.get(key)).filter(|pod| has_ended(pod)) {
            self.delete(&pod).await;
        }
    }

    /// The pods of a node are deleted only after it was missing for a while and the API confirms it.
    async fn collect_orphans(&self) {
        for node in self.missing_nodes() {
            match self.mirrors.client.find(ResourceRef::cluster(&builtin::nodes(), &node)).await {
                Ok(None) => {}
                Ok(Some(_)) | Err(_) => continue,
            }
            for pod in self.mirrors.pods_by_node.list(&node) {
                tracing::info!(pod = pod.name(), node, "deleting pod of a deleted node");
                self.mark(&pod, "PodGC: node no longer exists").await;
                self.delete(&pod).await;
            }
        }
    }

    fn missing_nodes(&self) -> Vec<String> {
        let named: Vec<String> = self.index.lock().nodes.keys().cloned().collect();
        let is_missing = |node: &String| self.mirrors.nodes.get(&ObjectKey::new("", node)).is_none();
        let now_missing: HashSet<String> = named.into_iter().filter(is_missing).collect();
        let mut missing = self.missing.lock();
        missing.retain(|node, _| now_missing.contains(node));
        for node in now_missing {
            missing.entry(node).or_insert_with(Instant::now);
        }
        let quarantine: Duration = self.mirrors.settings.pod_gc_quarantine;
        missing.iter().filter(|(_, since)| since.elapsed() >= quarantine).map(|(node, _)| node.clone()).collect()
    }

    async fn collect_homeless(&self) {
        let unbound: Vec<ObjectKey> = self.index.lock().unbound.iter().cloned().collect();
        for pod in unbound.iter().filter_map(|key| self.mirrors.pods.get(key)) {
            if pod.is_deleting() && pod.str_at(&["spec", "nodeName"]).is_empty() {
                self.delete(&pod).await;
            }
        }
    }

    /// A node with the out-of-service taint will not finish its pods.
    async fn collect_out_of_service(&self) {
        let is_lost = |node: &Arc<Object>| {
            node.items(&["spec", "taints"]).iter().any(|taint| taint["key"] == OUT_OF_SERVICE)
                && !conditions::is_true(node, "Ready")
        };
        let nodes: Vec<String> = self.index.lock().nodes.keys().cloned().collect();
        for node in nodes.iter().filter_map(|name| self.mirrors.nodes.get(&ObjectKey::new("", name))).filter(is_lost) {
            for pod in self.mirrors.pods_by_node.list(node.name()).iter().filter(|pod| pod.is_deleting()) {
                self.mark(pod, "PodGC: node is out of service").await;
                self.delete(pod).await;
            }
        }
    }

    /// Sets the disruption condition, and the phase Failed if the pod had not finished.
    async fn mark(&self, pod: &Object, message: &str) {
        if has_ended(pod) {
            return;
        }
        let mut marked = pod.clone();
        let update = NewCondition { kind: "DisruptionTarget", status: "True", reason: "DeletionByPodGC", message };
        conditions::set(&mut marked, &update, self.mirrors.now());
        marked.set(&["status", "phase"], "Failed");
        let target = ResourceRef::of(&builtin::pods(), pod);
        if let Err(status) = commit_status(&self.mirrors.client, target, pod, &marked, FIELD_MANAGER).await {
            tracing::debug!(%status, pod = pod.name(), "failed to write the disruption condition of a pod");
        }
    }

    async fn delete(&self, pod: &Object) {
        let preconditions = Preconditions { uid: Some(pod.uid().to_owned()), resource_version: None };
        let options = DeleteOptions { preconditions, grace_period_seconds: Some(0), ..DeleteOptions::default() };
        match self.mirrors.client.delete(ResourceRef::of(&builtin::pods(), pod), options).await {
            Ok(_) => {}
            Err(status) if is_gone(&status) => {}
            // Retried in the next round.
            Err(status) => tracing::warn!(%status, pod = pod.name(), "failed to delete pod"),
        }
    }
}

fn is_gone(status: &Status) -> bool {
    status.is_not_found() || status.is_conflict()
}
