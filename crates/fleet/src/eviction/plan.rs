//! Plans the change of a binding that must leave a tainted cluster.

use std::collections::BTreeMap;

use api::features::Features;
use api::policy::FailoverBehavior;
use api::work::{BindingSpec, BindingStatus};
use object::taints::Taint;
use propagation::eviction::{Eviction, EvictionError, application_eviction};
use propagation::state::preserve;

use crate::settings::PurgeMode;
use crate::taint_policies::lost::is_of_loss;

const PRODUCER: &str = "TaintManager";
const REASON: &str = "TaintUntolerated";

/// Returns the purge mode: the policy's, or the default of the control plane.
pub fn purge_mode(failover: Option<&FailoverBehavior>, default: PurgeMode) -> String {
    match failover.and_then(|failover| failover.cluster.as_ref()) {
        Some(cluster) if cluster.purge_mode.is_empty() => PurgeMode::Gracefully.as_str().to_owned(),
        Some(cluster) => cluster.purge_mode.clone(),
        None => default.as_str().to_owned(),
    }
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
    let reported = |taint: &Taint| match taint.value.as_str() {
        "" => taint.key.clone(),
        value => format!("{}={value}", taint.key),
    };
    let message = format!("the cluster has {}", taints.iter().map(reported).collect::<Vec<_>>().join(", "));
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
    let reported = item.and_then(|item| item.status.as_ref());
    let reported =
        reported.ok_or_else(|| format!("the application status has not yet been collected from Cluster({cluster})"))?;
    preserve(rules, reported).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use api::cluster::{TAINT_NOT_READY, TAINT_UNREACHABLE};
    use api::policy::ClusterFailoverBehavior;
    use serde_json::json;

    use super::*;

    fn taint(key: &str) -> Taint {
        Taint { key: key.to_owned(), effect: "NoExecute".to_owned(), ..Taint::default() }
    }

    #[test]
    fn the_purge_mode_of_the_policy_precedes_the_default() {
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
    fn a_lost_cluster_uses_the_application_failover_of_the_policy() {
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
                plan_eviction_of_loss(plain, &spec, &status, "m1", &[taint(key)], &features).expect("leaves");
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
    fn state_is_preserved_if_the_policy_asks_and_the_member_reported_it() {
        let failover = json!({"cluster": {"statePreservation": {"rules": [
            {"aliasLabelName": "job", "jsonPath": "{.jobID}"}]}}});
        let spec: BindingSpec = serde_json::from_value(json!({"failover": failover})).expect("a spec");
        let status = |items: serde_json::Value| -> BindingStatus {
            serde_json::from_value(json!({"aggregatedStatus": items})).expect("a status")
        };
        let reported = status(json!([{"clusterName": "m1", "status": {"jobID": "j"}}, {"clusterName": "m2"}]));
        let state = state_of(&spec, &reported, "m1").expect("state");
        assert_eq!(state.into_iter().collect::<Vec<_>>(), [("job".to_owned(), "j".to_owned())]);
        assert!(state_of(&spec, &reported, "m2").is_err());
        assert!(state_of(&spec, &reported, "m3").is_err());
        assert_eq!(state_of(&BindingSpec::default(), &reported, "m3"), Ok(BTreeMap::new()));
    }
}
