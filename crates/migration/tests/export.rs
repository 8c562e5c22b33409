//! Which objects a Karmada gets, in which form and order.

use migration::export::{ExportPlan, export_report, plan_export};
use migration::import::served_kinds;
use object::Object;
use serde_json::{Value, json};

fn plan(objects: Vec<Value>) -> ExportPlan {
    plan_export(&served_kinds(), objects.into_iter().map(|value| Object::from_value(value).expect("a map")).collect())
}

fn named(api_version: &str, kind: &str, namespace: &str, name: &str) -> Value {
    let mut metadata = json!({"name": name, "uid": "u1", "generation": 3, "creationTimestamp": "2026-01-01T00:00:00Z",
        "ownerReferences": [{"uid": "o"}], "managedFields": [{"manager": "m"}]});
    if !namespace.is_empty() {
        metadata["namespace"] = namespace.into();
    }
    json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "status": {"phase": "x"}})
}

/// Exports one object; `expected` is its file, or the reason why it is left out.
#[track_caller]
fn check(value: Value, expected: Result<&str, &str>) {
    let plan = plan(vec![value.clone()]);
    let reason: String = plan.left_out.keys().map(|(_, reason)| *reason).collect();
    match expected {
        Ok(file) => {
            assert_eq!(plan.files.iter().map(|file| file.name).collect::<Vec<_>>(), [file], "{value}: {reason}")
        }
        Err(part) => assert!(plan.files.is_empty() && reason.contains(part), "{value}: {reason:?}"),
    }
}

#[test]
fn every_object_is_in_the_file_of_its_turn() {
    check(named("v1", "Namespace", "", "shop"), Ok("10-namespaces.yaml"));
    check(
        named("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "foos.example.com"),
        Ok("20-definitions.yaml"),
    );
    check(named("rbac.authorization.k8s.io/v1", "Role", "shop", "r"), Ok("30-access.yaml"));
    check(named("v1", "Secret", "karmada-cluster", "m1"), Ok("40-credentials.yaml"));
    check(named("cluster.karmada.io/v1alpha1", "Cluster", "", "m1"), Ok("50-clusters.yaml"));
    check(named("work.karmada.io/v1alpha1", "Work", "karmada-es-m1", "w"), Ok("60-works.yaml"));
    check(named("work.karmada.io/v1alpha2", "ResourceBinding", "shop", "b"), Ok("70-bindings.yaml"));
    check(named("policy.karmada.io/v1alpha1", "OverridePolicy", "shop", "o"), Ok("80-policies.yaml"));
    check(named("v1", "Secret", "shop", "s"), Ok("90-templates.yaml"));
}

#[test]
fn what_every_server_has_is_left_out() {
    check(named("v1", "Namespace", "", "kube-system"), Err("creates its own"));
    check(named("coordination.k8s.io/v1", "Lease", "kube-system", "l"), Err("holders renew"));
    check(named("networking.k8s.io/v1", "IPAddress", "", "10.0.0.2"), Err("allocates addresses"));
    let mut role = named("rbac.authorization.k8s.io/v1", "ClusterRole", "", "admin");
    role["metadata"]["labels"] = json!({"kubernetes.io/bootstrapping": "rbac-defaults"});
    check(role, Err("creates its own"));
    for (ty, reason) in
        [("kubernetes.io/service-account-token", "uid of its account"), ("flotilla.dev/console-session", "console")]
    {
        let mut secret = named("v1", "Secret", "shop", "s");
        secret["type"] = ty.into();
        check(secret, Err(reason));
    }
}

#[test]
fn permanent_ids_stay_and_fields_of_the_server_go() {
    let mut binding = named("work.karmada.io/v1alpha2", "ResourceBinding", "shop", "b");
    binding["metadata"]["labels"] = json!({"resourcebinding.karmada.io/permanent-id": "id1"});
    binding["metadata"]["annotations"] = json!({"flotilla.dev/failover-history": "[]", "note": "n"});
    binding["spec"] = json!({"resource": {"kind": "Deployment", "name": "web", "uid": "u", "resourceVersion": "5"},
        "clusters": [{"name": "m1", "replicas": 2, "components": [{"name": "c"}]}]});
    let plan = plan(vec![binding]);
    let expected = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": "b", "namespace": "shop", "labels": {"resourcebinding.karmada.io/permanent-id": "id1"},
            "annotations": {"note": "n"}},
        "spec": {"resource": {"kind": "Deployment", "name": "web"}, "clusters": [{"name": "m1", "replicas": 2}]}});
    assert_eq!(plan.files[0].objects[0].to_value(), expected);
    let removed: Vec<&str> = plan.removed.keys().map(String::as_str).collect();
    assert_eq!(removed, ["metadata.annotations[flotilla.dev/failover-history]", "spec.clusters[].components"]);
    let report = export_report(&plan);
    assert!(report.contains("1  metadata.annotations[flotilla.dev/failover-history]\n"), "{report}");
    assert!(report.contains("ResilientFailover"), "{report}");
}

#[test]
fn addresses_of_services_are_allocated_again() {
    for (address, kept) in [("10.0.3.4", json!({})), ("None", json!({"clusterIP": "None", "clusterIPs": ["None"]}))] {
        let mut service = named("v1", "Service", "shop", "s");
        service["spec"] = json!({"clusterIP": address, "clusterIPs": [address]});
        assert_eq!(plan(vec![service]).files[0].objects[0].to_value()["spec"], kept);
    }
}

#[test]
fn objects_being_deleted_are_listed_and_not_exported() {
    let mut deployment = named("apps/v1", "Deployment", "shop", "web");
    deployment["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let plan = plan(vec![deployment]);
    assert_eq!((plan.files.len(), plan.deleting.as_slice()), (0, &["Deployment.apps shop/web".to_owned()][..]));
}

#[test]
fn files_are_yaml_documents() {
    let plan = plan(vec![named("v1", "Namespace", "", "a"), named("v1", "Namespace", "", "b")]);
    let text = plan.files[0].text();
    assert_eq!(text.matches("---\n").count(), 1, "{text}");
    assert!(text.contains("name: a\n") && text.contains("name: b\n"), "{text}");
}
