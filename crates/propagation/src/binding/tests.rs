//! Bindings say what template and policy say, and leave alone what others write.

use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::policy_index::tests::{by_kind, deployment, policy};

fn with_spec(namespace: &str, spec: Value) -> Policy {
    let mut object = Object::clone(&policy(namespace, "p", None, by_kind()).object);
    let mut value = object.to_value();
    json_patch::merge(&mut value["spec"], &spec);
    object.set(&["spec"], value["spec"].take());
    Policy::read(Arc::new(object)).expect("readable")
}

fn desired(template: &Object, policy: &Policy, interpreted: Interpreted, features: &Features) -> Object {
    desired_binding(&BindingInputs { template, policy, interpreted, schedule_priority: Some(5), features })
}

fn plain(template: &Object, policy: &Policy) -> Object {
    let inputs = BindingInputs {
        template,
        policy,
        interpreted: Interpreted::Replicas(2, None),
        schedule_priority: None,
        features: &Features::default(),
    };
    desired_binding(&inputs)
}

/// The binding as the API would hold it, with what others write.
fn stored(binding: &Object) -> Object {
    let mut binding = binding.clone();
    binding.set(&["metadata", "uid"], "b1");
    binding.set(&["metadata", "resourceVersion"], "9");
    binding.set_label(LABEL_BINDING_ID, "rb-id");
    binding.set_annotation("policy.karmada.io/applied-placement", "{}");
    binding.set(&["spec", "clusters"], json!([{"name": "m1", "replicas": 2}]));
    binding.set(&["spec", "requiredBy"], json!([{"name": "x"}]));
    binding.set(&["spec", "gracefulEvictionTasks"], json!([{"fromCluster": "m2"}]));
    binding.set(&["spec", "rescheduleTriggeredAt"], "2026-01-01T00:00:00Z");
    binding
}

#[test]
fn a_new_binding_has_all_fields_of_template_and_policy() {
    let template = deployment("a", "Web:x", json!({"app": "web"}));
    let policy = with_spec(
        "a",
        json!({"propagateDeps": true, "schedulerName": "default-scheduler", "conflictResolution": "Abort",
            "preserveResourcesOnDeletion": true, "suspension": {"dispatching": true},
            "failover": {"cluster": {"purgeMode": "Directly"}},
            "placement": {"clusterAffinity": {"clusterNames": ["m1"]}, "somethingNew": 1}}),
    );
    let requirements = ReplicaRequirements { priority_class_name: "high".into(), ..Default::default() };
    let binding = desired(&template, &policy, Interpreted::Replicas(2, Some(requirements)), &Features::default());
    let expected = json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {
            "name": "web.x-deployment", "namespace": "a",
            "labels": {"propagationpolicy.karmada.io/permanent-id": "id-a-p"},
            "annotations": {"propagationpolicy.karmada.io/namespace": "a", "propagationpolicy.karmada.io/name": "p"},
            "finalizers": ["karmada.io/binding-controller"],
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "Web:x", "uid": "u1",
                "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "a", "name": "Web:x",
                "uid": "u1", "resourceVersion": "7"},
            "propagateDeps": true, "schedulerName": "default-scheduler", "conflictResolution": "Abort",
            "preserveResourcesOnDeletion": true, "suspension": {"dispatching": true},
            "failover": {"cluster": {"purgeMode": "Directly"}},
            "placement": {"clusterAffinity": {"clusterNames": ["m1"]}, "somethingNew": 1},
            "replicas": 2, "replicaRequirements": {"priorityClassName": "high"},
            "schedulePriority": {"priority": 5},
        },
    });
    assert_eq!(binding.to_value(), expected);
}

#[test]
fn a_cluster_scoped_template_gets_a_cluster_resource_binding() {
    let template = deployment("", "web", json!({}));
    let policy = with_spec("", json!({"placement": {"workloadAffinity": {"affinity": {"groupByLabelKey": "app"}}}}));
    let features = Features { workload_affinity: true, ..Features::default() };
    let binding = desired(&template, &policy, Interpreted::Nothing, &features);
    assert_eq!((binding.kind(), binding.name(), binding.namespace()), ("ClusterResourceBinding", "web-deployment", ""));
    assert!(binding.has_finalizer(FINALIZER_CLUSTER_BINDING));
    assert_eq!(binding.label("clusterpropagationpolicy.karmada.io/permanent-id"), Some("id--p"));
    assert_eq!(binding.get(&["spec", "schedulePriority"]), None);
    assert_eq!(binding.get(&["spec", "workloadAffinityGroups"]), None);
    assert_eq!(binding.get(&["spec", "resource", "namespace"]), None);
}

#[test]
fn feature_gates_decide_about_optional_fields() {
    let template = deployment("a", "web", json!({"app": "web", "tier": "front"}));
    let policy = with_spec(
        "a",
        json!({"placement": {"workloadAffinity": {"affinity": {"groupByLabelKey": "app"},
            "antiAffinity": {"groupByLabelKey": "absent"}}}}),
    );
    let on = Features { workload_affinity: true, resource_quota_estimate: true, ..Features::default() };
    let replicas = || Interpreted::Replicas(0, Some(ReplicaRequirements::default()));
    let binding = desired(&template, &policy, replicas(), &on);
    assert_eq!(binding.get(&["spec", "workloadAffinityGroups"]), Some(&json!({"affinityGroup": "app=web"})));
    assert_eq!(binding.get(&["spec", "replicaRequirements"]), Some(&json!({"namespace": "a"})));
    assert_eq!(binding.get(&["spec", "replicas"]), None);
    let binding = desired(&template, &policy, replicas(), &Features::default());
    assert_eq!(binding.get(&["spec", "workloadAffinityGroups"]), None);
    assert_eq!(binding.get(&["spec", "replicaRequirements"]), Some(&json!({})));
    let component = Component { name: "driver".into(), replicas: 1, replica_requirements: None };
    let binding = desired(&template, &policy, Interpreted::Components(vec![component]), &on);
    assert_eq!(binding.get(&["spec", "components"]), Some(&json!([{"name": "driver", "replicas": 1}])));
}

#[test]
fn a_policy_without_placement_has_a_default_placement() {
    let binding = plain(&deployment("a", "web", json!({})), &policy("a", "p", None, by_kind()));
    assert_eq!(binding.get(&["spec", "placement"]), Some(&json!({})));
}

#[track_caller]
fn check_update(namespace: &str, change: Value, expected: &[&str]) {
    let template = deployment(namespace, "web", json!({}));
    let before = with_spec(namespace, json!({"placement": {"clusterAffinity": {"clusterNames": ["m1"]}}}));
    let existing = stored(&plain(&template, &before));
    let now = with_spec(namespace, change.clone());
    let plan = plan_binding(plain(&template, &now), Some(&existing), &now);
    let (updated, differences) = match plan {
        BindingPlan::Update(updated, differences) => (updated, differences),
        BindingPlan::Unchanged => (existing.clone(), Vec::new()),
        other => panic!("{change}: {other:?}"),
    };
    assert_eq!(differences, expected, "{change}");
    for kept in ["clusters", "requiredBy", "gracefulEvictionTasks", "rescheduleTriggeredAt"] {
        assert_eq!(updated.get(&["spec", kept]), existing.get(&["spec", kept]), "{kept} after {change}");
    }
    assert_eq!(updated.label(LABEL_BINDING_ID), Some("rb-id"));
    assert_eq!(updated.annotation("policy.karmada.io/applied-placement"), Some("{}"));
    let again = plan_binding(plain(&template, &now), Some(&updated), &now);
    assert_eq!(again, BindingPlan::Unchanged, "{change}: once is enough");
}

#[test]
fn only_fields_of_the_policy_are_updated() {
    let same = json!({"placement": {"clusterAffinity": {"clusterNames": ["m1"]}}});
    let and = |more: Value| {
        let mut spec = same.clone();
        json_patch::merge(&mut spec, &more);
        spec
    };
    check_update("a", same.clone(), &[]);
    check_update("a", json!({"placement": {"clusterAffinity": {"clusterNames": ["m2"]}}}), &["spec.placement"]);
    check_update("a", json!({}), &["spec.placement"]);
    check_update("a", and(json!({"schedulerName": "other"})), &["spec.schedulerName"]);
    check_update("a", and(json!({"conflictResolution": "Overwrite"})), &["spec.conflictResolution"]);
    check_update("a", and(json!({"preserveResourcesOnDeletion": true})), &["spec.preserveResourcesOnDeletion"]);
    check_update("a", and(json!({"failover": {"cluster": {}}})), &["spec.failover"]);
    check_update("a", and(json!({"propagateDeps": true})), &["spec.propagateDeps"]);
    check_update("", and(json!({"propagateDeps": true})), &[]);
    check_update("", and(json!({"suspension": {"dispatching": true}})), &["spec.suspension"]);
    // Fields that a policy does not pass on.
    check_update("a", and(json!({"priority": 3, "preemption": "Always", "dependentOverrides": ["o"]})), &[]);
}

#[test]
fn fields_of_the_template_are_updated() {
    let template = deployment("a", "web", json!({}));
    let policy = policy("a", "p", None, by_kind());
    let existing = stored(&plain(&template, &policy));
    let mut newer = template.clone();
    newer.set_resource_version(8);
    let BindingPlan::Update(updated, differences) = plan_binding(plain(&newer, &policy), Some(&existing), &policy)
    else {
        panic!("the version differs")
    };
    assert_eq!(differences, ONLY_VERSION);
    assert_eq!(updated.str_at(&["spec", "resource", "resourceVersion"]), "8");
    let scaled = desired(&template, &policy, Interpreted::Replicas(5, None), &Features::default());
    let BindingPlan::Update(updated, differences) = plan_binding(scaled, Some(&existing), &policy) else {
        panic!("the replicas differ")
    };
    assert_eq!(differences, ["spec.replicas", "spec.schedulePriority"]);
    assert_eq!(updated.i64_at(&["spec", "replicas"]), Some(5));
}

#[test]
fn attached_bindings_and_those_of_cluster_policies_are_taken_over() {
    let template = deployment("a", "web", json!({}));
    let (cluster, own) = (policy("", "c", None, by_kind()), policy("a", "p", None, by_kind()));
    let existing = stored(&plain(&template, &cluster));
    let BindingPlan::Update(updated, _) = plan_binding(plain(&template, &own), Some(&existing), &own) else {
        panic!("the policy differs")
    };
    assert_eq!(updated.label("clusterpropagationpolicy.karmada.io/permanent-id"), None);
    assert_eq!(updated.annotation("clusterpropagationpolicy.karmada.io/name"), None);
    assert_eq!(updated.label("propagationpolicy.karmada.io/permanent-id"), Some("id-a-p"));
}

#[test]
fn a_binding_of_an_earlier_template_or_being_deleted_is_waited_for() {
    let template = deployment("a", "web", json!({}));
    let policy = policy("a", "p", None, by_kind());
    let mut earlier = template.clone();
    earlier.set(&["metadata", "uid"], "u0");
    let old = stored(&plain(&earlier, &policy));
    assert_eq!(plan_binding(plain(&template, &policy), Some(&old), &policy), BindingPlan::WaitForCollection);
    let mut dying = stored(&plain(&template, &policy));
    dying.set(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(plan_binding(plain(&template, &policy), Some(&dying), &policy), BindingPlan::WaitForDeletion);
}

#[track_caller]
fn check_suspension(existing: Value, policy: Value, expected: Value) {
    let existing = Some(existing).filter(|value| !value.is_null());
    let merged = merged_suspension(existing.as_ref(), &with_spec("a", json!({"suspension": policy.clone()})));
    assert_eq!(merged, Some(expected).filter(|value| !value.is_null()), "{existing:?} with {policy}");
}

/// `MergePolicySuspension` (Karmada 1.18, pkg/util/binding.go).
#[test]
fn dispatching_suspension_follows_the_policy_and_scheduling_suspension_is_kept() {
    let scheduling = json!({"scheduling": true});
    let dispatching = json!({"dispatching": true});
    let both = json!({"scheduling": true, "dispatching": true});
    let on_clusters = json!({"dispatchingOnClusters": {"clusterNames": ["m1"]}});
    check_suspension(Value::Null, Value::Null, Value::Null);
    check_suspension(Value::Null, dispatching.clone(), dispatching.clone());
    check_suspension(scheduling.clone(), dispatching.clone(), both.clone());
    check_suspension(dispatching.clone(), on_clusters.clone(), on_clusters);
    check_suspension(dispatching, Value::Null, Value::Null);
    check_suspension(both, Value::Null, scheduling.clone());
    check_suspension(scheduling.clone(), Value::Null, scheduling);
}

#[test]
fn only_kubernetes_own_priority_classes_are_known() {
    let on = Features { priority_based_scheduling: true, ..Features::default() };
    let with = |source: &str| {
        with_spec("a", json!({"schedulePriority": {"priorityClassSource": source, "priorityClassName": "high"}}))
    };
    assert_eq!(wanted_priority_class(&with("KubePriorityClass"), &on), Ok(Some("high".into())));
    assert_eq!(wanted_priority_class(&with("KubePriorityClass"), &Features::default()), Ok(None));
    assert_eq!(wanted_priority_class(&with_spec("a", json!({})), &on), Ok(None));
    let error = wanted_priority_class(&with("PodPriorityClass"), &on).expect_err("not supported");
    assert_eq!(error.message, "priority class source is PodPriorityClass, but PodPriorityClass is not supported yet");
    assert!(wanted_priority_class(&with("Else"), &on).is_err());
}
