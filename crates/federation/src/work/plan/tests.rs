//! Plans from facts written down as data.

use api::cluster::CLUSTERS;
use api::features::Features;
use api::policy::OVERRIDE_POLICIES;
use api::work::{RESOURCE_BINDINGS, WORKS};
use interpreter_runtime::environment;
use propagation::overrides::OverridePolicy;
use serde_json::{Value, json};

use super::*;
use crate::testing::object;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// The facts of one case.
struct Case {
    binding: Object,
    template: Object,
    webhooks: Vec<Arc<Object>>,
    revisions: BTreeMap<i32, WebhookAnswer>,
    policies: Vec<Arc<OverridePolicy>>,
}

impl Case {
    fn new(template: Value, spec: Value) -> Self {
        let template = object(template);
        let mut binding = RESOURCE_BINDINGS.object("default", "web-deployment");
        binding.set_label("resourcebinding.karmada.io/permanent-id", "id-web");
        binding.set(&["spec"], spec);
        Self { binding, template, webhooks: Vec::new(), revisions: BTreeMap::new(), policies: Vec::new() }
    }

    fn deployment(clusters: Value) -> Self {
        let template = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "default", "uid": "u"}, "spec": {"replicas": 5}});
        Self::new(template, json!({"replicas": 5, "clusters": clusters}))
    }

    /// Plans twice: the same facts must give the same plan.
    fn plan(&self, members: &[Seen]) -> DeliveryPlan {
        let spec: BindingSpec = api::read(&self.binding).expect("readable");
        let targets = works::targets(&spec);
        let rules = Interpreter::new(&[], &self.webhooks, &Features::default(), &environment::system());
        let facts = DeliveryFacts {
            binding: &self.binding,
            spec: &spec,
            template: self.template.clone(),
            targets: &targets,
            rules: &rules,
            revisions: self.revisions.clone(),
            policies: Candidates { cluster: Vec::new(), namespaced: self.policies.clone() },
            injects_labels: false,
            now: NOW,
        };
        let default = Seen::default();
        let seen = members.iter().chain(std::iter::repeat(&default));
        let members: Vec<TargetFacts<'_>> = targets.iter().zip(seen).map(|(target, seen)| seen.facts(target)).collect();
        let planned = plan(&facts, &members);
        assert_eq!(planned, plan(&facts, &members), "a plan can be replayed");
        planned
    }
}

/// The state of one member besides its existence.
#[derive(Default)]
struct Seen {
    is_unknown: bool,
    is_deleting: bool,
    existing: Option<Object>,
    rivals: Vec<Object>,
}

impl Seen {
    fn facts<'a>(&self, target: &'a TargetCluster) -> TargetFacts<'a> {
        let mut cluster = CLUSTERS.object("", &target.name);
        if self.is_deleting {
            cluster.set(&["metadata", "deletionTimestamp"], json!("2026-01-01T00:00:00Z"));
        }
        TargetFacts {
            target,
            cluster: (!self.is_unknown).then(|| Arc::new(cluster)),
            existing: self.existing.clone().map(Arc::new),
            rivals: self.rivals.iter().cloned().map(Arc::new).collect(),
        }
    }
}

/// Cluster and replicas of the manifests of new Works.
fn created(plan: &DeliveryPlan) -> Vec<(&str, i64)> {
    let replicas = |work: &PlannedWork| match &work.change {
        WorkChange::Create(work) => work.items(&["spec", "workload", "manifests"])[0]["spec"]["replicas"].as_i64(),
        other => panic!("{other:?}"),
    };
    plan.works.iter().map(|work| (work.cluster.as_str(), replicas(work).unwrap_or(-1))).collect()
}

fn failures(plan: &DeliveryPlan) -> Vec<(&str, &str)> {
    plan.failures.iter().map(|failure| (failure.cluster.as_str(), failure.reason.as_str())).collect()
}

fn two_members() -> Value {
    json!([{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 3}])
}

#[test]
fn each_member_gets_its_share() {
    let plan = Case::deployment(two_members()).plan(&[]);
    assert_eq!(created(&plan), [("m1", 2), ("m2", 3)]);
    assert_eq!(plan.works[0].key, ObjectKey::new("karmada-es-m1", &plan.works[1].key.name));
    assert_eq!(plan.failures, []);
}

#[test]
fn an_up_to_date_work_is_not_written() {
    let case = Case::deployment(two_members());
    let WorkChange::Create(written) = case.plan(&[]).works.swap_remove(0).change else { panic!("a new work") };
    let plan = case.plan(&[Seen { existing: Some(written), ..Seen::default() }]);
    assert_eq!(created(&plan), [("m2", 3)]);
}

#[test]
fn unknown_members_fail_and_leaving_ones_get_nothing() {
    let members = [Seen { is_unknown: true, ..Seen::default() }, Seen { is_deleting: true, ..Seen::default() }];
    let plan = Case::deployment(two_members()).plan(&members);
    assert_eq!(created(&plan), []);
    assert_eq!(failures(&plan), [("m1", "Cluster.cluster.karmada.io \"m1\" not found")]);
}

#[test]
fn a_work_of_another_binding_is_not_taken_over() {
    let case = Case::deployment(two_members());
    let name = case.plan(&[]).works[0].key.name.clone();
    let mut work = WORKS.object("karmada-es-m1", &name);
    work.set_label("resourcebinding.karmada.io/permanent-id", "id-other");
    work.set_annotation("resourcebinding.karmada.io/namespace", "default");
    work.set_annotation("resourcebinding.karmada.io/name", "other");
    let mut other = RESOURCE_BINDINGS.object("default", "other");
    other.set_label("resourcebinding.karmada.io/permanent-id", "id-other");
    let resource = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "web"});
    other.set(&["spec", "resource"], resource);
    let held = Seen { existing: Some(work.clone()), rivals: vec![other], ..Seen::default() };
    let plan = case.plan(&[held]);
    let expected = format!("work karmada-es-m1/{name} belongs to ResourceBinding(default/other) and is not taken over");
    assert_eq!(failures(&plan), [("m1", expected.as_str())]);
    assert_eq!(created(&plan), [("m2", 3)], "others are not blocked");
    let free = Seen { existing: Some(work), ..Seen::default() };
    let plan = case.plan(&[free]);
    assert_eq!((plan.failures.len(), plan.works.len()), (0, 2), "no binding stands behind it");
}

#[test]
fn an_override_that_fails_names_the_reason_and_the_policies_considered() {
    let cases = [
        (
            json!({"path": "/spec/nothing/x", "operator": "remove"}),
            "remove operation does not apply: doc is missing path: \"/spec/nothing/x\": missing value",
        ),
        (
            json!({"path": "/spec/replica", "operator": "replace", "value": 5}),
            "replace operation does not apply: doc is missing key: /spec/replica: missing value",
        ),
    ];
    for (overrider, reason) in cases {
        let mut case = Case::deployment(two_members());
        let mut policy = OVERRIDE_POLICIES.object("default", "bad");
        let rule = json!({"targetCluster": {"clusterNames": ["m1"]}, "overriders": {"plaintext": [overrider]}});
        policy.set(&["spec"], json!({"overrideRules": [rule]}));
        case.policies.push(Arc::new(OverridePolicy::read(&policy).expect("readable")));
        let plan = case.plan(&[]);
        assert_eq!(created(&plan), [("m2", 3)]);
        assert_eq!(failures(&plan), [("m1", reason)]);
        assert_eq!(plan.failures[0].considered.len(), 1);
    }
}

#[test]
fn webhook_answers_are_used_as_data() {
    let template = json!({"apiVersion": "example.io/v1", "kind": "Workload",
        "metadata": {"name": "w", "namespace": "default"}, "spec": {"replicas": 5}});
    let clusters = json!([{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 3}, {"name": "m3", "replicas": 4}]);
    let mut case = Case::new(template, json!({"replicas": 9, "clusters": clusters}));
    let rule = json!({"operations": ["ReviseReplica"], "apiGroups": ["*"], "apiVersions": ["*"], "kinds": ["*"]});
    let configuration = json!({"metadata": {"name": "c"}, "webhooks": [{"name": "h", "rules": [rule],
        "interpreterContextVersions": ["v1alpha1"], "clientConfig": {}}]});
    case.webhooks.push(Arc::new(object(configuration)));
    // [{"op":"replace","path":"/spec/replicas","value":2}]
    let patch = "W3sib3AiOiJyZXBsYWNlIiwicGF0aCI6Ii9zcGVjL3JlcGxpY2FzIiwidmFsdWUiOjJ9XQ==";
    let response = json!({"uid": "1", "successful": true, "patchType": "JSONPatch", "patch": patch});
    case.revisions.insert(2, WebhookAnswer { uid: "1".to_owned(), body: Ok(json!({"response": response})) });
    case.revisions.insert(3, WebhookAnswer { uid: "2".to_owned(), body: Err("timed out".to_owned()) });
    let plan = case.plan(&[]);
    assert_eq!(created(&plan), [("m1", 2)]);
    let failed = |reason: &str| {
        format!("Internal error occurred: failed calling webhook \"c/h\": failed to call webhook: {reason}")
    };
    let expected = [failed("timed out"), failed("webhook c/h cannot be called from here")];
    assert_eq!(failures(&plan), [("m2", expected[0].as_str()), ("m3", expected[1].as_str())]);
}
