//! Imported slices and derived Services.

use api::networking::{LABEL_SLICE_NAME, LABEL_SLICE_NAMESPACE};

use super::*;

fn object(value: Value) -> Object {
    Object::from_value(value).expect("a map")
}

fn service() -> ServiceKey {
    ServiceKey { namespace: "shop".into(), name: "web".into() }
}

fn work() -> Object {
    let name = api::names::work_name("EndpointSlice", "web-1", "shop");
    object(json!({"metadata": {"name": name, "namespace": "karmada-es-m1",
            "labels": {LABEL_SLICE_NAMESPACE: "shop", LABEL_SLICE_NAME: "web", LABEL_WORK_ID: "w-id"}},
        "spec": {"suspendDispatching": true, "workload": {"manifests": [
            {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
                "metadata": {"name": "web-1", "namespace": "shop", "labels": {LABEL_SLICE_SERVICE: "web"}},
                "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]}]}}}))
}

#[test]
fn an_imported_slice_has_karmadas_name_labels_and_annotations() {
    let work = work();
    assert_eq!(exported_service(&work), Some(service()));
    let slice = imported_slice(&work, &service()).expect("imported");
    assert_eq!((slice.namespace(), slice.name()), ("shop", "imported-m1-web-1"));
    let mut labels: Vec<_> = slice.labels().collect();
    labels.sort_unstable();
    let expected =
        [(LABEL_SLICE_CONTROLLER, CONTROLLER_IMPORT), (LABEL_SLICE_SERVICE, "derived-web"), (LABEL_WORK_ID, "w-id")];
    assert_eq!(labels, expected);
    assert_eq!(imported_from(&slice), Some(("karmada-es-m1", work.name())));
}

#[test]
fn slices_of_other_origin_are_not_overwritten() {
    let desired = imported_slice(&work(), &service()).expect("imported");
    let mut foreign = desired.clone();
    foreign.set_annotation(ANNOTATION_WORK_NAMESPACE, "karmada-es-m2");
    assert!(matches!(merge_imported(&desired, &foreign), Err(SliceRefusal::Taken { .. })));
    let mut of_a_user = desired.clone();
    of_a_user.remove(&["metadata", "labels"]);
    assert!(matches!(merge_imported(&desired, &of_a_user), Err(SliceRefusal::Taken { .. })));
    let mut older = desired.clone();
    older.set(&["endpoints"], json!([]));
    older.set_label("extra", "kept");
    let merged = merge_imported(&desired, &older).expect("its own");
    assert_eq!(merged.items(&["endpoints"]).len(), 1);
    assert_eq!(merged.label("extra"), Some("kept"));
}

#[test]
fn only_the_binding_of_the_export_makes_a_cluster_an_exporter() {
    let binding = |namespace: &str, resource: Value| {
        object(json!({"metadata": {"name": "web-serviceexport", "namespace": namespace},
            "spec": {"resource": resource, "clusters": [{"name": "m1"}]}}))
    };
    let export = |namespace: &str, name: &str| json!({"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceExport", "namespace": namespace, "name": name});
    for (binding, cluster, expected) in [
        (binding("shop", export("shop", "web")), "m1", true),
        (binding("shop", export("shop", "web")), "m2", false),
        (binding("evil", export("shop", "web")), "m1", false),
        (binding("shop", export("shop", "other")), "m1", false),
        (
            binding("shop", json!({"apiVersion": "v1", "kind": "ServiceExport", "namespace": "shop", "name": "web"})),
            "m1",
            false,
        ),
    ] {
        assert_eq!(is_exported_to(&binding, &service(), cluster), expected, "{binding:?} {cluster}");
    }
}

#[test]
fn a_service_is_derived_from_cluster_set_ips_only() {
    let import = |kind: &str| {
        object(json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": {"type": kind, "ips": ["1.2.3.4"],
            "sessionAffinity": "ClientIP", "ports": [{"name": "http", "port": 80, "protocol": "TCP", "appProtocol": "h2c"}]}}))
    };
    assert_eq!(derived_service(&import("Headless")), Ok(None));
    let service = derived_service(&import("ClusterSetIP")).expect("readable").expect("derived");
    let expected = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "derived-web", "namespace": "shop"},
        "spec": {"type": "ClusterIP", "sessionAffinity": "ClientIP",
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "appProtocol": "h2c"}]},
        "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}});
    assert_eq!(service.to_value(), expected);

    let mut stored = service.clone();
    stored.set(&["spec", "clusterIP"], "10.96.0.1");
    stored.set(
        &["spec", "ports"],
        json!([{"name": "http", "port": 80, "protocol": "TCP", "appProtocol": "h2c", "targetPort": 80}]),
    );
    assert_eq!(merge_derived(&service, &stored), stored, "defaults are no difference");
    stored.set(&["spec", "ports"], json!([{"name": "http", "port": 81, "protocol": "TCP"}]));
    let merged = merge_derived(&service, &stored);
    assert_eq!(merged.str_at(&["spec", "clusterIP"]), "10.96.0.1");
    assert_eq!(merged.items(&["spec", "ports"])[0]["port"], 80);
}

#[test]
fn services_of_users_are_distinguished_from_derived_ones() {
    let service = |spec: Value, manager: &str, fields: Value| {
        object(
            json!({"metadata": {"name": "derived-web", "managedFields": [{"manager": manager, "fieldsV1": fields}]}, "spec": spec}),
        )
    };
    let own = service(json!({}), "controller", json!({"f:spec": {"f:ports": {}}}));
    assert!(may_be_derived(&own) && has_spec_of(&own, "controller"));
    assert!(!has_spec_of(&service(json!({}), "controller", json!({"f:metadata": {}})), "controller"));
    assert!(!has_spec_of(&service(json!({}), "kubectl", json!({"f:spec": {}})), "controller"));
    assert!(!may_be_derived(&service(json!({"selector": {"app": "web"}}), "controller", json!({"f:spec": {}}))));
    assert_eq!(import_of("derived-web"), Some("web"));
    assert_eq!((import_of("web"), import_of("derived-")), (None, None));
}
