//! Computes the replica count that brings usage to its target. Pure, with the rules for unready and unmeasured pods.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use object::conditions;
use object::quantity::Quantity;
use object::{Object, time};
use serde_json::Value;

use crate::settings::ClusterServiceSettings;

/// The state of a scaled pod.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaledPod {
    pub name: String,
    pub phase: String,
    pub is_deleting: bool,
    /// `Ready` and its transition time.
    pub ready: Option<(bool, Option<Timestamp>)>,
    pub started: Option<Timestamp>,
    /// Container, resource, milli-units.
    pub requests: Vec<(String, String, i64)>,
    pub containers: Vec<String>,
    /// Pod-level requests: resource, milli-units.
    pub pod_requests: Vec<(String, i64)>,
}

/// Usage of one pod, in milli-units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UsageSample {
    pub value: i64,
    pub at: Option<Timestamp>,
    pub window: Duration,
}

/// By pod name.
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

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proposal {
    pub replicas: i64,
    /// Percentage of the requests, for a utilization target.
    pub utilization: Option<i64>,
    /// Milli-units per pod.
    pub average: i64,
}

pub fn read(pod: &Object) -> Option<ScaledPod> {
    if pod.str_at(&["status", "phase"]) == "Succeeded" {
        return None;
    }
    let milli = |value: &Value| value.as_str().and_then(|text| Quantity::parse(text).ok()).map(|q| q.milli_value());
    let sidecars = pod.items(&["spec", "initContainers"]).iter().filter(|c| c["restartPolicy"] == "Always");
    let containers: Vec<&Value> = pod.items(&["spec", "containers"]).iter().chain(sidecars).collect();
    let name_of = |container: &Value| container["name"].as_str().unwrap_or_default().to_owned();
    let requests = containers.iter().flat_map(|container| {
        let list = container["resources"]["requests"].as_object().into_iter().flatten();
        list.filter_map(|(resource, value)| Some((name_of(container), resource.clone(), milli(value)?)))
            .collect::<Vec<_>>()
    });
    let whole = pod.get(&["spec", "resources", "requests"]).and_then(Value::as_object).into_iter().flatten();
    let ready = conditions::find(pod, "Ready");
    Some(ScaledPod {
        name: pod.name().to_owned(),
        phase: pod.str_at(&["status", "phase"]).to_owned(),
        is_deleting: pod.is_deleting(),
        ready: ready.map(|condition| (condition.is_true(), condition.last_transition())),
        started: time::parse(pod.str_at(&["status", "startTime"])),
        requests: requests.collect(),
        containers: containers.iter().map(|container| name_of(container)).collect(),
        pod_requests: whole.filter_map(|(resource, value)| Some((resource.clone(), milli(value)?))).collect(),
    })
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

/// Proposes a replica count. The error is shown to the user.
pub fn propose(
    measure: &Measure<'_>,
    pods: &[Arc<ScaledPod>],
    mut samples: UsageSamples,
    current: i64,
    limits: (Tolerance, &ClusterServiceSettings, Timestamp),
) -> Result<Proposal, String> {
    let (tolerance, settings, now) = limits;
    if pods.is_empty() {
        return Err("no pods returned by selector while calculating replica count".to_owned());
    }
    let grouped = group(measure, pods, &mut samples, settings, now);
    if samples.is_empty() {
        return Err("did not receive metrics for targeted pods (pods might be unready)".to_owned());
    }
    let requests = match measure.target {
        MetricTarget::Utilization(_) => gather_requests(measure, pods)?,
        MetricTarget::AverageValue(_) => HashMap::new(),
    };
    let (ratio, utilization, average) = ratio_of(measure.target, &samples, &requests)?;
    let stay = Proposal { replicas: current, utilization, average };
    let scales_up_with_unready = !grouped.unready.is_empty() && ratio > 1.0;
    if !scales_up_with_unready && grouped.missing.is_empty() {
        return Ok(match tolerance.covers(ratio) {
            true => stay,
            false => Proposal { replicas: (ratio * grouped.ready as f64).ceil() as i64, ..stay },
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
    if tolerance.covers(again) || (ratio < 1.0 && again > 1.0) || (ratio > 1.0 && again < 1.0) {
        return Ok(stay);
    }
    let replicas = (again * samples.len() as f64).ceil() as i64;
    let turns = (again < 1.0 && replicas > current) || (again > 1.0 && replicas < current);
    Ok(if turns { stay } else { Proposal { replicas, ..stay } })
}

/// Groups pods by the quality of their metrics, and drops unusable ones.
fn group(
    measure: &Measure<'_>,
    pods: &[Arc<ScaledPod>],
    samples: &mut UsageSamples,
    settings: &ClusterServiceSettings,
    now: Timestamp,
) -> Grouped {
    let mut grouped = Grouped { ready: 0, unready: Vec::new(), missing: Vec::new() };
    samples.retain(|name, _| pods.iter().any(|pod| pod.name == *name));
    for pod in pods {
        if pod.is_deleting || pod.phase == "Failed" {
            samples.remove(&pod.name);
        } else if matches!(pod.phase.as_str(), "Pending" | "") {
            samples.remove(&pod.name);
            grouped.unready.push(pod.name.clone());
        } else {
            match samples.get(&pod.name) {
                None => grouped.missing.push(pod.name.clone()),
                Some(sample) if measure.resource == "cpu" && is_unready(pod, sample, settings, now) => {
                    samples.remove(&pod.name);
                    grouped.unready.push(pod.name.clone());
                }
                Some(_) => grouped.ready += 1,
            }
        }
    }
    grouped
}

/// The cpu usage of a starting pod is not representative.
fn is_unready(pod: &ScaledPod, sample: &UsageSample, settings: &ClusterServiceSettings, now: Timestamp) -> bool {
    let (Some((is_ready, since)), Some(started)) = (pod.ready, pod.started) else { return true };
    let after = |at: Timestamp, wait: Duration| {
        SignedDuration::try_from(wait).ok().and_then(|wait| at.checked_add(wait).ok()).unwrap_or(Timestamp::MAX)
    };
    let since = since.unwrap_or(started);
    if after(started, settings.autoscaler_cpu_initialization_period) > now {
        return !is_ready || sample.at.is_some_and(|at| at < after(since, sample.window));
    }
    !is_ready && after(started, settings.autoscaler_initial_readiness_delay) > since
}

fn gather_requests(measure: &Measure<'_>, pods: &[Arc<ScaledPod>]) -> Result<HashMap<String, i64>, String> {
    let mut requests = HashMap::new();
    for pod in pods {
        let whole = pod.pod_requests.iter().find(|(resource, _)| resource == measure.resource);
        if let Some((_, amount)) = whole.filter(|_| measure.container.is_empty()) {
            requests.insert(pod.name.clone(), *amount);
            continue;
        }
        let counted = pod.containers.iter().filter(|name| measure.container.is_empty() || *name == measure.container);
        let mut sum = 0;
        for container in counted {
            let asked = pod.requests.iter().find(|(of, resource, _)| of == container && resource == measure.resource);
            let Some((_, _, amount)) = asked else {
                let Measure { resource, .. } = measure;
                return Err(format!("missing request for {resource} in container {container} of Pod {}", pod.name));
            };
            sum += amount;
        }
        requests.insert(pod.name.clone(), sum);
    }
    Ok(requests)
}

/// Returns usage relative to the target, usage as percentage of requests, and usage per pod.
fn ratio_of(
    target: MetricTarget,
    samples: &UsageSamples,
    requests: &HashMap<String, i64>,
) -> Result<(f64, Option<i64>, i64), String> {
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
                return Err("no metrics returned matched known pods".to_owned());
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

    /// Pods as `state:milli` (or `state:-` without metrics); the target is 50 percent.
    #[track_caller]
    fn check(pods: &[&str], current: i64, expected: Result<i64, &str>) {
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
        let tolerance = Tolerance { up: 0.1, down: 0.1 };
        let found =
            propose(&measure, &views, samples, current, (tolerance, &ClusterServiceSettings::default(), at(NOW)));
        assert_eq!(found.map(|proposal| proposal.replicas), expected.map_err(str::to_owned), "{pods:?}");
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
        assert_eq!(found, Err("missing request for cpu in container main of Pod p".to_owned()));
    }
}
