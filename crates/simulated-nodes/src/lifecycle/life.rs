//! Decides how long a started container runs and how it terminates.

use std::time::Duration;

use object::Object;
use serde_json::Value;

use crate::behaviour::PodFault;
use crate::lifecycle::container::{Container, Role};
use crate::settings::{Delays, SimulatedNodeSettings};
use crate::shell;

/// After a run of this length, the next failure counts as the first.
const FORGIVEN_AFTER: Duration = Duration::from_secs(600);

/// The planned termination of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// `None` if it runs until stopped.
    pub lasts: Option<Duration>,
    pub exit_code: i32,
    pub reason: &'static str,
}

pub fn life(settings: &SimulatedNodeSettings, pod: &Object, container: &Container<'_>) -> Life {
    let delays = &settings.delays;
    let behaviour = &container.behaviour;
    let ends = |lasts: Duration, exit_code: i32| Life {
        lasts: Some(lasts),
        exit_code,
        reason: if exit_code == 0 { "Completed" } else { "Error" },
    };
    match behaviour.fault {
        Some(PodFault::Crash | PodFault::Fail) => {
            return ends(behaviour.run_for.unwrap_or(delays.crash), behaviour.exit_code.unwrap_or(1));
        }
        Some(PodFault::Oom) => {
            let lasts = behaviour.run_for.unwrap_or(delays.crash);
            return Life { lasts: Some(lasts), exit_code: 137, reason: "OOMKilled" };
        }
        Some(PodFault::Hang) => {
            let patience = container.spec.get("livenessProbe").map(patience);
            return Life { lasts: patience, exit_code: 137, reason: "Error" };
        }
        _ => {}
    }
    if behaviour.run_for.is_some() || behaviour.exit_code.is_some() {
        return ends(behaviour.run_for.unwrap_or(delays.job), behaviour.exit_code.unwrap_or(0));
    }
    let forever = Life { lasts: None, exit_code: 0, reason: "Completed" };
    // A user may attach and type.
    if container.spec["stdin"] == true {
        return forever;
    }
    match shell::predict_end(pod, container.spec) {
        Some(end) => end.map_or(forever, |(after, code)| ends(after, code)),
        None => match container.role {
            Role::Init => ends(delays.init, 0),
            Role::Main if pod.str_at(&["spec", "restartPolicy"]) != "Always" => ends(delays.job, 0),
            _ => forever,
        },
    }
}

/// Returns the time a probe may fail before the container is restarted.
fn patience(probe: &Value) -> Duration {
    let number = |name: &str, default: u64| probe[name].as_u64().unwrap_or(default);
    let seconds = number("initialDelaySeconds", 0) + number("periodSeconds", 10) * number("failureThreshold", 3);
    Duration::from_secs(seconds)
}

/// Returns the time until a successful probe has succeeded.
pub fn probe_delay(delays: &Delays, probe: Option<&Value>) -> Duration {
    match probe {
        Some(probe) => Duration::from_secs(probe["initialDelaySeconds"].as_u64().unwrap_or(0)) + delays.ready,
        None => Duration::ZERO,
    }
}

/// Returns the backoff before the next start, after this many restarts and a last run of that length.
pub fn backoff(delays: &Delays, restarts: i64, ran: Duration) -> Duration {
    if restarts == 0 || ran >= FORGIVEN_AFTER {
        return Duration::ZERO;
    }
    let doublings = u32::try_from(restarts - 1).unwrap_or(u32::MAX).min(20);
    delays.backoff_first.saturating_mul(1 << doublings).min(delays.backoff_max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backoff_doubles_up_to_its_maximum() {
        let delays = Delays::default();
        let short = Duration::from_secs(1);
        let waits: Vec<u64> = (0..8).map(|restarts| backoff(&delays, restarts, short).as_secs()).collect();
        assert_eq!(waits, [0, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(backoff(&delays, 5, Duration::from_secs(700)), Duration::ZERO);
        assert_eq!(backoff(&delays, i64::MAX, short).as_secs(), 300);
    }
}
