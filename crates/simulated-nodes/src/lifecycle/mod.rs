//! What becomes of a pod next: from the pod, the rules and the time to its next status. Pure; whoever asks writes it.

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

use crate::settings::Settings;

/// All a decision depends on besides the pod.
pub struct Known<'a> {
    pub settings: &'a Settings,
    pub now: Timestamp,
    pub host_ip: Ipv4Addr,
    /// An address for the pod, should it need one now; `None` when the node has none left.
    pub pod_ip: Option<Ipv4Addr>,
    pub marks: &'a Marks,
    /// Containers whose process was ended from within, with their exit codes.
    pub ended: &'a HashMap<String, i32>,
}

/// When things happened, finer than a status tells: the pod's arrival, and each container's last change. What is not
/// here is read from the status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks(Vec<(u16, i64)>);

/// The pod's own mark.
pub const ARRIVED: u16 = u16::MAX;
/// When the pod was first seen on its way out.
pub const STOPPING: u16 = u16::MAX - 1;

impl Marks {
    pub fn get(&self, slot: u16) -> Option<Timestamp> {
        let found = self.0.iter().find(|(known, _)| *known == slot)?;
        Timestamp::from_millisecond(found.1).ok()
    }

    /// What seems to have happened later than now has just happened: the clock was put back, and must not hold up pods until
    /// it is as late again.
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

/// What users are told, as a kubelet would.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub is_warning: bool,
    pub reason: &'static str,
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// The whole status, where it is to change.
    pub status: Option<Value>,
    /// The pod has stopped: take it out of the API (after the status is written).
    pub is_gone: bool,
    /// When to decide again though nothing changed.
    pub wake: Option<Timestamp>,
    pub events: Vec<Event>,
    pub marks: Marks,
}

/// What becomes of the pod at this moment.
pub fn decide(known: &Known<'_>, pod: &Object) -> Decision {
    let marks = known.marks.not_after(known.now);
    let known = &Known { marks: &marks, ..*known };
    let run = advance::Run::read(known, pod);
    if pod.is_deleting() {
        return ending::decide(run);
    }
    if run.is_over() {
        return Decision { marks: known.marks.clone(), ..Decision::default() };
    }
    run.advance()
}

fn plus(at: Timestamp, length: std::time::Duration) -> Timestamp {
    let length = SignedDuration::try_from(length).unwrap_or(SignedDuration::MAX);
    at.checked_add(length).unwrap_or(Timestamp::MAX)
}

/// As Go writes lengths of time in messages.
fn go_duration(length: std::time::Duration) -> String {
    let seconds = length.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0) => format!("{}ms", length.as_millis()),
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}m{s}s"),
        (h, m, s) => format!("{h}h{m}m{s}s"),
    }
}
