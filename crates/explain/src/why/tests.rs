//! Situations that users find hard to diagnose: each answer names the cause and the next step.

use api::cluster::CLUSTERS;
use api::names::{binding_name, execution_namespace, work_name};
use api::policy::PROPAGATION_POLICIES;
use api::work::{ApplyFailure, RESOURCE_BINDINGS, WORKS};
use cluster_client::testing::MemoryApi;
use object::GroupVersionResource;
use object::builtin;
use serde_json::{Value, json};

use super::*;
use crate::gather::ExplainerDeps;

/// A control plane with the Deployment `shop/web`, a policy for it and the clusters m1 and m2, unless a case differs.
struct Case {
    api: MemoryApi,
}

const ID: &str = "policy-id";

impl Case {
    fn bare() -> Self {
        Self { api: MemoryApi::default() }
    }

    fn new() -> Self {
        let case = Self::bare();
        case.deployment().policy(json!({})).cluster("m1", json!({})).cluster("m2", json!({}));
        case
    }

    fn seed(&self, gvr: &GroupVersionResource, value: Value) -> &Self {
        self.api.seed(gvr, Object::from_value(value).expect("a map"));
        self
    }

    fn deployment(&self) -> &Self {
        let labels = json!({"propagationpolicy.karmada.io/permanent-id": ID});
        let annotations =
            json!({"propagationpolicy.karmada.io/namespace": "shop", "propagationpolicy.karmada.io/name": "p"});
        self.seed(
            &builtin::deployments(),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 4},
                "metadata": {"name": "web", "namespace": "shop", "labels": labels, "annotations": annotations}}),
        )
    }

    fn policy(&self, placement: Value) -> &Self {
        self.policy_with(placement, json!({}))
    }

    fn annotated_policy(&self, annotations: Value) -> &Self {
        self.policy_with(json!({}), annotations)
    }

    fn policy_with(&self, placement: Value, annotations: Value) -> &Self {
        let selector = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        self.seed(
            &PROPAGATION_POLICIES.gvr(),
            json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
                "metadata": {"name": "p", "namespace": "shop", "annotations": annotations,
                    "labels": {"propagationpolicy.karmada.io/permanent-id": ID}},
                "spec": {"resourceSelectors": [selector], "placement": placement}}),
        )
    }

    fn cluster(&self, name: &str, change: Value) -> &Self {
        let mut cluster = json!({
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
            "spec": {"syncMode": "Push"},
            "status": {
                "conditions": [{"type": "Ready", "status": "True", "reason": "ClusterReady", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}],
                "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}],
                "resourceSummary": {"allocatable": {"pods": "100"}},
            },
        });
        for (path, value) in change.as_object().into_iter().flatten() {
            let (part, field) = path.split_once('.').expect("part.field");
            cluster[part][field] = value.clone();
        }
        self.seed(&CLUSTERS.gvr(), cluster)
    }

    /// As the scheduler left it: on these clusters, or on none with this condition.
    fn binding(&self, spec: Value, status: Value) -> &Self {
        self.binding_with(spec, status, json!({}))
    }

    fn binding_with(&self, spec: Value, status: Value, annotations: Value) -> &Self {
        let mut own = json!({
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
            "replicas": 4, "replicaRequirements": {}, "placement": {},
        });
        for (field, value) in spec.as_object().into_iter().flatten() {
            own[field] = value.clone();
        }
        self.seed(
            &RESOURCE_BINDINGS.gvr(),
            json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", "spec": own, "status": status,
                "metadata": {"name": binding_name("Deployment", "web"), "namespace": "shop", "annotations": annotations}}),
        )
    }

    fn unplaced(&self, reason: &str, spec: Value) -> &Self {
        self.binding(
            spec,
            json!({"conditions": [condition("Scheduled", "False", reason, "0/2 clusters are available")]}),
        )
    }

    /// Placed on m1 and m2; `reported` is the status from m1.
    fn placed(&self, reported: Value) -> &Self {
        self.placed_with(json!({}), reported)
    }

    fn placed_with(&self, spec: Value, reported: Value) -> &Self {
        let (spec, status) = placed(spec, reported);
        self.binding(spec, status)
    }

    /// Placed on m1 and m2 after these moves.
    fn moved(&self, moves: &Value) -> &Self {
        let (spec, status) = placed(json!({}), json!({}));
        self.binding_with(spec, status, json!({"flotilla.dev/failover-history": moves.to_string()}))
    }

    /// The conditions of the work in a cluster.
    fn work(&self, cluster: &str, conditions: Value) -> &Self {
        self.seed(
            &WORKS.gvr(),
            json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work", "status": {"conditions": conditions},
                "metadata": {"name": work_name("Deployment", "web", "shop"), "namespace": execution_namespace(cluster)}}),
        )
    }

    /// The verdict must contain these words, and so must the next step.
    #[track_caller]
    fn check(&self, cause: &[&str], next: &[&str]) -> Why {
        let subject = Subject {
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
        };
        self.check_subject(subject, cause, next)
    }

    #[track_caller]
    fn check_subject(&self, subject: Subject, cause: &[&str], next: &[&str]) -> Why {
        let explainer = Explainer::new(ExplainerDeps::of_client(self.api.client()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let why = runtime.block_on(explainer.why(subject)).expect("an answer");
        for word in cause {
            assert!(why.verdict.contains(word), "{word:?} is not in the verdict\n{}", why.text);
        }
        let advice = why.next_step.as_deref().unwrap_or_default();
        for word in next {
            assert!(advice.contains(word), "{word:?} is not in the next step\n{}", why.text);
            assert!(why.text.contains(&format!("Next: {advice}")), "{}", why.text);
        }
        assert!(!next.is_empty() || advice.is_empty(), "no next step is expected\n{}", why.text);
        why
    }
}

/// Spec and status of a binding on m1 and m2.
fn placed(mut spec: Value, reported: Value) -> (Value, Value) {
    spec["clusters"] = json!([{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 2}]);
    let healthy =
        |name: &str| json!({"clusterName": name, "applied": true, "health": "Healthy", "status": {"readyReplicas": 2}});
    let mut m1 = healthy("m1");
    for (field, value) in reported.as_object().into_iter().flatten() {
        m1[field] = value.clone();
    }
    let conditions = [condition("Scheduled", "True", "Success", ""), condition("FullyApplied", "True", "", "")];
    (spec, json!({"conditions": conditions, "aggregatedStatus": [m1, healthy("m2")]}))
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

fn applied() -> Value {
    json!([condition("Applied", "True", "AppliedSuccessful", "")])
}

fn failed(failure: ApplyFailure) -> Value {
    json!([
        condition("Applied", "False", "AppliedFailed", "the message of the member"),
        condition("flotilla.dev/ApplyFailure", "True", failure.reason(), "")
    ])
}

fn bare_deployment(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "shop"}})
}

fn deployments() -> GroupVersionResource {
    builtin::deployments()
}

#[test]
fn an_object_that_is_missing_on_the_control_plane_may_be_in_a_member() {
    let case = Case::bare();
    case.seed(&deployments(), bare_deployment("other"));
    case.check(&["template", "no such object"], &["promote deployment web -n shop"]);
}

#[test]
fn an_object_without_a_policy_gets_one() {
    let case = Case::bare();
    case.cluster("m1", json!({})).seed(&deployments(), bare_deployment("web"));
    case.check(&["policy", "there are no policies"], &["--all-clusters -f -"]);
    case.seed(
        &PROPAGATION_POLICIES.gvr(),
        json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": "p", "namespace": "other"},
            "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}]}}),
    );
    case.check(&["nearly", "namespace other, the object of shop"], &["correct the selector"]);
}

#[test]
fn namespaces_and_objects_of_the_control_plane_need_no_policy() {
    let namespaces = builtin::namespaces();
    let subject = |kind: &str, api_version: &str, name: &str| Subject {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: String::new(),
        name: name.to_owned(),
    };
    let namespace = |name: &str, labels: Value| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
    let case = Case::bare();
    case.cluster("m1", json!({})).seed(&namespaces, namespace("shop", json!({})));
    let skipped = json!({"namespace.karmada.io/skip-auto-propagation": "true"});
    case.seed(&namespaces, namespace("kept", skipped)).seed(
        &WORKS.gvr(),
        json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work", "status": {"conditions": applied()},
            "metadata": {"name": work_name("Namespace", "shop", ""), "namespace": execution_namespace("m1")}}),
    );
    case.check_subject(subject("Namespace", "v1", "shop"), &["it is in every cluster"], &[]);
    case.check_subject(subject("Namespace", "v1", "kept"), &["not synced"], &["skip-auto-propagation-`"]);
    let cluster = subject("Cluster", "cluster.karmada.io/v1alpha1", "m1");
    case.check_subject(cluster, &["Cluster objects stay in the control plane"], &["describe cluster m1"]);
}

#[test]
fn clusters_that_do_not_fit_say_what_they_lack() {
    let case = Case::bare();
    case.deployment().policy(json!({})).unplaced("NoClusterFit", json!({}));
    case.check(&["NoClusterFit"], &["there are no clusters", "flotilla join"]);

    let tainted = |key: &str, next: &[&str]| {
        let taint = json!([{"key": key, "effect": "NoSchedule"}]);
        let case = Case::bare();
        case.deployment().policy(json!({})).cluster("m1", json!({"spec.taints": taint}));
        case.unplaced("NoClusterFit", json!({})).check(&["m1 is excluded"], next);
    };
    tainted("cluster.karmada.io/unschedulable", &["flotilla uncordon m1", "clusterTolerations"]);
    tainted("cluster.karmada.io/not-ready", &["flotilla describe cluster m1"]);
    tainted("team", &["flotilla taint clusters m1 team:NoSchedule-"]);

    let case = Case::bare();
    case.deployment().policy(json!({})).cluster("m1", json!({"status.apiEnablements": []}));
    case.unplaced("NoClusterFit", json!({})).check(&["m1 is excluded"], &["CustomResourceDefinition"]);

    let far = json!({"placement": {"clusterAffinity": {"labelSelector": {"matchLabels": {"zone": "far"}}}}});
    Case::new().unplaced("NoClusterFit", far).check(&["m1 is excluded"], &["clusterAffinity", "--show-labels"]);
}

#[test]
fn a_policy_that_names_a_missing_cluster_is_corrected() {
    let typo = json!({"placement": {"clusterAffinity": {"clusterNames": ["mm1"]}}});
    // The taint of m2 is not the cause.
    let taint = json!([{"key": "cluster.karmada.io/unschedulable", "effect": "NoSchedule"}]);
    let case = Case::bare();
    case.deployment().policy(json!({})).cluster("m1", json!({})).cluster("m2", json!({"spec.taints": taint}));
    let advice = ["mm1", "existing clusters: m1, m2", "flotilla edit propagationpolicy p -n shop"];
    case.unplaced("NoClusterFit", typo).check(&["NoClusterFit", "the policy names mm1"], &advice);
    // The other cluster it names runs the workload.
    let half = json!({"clusterAffinity": {"clusterNames": ["m1", "m2", "mm3"]}});
    let case = Case::new();
    case.placed_with(json!({"placement": half}), json!({})).work("m1", applied()).work("m2", applied());
    case.check(&["it runs as it should"], &["mm3"]);
}

#[test]
fn scheduling_that_others_decide_names_them() {
    let other = json!({"schedulerName": "mine"});
    Case::new().binding(other, json!({})).check(&["scheduling", "not decided yet"], &["the scheduler mine"]);
    let held = json!({"suspension": {"scheduling": true}});
    Case::new().binding(held, json!({})).check(&["not decided yet"], &["spec.suspension.scheduling"]);
    Case::new()
        .placed(json!({}))
        .work("m1", json!([condition("Dispatching", "False", "SuspendDispatching", "Work dispatching is suspended")]))
        .work("m2", applied())
        .check(&["m1 (2 replicas): held back"], &["spec.suspension"]);
}

#[test]
fn the_failure_of_a_work_decides_the_advice() {
    let check = |failure: ApplyFailure, cause: &str, next: &str| {
        let case = Case::new();
        case.placed(json!({})).work("m1", failed(failure)).work("m2", applied());
        case.check(&[cause, "the message of the member"], &[next]);
    };
    check(ApplyFailure::AlreadyExists, "m1 (2 replicas): rejected", "conflictResolution: Overwrite");
    check(ApplyFailure::AdmissionDenied, "a member rejects it", "OverridePolicy");
    check(ApplyFailure::QuotaExceeded, "rejected", "resourcequotas");
    check(ApplyFailure::Unreachable, "not applied everywhere yet", "m1 does not respond");
}

#[test]
fn unhealthy_objects_say_why_and_where_to_look() {
    let unschedulable = json!({"health": "Unhealthy", "status": {"readyReplicas": 0, "unschedulable": {"replicas": 2,
        "since": {"2026-01-01T00:00:00Z": 2}, "message": "0/3 nodes are available: 3 Insufficient cpu."}}});
    let case = Case::new();
    case.placed(unschedulable).work("m1", applied()).work("m2", applied());
    case.check(&["m1: 2 of 2 replicas cannot be scheduled since", "Insufficient cpu"], &["add nodes to m1"]);

    let case = Case::new();
    case.placed(json!({"health": "Unhealthy"})).work("m1", applied()).work("m2", applied());
    case.check(&["m1: Unhealthy"], &["flotilla describe deployment web -n shop -s members -C m1"]);

    let lost = json!([condition("Ready", "False", "ClusterNotReachable", "connection refused")]);
    let case = Case::bare();
    case.deployment().policy(json!({})).cluster("m1", json!({"status.conditions": lost})).cluster("m2", json!({}));
    case.placed(json!({})).work("m1", applied()).work("m2", applied());
    case.check(&["m1: the cluster is not ready since", "connection refused"], &["flotilla describe cluster m1"]);
}

#[test]
fn a_pending_failover_shows_the_time_left() {
    let added = object::time::format_seconds(Timestamp::now());
    let taints =
        json!([{"key": "flotilla.dev/unschedulable", "value": "not-ready", "effect": "NoExecute", "timeAdded": added}]);
    let case = Case::bare();
    case.deployment().policy(json!({})).cluster("m1", json!({"spec.taints": taints})).cluster("m2", json!({}));
    let failover = json!({"application": {"decisionConditions": {"tolerationSeconds": 59}}});
    case.placed_with(json!({"failover": failover}), json!({})).work("m1", applied()).work("m2", applied());
    case.check(
        &["it waits at members", "flotilla.dev/unschedulable", "moved to other clusters in 5"],
        &["accepts pods"],
    );
}

#[test]
fn failback_is_proposed_only_if_the_policy_has_none() {
    let moved = json!([{"time": "2026-01-01T00:00:00Z", "from": "m3", "reason": "TaintUntolerated",
        "by": "TaintManager", "to": [{"name": "m1", "replicas": 2}], "ended": "2026-01-01T00:01:00Z"}]);
    let check = |failback: Option<&str>, details: &str, next: &[&str]| {
        let case = Case::bare();
        case.deployment().cluster("m1", json!({})).cluster("m2", json!({})).cluster("m3", json!({}));
        case.annotated_policy(failback.map_or(json!({}), |value| json!({"flotilla.dev/failback": value})));
        case.moved(&moved).work("m1", applied()).work("m2", applied());
        let why = case.check(&["it runs as it should"], next);
        assert!(why.text.contains(details), "{details}\n{}", why.text);
    };
    check(None, "does not return to m3", &["flotilla annotate propagationpolicy p -n shop flotilla.dev/failback=5m"]);
    check(Some("5m"), "it returns to m3 as soon as", &[]);
}

#[test]
fn a_healthy_object_needs_nothing() {
    Case::new().placed(json!({})).work("m1", applied()).work("m2", applied()).check(&["it runs as it should"], &[]);
}
