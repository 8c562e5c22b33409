//! A real kube-apiserver as the member: what it defaults, denies and calls immutable is not ours to imagine.

mod bench;
#[path = "../../cluster-client/tests/kube/mod.rs"]
mod kube;

use std::sync::Arc;
use std::time::Duration;

use api::cluster::{CLUSTERS, FINALIZER};
use api::features::Features;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::{
    ApiResources, ClusterClient, DiscoveryTags, Endpoint, Kubeconfig, Patch, ResourceRef, WriteOptions,
};
use member_sync::{PushDeps, Settings, push};
use object::request::Subresource;
use object::{GroupVersionResource, Object};
use reconcile::{Mirrors, SystemClock};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::bench::{Hub, condition, deployments, eventually, gvr, interpreter, message, object, work};
use crate::kube::KubeApiServer;

const APPLIED: &str = "True/AppliedSuccessful";

struct Plane {
    hub: Hub,
    member: ClusterClient,
    cancel: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Plane {
    fn start(server: &KubeApiServer) -> Self {
        let hub = Hub { clock: Arc::new(SystemClock), ..Hub::start() };
        let kubeconfig = Kubeconfig::load(std::slice::from_ref(&server.kubeconfig)).expect("a kubeconfig");
        let member = ClusterClient::connect(Endpoint::Remote(kubeconfig.remote(None).expect("a remote")));
        let ca = std::fs::read(&server.ca_file).expect("a certificate");
        hub.api.seed(
            &gvr("", "secrets"),
            object(
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "m1", "namespace": "karmada-cluster"},
                "data": {"token": STANDARD.encode(server.token), "caBundle": STANDARD.encode(ca)}}),
            ),
        );
        hub.api.seed(
            &CLUSTERS.gvr(),
            object(json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
                "metadata": {"name": "m1", "finalizers": [FINALIZER]},
                "spec": {"syncMode": "Push", "apiEndpoint": server.url,
                    "secretRef": {"namespace": "karmada-cluster", "name": "m1"}}})),
        );
        let (cancel, task) = sync(&hub);
        Self { hub, member: member.expect("connects"), cancel, task }
    }

    async fn restart(&mut self) {
        self.cancel.cancel();
        (&mut self.task).await.expect("ends in good order");
        (self.cancel, self.task) = sync(&self.hub);
    }

    async fn end(self) {
        self.cancel.cancel();
        self.task.await.expect("ends in good order");
    }

    async fn applied(&self, name: &str) -> String {
        self.hub.applied("m1", name).await
    }

    async fn until_applied(&self, name: &str) {
        eventually(name, APPLIED.to_owned(), || self.applied(name)).await;
    }

    async fn replace(&self, name: &str, manifest: Value) {
        let next = work("m1", manifest, json!({}));
        self.hub.change_work("m1", name, json!({"spec": next.get(&["spec"])})).await;
    }

    async fn deployment(&self, name: &str) -> Option<Arc<Object>> {
        self.member.find(ResourceRef::namespaced(&deployments(), "shop", name)).await.expect("the member answers")
    }

    async fn replicas(&self, name: &str) -> Option<i64> {
        self.deployment(name).await?.i64_at(&["spec", "replicas"])
    }

    async fn version_of(&self, group: &str, resource: &str, name: &str) -> String {
        let target = ResourceRef::namespaced(&gvr(group, resource), "shop", name);
        self.member.get(target).await.expect("it is there").resource_version().to_owned()
    }
}

fn sync(hub: &Hub) -> (CancellationToken, tokio::task::JoinHandle<()>) {
    let cancel = CancellationToken::new();
    let settings = Settings {
        heartbeat: Duration::from_millis(300),
        success_threshold: Duration::from_secs(1),
        failure_threshold: Duration::from_secs(1),
        ..Settings::default()
    };
    let parts = PushDeps {
        mirrors: Mirrors::new(hub.api.client(), cancel.clone()),
        interpreter: interpreter(),
        member_capacity: hub.member_capacity.clone(),
        features: Arc::new(Features::default()),
        clock: Arc::clone(&hub.clock),
        metrics: Default::default(),
        settings,
    };
    (cancel.clone(), tokio::spawn(push::run(parts, cancel)))
}

fn deployment(name: &str, replicas: i64) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "shop"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "web", "image": "nginx"}]}}}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_member_follows_its_works() {
    let Some(mut server) = KubeApiServer::start() else { return };
    let mut plane = Plane::start(&server);
    eventually("ready", "True/ClusterReady".to_owned(), || plane.hub.readiness("m1")).await;
    let cluster = plane.hub.cluster("m1").await;
    assert_eq!(condition(&cluster, "CompleteAPIEnablements"), "True/Complete");
    assert_eq!(cluster.str_at(&["status", "kubernetesVersion"]), "v1.36.4");
    assert!(cluster.items(&["status", "apiEnablements"]).len() > 20);

    // The workload comes before its namespace, as it may.
    let web = plane.hub.work("m1", deployment("web", 2), json!({}));
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "config", "namespace": "shop"},
        "data": {"a": "b"}});
    let config = plane.hub.work("m1", config, json!({}));
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    let namespace = plane.hub.work("m1", namespace, json!({}));
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    let service = plane.hub.work("m1", service, json!({}));
    for name in [&namespace, &web, &config, &service] {
        plane.until_applied(name).await;
    }
    drift_is_reverted(&plane, &web).await;
    what_is_right_is_not_written(&mut plane).await;
    admission_is_obeyed(&plane).await;
    asking_again_costs_nothing(&plane).await;
    denials_are_reported(&plane, &web).await;
    a_service_that_holds_its_node_port_is_taken_over(&plane).await;
    deleted_works_remove_their_objects(&plane, &config, &service).await;
    an_absence_is_survived(&plane, &mut server, &web).await;
    plane.end().await;
}

async fn drift_is_reverted(plane: &Plane, web: &str) {
    let target = ResourceRef::namespaced(&deployments(), "shop", "web");
    let patch = Patch::merge(json!({"metadata": {"labels": {"mine": "1"}}, "spec": {"replicas": 7}}));
    plane.member.patch(target.clone(), patch, WriteOptions::default()).await.expect("patched");
    eventually("reverted", Some(2), || plane.replicas("web")).await;
    let reverted = plane.deployment("web").await.expect("there");
    assert_eq!(reverted.label("mine"), Some("1"));
    let status = json!({"status": {"observedGeneration": reverted.generation(), "replicas": 2, "readyReplicas": 2, "updatedReplicas": 2,
        "availableReplicas": 2}});
    plane
        .member
        .patch(target.clone().subresource(Subresource::Status), Patch::merge(status), Default::default())
        .await
        .expect("patched");
    eventually("reflected", (json!(2), json!("Healthy")), || async {
        let status = plane.hub.get_work("m1", web).await.items(&["status", "manifestStatuses"])[0].clone();
        (status["status"]["readyReplicas"].clone(), status["health"].clone())
    })
    .await;
    plane.member.delete(target, Default::default()).await.expect("deleted");
    eventually("made again", "True/ReCreateSuccessful".to_owned(), || plane.applied(web)).await;
    eventually("made again", Some(2), || plane.replicas("web")).await;
}

/// The server rejects its creation as invalid and does not say that it exists.
async fn a_service_that_holds_its_node_port_is_taken_over(plane: &Plane) {
    let service = |annotations: Value| {
        json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "port", "namespace": "shop", "annotations": annotations},
            "spec": {"type": "NodePort", "selector": {"app": "web"}, "ports": [{"port": 80, "nodePort": 30080}]}})
    };
    let services = ResourceRef::within(&gvr("", "services"), "shop");
    plane.member.create(services, object(service(json!({}))), WriteOptions::default()).await.expect("created");
    let overwrite = json!({"work.karmada.io/conflict-resolution": "overwrite"});
    let name = plane.hub.work("m1", service(overwrite), json!({}));
    plane.until_applied(&name).await;
}

/// The server's defaults are no differences, not even to a controller that knows nothing yet.
async fn what_is_right_is_not_written(plane: &mut Plane) {
    let before = [
        plane.version_of("", "configmaps", "config").await,
        plane.version_of("", "services", "web").await,
        plane.version_of("apps", "deployments", "web").await,
    ];
    let writes = plane.hub.status_writes();
    plane.restart().await;
    let extra = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "extra", "namespace": "shop"}});
    let extra = plane.hub.work("m1", extra, json!({}));
    plane.until_applied(&extra).await;
    let after = [
        plane.version_of("", "configmaps", "config").await,
        plane.version_of("", "services", "web").await,
        plane.version_of("apps", "deployments", "web").await,
    ];
    assert_eq!(before, after);
    assert_eq!(plane.hub.status_writes(), writes + 1);
}

/// A policy of the member denies a work; once it is lifted, the work goes through by itself.
async fn admission_is_obeyed(plane: &Plane) {
    let policies = GroupVersionResource::new("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies");
    let bindings = GroupVersionResource::new("admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings");
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-gold"}, "spec": {"failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{"apiGroups": ["apps"], "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"], "resources": ["deployments"]}]},
            "validations": [{"expression": "object.metadata.name != 'gold'", "message": "gold stays at home"}]}});
    let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "no-gold"}, "spec": {"policyName": "no-gold", "validationActions": ["Deny"]}});
    for (gvr, value) in [(&policies, policy), (&bindings, binding)] {
        plane.member.create(ResourceRef::all(gvr), object(value), WriteOptions::default()).await.expect("made");
    }
    eventually("the policy holds", true, || async {
        let options = WriteOptions { dry_run: true, ..WriteOptions::default() };
        let target = ResourceRef::within(&deployments(), "shop");
        plane.member.create(target, object(deployment("gold", 1)), options).await.is_err()
    })
    .await;
    let gold = plane.hub.work("m1", deployment("gold", 1), json!({}));
    eventually("denied", "False/AppliedFailed".to_owned(), || plane.applied(&gold)).await;
    let text = message(&*plane.hub.get_work("m1", &gold).await, "Applied");
    assert!(text.contains("ValidatingAdmissionPolicy 'no-gold'") && text.contains("gold stays at home"), "{text}");
    let target = ResourceRef::cluster(&bindings, "no-gold");
    plane.member.delete(target, Default::default()).await.expect("deleted");
    plane.until_applied(&gold).await;
}

async fn asking_again_costs_nothing(plane: &Plane) {
    let mut tags = DiscoveryTags::default();
    let first = ApiResources::discover_changed(&plane.member, &mut tags).await.expect("an answer");
    assert!(first.is_some_and(|served| served.resources.len() > 50));
    assert_eq!(ApiResources::discover_changed(&plane.member, &mut tags).await, Ok(None));
}

async fn denials_are_reported(plane: &Plane, web: &str) {
    let mut moved = deployment("web", 2);
    moved["spec"]["selector"]["matchLabels"] = json!({"app": "other"});
    moved["spec"]["template"]["metadata"]["labels"] = json!({"app": "other"});
    plane.replace(web, moved).await;
    eventually("immutable", "False/AppliedFailed".to_owned(), || plane.applied(web)).await;
    let text = message(&*plane.hub.get_work("m1", web).await, "Applied");
    assert!(text.starts_with("Failed to apply all manifests (0/1): Deployment.apps \"web\" is invalid"), "{text}");
    assert!(text.contains("field is immutable"), "{text}");
    plane.replace(web, deployment("web", 3)).await;
    plane.until_applied(web).await;
    eventually("three", Some(3), || plane.replicas("web")).await;

    let invalid = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "bad", "namespace": "shop"},
        "spec": {"type": "Nonsense", "ports": [{"port": 80}]}});
    let invalid = plane.hub.work("m1", invalid, json!({}));
    let unknown =
        json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t", "namespace": "shop"}});
    let unknown = plane.hub.work("m1", unknown, json!({}));
    for name in [&invalid, &unknown] {
        eventually("refused", "False/AppliedFailed".to_owned(), || plane.applied(name)).await;
    }
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
                "x-kubernetes-preserve-unknown-fields": true}}}]}});
    let crd = plane.hub.work("m1", crd, json!({}));
    plane.until_applied(&crd).await;
    plane.until_applied(&unknown).await;
}

async fn deleted_works_remove_their_objects(plane: &Plane, config: &str, service: &str) {
    plane.hub.change_work("m1", service, json!({"spec": {"preserveResourcesOnDeletion": true}})).await;
    for name in [config, service] {
        plane.hub.delete_work("m1", name).await;
        eventually("gone", "gone".to_owned(), || plane.applied(name)).await;
    }
    let find =
        |resource: &str, name: &str| plane.member.find(ResourceRef::namespaced(&gvr("", resource), "shop", name));
    assert!(find("configmaps", "config").await.expect("an answer").is_none());
    let kept = find("services", "web").await.expect("an answer").expect("kept");
    assert_eq!((kept.labels().count(), kept.annotations().count()), (0, 0));
}

async fn an_absence_is_survived(plane: &Plane, server: &mut KubeApiServer, web: &str) {
    server.end_api();
    eventually("not ready", "False/ClusterNotReachable".to_owned(), || plane.hub.readiness("m1")).await;
    assert_eq!(plane.applied(web).await, APPLIED);
    plane.replace(web, deployment("web", 5)).await;
    let late = plane.hub.work("m1", deployment("late", 1), json!({}));
    server.start_api_again();
    eventually("ready", "True/ClusterReady".to_owned(), || plane.hub.readiness("m1")).await;
    plane.until_applied(&late).await;
    eventually("five", Some(5), || plane.replicas("web")).await;
    // The watches are back too.
    let target = ResourceRef::namespaced(&deployments(), "shop", "web");
    let patch = Patch::merge(json!({"spec": {"replicas": 1}}));
    plane.member.patch(target, patch, WriteOptions::default()).await.expect("patched");
    eventually("reverted", Some(5), || plane.replicas("web")).await;
}
