//! Cases of works: new, as desired, different, going away; and which members they are for.

use api::policy::{Placement, ReplicaSchedulingStrategy, SuspendClusters};
use api::work::{BindingSnapshot, BindingSuspension, GracefulEvictionTask, TargetCluster};

use super::*;

fn object(value: Value) -> Object {
    Object::from_value(value).expect("a map")
}

fn template() -> Object {
    object(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "nginx", "namespace": "default",
        "uid": "u-1", "generation": 3, "resourceVersion": "7", "labels": {"app": "nginx"}},
        "spec": {"replicas": 2}, "status": {"replicas": 2}}))
}

const BINDING: BindingRef<'_> = BindingRef { namespace: "default", name: "nginx-deployment", id: "b-1" };

fn desired(spec: &BindingSpec, manifest: Object) -> DesiredWork {
    let overrides = Recorded { cluster: None, namespaced: Some("[]".to_owned()) };
    DesiredWork::of_binding(Delivery {
        binding: BINDING,
        spec,
        cluster: "m1",
        manifest,
        overrides,
        preserved_labels: None,
    })
}

fn stored(change: WorkChange) -> Object {
    let WorkChange::Create(mut work) = change else { panic!("{change:?} makes nothing") };
    // Set by admission.
    work.set_label(LABEL_WORK_ID, "w-1");
    let mut manifest = object(work.items(&["spec", "workload", "manifests"])[0].clone());
    record_managed(&mut manifest, Some("w-1"));
    work.set(&["spec", "workload", "manifests"], vec![manifest.into_value()]);
    work.set(&["metadata", "resourceVersion"], "9");
    work.set(&["metadata", "uid"], "u-w");
    work
}

#[test]
fn a_new_work_has_the_template_and_its_origin() {
    let work = stored(desired(&BindingSpec::default(), template()).plan(None).expect("planned"));
    let expected = json!({
        "apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
        "metadata": {
            "name": "nginx-687f7fb96f", "namespace": "karmada-es-m1", "resourceVersion": "9", "uid": "u-w",
            "finalizers": ["karmada.io/execution-controller"],
            "labels": {"resourcebinding.karmada.io/permanent-id": "b-1", "work.karmada.io/permanent-id": "w-1"},
            "annotations": {
                "policy.karmada.io/applied-overrides": "[]",
                "resourcebinding.karmada.io/name": "nginx-deployment",
                "resourcebinding.karmada.io/namespace": "default",
                "work.karmada.io/conflict-resolution": "abort",
            },
        },
        "spec": {"suspendDispatching": false, "preserveResourcesOnDeletion": false, "workload": {"manifests": [{
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "nginx", "namespace": "default",
                "labels": {"app": "nginx", "karmada.io/managed": "true",
                    "resourcebinding.karmada.io/permanent-id": "b-1", "work.karmada.io/permanent-id": "w-1"},
                "annotations": {
                    "resourcebinding.karmada.io/name": "nginx-deployment",
                    "resourcebinding.karmada.io/namespace": "default",
                    "resourcetemplate.karmada.io/generation": "3",
                    "resourcetemplate.karmada.io/uid": "u-1",
                    "work.karmada.io/conflict-resolution": "abort",
                    "work.karmada.io/name": "nginx-687f7fb96f",
                    "work.karmada.io/namespace": "karmada-es-m1",
                    "resourcetemplate.karmada.io/managed-annotations": "resourcebinding.karmada.io/name,\
    resourcebinding.karmada.io/namespace,resourcetemplate.karmada.io/generation,\
    resourcetemplate.karmada.io/managed-annotations,resourcetemplate.karmada.io/managed-labels,\
    resourcetemplate.karmada.io/uid,work.karmada.io/conflict-resolution,work.karmada.io/name,work.karmada.io/namespace",
                    "resourcetemplate.karmada.io/managed-labels":
                        "app,karmada.io/managed,resourcebinding.karmada.io/permanent-id,work.karmada.io/permanent-id",
                },
            },
            "spec": {"replicas": 2},
        }]}},
    });
    assert_eq!(work.to_value(), expected);
}

#[test]
fn an_up_to_date_work_is_not_written() {
    let spec = BindingSpec::default();
    let mut work = stored(desired(&spec, template()).plan(None).expect("planned"));
    work.set_annotation("of-others", "x");
    assert_eq!(desired(&spec, template()).plan(Some(&work)), Ok(WorkChange::Unchanged));
}

#[test]
fn only_differences_are_written() {
    let mut spec = BindingSpec::default();
    let work = stored(desired(&spec, template()).plan(None).expect("planned"));
    spec.suspension = Some(BindingSuspension { dispatching: Some(true), ..Default::default() });
    let change = desired(&spec, template()).plan(Some(&work));
    let expected = json!({"metadata": {"resourceVersion": "9", "uid": "u-w"}, "spec": {"suspendDispatching": true}});
    assert_eq!(change, Ok(WorkChange::Patch(expected)));

    let mut changed = template();
    changed.set(&["spec", "replicas"], 5);
    let Ok(WorkChange::Patch(patch)) = desired(&BindingSpec::default(), changed).plan(Some(&work)) else {
        panic!("nothing to write")
    };
    assert_eq!(patch["spec"]["workload"]["manifests"][0]["spec"], json!({"replicas": 5}));
    assert_eq!(patch["metadata"], json!({"resourceVersion": "9", "uid": "u-w"}));
}

#[test]
fn a_work_being_deleted_is_waited_for() {
    let spec = BindingSpec::default();
    let mut work = stored(desired(&spec, template()).plan(None).expect("planned"));
    work.set(&["metadata", "deletionTimestamp"], "2026-11-16T00:00:00Z");
    let error = desired(&spec, template()).plan(Some(&work)).expect_err("it is going away");
    assert_eq!(error.to_string(), "work karmada-es-m1/nginx-687f7fb96f is being deleted");
}

#[test]
fn works_of_cluster_bindings_name_them_by_name_and_id() {
    let spec = BindingSpec { conflict_resolution: "Overwrite".to_owned(), ..Default::default() };
    let manifest = object(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}));
    let work = DesiredWork::of_binding(Delivery {
        binding: BindingRef { namespace: "", ..BINDING },
        spec: &spec,
        cluster: "m1",
        manifest,
        overrides: Recorded { cluster: Some("[1]".to_owned()), namespaced: None },
        preserved_labels: Some(&BTreeMap::from([("state".to_owned(), "s".to_owned())])),
    });
    assert_eq!(work.name, "default-5b5ccb595b");
    assert_eq!(
        json!(work.annotations),
        json!({"clusterresourcebinding.karmada.io/name": "nginx-deployment",
            "policy.karmada.io/applied-cluster-overrides": "[1]", "work.karmada.io/conflict-resolution": "overwrite"})
    );
    assert_eq!(json!(work.labels), json!({"clusterresourcebinding.karmada.io/permanent-id": "b-1"}));
    assert_eq!(work.manifest.label("state"), Some("s"));
    assert_eq!(work.manifest.annotation("resourcetemplate.karmada.io/generation"), None);
}

#[test]
fn the_template_decides_conflicts_before_the_binding() {
    for (annotation, binding, expected) in [
        (None, "", "abort"),
        (None, "Abort", "abort"),
        (None, "Overwrite", "overwrite"),
        (Some("overwrite"), "Abort", "overwrite"),
        (Some("abort"), "Overwrite", "abort"),
        (Some("nonsense"), "Overwrite", "overwrite"),
        (Some("nonsense"), "", "abort"),
    ] {
        let mut template = template();
        if let Some(annotation) = annotation {
            template.set_annotation(ANNOTATION_CONFLICT_RESOLUTION, annotation);
        }
        let spec = BindingSpec { conflict_resolution: binding.to_owned(), ..Default::default() };
        assert_eq!(conflict_resolution(&template, &spec), expected, "{annotation:?} {binding}");
    }
}

fn target(name: &str, replicas: i32) -> TargetCluster {
    TargetCluster { name: name.to_owned(), replicas, ..TargetCluster::default() }
}

fn task(cluster: &str, purge_mode: &str) -> GracefulEvictionTask {
    GracefulEvictionTask { from_cluster: cluster.to_owned(), purge_mode: purge_mode.to_owned(), ..Default::default() }
}

#[test]
fn works_exist_for_scheduled_required_and_gracefully_evicted_clusters() {
    let spec = BindingSpec {
        clusters: vec![target("m1", 1), target("m2", 2)],
        required_by: vec![
            BindingSnapshot { clusters: vec![target("m2", 9), target("m3", 3)], ..Default::default() },
            BindingSnapshot { clusters: vec![target("m3", 8), target("m4", 4)], ..Default::default() },
        ],
        graceful_eviction_tasks: vec![task("m5", "Gracefully"), task("m6", "Directly"), task("m7", "Immediately")],
        ..Default::default()
    };
    assert_eq!(targets(&spec), [target("m1", 1), target("m2", 2), target("m3", 3), target("m4", 4)]);
    assert_eq!(existing_clusters(&spec).into_iter().collect::<Vec<_>>(), ["m1", "m2", "m3", "m4", "m5"]);
    assert_eq!(purged_first(&spec).into_iter().collect::<Vec<_>>(), ["m6", "m7"]);
}

#[test]
fn dispatching_is_suspended_for_all_or_for_named_clusters() {
    let named = SuspendClusters { cluster_names: vec!["m1".to_owned()] };
    for (suspension, expected) in [
        (None, false),
        (Some(BindingSuspension::default()), false),
        (Some(BindingSuspension { dispatching: Some(true), ..Default::default() }), true),
        (Some(BindingSuspension { scheduling: Some(true), ..Default::default() }), false),
        (Some(BindingSuspension { dispatching_on_clusters: Some(named.clone()), ..Default::default() }), true),
        (
            Some(BindingSuspension {
                dispatching: Some(false),
                dispatching_on_clusters: Some(named),
                ..Default::default()
            }),
            true,
        ),
    ] {
        let spec = BindingSpec { suspension: suspension.clone(), ..Default::default() };
        assert_eq!(is_suspended(&spec, "m1"), expected, "{suspension:?}");
        assert_eq!(is_suspended(&spec, "m2"), suspension.and_then(|s| s.dispatching) == Some(true));
    }
}

fn divided() -> Option<Placement> {
    let strategy = ReplicaSchedulingStrategy { replica_scheduling_type: "Divided".to_owned(), ..Default::default() };
    Some(Placement { replica_scheduling: Some(strategy), ..Default::default() })
}

#[test]
fn completions_of_a_divided_job_follow_its_replicas() {
    let job = |completions: Value| object(json!({"kind": "Job", "spec": {"completions": completions}}));
    let spec = BindingSpec { replicas: 3, placement: divided(), ..Default::default() };
    let targets = [target("m1", 1), target("m2", 2)];
    let shares = divide_completions(&job(json!(9)), &spec, &targets).expect("divided");
    assert_eq!(shares, BTreeMap::from([("m1", 3), ("m2", 6)]));

    assert_eq!(divide_completions(&job(Value::Null), &spec, &targets), None);
    assert_eq!(divide_completions(&template(), &spec, &targets), None);
    let duplicated = BindingSpec { replicas: 3, ..Default::default() };
    assert_eq!(divide_completions(&job(json!(9)), &duplicated, &targets), None);
    assert_eq!(divide_completions(&job(json!(9)), &spec, &[target("m1", 0)]), None);

    let mut with = job(json!(9));
    set_completions(&mut with, 3);
    assert_eq!(with, job(json!(3)));
    let mut without = job(Value::Null);
    set_completions(&mut without, 3);
    assert_eq!(without, job(Value::Null));
}

#[test]
fn state_is_injected_only_when_the_only_cluster_is_left_immediately() {
    let state = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
    let moved = |purge_mode: &str, before: &str| {
        let task = GracefulEvictionTask {
            preserved_label_state: state.clone(),
            clusters_before_failover: vec![before.to_owned()],
            ..task("m1", purge_mode)
        };
        BindingSpec { graceful_eviction_tasks: vec![task], ..Default::default() }
    };
    let one = [target("m2", 1)];
    let two = [target("m2", 1), target("m3", 1)];
    assert_eq!(preserved_labels(&moved("Directly", "m1"), &one, "m2"), Some(&state));
    assert_eq!(preserved_labels(&moved("Immediately", "m1"), &one, "m2"), Some(&state));
    assert_eq!(preserved_labels(&moved("Gracefully", "m1"), &one, "m2"), None);
    assert_eq!(preserved_labels(&moved("Directly", "m2"), &one, "m2"), None);
    assert_eq!(preserved_labels(&moved("Directly", "m1"), &two, "m2"), None);
    assert_eq!(preserved_labels(&BindingSpec::default(), &one, "m2"), None);
}
