//! Decides if a workload must leave a tainted cluster, and plans the change of its binding.

use std::collections::BTreeMap;
use std::time::Duration;

use api::cluster::{TAINT_NOT_READY, TAINT_UNREACHABLE};
use api::core::{Taint, Toleration};
use api::failover::{TAINT_NODES_UNSCHEDULABLE, VALUE_CORDONED, VALUE_NOT_READY};
use api::features::Features;
use api::policy::FailoverBehavior;
use api::work::{BindingSpec, BindingStatus};
use jiff::{SignedDuration, Timestamp};
use object::time;
use propagation::eviction::{Eviction, EvictionError, application_eviction};
use propagation::state::preserve;

use crate::settings::{PurgeMode, Settings};
use crate::taint_policies::lost::is_of_loss;

const PRODUCER: &str = "TaintManager";
const REASON: &str = "TaintUntolerated";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Stay,
    StayFor(Duration),
    Leave,
}

/// An untolerated taint evicts at once; one tolerated for some seconds, that long after it was added, whichever
/// taint is first. Of several tolerations of a taint the first counts.
pub fn judge(taints: &[Taint], tolerations: &[Toleration], now: Timestamp) -> Verdict {
    let mut used = Vec::new();
    for taint in taints {
        match tolerations.iter().find(|toleration| toleration.tolerates(taint)) {
            Some(toleration) => used.push(toleration),
            None => return Verdict::Leave,
        }
    }
    let ends = used.into_iter().flat_map(|toleration| {
        let tolerated = taints.iter().filter(|taint| toleration.tolerates(taint));
        tolerated.filter_map(|taint| end_of(toleration, taint))
    });
    let Some(first) = ends.min() else { return Verdict::Stay };
    match Duration::try_from(first.duration_since(now)) {
        Ok(wait) if !wait.is_zero() => Verdict::StayFor(wait),
        _ => Verdict::Leave,
    }
}

/// Returns the time the toleration of a taint expires; `None` when it does not, or the taint has no time.
fn end_of(toleration: &Toleration, taint: &Taint) -> Option<Timestamp> {
    let added = time::parse(taint.time_added.as_deref()?)?;
    let patience = SignedDuration::from_secs(toleration.toleration_seconds?);
    Some(added.checked_add(patience).unwrap_or(Timestamp::MAX))
}

/// Returns the purge mode: the policy's, or the default of the control plane.
pub fn purge_mode(failover: Option<&FailoverBehavior>, default: PurgeMode) -> String {
    match failover.and_then(|failover| failover.cluster.as_ref()) {
        Some(cluster) if cluster.purge_mode.is_empty() => PurgeMode::Gracefully.as_str().to_owned(),
        Some(cluster) => cluster.purge_mode.clone(),
        None => default.as_str().to_owned(),
    }
}

/// Returns the tolerations, with defaults for lost clusters if the placement has none: the policy's toleration period
/// for an unhealthy application, else that of the settings. A cordoned cluster keeps running its workloads, so only
/// those with failover configured leave it. The first matching toleration counts, so the defaults come last.
pub fn tolerations(own: &[Toleration], failover: Option<&FailoverBehavior>, settings: &Settings) -> Vec<Toleration> {
    let application = failover.and_then(|failover| failover.application.as_ref());
    let patience = application.map(|own| own.decision_conditions.toleration_seconds.map_or(300, i64::from));
    let seconds = |default: Duration| Some(patience.unwrap_or(i64::try_from(default.as_secs()).unwrap_or(i64::MAX)));
    let asks = failover.is_some_and(|failover| failover.application.is_some() || failover.cluster.is_some());
    let not_ready = seconds(settings.default_not_ready_toleration);
    let lost = [
        (TAINT_NOT_READY, "", not_ready),
        (TAINT_UNREACHABLE, "", seconds(settings.default_unreachable_toleration)),
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

/// Plans the eviction of a workload from a cluster that cannot run it: as in the policy's application failover,
/// including state preservation, unless the policy has cluster failover. The message names the taints.
pub fn plan_eviction_of_loss(
    plain: Eviction,
    spec: &BindingSpec,
    status: &BindingStatus,
    cluster: &str,
    taints: &[Taint],
    features: &Features,
) -> Result<Eviction, EvictionError> {
    let told = |taint: &Taint| match taint.value.as_str() {
        "" => taint.key.clone(),
        value => format!("{}={value}", taint.key),
    };
    let message = format!("the cluster has {}", taints.iter().map(told).collect::<Vec<_>>().join(", "));
    let eviction = Eviction { message, ..plain };
    let failover = spec.failover.as_ref().filter(|own| own.cluster.is_none() && taints.iter().all(is_of_loss));
    let Some(application) = failover.and_then(|own| own.application.as_ref()) else { return Ok(eviction) };
    let wanted = application_eviction(application, spec, &status.aggregated_status, cluster, features)?;
    let purge_mode = if wanted.purge_mode.is_empty() { eviction.purge_mode } else { wanted.purge_mode };
    let Eviction { reason, producer, message, .. } = eviction;
    Ok(Eviction { purge_mode, reason, producer, message, ..wanted })
}

/// Reason and mode of the eviction.
pub fn plan_eviction(purge_mode: String) -> Eviction {
    Eviction { purge_mode, reason: REASON.to_owned(), producer: PRODUCER.to_owned(), ..Eviction::default() }
}

/// The preserved state of a workload. If the policy requires it and the member has not reported it, the workload stays.
pub fn state_of(spec: &BindingSpec, status: &BindingStatus, cluster: &str) -> Result<BTreeMap<String, String>, String> {
    let behavior = spec.failover.as_ref().and_then(|failover| failover.cluster.as_ref());
    let Some(rules) = behavior.and_then(|behavior| behavior.state_preservation.as_ref()) else {
        return Ok(BTreeMap::new());
    };
    if rules.rules.is_empty() {
        return Ok(BTreeMap::new());
    }
    let item = status.aggregated_status.iter().find(|item| item.cluster_name == cluster);
    let told = item.and_then(|item| item.status.as_ref());
    let told =
        told.ok_or_else(|| format!("the application status has not yet been collected from Cluster({cluster})"))?;
    preserve(rules, told).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use api::policy::ClusterFailoverBehavior;
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

    #[track_caller]
    fn check(taints: &[Taint], tolerations: &[Toleration], expected: Verdict) {
        assert_eq!(judge(taints, tolerations, at(100)), expected, "{taints:?} {tolerations:?}");
    }

    #[test]
    fn the_first_toleration_to_run_out_decides() {
        let wait = |seconds: u64| Verdict::StayFor(Duration::from_secs(seconds));
        check(&[taint("a", Some(90))], &[], Verdict::Leave);
        check(&[taint("a", Some(90))], &[tolerate("b", None)], Verdict::Leave);
        check(&[taint("a", Some(90))], &[tolerate("a", None)], Verdict::Stay);
        check(&[taint("a", Some(90))], &[tolerate("a", Some(30))], wait(20));
        check(&[taint("a", Some(90))], &[tolerate("a", Some(10))], Verdict::Leave);
        check(&[taint("a", Some(90))], &[tolerate("a", Some(5))], Verdict::Leave);
        check(&[taint("a", Some(90))], &[tolerate("a", Some(0))], Verdict::Leave);
        check(&[taint("a", None)], &[tolerate("a", Some(30))], Verdict::Stay);
        let both = [taint("a", Some(90)), taint("b", Some(95))];
        check(&both, &[tolerate("a", None)], Verdict::Leave);
        check(&both, &[tolerate("a", None), tolerate("b", Some(30))], wait(25));
        check(&both, &[tolerate("a", Some(30)), tolerate("b", Some(300))], wait(20));
        check(&both, &[tolerate("", Some(30))], wait(20));
        check(&[taint("a", Some(90))], &[tolerate("a", None), tolerate("a", Some(0))], Verdict::Stay);
    }

    #[test]
    fn the_policy_says_how_to_leave_before_the_plane_does() {
        let cluster = |mode: &str| FailoverBehavior {
            cluster: Some(ClusterFailoverBehavior { purge_mode: mode.to_owned(), ..Default::default() }),
            application: None,
        };
        assert_eq!(purge_mode(None, PurgeMode::Gracefully), "Gracefully");
        assert_eq!(purge_mode(None, PurgeMode::Directly), "Directly");
        assert_eq!(purge_mode(Some(&FailoverBehavior::default()), PurgeMode::Directly), "Directly");
        assert_eq!(purge_mode(Some(&cluster("")), PurgeMode::Directly), "Gracefully");
        assert_eq!(purge_mode(Some(&cluster("Directly")), PurgeMode::Gracefully), "Directly");
    }

    fn failover(value: serde_json::Value) -> FailoverBehavior {
        serde_json::from_value(value).expect("a failover")
    }

    #[test]
    fn lost_clusters_are_tolerated_as_long_as_the_policy_or_the_plane_says() {
        let settings = Settings::default();
        let wait = |seconds: u64| Verdict::StayFor(Duration::from_secs(seconds));
        let check = |own: &[Toleration], failover: Option<&FailoverBehavior>, taint: &Taint, expected: Verdict| {
            let tolerated = tolerations(own, failover, &settings);
            assert_eq!(judge(std::slice::from_ref(taint), &tolerated, at(100)), expected, "{taint:?} {failover:?}");
        };
        let application = failover(json!({"application": {"decisionConditions": {"tolerationSeconds": 60}}}));
        let cluster = failover(json!({"cluster": {}}));
        for key in [TAINT_NOT_READY, TAINT_UNREACHABLE] {
            let lost = taint(key, Some(90));
            check(&[], None, &lost, wait(290));
            check(&[], Some(&application), &lost, wait(50));
            check(&[], Some(&cluster), &lost, wait(290));
            check(&[tolerate(key, Some(0))], Some(&application), &lost, Verdict::Leave);
            check(&[tolerate(key, None)], Some(&application), &lost, Verdict::Stay);
        }
        let nodes = |value: &str| Taint { value: value.to_owned(), ..taint(TAINT_NODES_UNSCHEDULABLE, Some(90)) };
        check(&[], None, &nodes("not-ready"), wait(290));
        check(&[], Some(&application), &nodes("not-ready"), wait(50));
        check(&[], None, &nodes("cordoned"), Verdict::Stay);
        check(&[], Some(&application), &nodes("cordoned"), wait(50));
        check(&[], Some(&cluster), &nodes("cordoned"), wait(290));
        check(&[], Some(&application), &taint("mine", Some(90)), Verdict::Leave);
    }

    #[test]
    fn a_lost_cluster_is_left_as_the_policy_wants_an_unwell_application_to_leave() {
        let preservation = json!({"rules": [{"aliasLabelName": "job", "jsonPath": "{.jobID}"}]});
        let application = |mode: &str| {
            failover(json!({"application": {"purgeMode": mode, "gracePeriodSeconds": 30,
                "statePreservation": preservation}}))
        };
        let status: BindingStatus =
            serde_json::from_value(json!({"aggregatedStatus": [{"clusterName": "m1", "status": {"jobID": "j"}}]}))
                .expect("a status");
        let leave = |failover: Option<FailoverBehavior>, key: &str| {
            let plain = plan_eviction(purge_mode(failover.as_ref(), PurgeMode::Gracefully));
            let spec = BindingSpec { failover, ..BindingSpec::default() };
            let features = Features::flotilla();
            let eviction =
                plan_eviction_of_loss(plain, &spec, &status, "m1", &[taint(key, None)], &features).expect("leaves");
            assert_eq!((eviction.reason.as_str(), eviction.producer.as_str()), (REASON, PRODUCER));
            assert!(eviction.message.contains(key));
            let state: Vec<String> = eviction.preserved_label_state.into_values().collect();
            (eviction.purge_mode, eviction.grace_period_seconds, eviction.suppress_deletion, state.join(","))
        };
        let plain = |mode: &str| (mode.to_owned(), None, None, String::new());
        assert_eq!(leave(None, TAINT_UNREACHABLE), plain("Gracefully"));
        for mode in ["Gracefully", "Graciously"] {
            let expected = (mode.to_owned(), Some(30), None, "j".to_owned());
            assert_eq!(leave(Some(application(mode)), TAINT_UNREACHABLE), expected);
        }
        for mode in ["Directly", "Immediately"] {
            let expected = (mode.to_owned(), None, None, "j".to_owned());
            assert_eq!(leave(Some(application(mode)), TAINT_NOT_READY), expected);
        }
        let kept = ("Never".to_owned(), None, Some(true), "j".to_owned());
        assert_eq!(leave(Some(application("Never")), TAINT_NOT_READY), kept);
        assert_eq!(leave(Some(application("Directly")), "mine"), plain("Gracefully"));
        let both = failover(json!({"application": {"purgeMode": "Never"}, "cluster": {"purgeMode": "Directly"}}));
        assert_eq!(leave(Some(both), TAINT_NOT_READY), plain("Directly"));
    }

    #[test]
    fn state_goes_along_where_the_policy_wants_it_and_the_member_has_told_it() {
        let failover = json!({"cluster": {"statePreservation": {"rules": [
            {"aliasLabelName": "job", "jsonPath": "{.jobID}"}]}}});
        let spec: BindingSpec = serde_json::from_value(json!({"failover": failover})).expect("a spec");
        let status = |items: serde_json::Value| -> BindingStatus {
            serde_json::from_value(json!({"aggregatedStatus": items})).expect("a status")
        };
        let told = status(json!([{"clusterName": "m1", "status": {"jobID": "j"}}, {"clusterName": "m2"}]));
        let state = state_of(&spec, &told, "m1").expect("state");
        assert_eq!(state.into_iter().collect::<Vec<_>>(), [("job".to_owned(), "j".to_owned())]);
        assert!(state_of(&spec, &told, "m2").is_err());
        assert!(state_of(&spec, &told, "m3").is_err());
        assert_eq!(state_of(&BindingSpec::default(), &told, "m3"), Ok(BTreeMap::new()));
    }
}
