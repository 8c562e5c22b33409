//! Which objects of a Karmada are taken over, in which form, and which are left out.

use jiff::Timestamp;
use migration::foreign::{EtcdValue, ForeignPlane, read_etcd};
use migration::import::{ImportPlan, plan_import, served_kinds};
use migration::reach::Reach;
use migration::report::import_report;
use object::Object;
use serde_json::{Value, json};

const NOW: &str = "2026-01-01T00:00:10Z";

fn object(value: Value) -> Object {
    Object::from_value(value).expect("a map")
}

fn plan(objects: Vec<Value>) -> ImportPlan {
    let foreign = ForeignPlane { objects: objects.into_iter().map(object).collect(), ..ForeignPlane::default() };
    plan_import(&served_kinds(), foreign, NOW.parse::<Timestamp>().expect("a time"))
}

/// Plans one object; `expected` is its storage resource, or a part of the reason why it is not taken over.
#[track_caller]
fn check(value: Value, expected: Result<&str, &str>) {
    let plan = plan(vec![value.clone()]);
    let reasons = plan.left_out.keys().map(|(_, reason)| reason.reason().to_owned());
    let reason: String = reasons.chain(plan.unsupported.iter().map(|unsupported| unsupported.reason.clone())).collect();
    match expected {
        Ok(resource) => {
            let kept: Vec<String> = plan.counts().into_keys().collect();
            assert_eq!(kept, [resource], "{value}: {reason}");
        }
        Err(part) => assert!(plan.objects.is_empty() && reason.contains(part), "{value}: {reason:?}"),
    }
}

fn named(api_version: &str, kind: &str, namespace: &str, name: &str) -> Value {
    let mut metadata = json!({"name": name, "uid": "u1", "resourceVersion": "7"});
    if !namespace.is_empty() {
        metadata["namespace"] = namespace.into();
    }
    json!({"apiVersion": api_version, "kind": kind, "metadata": metadata})
}

fn with(mut value: Value, field: &str, content: Value) -> Value {
    value[field] = content;
    value
}

#[test]
fn objects_of_users_and_of_karmada_are_taken_over() {
    check(named("apps/v1", "Deployment", "default", "web"), Ok("deployments.apps"));
    check(named("work.karmada.io/v1alpha1", "Work", "karmada-es-m1", "w"), Ok("works.work.karmada.io"));
    check(named("work.karmada.io/v1alpha2", "ResourceBinding", "default", "b"), Ok("resourcebindings.work.karmada.io"));
    check(
        named("policy.karmada.io/v1alpha1", "PropagationPolicy", "default", "p"),
        Ok("propagationpolicies.policy.karmada.io"),
    );
    check(named("cluster.karmada.io/v1alpha1", "Cluster", "", "m1"), Ok("clusters.cluster.karmada.io"));
    check(named("v1", "Secret", "karmada-cluster", "m1"), Ok("secrets"));
    check(named("rbac.authorization.k8s.io/v1", "ClusterRole", "", "r"), Ok("clusterroles.rbac.authorization.k8s.io"));
    check(named("v1", "Service", "default", "web"), Ok("services"));
    check(
        named("discovery.k8s.io/v1", "EndpointSlice", "default", "imported-web"),
        Ok("endpointslices.discovery.k8s.io"),
    );
}

#[test]
fn records_of_the_old_plane_are_left_out_with_a_reason() {
    check(named("v1", "Event", "default", "e"), Err("events of the old"));
    check(named("events.k8s.io/v1", "Event", "default", "e"), Err("events of the old"));
    check(named("coordination.k8s.io/v1", "Lease", "karmada-system", "l"), Err("holders renew"));
    check(named("v1", "Service", "default", "kubernetes"), Err("writes its own"));
    check(named("v1", "Endpoints", "default", "kubernetes"), Err("writes its own"));
    check(named("v1", "RangeAllocation", "", ""), Err("writes its own"));
    check(named("v1", "ConfigMap", "kube-system", "extension-apiserver-authentication"), Err("writes its own"));
    check(named("networking.k8s.io/v1", "ServiceCIDR", "", "kubernetes"), Err("writes its own"));
    let address = named("networking.k8s.io/v1", "IPAddress", "", "10.96.0.1");
    let of = |name: &str| json!({"parentRef": {"resource": "services", "namespace": "default", "name": name}});
    check(with(address.clone(), "spec", of("kubernetes")), Err("writes its own"));
    check(with(address, "spec", of("web")), Ok("ipaddresses.networking.k8s.io"));
    let service = named("v1", "Service", "karmada-system", "karmada-aggregated-apiserver");
    check(with(service, "spec", json!({"type": "ExternalName"})), Err("server of Karmada"));
}

#[test]
fn a_template_of_a_policy_is_always_taken_over() {
    let mut endpoints = named("v1", "Endpoints", "default", "kubernetes");
    endpoints["metadata"]["labels"] = json!({"propagationpolicy.karmada.io/permanent-id": "p1"});
    check(endpoints, Ok("endpoints"));
}

#[test]
fn servers_of_karmada_are_not_registered_and_others_are() {
    let service = |group: &str, service: Value| {
        let object = named("apiregistration.k8s.io/v1", "APIService", "", &format!("v1alpha1.{group}"));
        with(object, "spec", json!({"group": group, "version": "v1alpha1", "service": service}))
    };
    let some = json!({"name": "s", "namespace": "n"});
    check(service("apps", Value::Null), Err("registers its own"));
    check(service("cluster.karmada.io", some.clone()), Err("without an aggregated server"));
    check(service("search.karmada.io", some.clone()), Err("without an aggregated server"));
    check(service("custom.metrics.k8s.io", some.clone()), Err("without an aggregated server"));
    check(service("example.com", some.clone()), Ok("apiservices.apiregistration.k8s.io"));
    let warnings = plan(vec![service("example.com", some)]).warnings;
    assert!(warnings[0].contains("must be reachable from the new control plane"), "{warnings:?}");
}

#[test]
fn only_the_webhooks_of_karmada_are_left_out() {
    let webhooks = |names: &[&str]| {
        let object = named("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "", "v");
        with(object, "webhooks", names.iter().map(|name| json!({"name": name})).collect())
    };
    check(webhooks(&["propagationpolicy.karmada.io", "work.karmada.io"]), Err("part of the API server"));
    check(webhooks(&["a.example.com"]), Ok("validatingwebhookconfigurations.admissionregistration.k8s.io"));
    let mixed = plan(vec![webhooks(&["work.karmada.io", "a.example.com"])]);
    assert_eq!(mixed.objects[0].object.items(&["webhooks"]), [json!({"name": "a.example.com"})]);
}

#[test]
fn objects_that_no_server_would_store_are_not_taken_over() {
    // Names are parts of storage keys: these would be keys of other objects.
    for (namespace, name) in [("default", "a/b"), ("kube-system/x", "y"), ("default", "../kube-system/y")] {
        check(named("v1", "Secret", namespace, name), Err("slash"));
    }
    let deep = (0..120).fold(json!(1), |inner, _| json!([inner]));
    check(with(named("policy.karmada.io/v1alpha1", "OverridePolicy", "default", "p"), "spec", deep), Err("levels"));
}

fn definition(group: &str, plural: &str, kind: &str, scope: &str) -> Value {
    let object = named("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", &format!("{plural}.{group}"));
    with(object, "spec", json!({"group": group, "names": {"plural": plural, "kind": kind}, "scope": scope}))
}

#[test]
fn custom_objects_follow_their_definition() {
    check(definition("work.karmada.io", "works", "Work", "Namespaced"), Err("serves this kind without"));
    check(named("example.com/v1", "Foo", "default", "f"), Err("does not serve this kind"));
    let kept = plan(vec![
        named("example.com/v1", "Foo", "default", "f"),
        definition("example.com", "foos", "Foo", "Namespaced"),
        named("example.com/v1", "Foo", "", "wrong-scope"),
    ]);
    let resources: Vec<String> = kept.counts().into_keys().collect();
    assert_eq!(resources, ["customresourcedefinitions.apiextensions.k8s.io", "foos.example.com"]);
    assert!(kept.unsupported[0].reason.contains("scope"), "{:?}", kept.unsupported);
}

#[test]
fn definitions_in_the_form_of_etcd_are_converted() {
    let spec = json!({"group": "example.com", "version": "v1", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
        "preserveUnknownFields": false, "validation": {"openAPIV3Schema": {"type": "object"}}, "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": "Size", "JSONPath": ".spec.size"}],
        "conversion": {"strategy": "Webhook", "webhookClientConfig": {"url": "https://u"}, "conversionReviewVersions": ["v1"]},
        "versions": [{"name": "v1", "served": true, "storage": true}, {"name": "v2", "served": true, "storage": false,
            "schema": {"openAPIV3Schema": {"type": "object", "description": "own"}}}]});
    let stored = named("apiextensions.k8s.io/v1beta1", "CustomResourceDefinition", "", "foos.example.com");
    let plan = plan(vec![with(stored, "spec", spec)]);
    let definition = &plan.objects[0].object;
    assert_eq!(definition.api_version(), "apiextensions.k8s.io/v1");
    let columns = json!([{"name": "Size", "jsonPath": ".spec.size"}]);
    let version = |name: &str, is_stored: bool, schema: Value| {
        json!({"name": name, "served": true, "storage": is_stored, "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}}, "additionalPrinterColumns": columns})
    };
    let expected = json!({"group": "example.com", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
        "preserveUnknownFields": false,
        "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://u"}, "conversionReviewVersions": ["v1"]}},
        "versions": [version("v1", true, json!({"type": "object"})),
            version("v2", false, json!({"type": "object", "description": "own"}))]});
    assert_eq!(definition.get(&["spec"]), Some(&expected));
}

#[test]
fn identity_is_kept_and_old_versions_are_converted() {
    let mut policy = named("policy.karmada.io/v1alpha1", "PropagationPolicy", "default", "p");
    policy["metadata"]["labels"] = json!({"propagationpolicy.karmada.io/permanent-id": "id1"});
    let plan = plan(vec![policy, named("work.karmada.io/v1alpha1", "ResourceBinding", "default", "b")]);
    let [policy, binding] = &plan.objects[..] else { panic!("{:?}", plan.objects) };
    assert_eq!((policy.object.uid(), policy.revision), ("u1", 7));
    assert_eq!(policy.object.label("propagationpolicy.karmada.io/permanent-id"), Some("id1"));
    assert_eq!(policy.object.resource_version(), "");
    assert_eq!(binding.object.api_version(), "work.karmada.io/v1alpha2");
}

#[test]
fn one_object_under_two_groups_is_imported_once() {
    let twice = named("apps/v1", "Deployment", "default", "web");
    assert_eq!(plan(vec![twice.clone(), twice]).objects.len(), 1);
}

#[test]
fn components_with_a_current_lease_are_reported() {
    let lease = |renewed: &str| {
        let lease = named("coordination.k8s.io/v1", "Lease", "karmada-system", "karmada-scheduler");
        with(lease, "spec", json!({"leaseDurationSeconds": 15, "renewTime": renewed}))
    };
    assert!(plan(vec![lease("2026-01-01T00:00:00.000000Z")]).warnings[0].contains("karmada-scheduler is running"));
    assert!(plan(vec![lease("2025-12-31T23:00:00.000000Z")]).warnings.is_empty());
}

#[test]
fn the_report_names_clusters_reasons_and_problems() {
    let secret = with(named("v1", "Secret", "karmada-cluster", "m1"), "data", json!({"token": "dA=="}));
    let spec = json!({"syncMode": "Push", "apiEndpoint": "https://h:1", "secretRef": {"namespace": "karmada-cluster", "name": "m1"}});
    let push = with(named("cluster.karmada.io/v1alpha1", "Cluster", "", "m1"), "spec", spec);
    let pull = with(named("cluster.karmada.io/v1alpha1", "Cluster", "", "m2"), "spec", json!({"syncMode": "Pull"}));
    let plan = plan(vec![push, pull, secret, named("v1", "Event", "default", "e"), named("x.io/v1", "X", "", "x")]);
    assert!(plan.clusters[0].secret.is_some() && plan.clusters[1].secret.is_none());
    let text = import_report(&plan, &[Reach::Fails("refused".into()), Reach::ByAgent]);
    for part in [
        "Objects to take over: 3\n",
        "  clusters.cluster.karmada.io  2\n",
        "  Event      1  events of the old control plane\n",
        "  m1  Push  https://h:1 DOES NOT ANSWER: refused\n",
        "  m2  Pull  its agent connects",
        "  X.x.io x: Flotilla does not serve this kind or version\n",
        "  cluster m1 is not ready in the old control plane\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

fn value<'v>(key: &'v str, value: &'v [u8]) -> EtcdValue<'v> {
    EtcdValue { key, value, revision: 9 }
}

#[test]
fn values_of_etcd_are_read_as_protobuf_and_json() {
    let map = named("v1", "ConfigMap", "default", "c");
    let protobuf = kinds::protobuf::encode(map.as_object().expect("a map")).expect("encoded");
    let cluster = named("cluster.karmada.io/v1alpha1", "Cluster", "", "m1").to_string();
    let values = [
        value("/configmaps/default/c", &protobuf),
        value("/cluster.karmada.io/clusters/m1", cluster.as_bytes()),
        value("/damaged", b"k8s\0\xff\xff"),
        value("/text", b"no object"),
        value("/empty", b"{}"),
    ];
    let plane = read_etcd(values.into_iter(), 12).expect("read");
    let names: Vec<String> =
        plane.objects.iter().map(|object| format!("{} {}", object.kind(), object.name())).collect();
    assert_eq!(names, ["ConfigMap c", "Cluster m1"]);
    assert_eq!((plane.objects[0].resource_version(), plane.revision), ("9", 12));
    let unreadable: Vec<&str> = plane.unreadable.iter().map(|value| value.key.as_str()).collect();
    assert_eq!(unreadable, ["/damaged", "/text", "/empty"]);
}

#[test]
fn an_etcd_that_is_encrypted_or_not_of_a_karmada_is_refused() {
    let cluster = named("cluster.karmada.io/v1alpha1", "Cluster", "", "m1").to_string();
    let sealed = [value("/c", cluster.as_bytes()), value("/secrets/a/b", b"k8s:enc:aescbc:v1:k:x")];
    let error = read_etcd(sealed.into_iter(), 1).expect_err("encrypted").to_string();
    assert!(error.contains("1 values are encrypted") && error.contains("/secrets/a/b"), "{error}");
    let other = named("v1", "Namespace", "", "default").to_string();
    let error = read_etcd([value("/n", other.as_bytes())].into_iter(), 1).expect_err("no Karmada").to_string();
    assert!(error.contains("not a Karmada"), "{error}");
}
