//! Decides when a workload must leave a cluster because of its NoExecute taints.

use std::time::Duration;

use api::cluster::{TAINT_NOT_READY, TAINT_UNREACHABLE};
use api::failover::{TAINT_NODES_UNSCHEDULABLE, VALUE_CORDONED, VALUE_NOT_READY};
use api::policy::FailoverBehavior;
use jiff::{SignedDuration, Timestamp};
use object::taints::{Taint, Toleration};
use object::time;

/// The consequence of the NoExecute taints of a cluster for one workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaintVerdict {
    Stay,
    StayFor(Duration),
    Leave,
}

/// Default tolerations of a control plane for clusters that are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultTolerations {
    /// `--default-not-ready-toleration-seconds`.
    pub not_ready: Duration,
    /// `--default-unreachable-toleration-seconds`.
    pub unreachable: Duration,
}

impl Default for DefaultTolerations {
    fn default() -> Self {
        Self { not_ready: Duration::from_secs(300), unreachable: Duration::from_secs(300) }
    }
}

/// An untolerated taint evicts at once; one tolerated for some seconds, that long after it was added, whichever
/// taint is first. Of several tolerations of a taint the first counts.
pub fn judge_taints(taints: &[Taint], tolerations: &[Toleration], now: Timestamp) -> TaintVerdict {
    let mut used = Vec::new();
    for taint in taints {
        match tolerations.iter().find(|toleration| toleration.tolerates(taint)) {
            Some(toleration) => used.push(toleration),
            None => return TaintVerdict::Leave,
        }
    }
    let ends = used.into_iter().flat_map(|toleration| {
        let tolerated = taints.iter().filter(|taint| toleration.tolerates(taint));
        tolerated.filter_map(|taint| end_of(toleration, taint))
    });
    let Some(first) = ends.min() else { return TaintVerdict::Stay };
    match Duration::try_from(first.duration_since(now)) {
        Ok(wait) if !wait.is_zero() => TaintVerdict::StayFor(wait),
        _ => TaintVerdict::Leave,
    }
}

/// Returns the time the toleration of a taint expires; `None` when it does not, or the taint has no time.
fn end_of(toleration: &Toleration, taint: &Taint) -> Option<Timestamp> {
    let added = time::parse(taint.time_added.as_deref()?)?;
    let patience = SignedDuration::from_secs(toleration.toleration_seconds?);
    Some(added.checked_add(patience).unwrap_or(Timestamp::MAX))
}

/// Returns the tolerations, with defaults for lost clusters if the placement has none: the policy's toleration period
/// for an unhealthy application, else that of the control plane. A cordoned cluster keeps running its workloads, so only
/// those with failover configured leave it. The first matching toleration counts, so the defaults come last.
pub fn tolerations(
    own: &[Toleration],
    failover: Option<&FailoverBehavior>,
    defaults: &DefaultTolerations,
) -> Vec<Toleration> {
    let application = failover.and_then(|failover| failover.application.as_ref());
    let patience = application.map(|own| own.decision_conditions.toleration_seconds.map_or(300, i64::from));
    let seconds = |default: Duration| Some(patience.unwrap_or(i64::try_from(default.as_secs()).unwrap_or(i64::MAX)));
    let asks = failover.is_some_and(|failover| failover.application.is_some() || failover.cluster.is_some());
    let not_ready = seconds(defaults.not_ready);
    let lost = [
        (TAINT_NOT_READY, "", not_ready),
        (TAINT_UNREACHABLE, "", seconds(defaults.unreachable)),
        (TAINT_NODES_UNSCHEDULABLE, VALUE_NOT_READY, not_ready),
        (TAINT_NODES_UNSCHEDULABLE, VALUE_CORDONED, not_ready.filter(|_| asks)),
    ];
    let tolerate = |(key, value, seconds): (&str, &str, Option<i64>)| Toleration {
        key: key.to_owned(),
        operator: if value.is_empty() { "Exists" } else { "Equal" }.to_owned(),
        value: value.to_owned(),
        effect: "NoExecute".to_owned(),
        toleration_seconds: seconds,
    };
    own.iter().cloned().chain(lost.into_iter().map(tolerate)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn taint(key: &str, added: Option<i64>) -> Taint {
        let time_added = added.map(|second| time::format_seconds(at(second)));
        Taint { key: key.to_owned(), effect: "NoExecute".to_owned(), time_added, ..Taint::default() }
    }

    fn tolerate(key: &str, seconds: Option<i64>) -> Toleration {
        Toleration {
            key: key.to_owned(),
            operator: "Exists".to_owned(),
            toleration_seconds: seconds,
            ..Toleration::default()
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn failover(value: serde_json::Value) -> FailoverBehavior {
        serde_json::from_value(value).expect("a failover")
    }

    #[track_caller]
    fn check(taints: &[Taint], tolerations: &[Toleration], expected: TaintVerdict) {
        assert_eq!(judge_taints(taints, tolerations, at(100)), expected, "{taints:?} {tolerations:?}");
    }

    #[test]
    fn the_first_expiring_toleration_decides() {
        let wait = |seconds: u64| TaintVerdict::StayFor(Duration::from_secs(seconds));
        check(&[taint("a", Some(90))], &[], TaintVerdict::Leave);
        check(&[taint("a", Some(90))], &[tolerate("b", None)], TaintVerdict::Leave);
        check(&[taint("a", Some(90))], &[tolerate("a", None)], TaintVerdict::Stay);
        check(&[taint("a", Some(90))], &[tolerate("a", Some(30))], wait(20));
        check(&[taint("a", Some(90))], &[tolerate("a", Some(10))], TaintVerdict::Leave);
        check(&[taint("a", Some(90))], &[tolerate("a", Some(5))], TaintVerdict::Leave);
        check(&[taint("a", Some(90))], &[tolerate("a", Some(0))], TaintVerdict::Leave);
        check(&[taint("a", None)], &[tolerate("a", Some(30))], TaintVerdict::Stay);
        let both = [taint("a", Some(90)), taint("b", Some(95))];
        check(&both, &[tolerate("a", None)], TaintVerdict::Leave);
        check(&both, &[tolerate("a", None), tolerate("b", Some(30))], wait(25));
        check(&both, &[tolerate("a", Some(30)), tolerate("b", Some(300))], wait(20));
        check(&both, &[tolerate("", Some(30))], wait(20));
        check(&[taint("a", Some(90))], &[tolerate("a", None), tolerate("a", Some(0))], TaintVerdict::Stay);
    }

    #[test]
    fn lost_clusters_are_tolerated_for_the_time_of_the_policy_or_the_default() {
        let wait = |seconds: u64| TaintVerdict::StayFor(Duration::from_secs(seconds));
        let check = |own: &[Toleration], failover: Option<&FailoverBehavior>, taint: &Taint, expected: TaintVerdict| {
            let tolerated = tolerations(own, failover, &DefaultTolerations::default());
            let verdict = judge_taints(std::slice::from_ref(taint), &tolerated, at(100));
            assert_eq!(verdict, expected, "{taint:?} {failover:?}");
        };
        let application = failover(json!({"application": {"decisionConditions": {"tolerationSeconds": 60}}}));
        let cluster = failover(json!({"cluster": {}}));
        for key in [TAINT_NOT_READY, TAINT_UNREACHABLE] {
            let lost = taint(key, Some(90));
            check(&[], None, &lost, wait(290));
            check(&[], Some(&application), &lost, wait(50));
            check(&[], Some(&cluster), &lost, wait(290));
            check(&[tolerate(key, Some(0))], Some(&application), &lost, TaintVerdict::Leave);
            check(&[tolerate(key, None)], Some(&application), &lost, TaintVerdict::Stay);
        }
        let nodes = |value: &str| Taint { value: value.to_owned(), ..taint(TAINT_NODES_UNSCHEDULABLE, Some(90)) };
        check(&[], None, &nodes("not-ready"), wait(290));
        check(&[], Some(&application), &nodes("not-ready"), wait(50));
        check(&[], None, &nodes("cordoned"), TaintVerdict::Stay);
        check(&[], Some(&application), &nodes("cordoned"), wait(50));
        check(&[], Some(&cluster), &nodes("cordoned"), wait(290));
        check(&[], Some(&application), &taint("mine", Some(90)), TaintVerdict::Leave);
    }
}
