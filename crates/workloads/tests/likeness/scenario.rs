//! What is done to a namespace, with kubectl, and what is seen of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster_client::{ClusterClient, ResourceRef, WriteOptions};
use object::{GroupVersionKind, GroupVersionResource, Object};
use serde_json::{Value, json};

use crate::kube::KubeApiServer;
use crate::likeness::normal::{normal_events, normal_objects};

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

    /// Changes something and waits until it is rolled out.
    async fn roll(&self, line: &str, what: &str) {
        self.run(line).await;
        self.run(&format!("rollout status {what} --timeout=60s")).await;
    }
}

pub async fn play(
    server: &Arc<KubeApiServer>,
    client: &ClusterClient,
    namespace: &'static str,
) -> BTreeMap<String, String> {
    let kubectl = Kubectl { server: Arc::clone(server), namespace };
    prepare(client, namespace).await;
    let mut seen = BTreeMap::new();
    play_deployment(&kubectl, &mut seen).await;
    play_stateful_set(&kubectl, &mut seen).await;
    play_daemon_set(&kubectl, &mut seen).await;
    play_jobs(&kubectl).await;
    let resources = [
        ("apps", "deployments"),
        ("apps", "replicasets"),
        ("apps", "statefulsets"),
        ("apps", "daemonsets"),
        ("apps", "controllerrevisions"),
        ("batch", "jobs"),
        ("", "pods"),
        ("", "persistentvolumeclaims"),
    ];
    let mut objects = Vec::new();
    for (group, resource) in resources {
        let gvr = GroupVersionResource::new(group, "v1", resource);
        let list = client.list_all(ResourceRef::within(&gvr, namespace), Default::default()).await.expect("lists");
        objects.push((resource, list.items));
    }
    seen.extend(normal_objects(objects));
    let events = GroupVersionResource::new("", "v1", "events");
    let events = client.list_all(ResourceRef::within(&events, namespace), Default::default()).await.expect("lists");
    seen.insert("events".to_owned(), normal_events(&events.items));
    seen
}

async fn prepare(client: &ClusterClient, namespace: &str) {
    let core = |resource: &str| GroupVersionResource::new("", "v1", resource);
    let object = Object::new(&GroupVersionKind::new("", "v1", "Namespace"), None, namespace);
    client.create(ResourceRef::all(&core("namespaces")), object, WriteOptions::default()).await.expect("created");
    let account = Object::new(&GroupVersionKind::new("", "v1", "ServiceAccount"), Some(namespace), "default");
    let target = ResourceRef::within(&core("serviceaccounts"), namespace);
    client.create(target, account, WriteOptions::default()).await.expect("created");
    for (group, kind, resource, name, spec) in workloads() {
        let gvr = GroupVersionResource::new(group, "v1", resource);
        let mut object = Object::new(&GroupVersionKind::new(group, "v1", kind), Some(namespace), name);
        object.set(&["spec"], spec);
        client.create(ResourceRef::within(&gvr, namespace), object, WriteOptions::default()).await.expect("created");
    }
}

fn template(app: &str, image: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "main", "image": image}]}})
}

fn workloads() -> Vec<(&'static str, &'static str, &'static str, &'static str, Value)> {
    let selector = |app: &str| json!({"matchLabels": {"app": app}});
    let job = |image: &str, extra: Value| {
        let mut spec = json!({"template": {"spec": {"restartPolicy": "Never",
            "containers": [{"name": "main", "image": image}]}}});
        for (field, value) in extra.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        spec
    };
    let claims = json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Mi"}}}}]);
    vec![
        (
            "apps",
            "Deployment",
            "deployments",
            "web",
            json!({"replicas": 3, "selector": selector("web"), "template": template("web", "one")}),
        ),
        (
            "apps",
            "Deployment",
            "deployments",
            "anew",
            json!({"replicas": 2, "selector": selector("anew"),
            "template": template("anew", "one"), "strategy": {"type": "Recreate"}}),
        ),
        (
            "apps",
            "StatefulSet",
            "statefulsets",
            "db",
            json!({"replicas": 2, "serviceName": "db",
            "selector": selector("db"), "template": template("db", "one"), "volumeClaimTemplates": claims,
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"}}),
        ),
        (
            "apps",
            "DaemonSet",
            "daemonsets",
            "log",
            json!({"selector": selector("log"), "template": template("log", "one")}),
        ),
        ("batch", "Job", "jobs", "sum", job("succeeds", json!({"completions": 3, "parallelism": 2}))),
        (
            "batch",
            "Job",
            "jobs",
            "parts",
            job("succeeds", json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed"})),
        ),
        ("batch", "Job", "jobs", "broken", job("fails", json!({"backoffLimit": 0}))),
        (
            "batch",
            "Job",
            "jobs",
            "refused",
            job(
                "fails",
                json!({"podFailurePolicy": {"rules": [
            {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}]}}),
            ),
        ),
        ("batch", "Job", "jobs", "late", job("runs", json!({"activeDeadlineSeconds": 1}))),
        ("batch", "Job", "jobs", "resting", job("runs", json!({"suspend": true}))),
    ]
}

async fn play_deployment(kubectl: &Kubectl, seen: &mut BTreeMap<String, String>) {
    kubectl.run("rollout status deployment/web --timeout=60s").await;
    kubectl.roll("set image deployment/web main=two", "deployment/web").await;
    kubectl.roll("rollout undo deployment/web", "deployment/web").await;
    kubectl.run("rollout pause deployment/web").await;
    kubectl.run("set image deployment/web main=three").await;
    kubectl.run("wait --for=condition=Progressing=Unknown deployment/web --timeout=60s").await;
    kubectl.roll("rollout resume deployment/web", "deployment/web").await;
    kubectl.roll("scale deployment/web --replicas=5", "deployment/web").await;
    kubectl.run("scale deployment/web --replicas=2").await;
    kubectl.run("wait --for=jsonpath={.status.replicas}=2 deployment/web --timeout=60s").await;
    kubectl.run("wait --for=jsonpath={.status.terminatingReplicas}=0 deployment/web --timeout=60s").await;
    seen.insert("history of the deployment".to_owned(), kubectl.run("rollout history deployment/web").await);
    kubectl.run("rollout status deployment/anew --timeout=60s").await;
    kubectl.roll("set image deployment/anew main=two", "deployment/anew").await;
}

async fn play_stateful_set(kubectl: &Kubectl, seen: &mut BTreeMap<String, String>) {
    kubectl.run("rollout status statefulset/db --timeout=60s").await;
    kubectl.roll("set image statefulset/db main=two", "statefulset/db").await;
    kubectl.roll("rollout undo statefulset/db", "statefulset/db").await;
    kubectl.roll("scale statefulset/db --replicas=3", "statefulset/db").await;
    kubectl.run("scale statefulset/db --replicas=1").await;
    kubectl.run("wait --for=jsonpath={.status.replicas}=1 statefulset/db --timeout=60s").await;
    seen.insert("history of the set".to_owned(), kubectl.run("rollout history statefulset/db").await);
}

async fn play_daemon_set(kubectl: &Kubectl, seen: &mut BTreeMap<String, String>) {
    kubectl.run("rollout status daemonset/log --timeout=60s").await;
    kubectl.roll("set image daemonset/log main=two", "daemonset/log").await;
    kubectl.roll("rollout undo daemonset/log", "daemonset/log").await;
    seen.insert("history of the daemon".to_owned(), kubectl.run("rollout history daemonset/log").await);
}

async fn play_jobs(kubectl: &Kubectl) {
    kubectl.run("wait --for=condition=complete job/sum job/parts --timeout=60s").await;
    kubectl.run("wait --for=condition=failed job/broken job/refused job/late --timeout=60s").await;
    kubectl.run("wait --for=condition=suspended job/resting --timeout=60s").await;
    kubectl.run("patch job/resting -p {\"spec\":{\"suspend\":false}}").await;
    kubectl.run("wait --for=jsonpath={.status.ready}=1 job/resting --timeout=60s").await;
}
