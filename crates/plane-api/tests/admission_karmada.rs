//! Karmada's kinds behind the API: defaults, refusals, quotas, protection, and definitions of what is served anyway.

#[path = "../../apiserver/tests/admission_world/mod.rs"]
mod admission_world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use admission_world::World;
use api::features::Features;
use plane_api::admission::karmada;
use plane_api::admission::registry_stores::RegistryStoreAccess;
use plane_metrics::PlaneMetrics;
use serde_json::{Value, json};

const POLICIES: &str = "/apis/policy.karmada.io/v1alpha1/namespaces/team/propagationpolicies";
const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/team/resourcebindings";
const OLD_BINDINGS: &str = "/apis/work.karmada.io/v1alpha1/namespaces/team/resourcebindings";
const QUOTAS: &str = "/apis/policy.karmada.io/v1alpha1/namespaces/team/federatedresourcequotas";
const CUSTOMIZATIONS: &str = "/apis/config.karmada.io/v1alpha1/resourceinterpretercustomizations";
const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
const REGISTRIES: &str = "/apis/search.karmada.io/v1alpha1/resourceregistries";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

async fn world(gates: &str) -> World {
    measured(gates, &PlaneMetrics::default()).await
}

async fn measured(gates: &str, metrics: &PlaneMetrics) -> World {
    let features = Arc::new(Features::parse(gates).expect("gates"));
    let kinds = [kinds::builtin(), validation::kinds(&features)].concat();
    let compile = Arc::new(|script: &str| if script == "bad" { Err("no".to_owned()) } else { Ok(()) });
    let metrics = metrics.webhooks.clone();
    let mut steps = karmada::steps(karmada::Options { features, allow_no_execute_taints: false, compile, metrics });
    steps.push(Box::new(RegistryStoreAccess));
    World::serving(kinds, steps).await
}

fn object(group_version: &str, kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": group_version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

fn policy(spec: Value) -> Value {
    object("policy.karmada.io/v1alpha1", "PropagationPolicy", "p", spec)
}

fn binding(name: &str, replicas: i32) -> Value {
    object(
        "work.karmada.io/v1alpha2",
        "ResourceBinding",
        name,
        json!({
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "team", "name": "d"},
            "replicaRequirements": {"resourceRequest": {"cpu": "1"}},
            "clusters": [{"name": "m1", "replicas": replicas}],
        }),
    )
}

#[tokio::test]
async fn a_policy_is_completed_and_a_bad_one_refused_as_by_a_webhook() {
    let world = world("").await;
    let made =
        world.make(POLICIES, policy(json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "Secret"}]}))).await;
    assert_eq!(
        made["metadata"]["labels"]["propagationpolicy.karmada.io/permanent-id"].as_str().map(str::len),
        Some(36)
    );
    assert_eq!(made["metadata"]["finalizers"], json!(["karmada.io/propagation-policy-controller"]));
    assert_eq!(made["spec"]["resourceSelectors"][0]["namespace"], "team");
    assert_eq!((&made["spec"]["preemption"], &made["metadata"]["generation"]), (&json!("Never"), &json!(1)));

    let foreign = json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "Secret", "namespace": "other"}]});
    let refused = world.ask("POST", POLICIES, policy(foreign)).await;
    assert_eq!((refused.code, &refused.body["reason"]), (403, &json!("Forbidden")));
    let start =
        "admission webhook \"propagationpolicy.karmada.io\" denied the request: spec.resourceSelectors[0].namespace";
    assert!(refused.message().starts_with(start), "{}", refused.message());

    let unknown = json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "Secret"}], "preemption": "Maybe"});
    let refused = world.ask("POST", POLICIES, policy(unknown)).await;
    assert_eq!((refused.code, &refused.body["reason"]), (422, &json!("Invalid")), "{}", refused.body);
}

#[tokio::test]
async fn the_policy_of_the_pull_mode_guide_is_taken_with_a_warning() {
    let world = world("").await;
    let weight = |cluster: &str, weight: i32| json!({"targetCluster": {"clusterNames": [cluster]}, "weight": weight});
    let spec = json!({
        "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "my-app"}],
        "placement": {
            "replicaScheduling": {
                "replicaDivisionPreference": "Weighted", "replicaSchedulingType": "Divided",
                "weightPreference": {"staticWeightList": [weight("ottawa", 1), weight("robbinsdale", 0)]},
            },
            "spreadConstraints": [{"maxGroups": 1, "minGroups": 1, "spreadByField": "cluster"}],
        },
        "failover": {"application": {"decisionConditions": {"tolerationSeconds": 60}, "purgeMode": "Gracefully"}},
    });
    let reply = world.ask("POST", POLICIES, policy(spec)).await;
    assert_eq!(reply.code, 201, "{}", reply.body);
    assert_eq!(reply.body["spec"]["failover"]["application"]["gracePeriodSeconds"], 600);
    assert!(reply.warnings.iter().any(|warning| warning.contains("propagateDeps")), "{:?}", reply.warnings);
}

#[tokio::test]
async fn bindings_are_shown_in_the_version_asked_for() {
    let world = world("").await;
    world.make(BINDINGS, binding("b", 2)).await;
    let old = world.ask("GET", &format!("{OLD_BINDINGS}/b"), Value::Null).await.body;
    assert_eq!(old["apiVersion"], "work.karmada.io/v1alpha1");
    assert_eq!(old["spec"]["resource"]["resourcePerReplicas"], json!({"cpu": "1"}));
    let listed = world.ask("GET", OLD_BINDINGS, Value::Null).await.body;
    assert_eq!(listed["items"][0]["apiVersion"], "work.karmada.io/v1alpha1");
}

#[tokio::test]
async fn bindings_reference_objects_of_their_own_scope_only() {
    const CLUSTER_BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/clusterresourcebindings";
    let world = world("").await;
    let rows = [
        (BINDINGS, "v1", "Secret", "karmada-cluster", "spec.resource.namespace: Invalid value: \"karmada-cluster\""),
        (BINDINGS, "v1", "Secret", "kube-system", "spec.resource.namespace: Invalid value: \"kube-system\""),
        (BINDINGS, "v1", "Namespace", "", "spec.resource.namespace: Invalid value: \"\""),
        (BINDINGS, "v1", "Namespace", "team", "spec.resource.kind: Invalid value: \"Namespace\""),
        (OLD_BINDINGS, "v1", "Secret", "other", "spec.resource.namespace: Invalid value: \"other\""),
        (CLUSTER_BINDINGS, "v1", "Secret", "team", "spec.resource.namespace: Invalid value: \"team\""),
        (CLUSTER_BINDINGS, "v1", "Secret", "", "spec.resource.kind: Invalid value: \"Secret\""),
        (BINDINGS, "v1", "Secret", "team", ""),
        (BINDINGS, "example.io/v1", "Unknown", "team", ""),
        (CLUSTER_BINDINGS, "v1", "Namespace", "", ""),
    ];
    for (index, (path, api_version, kind, namespace, expected)) in rows.into_iter().enumerate() {
        let resource = json!({"apiVersion": api_version, "kind": kind, "namespace": namespace, "name": "x"});
        let spec = json!({"resource": resource, "clusters": [{"name": "m2"}]});
        let version = path.split('/').nth(3).expect("a version");
        let scope = if path == CLUSTER_BINDINGS { "ClusterResourceBinding" } else { "ResourceBinding" };
        let body = object(&format!("work.karmada.io/{version}"), scope, &format!("b{index}"), spec);
        let answer = world.ask("POST", path, body).await;
        match expected {
            "" => assert_eq!(answer.code, 201, "{path} {kind} {namespace:?}: {}", answer.message()),
            text => {
                assert_eq!(answer.code, 403, "{path} {kind} {namespace:?}");
                assert!(answer.message().contains(text), "{}", answer.message());
            }
        }
    }
    // An update does not turn a binding to another object either.
    let made = world.ask("POST", BINDINGS, binding("turned", 1)).await;
    assert_eq!(made.code, 201);
    let patch = json!({"spec": {"resource": {"kind": "Secret", "apiVersion": "v1", "namespace": "other"}}});
    assert_eq!(world.ask("PATCH", &format!("{BINDINGS}/turned"), patch).await.code, 403);
}

#[tokio::test]
async fn a_protected_object_of_any_kind_is_not_deleted() {
    let world = world("").await;
    let path = "/api/v1/namespaces/team/configmaps";
    let labels = json!({"resourcetemplate.karmada.io/deletion-protected": "Always"});
    world.make(path, json!({"metadata": {"name": "c", "labels": labels}})).await;
    let refused = world.ask("DELETE", &format!("{path}/c"), Value::Null).await;
    let expected = "admission webhook \"resourcedeletionprotection.karmada.io\" denied the request: This resource is protected, please make sure to remove the label: resourcetemplate.karmada.io/deletion-protected";
    assert_eq!((refused.code, refused.message()), (403, expected));
    let off = json!({"metadata": {"labels": {"resourcetemplate.karmada.io/deletion-protected": "Sometimes"}}});
    assert_eq!(world.ask("PATCH", &format!("{path}/c"), off).await.code, 200);
    assert_eq!(world.ask("DELETE", &format!("{path}/c"), Value::Null).await.code, 200);
}

#[tokio::test]
async fn bindings_respect_the_quotas_of_their_namespace() {
    let world = world("FederatedQuotaEnforcement=true").await;
    let quota = object("policy.karmada.io/v1alpha1", "FederatedResourceQuota", "q", json!({"overall": {"cpu": "5"}}));
    world.make(QUOTAS, quota).await;
    world.make(BINDINGS, binding("one", 3)).await;
    let used = || async {
        let quota = world.ask("GET", &format!("{QUOTAS}/q"), Value::Null).await.body;
        quota["status"]["overallUsed"]["cpu"].clone()
    };
    assert_eq!(used().await, "3");
    let refused = world.ask("POST", BINDINGS, binding("two", 3)).await;
    assert_eq!((refused.code, &refused.body["reason"]), (403, &json!("QuotaExceeded")));
    let expected = "admission webhook \"resourcebinding.karmada.io\" denied the request: FederatedResourceQuota(team/q) exceeded for resource cpu: requested sum 6, limit 5.";
    assert_eq!(refused.message(), expected);
    let dry = world.ask("POST", &format!("{BINDINGS}?dryRun=All"), binding("two", 2)).await;
    assert_eq!((dry.code, used().await), (201, json!("3")));
    let shrunk = json!({"spec": {"clusters": [{"name": "m1", "replicas": 1}]}});
    assert_eq!(world.ask("PATCH", &format!("{BINDINGS}/one"), shrunk).await.code, 200);
    assert_eq!(used().await, "1");
    let elsewhere = BINDINGS.replace("/team/", "/other/");
    let mut other = binding("three", 30);
    other["spec"]["resource"]["namespace"] = json!("other");
    world.make(&elsewhere, other).await;
}

#[tokio::test]
async fn customizations_compile_and_do_not_contradict_each_other() {
    let world = world("").await;
    let customization = |name: &str, rule: &str, script: &str| {
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
        let spec = json!({"target": target, "customizations": {rule: {"luaScript": script}}});
        object("config.karmada.io/v1alpha1", "ResourceInterpreterCustomization", name, spec)
    };
    world.make(CUSTOMIZATIONS, customization("a", "retention", "x")).await;
    world.make(CUSTOMIZATIONS, customization("b", "statusReflection", "x")).await;
    for (body, expected) in [
        (
            customization("c", "retention", "y"),
            "conflicting with InterpreterOperation(Retain) of existing ResourceInterpreterCustomization(a)",
        ),
        (customization("c", "replicaResource", "bad"), "InterpreterOperation(InterpretReplica) Lua script error: no"),
    ] {
        let refused = world.ask("POST", CUSTOMIZATIONS, body).await;
        assert_eq!(refused.code, 403);
        assert!(refused.message().ends_with(expected), "{}", refused.message());
    }
}

#[tokio::test]
async fn clusters_are_refused_by_their_own_rules_not_by_a_webhook() {
    let world = world("").await;
    let cluster = object("cluster.karmada.io/v1alpha1", "Cluster", "m1", json!({"syncMode": "Push", "zone": "a"}));
    let made = world.make(CLUSTERS, cluster.clone()).await;
    assert_eq!(made["spec"]["resourceModels"].as_array().map(Vec::len), Some(9));
    assert_eq!((&made["spec"]["zones"], &made["status"]), (&json!(["a"]), &json!({})));
    let refused = world.ask("PATCH", &format!("{CLUSTERS}/m1"), json!({"spec": {"syncMode": "Both"}})).await;
    let expected = "Cluster.cluster.karmada.io \"m1\" is invalid: spec.syncMode: Unsupported value: \"Both\": supported values: \"Pull\", \"Push\"";
    assert_eq!((refused.code, refused.message()), (422, expected));
    let replaced = world.ask("PUT", &format!("{CLUSTERS}/m1"), cluster).await;
    assert_eq!(replaced.code, 200, "a cluster may be replaced without saying which version: {}", replaced.body);
}

/// Installers bring Karmada's definitions along, and uninstallers delete them; neither may touch what is stored.
#[tokio::test(flavor = "multi_thread")]
async fn a_definition_of_a_built_in_kind_has_no_effect() {
    let world = world("").await;
    apiserver::prepare(&world.server, Vec::new()).await.expect("prepared");
    let spec = json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "Secret"}]});
    world.make(POLICIES, policy(spec.clone())).await;
    let names = json!({"plural": "propagationpolicies", "singular": "propagationpolicy", "kind": "PropagationPolicy",
        "listKind": "PropagationPolicyList"});
    let anything = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version = json!({"name": "v1alpha1", "served": true, "storage": true, "schema": anything});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "propagationpolicies.policy.karmada.io"},
        "spec": {"group": "policy.karmada.io", "scope": "Namespaced", "names": names, "versions": [version]}});
    world.make(DEFINITIONS, definition).await;
    let path = format!("{DEFINITIONS}/propagationpolicies.policy.karmada.io");
    wait_until(&world, &path, |definition| !definition["status"]["acceptedNames"].is_null()).await;

    let unknown = json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "Secret"}], "preemption": "Maybe"});
    let mut other = policy(unknown);
    other["metadata"]["name"] = "other".into();
    assert_eq!(world.ask("POST", POLICIES, other).await.code, 422, "our schema still holds");

    assert_eq!(world.ask("DELETE", &path, Value::Null).await.code, 200);
    wait_until(&world, &path, |answer| answer["reason"] == "NotFound").await;
    let kept = world.ask("GET", &format!("{POLICIES}/p"), Value::Null).await;
    assert_eq!((kept.code, &kept.body["metadata"]["deletionTimestamp"]), (200, &Value::Null), "{}", kept.body);
}

async fn wait_until(world: &World, path: &str, holds: impl Fn(&Value) -> bool) {
    for _ in 0..400 {
        if holds(&world.ask("GET", path, Value::Null).await.body) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("{path} does not become what was waited for");
}

#[tokio::test]
async fn a_status_write_changes_no_metadata_of_karmada_kinds() {
    let world = world("").await;
    let bindings = BINDINGS.to_owned();
    world.make(&bindings, binding("s", 1)).await;
    let metadata = json!({"annotations": {"a": "b"}, "labels": {"c": "d"}, "finalizers": ["example.com/f"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}]});
    let path = format!("{bindings}/s");
    let before = world.ask("GET", &path, Value::Null).await.body;
    let status = json!({"schedulerObservedGeneration": 1});
    let patched = world.ask("PATCH", &format!("{path}/status"), json!({"metadata": metadata, "status": status})).await;
    assert_eq!(patched.code, 200, "{}", patched.body);
    assert_eq!(patched.body["status"]["schedulerObservedGeneration"], 1);
    let mut whole = patched.body.clone();
    for (field, value) in metadata.as_object().into_iter().flatten() {
        whole["metadata"][field] = value.clone();
    }
    let replaced = world.ask("PUT", &format!("{path}/status"), whole).await;
    assert_eq!(replaced.code, 200, "{}", replaced.body);
    for field in ["annotations", "labels", "finalizers", "ownerReferences"] {
        assert_eq!(replaced.body["metadata"][field], before["metadata"][field], "{field}");
    }
}

#[tokio::test]
async fn kinds_without_a_controller_are_accepted_with_a_warning() {
    let world = world("").await;
    let target = |kind: &str| json!({"apiVersion": "apps/v1", "kind": kind, "name": "web"});
    let hpa = json!({"maxReplicas": 3, "scaleTargetRef": target("Deployment"),
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]});
    let cron = |kind: &str| {
        let mut reference = target(kind);
        if kind == "FederatedHPA" {
            reference["apiVersion"] = json!("autoscaling.karmada.io/v1alpha1");
        }
        json!({"scaleTargetRef": reference, "rules": [{"name": "r", "schedule": "0 0 * * *", "targetReplicas": 1, "targetMinReplicas": 1}]})
    };
    let service = json!({"types": ["LoadBalancer"], "ports": [{"name": "web", "port": 80}]});
    let rows = [
        ("autoscaling.karmada.io/v1alpha1", "FederatedHPA", "federatedhpas", hpa, ""),
        ("autoscaling.karmada.io/v1alpha1", "CronFederatedHPA", "cronfederatedhpas", cron("FederatedHPA"), ""),
        ("autoscaling.karmada.io/v1alpha1", "CronFederatedHPA", "cronfederatedhpas", cron("Deployment"), ""),
        ("networking.karmada.io/v1alpha1", "MultiClusterService", "multiclusterservices", service, "no effect"),
    ];
    for (index, (group_version, kind, plural, spec, expected)) in rows.into_iter().enumerate() {
        let path = format!("/apis/{group_version}/namespaces/team/{plural}");
        let reply = world.ask("POST", &path, object(group_version, kind, &format!("x{index}"), spec)).await;
        assert_eq!(reply.code, 201, "{kind}: {}", reply.body);
        let is_warned = reply.warnings.iter().any(|warning| warning.contains("no effect"));
        assert_eq!(is_warned, !expected.is_empty(), "{kind}: {:?}", reply.warnings);
    }
}

/// The plane sends objects of members, and the login of the backend, to the addresses that a registry names.
#[tokio::test]
async fn a_registry_sends_only_what_its_author_can_read() {
    let registries = json!({"apiGroups": ["search.karmada.io"], "resources": ["resourceregistries"], "verbs": ["*"]});
    let proxy = |names: Value| {
        let mut rule = json!({"apiGroups": ["cluster.karmada.io"], "resources": ["clusters/proxy"], "verbs": ["get"]});
        rule["resourceNames"] = names;
        rule
    };
    let secret = json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["login"], "verbs": ["get"]});
    let plain = json!({"addresses": ["https://198.51.100.1:9200"]});
    let mut with_login = plain.clone();
    with_login["secretRef"] = json!({"namespace": "other", "name": "login"});
    let cases = [
        (vec![], Value::Null, 201),
        (vec![], plain.clone(), 403),
        (vec![proxy(json!(["m1"]))], plain.clone(), 403),
        (vec![proxy(Value::Null)], plain, 201),
        (vec![proxy(Value::Null)], with_login.clone(), 403),
        (vec![secret.clone()], with_login.clone(), 403),
        (vec![proxy(Value::Null), secret], with_login, 201),
    ];
    for (rules, store, expected) in cases {
        let world = world("").await;
        let rules = [rules, vec![registries.clone()]].concat();
        let role = json!({"metadata": {"name": "r"}, "rules": rules});
        world.make(&format!("{RBAC}/clusterroles"), role.clone()).await;
        let binding = json!({"metadata": {"name": "r"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}]});
        world.make(&format!("{RBAC}/clusterrolebindings"), binding).await;
        world.settle().await;
        let mut spec = json!({"targetCluster": {}, "resourceSelectors": [{"apiVersion": "v1", "kind": "Pod"}]});
        if !store.is_null() {
            spec["backendStore"] = json!({"openSearch": store});
        }
        let registry = object("search.karmada.io/v1alpha1", "ResourceRegistry", "r", spec);
        let made = world.ask_as("bob", "POST", REGISTRIES, registry.clone()).await;
        assert_eq!(made.code, expected, "{role} {registry}: {}", made.body);
        if expected == 403 {
            assert!(made.message().contains("spec.backendStore.openSearch"), "{}", made.message());
            // Nor by changing what someone else has made.
            world.make(REGISTRIES, registry.clone()).await;
            let address = json!({"spec": {"backendStore": {"openSearch": {"addresses": ["https://203.0.113.1"]}}}});
            let changed = world.ask_as("bob", "PATCH", &format!("{REGISTRIES}/r"), address).await;
            assert_eq!(changed.code, 403, "{}", changed.body);
        }
    }
}

/// The admissions that were answered, by path, without the prefix `/` and without those that were never asked for.
fn answered(metrics: &PlaneMetrics) -> BTreeMap<String, u32> {
    let mut text = String::new();
    metrics.render(&mut text);
    let requests = text.lines().filter_map(|line| line.strip_prefix("controller_runtime_webhook_requests_total"));
    let mut found = BTreeMap::new();
    for line in requests {
        let parts: Vec<&str> = line.split('"').collect();
        let (path, code, count) = (parts[1].trim_start_matches('/'), parts[3], parts[4].trim_start_matches("} "));
        let count: u32 = count.parse().expect("a number");
        match code {
            "200" if count > 0 => drop(found.insert(path.to_owned(), count)),
            "200" => {}
            _ => assert_eq!((code, count), ("500", 0), "{path}"),
        }
    }
    found
}

#[tokio::test]
async fn admissions_are_counted_by_the_paths_of_karmadas_webhooks() {
    let metrics = PlaneMetrics::default();
    let world = measured("FederatedQuotaEnforcement=true", &metrics).await;
    let maps = "/api/v1/namespaces/team/configmaps";
    let map = |name: &str, protection: &str| {
        let labels = json!({"resourcetemplate.karmada.io/deletion-protected": protection});
        json!({"metadata": {"name": name, "labels": labels}})
    };
    let selected = |namespace: &str| {
        policy(json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "Secret", "namespace": namespace}]}))
    };
    let quota = object("policy.karmada.io/v1alpha1", "FederatedResourceQuota", "q", json!({"overall": {"cpu": "5"}}));
    let writes = [
        ("POST", POLICIES.to_owned(), selected("team"), 201),
        // A rejection is an answer.
        ("POST", POLICIES.to_owned(), selected("other"), 403),
        ("PATCH", format!("{POLICIES}/p"), json!({"metadata": {"labels": {"a": "b"}}}), 200),
        ("POST", QUOTAS.to_owned(), quota, 201),
        ("POST", BINDINGS.to_owned(), binding("b", 1), 201),
        ("PATCH", format!("{BINDINGS}/b"), json!({"spec": {"replicas": 2}}), 200),
        ("PATCH", format!("{BINDINGS}/b/status"), json!({"status": {"schedulerObservedGeneration": 1}}), 200),
        ("POST", BINDINGS.to_owned(), binding("large", 9), 403),
        ("POST", maps.to_owned(), map("on", "Always"), 201),
        ("POST", maps.to_owned(), map("off", "Sometimes"), 201),
        ("POST", maps.to_owned(), json!({"metadata": {"name": "plain"}}), 201),
        ("DELETE", format!("{maps}/on"), Value::Null, 403),
        ("DELETE", format!("{maps}/off"), Value::Null, 200),
        ("DELETE", format!("{maps}/plain"), Value::Null, 200),
    ];
    for (method, path, body, code) in writes {
        let reply = world.ask(method, &path, body).await;
        assert_eq!(reply.code, code, "{method} {path}: {}", reply.body);
    }
    let expected = [
        ("mutate-propagationpolicy", 3),
        ("mutate-resourcebinding", 2),
        ("validate-federatedresourcequota", 1),
        ("validate-propagationpolicy", 3),
        ("validate-resourcebinding", 3),
        ("validate-resourcedeletionprotection", 2),
    ];
    assert_eq!(answered(&metrics), expected.map(|(path, count)| (path.to_owned(), count)).into());
}

/// As `hookServer.Register` has them in Karmada 1.18, `cmd/webhook/app/webhook.go`; conversion is no admission.
#[tokio::test]
async fn every_admission_path_of_karmada_webhook_has_metrics() {
    let metrics = PlaneMetrics::default();
    let _world = measured("", &metrics).await;
    let mut text = String::new();
    metrics.render(&mut text);
    let idle = text.lines().filter_map(|line| line.strip_prefix("controller_runtime_webhook_requests_in_flight"));
    let found: Vec<&str> = idle.map(|line| line.strip_suffix("\"} 0").expect("nothing is asked")).collect();
    let both =
        ["clusterpropagationpolicy", "federatedhpa", "multiclusterservice", "overridepolicy", "propagationpolicy"];
    let both = both.into_iter().chain(["resourcebinding"]);
    let mutating = both.clone().chain(["clusterresourcebinding", "work"]).map(|name| format!("/mutate-{name}"));
    let validating = both.chain([
        "clusteroverridepolicy",
        "clustertaintpolicy",
        "cronfederatedhpa",
        "federatedresourcequota",
        "multiclusteringress",
        "resourcedeletionprotection",
        "resourceinterpretercustomization",
        "resourceinterpreterwebhookconfiguration",
    ]);
    let validating = validating.map(|name| format!("/validate-{name}"));
    let mut expected: Vec<String> = mutating.chain(validating).map(|path| format!("{{webhook=\"{path}")).collect();
    expected.sort();
    assert_eq!(found, expected);
}
