//! The recent steps of each propagation with their times in milliseconds, bounded in memory.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Serialize, Serializer};

/// Steps kept for one binding; the oldest goes first.
pub const STEPS_OF_BINDING_MAX: usize = 200;
/// Steps kept for all bindings together; the binding without a new step for the longest time goes first.
pub const STEPS_MAX: usize = 50_000;
/// Characters kept of a message.
pub const MESSAGE_MAX: usize = 300;
/// Clusters named in one step.
pub const TARGETS_MAX: usize = 50;

/// The kind of a step of a propagation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum StepKind {
    /// A request changed the template.
    TemplateWritten,
    BindingCreated,
    /// The binding took over a new version of its template.
    TemplateObserved,
    /// The scheduler chose clusters.
    Scheduled,
    SchedulingFailed,
    EvictionStarted,
    EvictionEnded,
    WorkCreated,
    WorkUpdated,
    WorkRemoved,
    Applied,
    ApplyFailed,
    /// The health or the ready replicas that a cluster reports changed.
    Reported,
    /// All works are applied, and the binding says so.
    FullyApplied,
}

/// A cluster with its replicas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StepTarget {
    pub name: String,
    pub replicas: i64,
}

/// One step of a propagation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PropagationStep {
    #[serde(serialize_with = "milliseconds")]
    pub time: Timestamp,
    pub step: StepKind,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster: String,
    /// The clusters that were chosen, at most `TARGETS_MAX` of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<StepTarget>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub health: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl PropagationStep {
    pub fn new(time: Timestamp, step: StepKind) -> Self {
        let (cluster, health, message) = Default::default();
        Self { time, step, cluster, targets: Vec::new(), health, ready: None, replicas: None, message }
    }

    pub fn in_cluster(mut self, cluster: &str) -> Self {
        self.cluster = cluster.to_owned();
        self
    }

    pub fn saying(mut self, message: &str) -> Self {
        self.message = message.chars().take(MESSAGE_MAX).collect();
        self
    }
}

fn milliseconds<S: Serializer>(time: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&time.strftime("%Y-%m-%dT%H:%M:%S.%3fZ"))
}

/// The steps of the bindings that changed most recently. Clones share them.
#[derive(Clone, Default)]
pub struct Propagations {
    shared: Arc<Mutex<Memory>>,
}

#[derive(Default)]
struct Memory {
    by_binding: HashMap<String, Record>,
    /// Bindings by the number of their latest step, oldest first.
    order: BTreeMap<u64, String>,
    numbers: u64,
    steps: usize,
}

#[derive(Default)]
struct Record {
    number: u64,
    steps: VecDeque<PropagationStep>,
}

impl Propagations {
    /// Adds steps of a binding, named `namespace/name`, or `name` where there is no namespace.
    pub fn record(&self, binding: &str, steps: Vec<PropagationStep>) {
        if steps.is_empty() {
            return;
        }
        let mut memory = self.shared.lock();
        memory.append(binding, steps);
        memory.shrink();
    }

    /// The binding is gone: an object of the same name starts without its steps.
    pub fn forget(&self, binding: &str) {
        self.shared.lock().forget(binding);
    }

    /// Returns the recorded steps of a binding, oldest first.
    pub fn steps(&self, binding: &str) -> Vec<PropagationStep> {
        let memory = self.shared.lock();
        memory.by_binding.get(binding).map(|record| record.steps.iter().cloned().collect()).unwrap_or_default()
    }
}

impl Memory {
    fn append(&mut self, binding: &str, steps: Vec<PropagationStep>) {
        self.numbers += 1;
        let number = self.numbers;
        let record = self.by_binding.entry(binding.to_owned()).or_default();
        self.order.remove(&record.number);
        self.order.insert(number, binding.to_owned());
        record.number = number;
        self.steps += steps.len();
        record.steps.extend(steps);
        while record.steps.len() > STEPS_OF_BINDING_MAX {
            record.steps.pop_front();
            self.steps -= 1;
        }
    }

    fn shrink(&mut self) {
        while self.steps > STEPS_MAX {
            let Some((_, oldest)) = self.order.pop_first() else { return };
            self.forget(&oldest);
        }
    }

    fn forget(&mut self, binding: &str) {
        if let Some(record) = self.by_binding.remove(binding) {
            self.order.remove(&record.number);
            self.steps -= record.steps.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(second: i64, count: usize) -> Vec<PropagationStep> {
        let time = Timestamp::from_second(second).expect("a time");
        vec![PropagationStep::new(time, StepKind::Scheduled); count]
    }

    #[test]
    fn a_binding_keeps_its_newest_steps() {
        let propagations = Propagations::default();
        propagations.record("default/web", steps(1, 5));
        propagations.record("default/web", steps(2, STEPS_OF_BINDING_MAX - 1));
        let known = propagations.steps("default/web");
        assert_eq!(known.len(), STEPS_OF_BINDING_MAX);
        assert_eq!(known.iter().filter(|step| step.time.as_second() == 1).count(), 1);
        propagations.forget("default/web");
        assert_eq!(propagations.steps("default/web"), []);
    }

    #[test]
    fn the_bindings_without_news_are_dropped_first() {
        let propagations = Propagations::default();
        let bindings = STEPS_MAX / STEPS_OF_BINDING_MAX;
        for number in 0..bindings {
            propagations.record(&format!("b{number}"), steps(1, STEPS_OF_BINDING_MAX));
        }
        // The oldest one has news, so that the second oldest goes.
        propagations.record("b0", steps(2, 1));
        propagations.record("new", steps(3, 1));
        let known = |name: &str| propagations.steps(name).len();
        assert_eq!((known("b0"), known("b1"), known("b2")), (STEPS_OF_BINDING_MAX, 0, STEPS_OF_BINDING_MAX));
        assert_eq!(known("new"), 1);
        assert!(propagations.shared.lock().steps <= STEPS_MAX);
    }

    #[test]
    fn a_step_is_served_with_milliseconds_and_a_short_message() {
        let time: Timestamp = "2026-01-02T03:04:05.678Z".parse().expect("a time");
        let step = PropagationStep::new(time, StepKind::ApplyFailed).in_cluster("m1").saying(&"x".repeat(1_000));
        let value = serde_json::to_value(&step).expect("it is JSON");
        assert_eq!(value["time"], "2026-01-02T03:04:05.678Z");
        assert_eq!((&value["step"], &value["cluster"]), (&"ApplyFailed".into(), &"m1".into()));
        assert_eq!(value["message"].as_str().map(str::len), Some(MESSAGE_MAX));
        assert_eq!(value.get("targets"), None);
    }
}
