//! Members that come, change and go, in one control plane.

mod bench;

use std::collections::HashMap;
use std::sync::Arc;

use api::cluster::{CLUSTERS, ClusterSpec, FINALIZER};
use api::features::Features;
use api::work::WORKS;
use cluster_client::{ClusterClient, Patch, ResourceRef};
use member_sync::connect::{LinkError, remote_config};
use member_sync::gate::Gate;
use member_sync::{PushDeps, Settings, push};
use object::Object;
use parking_lot::Mutex;
use plane_state::SafeMode;
use reconcile::Mirrors;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::bench::{Door, Hub, condition, deployment, eventually, gvr, interpreter, message, object, work};

const APPLIED: &str = "True/AppliedSuccessful";

/// Members by endpoint, and the tokens they were reached with.
#[derive(Clone, Default)]
struct Network {
    doors: Arc<Mutex<HashMap<String, Door>>>,
    tokens: Arc<Mutex<Vec<String>>>,
}

impl Network {
    fn connect(
        &self,
        name: &str,
        spec: &ClusterSpec,
        secret: Option<&Object>,
        settings: &Settings,
    ) -> Result<ClusterClient, LinkError> {
        let config = remote_config(name, spec, secret, settings)?;
        self.tokens.lock().push(format!("{name}:{}", config.credentials.token.unwrap_or_default()));
        let doors = self.doors.lock();
        Ok(doors.get(&spec.api_endpoint).ok_or_else(|| LinkError::NoEndpoint(name.to_owned()))?.client())
    }
}

struct Running {
    hub: Hub,
    network: Network,
    cancel: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

fn start() -> Running {
    start_with(Settings::default())
}

fn start_with(settings: Settings) -> Running {
    let (hub, network, cancel) = (Hub::start(), Network::default(), CancellationToken::new());
    let parts = PushDeps {
        mirrors: Mirrors::new(hub.api.client(), cancel.clone()),
        interpreter: interpreter(),
        member_capacity: hub.member_capacity.clone(),
        features: Arc::new(Features::default()),
        clock: Arc::clone(&hub.clock),
        metrics: Default::default(),
        settings,
    };
    let reached = network.clone();
    let connect: Arc<push::Connect> =
        Arc::new(move |name, spec, secret, settings| reached.connect(name, spec, secret, settings));
    let task = tokio::spawn(push::run_with(parts, connect, cancel.clone()));
    Running { hub, network, cancel, task }
}

impl Running {
    fn member(&self, name: &str) -> Door {
        let door = Door::open();
        self.network.doors.lock().insert(format!("https://{name}"), door.clone());
        door
    }

    fn secret(&self, name: &str, token: &str) {
        self.hub.api.seed(
            &gvr("", "secrets"),
            object(json!({"apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": name, "namespace": "karmada-cluster"}, "data": {"token": token, "caBundle": ""}})),
        );
    }

    fn join(&self, name: &str, mode: &str) {
        self.hub.api.seed(
            &CLUSTERS.gvr(),
            object(json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
                "metadata": {"name": name, "finalizers": [FINALIZER]},
                "spec": {"syncMode": mode, "apiEndpoint": format!("https://{name}"),
                    "secretRef": {"namespace": "karmada-cluster", "name": name}}})),
        );
    }

    async fn change_cluster(&self, name: &str, patch: Value) {
        let target = ResourceRef::cluster(&CLUSTERS.gvr(), name);
        self.hub.api.client().patch(target, Patch::merge(patch), Default::default()).await.expect("patched");
    }

    async fn end(self) {
        self.cancel.cancel();
        self.task.await.expect("ends in good order");
    }
}

#[tokio::test(start_paused = true)]
async fn members_are_synced_when_they_join_and_pull_members_are_skipped() {
    let running = start();
    let (push, pull) = (running.member("push"), running.member("pull"));
    for (name, mode) in [("push", "Push"), ("pull", "Pull")] {
        running.secret(name, "dG9r");
        running.join(name, mode);
    }
    let sent = running.hub.work("push", deployment("web", 1), json!({}));
    running.hub.work("pull", deployment("web", 1), json!({}));
    eventually("applied", APPLIED.to_owned(), || running.hub.applied("push", &sent)).await;
    assert_eq!(running.hub.readiness("pull").await, "");
    assert_eq!((push.writes().len(), pull.writes().len()), (1, 0));
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn missing_credentials_are_reported_and_new_or_changed_ones_are_used() {
    let running = start();
    let member = running.member("m1");
    running.join("m1", "Push");
    let sent = running.hub.work("m1", deployment("web", 1), json!({}));
    eventually("not connected", "False/StatusCollectionFailed".to_owned(), || running.hub.readiness("m1")).await;
    let cluster = running.hub.cluster("m1").await;
    assert_eq!(bench::message(&cluster, "Ready"), "failed to create a ClusterClient: secrets \"m1\" not found");
    running.secret("m1", "b25l");
    eventually("applied", APPLIED.to_owned(), || running.hub.applied("m1", &sent)).await;
    running.secret("m1", "dHdv");
    eventually("reached again", Some("m1:two".to_owned()), || async { running.network.tokens.lock().last().cloned() })
        .await;
    let next = running.hub.work("m1", deployment("next", 1), json!({}));
    eventually("applied", APPLIED.to_owned(), || running.hub.applied("m1", &next)).await;
    assert_eq!(member.writes().len(), 2, "the first was not sent again: {:?}", member.writes());
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_changed_endpoint_is_followed_and_a_deleted_cluster_is_stopped() {
    let running = start();
    let (old, new) = (running.member("old"), running.member("new"));
    running.secret("old", "dG9r");
    running.join("old", "Push");
    let sent = running.hub.work("old", deployment("web", 1), json!({}));
    eventually("applied", APPLIED.to_owned(), || running.hub.applied("old", &sent)).await;
    running.change_cluster("old", json!({"spec": {"apiEndpoint": "https://new"}})).await;
    eventually("in the new place", true, || async { new.deployment("web").await.is_some() }).await;
    assert!(old.deployment("web").await.is_some());

    running.change_cluster("old", json!({"metadata": {"finalizers": null}})).await;
    let target = ResourceRef::cluster(&CLUSTERS.gvr(), "old");
    running.hub.api.client().delete(target, Default::default()).await.expect("deleted");
    eventually("forgotten", true, || async { running.hub.member_capacity.get("old").is_none() }).await;
    // No member is left to finalize the work; it must not stay forever.
    running.hub.delete_work("old", &sent).await;
    eventually("released", "gone".to_owned(), || running.hub.applied("old", &sent)).await;
    assert!(new.deployment("web").await.is_some());
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn two_hundred_members_get_their_own_works() {
    let running = start();
    let mut members = Vec::new();
    for index in 0..200 {
        let name = format!("m{index}");
        members.push((name.clone(), running.member(&name)));
        running.secret(&name, "dG9r");
        running.join(&name, "Push");
    }
    // One of them never answers.
    members[7].1.shut();
    let works: Vec<(String, String)> = members
        .iter()
        .map(|(name, _)| (name.clone(), running.hub.work(name, deployment("web", 1), json!({}))))
        .collect();
    for (cluster, work) in works.iter().filter(|(cluster, _)| cluster != "m7") {
        eventually("applied", APPLIED.to_owned(), || running.hub.applied(cluster, work)).await;
    }
    assert!(members.iter().filter(|(name, _)| name != "m7").all(|(_, door)| door.writes().len() == 1));
    members[7].1.reopen();
    eventually("applied at last", APPLIED.to_owned(), || running.hub.applied("m7", &works[7].1)).await;
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn in_safe_mode_only_new_objects_are_created_and_other_changes_follow_later() {
    let mode = SafeMode::unknown();
    mode.set(true);
    let running = start_with(Settings { gate: Gate::shared(mode.clone()), ..Settings::default() });
    let door = running.member("m1");
    running.secret("m1", "dG9r");
    running.join("m1", "Push");
    let hub = &running.hub;
    let new = hub.work("m1", deployment("new", 2), json!({}));
    eventually("applied", "True/AppliedSuccessful".to_owned(), || hub.applied("m1", &new)).await;

    // As a backup has it: it was there, and it is not any more.
    let mut moved = work("m1", deployment("moved", 1), json!({}));
    let applied = json!({"type": "Applied", "status": "True", "reason": "AppliedSuccessful", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    moved.set(&["status"], json!({"conditions": [applied]}));
    let moved_name = moved.name().to_owned();
    hub.api.seed(&WORKS.gvr(), moved);
    let dispatching = |name: String| async move {
        let work = hub.get_work("m1", &name).await;
        (condition(&work, "Dispatching"), message(&work, "Dispatching"))
    };
    let held = |what: &str| ("False/SafeMode".to_owned(), format!("held back by safe mode: it would {what}"));
    eventually("not brought back", held("bring back Deployment default/moved"), || dispatching(moved_name.clone()))
        .await;
    let next = work("m1", deployment("new", 1), json!({}));
    hub.change_work("m1", &new, json!({"spec": next.get(&["spec"])})).await;
    eventually("not changed", held("change Deployment default/new"), || dispatching(new.clone())).await;
    hub.delete_work("m1", &new).await;
    eventually("not deleted", held("delete Deployment default/new"), || dispatching(new.clone())).await;
    assert_eq!(door.writes(), ["create deployments default/"]);

    mode.set(false);
    eventually("deleted", "gone".to_owned(), || hub.applied("m1", &new)).await;
    eventually("brought back", true, || async { door.deployment("moved").await.is_some() }).await;
    assert!(door.deployment("new").await.is_none());
    eventually("reported", "True/Dispatching".to_owned(), || async { dispatching(moved_name.clone()).await.0 }).await;
    running.end().await;
}
