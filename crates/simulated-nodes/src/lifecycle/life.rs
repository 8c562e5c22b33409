//! How long a container that has started will run, and how it will end.

use std::time::Duration;

use object::Object;
use serde_json::Value;

use crate::behaviour::Fault;
use crate::lifecycle::container::{Container, Role};
use crate::settings::{Delays, Settings};
use crate::shell;

/// A run that is far enough back to count as a success: the next failure is treated as the first.
const FORGIVEN_AFTER: Duration = Duration::from_secs(600);

/// The end a container is heading for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// `None` goes on until somebody stops it.
    pub lasts: Option<Duration>,
    pub exit_code: i32,
    pub reason: &'static str,
}

pub fn life(settings: &Settings, pod: &Object, container: &Container<'_>) -> Life {
    let delays = &settings.delays;
    let behaviour = &container.behaviour;
    let ends = |lasts: Duration, exit_code: i32| Life {
        lasts: Some(lasts),
        exit_code,
        reason: if exit_code == 0 { "Completed" } else { "Error" },
    };
    match behaviour.fault {
        Some(Fault::Crash | Fault::Fail) => {
            return ends(behaviour.run_for.unwrap_or(delays.crash), behaviour.exit_code.unwrap_or(1));
        }
        Some(Fault::Oom) => {
            let lasts = behaviour.run_for.unwrap_or(delays.crash);
            return Life { lasts: Some(lasts), exit_code: 137, reason: "OOMKilled" };
        }
        Some(Fault::Hang) => {
            let patience = container.spec.get("livenessProbe").map(patience);
            return Life { lasts: patience, exit_code: 137, reason: "Error" };
        }
        _ => {}
    }
    if behaviour.run_for.is_some() || behaviour.exit_code.is_some() {
        return ends(behaviour.run_for.unwrap_or(delays.job), behaviour.exit_code.unwrap_or(0));
    }
    let forever = Life { lasts: None, exit_code: 0, reason: "Completed" };
    // Somebody may come and type.
    if container.spec["stdin"] == true {
        return forever;
    }
    match shell::foretell(pod, container.spec) {
        Some(end) => end.map_or(forever, |(after, code)| ends(after, code)),
        None => match container.role {
            Role::Init => ends(delays.init, 0),
            Role::Main if pod.str_at(&["spec", "restartPolicy"]) != "Always" => ends(delays.job, 0),
            _ => forever,
        },
    }
}

/// How long a probe may fail until the container is given up.
fn patience(probe: &Value) -> Duration {
    let number = |name: &str, default: u64| probe[name].as_u64().unwrap_or(default);
    let seconds = number("initialDelaySeconds", 0) + number("periodSeconds", 10) * number("failureThreshold", 3);
    Duration::from_secs(seconds)
}

/// Until a probe that will succeed has done so.
pub fn probe_delay(delays: &Delays, probe: Option<&Value>) -> Duration {
    match probe {
        Some(probe) => Duration::from_secs(probe["initialDelaySeconds"].as_u64().unwrap_or(0)) + delays.ready,
        None => Duration::ZERO,
    }
}

/// The wait before the next start, after so many restarts and a last run of that length.
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
    fn waits_double_up_to_their_bound() {
        let delays = Delays::default();
        let short = Duration::from_secs(1);
        let waits: Vec<u64> = (0..8).map(|restarts| backoff(&delays, restarts, short).as_secs()).collect();
        assert_eq!(waits, [0, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(backoff(&delays, 5, Duration::from_secs(700)), Duration::ZERO);
        assert_eq!(backoff(&delays, i64::MAX, short).as_secs(), 300);
    }
}
