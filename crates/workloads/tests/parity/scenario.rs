//! The kubectl commands run in a namespace, and the resulting objects.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster_client::{ClusterClient, ResourceRef, WriteOptions};
use object::builtin;
use object::{GroupVersionKind, GroupVersionResource, Object};
use serde_json::Value;

use crate::kube::KubeApiServer;
use crate::parity::normal::{normal_events, normal_objects};

const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Longer than any delay on a busy machine.
const STILL: Duration = Duration::from_secs(4);
const REST_MAX: Duration = Duration::from_secs(120);

struct Kubectl {
    server: Arc<KubeApiServer>,
    namespace: &'static str,
}

impl Kubectl {
    async fn run(&self, line: &str) -> String {
        let (server, namespace, line) = (Arc::clone(&self.server), self.namespace, line.to_owned());
        let run = move || {
            let mut arguments = vec!["--namespace", namespace];
            arguments.extend(line.split(' '));
            let output = server.kubectl(&arguments);
            let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(output.status.success(), "{namespace}: kubectl {line}: {out}{error}");
            out.into_owned()
        };
        tokio::task::spawn_blocking(run).await.expect("kubectl ends")
    }

    /// Changes an object and waits for the rollout.
    async fn roll(&self, line: &str, what: &str) {
        self.run(line).await;
        self.run(&format!("rollout status {what} --timeout=180s")).await;
    }
}

pub async fn play(
    server: &Arc<KubeApiServer>,
    client: &ClusterClient,
    namespace: &'static str,
) -> BTreeMap<String, String> {
    let kubectl = Kubectl { server: Arc::clone(server), namespace };
    prepare(client, namespace).await;
    kubectl.run(concat!("create -f ", env!("CARGO_MANIFEST_DIR"), "/tests/parity/workloads.yaml")).await;
    let mut seen = BTreeMap::new();
    play_deployment(&kubectl, &mut seen).await;
    play_stateful_set(&kubectl, &mut seen).await;
    play_daemon_set(&kubectl, &mut seen).await;
    play_jobs(&kubectl).await;
    seen.extend(look_until_still(client, namespace).await);
    seen
}

/// Returns the objects once none is in progress and nothing has changed for a while.
async fn look_until_still(client: &ClusterClient, namespace: &str) -> BTreeMap<String, String> {
    let deadline = Instant::now() + REST_MAX;
    let (mut before, mut still_since) = (BTreeMap::new(), Instant::now());
    loop {
        let (now, is_under_way) = read_state(client, namespace).await;
        if is_under_way || now != before {
            still_since = Instant::now();
        } else if still_since.elapsed() > STILL {
            return now;
        }
        assert!(Instant::now() < deadline, "{namespace} does not come to rest");
        before = now;
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Reports whether a controller has yet to act on it.
fn is_under_way(object: &Object) -> bool {
    let status = |field: &str| object.get(&["status", field]);
    let observed = status("observedGeneration").and_then(Value::as_i64);
    object.is_deleting()
        || observed.is_some_and(|observed| object.i64_at(&["metadata", "generation"]) != Some(observed))
        || status("terminatingReplicas").and_then(Value::as_i64).unwrap_or(0) > 0
        || status("terminating").and_then(Value::as_i64).unwrap_or(0) > 0
        || status("uncountedTerminatedPods").and_then(Value::as_object).is_some_and(|pods| !pods.is_empty())
        || object.kind() == "CronJob" && !object.items(&["status", "active"]).is_empty()
}

/// Returns the objects, and whether a controller has yet to act on some of them.
async fn read_state(client: &ClusterClient, namespace: &str) -> (BTreeMap<String, String>, bool) {
    let resources = [
        ("apps", "deployments"),
        ("apps", "replicasets"),
        ("apps", "statefulsets"),
        ("apps", "daemonsets"),
        ("apps", "controllerrevisions"),
        ("batch", "jobs"),
        ("batch", "cronjobs"),
        ("", "replicationcontrollers"),
        ("", "pods"),
        ("", "persistentvolumeclaims"),
    ];
    let mut objects = Vec::new();
    for (group, resource) in resources {
        let gvr = GroupVersionResource::new(group, "v1", resource);
        let list = client.list_all(ResourceRef::within(&gvr, namespace), Default::default()).await.expect("lists");
        assert!(!list.items.is_empty(), "no {resource}");
        objects.push((resource, list.items));
    }
    let is_under_way = objects.iter().flat_map(|(_, objects)| objects).any(|object| is_under_way(object));
    let mut seen = normal_objects(objects);
    let events = builtin::events();
    let events = client.list_all(ResourceRef::within(&events, namespace), Default::default()).await.expect("lists");
    seen.insert("events".to_owned(), normal_events(&events.items));
    (seen, is_under_way)
}

async fn prepare(client: &ClusterClient, namespace: &str) {
    let core = |resource: &str| GroupVersionResource::new("", "v1", resource);
    let object = Object::new(&GroupVersionKind::new("", "v1", "Namespace"), None, namespace);
    client.create(ResourceRef::all(&core("namespaces")), object, WriteOptions::default()).await.expect("created");
    let account = Object::new(&GroupVersionKind::new("", "v1", "ServiceAccount"), Some(namespace), "default");
    let target = ResourceRef::within(&core("serviceaccounts"), namespace);
    client.create(target, account, WriteOptions::default()).await.expect("created");
}

async fn play_deployment(kubectl: &Kubectl, seen: &mut BTreeMap<String, String>) {
    kubectl.run("rollout status deployment/web --timeout=180s").await;
    kubectl.roll("set image deployment/web main=two", "deployment/web").await;
    kubectl.roll("rollout undo deployment/web", "deployment/web").await;
    kubectl.run("rollout pause deployment/web").await;
    kubectl.run("set image deployment/web main=three").await;
    kubectl.run("wait --for=condition=Progressing=Unknown deployment/web --timeout=180s").await;
    kubectl.roll("rollout resume deployment/web", "deployment/web").await;
    kubectl.roll("scale deployment/web --replicas=5", "deployment/web").await;
    kubectl.run("scale deployment/web --replicas=2").await;
    kubectl.run("wait --for=jsonpath={.status.replicas}=2 deployment/web --timeout=180s").await;
    kubectl.run("wait --for=jsonpath={.status.terminatingReplicas}=0 deployment/web --timeout=180s").await;
    seen.insert("history of the deployment".to_owned(), kubectl.run("rollout history deployment/web").await);
    kubectl.run("rollout status deployment/again --timeout=180s").await;
    kubectl.roll("set image deployment/again main=two", "deployment/again").await;
}

async fn play_stateful_set(kubectl: &Kubectl, seen: &mut BTreeMap<String, String>) {
    kubectl.run("rollout status statefulset/db --timeout=180s").await;
    kubectl.roll("set image statefulset/db main=two", "statefulset/db").await;
    kubectl.roll("rollout undo statefulset/db", "statefulset/db").await;
    kubectl.roll("scale statefulset/db --replicas=3", "statefulset/db").await;
    kubectl.run("scale statefulset/db --replicas=1").await;
    kubectl.run("wait --for=jsonpath={.status.replicas}=1 statefulset/db --timeout=180s").await;
    kubectl.run("rollout status statefulset/parallel --timeout=180s").await;
    kubectl.roll("set image statefulset/parallel main=two", "statefulset/parallel").await;
    seen.insert("history of the set".to_owned(), kubectl.run("rollout history statefulset/db").await);
}

async fn play_daemon_set(kubectl: &Kubectl, seen: &mut BTreeMap<String, String>) {
    kubectl.run("rollout status daemonset/log --timeout=180s").await;
    kubectl.roll("set image daemonset/log main=two", "daemonset/log").await;
    kubectl.roll("rollout undo daemonset/log", "daemonset/log").await;
    kubectl.run("rollout status daemonset/surging --timeout=180s").await;
    kubectl.roll("rollout restart daemonset/surging", "daemonset/surging").await;
    kubectl.run("wait --for=jsonpath={.status.availableReplicas}=3 replicationcontroller/old --timeout=180s").await;
    kubectl.run("scale replicationcontroller/old --replicas=1").await;
    kubectl.run("wait --for=jsonpath={.status.replicas}=1 replicationcontroller/old --timeout=180s").await;
    seen.insert("history of the daemon".to_owned(), kubectl.run("rollout history daemonset/log").await);
}

async fn play_jobs(kubectl: &Kubectl) {
    kubectl.run("wait --for=condition=complete job/sum job/parts job/enough --timeout=180s").await;
    kubectl.run("wait --for=condition=failed job/broken job/refused job/late job/hopeless --timeout=180s").await;
    kubectl.run("wait --for=condition=suspended job/resting --timeout=180s").await;
    kubectl.run("patch job/resting -p {\"spec\":{\"suspend\":false}}").await;
    kubectl.run("wait --for=jsonpath={.status.ready}=1 job/resting --timeout=180s").await;
    // Far enough in the past that one Job is due at once, and no other for a while.
    let status = "{\"status\":{\"lastScheduleTime\":\"2026-01-01T00:00:00Z\"}}";
    kubectl.run(&format!("patch cronjob/tick --subresource=status --type=merge -p {status}")).await;
    kubectl.run("wait --for=jsonpath={.status.lastSuccessfulTime} cronjob/tick --timeout=180s").await;
}
