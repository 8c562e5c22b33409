//! Reconciles one pod: observes it, decides, acts, and writes its status.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use object::Object;
use reconcile::{ObjectKey, Outcome, ReconcileError, commit_status};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::container::host_ports;
use crate::decide::{EndReason, Health, Next, PodActions, PodInputs, decide};
use crate::handlers::HandlerTarget;
use crate::node::KubeletNode;
use crate::observed::{Observed, ObservedState, gather_observed};
use crate::pod::{COMPONENT, Role, container, is_finished, restart_policy, restarts, uses_host_network};
use crate::probes::ProbeRequest;
use crate::sandbox::sandbox_config;
use crate::services::declared_ports;
use crate::state::Cause;
use crate::status::{StatusInputs, WaitingReason, pod_status};
use crate::volumes::{changes, commit_volumes};

/// Refresh interval of volumes with API object sources.
const VOLUMES_EVERY: Duration = Duration::from_secs(10);
/// Retry interval for volumes and sandboxes.
const RETRY_EVERY: Duration = Duration::from_secs(3);

/// Reconciles a pod and writes its status.
pub(crate) async fn reconcile(node: Arc<KubeletNode>, key: ObjectKey) -> Result<Outcome, ReconcileError> {
    let pod = node.pods.get(&key);
    let mut all = gather_observed(&node.runtime, &key).await.map_err(ReconcileError::other)?;
    let observed = pod.as_ref().and_then(|pod| all.remove(pod.uid())).unwrap_or_default();
    // Remains of deleted pods, or of an earlier pod of the same name.
    for (uid, observed) in all {
        node.end_unknown_pod(&key, &uid, observed);
    }
    let Some(pod) = pod else { return Ok(Outcome::Done) };
    let sync = PodSync { node, key, pod };
    sync.go(observed).await
}

/// A pod being reconciled.
pub(crate) struct PodSync {
    pub node: Arc<KubeletNode>,
    pub key: ObjectKey,
    pub pod: Arc<Object>,
}

impl PodSync {
    async fn go(self, mut observed: Observed) -> Result<Outcome, ReconcileError> {
        let mut next = self.decide(&observed);
        let mut again = None;
        if let Next::Go(PodActions { sandbox: Some(attempt), stops, .. }) = &next {
            self.stop(stops);
            match self.make_sandbox(*attempt, &observed).await {
                Ok(()) => {
                    let mut all =
                        gather_observed(&self.node.runtime, &self.key).await.map_err(ReconcileError::other)?;
                    observed = all.remove(self.pod.uid()).unwrap_or_default();
                    next = self.decide(&observed);
                }
                Err(wait) => again = Some(wait),
            }
        }
        self.note_addresses(&observed);
        let ending = match &next {
            Next::End(end) => Some(end.why),
            Next::Go(_) => None,
        };
        match next {
            Next::End(end) => {
                if self.end(&end, &observed).await.map_err(ReconcileError::other)? {
                    return self.finish(&end, observed).await;
                }
            }
            Next::Go(work) => {
                self.open_services(&observed).await;
                again = [again, self.work(work, &observed).await].into_iter().flatten().min();
                self.watch_over(&observed);
                if let Some(failure) = self.open_host_ports(&observed).await {
                    self.node.recorder.warning(&*self.pod, "HostPortConflict", failure);
                    again = Some(RETRY_EVERY);
                }
            }
        }
        self.write_status(&observed, ending).await?;
        let deadline = self.until_deadline();
        Ok([again, deadline].into_iter().flatten().min().map_or(Outcome::Done, Outcome::After))
    }

    fn decide(&self, observed: &Observed) -> Next {
        let now = self.node.clock.now();
        let policy = restart_policy(&self.pod);
        let (busy, waits) = self.node.states.with(self.pod.uid(), |state| {
            for seen in observed.containers.iter().filter(|seen| seen.state == ObservedState::Exited) {
                let role = container(&self.pod, &seen.name).map_or(Role::Main, |(role, _)| role);
                let is_latest = observed.latest(&seen.name).is_some_and(|latest| latest.id == seen.id);
                if is_latest && restarts(policy, role, seen.exit_code) {
                    state.note_exit(seen, now);
                }
            }
            (state.busy.clone(), state.waits())
        });
        let view = PodInputs {
            pod: &self.pod,
            observed,
            busy: &busy,
            health: &self.health(observed),
            waits: &waits,
            is_past_deadline: self.until_deadline().is_some_and(|left| left.is_zero()),
        };
        decide(&view)
    }

    /// Returns probe results; a container whose postStart hook still runs counts as starting.
    fn health(&self, observed: &Observed) -> BTreeMap<String, Health> {
        let mut health = self.node.prober.health(self.pod.uid());
        let busy = self.node.states.with(self.pod.uid(), |state| state.busy.clone());
        for seen in observed.running() {
            let unwatched = || Health { is_starting: true, is_ready: false, unhealthy: None };
            if busy.contains(&seen.name) && !health.contains_key(&seen.id) {
                health.insert(seen.id.clone(), unwatched());
            }
        }
        health
    }

    /// Returns the rest of `activeDeadlineSeconds`; `None` without one, or once the pod is finished.
    fn until_deadline(&self) -> Option<Duration> {
        if is_finished(&self.pod) {
            return None;
        }
        let seconds = self.pod.i64_at(&["spec", "activeDeadlineSeconds"])?;
        let start = object::time::parse(self.pod.str_at(&["status", "startTime"]))?;
        let end = start.checked_add(SignedDuration::from_secs(seconds)).ok()?;
        Some(Duration::try_from(end.duration_since(self.node.clock.now())).unwrap_or_default())
    }

    /// Creates the volumes first, since containers need them, then the sandbox. The error is the retry delay.
    async fn make_sandbox(&self, attempt: u32, observed: &Observed) -> Result<(), Duration> {
        let (node, pod) = (&self.node, &self.pod);
        self.refresh_volumes(true).await?;
        let log_directory = node.log_directory(pod.namespace(), pod.name(), pod.uid());
        let made = std::fs::create_dir_all(&log_directory);
        if let Err(error) = made {
            node.recorder.warning(&**pod, "FailedCreatePodSandBox", format!("failed to create log directory: {error}"));
            return Err(RETRY_EVERY);
        }
        for old in observed.sandboxes.iter() {
            if let Err(error) = node.runtime.stop_sandbox(&old.id).await {
                tracing::warn!(pod = %self.key, %error, "failed to stop old sandbox");
                return Err(RETRY_EVERY);
            }
        }
        let cgroup = node.cgroup_of(pod.uid());
        let config = sandbox_config(pod, attempt, &log_directory, &cgroup, &node.resolving);
        match node.runtime.run_sandbox(config).await {
            Ok(_) => Ok(()),
            Err(error) => {
                let message = format!("Failed to create pod sandbox: {error}");
                node.recorder.warning(&**pod, "FailedCreatePodSandBox", message);
                Err(RETRY_EVERY)
            }
        }
    }

    /// Refreshes the pod's volumes. If `needed`, a failure is reported as event.
    async fn refresh_volumes(&self, needed: bool) -> Result<(), Duration> {
        let (node, pod) = (&self.node, &self.pod);
        let pod_ips = node.states.with(pod.uid(), |state| state.pod_ips.clone());
        let facts = node.facts(pod_ips);
        let root = &node.settings.root_dir;
        match commit_volumes(&node.client, &node.tokens, root, pod, &facts).await {
            Ok(mounted) => {
                node.states.with(pod.uid(), |state| state.mounted = Some(mounted));
                Ok(())
            }
            Err(why) => {
                if needed {
                    node.recorder.warning(&**pod, "FailedMount", why);
                } else {
                    tracing::debug!(pod = %self.key, why, "failed to refresh volumes");
                }
                Err(RETRY_EVERY)
            }
        }
    }

    /// Starts and stops containers; returns when to reconcile again.
    async fn work(&self, work: PodActions, observed: &Observed) -> Option<Duration> {
        let sandbox = observed.sandbox().filter(|_| work.sandbox.is_none())?;
        let mut again = work.waits.iter().map(|(_, wait)| *wait).min();
        let is_mounted = self.node.states.with(self.pod.uid(), |state| state.mounted.is_some());
        if changes(&self.pod) || !is_mounted {
            match self.refresh_volumes(!is_mounted).await {
                Ok(()) => again = Some(again.map_or(VOLUMES_EVERY, |again| again.min(VOLUMES_EVERY))),
                Err(wait) if !is_mounted => return Some(wait),
                Err(_) => again = Some(again.map_or(VOLUMES_EVERY, |again| again.min(VOLUMES_EVERY))),
            }
        }
        self.set_waiting_reasons(&work.waits);
        self.stop(&work.stops);
        for start in work.starts {
            self.start(start, sandbox);
        }
        again
    }

    /// Sets the waiting reasons of containers in backoff.
    fn set_waiting_reasons(&self, waits: &[(String, Duration)]) {
        let pod = &self.pod;
        let called = format!("{}_{}({})", pod.name(), pod.namespace(), pod.uid());
        for (name, _) in waits {
            let event_to_record = self.node.states.with(pod.uid(), |state| {
                let backoff = state.backoffs.get(name)?.clone();
                let image = container(pod, name).map(|(_, c)| crate::pod::text(c, "image")).unwrap_or_default();
                let (reason, message, event) = match backoff.cause {
                    // The original reason is kept.
                    Cause::Settings => return None,
                    Cause::Crash => (
                        "CrashLoopBackOff",
                        format!("back-off {}s restarting failed container={name} pod={called}", backoff.wait.as_secs()),
                        format!("Back-off restarting failed container {name} in pod {called}"),
                    ),
                    Cause::Pull if state.waiting.get(name).is_some_and(|w| w.reason == "InvalidImageName") => {
                        return None;
                    }
                    Cause::Pull => {
                        let message = format!("Back-off pulling image {image:?}");
                        ("ImagePullBackOff", message.clone(), message)
                    }
                };
                let waiting = WaitingReason { reason: reason.to_owned(), message };
                state.waiting.insert(name.clone(), waiting);
                Some(event)
            });
            if let Some(event) = event_to_record {
                self.node.recorder.warning(&**pod, "BackOff", event);
            }
        }
    }

    fn note_addresses(&self, observed: &Observed) {
        let sandbox_ips = observed.sandbox().map(|sandbox| sandbox.ips.clone()).unwrap_or_default();
        let ips = self.node.pod_ips(&self.pod, &sandbox_ips);
        if !ips.is_empty() {
            self.node.states.with(self.pod.uid(), |state| state.pod_ips = ips);
        }
    }

    /// Starts probes of running containers and stops the others.
    fn watch_over(&self, observed: &Observed) {
        let node = &self.node;
        let (busy, ips) = node.states.with(self.pod.uid(), |state| (state.busy.clone(), state.pod_ips.clone()));
        node.prober.retain(self.pod.uid(), |id| observed.running().any(|seen| seen.id == id));
        for seen in observed.running().filter(|seen| !busy.contains(&seen.name)) {
            let Some((_, container)) = container(&self.pod, &seen.name) else { continue };
            let (waker, key) = (Arc::downgrade(node), self.key.clone());
            let target = HandlerTarget {
                runtime: node.runtime.clone(),
                container_id: seen.id.clone(),
                container: Arc::new(container.clone()),
                address: ips.first().cloned().unwrap_or_default(),
            };
            let changed = Arc::new(move || {
                if let Some(node) = waker.upgrade() {
                    node.wake(&key);
                }
            });
            node.prober.watch(ProbeRequest { target, about: (&*self.pod).into(), changed });
        }
    }

    /// Opens the pod's host ports once it has an address. The error is the reason why that fails.
    async fn open_host_ports(&self, observed: &Observed) -> Option<String> {
        let ports = host_ports(&self.pod);
        if ports.is_empty() || uses_host_network(&self.pod) {
            return None;
        }
        let sandbox = observed.sandbox().filter(|sandbox| sandbox.is_ready)?;
        let address: IpAddr = sandbox.ips.first()?.parse().ok()?;
        let cancel = self.node.states.with(self.pod.uid(), |state| {
            state.host_ports.is_none().then(|| state.host_ports.insert(CancellationToken::new()).clone())
        })?;
        let failure = crate::host_ports::forward(ports, address, &cancel).await.err();
        if failure.is_some() {
            self.node.states.with(self.pod.uid(), |state| state.host_ports = None);
        }
        failure
    }

    /// Serves Services in the pod's network, once per sandbox and before any container starts.
    async fn open_services(&self, observed: &Observed) {
        let node = &self.node;
        let ready = observed.sandbox().filter(|sandbox| sandbox.is_ready && !uses_host_network(&self.pod));
        let (Some(services), Some(sandbox)) = (&node.services, ready) else { return };
        let is_open =
            |open: &Option<(String, CancellationToken)>| open.as_ref().is_some_and(|(id, _)| *id == sandbox.id);
        if node.states.with(self.pod.uid(), |state| is_open(&state.services)) {
            return;
        }
        let cancel = CancellationToken::new();
        let opened = match node.sandbox_pid(&sandbox.id).await {
            Ok(Some(pid)) => {
                services.serve(pid, declared_ports(&self.pod), cancel.clone()).await.map_err(|e| e.to_string())
            }
            Ok(None) => Err("the runtime does not report its network namespace".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(why) = opened {
            tracing::warn!(pod = %self.key, why, "failed to serve Services in a pod");
        }
        // A failure is not retried: the pod runs without.
        let old = node.states.with(self.pod.uid(), |state| state.services.replace((sandbox.id.clone(), cancel)));
        if let Some((_, old)) = old {
            old.cancel();
        }
    }

    pub async fn write_status(
        &self,
        observed: &Observed,
        ending: Option<EndReason>,
    ) -> Result<Arc<Object>, ReconcileError> {
        self.gather_termination_messages(observed);
        let (waiting, termination_message, pod_ips) = self.node.states.with(self.pod.uid(), |state| {
            (state.waiting.clone(), state.termination_message.clone(), state.pod_ips.clone())
        });
        let host_ip = self.node.address.to_string();
        let status = pod_status(&StatusInputs {
            pod: &self.pod,
            observed,
            health: &self.health(observed),
            waiting: &waiting,
            termination_message: &termination_message,
            ending,
            host_ip: &host_ip,
            pod_ips: &pod_ips,
            now: self.node.clock.now(),
        });
        let mut desired = Object::clone(&self.pod);
        desired.set(&["status"], without_nulls(status, self.pod.get(&["status"])));
        let target = self.node.pods.target(&self.key);
        match commit_status(&self.node.client, target, &self.pod, &desired, COMPONENT).await {
            Ok(reconcile::Committed::Written(written)) => Ok(written),
            Ok(reconcile::Committed::Unchanged) => Ok(Arc::clone(&self.pod)),
            // Deleted meanwhile.
            Err(status) if status.is_not_found() => Ok(Arc::clone(&self.pod)),
            Err(status) => Err(status.into()),
        }
    }
}

/// Drops nulls that do not change the meaning: the API may store either form.
fn without_nulls(mut status: Value, old: Option<&Value>) -> Value {
    fn prune(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.retain(|_, value| !value.is_null());
                map.values_mut().for_each(prune);
            }
            Value::Array(list) => list.iter_mut().for_each(prune),
            _ => {}
        }
    }
    prune(&mut status);
    let Some(old) = old else { return status };
    let mut plain_old = old.clone();
    prune(&mut plain_old);
    if plain_old == status { old.clone() } else { status }
}
