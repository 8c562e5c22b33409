//! The pod scheduler: picks nodes one pod at a time by priority, and binds concurrently.

mod bind;
mod queue;
mod state;
#[cfg(test)]
mod tests;
mod volume_needs;

use std::sync::Arc;
use std::time::Duration;

use object::Object;
use object::selector::LabelSelector;
use parking_lot::Mutex;
use placement::{Budget, Labels, Pod, Preemption, VolumeNeeds, place, preempt};
use reconcile::{Change, ObjectKey, Priority, Recorder};
use serde_json::Value;
use tokio::sync::{Notify, Semaphore};

use crate::mirrors::ClusterMirrors;
use crate::scheduling::queue::{UnblockingEvent, UnschedulablePods};
use crate::scheduling::state::SchedulerState;
use crate::start::Service;

pub use crate::scheduling::volume_needs::{gather_needs, reach_of};

/// The scheduler name in pods and events.
pub const SCHEDULER: &str = "default-scheduler";

/// Decisions made before yielding to other tasks.
const DECISIONS_PER_TURN: usize = 32;
/// Batches changes that may help unschedulable pods.
const RETRY_GATHERING: Duration = Duration::from_millis(100);
/// An unschedulable pod is retried after this time in case a change was missed.
const WAITING_MAX: Duration = Duration::from_secs(300);
const WAITING_CHECK: Duration = Duration::from_secs(30);

pub struct Scheduler {
    mirrors: Arc<ClusterMirrors>,
    recorder: Recorder,
    queue: reconcile::WorkQueue<ObjectKey>,
    state: Mutex<SchedulerState>,
    waiting: Mutex<UnschedulablePods>,
    /// Signals a change that may help unschedulable pods.
    helped: Notify,
    /// Signals a change of a claim.
    claims_changed: Notify,
    bindings: Arc<Semaphore>,
}

/// The result of one attempt, to be written.
enum PodDecision {
    Bind {
        node: Arc<str>,
        needs: VolumeNeeds,
    },
    /// No node fits now; victims may be preempted.
    Fail {
        message: String,
        preemption: Preemption,
        reason: &'static str,
    },
}

pub fn start(mirrors: &Arc<ClusterMirrors>) -> Service {
    let scheduler = Arc::new(Scheduler {
        recorder: mirrors.recorder(SCHEDULER),
        queue: reconcile::WorkQueue::default(),
        state: Mutex::default(),
        waiting: Mutex::default(),
        helped: Notify::new(),
        claims_changed: Notify::new(),
        bindings: Arc::new(Semaphore::new(mirrors.settings.bindings_at_once)),
        mirrors: Arc::clone(mirrors),
    });
    let listener = Arc::clone(&scheduler);
    Service::new(run(scheduler)).on_pods(move |change| listener.pod_changed(change))
}

async fn run(scheduler: Arc<Scheduler>) {
    let mirrors = Arc::clone(&scheduler.mirrors);
    // Nodes are loaded first, so that the first pod finds them.
    mirrors
        .namespaces
        .list()
        .iter()
        .for_each(|namespace| scheduler.namespace_changed(Some(namespace), namespace.name()));
    for node in mirrors.nodes.list() {
        scheduler.state.lock().cluster.set_node(&node);
    }
    tokio::select! {
        () = mirrors.cancel.cancelled() => {}
        () = scheduler.follow_nodes() => {}
        () = scheduler.follow_namespaces() => {}
        () = scheduler.follow_storage() => {}
        () = scheduler.retry_waiting() => {}
        () = scheduler.flush_waiting() => {}
        () = Arc::clone(&scheduler).work() => {}
    }
    scheduler.queue.shut_down();
}

impl Scheduler {
    async fn work(self: Arc<Self>) {
        // Without the initial pods, nodes would appear to have free capacity.
        self.mirrors.pods_dispatched().await;
        let mut decided = 0usize;
        while let Some(key) = self.queue.next().await {
            Arc::clone(&self).attempt(&key).await;
            self.queue.done(&key);
            // Decisions never wait, so yield to other tasks from time to time, but not after each one: on a busy
            // runtime the next turn comes late.
            decided += 1;
            if decided.is_multiple_of(DECISIONS_PER_TURN) {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Decides on one pod and spawns the write.
    async fn attempt(self: Arc<Self>, key: &ObjectKey) {
        let Some(object) = self.mirrors.pods.get(key).filter(|pod| is_ours(pod)) else { return };
        let needs = gather_needs(&self.mirrors, &object);
        let Some(decision) = self.decide(&object, needs) else { return };
        let Ok(permit) = Arc::clone(&self.bindings).acquire_owned().await else { return };
        tokio::spawn(async move {
            match decision {
                PodDecision::Bind { node, needs } => self.commit_binding(&object, &node, &needs).await,
                PodDecision::Fail { message, preemption, reason } => {
                    self.commit_failure(&object, reason, &message, &preemption).await;
                }
            }
            drop(permit);
        });
    }

    /// Picks a node and assumes the pod on it, so that the next decision counts it.
    fn decide(&self, object: &Object, needs: VolumeNeeds) -> Option<PodDecision> {
        let pod = Pod::read(object);
        let key = ObjectKey::of(object);
        let mut state = self.state.lock();
        if state.is_assumed(&key, object.uid()) {
            return None;
        }
        let outcome = place(&state.cluster, &pod, &needs);
        if let Some(node) = outcome.node {
            state.assume(&key, &pod, &node);
            self.waiting.lock().forget(&key);
            return Some(PodDecision::Bind { node, needs });
        }
        let mut preemption = Preemption::default();
        if state.cluster.node_count() > 0 {
            let budgets = self.budgets();
            preemption = preempt(&mut state.cluster, &pod, &needs, &outcome, &budgets);
        }
        if let Some(node) = &preemption.node {
            state.cluster.nominate(&pod, node);
        }
        let mut message = outcome.refusals.message();
        if !preemption.message.is_empty() {
            message = format!("{message} {}", preemption.message);
        }
        // Added while the state is locked: any later change finds the pod in the queue.
        self.waiting.lock().add(&key, &pod);
        Some(PodDecision::Fail { message, preemption, reason: "Unschedulable" })
    }

    fn budgets(&self) -> Vec<Budget> {
        let read = |budget: &Object| {
            let disrupted = budget.get(&["status", "disruptedPods"]).and_then(Value::as_object);
            Some(Budget {
                namespace: budget.namespace().to_owned(),
                selector: LabelSelector::from_value(budget.get(&["spec", "selector"])).ok()?,
                allowed: budget.i64_at(&["status", "disruptionsAllowed"]).unwrap_or(0),
                disrupted: disrupted.into_iter().flatten().map(|(name, _)| name.clone()).collect(),
            })
        };
        self.mirrors.budgets.list().iter().filter_map(|budget| read(budget)).collect()
    }

    fn pod_changed(&self, change: &Change) {
        let helps = self.state.lock().pod_changed(change);
        match &change.now {
            None => self.waiting.lock().forget(&change.key),
            Some(pod) if is_ours(pod) => {
                let is_news = change.before.as_ref().is_none_or(|before| differs(before, pod));
                if is_news || !self.waiting.lock().contains(&change.key) {
                    self.waiting.lock().release(&change.key);
                    self.queue.add_now(change.key.clone(), priority_of(pod));
                }
            }
            Some(_) => self.waiting.lock().forget(&change.key),
        }
        if let Some(cause) = helps {
            self.help(cause);
        }
    }

    fn help(&self, cause: UnblockingEvent) {
        if self.waiting.lock().help(cause) {
            self.helped.notify_one();
        }
    }

    async fn follow_nodes(&self) {
        let mut changes = self.mirrors.nodes.subscribe();
        while let Some(change) = changes.next().await {
            let helps = match &change.now {
                Some(node) => self.state.lock().cluster.set_node(node),
                None => {
                    self.state.lock().cluster.remove_node(&change.key.name);
                    false
                }
            };
            if helps {
                self.help(UnblockingEvent::Node);
            }
        }
    }

    async fn follow_namespaces(&self) {
        let mut changes = self.mirrors.namespaces.subscribe();
        while let Some(change) = changes.next().await {
            self.namespace_changed(change.now.as_deref(), &change.key.name);
        }
    }

    fn namespace_changed(&self, namespace: Option<&Object>, name: &str) {
        let mut state = self.state.lock();
        match namespace {
            Some(namespace) => state.cluster.set_namespace(name, Labels::of(namespace)),
            None => state.cluster.remove_namespace(name),
        }
    }

    async fn follow_storage(&self) {
        let mut claims = self.mirrors.claims.subscribe();
        let mut volumes = self.mirrors.volumes.subscribe();
        let mut classes = self.mirrors.classes.subscribe();
        loop {
            let change = tokio::select! {
                change = claims.next() => change,
                change = volumes.next() => change,
                change = classes.next() => change,
            };
            let Some(change) = change else { return };
            self.claims_changed.notify_waiters();
            if !change.is_initial {
                self.help(UnblockingEvent::Storage);
            }
        }
    }

    async fn retry_waiting(&self) {
        loop {
            self.helped.notified().await;
            tokio::time::sleep(RETRY_GATHERING).await;
            for (key, priority, wait) in self.waiting.lock().take_helped() {
                self.queue.add_after(key, wait, priority);
            }
        }
    }

    async fn flush_waiting(&self) {
        loop {
            tokio::time::sleep(WAITING_CHECK).await;
            for (key, priority) in self.waiting.lock().take_older_than(WAITING_MAX) {
                self.queue.add_now(key, priority);
            }
        }
    }
}

/// Reports whether the pod waits for this scheduler.
fn is_ours(pod: &Object) -> bool {
    pod.str_at(&["spec", "nodeName"]).is_empty()
        && matches!(pod.str_at(&["spec", "schedulerName"]), "" | SCHEDULER)
        && !pod.is_deleting()
        && pod.items(&["spec", "schedulingGates"]).is_empty()
        && !matches!(pod.str_at(&["status", "phase"]), "Succeeded" | "Failed")
}

/// Reports whether a field that affects placement differs.
fn differs(before: &Object, now: &Object) -> bool {
    before.uid() != now.uid()
        || before.get(&["spec"]) != now.get(&["spec"])
        || before.get(&["metadata", "labels"]) != now.get(&["metadata", "labels"])
}

fn priority_of(pod: &Object) -> Priority {
    Priority(pod.i64_at(&["spec", "priority"]).and_then(|priority| i32::try_from(priority).ok()).unwrap_or(0))
}
