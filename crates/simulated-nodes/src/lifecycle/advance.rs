//! Advances a pod up to the current time: admission, init containers in order, main containers, restarts, completion.

use std::time::Duration;

use jiff::Timestamp;
use object::{Object, time};

use super::container::{Container, ContainerState, Role, Terminated, read_all};
use super::life::{backoff, life, probe_delay};
use super::{ARRIVED, DecisionInputs, LifecycleDecision, PodEvent, PodTimestamps, go_duration, plus, render};
use crate::behaviour::PodFault;

/// Maximum number of changes of one container per step; a container that crashes at once must not block the others.
const CHANGES_MAX: usize = 8;
/// Time ErrImagePull is shown before ImagePullBackOff.
const PULL_FAILURE_SHOWS: Duration = Duration::from_secs(2);
/// Interval for repeating the event of a persistent problem.
const REMIND_EVERY: Duration = Duration::from_secs(120);

pub struct LifecycleRun<'a> {
    pub known: &'a DecisionInputs<'a>,
    pub pod: &'a Object,
    pub containers: Vec<Container<'a>>,
    pub start_time: String,
    pub pod_ip: String,
    /// The pod as a whole has failed, with reason and message.
    pub failure: Option<(&'static str, String)>,
    pub is_failed: bool,
    pub wake: Option<Timestamp>,
    pub events: Vec<PodEvent>,
    pub marks: PodTimestamps,
}

impl<'a> LifecycleRun<'a> {
    pub fn read(known: &'a DecisionInputs<'a>, pod: &'a Object) -> Self {
        Self {
            known,
            pod,
            containers: read_all(known, pod),
            start_time: pod.str_at(&["status", "startTime"]).to_owned(),
            pod_ip: pod.str_at(&["status", "podIP"]).to_owned(),
            failure: None,
            is_failed: false,
            wake: None,
            events: Vec::new(),
            marks: known.marks.clone(),
        }
    }

    /// Reports whether the pod has finished; nothing changes any more.
    pub fn is_over(&self) -> bool {
        matches!(self.pod.str_at(&["status", "phase"]), "Succeeded" | "Failed")
    }

    pub fn advance(mut self) -> LifecycleDecision {
        if self.arrive() && !self.is_past_deadline() && self.initialize() {
            self.run_main();
        }
        self.run_ephemeral();
        let status = render::status(&self);
        let is_changed = self.pod.get(&["status"]) != Some(&status);
        LifecycleDecision {
            status: is_changed.then_some(status),
            is_gone: false,
            wake: self.wake,
            events: self.events,
            marks: self.marks,
        }
    }

    pub fn wake_at(&mut self, at: Timestamp) {
        self.wake = Some(self.wake.map_or(at, |known| known.min(at)));
    }

    pub fn record_event(&mut self, is_warning: bool, reason: &'static str, message: String) {
        self.events.push(PodEvent { is_warning, reason, message });
    }

    /// The pod in kubelet messages, for example `web-0_default(uid)`.
    fn title(&self) -> String {
        format!("{}_{}({})", self.pod.name(), self.pod.namespace(), self.pod.uid())
    }

    fn arrived_at(&self) -> Timestamp {
        let started_at = || time::parse(&self.start_time);
        self.marks.get(ARRIVED).or_else(started_at).unwrap_or(self.known.now)
    }

    /// Returns true once containers can start: the pod is accepted and has its address.
    fn arrive(&mut self) -> bool {
        let now = self.known.now;
        if self.start_time.is_empty() {
            self.start_time = time::format_seconds(now);
            self.marks.set(ARRIVED, now);
        }
        if !self.pod_ip.is_empty() {
            return true;
        }
        if self.containers.iter().any(|container| container.behaviour.fault == Some(PodFault::Stuck)) {
            let text = "MountVolume.SetUp failed for volume: timed out waiting for the condition (simulated)";
            self.record_event(true, "FailedMount", text.to_owned());
            self.wake_at(plus(now, REMIND_EVERY));
            return false;
        }
        let start_delay = self.containers.iter().filter_map(|container| container.behaviour.start_delay).max();
        let create = self.known.settings.delays.create + start_delay.unwrap_or_default();
        let at = plus(self.arrived_at(), create);
        if now < at {
            self.wake_at(at);
            return false;
        }
        let address = match self.pod.bool_at(&["spec", "hostNetwork"]) {
            Some(true) => Some(self.known.host_ip),
            _ => self.known.pod_ip,
        };
        let Some(address) = address else {
            let text = "Failed to create pod sandbox: no free address in the range of the node";
            self.record_event(true, "FailedCreatePodSandBox", text.to_owned());
            self.wake_at(plus(now, REMIND_EVERY));
            return false;
        };
        self.pod_ip = address.to_string();
        true
    }

    fn is_past_deadline(&mut self) -> bool {
        let Some(seconds) = self.pod.i64_at(&["spec", "activeDeadlineSeconds"]) else { return false };
        let length = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        let at = plus(self.arrived_at(), length);
        if self.known.now < at {
            self.wake_at(at);
            return false;
        }
        let text = "Pod was active on the node longer than the specified deadline";
        self.failure = Some(("DeadlineExceeded", text.to_owned()));
        self.is_failed = true;
        for index in 0..self.containers.len() {
            self.stop(index, 137, "Error");
        }
        true
    }

    /// Returns true once every init container has completed.
    fn initialize(&mut self) -> bool {
        for index in 0..self.containers.len() {
            if !matches!(self.containers[index].role, Role::Init | Role::Sidecar) {
                continue;
            }
            self.step(index);
            if !self.containers[index].is_initialized() {
                self.is_failed |= self.containers[index].role == Role::Init && self.is_final(index);
                return false;
            }
        }
        true
    }

    fn run_main(&mut self) {
        let mains: Vec<usize> = self.indexes(Role::Main);
        for index in &mains {
            self.step(*index);
        }
        let failed = |container: &Container<'_>| {
            container.behaviour.fault == Some(PodFault::Fail)
                && matches!(container.state, ContainerState::Terminated(_))
        };
        if self.containers.iter().any(failed) {
            self.is_failed = true;
            self.failure = Some(("Simulated", "The pod failed as requested by its annotation".to_owned()));
        }
        let is_over = self.is_failed || mains.iter().all(|index| self.is_final(*index));
        if is_over {
            for index in 0..self.containers.len() {
                self.stop(index, 0, "Completed");
            }
        }
    }

    /// Ephemeral containers are added later and never restarted.
    fn run_ephemeral(&mut self) {
        if self.pod_ip.is_empty() {
            return;
        }
        for index in self.indexes(Role::Ephemeral) {
            self.step(index);
        }
    }

    fn indexes(&self, role: Role) -> Vec<usize> {
        (0..self.containers.len()).filter(|index| self.containers[*index].role == role).collect()
    }

    /// Reports whether the container has exited and will not be restarted.
    pub fn is_final(&self, index: usize) -> bool {
        let container = &self.containers[index];
        let Some(code) = container.exit_code() else { return false };
        !self.restarts_after(container, code)
    }

    fn restarts_after(&self, container: &Container<'_>, code: i32) -> bool {
        let of_pod = self.pod.str_at(&["spec", "restartPolicy"]);
        let policy = container.spec["restartPolicy"].as_str().unwrap_or(of_pod);
        match (container.role, policy) {
            (Role::Ephemeral, _) => false,
            _ if container.behaviour.fault == Some(PodFault::Fail) => false,
            (Role::Init, "Never") => false,
            (Role::Init, _) => code != 0,
            (_, "Never") => false,
            (_, "OnFailure") => code != 0,
            _ => true,
        }
    }

    fn step(&mut self, index: usize) {
        for _ in 0..CHANGES_MAX {
            let is_changed = match &self.containers[index].state {
                ContainerState::Waiting { .. } => self.step_waiting(index),
                ContainerState::Running { .. } => self.step_running(index),
                ContainerState::Terminated(_) => self.step_terminated(index),
            };
            if !is_changed {
                return;
            }
        }
        self.wake_at(plus(self.known.now, Duration::from_secs(1)));
    }

    fn step_waiting(&mut self, index: usize) -> bool {
        let now = self.known.now;
        let container = &self.containers[index];
        if container.behaviour.fault == Some(PodFault::ImagePullError) {
            return self.fail_to_pull(index);
        }
        if let Some(last) = &container.last {
            let ran = run_length(last);
            let at = plus(container.since, backoff(&self.known.settings.delays, container.restarts, ran));
            if now < at {
                self.wake_at(at);
                return false;
            }
        }
        self.start(index);
        true
    }

    fn fail_to_pull(&mut self, index: usize) -> bool {
        let now = self.known.now;
        let image = self.containers[index].image().to_owned();
        let fault = format!("failed to resolve image {image:?}: not found (simulated)");
        let container = &mut self.containers[index];
        if container.waits_for("ErrImagePull") {
            let at = plus(container.since, PULL_FAILURE_SHOWS);
            if now < at {
                self.wake_at(at);
                return false;
            }
            let message = format!("Back-off pulling image {image:?}: ErrImagePull: {fault}");
            container.state = ContainerState::Waiting { reason: "ImagePullBackOff".to_owned(), message };
            container.since = now;
            self.marks.set(container.slot, now);
            self.record_event(false, "BackOff", format!("Back-off pulling image {image:?}"));
            self.record_event(true, "Failed", "Error: ImagePullBackOff".to_owned());
            return false;
        }
        if container.waits_for("ImagePullBackOff") {
            return false;
        }
        container.state = ContainerState::Waiting { reason: "ErrImagePull".to_owned(), message: fault.clone() };
        container.since = now;
        self.marks.set(container.slot, now);
        self.record_event(false, "Pulling", format!("Pulling image {image:?}"));
        self.record_event(true, "Failed", format!("Failed to pull image {image:?}: {fault}"));
        self.record_event(true, "Failed", "Error: ErrImagePull".to_owned());
        self.wake_at(plus(now, PULL_FAILURE_SHOWS));
        false
    }

    fn start(&mut self, index: usize) {
        let now = self.known.now;
        let container = &mut self.containers[index];
        if container.last.is_some() {
            container.restarts += 1;
        }
        container.state = ContainerState::Running { started: time::format_seconds(now) };
        (container.is_started, container.is_ready) = (false, false);
        container.since = now;
        self.marks.set(container.slot, now);
        let image = container.image();
        let text = format!("Container image {image:?} already present on machine and can be accessed by the pod");
        self.record_event(false, "Pulled", text);
        self.record_event(false, "Created", "Container created".to_owned());
        self.record_event(false, "Started", "Container started".to_owned());
    }

    fn step_running(&mut self, index: usize) -> bool {
        let now = self.known.now;
        let container = &self.containers[index];
        if let Some(code) = self.known.ended.get(container.name()) {
            let reason = if *code == 0 { "Completed" } else { "Error" };
            self.stop(index, *code, reason);
            return true;
        }
        let life = life(self.known.settings, self.pod, container);
        if let Some(lasts) = life.lasts {
            let at = plus(container.since, lasts);
            if now >= at {
                if container.behaviour.fault == Some(PodFault::Hang) {
                    let name = container.name();
                    let text = format!("Container {name} failed liveness probe, will be restarted");
                    self.record_event(true, "Unhealthy", "Liveness probe failed: context deadline exceeded".to_owned());
                    self.record_event(false, "Killing", text);
                }
                self.stop(index, life.exit_code, life.reason);
                return true;
            }
            self.wake_at(at);
        }
        self.probe(index);
        false
    }

    /// Startup and readiness of a running container.
    fn probe(&mut self, index: usize) {
        let now = self.known.now;
        let delays = &self.known.settings.delays;
        let container = &self.containers[index];
        let (startup, readiness) = (container.spec.get("startupProbe"), container.spec.get("readinessProbe"));
        let started_at = plus(container.since, probe_delay(delays, startup));
        let ready_after = container.behaviour.ready_delay.unwrap_or_else(|| probe_delay(delays, readiness));
        let ready_at = plus(container.since, ready_after).max(started_at);
        let is_failing = match container.behaviour.fault {
            Some(PodFault::NotReady) => true,
            Some(PodFault::Hang) => readiness.is_some(),
            _ => false,
        };
        let is_init = container.role == Role::Init;
        let container = &mut self.containers[index];
        container.is_started = !is_init && now >= started_at;
        container.is_ready = !is_init && !is_failing && now >= ready_at;
        if is_failing && now >= ready_at {
            self.record_event(
                true,
                "Unhealthy",
                "Readiness probe failed: HTTP probe failed with statuscode: 503".to_owned(),
            );
            self.wake_at(plus(now, REMIND_EVERY));
        }
        for at in [started_at, ready_at] {
            if now < at {
                self.wake_at(at);
            }
        }
    }

    fn step_terminated(&mut self, index: usize) -> bool {
        let container = &self.containers[index];
        let ContainerState::Terminated(end) = &container.state else { return false };
        if !self.restarts_after(container, end.exit_code) {
            return false;
        }
        let end = end.clone();
        let wait = backoff(&self.known.settings.delays, container.restarts, run_length(&end));
        let (name, title) = (container.name(), self.title());
        let message = format!("back-off {} restarting failed container={name} pod={title}", go_duration(wait));
        if !wait.is_zero() {
            self.record_event(true, "BackOff", format!("Back-off restarting failed container {name} in pod {title}"));
        }
        let container = &mut self.containers[index];
        container.state = ContainerState::Waiting { reason: "CrashLoopBackOff".to_owned(), message };
        container.last = Some(end);
        true
    }

    /// Terminates a running container.
    pub fn stop(&mut self, index: usize, exit_code: i32, reason: &str) {
        let id = self.containers[index].id(self.pod);
        let container = &mut self.containers[index];
        let ContainerState::Running { started } = &container.state else { return };
        container.state = ContainerState::Terminated(Terminated {
            exit_code,
            reason: reason.to_owned(),
            message: String::new(),
            started: started.clone(),
            finished: time::format_seconds(self.known.now),
            id,
        });
        container.since = self.known.now;
        // A completed init container counts as ready.
        container.is_ready = container.role == Role::Init && exit_code == 0;
        container.is_started = false;
        self.marks.set(container.slot, self.known.now);
    }
}

fn run_length(end: &Terminated) -> Duration {
    let (Some(started), Some(finished)) = (time::parse(&end.started), time::parse(&end.finished)) else {
        return Duration::ZERO;
    };
    finished.duration_since(started).unsigned_abs()
}
