//! Situations that users find hard to diagnose: each answer names the cause and the next step.

use api::cluster::CLUSTERS;
use api::features::Features;
use api::names::{binding_name, execution_namespace, work_name};
use api::policy::PROPAGATION_POLICIES;
use api::work::{RESOURCE_BINDINGS, WORKS};
use cluster_client::testing::MemoryApi;
use interpreter_runtime::SharedInterpreter;
use object::GroupVersionResource;
use plane_state::Decisions;
use plane_state::MemberCapacity;

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
            &GroupVersionResource::new("apps", "v1", "deployments"),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 4},
                "metadata": {"name": "web", "namespace": "shop", "labels": labels, "annotations": annotations}}),
        )
    }

    fn policy(&self, placement: Value) -> &Self {
        let selector = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        self.seed(
            &PROPAGATION_POLICIES.gvr(),
            json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
                "metadata": {"name": "p", "namespace": "shop", "labels": {"propagationpolicy.karmada.io/permanent-id": ID}},
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
        let mut own = json!({
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
            "replicas": 4, "replicaRequirements": {}, "placement": {},
        });
        for (field, value) in spec.as_object().into_iter().flatten() {
            own[field] = value.clone();
        }
        self.seed(
            &RESOURCE_BINDINGS.gvr(),
            json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
                "metadata": {"name": binding_name("Deployment", "web"), "namespace": "shop"}, "spec": own, "status": status}),
        )
    }

    fn unplaced(&self, reason: &str, spec: Value) -> &Self {
        self.binding(
            spec,
            json!({"conditions": [condition("Scheduled", "False", reason, "0/2 clusters are available")]}),
        )
    }

    /// Placed on m1 and m2; `told` is the status from m1.
    fn placed(&self, told: Value) -> &Self {
        let clusters = json!([{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 2}]);
        let fine = |name: &str| json!({"clusterName": name, "applied": true, "health": "Healthy", "status": {"readyReplicas": 2}});
        let mut m1 = fine("m1");
        for (field, value) in told.as_object().into_iter().flatten() {
            m1[field] = value.clone();
        }
        let conditions = [condition("Scheduled", "True", "Success", ""), condition("FullyApplied", "True", "", "")];
        self.binding(
            json!({"clusters": clusters}),
            json!({"conditions": conditions, "aggregatedStatus": [m1, fine("m2")]}),
        )
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
    fn check(&self, cause: &[&str], next: &[&str]) {
        let explainer = Explainer::new(ExplainerDeps {
            client: self.api.client(),
            interpreter: SharedInterpreter::built_in(),
            member_capacity: MemberCapacity::default(),
            decisions: Decisions::default(),
            features: Arc::new(Features::flotilla()),
        });
        let subject = Subject {
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let why = runtime.block_on(explainer.why(subject)).expect("an answer");
        for word in cause {
            assert!(why.verdict.contains(word), "{word:?} is not in the verdict\n{}", why.text);
        }
        let told = why.next_step.as_deref().unwrap_or_default();
        for word in next {
            assert!(told.contains(word), "{word:?} is not in the next step\n{}", why.text);
            assert!(why.text.contains(&format!("Next: {told}")), "{}", why.text);
        }
        assert!(!next.is_empty() || told.is_empty(), "nothing is to be done\n{}", why.text);
    }
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

fn applied() -> Value {
    json!([condition("Applied", "True", "AppliedSuccessful", "")])
}

fn refused(message: &str) -> Value {
    json!([condition("Applied", "False", "AppliedFailed", message)])
}

#[test]
fn what_is_not_on_the_control_plane_may_be_in_a_member() {
    let case = Case::bare();
    case.seed(
        &GroupVersionResource::new("apps", "v1", "deployments"),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "other", "namespace": "shop"}}),
    );
    case.check(&["template", "no such object"], &["promote deployment web -n shop"]);
}

#[test]
fn what_no_policy_selects_gets_one() {
    let case = Case::bare();
    case.cluster("m1", json!({})).seed(
        &GroupVersionResource::new("apps", "v1", "deployments"),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}}),
    );
    case.check(&["policy", "there are no policies"], &["PropagationPolicy in namespace shop", "flotilla apply -f"]);
    case.seed(
        &PROPAGATION_POLICIES.gvr(),
        json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": "p", "namespace": "other"},
            "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}]}}),
    );
    case.check(&["nearly", "namespace other, the object of shop"], &["mend the selector"]);
}

#[test]
fn clusters_that_do_not_fit_say_what_they_lack() {
    let case = Case::bare();
    case.deployment().policy(json!({})).unplaced("NoClusterFit", json!({}));
    case.check(&["NoClusterFit"], &["there are no clusters", "flotilla join"]);

    let taint = json!([{"key": "cluster.karmada.io/unschedulable", "effect": "NoSchedule"}]);
    let case = Case::bare();
    case.deployment()
        .policy(json!({}))
        .cluster("m1", json!({"spec.taints": taint}))
        .unplaced("NoClusterFit", json!({}));
    case.check(&["m1 is left out"], &["flotilla uncordon m1", "clusterTolerations"]);

    let case = Case::bare();
    case.deployment().policy(json!({})).cluster("m1", json!({"status.apiEnablements": []}));
    case.unplaced("NoClusterFit", json!({})).check(&["m1 is left out"], &["CustomResourceDefinition"]);

    let far = json!({"placement": {"clusterAffinity": {"labelSelector": {"matchLabels": {"zone": "far"}}}}});
    Case::new().unplaced("NoClusterFit", far).check(&["m1 is left out"], &["clusterAffinity", "--show-labels"]);
}

#[test]
fn what_waits_for_somebody_elses_decision_says_for_whose() {
    let other = json!({"schedulerName": "mine"});
    Case::new().binding(other, json!({})).check(&["scheduling", "not decided yet"], &["the scheduler mine"]);
    let held = json!({"suspension": {"scheduling": true}});
    Case::new().binding(held, json!({})).check(&["not decided yet"], &["spec.suspension.scheduling"]);
    Case::new()
        .placed(json!({}))
        .work("m1", json!([condition("Dispatching", "False", "SuspendDispatching", "Work dispatching is suspended")]))
        .work("m2", applied())
        .check(&["m1 (2 replicas): held back"], &["spec.suspension.dispatching"]);
}

#[test]
fn what_a_member_refuses_says_how_to_get_past() {
    let check = |message: &str, next: &str| {
        let case = Case::new();
        case.placed(json!({})).work("m1", refused(message)).work("m2", applied());
        case.check(&["a member refuses it", "m1 (2 replicas): refused"], &[next, "m1"]);
    };
    check(
        "resource(kind=Deployment, shop/web) already exists in the cluster m1 and the \
         work.karmada.io/conflict-resolution strategy value is empty, Karmada will not manage this resource",
        "conflictResolution: Overwrite",
    );
    check("admission webhook \"a.b\" denied the request: no", "OverridePolicy");
    check("deployments.apps \"web\" is forbidden: exceeded quota: q", "ResourceQuota");
    check("the server could not find the requested resource", "CustomResourceDefinition");
    check("namespaces \"shop\" not found", "skip-auto-propagation");
}

#[test]
fn what_is_not_well_in_a_member_says_why_and_where_to_look() {
    let case = Case::new();
    case.placed(json!({"health": "Unhealthy", "status": {"readyReplicas": 0, "unschedulable": {"replicas": 2,
        "since": {"2026-01-01T00:00:00Z": 2}, "message": "0/3 nodes are available: 3 Insufficient cpu."}}}));
    case.work("m1", applied()).work("m2", applied());
    case.check(&["m1: 2 of 2 replicas find no node since", "Insufficient cpu"], &["nodes to m1", "--descheduler"]);

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
fn what_runs_as_it_should_needs_nothing() {
    Case::new().placed(json!({})).work("m1", applied()).work("m2", applied()).check(&["it runs as it should"], &[]);
}
