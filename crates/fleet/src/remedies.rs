//! Says in the status of a cluster which remedies its conditions call for.
//!
//! Writes `status.remedyActions` of Clusters. Other components act on them.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::cluster::ClusterStatus;
use api::core::{Condition, find_condition};
use api::remedy::{DecisionMatch, REMEDIES, RemedySpec};
use object::Object;
use reconcile::{Change, Controller, Index, MirrorSpec, ObjectKey, Outcome, ReconcileError, Source, commit_status};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::plane::{FIELD_MANAGER, Plane};

const COMPONENT: &str = "remedy-controller";
const WORKERS: usize = 2;
/// Stands for all clusters in the index of remedies.
const EVERY_CLUSTER: &str = "*";

struct Remedies {
    plane: Arc<Plane>,
    /// By the clusters they name.
    remedies: Index<String>,
}

pub async fn run(plane: Arc<Plane>, cancel: CancellationToken) {
    let remedies = plane.mirror(MirrorSpec::new(&REMEDIES.gvr())).index(clusters_of);
    let members = Arc::clone(&plane);
    let sources = vec![
        Source::new(&plane.clusters, clusters_in_new_condition),
        Source::new(remedies.mirror(), move |change| clusters_of_changed_remedy(&members, change)),
    ];
    let context = Arc::new(Remedies { plane, remedies });
    let controller = Controller::new(COMPONENT).observed_by(&context.plane.metrics.controllers);
    let reconcile = move |key: ObjectKey| reconcile(Arc::clone(&context), key);
    controller.run(sources, WORKERS, cancel, reconcile).await;
}

fn clusters_in_new_condition(change: &Change) -> Vec<ObjectKey> {
    let (Some(before), Some(now)) = (&change.before, &change.now) else {
        // Objects of the first list may have changed during downtime.
        return if change.is_initial { vec![change.key.clone()] } else { Vec::new() };
    };
    let is_same = |field: &str| before.get(&["status", field]) == now.get(&["status", field]);
    if is_same("conditions") && is_same("remedyActions") { Vec::new() } else { vec![change.key.clone()] }
}

fn clusters_of_changed_remedy(plane: &Plane, change: &Change) -> Vec<ObjectKey> {
    let states = [&change.before, &change.now].into_iter().flatten();
    let named: BTreeSet<String> = states.flat_map(|remedy| clusters_of(remedy)).collect();
    let names = if named.contains(EVERY_CLUSTER) { plane.cluster_names() } else { named.into_iter().collect() };
    names.iter().map(|name| ObjectKey::new("", name)).collect()
}

async fn reconcile(context: Arc<Remedies>, key: ObjectKey) -> Result<Outcome, ReconcileError> {
    let Some(cluster) = context.plane.clusters.get(&key) else { return Ok(Outcome::Done) };
    if cluster.is_deleting() {
        return Ok(Outcome::Done);
    }
    let mut remedies = context.remedies.list(EVERY_CLUSTER);
    remedies.extend(context.remedies.list(&key.name));
    let remedies: Vec<RemedySpec> = remedies.iter().map(|remedy| api::read(remedy)).collect::<Result<_, _>>()?;
    let status: ClusterStatus = api::read_at(&cluster, &["status"])?;
    let actions = plan_actions(&remedies, &status.conditions);
    if actions.iter().eq(status.remedy_actions.iter()) {
        return Ok(Outcome::Done);
    }
    let mut desired = Object::clone(&cluster);
    desired.set(&["status", "remedyActions"], actions.into_iter().map(Value::from).collect::<Vec<_>>());
    let target = context.plane.clusters.target(&key);
    commit_status(&context.plane.client, target, &cluster, &desired, FIELD_MANAGER).await?;
    Ok(Outcome::Done)
}

fn clusters_of(remedy: &Object) -> Vec<String> {
    match remedy.get(&["spec", "clusterAffinity"]) {
        None | Some(Value::Null) => vec![EVERY_CLUSTER.to_owned()],
        Some(affinity) => {
            let names = affinity["clusterNames"].as_array().map(Vec::as_slice).unwrap_or_default();
            names.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
    }
}

/// The actions of all remedies that the conditions call for, each once, in order.
fn plan_actions(remedies: &[RemedySpec], conditions: &[Condition]) -> BTreeSet<String> {
    let called_for = remedies.iter().filter(|remedy| is_called_for(&remedy.decision_matches, conditions));
    called_for.flat_map(|remedy| remedy.actions.iter().cloned()).collect()
}

/// One match is enough; no decision at all is always taken.
fn is_called_for(decisions: &[DecisionMatch], conditions: &[Condition]) -> bool {
    let is_met = |decision: &DecisionMatch| {
        let Some(wanted) = &decision.cluster_condition_match else { return false };
        let Some(condition) = find_condition(conditions, &wanted.condition_type) else { return false };
        match wanted.operator.as_str() {
            "Equal" => condition.status == wanted.condition_status,
            "NotEqual" => condition.status != wanted.condition_status,
            _ => false,
        }
    };
    decisions.is_empty() || decisions.iter().any(is_met)
}

#[cfg(test)]
mod tests {
    use api::cluster::CLUSTERS;
    use cluster_client::testing::MemoryApi;
    use cluster_client::{DeleteOptions, ResourceRef};
    use serde_json::json;

    use super::*;
    use crate::testing::{self, eventually};

    fn remedy(spec: Value) -> RemedySpec {
        serde_json::from_value(spec).expect("a remedy")
    }

    fn decision(operator: &str, status: &str) -> Value {
        json!({"clusterConditionMatch": {"conditionType": "Ready", "operator": operator, "conditionStatus": status}})
    }

    #[track_caller]
    fn check(decisions: Value, ready: Option<&str>, expected: bool) {
        let remedy = remedy(json!({"decisionMatches": decisions, "actions": ["TrafficControl"]}));
        let ready = ready.map(|status| Condition {
            kind: "Ready".to_owned(),
            status: status.to_owned(),
            ..Condition::default()
        });
        let conditions: Vec<Condition> = ready.into_iter().collect();
        assert_eq!(!plan_actions(&[remedy], &conditions).is_empty(), expected, "{decisions}");
    }

    #[test]
    fn one_matching_decision_is_enough() {
        check(json!([]), None, true);
        check(json!([]), Some("True"), true);
        check(json!([decision("Equal", "False")]), Some("False"), true);
        check(json!([decision("Equal", "False")]), Some("True"), false);
        check(json!([decision("NotEqual", "True")]), Some("Unknown"), true);
        check(json!([decision("NotEqual", "True")]), None, false);
        check(json!([decision("Equal", "Unknown"), decision("Equal", "False")]), Some("False"), true);
        check(json!([{}]), Some("True"), false);
    }

    #[test]
    fn actions_are_named_once_in_order() {
        let remedies = [remedy(json!({"actions": ["b", "a"]})), remedy(json!({"actions": ["a", "c"]}))];
        assert_eq!(Vec::from_iter(plan_actions(&remedies, &[])), ["a", "b", "c"]);
    }

    #[tokio::test(start_paused = true)]
    async fn actions_follow_the_remedy() {
        let api = MemoryApi::default();
        api.seed(&CLUSTERS.gvr(), testing::cluster("m1", "False"));
        api.seed(&CLUSTERS.gvr(), testing::cluster("m2", "False"));
        let cancel = CancellationToken::new();
        tokio::spawn(run(testing::plane(&api, &cancel, |_| {}), cancel.clone()));
        let remedy = json!({"apiVersion": "remedy.karmada.io/v1alpha1", "kind": "Remedy", "metadata": {"name": "r"},
            "spec": {"clusterAffinity": {"clusterNames": ["m1"]}, "decisionMatches": [decision("Equal", "False")],
            "actions": ["TrafficControl"]}});
        api.seed(&REMEDIES.gvr(), testing::object(remedy));
        let actions = async |cluster: &str| {
            let cluster = api.client().get(ResourceRef::cluster(&CLUSTERS.gvr(), cluster)).await.expect("there");
            assert_eq!(cluster.items(&["status", "conditions"]).len(), 1);
            cluster.items(&["status", "remedyActions"]).len()
        };
        eventually("the action", async || actions("m1").await == 1).await;
        assert_eq!(actions("m2").await, 0);
        let target = ResourceRef::cluster(&REMEDIES.gvr(), "r");
        api.client().delete(target, DeleteOptions::default()).await.expect("deleted");
        eventually("no action", async || actions("m1").await == 0).await;
        cancel.cancel();
    }
}
