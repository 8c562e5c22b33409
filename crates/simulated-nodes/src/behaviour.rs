//! The simulated behaviour of a container, from pod annotations and the rules of the settings.

use std::time::Duration;

use object::Object;
use serde_json::Value;

use crate::duration;
use crate::settings::{SimulatedNodeSettings, matches};

/// `crash`, or for one container of several `web=crash,proxy=not-ready`.
pub const SIMULATE: &str = "flotilla.dev/simulate";
pub const START_DELAY: &str = "flotilla.dev/start-delay";
pub const READY_DELAY: &str = "flotilla.dev/ready-delay";
pub const RUN_FOR: &str = "flotilla.dev/run-for";
pub const EXIT_CODE: &str = "flotilla.dev/exit-code";
pub const USAGE_CPU: &str = "flotilla.dev/usage-cpu";
pub const USAGE_MEMORY: &str = "flotilla.dev/usage-memory";

/// A simulated fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodFault {
    /// Exits with an error soon after each start.
    Crash,
    /// Like a crash, but the pod fails at once, regardless of its restart policy.
    Fail,
    /// Runs but does not respond: probes fail, and it does not stop on request.
    Hang,
    /// Runs, but its readiness probe fails.
    NotReady,
    /// Exceeds its memory limit soon after each start.
    Oom,
    ImagePullError,
    /// Its volumes are never mounted: it stays in ContainerCreating.
    Stuck,
}

impl PodFault {
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text.trim() {
            "crash" => Self::Crash,
            "fail" => Self::Fail,
            "hang" => Self::Hang,
            "not-ready" => Self::NotReady,
            "oom" => Self::Oom,
            "image-pull-error" => Self::ImagePullError,
            "stuck" => Self::Stuck,
            _ => return None,
        })
    }
}

/// The deviations of one container from the default behaviour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Behaviour {
    pub fault: Option<PodFault>,
    pub start_delay: Option<Duration>,
    pub ready_delay: Option<Duration>,
    pub run_for: Option<Duration>,
    pub exit_code: Option<i32>,
}

/// Annotations take precedence, each on its own; then the first matching image rule applies.
pub fn behaviour(settings: &SimulatedNodeSettings, pod: &Object, container: &Value) -> Behaviour {
    let image = container["image"].as_str().unwrap_or_default();
    let name = container["name"].as_str().unwrap_or_default();
    let rule = settings.rules.iter().find(|rule| matches(&rule.image, image));
    let length = |annotation: &str| pod.annotation(annotation).and_then(duration::parse);
    let fault = pod.annotation(SIMULATE).and_then(|text| fault_of(text, name));
    Behaviour {
        fault: fault.or_else(|| rule.and_then(|rule| rule.fault)),
        start_delay: length(START_DELAY).or_else(|| rule.and_then(|rule| rule.start_delay)),
        ready_delay: length(READY_DELAY),
        run_for: length(RUN_FOR).or_else(|| rule.and_then(|rule| rule.run_for)),
        exit_code: pod
            .annotation(EXIT_CODE)
            .and_then(|code| code.trim().parse().ok())
            .or_else(|| rule.and_then(|rule| rule.exit_code)),
    }
}

fn fault_of(text: &str, container: &str) -> Option<PodFault> {
    text.split(',').find_map(|part| match part.split_once('=') {
        Some((name, fault)) if name.trim() == container => PodFault::parse(fault),
        Some(_) => None,
        None => PodFault::parse(part),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::settings::ImageRule;

    #[track_caller]
    fn check(annotations: Value, container: &str, expected: Behaviour) {
        let pod = Object::from_value(json!({"metadata": {"annotations": annotations}})).expect("a map");
        let rule = ImageRule {
            image: "busybox:*".into(),
            fault: Some(PodFault::Oom),
            start_delay: None,
            run_for: Some(Duration::from_secs(7)),
            exit_code: None,
        };
        let settings = SimulatedNodeSettings { rules: vec![rule], ..SimulatedNodeSettings::default() };
        let image = if container == "main" { "busybox:1" } else { "nginx" };
        let container = json!({"name": container, "image": image});
        assert_eq!(behaviour(&settings, &pod, &container), expected, "{annotations}");
    }

    #[test]
    fn annotations_precede_rules_and_may_name_a_container() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        check(json!({}), "web", Behaviour::default());
        check(json!({}), "main", Behaviour { fault: Some(PodFault::Oom), run_for: seconds(7), ..Behaviour::default() });
        check(
            json!({SIMULATE: "crash", EXIT_CODE: "3", RUN_FOR: "2s", START_DELAY: "1s"}),
            "main",
            Behaviour {
                fault: Some(PodFault::Crash),
                start_delay: seconds(1),
                run_for: seconds(2),
                exit_code: Some(3),
                ready_delay: None,
            },
        );
        let named = json!({SIMULATE: "web=not-ready, sidecar=hang"});
        check(named.clone(), "web", Behaviour { fault: Some(PodFault::NotReady), ..Behaviour::default() });
        check(named, "other", Behaviour::default());
        check(json!({SIMULATE: "explode", EXIT_CODE: "x"}), "web", Behaviour::default());
    }
}
