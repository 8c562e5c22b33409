//! Terminates a deleted pod: stops its containers, waits for the grace period, and removes it.

use std::time::Duration;

use jiff::Timestamp;
use object::time;

use super::advance::LifecycleRun;
use super::{LifecycleDecision, STOPPING, plus, render};
use crate::behaviour::PodFault;

pub fn decide(mut run: LifecycleRun<'_>) -> LifecycleDecision {
    let is_last_word = run.pod.i64_at(&["metadata", "deletionGracePeriodSeconds"]) == Some(0);
    let running: Vec<usize> = (0..run.containers.len()).filter(|index| run.containers[*index].is_running()).collect();
    if running.is_empty() || run.is_over() {
        return gone(run, is_last_word);
    }
    let now = run.known.now;
    let asked = run.marks.get(STOPPING);
    let deadline = deadline(&run, asked.unwrap_or(now));
    if asked.is_none() {
        run.marks.set(STOPPING, now);
        for index in &running {
            let text = format!("Stopping container {}", run.containers[*index].name());
            run.record_event(false, "Killing", text);
        }
    }
    let is_deaf = running.iter().any(|index| run.containers[*index].behaviour.fault == Some(PodFault::Hang));
    let stops_at = match is_deaf {
        true => deadline,
        false => plus(asked.unwrap_or(now), run.known.settings.delays.stop).min(deadline),
    };
    if now < stops_at {
        return later(run, stops_at);
    }
    let (code, reason) = if is_deaf { (137, "Error") } else { (0, "Completed") };
    for index in running {
        run.stop(index, code, reason);
    }
    gone(run, is_last_word)
}

/// The deadline from the API, but at most the grace period from when the deletion was observed: the clock may have
/// been set back.
fn deadline(run: &LifecycleRun<'_>, observed: Timestamp) -> Timestamp {
    let requested = run.pod.deletion_timestamp().and_then(time::parse).unwrap_or(observed);
    let grace = run.pod.i64_at(&["metadata", "deletionGracePeriodSeconds"]).and_then(|grace| u64::try_from(grace).ok());
    grace.map_or(requested, |grace| requested.min(plus(observed, Duration::from_secs(grace))))
}

fn later(run: LifecycleRun<'_>, at: Timestamp) -> LifecycleDecision {
    LifecycleDecision { wake: Some(at), events: run.events, marks: run.marks, ..LifecycleDecision::default() }
}

/// Only a pod with a finalizer needs its final status; for others that would be a useless write.
fn gone(run: LifecycleRun<'_>, is_last_word: bool) -> LifecycleDecision {
    let is_held = run.pod.finalizers().next().is_some();
    let status = is_held.then(|| render::status(&run)).filter(|status| run.pod.get(&["status"]) != Some(status));
    // Without grace period and with a finalizer, the API server waits for the finalizer, not for this node.
    let is_gone = !(is_held && is_last_word);
    LifecycleDecision { status, is_gone, wake: None, events: run.events, marks: run.marks }
}
