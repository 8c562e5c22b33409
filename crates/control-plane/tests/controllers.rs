//! The controllers of a whole control plane, seen through its API.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver::direct::Direct;
use cluster_client::{
    ClusterClient, DeleteOptions, Endpoint, Identity, PropagationPolicy, ResourceRef, User, WriteOptions,
};
use control_plane::{ControlPlane, Options, Storage};
use object::request::Subresource;
use object::{GroupVersion, GroupVersionResource, Object};
use serde_json::{Value, json};

/// Long enough for a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(20);

struct World {
    plane: ControlPlane,
    client: ClusterClient,
    data_dir: std::path::PathBuf,
}

impl World {
    async fn start(name: &str) -> Self {
        let data_dir = std::env::temp_dir().join(format!("flotilla-controllers-{name}-{}", std::process::id()));
        let mut options = Options::new(&data_dir, ([127, 0, 0, 1], 0).into());
        options.host.storage = Storage::Memory;
        let plane = ControlPlane::start(options).await.expect("a plane starts");
        let server = Arc::new(Direct::new(plane.server.clone()));
        let identity = Identity::of(User::new("admin", &["system:masters", "system:authenticated"]));
        let client = ClusterClient::connect(Endpoint::Direct { server, identity }).expect("it is in process");
        Self { plane, client, data_dir }
    }

    async fn stop(self) {
        self.plane.stop().await;
        let _ = std::fs::remove_dir_all(self.data_dir);
    }

    async fn create(&self, resource: &str, object: Value) -> Arc<Object> {
        let object = Object::from_value(object).expect("a map");
        let gvr = GroupVersion::parse(object.api_version()).expect("an API version").resource(resource);
        let target = match object.namespace() {
            "" => ResourceRef::all(&gvr),
            namespace => ResourceRef::within(&gvr, namespace),
        };
        self.client.create(target, object, WriteOptions::default()).await.expect("a valid object")
    }

    async fn namespace(&self, name: &str) {
        self.create("namespaces", json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await;
    }

    /// A ConfigMap in `namespace/name`, owned by another object if there is one.
    async fn config_map(&self, namespace: &str, name: &str, owner: Option<(&Object, bool)>) -> Arc<Object> {
        let owners: Vec<Value> = owner
            .map(|(owner, blocks)| {
                json!({"apiVersion": owner.api_version(), "kind": owner.kind(), "name": owner.name(),
                    "uid": owner.uid(), "blockOwnerDeletion": blocks})
            })
            .into_iter()
            .collect();
        let metadata = json!({"name": name, "namespace": namespace, "ownerReferences": owners});
        self.create("configmaps", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).await
    }

    async fn find(&self, target: &ResourceRef) -> Option<Arc<Object>> {
        self.client.find(target.clone()).await.expect("the API answers")
    }

    async fn delete(&self, target: &ResourceRef, policy: PropagationPolicy) {
        let options = DeleteOptions { propagation_policy: Some(policy), ..DeleteOptions::default() };
        self.client.delete(target.clone(), options).await.expect("it is there");
    }

    async fn gone(&self, target: &ResourceRef) {
        eventually(&format!("{target:?} goes"), async || self.find(target).await.is_none()).await;
    }

    async fn there(&self, target: &ResourceRef, is_right: impl Fn(&Object) -> bool) {
        eventually(&format!("{target:?} is as wanted"), async || {
            self.find(target).await.is_some_and(|object| is_right(&object))
        })
        .await;
    }
}

async fn eventually<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let start = Instant::now();
    while !holds().await {
        assert!(start.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn core(resource: &str) -> GroupVersionResource {
    GroupVersionResource::new("", "v1", resource)
}

fn map(namespace: &str, name: &str) -> ResourceRef {
    ResourceRef::namespaced(&core("configmaps"), namespace, name)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_gets_account_and_certificate_and_is_deleted_with_its_contents() {
    let world = World::start("namespace").await;
    world.namespace("a").await;
    let account = ResourceRef::namespaced(&core("serviceaccounts"), "a", "default");
    let certificate = map("a", "kube-root-ca.crt");
    world.there(&account, |_| true).await;
    world.there(&certificate, |map| map.str_at(&["data", "ca.crt"]).starts_with("-----BEGIN CERTIFICATE")).await;
    world.delete(&account, PropagationPolicy::Background).await;
    world.there(&account, |_| true).await;
    world.delete(&certificate, PropagationPolicy::Background).await;
    world.there(&certificate, |_| true).await;

    let held = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "held", "namespace": "a", "finalizers": ["example.com/hold"]}});
    world.create("configmaps", held).await;
    let namespace = ResourceRef::cluster(&core("namespaces"), "a");
    world.delete(&namespace, PropagationPolicy::Background).await;
    let says_what_is_left = |namespace: &Object| {
        namespace.items(&["status", "conditions"]).iter().any(|c| {
            c["type"] == "NamespaceFinalizersRemaining"
                && c["message"]
                    == "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
        })
    };
    world.there(&namespace, says_what_is_left).await;
    let freed = cluster_client::Patch::merge(json!({"metadata": {"finalizers": null}}));
    world.client.patch(map("a", "held"), freed, WriteOptions::default()).await.expect("it is there");
    world.gone(&namespace).await;
    assert!(world.find(&account).await.is_none());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_with_an_object_that_was_stored_too_deep_can_be_deleted() {
    let world = World::start("deep").await;
    world.namespace("a").await;
    let server = &world.plane.server;
    let works = server.registry.find("work.karmada.io", "v1alpha1", "works").expect("served");
    for (name, depth) in [("w1", 130), ("w2", 200_000)] {
        let nested = "[".repeat(depth) + &"]".repeat(depth);
        let bytes = format!(
            r#"{{"apiVersion":"work.karmada.io/v1alpha1","kind":"Work","metadata":{{"name":"{name}","namespace":"a","uid":"u-{name}"}},"spec":{{"workload":{{"manifests":[{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"c"}},"data":{nested}}}]}}}}}}"#
        );
        server.objects.store().create(&works.key("a", name), bytes.into(), None).await.expect("stored");
    }
    let namespace = ResourceRef::cluster(&core("namespaces"), "a");
    world.delete(&namespace, PropagationPolicy::Background).await;
    world.gone(&namespace).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dependents_are_deleted_with_their_owner_or_orphaned() {
    let world = World::start("garbage").await;
    world.namespace("a").await;
    for (policy, stays) in [
        (PropagationPolicy::Background, false),
        (PropagationPolicy::Foreground, false),
        (PropagationPolicy::Orphan, true),
    ] {
        let owner = world.config_map("a", "owner", None).await;
        let child = world.config_map("a", "child", Some((&owner, true))).await;
        world.config_map("a", "grandchild", Some((&child, true))).await;
        // A dependent that the collector has not seen when its owner goes is judged on its own; both ways end the same.
        tokio::time::sleep(Duration::from_millis(50)).await;
        world.delete(&map("a", "owner"), policy).await;
        world.gone(&map("a", "owner")).await;
        if stays {
            world.there(&map("a", "child"), |child| child.owner_references().is_empty()).await;
            world.there(&map("a", "grandchild"), |grandchild| grandchild.owner_references().len() == 1).await;
        } else {
            world.gone(&map("a", "child")).await;
            world.gone(&map("a", "grandchild")).await;
        }
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_in_other_namespaces_are_ignored() {
    let world = World::start("reach").await;
    world.namespace("a").await;
    world.namespace("b").await;
    let owner = world.config_map("a", "owner", None).await;
    world.config_map("b", "stranger", Some((&owner, false))).await;
    world.gone(&map("b", "stranger")).await;
    world.config_map("a", "child", Some((&owner, false))).await;
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid()});
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "wide", "ownerReferences": [reference]}});
    world.create("clusterroles", role).await;
    let events = core("events");
    eventually("both get the reason", async || {
        let list = world.client.list_all(ResourceRef::all(&events), Default::default()).await.expect("a list");
        let about = |name: &str| {
            list.items.iter().any(|event| {
                event.str_at(&["reason"]) == "OwnerRefInvalidNamespace"
                    && event.str_at(&["involvedObject", "name"]) == name
            })
        };
        about("stranger") && about("wide")
    })
    .await;
    assert!(world.find(&map("a", "child")).await.is_some(), "its owner is where it looks for it");
    let roles = GroupVersionResource::new("rbac.authorization.k8s.io", "v1", "clusterroles");
    assert!(
        world.find(&ResourceRef::cluster(&roles, "wide")).await.is_some(),
        "it is not known to have lost its owner"
    );
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quotas_are_released_and_secrets_follow_their_account() {
    let world = World::start("quota").await;
    world.namespace("a").await;
    world.there(&map("a", "kube-root-ca.crt"), |_| true).await;
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "a"},
        "spec": {"hard": {"configmaps": "3"}}});
    world.create("resourcequotas", quota).await;
    let quota = ResourceRef::namespaced(&core("resourcequotas"), "a", "q");
    let uses = |amount: &'static str| move |quota: &Object| quota.str_at(&["status", "used", "configmaps"]) == amount;
    world.there(&quota, uses("1")).await;
    world.config_map("a", "one", None).await;
    world.there(&quota, uses("2")).await;
    world.delete(&map("a", "one"), PropagationPolicy::Background).await;
    world.there(&quota, uses("1")).await;

    world
        .create(
            "serviceaccounts",
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": "a"}}),
        )
        .await;
    let annotations = json!({"kubernetes.io/service-account.name": "robot"});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": "token", "namespace": "a", "annotations": annotations}});
    world.create("secrets", secret).await;
    let secret = ResourceRef::namespaced(&core("secrets"), "a", "token");
    world.there(&secret, |secret| !secret.str_at(&["data", "token"]).is_empty()).await;
    let robot = ResourceRef::namespaced(&core("serviceaccounts"), "a", "robot");
    world.delete(&robot, PropagationPolicy::Background).await;
    world.gone(&secret).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approved_request_is_signed_and_node_requests_are_approved_by_permission() {
    use base64::Engine;
    use pki::subject::{AlternativeNames, CertificateSubject};

    let world = World::start("certificates").await;
    let key = pki::key::PrivateKey::generate().expect("a key");
    let subject = CertificateSubject::new("system:node:n1", &["system:nodes".to_owned()]);
    let pem = pki::csr::create_csr(&key, &subject, &AlternativeNames::default()).expect("a request");
    let pem = base64::engine::general_purpose::STANDARD.encode(pem);
    let requests = GroupVersionResource::new("certificates.k8s.io", "v1", "certificatesigningrequests");
    let ask = |name: &str, signer: &str| {
        json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
            "spec": {"request": pem, "signerName": signer, "usages": ["digital signature", "client auth"]}})
    };
    let person = "kubernetes.io/kube-apiserver-client";
    let request = world.create("certificatesigningrequests", ask("person", person)).await;
    let mut approved = Object::clone(&request);
    approved.set(&["status", "conditions"], json!([{"type": "Approved", "status": "True", "reason": "Test"}]));
    let place = ResourceRef::cluster(&requests, "person");
    let place_approval = place.clone().subresource(Subresource::Approval);
    world.client.update(place_approval, approved, WriteOptions::default()).await.expect("an approval");
    world.there(&place, |request| !request.str_at(&["status", "certificate"]).is_empty()).await;

    // The administrator in this test may do anything, and so may have certificates of nodes without approval.
    world.create("certificatesigningrequests", ask("node", "kubernetes.io/kube-apiserver-client-kubelet")).await;
    let place = ResourceRef::cluster(&requests, "node");
    world.there(&place, |request| !request.str_at(&["status", "certificate"]).is_empty()).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_resources_can_be_owners_and_dependents() {
    let world = World::start("custom").await;
    world.namespace("a").await;
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}});
    world.create("customresourcedefinitions", definition).await;
    let foos = GroupVersionResource::new("example.com", "v1", "foos");
    eventually("the kind is served", async || {
        world.client.list(ResourceRef::all(&foos), Default::default()).await.is_ok()
    })
    .await;
    let owner = world.config_map("a", "owner", None).await;
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid()});
    let foo = json!({"apiVersion": "example.com/v1", "kind": "Foo",
        "metadata": {"name": "foo", "namespace": "a", "ownerReferences": [reference]}});
    let foo = world.create("foos", foo).await;
    world.config_map("a", "child", Some((&foo, false))).await;
    world.delete(&map("a", "owner"), PropagationPolicy::Background).await;
    world.gone(&ResourceRef::namespaced(&foos, "a", "foo")).await;
    world.gone(&map("a", "child")).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_info_is_signed_until_the_token_expires() {
    let world = World::start("bootstrap").await;
    let ends = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(4);
    let data = json!({"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true",
        "expiration": object::time::format_seconds(ends)});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system"}, "stringData": data});
    world.create("secrets", secret).await;
    let info = map("kube-public", "cluster-info");
    let is_signed = |info: &Object| !info.str_at(&["data", "jws-kubeconfig-abcdef"]).is_empty();
    world.there(&info, is_signed).await;
    world.gone(&ResourceRef::namespaced(&core("secrets"), "kube-system", "bootstrap-token-abcdef")).await;
    world.there(&info, |info| !is_signed(info) && !info.str_at(&["data", "kubeconfig"]).is_empty()).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_say_that_the_only_server_leads_and_count_admissions() {
    let world = World::start("metrics").await;
    world.namespace("a").await;
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "p", "namespace": "a"}, "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "Secret"}]}});
    world.create("propagationpolicies", policy).await;
    let mut text = String::new();
    world.plane.server.metrics.components.render(&mut text);
    let leases: Vec<&str> = text.lines().filter(|line| line.starts_with("leader_election_master_status")).collect();
    let expected = ["karmada-controller-manager", "karmada-scheduler", "kube-controller-manager"];
    assert_eq!(leases, expected.map(|name| format!("leader_election_master_status{{name=\"{name}\"}} 1")));
    for path in ["/mutate-propagationpolicy", "/validate-propagationpolicy"] {
        let series = format!("controller_runtime_webhook_requests_total{{webhook=\"{path}\",code=\"200\"}} ");
        let count = text.lines().find_map(|line| line.strip_prefix(&*series));
        // Controllers may have written the policy too.
        assert!(count.is_some_and(|count| count != "0"), "{series} in\n{text}");
    }
    world.stop().await;
}
