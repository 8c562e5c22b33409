//! Writes scheduling decisions: bindings, or the failure condition and preemption victims.

use cluster_client::{DeleteOptions, Patch, Preconditions, ResourceRef, WriteOptions};
use object::conditions::{self, NewCondition};
use object::request::Subresource;
use object::{GroupVersionKind, Object, Status, builtin};
use placement::{Preemption, Victim, VolumeNeeds};
use reconcile::{Committed, ObjectKey, Regarding, commit_status};
use serde_json::json;

use crate::scheduling::{SCHEDULER, Scheduler, priority_of};
use crate::volumes::SELECTED_NODE;

impl Scheduler {
    pub(super) async fn commit_binding(&self, pod: &Object, node: &str, needs: &VolumeNeeds) {
        let key = ObjectKey::of(pod);
        let bound = match self.bind_volumes(pod, node, needs).await {
            Ok(()) => self.bind(pod, node).await,
            Err(status) => Err(status),
        };
        match bound {
            Ok(()) => {
                self.queue.forget(&key);
                let message = format!("Successfully assigned {}/{} to {node}", pod.namespace(), pod.name());
                self.recorder.normal(pod, "Scheduled", message);
            }
            Err(status) => {
                if !self.state.lock().retract(&key, pod.uid()) || status.is_not_found() {
                    return;
                }
                self.help(super::UnblockingEvent::PodLeft);
                tracing::debug!(pod = %key, node, %status, "binding failed");
                self.recorder.warning(pod, "FailedScheduling", format!("binding rejected: {status}"));
                self.queue.add_failed(key, priority_of(pod));
            }
        }
    }

    async fn bind(&self, pod: &Object, node: &str) -> Result<(), Status> {
        let mut binding = Object::new(&GroupVersionKind::new("", "v1", "Binding"), Some(pod.namespace()), pod.name());
        binding.set(&["metadata", "uid"], pod.uid());
        binding.set(&["target"], json!({"apiVersion": "v1", "kind": "Node", "name": node}));
        let target = ResourceRef::of(&builtin::pods(), pod).subresource(Subresource::Binding);
        self.mirrors.client.create(target, binding, WriteOptions::managed_by(SCHEDULER)).await.map(|_| ())
    }

    /// Sets the selected node on unbound claims and waits until they are bound.
    async fn bind_volumes(&self, pod: &Object, node: &str, needs: &VolumeNeeds) -> Result<(), Status> {
        if needs.unbound.is_empty() {
            return Ok(());
        }
        let claims: Vec<ObjectKey> =
            placement::Pod::read(pod).claims.iter().map(|name| ObjectKey::new(pod.namespace(), name)).collect();
        for key in &claims {
            let Some(claim) = self.mirrors.claims.get(key) else { continue };
            if claim.str_at(&["spec", "volumeName"]).is_empty() && claim.annotation(SELECTED_NODE) != Some(node) {
                let body = json!({"metadata": {"annotations": {SELECTED_NODE: node}}});
                let target = self.mirrors.claims.target(key);
                self.mirrors.client.patch(target, Patch::merge(body), WriteOptions::managed_by(SCHEDULER)).await?;
            }
        }
        let is_bound = |key: &ObjectKey| {
            self.mirrors.claims.get(key).is_some_and(|claim| claim.str_at(&["status", "phase"]) == "Bound")
        };
        let all_bound = async {
            loop {
                let changed = self.claims_changed.notified();
                tokio::pin!(changed);
                // Registered before the check, so that a change in between is not missed.
                changed.as_mut().enable();
                if claims.iter().all(is_bound) {
                    return;
                }
                changed.await;
            }
        };
        let waited = tokio::time::timeout(self.mirrors.settings.volume_bind_timeout, all_bound).await;
        waited.map_err(|_| Status::timeout("binding volumes: timed out waiting for the condition"))
    }

    /// Reports a new failure reason once, and evicts the preemption victims.
    pub(super) async fn commit_failure(&self, pod: &Object, reason: &str, message: &str, preemption: &Preemption) {
        self.recorder.warning(pod, "FailedScheduling", message);
        for victim in &preemption.victims {
            self.drive_out(pod, victim, preemption.node.as_deref().unwrap_or_default()).await;
        }
        let Some(current) = self.mirrors.pods.get(&ObjectKey::of(pod)).filter(|current| current.uid() == pod.uid())
        else {
            return;
        };
        let mut desired = Object::clone(&current);
        let update = NewCondition { kind: "PodScheduled", status: "False", reason, message };
        conditions::set(&mut desired, &update, self.mirrors.now());
        match &preemption.node {
            Some(node) => desired.set(&["status", "nominatedNodeName"], &**node),
            // A nomination that no longer helps is cleared.
            None if !preemption.awaits_victims => {
                desired.remove(&["status", "nominatedNodeName"]);
            }
            None => {}
        }
        let target = self.mirrors.pods.target(&ObjectKey::of(pod));
        match commit_status(&self.mirrors.client, target, &current, &desired, SCHEDULER).await {
            Ok(Committed::Unchanged | Committed::Written(_)) => {}
            // The pod changed meanwhile, which triggers another attempt.
            Err(status) => tracing::debug!(%status, pod = pod.name(), "failed to write the PodScheduled condition"),
        }
    }

    async fn drive_out(&self, preemptor: &Object, victim: &Victim, node: &str) {
        let key = ObjectKey::new(&victim.namespace, &victim.name);
        let Some(current) = self.mirrors.pods.get(&key).filter(|pod| *pod.uid() == *victim.uid) else { return };
        let mut marked = Object::clone(&current);
        let update = NewCondition {
            kind: "DisruptionTarget",
            status: "True",
            reason: "PreemptionByScheduler",
            message: "default-scheduler: preempting to accommodate a higher priority pod",
        };
        conditions::set(&mut marked, &update, self.mirrors.now());
        let target = self.mirrors.pods.target(&key);
        if let Err(status) = commit_status(&self.mirrors.client, target.clone(), &current, &marked, SCHEDULER).await {
            tracing::debug!(%status, pod = %key, "failed to mark preemption victim");
        }
        let preconditions = Preconditions { uid: Some(victim.uid.to_string()), resource_version: None };
        let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
        match self.mirrors.client.delete(target, options).await {
            Ok(_) => {
                let message = format!("Preempted by pod {} on node {node}", preemptor.uid());
                self.recorder.normal(Regarding::from(&*current), "Preempted", message);
            }
            Err(status) if status.is_not_found() || status.is_conflict() => {}
            Err(status) => tracing::warn!(%status, pod = %key, "failed to delete preemption victim"),
        }
    }
}
