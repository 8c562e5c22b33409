//! Brings the replicas that members' autoscalers chose back into the template of a divided Deployment.
//!
//! Writes `spec.replicas` of Deployments with the retain-replicas label. Off by default.

use std::sync::Arc;
use std::time::Duration;

use api::names::binding_name;
use api::work::{BindingSpec, BindingStatus, LABEL_RETAIN_REPLICAS};
use object::Object;
use object::builtin;
use reconcile::{Change, Controller, Mirror, MirrorSpec, ObjectKey, Outcome, ReconcileError, Source, commit_object};
use tokio_util::sync::CancellationToken;

use crate::plane::{FIELD_MANAGER, Plane};

const COMPONENT: &str = "deployment-replicas-syncer";
const WORKERS: usize = 2;
/// Interval for checking again while member status is incomplete.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

struct Replicas {
    plane: Arc<Plane>,
    deployments: Mirror,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    Nothing,
    /// The status of some members is still missing.
    LookAgain,
    Set(i64),
}

pub async fn run(plane: Arc<Plane>, cancel: CancellationToken) {
    let gvr = builtin::deployments();
    let labels = format!("{LABEL_RETAIN_REPLICAS}=true");
    // Only labelled ones are mirrored, so a label that is added shows as a new object.
    let deployments = plane.mirror(MirrorSpec::new(&gvr).labels(&labels));
    let sources = vec![Source::new(&deployments, deployments_with_new_replicas)];
    let context = Arc::new(Replicas { plane, deployments });
    let controller = Controller::new(COMPONENT).observed_by(&context.plane.metrics.controllers);
    let reconcile = move |key: ObjectKey| reconcile(Arc::clone(&context), key);
    controller.run(sources, WORKERS, cancel, reconcile).await;
}

fn deployments_with_new_replicas(change: &Change) -> Vec<ObjectKey> {
    let Some(now) = &change.now else { return Vec::new() };
    let replicas = |deployment: &Object| (spec_replicas(deployment), status_replicas(deployment));
    let is_same = change.before.as_ref().is_some_and(|before| replicas(before) == replicas(now));
    if is_same { Vec::new() } else { vec![change.key.clone()] }
}

async fn reconcile(context: Arc<Replicas>, key: ObjectKey) -> Result<Outcome, ReconcileError> {
    let Some(deployment) = context.deployments.get(&key) else { return Ok(Outcome::Done) };
    let binding_key = ObjectKey::new(&key.namespace, &binding_name("Deployment", &key.name));
    let Some(binding) = context.plane.bindings[0].get(&binding_key) else { return Ok(Outcome::Done) };
    let spec: BindingSpec = api::read(&binding)?;
    let status: BindingStatus = api::read_at(&binding, &["status"])?;
    match plan(&deployment, &spec, &status, binding.generation()) {
        Plan::Nothing => Ok(Outcome::Done),
        Plan::LookAgain => Ok(Outcome::After(LOOK_AGAIN)),
        Plan::Set(replicas) => {
            let mut desired = Object::clone(&deployment);
            desired.set(&["spec", "replicas"], replicas);
            let target = context.deployments.target(&key);
            commit_object(&context.plane.client, target, &deployment, &desired, FIELD_MANAGER).await?;
            Ok(Outcome::Done)
        }
    }
}

/// The template takes over what its members run once that is known of all of them: the number asked for was scheduled,
/// every cluster has reported, and the sum of the reports is what the template says.
fn plan(deployment: &Object, spec: &BindingSpec, status: &BindingStatus, generation: i64) -> Plan {
    let is_divided = spec.placement.as_ref().is_some_and(|placement| placement.is_divided());
    let running = status_replicas(deployment);
    if !is_divided || spec_replicas(deployment) == Some(running) {
        return Plan::Nothing;
    }
    let is_scheduled = spec_replicas(deployment) == Some(spec.replicas.into())
        && status.scheduler_observed_generation.unwrap_or_default() == generation;
    let reports = status.aggregated_status.iter().map(|item| item.status.as_ref()?.get("replicas")?.as_i64());
    let reports: Option<Vec<i64>> = reports.map(|report| report.filter(|replicas| *replicas > 0)).collect();
    match reports {
        Some(reports)
            if is_scheduled && reports.len() == spec.clusters.len() && reports.iter().sum::<i64>() == running =>
        {
            Plan::Set(running)
        }
        _ => Plan::LookAgain,
    }
}

fn spec_replicas(deployment: &Object) -> Option<i64> {
    deployment.i64_at(&["spec", "replicas"])
}

fn status_replicas(deployment: &Object) -> i64 {
    deployment.i64_at(&["status", "replicas"]).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use api::work::RESOURCE_BINDINGS;
    use cluster_client::ResourceRef;
    use cluster_client::testing::MemoryApi;
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{self, eventually};

    fn deployment(spec: i64, status: i64) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "default", "labels": {LABEL_RETAIN_REPLICAS: "true"}},
            "spec": {"replicas": spec}, "status": {"replicas": status}})
    }

    /// A binding of two clusters that reported these replicas.
    fn binding(replicas: i64, reports: &[i64]) -> Value {
        let names = ["m1", "m2"];
        let reports = reports
            .iter()
            .zip(names)
            .map(|(replicas, name)| json!({"clusterName": name, "status": {"replicas": replicas}}));
        json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {"name": "web-deployment", "namespace": "default", "generation": 1},
            "spec": {"replicas": replicas, "placement": {"replicaScheduling": {"replicaSchedulingType": "Divided"}},
                "clusters": names.map(|name| json!({"name": name}))},
            "status": {"schedulerObservedGeneration": 1, "aggregatedStatus": reports.collect::<Vec<_>>()}})
    }

    #[track_caller]
    fn check(deployment: Value, binding: Value, expected: Plan) {
        let (deployment, binding) = (testing::object(deployment), testing::object(binding));
        let spec = api::read(&binding).expect("a spec");
        let status = api::read_at(&binding, &["status"]).expect("a status");
        assert_eq!(plan(&deployment, &spec, &status, binding.generation()), expected);
    }

    #[test]
    fn replicas_are_copied_once_every_member_has_reported() {
        check(deployment(4, 7), binding(4, &[3, 4]), Plan::Set(7));
        check(deployment(7, 7), binding(4, &[3, 4]), Plan::Nothing);
        check(deployment(4, 7), binding(2, &[3, 4]), Plan::LookAgain);
        check(deployment(4, 7), binding(4, &[7]), Plan::LookAgain);
        check(deployment(4, 7), binding(4, &[7, 0]), Plan::LookAgain);
        check(deployment(4, 6), binding(4, &[3, 4]), Plan::LookAgain);
        let mut unscheduled = binding(4, &[3, 4]);
        unscheduled["metadata"]["generation"] = 2.into();
        check(deployment(4, 7), unscheduled, Plan::LookAgain);
        let mut duplicated = binding(4, &[3, 4]);
        duplicated["spec"]["placement"] = json!({});
        check(deployment(4, 7), duplicated, Plan::Nothing);
    }

    #[tokio::test(start_paused = true)]
    async fn the_template_follows_the_replicas_of_its_members() {
        let api = MemoryApi::default();
        let gvr = builtin::deployments();
        api.seed(&gvr, testing::object(deployment(4, 4)));
        api.seed(&RESOURCE_BINDINGS.gvr(), testing::object(binding(4, &[2, 2])));
        let cancel = CancellationToken::new();
        tokio::spawn(run(testing::plane(&api, &cancel, |_| {}), cancel.clone()));
        api.seed(&gvr, testing::object(deployment(4, 6)));
        tokio::time::sleep(Duration::from_secs(5)).await;
        api.seed(&RESOURCE_BINDINGS.gvr(), testing::object(binding(4, &[2, 4])));
        let target = ResourceRef::namespaced(&gvr, "default", "web");
        eventually("six", async || spec_replicas(&api.client().get(target.clone()).await.expect("there")) == Some(6))
            .await;
        cancel.cancel();
    }
}
