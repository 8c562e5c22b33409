//! Slices of a member in, Works of the control plane out.

use serde_json::{Value, json};

use super::*;
use crate::works::WorkChange;

fn object(value: Value) -> Arc<Object> {
    Arc::new(Object::from_value(value).expect("a map"))
}

fn slice(name: &str, service: &str, controller: &str) -> Arc<Object> {
    object(json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": name, "namespace": "shop", "uid": "u", "labels": {
            "kubernetes.io/service-name": service, "endpointslice.kubernetes.io/managed-by": controller}},
        "endpoints": [{"addresses": ["10.0.0.1"]}]}))
}

fn service() -> ServiceKey {
    ServiceKey { namespace: "shop".into(), name: "web".into() }
}

/// The Works after the plan, and what became of earlier ones.
fn run(wanted: &[(Collector, bool)], slices: &[Arc<Object>], works: &[Arc<Object>]) -> (Vec<Arc<Object>>, Vec<String>) {
    let wanted = wanted.iter().copied().collect();
    let facts = CollectionFacts { cluster: "m1", service: &service(), wanted: &wanted, slices, works };
    let (mut after, mut done) = (Vec::new(), Vec::new());
    for change in plan_collection(&facts).changes {
        match change {
            CollectedChange::Report(desired) => {
                let existing = works.iter().find(|work| work.name() == desired.name);
                match desired.plan(existing.map(|work| &**work)).expect("plans") {
                    WorkChange::Create(work) => after.push(Arc::new(work)),
                    WorkChange::Unchanged => done.push("unchanged".to_owned()),
                    WorkChange::Patch(patch) => done.push(patch["metadata"]["labels"].to_string()),
                }
            }
            CollectedChange::Release(_, Released::Delete) => done.push("deleted".to_owned()),
            CollectedChange::Release(_, Released::Relabel(work)) => {
                done.push("relabelled".to_owned());
                after.push(Arc::new(*work));
            }
        }
    }
    (after, done)
}

const SERVICE: (Collector, bool) = (Collector::Service, true);
const EXPORT: (Collector, bool) = (Collector::Export, true);

#[test]
fn a_slice_is_reported_with_karmadas_labels_and_finalizers() {
    let slices = [slice("web-1", "web", "endpointslice-controller.k8s.io")];
    let (works, _) = run(&[SERVICE, (Collector::Export, false)], &slices, &[]);
    let work = &works[0];
    assert_eq!(
        (work.namespace(), work.name()),
        ("karmada-es-m1", work_name("EndpointSlice", "web-1", "shop").as_str())
    );
    let labels: BTreeMap<_, _> = work.labels().collect();
    let expected =
        [(LABEL_SLICE_MANAGED_BY, "MultiClusterService"), (SERVICE_NAME, "web"), (SERVICE_NAMESPACE, "shop")];
    assert_eq!(labels, expected.into());
    assert_eq!(work.finalizers().collect::<Vec<_>>(), [FINALIZER_SLICE_DISPATCH]);
    assert!(is_collected(work));

    let (works, _) = run(&[SERVICE, EXPORT], &slices, &[]);
    assert_eq!(works[0].label(LABEL_SLICE_MANAGED_BY), Some("MultiClusterService.ServiceExport"));
    assert_eq!(works[0].finalizers().collect::<Vec<_>>(), [FINALIZER_SLICE_DISPATCH, FINALIZER_SLICES]);
    let (_, done) = run(&[SERVICE, EXPORT], &slices, &works);
    assert_eq!(done, ["unchanged"]);
}

#[test]
fn a_slice_that_is_gone_or_not_wanted_leaves_the_works_of_other_collectors() {
    let slices = [slice("web-1", "web", "")];
    let (both, _) = run(&[SERVICE, EXPORT], &slices, &[]);
    assert_eq!(run(&[SERVICE, EXPORT], &[], &both).1, ["deleted"]);
    assert_eq!(run(&[(Collector::Service, false), (Collector::Export, false)], &slices, &both).1, ["deleted"]);
    // One collector is not switched on here: its marks stay.
    let (left, done) = run(&[(Collector::Service, false)], &[], &both);
    assert_eq!(done, ["relabelled"]);
    assert_eq!(left[0].label(LABEL_SLICE_MANAGED_BY), Some("ServiceExport"));
    assert_eq!((left[0].label(SERVICE_NAME), left[0].label(LABEL_SLICE_NAME)), (None, Some("web")));
    // Both are, and one wants it no more.
    let (_, done) = run(&[(Collector::Service, false), EXPORT], &slices, &both);
    let expected = json!({LABEL_SLICE_MANAGED_BY: "ServiceExport", SERVICE_NAME: null, SERVICE_NAMESPACE: null});
    assert_eq!(done, [expected.to_string()]);
}

#[test]
fn slices_of_the_control_plane_and_of_other_services_are_not_collected() {
    let slices = [
        slice("a", "web", "endpointslice-dispatch-controller.karmada.io"),
        slice("b", "web", "endpointslice-controller.karmada.io"),
        slice("c", "other", ""),
        slice("d", "", ""),
    ];
    assert_eq!(run(&[SERVICE, EXPORT], &slices, &[]), (vec![], vec![]));
}

#[test]
fn the_number_and_size_of_slices_are_bounded() {
    let many: Vec<_> = (0..=SLICES_PER_SERVICE_MAX).map(|n| slice(&format!("web-{n:04}"), "web", "")).collect();
    let wanted = [SERVICE].into();
    let service = service();
    let facts = |slices| CollectionFacts { cluster: "m1", service: &service, wanted: &wanted, slices, works: &[] };
    let plan = plan_collection(&facts(&many));
    assert_eq!(plan.changes.len(), SLICES_PER_SERVICE_MAX);
    assert_eq!(plan.refused, [SliceRefusal::TooMany { cluster: "m1".into(), service: "shop/web".into() }]);

    let mut large = Object::clone(&many[0]);
    large.set(&["endpoints"], vec![json!({"addresses": ["10.0.0.1"]}); 1001]);
    let large = [Arc::new(large)];
    let plan = plan_collection(&facts(&large));
    assert!(plan.changes.is_empty() && matches!(plan.refused[..], [SliceRefusal::TooLarge { .. }]));
}

#[test]
fn works_request_slices_while_applied() {
    let export = |status: &str| {
        object(json!({"metadata": {"name": "w", "namespace": "karmada-es-m1"}, "spec": {"workload": {"manifests": [
            {"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceExport",
                "metadata": {"name": "web", "namespace": "shop"}}]}},
            "status": {"conditions": [{"type": "Applied", "status": status}]}}))
    };
    assert_eq!(wanted_by(&export("True")), [(Collector::Export, service())]);
    assert_eq!(wanted_by(&export("False")), []);
    let mut ending = Object::clone(&export("True"));
    ending.set(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(wanted_by(&ending), []);
    let provided =
        object(json!({"metadata": {"name": "w", "labels": {SERVICE_NAMESPACE: "shop", SERVICE_NAME: "web"}},
        "spec": {"workload": {"manifests": [{"apiVersion": "networking.karmada.io/v1alpha1",
            "kind": "MultiClusterService", "metadata": {"name": "web", "namespace": "shop"}}]}}}));
    assert_eq!(wanted_by(&provided), [(Collector::Service, service())]);
    assert!(collected_for(&provided).is_empty());
}
