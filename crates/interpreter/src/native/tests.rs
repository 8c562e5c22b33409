//! Tables of cases for the native rules.

use api::work::AggregatedStatusItem;
use object::Object;
use serde_json::{Value, json};

use super::*;

/// The time of an aggregation.
const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn object(value: Value) -> Object {
    Object::from_value(value).expect("a map")
}

fn of_kind(api_version: &str, kind: &str, rest: Value) -> Object {
    let mut value = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "namespace": "ns"}});
    object::patch::merge::apply(&mut value, &rest).expect("merges");
    object(value)
}

fn items(list: &[(&str, Value)]) -> Vec<AggregatedStatusItem> {
    let item = |(cluster, status): &(&str, Value)| AggregatedStatusItem {
        cluster_name: (*cluster).to_owned(),
        status: (!status.is_null()).then(|| status.clone()),
        ..Default::default()
    };
    list.iter().map(item).collect()
}

#[test]
fn every_kind_has_exactly_the_rules_it_should_have() {
    use Operation as O;
    let table: &[(&str, &str, &[Operation])] = &[
        (
            "apps/v1",
            "Deployment",
            &[
                O::InterpretReplica,
                O::ReviseReplica,
                O::Retain,
                O::AggregateStatus,
                O::InterpretHealth,
                O::InterpretDependency,
            ],
        ),
        (
            "apps/v1",
            "ReplicaSet",
            &[O::InterpretReplica, O::ReviseReplica, O::AggregateStatus, O::InterpretHealth, O::InterpretDependency],
        ),
        (
            "apps/v1",
            "StatefulSet",
            &[O::InterpretReplica, O::ReviseReplica, O::AggregateStatus, O::InterpretHealth, O::InterpretDependency],
        ),
        ("apps/v1", "DaemonSet", &[O::AggregateStatus, O::InterpretHealth, O::InterpretDependency]),
        (
            "batch/v1",
            "Job",
            &[O::InterpretReplica, O::ReviseReplica, O::Retain, O::AggregateStatus, O::InterpretDependency],
        ),
        ("batch/v1", "CronJob", &[O::AggregateStatus, O::InterpretDependency]),
        (
            "v1",
            "Pod",
            &[O::InterpretReplica, O::Retain, O::AggregateStatus, O::InterpretHealth, O::InterpretDependency],
        ),
        ("v1", "Service", &[O::Retain, O::AggregateStatus, O::InterpretHealth]),
        ("v1", "ServiceAccount", &[O::Retain]),
        ("v1", "Secret", &[O::Retain]),
        ("v1", "PersistentVolume", &[O::Retain, O::AggregateStatus]),
        ("v1", "PersistentVolumeClaim", &[O::Retain, O::AggregateStatus, O::InterpretHealth]),
        ("networking.k8s.io/v1", "Ingress", &[O::AggregateStatus, O::InterpretHealth, O::InterpretDependency]),
        ("policy/v1", "PodDisruptionBudget", &[O::AggregateStatus, O::InterpretHealth]),
        ("autoscaling/v2", "HorizontalPodAutoscaler", &[O::AggregateStatus]),
        ("multicluster.x-k8s.io/v1alpha1", "ServiceImport", &[O::InterpretDependency]),
        ("apps/v1beta1", "Deployment", &[]),
        ("v1", "ConfigMap", &[]),
    ];
    for (api_version, kind, expected) in table {
        for operation in Operation::ALL {
            let expected = operation == O::InterpretStatus || expected.contains(&operation);
            assert_eq!(has_hook(api_version, kind, operation), expected, "{operation:?} of {api_version} {kind}");
        }
    }
}

#[test]
fn an_operation_without_a_rule_is_an_error() {
    let map = || of_kind("v1", "ConfigMap", json!({}));
    let error = replicas(&map(), pod::PodOptions::default()).expect_err("no rule");
    assert_eq!(error.0, "default InterpretReplica interpreter for \"/v1, Kind=ConfigMap\" not found");
    assert!(revise_replicas(of_kind("v1", "Pod", json!({})), 1).is_err());
    assert!(retain(map(), &map()).is_err());
    assert!(aggregate_status(map(), &[], NOW).is_err());
    assert!(aggregate_status(of_kind("v1", "Secret", json!({})), &[], NOW).is_err());
    assert!(dependencies(&map()).is_err());
    assert!(is_healthy(&map()).is_err());
    assert!(is_healthy(&of_kind("batch/v1", "Job", json!({}))).is_err());
}

#[test]
fn replicas_are_the_number_of_concurrent_pods() {
    let cases = [
        ("apps/v1", "Deployment", json!({"replicas": 3}), 3),
        ("apps/v1", "Deployment", json!({}), 0),
        ("apps/v1", "ReplicaSet", json!({"replicas": 2}), 2),
        ("apps/v1", "StatefulSet", json!({"replicas": 4}), 4),
        ("batch/v1", "Job", json!({"parallelism": 3}), 3),
        ("batch/v1", "Job", json!({"parallelism": 3, "completions": 2}), 2),
        ("batch/v1", "Job", json!({"parallelism": 3, "completions": 5}), 3),
        ("batch/v1", "Job", json!({"completions": 5}), 0),
        ("v1", "Pod", json!({}), 1),
    ];
    for (api_version, kind, spec, expected) in cases {
        let object = of_kind(api_version, kind, json!({"spec": spec}));
        let (found, requirements) = replicas(&object, pod::PodOptions::default()).expect("readable");
        assert_eq!((found, requirements), (expected, None), "of {kind} {spec}");
    }
    let pod = json!({"nodeSelector": {"a": "b"}});
    for (api_version, kind, spec) in [
        ("apps/v1", "Deployment", json!({"template": {"spec": pod}})),
        ("batch/v1", "Job", json!({"template": {"spec": pod}})),
        ("v1", "Pod", pod.clone()),
    ] {
        let object = of_kind(api_version, kind, json!({"spec": spec}));
        let (_, requirements) = replicas(&object, pod::PodOptions::default()).expect("readable");
        assert!(requirements.is_some_and(|r| r.node_claim.is_some()), "of {kind}");
    }
    let wrong = of_kind("apps/v1", "Deployment", json!({"spec": {"replicas": "three"}}));
    assert!(replicas(&wrong, pod::PodOptions::default()).is_err());
}

#[test]
fn replicas_are_revised_only_if_set() {
    let cases = [
        ("apps/v1", "Deployment", json!({"replicas": 1}), json!({"replicas": 7})),
        ("apps/v1", "Deployment", json!({"paused": true}), json!({"paused": true})),
        ("apps/v1", "ReplicaSet", json!({"replicas": 1}), json!({"replicas": 7})),
        ("apps/v1", "StatefulSet", json!({"replicas": 1}), json!({"replicas": 7})),
        ("batch/v1", "Job", json!({"parallelism": 1, "completions": 1}), json!({"parallelism": 7, "completions": 1})),
    ];
    for (api_version, kind, spec, expected) in cases {
        let revised = revise_replicas(of_kind(api_version, kind, json!({"spec": spec})), 7).expect("has a rule");
        assert_eq!(revised.get(&["spec"]), Some(&expected), "of {kind} {spec}");
    }
    let wrong = of_kind("apps/v1", "Deployment", json!({"spec": {"replicas": "1"}}));
    assert!(revise_replicas(wrong, 7).is_err());
}

#[test]
fn members_retain_their_own_fields() {
    let retained = json!({"metadata": {"labels": {"resourcetemplate.karmada.io/retain-replicas": "true"}}, "spec": {"replicas": 1}});
    let cases = [
        (
            "apps/v1",
            "Deployment",
            json!({"spec": {"replicas": 1}}),
            json!({"spec": {"replicas": 5}}),
            "spec",
            json!({"replicas": 1}),
        ),
        ("apps/v1", "Deployment", retained, json!({"spec": {"replicas": 5}}), "spec", json!({"replicas": 5})),
        (
            "v1",
            "Pod",
            json!({"spec": {"serviceAccountName": "mine", "nodeName": "here",
                "containers": [{"name": "a", "image": "new"}, {"name": "b", "volumeMounts": [{"name": "mine"}]}],
                "initContainers": [{"name": "i"}]}}),
            json!({"spec": {"serviceAccountName": "theirs", "volumes": [{"name": "token"}],
                "containers": [{"name": "b"}, {"name": "a", "image": "old", "volumeMounts": [{"name": "token"}]}],
                "initContainers": [{"name": "i", "volumeMounts": [{"name": "token"}]}]}}),
            "spec",
            json!({"serviceAccountName": "theirs", "volumes": [{"name": "token"}],
                "containers": [{"name": "a", "image": "new", "volumeMounts": [{"name": "token"}]}, {"name": "b"}],
                "initContainers": [{"name": "i", "volumeMounts": [{"name": "token"}]}]}),
        ),
        (
            "v1",
            "Service",
            json!({"spec": {"type": "LoadBalancer"}}),
            json!({"spec": {"healthCheckNodePort": 31000, "clusterIP": "10.0.0.1", "ports": []}}),
            "spec",
            json!({"type": "LoadBalancer", "healthCheckNodePort": 31000, "clusterIP": "10.0.0.1"}),
        ),
        (
            "v1",
            "Service",
            json!({"spec": {"a": 1}}),
            json!({"spec": {"healthCheckNodePort": 0, "clusterIP": ""}}),
            "spec",
            json!({"a": 1}),
        ),
        (
            "v1",
            "ServiceAccount",
            json!({"secrets": [{"name": "ours"}, {"name": "both", "namespace": "kept"}]}),
            json!({"secrets": [{"name": "both"}, {"name": "token"}]}),
            "secrets",
            json!([{"name": "ours"}, {"name": "both", "namespace": "kept"}, {"name": "token"}]),
        ),
        (
            "v1",
            "ServiceAccount",
            json!({}),
            json!({"imagePullSecrets": [{"name": "p"}]}),
            "imagePullSecrets",
            json!([{"name": "p"}]),
        ),
        ("v1", "ServiceAccount", json!({}), json!({"imagePullSecrets": []}), "imagePullSecrets", Value::Null),
        (
            "v1",
            "PersistentVolumeClaim",
            json!({"spec": {}}),
            json!({"spec": {"volumeName": "pv"}}),
            "spec",
            json!({"volumeName": "pv"}),
        ),
        (
            "v1",
            "PersistentVolume",
            json!({"spec": {}}),
            json!({"spec": {"claimRef": {"name": "c"}}}),
            "spec",
            json!({"claimRef": {"name": "c"}}),
        ),
        (
            "batch/v1",
            "Job",
            json!({"spec": {"template": {"metadata": {"labels": {"app": "j"}}}}}),
            json!({"spec": {"selector": {"matchLabels": {"uid": "1"}}, "template": {"metadata": {"labels": {"app": "j", "uid": "1"}}}}}),
            "spec",
            json!({"selector": {"matchLabels": {"uid": "1"}}, "template": {"metadata": {"labels": {"app": "j", "uid": "1"}}}}),
        ),
        (
            "v1",
            "Secret",
            json!({"type": "kubernetes.io/service-account-token"}),
            json!({"data": {"token": "t"}}),
            "data",
            json!({"token": "t"}),
        ),
        (
            "v1",
            "Secret",
            json!({"type": "Opaque", "data": {"a": "b"}}),
            json!({"data": {"token": "t"}}),
            "data",
            json!({"a": "b"}),
        ),
    ];
    for (api_version, kind, desired, observed, field, expected) in cases {
        let result =
            retain(of_kind(api_version, kind, desired), &of_kind(api_version, kind, observed)).expect("has a rule");
        assert_eq!(result.get(&[field]).unwrap_or(&Value::Null), &expected, "{field} of {kind}");
    }
}

#[test]
fn retaining_missing_replicas_is_an_error() {
    let labels = json!({"metadata": {"labels": {"resourcetemplate.karmada.io/retain-replicas": "true"}}});
    let error = retain(of_kind("apps/v1", "Deployment", labels), &of_kind("apps/v1", "Deployment", json!({})));
    assert_eq!(error.expect_err("no replicas").0, "failed to get spec.replicas from Deployment ns/x");
}

/// Aggregates into a template whose generation is 3 and checks the new status.
fn check_aggregate(api_version: &str, kind: &str, template: Value, members: &[(&str, Value)], expected: Value) {
    let mut object = of_kind(api_version, kind, template);
    object.set_generation(3);
    let result = aggregate_status(object, &items(members), NOW).expect("has a rule");
    assert_eq!(result.get(&["status"]).unwrap_or(&Value::Null), &expected, "{kind} of {members:?}");
}

#[test]
fn replicated_workloads_are_summed_and_keep_other_status_fields() {
    let fresh = |counts: Value| {
        let mut status = json!({"generation": 5, "observedGeneration": 5, "resourceTemplateGeneration": 3});
        object::patch::merge::apply(&mut status, &counts).expect("merges");
        status
    };
    let stale = json!({"generation": 5, "observedGeneration": 4, "resourceTemplateGeneration": 3, "replicas": 1});
    let old_template =
        json!({"generation": 5, "observedGeneration": 5, "resourceTemplateGeneration": 2, "replicas": 1});
    let counts = json!({"replicas": 2, "readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1, "unavailableReplicas": 1});
    let kept = json!({"status": {"conditions": [{"type": "A"}], "observedGeneration": 1, "readyReplicas": 9}});
    check_aggregate(
        "apps/v1",
        "Deployment",
        kept.clone(),
        &[("a", fresh(counts.clone())), ("b", fresh(counts.clone()))],
        json!({"conditions": [{"type": "A"}], "observedGeneration": 3, "replicas": 4, "readyReplicas": 2,
            "updatedReplicas": 4, "availableReplicas": 2, "unavailableReplicas": 2}),
    );
    for late in [stale, old_template, Value::Null] {
        let replicas = 2 + late["replicas"].as_i64().unwrap_or(0);
        check_aggregate(
            "apps/v1",
            "ReplicaSet",
            kept.clone(),
            &[("a", fresh(json!({"replicas": 2, "availableReplicas": 1}))), ("b", late)],
            json!({"conditions": [{"type": "A"}], "observedGeneration": 1, "replicas": replicas, "availableReplicas": 1}),
        );
    }
    check_aggregate("apps/v1", "Deployment", json!({}), &[], json!({"observedGeneration": 3}));
    check_aggregate("apps/v1", "StatefulSet", json!({}), &[], json!({"observedGeneration": 3}));
    check_aggregate("apps/v1", "StatefulSet", json!({}), &[("a", Value::Null)], Value::Null);
    check_aggregate(
        "apps/v1",
        "StatefulSet",
        json!({}),
        &[(
            "a",
            json!({"generation": 1, "resourceTemplateGeneration": 3, "replicas": 2, "currentReplicas": 2, "readyReplicas": 2,
            "updatedReplicas": 2, "availableReplicas": 1}),
        )],
        json!({"replicas": 2, "currentReplicas": 2, "readyReplicas": 2, "updatedReplicas": 2, "availableReplicas": 1}),
    );
    let daemons = json!({"currentNumberScheduled": 1, "desiredNumberScheduled": 2, "numberAvailable": 3,
        "numberMisscheduled": 4, "numberReady": 5, "updatedNumberScheduled": 6, "numberUnavailable": 7});
    check_aggregate(
        "apps/v1",
        "DaemonSet",
        json!({}),
        &[("a", fresh(daemons.clone())), ("b", fresh(daemons))],
        json!({"observedGeneration": 3, "currentNumberScheduled": 2, "desiredNumberScheduled": 4, "numberAvailable": 6,
            "numberMisscheduled": 8, "numberReady": 10, "updatedNumberScheduled": 12, "numberUnavailable": 14}),
    );
}

#[test]
fn addresses_of_all_members_are_one_sorted_list_without_repetitions() {
    let lb = |ingress: Value| json!({"loadBalancer": {"ingress": ingress}});
    let service = json!({"spec": {"type": "LoadBalancer"}, "status": {"conditions": [{"type": "gone"}]}});
    check_aggregate(
        "v1",
        "Service",
        service.clone(),
        &[
            (
                "a",
                lb(json!([{"ip": "2.2.2.2", "ports": [{"port": 81, "protocol": "TCP"}]}, {"hostname": "b.example"}])),
            ),
            (
                "b",
                lb(
                    json!([{"ip": "2.2.2.2", "ports": [{"port": 80, "protocol": "TCP"}, {"port": 81, "protocol": "TCP"}]}]),
                ),
            ),
            ("c", lb(json!([{"ip": "1.1.1.1"}, {"hostname": "a.example"}, {"ip": "2.2.2.2", "ipMode": "VIP"}]))),
            ("d", Value::Null),
        ],
        lb(
            json!([{"hostname": "a.example"}, {"hostname": "b.example"}, {"ip": "1.1.1.1"}, {"ip": "2.2.2.2", "ipMode": "VIP"},
            {"ip": "2.2.2.2", "ports": [{"port": 80, "protocol": "TCP"}, {"port": 81, "protocol": "TCP"}]}]),
        ),
    );
    check_aggregate("v1", "Service", service, &[], json!({"loadBalancer": {}}));
    let plain = json!({"spec": {"type": "ClusterIP"}, "status": {"a": 1}});
    check_aggregate("v1", "Service", plain, &[("a", lb(json!([{"ip": "1.1.1.1"}])))], json!({"a": 1}));
    check_aggregate(
        "networking.k8s.io/v1",
        "Ingress",
        json!({}),
        &[("a", lb(json!([{"ip": "1.1.1.1"}]))), ("b", lb(json!([{"ip": "1.1.1.1"}, {"hostname": "h"}])))],
        lb(json!([{"hostname": "h"}, {"ip": "1.1.1.1"}])),
    );
}

#[test]
fn the_conditions_of_a_job_carry_the_time_of_the_aggregation() {
    let complete = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    let job = of_kind("batch/v1", "Job", json!({}));
    let job = aggregate_status(job, &items(&[("a", complete)]), NOW).expect("has a rule");
    assert_eq!(job.items(&["status", "conditions"])[0]["lastTransitionTime"], "1970-01-01T00:00:00Z");
}

#[test]
fn a_job_ends_when_all_members_are_done_or_one_failed() {
    let done = |extra: Value| {
        let mut status = json!({"succeeded": 1, "startTime": "2026-01-01T00:00:00Z",
            "completionTime": "2026-01-01T01:00:00Z", "conditions": [{"type": "Complete", "status": "True"}]});
        object::patch::merge::apply(&mut status, &extra).expect("merges");
        status
    };
    let result = |template: Value, members: &[(&str, Value)]| {
        let job = aggregate_status(of_kind("batch/v1", "Job", template), &items(members), NOW).expect("has a rule");
        let mut status = job.get(&["status"]).cloned().unwrap_or_default();
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let shown: Vec<String> = conditions
            .iter()
            .map(|c| format!("{}={} {} {}", c["type"], c["status"], c["reason"], c["message"]).replace('"', ""))
            .collect();
        if let Some(map) = status.as_object_mut() {
            map.remove("conditions");
        }
        (shown, status)
    };
    let later = done(json!({"startTime": "2026-01-01T00:30:00Z", "completionTime": "2026-01-01T00:59:00Z"}));
    let (conditions, rest) = result(json!({}), &[("a", done(json!({}))), ("b", later.clone())]);
    assert_eq!(conditions, ["Complete=True Completed Job completed"]);
    assert_eq!(
        rest,
        json!({"succeeded": 2, "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T01:00:00Z"})
    );

    let criteria = json!({"conditions": [{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}]});
    let (conditions, _) = result(json!({}), &[("a", done(criteria))]);
    assert_eq!(
        conditions,
        [
            "Complete=True Completed Job completed",
            "SuccessCriteriaMet=True CompletionsReached All member clusters have met success criteria"
        ]
    );

    let failed = json!({"failed": 1, "conditions": [{"type": "Failed", "status": "True"}]});
    let (conditions, rest) = result(json!({}), &[("a", failed.clone()), ("b", done(json!({}))), ("c", failed)]);
    assert_eq!(conditions, ["Failed=True JobFailed Job executed failed in member clusters a,c"]);
    assert_eq!(rest, json!({"failed": 2, "succeeded": 1}), "neither all started nor all completed");

    let (conditions, rest) = result(json!({"status": {"startTime": "2025-01-01T00:00:00Z"}}), &[("a", Value::Null)]);
    assert_eq!((conditions, rest), (vec![], json!({"startTime": "2025-01-01T00:00:00Z"})));
    assert_eq!(result(json!({}), &[]), (vec![], json!({})));

    let over = json!({"status": {"active": 9, "conditions": [{"type": "Failed", "status": "True"}]}});
    let (_, rest) = result(over, &[("a", later)]);
    assert_eq!(rest, json!({"active": 9}), "a finished job is not changed");
}

#[test]
fn cron_jobs_list_active_jobs_and_the_latest_times() {
    check_aggregate(
        "batch/v1",
        "CronJob",
        json!({"status": {"active": [{"name": "old"}], "other": 1}}),
        &[
            ("a", json!({"active": [{"name": "1"}], "lastScheduleTime": "2026-01-02T00:00:00Z"})),
            (
                "b",
                json!({"active": [{"name": "2"}], "lastScheduleTime": "2026-01-01T00:00:00Z", "lastSuccessfulTime": "2026-01-01T00:00:00Z"}),
            ),
        ],
        json!({"other": 1, "active": [{"name": "1"}, {"name": "2"}], "lastScheduleTime": "2026-01-02T00:00:00Z",
            "lastSuccessfulTime": "2026-01-01T00:00:00Z"}),
    );
    check_aggregate("batch/v1", "CronJob", json!({"status": {"active": [{"name": "old"}]}}), &[], json!({}));
}

#[test]
fn phases_of_pods_and_volumes_follow_the_worst_member() {
    let phase = |phase: &str| if phase.is_empty() { Value::Null } else { json!({"phase": phase}) };
    let cases: &[(&str, &[&str], &str)] = &[
        ("Pod", &["Running", "Failed", "Pending"], "Failed"),
        ("Pod", &["Running", "", "Succeeded"], "Pending"),
        ("Pod", &["Succeeded", "Running"], "Running"),
        ("Pod", &["Succeeded", "Succeeded"], "Succeeded"),
        ("PersistentVolume", &["Bound", "Failed"], "Failed"),
        ("PersistentVolume", &["Available", ""], "Pending"),
        ("PersistentVolume", &["Bound", "Available"], "Available"),
        ("PersistentVolume", &["Released", "Bound"], "Bound"),
        ("PersistentVolume", &["Released"], "Released"),
        ("PersistentVolumeClaim", &["Bound", "Lost", "Pending"], "Lost"),
        ("PersistentVolumeClaim", &["Pending", "Bound"], "Pending"),
        ("PersistentVolumeClaim", &["Bound", ""], "Bound"),
        ("PersistentVolumeClaim", &[], "Bound"),
    ];
    for (kind, phases, expected) in cases {
        let members: Vec<(&str, Value)> = phases.iter().map(|name| ("m", phase(name))).collect();
        check_aggregate("v1", kind, json!({"status": {"phase": "?", "x": 1}}), &members, json!({"phase": expected}));
    }
    check_aggregate("v1", "Pod", json!({"status": {"phase": "?"}}), &[], json!({"phase": "?"}));
    check_aggregate("v1", "PersistentVolume", json!({"status": {"phase": "?"}}), &[], json!({}));
}

#[test]
fn containers_of_all_pods_are_listed_with_readiness_and_state_only() {
    let running = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
    let bare = |ready: bool, state: Value| json!({"name": "", "image": "", "imageID": "", "restartCount": 0, "lastState": {}, "ready": ready, "state": state});
    let status = json!({"phase": "Running", "podIP": "1.1.1.1",
        "containerStatuses": [{"name": "c", "image": "i", "ready": true, "restartCount": 3, "state": running}],
        "initContainerStatuses": [{"name": "i", "ready": false}]});
    check_aggregate(
        "v1",
        "Pod",
        json!({}),
        &[("a", status.clone()), ("b", status)],
        json!({"phase": "Running", "containerStatuses": [bare(true, running.clone()), bare(true, running)],
            "initContainerStatuses": [bare(false, json!({})), bare(false, json!({}))]}),
    );
}

#[test]
fn budgets_and_autoscalers_add_up() {
    let budget = json!({"currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 2, "disruptionsAllowed": 0,
        "disruptedPods": {"p": "2026-01-01T00:00:00Z"}});
    check_aggregate(
        "policy/v1",
        "PodDisruptionBudget",
        json!({"status": {"conditions": []}}),
        &[("a", budget.clone()), ("b", budget)],
        json!({"currentHealthy": 2, "desiredHealthy": 2, "expectedPods": 4, "disruptionsAllowed": 0,
            "disruptedPods": {"a/p": "2026-01-01T00:00:00Z", "b/p": "2026-01-01T00:00:00Z"}}),
    );
    check_aggregate(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        json!({}),
        &[("a", json!({"currentReplicas": 1, "desiredReplicas": 2})), ("b", json!({"desiredReplicas": 2}))],
        json!({"currentReplicas": 1, "desiredReplicas": 4}),
    );
}

#[test]
fn the_reported_status_is_what_aggregation_needs() {
    let meta = json!({"generation": 4, "annotations": {"resourcetemplate.karmada.io/generation": "2"}});
    let with = |counts: Value| {
        let mut status = json!({"generation": 4, "resourceTemplateGeneration": 2});
        object::patch::merge::apply(&mut status, &counts).expect("merges");
        status
    };
    let all = json!({"replicas": 1, "updatedReplicas": 2, "readyReplicas": 3, "availableReplicas": 4,
        "unavailableReplicas": 5, "observedGeneration": 6, "currentReplicas": 7, "conditions": [{"type": "A"}]});
    let scheduled = json!({"currentNumberScheduled": 1, "desiredNumberScheduled": 2, "numberAvailable": 3,
        "numberMisscheduled": 0, "numberReady": 5, "updatedNumberScheduled": 6, "numberUnavailable": 0, "observedGeneration": 8});
    let cases = [
        (
            "apps/v1",
            "Deployment",
            all.clone(),
            with(json!({"replicas": 1, "updatedReplicas": 2, "readyReplicas": 3,
            "availableReplicas": 4, "unavailableReplicas": 5, "observedGeneration": 6})),
        ),
        (
            "apps/v1",
            "ReplicaSet",
            all.clone(),
            with(json!({"replicas": 1, "readyReplicas": 3, "availableReplicas": 4, "observedGeneration": 6})),
        ),
        (
            "apps/v1",
            "StatefulSet",
            all,
            with(json!({"replicas": 1, "updatedReplicas": 2, "readyReplicas": 3,
            "availableReplicas": 4, "currentReplicas": 7})),
        ),
        (
            "apps/v1",
            "DaemonSet",
            scheduled,
            with(json!({"currentNumberScheduled": 1, "desiredNumberScheduled": 2,
            "numberAvailable": 3, "numberMisscheduled": 0, "numberReady": 5, "updatedNumberScheduled": 6, "observedGeneration": 8})),
        ),
        ("v1", "Service", json!({"loadBalancer": {"ingress": [{"ip": "1"}]}}), Value::Null),
        ("networking.k8s.io/v1", "Ingress", json!({"loadBalancer": {}, "x": 1}), json!({"loadBalancer": {}, "x": 1})),
        (
            "batch/v1",
            "Job",
            json!({"active": 1, "failed": 0, "startTime": "t", "ready": 3, "conditions": []}),
            json!({"active": 1, "startTime": "t"}),
        ),
        (
            "policy/v1",
            "PodDisruptionBudget",
            json!({"currentHealthy": 1, "conditions": [1]}),
            json!({"currentHealthy": 1, "desiredHealthy": 0, "expectedPods": 0, "disruptionsAllowed": 0}),
        ),
        (
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            json!({"currentReplicas": 0, "desiredReplicas": 0, "currentMetrics": [1]}),
            json!({"desiredReplicas": 0}),
        ),
        ("example.io/v1", "Thing", json!({"any": {"thing": []}}), json!({"any": {"thing": []}})),
    ];
    for (api_version, kind, status, expected) in cases {
        let object = of_kind(api_version, kind, json!({"metadata": meta, "status": status}));
        let found = reflect_status(&object).expect("readable").unwrap_or_default();
        assert_eq!(found, expected, "of {kind}");
    }
    let balancer = json!({"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": [{"ip": "1"}]}, "conditions": [1]}});
    let found = reflect_status(&of_kind("v1", "Service", balancer)).expect("readable");
    assert_eq!(found, Some(json!({"loadBalancer": {"ingress": [{"ip": "1"}]}})));
}

#[test]
fn nothing_is_reported_without_a_status() {
    for (api_version, kind) in [("apps/v1", "Deployment"), ("v1", "ConfigMap"), ("batch/v1", "Job")] {
        assert_eq!(reflect_status(&of_kind(api_version, kind, json!({}))), Ok(None), "{kind}");
    }
    assert_eq!(reflect_status(&of_kind("apps/v1", "Deployment", json!({"status": {}}))), Ok(None));
    let wrong = json!({"metadata": {"annotations": {"resourcetemplate.karmada.io/generation": "two"}}, "status": {}});
    assert!(reflect_status(&of_kind("apps/v1", "Deployment", wrong)).is_err());
}

#[test]
fn health_is_read_from_the_status() {
    let gen3 = |spec: Value, status: Value| json!({"metadata": {"generation": 3}, "spec": spec, "status": status});
    let balancer =
        |address: Value| json!({"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": [address]}}});
    let pod = |phase: &str, ready: &str| json!({"status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}});
    let updated = |updated: i64, available: i64| json!({"observedGeneration": 3, "updatedReplicas": updated, "availableReplicas": available});
    let scheduled = |desired: i64, updated: i64, available: i64| json!({"observedGeneration": 3, "desiredNumberScheduled": desired, "updatedNumberScheduled": updated, "numberAvailable": available});
    let cases = [
        ("apps/v1", "Deployment", gen3(json!({"replicas": 2}), updated(2, 2)), true),
        ("apps/v1", "Deployment", gen3(json!({}), updated(0, 0)), true),
        ("apps/v1", "Deployment", gen3(json!({"replicas": 2}), updated(1, 2)), false),
        ("apps/v1", "Deployment", gen3(json!({"replicas": 2}), updated(2, 1)), false),
        ("apps/v1", "Deployment", gen3(json!({"replicas": 0}), json!({"observedGeneration": 2})), false),
        ("apps/v1", "StatefulSet", gen3(json!({"replicas": 2}), updated(2, 2)), true),
        ("apps/v1", "StatefulSet", gen3(json!({"replicas": 3}), updated(2, 2)), false),
        ("apps/v1", "ReplicaSet", gen3(json!({"replicas": 2}), updated(0, 2)), true),
        ("apps/v1", "ReplicaSet", gen3(json!({"replicas": 2}), updated(0, 1)), false),
        ("apps/v1", "DaemonSet", gen3(json!({}), scheduled(2, 2, 2)), true),
        ("apps/v1", "DaemonSet", gen3(json!({}), scheduled(2, 1, 2)), false),
        ("apps/v1", "DaemonSet", gen3(json!({}), scheduled(2, 2, 1)), false),
        ("v1", "Service", json!({"spec": {"type": "ClusterIP"}}), true),
        ("v1", "Service", balancer(json!({"ip": "1.1.1.1"})), true),
        ("v1", "Service", balancer(json!({"ip": ""})), false),
        ("networking.k8s.io/v1", "Ingress", balancer(json!({"hostname": "h"})), true),
        ("networking.k8s.io/v1", "Ingress", json!({}), false),
        ("v1", "PersistentVolumeClaim", json!({"status": {"phase": "Bound"}}), true),
        ("v1", "PersistentVolumeClaim", json!({"status": {"phase": "Pending"}}), false),
        ("v1", "Pod", pod("Succeeded", "False"), true),
        ("v1", "Pod", pod("Running", "True"), true),
        ("v1", "Pod", pod("Running", "False"), false),
        ("v1", "Pod", pod("Failed", "True"), false),
        ("policy/v1", "PodDisruptionBudget", json!({"status": {"currentHealthy": 2, "desiredHealthy": 2}}), true),
        ("policy/v1", "PodDisruptionBudget", json!({"status": {"currentHealthy": 1, "desiredHealthy": 2}}), false),
    ];
    for (api_version, kind, rest, expected) in cases {
        assert_eq!(is_healthy(&of_kind(api_version, kind, rest.clone())), Ok(expected), "{kind} {rest}");
    }
}

fn names(object: &Object) -> Vec<String> {
    let found = dependencies(object).expect("has a rule");
    found.iter().map(|d| format!("{} {}/{}", d.kind, d.namespace, d.name)).collect()
}

#[test]
fn a_pod_needs_everything_it_names() {
    let spec = json!({
        "serviceAccountName": "robot",
        "imagePullSecrets": [{"name": "pull"}],
        "initContainers": [{"envFrom": [{"configMapRef": {"name": "init"}}]}],
        "containers": [{"envFrom": [{"secretRef": {"name": "from"}}], "env": [
            {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "key"}}},
            {"name": "B", "valueFrom": {"secretKeyRef": {"name": "key"}}}, {"name": "C", "value": "c"}]}],
        "ephemeralContainers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "debug"}}}]}],
        "volumes": [{"configMap": {"name": "volume"}}, {"secret": {"secretName": "volume"}},
            {"persistentVolumeClaim": {"claimName": "data"}}, {"csi": {"nodePublishSecretRef": {"name": "csi"}}},
            {"azureFile": {"secretName": "azure"}}, {"cephfs": {"secretRef": {"name": "ceph"}}},
            {"cinder": {"secretRef": {"name": "cinder"}}}, {"flexVolume": {"secretRef": {"name": "flex"}}},
            {"rbd": {"secretRef": {"name": "rbd"}}}, {"scaleIO": {"secretRef": {"name": "scale"}}},
            {"iscsi": {"secretRef": {"name": "iscsi"}}}, {"storageos": {"secretRef": {"name": "storageos"}}},
            {"projected": {"sources": [{"configMap": {"name": "projected"}}, {"secret": {"name": "projected"}}]}}],
    });
    let secrets = [
        "azure",
        "ceph",
        "cinder",
        "csi",
        "debug",
        "flex",
        "from",
        "iscsi",
        "key",
        "projected",
        "pull",
        "rbd",
        "scale",
        "storageos",
        "volume",
    ];
    let expected: Vec<String> = ["init", "key", "projected", "volume"]
        .iter()
        .map(|name| format!("ConfigMap ns/{name}"))
        .chain(secrets.iter().map(|name| format!("Secret ns/{name}")))
        .chain(["ServiceAccount ns/robot".to_owned(), "PersistentVolumeClaim ns/data".to_owned()])
        .collect();
    let template = json!({"template": {"spec": spec}});
    for (api_version, kind, spec) in [
        ("v1", "Pod", spec.clone()),
        ("apps/v1", "Deployment", template.clone()),
        ("apps/v1", "ReplicaSet", template.clone()),
        ("apps/v1", "DaemonSet", template.clone()),
        ("apps/v1", "StatefulSet", template.clone()),
        ("batch/v1", "Job", template.clone()),
        ("batch/v1", "CronJob", json!({"jobTemplate": {"spec": template}})),
    ] {
        assert_eq!(names(&of_kind(api_version, kind, json!({"spec": spec}))), expected, "{kind}");
    }
    assert_eq!(names(&of_kind("v1", "Pod", json!({"spec": {"serviceAccountName": "default"}}))), Vec::<String>::new());
}

#[test]
fn other_kinds_depend_on_referenced_objects() {
    let set = json!({"spec": {"volumeClaimTemplates": [{"metadata": {"name": "made"}}], "template": {"spec": {"volumes": [
        {"persistentVolumeClaim": {"claimName": "made"}}, {"persistentVolumeClaim": {"claimName": "real"}}]}}}});
    assert_eq!(names(&of_kind("apps/v1", "StatefulSet", set)), ["PersistentVolumeClaim ns/real"]);
    let ingress = json!({"spec": {"tls": [{"secretName": "cert"}, {"hosts": ["h"]}]}});
    assert_eq!(names(&of_kind("networking.k8s.io/v1", "Ingress", ingress)), ["Secret ns/cert"]);
    let import = of_kind("multicluster.x-k8s.io/v1alpha1", "ServiceImport", json!({}));
    assert_eq!(names(&import), ["Service ns/derived-x", "EndpointSlice ns/"]);
    let selector = dependencies(&import).expect("has a rule")[1].label_selector.clone().expect("by label");
    assert_eq!(selector.match_labels["kubernetes.io/service-name"], "derived-x");
}
