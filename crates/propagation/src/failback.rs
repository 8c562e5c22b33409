//! Coming back: when a workload that left a cluster by failover may return to it, and at which rate.

use std::time::Duration;

use api::cluster::CONDITION_READY;
use api::failover::{CONDITION_SCHEDULABLE_NODES, REASON_FAILBACK};
use api::work::{BindingSpec, GracefulEvictionTask, TargetCluster};
use jiff::{SignedDuration, Timestamp};
use object::{Object, conditions};
use serde_json::Value;

/// Default time a cluster must have been healthy before failback.
pub const AFTER: Duration = Duration::from_secs(300);
/// Workloads of one policy that return in a second, where it does not say.
pub const RATE: f32 = 1.0;
const RATE_MAX: f32 = 1000.0;

/// The failback settings of a policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Failback {
    /// Time the cluster must have been healthy.
    pub after: Duration,
    /// Workloads of the policy that return in a second.
    pub rate: f32,
}

impl Failback {
    /// Reads `true`, `5m`, or `after=5m,rate=0.5`. `None` for `false` and nothing.
    pub fn parse(text: &str) -> Result<Option<Self>, String> {
        let mut wanted = Self { after: AFTER, rate: RATE };
        match text.trim() {
            "" | "false" => return Ok(None),
            "true" => return Ok(Some(wanted)),
            _ => {}
        }
        for part in text.split(',').map(str::trim) {
            match part.split_once('=') {
                None => wanted.after = duration(part)?,
                Some(("after", value)) => wanted.after = duration(value)?,
                Some(("rate", value)) => {
                    let rate: Option<f32> = value.parse().ok().filter(|rate| *rate > 0.0 && *rate <= RATE_MAX);
                    wanted.rate = rate.ok_or_else(|| format!("{value:?} is not a rate in a second, like 0.5 or 10"))?;
                }
                Some((other, _)) => return Err(format!("there is no {other:?}; there are after and rate")),
            }
        }
        Ok(Some(wanted))
    }

    /// Has a cluster been well for long enough?
    pub fn is_due(&self, well_since: Timestamp, now: Timestamp) -> bool {
        now.duration_since(well_since) >= SignedDuration::try_from(self.after).unwrap_or(SignedDuration::MAX)
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let read = text.parse::<SignedDuration>().ok().and_then(|duration| Duration::try_from(duration).ok());
    read.ok_or_else(|| format!("{text:?} is not a duration, like 90s, 5m or 1h"))
}

/// Returns the replicas of a cluster while the replicas it gives back are not known to be ready elsewhere: an eviction
/// task for a cluster that is still scheduled holds its previous replicas.
pub fn replicas_held(spec: &BindingSpec, target: &TargetCluster) -> i32 {
    let is_hold = |task: &&GracefulEvictionTask| task.from_cluster == target.name && task.reason == REASON_FAILBACK;
    let held = spec.graceful_eviction_tasks.iter().filter(is_hold).filter_map(|task| task.replicas).max();
    // Replicas removed by the user meanwhile are not held.
    target.replicas.max(held.unwrap_or(0).min(spec.replicas))
}

/// Leaves the tasks of clusters that are left: one that holds replicas back keeps nothing out of its cluster.
pub fn forget_holds(spec: &mut BindingSpec) {
    let clusters = std::mem::take(&mut spec.clusters);
    spec.graceful_eviction_tasks.retain(|task| !clusters.iter().any(|target| target.name == task.from_cluster));
    spec.clusters = clusters;
}

/// Returns the time since when a cluster is healthy; `None` when it is not, or the time is unknown.
pub fn well_since(cluster: &Object) -> Option<Timestamp> {
    let keeps_out = |taint: &Value| taint["effect"] == "NoExecute" || taint["effect"] == "NoSchedule";
    if cluster.is_deleting() || cluster.items(&["spec", "taints"]).iter().any(keeps_out) {
        return None;
    }
    let ready = conditions::find(cluster, CONDITION_READY).filter(|ready| ready.is_true())?.last_transition()?;
    match conditions::find(cluster, CONDITION_SCHEDULABLE_NODES) {
        None => Some(ready),
        Some(nodes) if nodes.is_false() => None,
        Some(nodes) => Some(nodes.last_transition()?.max(ready)),
    }
}

#[cfg(test)]
mod tests {
    use object::time::parse;
    use serde_json::json;

    use super::*;

    #[test]
    fn failback_settings_of_a_policy_are_parsed_or_refused() {
        let read = |text: &str| Failback::parse(text).expect(text).map(|wanted| (wanted.after.as_secs(), wanted.rate));
        assert_eq!(read(""), None);
        assert_eq!(read("false"), None);
        assert_eq!(read("true"), Some((300, 1.0)));
        assert_eq!(read("90s"), Some((90, 1.0)));
        assert_eq!(read("1h30m"), Some((5400, 1.0)));
        assert_eq!(read("0s"), Some((0, 1.0)));
        assert_eq!(read("after=2m, rate=0.5"), Some((120, 0.5)));
        assert_eq!(read("rate=20"), Some((300, 20.0)));
        for bad in ["soon", "after=", "rate=0", "rate=x", "-5m", "later=5m", "rate=inf"] {
            assert!(Failback::parse(bad).is_err(), "{bad}");
        }
    }

    #[track_caller]
    fn check_held(replicas: i32, reason: &str, has: Option<i32>, expected: i32) {
        let task = |from: &str| GracefulEvictionTask {
            from_cluster: from.to_owned(),
            reason: reason.to_owned(),
            replicas: has,
            ..GracefulEvictionTask::default()
        };
        let target = TargetCluster { name: "robbinsdale".to_owned(), replicas: 2, ..TargetCluster::default() };
        let mut spec = BindingSpec {
            replicas,
            clusters: vec![target.clone()],
            graceful_eviction_tasks: vec![task("robbinsdale"), task("elsewhere")],
            ..BindingSpec::default()
        };
        assert_eq!(replicas_held(&spec, &target), expected, "{replicas} {reason} {has:?}");
        forget_holds(&mut spec);
        let left: Vec<&str> = spec.graceful_eviction_tasks.iter().map(|task| task.from_cluster.as_str()).collect();
        assert_eq!((left, spec.clusters.len()), (vec!["elsewhere"], 1));
    }

    #[test]
    fn a_cluster_keeps_its_replicas_during_failback() {
        check_held(4, REASON_FAILBACK, Some(4), 4);
        check_held(3, REASON_FAILBACK, Some(4), 3);
        check_held(0, REASON_FAILBACK, Some(4), 2);
        check_held(4, REASON_FAILBACK, None, 2);
        check_held(4, "TaintUntolerated", Some(4), 2);
    }

    #[track_caller]
    fn check(conditions: Value, taints: Value, expected: Option<&str>) {
        let cluster = json!({"spec": {"taints": taints}, "status": {"conditions": conditions}});
        let since = well_since(&Object::from_value(cluster).expect("a map"));
        assert_eq!(since, expected.map(|time| parse(time).expect("a time")));
    }

    #[test]
    fn a_cluster_is_healthy_since_its_last_problem() {
        let (noon, one) = ("2026-11-16T12:00:00Z", "2026-11-16T13:00:00Z");
        let condition =
            |kind: &str, status: &str, time: &str| json!({"type": kind, "status": status, "lastTransitionTime": time});
        let ready = || condition("Ready", "True", noon);
        check(json!([ready()]), json!([]), Some(noon));
        check(json!([ready(), condition("SchedulableNodes", "True", one)]), json!([]), Some(one));
        check(json!([ready(), condition("SchedulableNodes", "False", one)]), json!([]), None);
        check(json!([condition("Ready", "Unknown", noon)]), json!([]), None);
        check(json!([]), json!([]), None);
        check(json!([ready()]), json!([{"key": "a", "effect": "NoSchedule"}]), None);
    }
}
