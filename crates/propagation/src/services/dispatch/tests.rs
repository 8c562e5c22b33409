//! Collected slices in, Works of consumers and refusals out.

use serde_json::json;

use super::*;
use crate::works::WorkChange;

fn object(value: Value) -> Arc<Object> {
    Arc::new(Object::from_value(value).expect("a map"))
}

fn mcs() -> Arc<Object> {
    object(json!({"apiVersion": "networking.karmada.io/v1alpha1", "kind": "MultiClusterService",
        "metadata": {"name": "web", "namespace": "shop"}, "spec": {"types": ["CrossCluster"]}}))
}

/// A Work with a collected slice, as member-sync reports it.
fn collected(cluster: &str, name: &str, address: &str) -> Value {
    json!({"metadata": {"name": work_name(SLICE_KIND, name, "shop"), "namespace": execution_namespace(cluster),
            "labels": {SERVICE_NAME: "web", SERVICE_NAMESPACE: "shop"}},
        "spec": {"suspendDispatching": true, "workload": {"manifests": [
            {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
                "metadata": {"name": name, "namespace": "shop", "labels": {LABEL_SLICE_SERVICE: "web", "own": "x"},
                    "annotations": {"note": "y"}, "ownerReferences": [{"uid": "o"}]},
                "endpoints": [{"addresses": [address]}], "ports": [{"port": 80}], "unknown": true}]}}})
}

fn plan(works: &[Arc<Object>], providers: &[&str], consumers: &[&str]) -> DispatchPlan {
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
    let clusters = Clusters { providers: set(providers), consumers: set(consumers) };
    let service = mcs();
    let facts = DispatchFacts {
        service: Some(&service),
        able: &clusters.consumers,
        clusters: &clusters,
        works,
        other_work: &|_, _| None,
    };
    plan_dispatch(&facts)
}

fn created(plan: DispatchPlan) -> Vec<Arc<Object>> {
    let create = |work: DesiredWork| match work.plan(None).expect("plans") {
        WorkChange::Create(work) => Arc::new(work),
        other => panic!("{other:?}"),
    };
    plan.works.into_iter().map(create).collect()
}

#[test]
fn a_slice_is_copied_to_every_other_consumer_with_karmadas_names() {
    let works = [object(collected("m1", "web-1", "10.0.0.1"))];
    let works = created(plan(&works, &["m1"], &["m1", "m2", "m3"]));
    let namespaces: Vec<&str> = works.iter().map(|work| work.namespace()).collect();
    assert_eq!(namespaces, ["karmada-es-m2", "karmada-es-m3"]);
    let work = &works[0];
    assert_eq!(work.name(), work_name(SLICE_KIND, "web-1", "shop"), "the name of the source");
    assert_eq!(work.annotation(ANNOTATION_SLICE_PROVIDER), Some("m1"));
    assert_eq!(work.finalizers().collect::<Vec<_>>(), [api::work::FINALIZER_EXECUTION]);
    assert_eq!(work.bool_at(&["spec", "suspendDispatching"]), None);
    let slice = carried_slice(work).expect("a slice");
    assert_eq!(slice["metadata"]["name"], "m1-web-1");
    let labels =
        json!({LABEL_SLICE_SERVICE: "web", LABEL_SLICE_CONTROLLER: CONTROLLER_DISPATCH, "karmada.io/managed": "true"});
    assert_eq!(slice["metadata"]["labels"], labels);
    assert!(slice["unknown"].is_null() && slice["metadata"]["annotations"]["note"].is_null());
    let source = ("karmada-es-m1".to_owned(), work.name().to_owned());
    assert_eq!(source_of(work), Some(source));
}

/// The refusals and the number of Works for one source that was changed.
#[track_caller]
fn check(change: impl Fn(&mut Value), expected: &str) {
    let mut work = collected("m1", "web-1", "10.0.0.1");
    change(&mut work);
    let plan = plan(&[object(work)], &["m1"], &["m2"]);
    let refused: Vec<String> = plan.refused.iter().map(ToString::to_string).collect();
    assert!(refused.join(";").contains(expected), "{refused:?}");
    assert_eq!(plan.works.len(), usize::from(expected.is_empty()), "{refused:?}");
}

#[test]
fn a_member_dispatches_only_slices_of_services_it_provides() {
    fn slice(work: &mut Value) -> &mut Value {
        &mut work["spec"]["workload"]["manifests"][0]
    }
    check(|_| {}, "");
    check(
        |work| work["metadata"]["namespace"] = json!("karmada-es-m9"),
        "cluster m9 does not provide service shop/web",
    );
    check(|work| slice(work)["metadata"]["namespace"] = json!("kube-system"), "does not have the name");
    check(
        |work| {
            slice(work)["metadata"]["namespace"] = json!("bank");
            work["metadata"]["name"] = json!(work_name(SLICE_KIND, "web-1", "bank"));
        },
        "does not belong to service shop/web",
    );
    check(|work| slice(work)["metadata"]["labels"][LABEL_SLICE_SERVICE] = json!("vault"), "does not belong to service");
    check(|work| work["metadata"]["name"] = json!("another"), "does not have the name");
    check(
        |work| slice(work)["metadata"]["labels"][LABEL_SLICE_CONTROLLER] = json!(CONTROLLER_DISPATCH),
        "is managed by",
    );
    check(|work| slice(work)["endpoints"] = json!(vec![json!({"addresses": ["10.0.0.1"]}); 1001]), "has more than");
    check(|work| slice(work)["endpoints"][0]["hostname"] = json!("x".repeat(400_000)), "has more than");
}

#[test]
fn works_that_carry_anything_else_are_ignored() {
    for change in [
        json!({"spec": {"suspendDispatching": false}}),
        json!({"spec": {"workload": {"manifests": [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "web-1"}}]}}}),
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
    ] {
        let mut work = Object::clone(&object(collected("m1", "web-1", "10.0.0.1"))).into_value();
        json_patch::merge(&mut work, &change);
        let plan = plan(&[object(work)], &["m1"], &["m2"]);
        assert_eq!((plan.works.len(), plan.sources), (0, 0), "{change}");
    }
}

#[test]
fn the_number_of_slices_of_a_provider_is_bounded() {
    let works: Vec<_> =
        (0..SLICES_PER_SERVICE_MAX + 3).map(|n| object(collected("m1", &format!("web-{n:04}"), "10.0.0.1"))).collect();
    let plan = plan(&works, &["m1"], &["m2"]);
    assert_eq!((plan.works.len(), plan.refused.len()), (SLICES_PER_SERVICE_MAX, 1));
}

#[test]
fn copies_are_deleted_with_their_source_consumer_or_service() {
    let source = object(collected("m1", "web-1", "10.0.0.1"));
    let copies = created(plan(std::slice::from_ref(&source), &["m1"], &["m2", "m3"]));
    let all = || [vec![Arc::clone(&source)], copies.clone()].concat();
    let deleted = |plan: DispatchPlan| plan.deletes.iter().map(|work| work.namespace().to_owned()).collect::<Vec<_>>();
    assert!(deleted(plan(&all(), &["m1"], &["m2", "m3"])).is_empty());
    assert_eq!(deleted(plan(&all(), &["m1"], &["m2"])), ["karmada-es-m3"]);
    assert_eq!(deleted(plan(&all(), &["m2"], &["m2", "m3"])), ["karmada-es-m2", "karmada-es-m3"]);
    assert_eq!(deleted(plan(&copies, &["m1"], &["m2", "m3"])), ["karmada-es-m2", "karmada-es-m3"]);
    let facts = DispatchFacts {
        service: None,
        clusters: &Clusters::default(),
        able: &BTreeSet::new(),
        works: &all(),
        other_work: &|_, _| None,
    };
    assert_eq!(deleted(plan_dispatch(&facts)), ["karmada-es-m2", "karmada-es-m3"]);
}

#[test]
fn an_unreachable_consumer_keeps_its_copies_and_gets_no_new_ones() {
    let source = object(collected("m1", "web-1", "10.0.0.1"));
    let copies = created(plan(std::slice::from_ref(&source), &["m1"], &["m2"]));
    let works = [vec![source], copies].concat();
    let clusters = Clusters { providers: ["m1".to_owned()].into(), consumers: ["m2".to_owned()].into() };
    let service = mcs();
    let facts = DispatchFacts {
        service: Some(&service),
        clusters: &clusters,
        able: &BTreeSet::new(),
        works: &works,
        other_work: &|_, _| None,
    };
    let plan = plan_dispatch(&facts);
    assert_eq!((plan.works.len(), plan.deletes.len()), (0, 0));
}

#[test]
fn existing_names_are_not_overwritten() {
    // Two providers, one name of slice: the second copy gets a Work of another name.
    let works = [object(collected("m1", "web-1", "10.0.0.1")), object(collected("m2", "web-1", "10.0.0.2"))];
    let first = created(plan(&works[..1], &["m1", "m2"], &["m3"]));
    let names: Vec<String> = plan(&[&works[..], &first[..]].concat(), &["m1", "m2"], &["m3"])
        .works
        .iter()
        .map(|work| work.name.clone())
        .collect();
    assert_eq!(names, [work_name(SLICE_KIND, "web-1", "shop"), work_name(SLICE_KIND, "m2-web-1", "shop")]);
    // Clusters a and a-b: the same name of slice in the consumer.
    let works = [object(collected("a", "b-c", "10.0.0.1")), object(collected("a-b", "c", "10.0.0.2"))];
    let plan = plan(&works, &["a", "a-b"], &["m3"]);
    assert_eq!(plan.works.len(), 1);
    let refused: Vec<String> = plan.refused.iter().map(ToString::to_string).collect();
    assert_eq!(refused, ["EndpointSlice a-b-c exists already and is not one of cluster a-b"]);
}

#[test]
fn an_address_that_two_clusters_have_is_reported() {
    let works = [object(collected("m1", "web-1", "10.0.0.1")), object(collected("m2", "web-2", "10.0.0.1"))];
    let shown = |consumers: &[&str]| unreachable_message(&plan(&works, &["m1", "m2"], consumers).unreachable);
    let text = "pods of m2 cannot reach m1: both clusters have an endpoint with address 10.0.0.1, so their pod networks overlap";
    assert_eq!(shown(&["m2", "m3"]), text);
    assert_eq!(shown(&["m3"]), "");
    let apart = [object(collected("m1", "web-1", "10.0.0.1")), object(collected("m2", "web-2", "10.0.0.2"))];
    assert!(plan(&apart, &["m1", "m2"], &["m1", "m2"]).unreachable.is_empty());
}
