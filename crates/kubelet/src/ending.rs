//! Stops containers and pods: hooks first, then the grace period, then cleanup of this machine.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use cluster_client::{DeleteOptions, Preconditions};
use reconcile::{ObjectKey, Outcome, Priority, ReconcileError};

use crate::cri::RuntimeError;
use crate::decide::{End, EndReason, Stop};
use crate::handlers::{HandlerTarget, run};
use crate::node::KubeletNode;
use crate::observed::{Observed, ObservedContainer, ObservedState, gather_observed};
use crate::pod::{Role, container, grace_seconds, text};
use crate::starting::termination_log;
use crate::sync::PodSync;
use crate::volumes::remove_pod_folder;

/// Minimum grace period, as in Kubernetes.
const GRACE_MIN: Duration = Duration::from_secs(2);
/// Grace period of a container whose pod is unknown.
const UNKNOWN_POD_GRACE: Duration = Duration::from_secs(2);
/// Maximum size of a termination message.
const TERMINATION_MESSAGE_BYTES_MAX: usize = 4096;
const LAST_LINES_MAX: usize = 80;
const LAST_LINES_BYTES_MAX: usize = 2048;
/// Retry interval for a container that could not be stopped.
const STOP_RETRY: Duration = Duration::from_secs(1);
/// Marks the cleanup of an unknown pod in the set of busy containers.
const UNKNOWN_POD: &str = "/";

impl PodSync {
    /// Stops containers in background tasks, each with its grace period.
    pub fn stop(&self, stops: &[Stop]) {
        let grace = Duration::from_secs(grace_seconds(&self.pod)).max(GRACE_MIN);
        for stop in stops {
            self.node.recorder.normal(&*self.pod, "Killing", stop.why.clone());
            self.stop_one(stop.id.clone(), stop.name.clone(), grace);
        }
    }

    fn stop_one(&self, id: String, name: String, grace: Duration) {
        let seconds = grace.as_secs();
        let (is_new, address) = self.node.states.with(self.pod.uid(), |state| {
            // Already stopping: only a shorter grace period matters.
            let earlier = state.stopping.get(&id).copied();
            let is_new = earlier.is_none_or(|before| seconds < before);
            if is_new {
                state.stopping.insert(id.clone(), seconds);
                state.busy.insert(name.clone());
            }
            (is_new.then_some(earlier.is_none()), state.pod_ips.first().cloned().unwrap_or_default())
        });
        let Some(is_first) = is_new else { return };
        let spec = container(&self.pod, &name).map(|(_, container)| Arc::new(container.clone()));
        let target = spec.map(|container| HandlerTarget {
            runtime: self.node.runtime.clone(),
            container_id: id.clone(),
            container,
            address,
        });
        let (node, key, uid) = (Arc::clone(&self.node), self.key.clone(), self.pod.uid().to_owned());
        let pod = Arc::clone(&self.pod);
        tokio::spawn(async move {
            let mut left = grace;
            if let Some(target) = target.filter(|_| is_first)
                && let Some(hook) = target.container.get("lifecycle").and_then(|l| l.get("preStop"))
            {
                let begun = tokio::time::Instant::now();
                if let Err(why) = run(hook, &target, grace).await {
                    node.recorder.warning(&*pod, "FailedPreStopHook", format!("PreStopHook failed: {why}"));
                }
                left = grace.saturating_sub(begun.elapsed()).max(GRACE_MIN.min(grace));
            }
            let stopped = node.runtime.stop_container(&id, left).await;
            node.states.with_known(&uid, |state| {
                state.busy.remove(&name);
                if stopped.is_err() {
                    state.stopping.remove(&id);
                }
            });
            match stopped {
                Ok(()) => node.wake(&key),
                Err(error) => {
                    tracing::warn!(pod = %key, container = name, %error, "failed to stop container");
                    node.controller.queue().add_after(key, STOP_RETRY, Priority::NORMAL);
                }
            }
        });
    }

    /// Works towards the end of a pod; returns true when none of its containers runs.
    pub async fn end(&self, end: &End, observed: &Observed) -> Result<bool, RuntimeError> {
        let node = &self.node;
        node.states.with(self.pod.uid(), |state| state.ending.cancel());
        let (last, rest) = self.in_order_of_end(observed);
        let grace = if end.grace.is_zero() { Duration::ZERO } else { end.grace.max(GRACE_MIN) };
        // Sidecars stop after the other containers, one at a time, in reverse start order.
        let now = if rest.is_empty() { last.into_iter().take(1).collect() } else { rest };
        for seen in &now {
            let is_stopping = node.states.with(self.pod.uid(), |state| state.stopping.contains_key(&seen.id));
            if !is_stopping {
                node.recorder.normal(&*self.pod, "Killing", format!("Stopping container {}", seen.name));
            }
            self.stop_one(seen.id.clone(), seen.name.clone(), grace);
        }
        let is_busy = node.states.with(self.pod.uid(), |state| !state.busy.is_empty());
        if !now.is_empty() || is_busy {
            return Ok(false);
        }
        for sandbox in observed.sandboxes.iter().filter(|sandbox| sandbox.is_ready) {
            node.runtime.stop_sandbox(&sandbox.id).await?;
        }
        Ok(true)
    }

    /// Returns the running containers: sidecars in stop order, and all others.
    fn in_order_of_end<'a>(&self, observed: &'a Observed) -> (Vec<&'a ObservedContainer>, Vec<&'a ObservedContainer>) {
        let order: Vec<&str> =
            crate::pod::containers(&self.pod).into_iter().map(|(_, container)| text(container, "name")).collect();
        let role = |seen: &ObservedContainer| container(&self.pod, &seen.name).map_or(Role::Main, |(role, _)| role);
        let (mut sidecars, others): (Vec<_>, Vec<_>) = observed.running().partition(|seen| role(seen) == Role::Sidecar);
        sidecars.sort_by_key(|seen| std::cmp::Reverse(order.iter().position(|name| *name == seen.name)));
        (sidecars, others)
    }

    /// Writes the final status after everything has stopped, and removes a deleted pod.
    pub async fn finish(&self, end: &End, _: Observed) -> Result<Outcome, ReconcileError> {
        let node = &self.node;
        let mut all = gather_observed(&node.runtime, &self.key).await.map_err(ReconcileError::other)?;
        let observed = all.remove(self.pod.uid()).unwrap_or_default();
        self.write_status(&observed, Some(end.why)).await?;
        node.prober.retain(self.pod.uid(), |_| false);
        node.states.with(self.pod.uid(), |state| {
            if let Some(ports) = state.host_ports.take() {
                ports.cancel();
            }
            if let Some((_, services)) = state.services.take() {
                services.cancel();
            }
        });
        if end.why != EndReason::Deleted {
            return Ok(Outcome::Done);
        }
        node.clear(&self.key, self.pod.uid(), &observed).await.map_err(ReconcileError::other)?;
        let options = DeleteOptions {
            grace_period_seconds: Some(0),
            preconditions: Preconditions { uid: Some(self.pod.uid().to_owned()), resource_version: None },
            ..DeleteOptions::default()
        };
        match node.client.delete(node.pods.target(&self.key), options).await {
            Ok(_) => Ok(Outcome::Done),
            Err(status) if status.is_not_found() || status.is_conflict() => Ok(Outcome::Done),
            Err(status) => Err(status.into()),
        }
    }

    /// Reads the termination message of each exited container once.
    pub fn gather_termination_messages(&self, observed: &Observed) {
        let node = &self.node;
        for seen in observed.containers.iter().filter(|seen| seen.state == ObservedState::Exited) {
            let is_known = node.states.with(self.pod.uid(), |state| state.termination_message.contains_key(&seen.id));
            if is_known {
                continue;
            }
            let spec = container(&self.pod, &seen.name).map(|(_, container)| container);
            let path = termination_log(node, self.pod.uid(), &seen.name, seen.attempt);
            let mut words = fs::read(path).unwrap_or_default();
            words.truncate(TERMINATION_MESSAGE_BYTES_MAX);
            let mut words = String::from_utf8_lossy(&words).into_owned();
            let falls_back = spec.is_some_and(|spec| text(spec, "terminationMessagePolicy") == "FallbackToLogsOnError");
            if words.is_empty() && falls_back && seen.exit_code != 0 {
                let directory = node.log_directory(self.pod.namespace(), self.pod.name(), self.pod.uid());
                let log = directory.join(&seen.name).join(format!("{}.log", seen.attempt));
                words = crate::logs::last_lines(&log, LAST_LINES_MAX, LAST_LINES_BYTES_MAX);
            }
            if !words.is_empty() {
                node.states.with(self.pod.uid(), |state| state.termination_message.insert(seen.id.clone(), words));
            }
        }
    }
}

impl KubeletNode {
    /// Stops containers of an unknown pod or of an earlier pod of the same name. Runs once at a time for each uid.
    pub fn end_unknown_pod(self: &Arc<Self>, key: &ObjectKey, uid: &str, observed: Observed) {
        let is_new = self.states.with(uid, |state| {
            state.ending.cancel();
            state.busy.insert(UNKNOWN_POD.to_owned())
        });
        if !is_new {
            return;
        }
        let (node, key, uid) = (Arc::clone(self), key.clone(), uid.to_owned());
        tokio::spawn(async move {
            let stops = observed.running().map(|seen| node.runtime.stop_container(&seen.id, UNKNOWN_POD_GRACE));
            for result in futures::future::join_all(stops).await {
                if let Err(error) = result {
                    tracing::warn!(pod = %key, uid, %error, "failed to stop container of an unknown pod");
                }
            }
            if let Err(error) = node.clear(&key, &uid, &observed).await {
                tracing::warn!(pod = %key, uid, %error, "failed to clean up after a pod");
                // Retried after the next relist.
                node.states.with(&uid, |state| state.busy.remove(UNKNOWN_POD));
            }
        });
    }

    /// Removes all resources of a pod from this machine.
    pub async fn clear(&self, key: &ObjectKey, uid: &str, observed: &Observed) -> Result<(), RuntimeError> {
        for sandbox in &observed.sandboxes {
            self.runtime.stop_sandbox(&sandbox.id).await?;
            self.runtime.remove_sandbox(&sandbox.id).await?;
        }
        for container in &observed.containers {
            self.runtime.remove_container(&container.id).await?;
        }
        self.prober.retain(uid, |_| false);
        self.tokens.forget(uid);
        self.states.forget(uid);
        self.remove_files(key, uid);
        Ok(())
    }

    fn remove_files(&self, key: &ObjectKey, uid: &str) {
        if let Err(error) = remove_pod_folder(&self.settings.root_dir, uid) {
            tracing::warn!(pod = %key, uid, %error, "failed to remove pod directory");
        }
        let _ = fs::remove_dir_all(self.log_directory(&key.namespace, &key.name, uid));
        crate::cgroups::remove(&self.cgroup_of(uid));
    }
}
