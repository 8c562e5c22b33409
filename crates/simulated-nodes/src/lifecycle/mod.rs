//! Computes the next status of a pod from the pod, the rules and the time. Pure; the caller writes it.

mod advance;
mod container;
mod ending;
mod life;
mod render;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::Ipv4Addr;

use jiff::{SignedDuration, Timestamp};
use object::Object;
use serde_json::Value;

use crate::settings::SimulatedNodeSettings;

/// The inputs of a decision besides the pod.
pub struct DecisionInputs<'a> {
    pub settings: &'a SimulatedNodeSettings,
    pub now: Timestamp,
    pub host_ip: Ipv4Addr,
    /// An address for the pod, if it needs one now; `None` if the node has none left.
    pub pod_ip: Option<Ipv4Addr>,
    pub marks: &'a PodTimestamps,
    /// Exit codes of containers whose process was ended by an exec or attach session.
    pub ended: &'a HashMap<String, i32>,
}

/// Timestamps with a finer resolution than the status: the pod's arrival, and each container's last change. Missing
/// ones are read from the status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodTimestamps(Vec<(u16, i64)>);

/// The mark of the pod itself.
pub const ARRIVED: u16 = u16::MAX;
/// When the deletion of the pod was first observed.
pub const STOPPING: u16 = u16::MAX - 1;

impl PodTimestamps {
    pub fn get(&self, slot: u16) -> Option<Timestamp> {
        let found = self.0.iter().find(|(known, _)| *known == slot)?;
        Timestamp::from_millisecond(found.1).ok()
    }

    /// Clamps marks in the future to now: the clock was set back, and pods must not wait until it catches up.
    fn not_after(&self, now: Timestamp) -> Self {
        Self(self.0.iter().map(|(slot, at)| (*slot, (*at).min(now.as_millisecond()))).collect())
    }

    pub fn set(&mut self, slot: u16, at: Timestamp) {
        let at = at.as_millisecond();
        match self.0.iter_mut().find(|(known, _)| *known == slot) {
            Some(found) => found.1 = at,
            None => self.0.push((slot, at)),
        }
    }
}

/// An event, as a kubelet would record it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEvent {
    pub is_warning: bool,
    pub reason: &'static str,
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct LifecycleDecision {
    /// The new status, if it changes.
    pub status: Option<Value>,
    /// The pod has terminated: delete it from the API after the status is written.
    pub is_gone: bool,
    /// When to decide again without a change.
    pub wake: Option<Timestamp>,
    pub events: Vec<PodEvent>,
    pub marks: PodTimestamps,
}

/// Decides the next state of the pod.
pub fn decide(known: &DecisionInputs<'_>, pod: &Object) -> LifecycleDecision {
    let marks = known.marks.not_after(known.now);
    let known = &DecisionInputs { marks: &marks, ..*known };
    let run = advance::LifecycleRun::read(known, pod);
    if pod.is_deleting() {
        return ending::decide(run);
    }
    if run.is_over() {
        return LifecycleDecision { marks: known.marks.clone(), ..LifecycleDecision::default() };
    }
    run.advance()
}

fn plus(at: Timestamp, length: std::time::Duration) -> Timestamp {
    let length = SignedDuration::try_from(length).unwrap_or(SignedDuration::MAX);
    at.checked_add(length).unwrap_or(Timestamp::MAX)
}

/// Formats a duration as Go does.
fn go_duration(length: std::time::Duration) -> String {
    let seconds = length.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0) => format!("{}ms", length.as_millis()),
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}m{s}s"),
        (h, m, s) => format!("{h}h{m}m{s}s"),
    }
}
