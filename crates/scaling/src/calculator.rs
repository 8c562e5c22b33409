//! Computes the replica count that brings usage to its target. Pure, with the rules for unready and unmeasured pods.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::ScalingSettings;
use crate::pods::ScaledPod;

/// Usage of one pod, in milli-units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UsageSample {
    pub value: i64,
    pub at: Option<Timestamp>,
    pub window: Duration,
}

/// By `ScaledPod::key`.
pub type UsageSamples = HashMap<String, UsageSample>;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricTarget {
    /// Percentage of the requests.
    Utilization(i64),
    /// Milli-units per pod.
    AverageValue(i64),
}

/// The measured resource, of one container or (`""`) of all.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure<'a> {
    pub resource: &'a str,
    pub container: &'a str,
    pub target: MetricTarget,
}

/// The accepted deviation from the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    pub up: f64,
    pub down: f64,
}

/// The rules of one calculation.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'a> {
    pub tolerance: Tolerance,
    pub settings: &'a ScalingSettings,
    /// Pods in all clusters for each replica of the template: a count of pods divided by this is a count of replicas.
    pub calibration: f64,
    pub now: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CalculationError {
    #[error("no pods returned by selector while calculating replica count")]
    NoPods,
    #[error("did not receive metrics for targeted pods (pods might be unready)")]
    NoMetrics,
    #[error("missing request for {resource} in container {container} of Pod {pod}")]
    MissingRequest { resource: String, container: String, pod: String },
    #[error("no metrics returned matched known pods")]
    NoMatch,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proposal {
    pub replicas: i64,
    /// Percentage of the requests, for a utilization target.
    pub utilization: Option<i64>,
    /// Milli-units per pod.
    pub average: i64,
}

struct Grouped {
    ready: usize,
    unready: Vec<String>,
    missing: Vec<String>,
}

impl Tolerance {
    fn covers(&self, ratio: f64) -> bool {
        (1.0 - self.down..=1.0 + self.up).contains(&ratio)
    }
}

impl Limits<'_> {
    /// Converts a count of pods into replicas of the template.
    fn replicas(&self, pods: f64) -> i64 {
        (pods / self.calibration).ceil() as i64
    }
}

/// Proposes a replica count from a value for each pod.
pub fn propose(
    measure: &Measure<'_>,
    pods: &[Arc<ScaledPod>],
    mut samples: UsageSamples,
    current: i64,
    limits: Limits<'_>,
) -> Result<Proposal, CalculationError> {
    if pods.is_empty() {
        return Err(CalculationError::NoPods);
    }
    let grouped = group(measure, pods, &mut samples, limits);
    let requests = match measure.target {
        MetricTarget::Utilization(_) => gather_requests(measure, pods)?,
        MetricTarget::AverageValue(_) => HashMap::new(),
    };
    if samples.is_empty() {
        return Err(CalculationError::NoMetrics);
    }
    let (ratio, utilization, average) = ratio_of(measure.target, &samples, &requests)?;
    let stay = Proposal { replicas: current, utilization, average };
    let scales_up_with_unready = !grouped.unready.is_empty() && ratio > 1.0;
    if !scales_up_with_unready && grouped.missing.is_empty() {
        return Ok(match limits.tolerance.covers(ratio) {
            true => stay,
            false => Proposal { replicas: limits.replicas(ratio * grouped.ready as f64), ..stay },
        });
    }
    // Unmeasured pods are assumed to counter the proposed change.
    for pod in &grouped.missing {
        let value = match measure.target {
            _ if ratio > 1.0 => 0,
            _ if ratio == 1.0 => continue,
            MetricTarget::Utilization(target) => requests.get(pod).copied().unwrap_or(0) * target.max(100) / 100,
            MetricTarget::AverageValue(target) => target,
        };
        samples.insert(pod.clone(), UsageSample { value, at: None, window: Duration::ZERO });
    }
    if scales_up_with_unready {
        for pod in &grouped.unready {
            samples.insert(pod.clone(), UsageSample { value: 0, at: None, window: Duration::ZERO });
        }
    }
    let (again, _, _) = ratio_of(measure.target, &samples, &requests)?;
    if limits.tolerance.covers(again) || (ratio < 1.0 && again > 1.0) || (ratio > 1.0 && again < 1.0) {
        return Ok(stay);
    }
    let replicas = limits.replicas(again * samples.len() as f64);
    let turns = (again < 1.0 && replicas > current) || (again > 1.0 && replicas < current);
    Ok(if turns { stay } else { Proposal { replicas, ..stay } })
}

/// Proposes a replica count from one value for all pods: each ready pod is assumed to cause an equal part of it.
pub fn propose_for_value(
    (usage, target): (i64, i64),
    pods: &[Arc<ScaledPod>],
    current: i64,
    limits: Limits<'_>,
) -> Result<i64, CalculationError> {
    let ratio = usage as f64 / target.max(1) as f64;
    if current == 0 {
        // Without pods there is nothing to compare with: any usage starts as many as it exceeds the target.
        return Ok(ratio.ceil() as i64);
    }
    if limits.tolerance.covers(ratio) {
        return Ok(current);
    }
    if pods.is_empty() {
        return Err(CalculationError::NoPods);
    }
    let ready = pods.iter().filter(|pod| pod.phase == "Running" && pod.is_ready()).count();
    Ok(limits.replicas(ratio * ready as f64))
}

/// Proposes a replica count from one value that is divided among all pods. `pods` is their number, as their controllers
/// report it.
pub fn propose_for_share((usage, target): (i64, i64), pods: i64, limits: Limits<'_>) -> Proposal {
    let target = target.max(1) as f64;
    let ratio = usage as f64 / (target * pods as f64);
    let wanted = if limits.tolerance.covers(ratio) { pods as f64 } else { usage as f64 / target };
    let average = (usage as f64 / pods.max(1) as f64).ceil() as i64;
    Proposal { replicas: limits.replicas(wanted.ceil()), utilization: None, average }
}

/// Groups pods by the quality of their metrics, and drops unusable ones.
fn group(measure: &Measure<'_>, pods: &[Arc<ScaledPod>], samples: &mut UsageSamples, limits: Limits<'_>) -> Grouped {
    let mut grouped = Grouped { ready: 0, unready: Vec::new(), missing: Vec::new() };
    let known: HashSet<String> = pods.iter().map(|pod| pod.key()).collect();
    samples.retain(|key, _| known.contains(key));
    for pod in pods {
        let key = pod.key();
        if pod.is_deleting || pod.phase == "Failed" {
            samples.remove(&key);
        } else if matches!(pod.phase.as_str(), "Pending" | "") {
            samples.remove(&key);
            grouped.unready.push(key);
        } else {
            match samples.get(&key) {
                None => grouped.missing.push(key),
                Some(sample) if measure.resource == "cpu" && is_unready(pod, sample, limits) => {
                    samples.remove(&key);
                    grouped.unready.push(key);
                }
                Some(_) => grouped.ready += 1,
            }
        }
    }
    grouped
}

/// The cpu usage of a starting pod is not representative.
fn is_unready(pod: &ScaledPod, sample: &UsageSample, limits: Limits<'_>) -> bool {
    let Limits { settings, now, .. } = limits;
    let (Some((is_ready, since)), Some(started)) = (pod.ready, pod.started) else { return true };
    let after = |at: Timestamp, wait: Duration| {
        SignedDuration::try_from(wait).ok().and_then(|wait| at.checked_add(wait).ok()).unwrap_or(Timestamp::MAX)
    };
    let since = since.unwrap_or(started);
    if after(started, settings.cpu_initialization_period) > now {
        return !is_ready || sample.at.is_some_and(|at| at < after(since, sample.window));
    }
    !is_ready && after(started, settings.initial_readiness_delay) > since
}

fn gather_requests(measure: &Measure<'_>, pods: &[Arc<ScaledPod>]) -> Result<HashMap<String, i64>, CalculationError> {
    let mut requests = HashMap::new();
    for pod in pods {
        let whole = pod.pod_requests.iter().find(|(resource, _)| resource == measure.resource);
        if let Some((_, amount)) = whole.filter(|_| measure.container.is_empty()) {
            requests.insert(pod.key(), *amount);
            continue;
        }
        let counted = pod.containers.iter().filter(|name| measure.container.is_empty() || *name == measure.container);
        let mut sum = 0;
        for container in counted {
            let asked = pod.requests.iter().find(|(of, resource, _)| of == container && resource == measure.resource);
            let Some((_, _, amount)) = asked else {
                return Err(CalculationError::MissingRequest {
                    resource: measure.resource.to_owned(),
                    container: container.clone(),
                    pod: pod.name.clone(),
                });
            };
            sum += amount;
        }
        requests.insert(pod.key(), sum);
    }
    Ok(requests)
}

/// Returns usage relative to the target, usage as percentage of requests, and usage per pod.
fn ratio_of(
    target: MetricTarget,
    samples: &UsageSamples,
    requests: &HashMap<String, i64>,
) -> Result<(f64, Option<i64>, i64), CalculationError> {
    match target {
        MetricTarget::Utilization(target) => {
            let known = samples.iter().filter_map(|(name, sample)| Some((sample.value, *requests.get(name)?)));
            let (mut used, mut asked, mut count) = (0, 0, 0);
            for (value, request) in known {
                used += value;
                asked += request;
                count += 1;
            }
            if asked == 0 {
                return Err(CalculationError::NoMatch);
            }
            let utilization = used * 100 / asked;
            Ok((utilization as f64 / target.max(1) as f64, Some(utilization), used / count.max(1)))
        }
        MetricTarget::AverageValue(target) => {
            let used: i64 = samples.values().map(|sample| sample.value).sum();
            let average = used / (samples.len().max(1) as i64);
            Ok((average as f64 / target.max(1) as f64, None, average))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-01T01:00:00Z";

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    /// A pod that requests one cpu and has run for an hour; `state` is `ready`, `unready`, `pending` or `going`.
    fn pod(name: &str, state: &str) -> Arc<ScaledPod> {
        Arc::new(ScaledPod {
            cluster: String::new(),
            name: name.to_owned(),
            phase: if state == "pending" { "Pending" } else { "Running" }.to_owned(),
            is_deleting: state == "going",
            ready: Some((state == "ready", Some(at("2026-01-01T00:00:10Z")))),
            started: Some(at("2026-01-01T00:00:00Z")),
            requests: vec![("main".into(), "cpu".into(), 1000)],
            containers: vec!["main".into()],
            pod_requests: Vec::new(),
        })
    }

    fn limits(settings: &ScalingSettings, calibration: f64) -> Limits<'_> {
        Limits { tolerance: Tolerance { up: 0.1, down: 0.1 }, settings, calibration, now: at(NOW) }
    }

    /// Inside a cluster.
    #[track_caller]
    fn check(pods: &[&str], current: i64, expected: Result<i64, &str>) {
        check_calibrated(pods, (1.0, current), expected);
    }

    /// Pods as `state:milli` (or `state:-` without metrics); the target is 50 percent.
    #[track_caller]
    fn check_calibrated(pods: &[&str], (calibration, current): (f64, i64), expected: Result<i64, &str>) {
        let mut samples = UsageSamples::new();
        let mut views = Vec::new();
        for (index, text) in pods.iter().enumerate() {
            let (state, value) = text.split_once(':').expect("state:value");
            let name = format!("p{index}");
            if let Ok(value) = value.parse() {
                let sample = UsageSample { value, at: Some(at(NOW)), window: Duration::from_secs(30) };
                samples.insert(name.clone(), sample);
            }
            views.push(pod(&name, state));
        }
        let measure = Measure { resource: "cpu", container: "", target: MetricTarget::Utilization(50) };
        let found = propose(&measure, &views, samples, current, limits(&ScalingSettings::default(), calibration));
        let found = found.map(|proposal| proposal.replicas).map_err(|error| error.to_string());
        assert_eq!(found, expected.map_err(str::to_owned), "{pods:?}");
    }

    #[test]
    fn replicas_follow_usage() {
        check(&["ready:500", "ready:500"], 2, Ok(2));
        check(&["ready:1000", "ready:1000"], 2, Ok(4));
        check(&["ready:540", "ready:540"], 2, Ok(2));
        check(&["ready:100", "ready:100", "ready:100", "ready:100"], 4, Ok(1));
        check(&["ready:200", "going:900"], 2, Ok(1));
    }

    #[test]
    fn pods_in_all_members_are_divided_by_the_pods_of_a_replica() {
        // Two members with two pods each, of a template with two replicas.
        let busy = ["ready:1000", "ready:1000", "ready:1000", "ready:1000"];
        check_calibrated(&busy, (2.0, 2), Ok(4));
        check_calibrated(&["ready:100", "ready:100", "ready:100", "ready:100"], (2.0, 2), Ok(1));
        check_calibrated(&["ready:520", "ready:520", "ready:500", "ready:500"], (2.0, 2), Ok(2));
        // Three of six replicas are in a member that is not ready.
        check_calibrated(&["ready:500", "ready:500", "ready:1000"], (0.5, 6), Ok(8));
    }

    #[test]
    fn pods_of_the_same_name_in_two_members_are_two_pods() {
        let two: Vec<Arc<ScaledPod>> = ["m1", "m2"]
            .map(|cluster| {
                Arc::new(ScaledPod { cluster: cluster.to_owned(), ..ScaledPod::clone(&pod("web-0", "ready")) })
            })
            .into();
        let sample = |value| UsageSample { value, at: Some(at(NOW)), window: Duration::from_secs(30) };
        let samples = UsageSamples::from([("m1/web-0".to_owned(), sample(200)), ("m2/web-0".to_owned(), sample(1800))]);
        let measure = Measure { resource: "cpu", container: "", target: MetricTarget::Utilization(50) };
        let settings = ScalingSettings::default();
        let found = propose(&measure, &two, samples, 2, limits(&settings, 1.0)).expect("a proposal");
        assert_eq!(found, Proposal { replicas: 4, utilization: Some(100), average: 1000 });
    }

    #[test]
    fn one_value_is_compared_with_the_target() {
        let settings = ScalingSettings::default();
        let pods: Vec<Arc<ScaledPod>> = vec![pod("a", "ready"), pod("b", "ready"), pod("c", "unready")];
        // Usage, current replicas, calibration → replicas; the target is 100.
        let cases = [(100, 3, 1.0, 3), (109, 3, 1.0, 3), (300, 3, 1.0, 6), (50, 3, 1.0, 1), (300, 3, 2.0, 3)];
        for (usage, current, calibration, expected) in cases {
            let found = propose_for_value((usage, 100), &pods, current, limits(&settings, calibration));
            assert_eq!(found, Ok(expected), "{usage} {current} {calibration}");
        }
        for (usage, expected) in [(0, 0), (1, 1), (100, 1), (250, 3)] {
            let found = propose_for_value((usage, 100), &[], 0, limits(&settings, 1.0));
            assert_eq!(found, Ok(expected), "{usage} from zero");
        }
        assert_eq!(propose_for_value((500, 100), &[], 2, limits(&settings, 1.0)), Err(CalculationError::NoPods));
        assert_eq!(propose_for_value((0, 100), &pods, 3, limits(&settings, 1.0)), Ok(0));
    }

    #[test]
    fn one_value_is_divided_among_pods() {
        let settings = ScalingSettings::default();
        // Usage, pods, calibration → replicas, value for each pod; the target is 10.
        let cases = [
            (40, 4, 1.0, (4, 10)),
            (43, 4, 1.0, (4, 11)),
            (95, 4, 1.0, (10, 24)),
            (95, 4, 2.0, (5, 24)),
            (40, 4, 2.0, (2, 10)),
            (5, 4, 1.0, (1, 2)),
            (0, 4, 1.0, (0, 0)),
            (0, 0, 1.0, (0, 0)),
            (25, 0, 1.0, (3, 25)),
        ];
        for (usage, pods, calibration, expected) in cases {
            let found = propose_for_share((usage, 10), pods, limits(&settings, calibration));
            assert_eq!((found.replicas, found.average), expected, "{usage} {pods} {calibration}");
        }
    }

    #[test]
    fn missing_metrics_dampen_the_change() {
        // One of three was not measured: counted as idle when scaling up, as busy when scaling down.
        check(&["ready:1000", "ready:1000", "ready:-"], 3, Ok(4));
        check(&["ready:100", "ready:100", "ready:-"], 3, Ok(3));
        check(&["ready:1000", "pending:-"], 2, Ok(2));
        check(&["ready:2000", "unready:900"], 2, Ok(4));
    }

    #[test]
    fn missing_data_is_an_error() {
        check(&[], 1, Err("no pods returned by selector while calculating replica count"));
        check(&["ready:-"], 1, Err("did not receive metrics for targeted pods (pods might be unready)"));
        check(&["pending:5"], 1, Err("did not receive metrics for targeted pods (pods might be unready)"));
    }

    #[test]
    fn a_container_without_a_request_has_no_utilization() {
        let mut silent = ScaledPod::clone(&pod("p", "ready"));
        silent.requests.clear();
        let measure = Measure { resource: "cpu", container: "", target: MetricTarget::Utilization(50) };
        let found = gather_requests(&measure, &[Arc::new(silent)]);
        let text = found.expect_err("no request").to_string();
        assert_eq!(text, "missing request for cpu in container main of Pod p");
    }
}
