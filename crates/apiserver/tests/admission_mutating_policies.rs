//! MutatingAdmissionPolicies as clients see them: changes, their order, and failures.

mod admission_world;

use admission_world::{Answer, CONFIGMAPS, GROUP, Webhooks, World};
use serde_json::{Value, json};

fn configmap(data: Value) -> Value {
    json!({"metadata": {"name": "a", "labels": {"app": "web"}}, "data": data})
}

fn policy(name: &str, change: Value) -> Value {
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE", "UPDATE"]});
    let mut spec = json!({"matchConstraints": {"resourceRules": [rule]}, "reinvocationPolicy": "Never"});
    for (key, value) in change.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    json!({"metadata": {"name": name}, "spec": spec})
}

fn apply(expression: &str) -> Value {
    json!([{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}])
}

fn patch(expression: &str) -> Value {
    json!([{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}])
}

async fn put_up(world: &World, name: &str, spec: Value, bound: Value) {
    world.make(&format!("{GROUP}/mutatingadmissionpolicies"), policy(name, spec)).await;
    let mut binding = json!({"policyName": name});
    for (key, value) in bound.as_object().into_iter().flatten() {
        binding[key] = value.clone();
    }
    world.configure("mutatingadmissionpolicybindings", json!({"metadata": {"name": name}, "spec": binding})).await;
}

async fn take_down(world: &World, name: &str) {
    world.remove(&format!("{GROUP}/mutatingadmissionpolicybindings/{name}")).await;
    world.remove(&format!("{GROUP}/mutatingadmissionpolicies/{name}")).await;
}

/// Puts a policy up, creates a configmap with `k: v` and takes both away: its data and labels, or the refusal.
async fn check(world: &World, spec: Value, bound: Value, expected: Result<Value, &str>) {
    put_up(world, "p", spec.clone(), bound.clone()).await;
    let reply = world.ask("POST", CONFIGMAPS, configmap(json!({"k": "v"}))).await;
    let found = match reply.code {
        201 => Ok(json!([reply.body["data"], reply.body["metadata"]["labels"]])),
        _ => Err(reply.message().to_owned()),
    };
    assert_eq!(found, expected.map_err(str::to_owned), "{spec} {bound}");
    take_down(world, "p").await;
    if reply.code == 201 {
        world.remove(&format!("{CONFIGMAPS}/a")).await;
    }
}

#[tokio::test]
async fn apply_configurations_merge_and_patches_apply() {
    let world = World::new().await;
    let labels = json!({"app": "web"});
    for (mutations, expected) in [
        (apply("Object{data: {'x': object.data.k}}"), json!([{"k": "v", "x": "v"}, labels])),
        (
            apply("Object{metadata: Object.metadata{labels: {'tier': 'prod'}}}"),
            json!([{"k": "v"}, {"app": "web", "tier": "prod"}]),
        ),
        (patch("[JSONPatch{op: 'replace', path: '/data/k', value: 'w'}]"), json!([{"k": "w"}, labels])),
        (
            patch("[JSONPatch{op: 'test', path: '/data/k', value: 'nope'}, JSONPatch{op: 'remove', path: '/data/k'}]"),
            json!([{"k": "v"}, labels]),
        ),
        (
            patch("[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a.b/c'), value: 'd'}]"),
            json!([{"k": "v"}, {"app": "web", "a.b/c": "d"}]),
        ),
        (
            json!([
                apply("Object{data: {'n': '1'}}")[0],
                patch("[JSONPatch{op: 'copy', from: '/data/n', path: '/data/m'}]")[0]
            ]),
            json!([{"k": "v", "n": "1", "m": "1"}, labels]),
        ),
    ] {
        check(&world, json!({"mutations": mutations}), json!({}), Ok(expected)).await;
    }
}

#[tokio::test]
async fn conditions_variables_and_parameters_decide() {
    let world = World::new().await;
    let labels = json!({"app": "web"});
    let unchanged = Ok(json!([{"k": "v"}, labels]));
    let add = apply("Object{data: {'x': variables.text}}");
    let variables = json!([{"name": "text", "expression": "object.data.k + '!'"}]);
    let spec = |more: Value| {
        let mut spec = json!({"mutations": add, "variables": variables});
        for (key, value) in more.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        spec
    };
    check(&world, spec(json!({})), json!({}), Ok(json!([{"k": "v", "x": "v!"}, labels]))).await;
    let condition = |expression: &str| json!({"matchConditions": [{"name": "c", "expression": expression}]});
    check(&world, spec(condition("object.data.k == 'other'")), json!({}), unchanged.clone()).await;
    let elsewhere = json!({"matchResources": {"namespaceSelector": {"matchLabels": {"tier": "nope"}}}});
    check(&world, spec(json!({})), elsewhere, unchanged.clone()).await;
    world
        .make("/api/v1/namespaces/other/configmaps", json!({"metadata": {"name": "params"}, "data": {"suffix": "-s"}}))
        .await;
    let with_params = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "mutations": apply("Object{data: {'x': object.data.k + params.data.suffix}}"),
    });
    let bound = |name: &str, action: &str| json!({"paramRef": {"name": name, "namespace": "other", "parameterNotFoundAction": action}});
    check(&world, with_params.clone(), bound("params", "Deny"), Ok(json!([{"k": "v", "x": "v-s"}, labels]))).await;
    check(&world, with_params.clone(), bound("none", "Allow"), unchanged).await;
    let missing = "policy 'p' with binding 'p' denied request: failed to configure binding: no params found for policy \
        binding with `Deny` parameterNotFoundAction";
    check(&world, with_params, bound("none", "Deny"), Err(missing)).await;
}

#[tokio::test]
async fn failures_refuse_the_write_unless_they_are_ignored() {
    let world = World::new().await;
    let unchanged = || Ok(json!([{"k": "v"}, {"app": "web"}]));
    for (mutations, problem) in [
        (
            apply("Object{data: {'x': object.nope}}"),
            "expression 'Object{data: {'x': object.nope}}' resulted in error: no such key: nope",
        ),
        (
            apply("Object{nope: Object.nope{}}"),
            "error applying patch: failed to convert patch object to typed object: .nope: field not declared in schema",
        ),
        (
            apply(
                "Object{metadata: Object.metadata{finalizers: ['x.io/y'], ownerReferences: [Object.metadata.other{uid: 'u'}]}}",
            ),
            "type mismatch: unexpected type name \"Object.metadata.other\", expected \"Object.metadata.ownerReferences\", \
             which matches field name path from root Object type",
        ),
        (
            patch("[JSONPatch{op: 'remove', path: '/data/none'}]"),
            "JSON Patch: Unable to remove nonexistent key: none: missing value",
        ),
        (
            patch("[JSONPatch{op: 'replace', path: '/kind', value: 'Secret'}]"),
            "JSON Patch: the patch changes /v1, Kind=ConfigMap into /v1, Kind=Secret",
        ),
    ] {
        let text = format!("policy 'p' with binding 'p' denied request: {problem}");
        check(&world, json!({"mutations": mutations}), json!({}), Err(&text)).await;
        check(&world, json!({"mutations": mutations, "failurePolicy": "Ignore"}), json!({}), unchanged()).await;
    }
}

#[tokio::test]
async fn lists_that_merge_as_a_whole_are_refused() {
    let world = World::new().await;
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]});
    let spec =
        |expression: &str| json!({"matchConstraints": {"resourceRules": [rule]}, "mutations": apply(expression)});
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let pods = "/api/v1/namespaces/team/pods";
    put_up(
        &world,
        "p",
        spec("Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', command: ['x']}]}}"),
        json!({}),
    )
    .await;
    let reply = world.ask("POST", pods, pod.clone()).await;
    let text = "policy 'p' with binding 'p' denied request: error applying patch: invalid ApplyConfiguration: may not mutate \
        atomic arrays, maps or structs: .spec.containers[0].command";
    assert_eq!((reply.code, reply.message()), (403, text));
    take_down(&world, "p").await;
    let sidecar = "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'side', image: 'proxy'}]}}";
    put_up(&world, "p", spec(sidecar), json!({})).await;
    let made = world.make(pods, pod).await;
    let images: Vec<_> = made["spec"]["containers"].as_array().into_iter().flatten().map(|c| &c["image"]).collect();
    assert_eq!(images, ["i", "proxy"]);
    let defaulted = &made["spec"]["containers"][1]["imagePullPolicy"];
    assert_eq!(defaulted, "Always", "what a policy adds gets defaults");
}

#[tokio::test]
async fn policies_are_reinvoked_after_later_changes_if_configured() {
    let world = World::new().await;
    let count = "Object{data: {'runs': object.data.?runs.orValue('') + 'x', 'seen': string(has(object.data.late))}}";
    let mutations = |expression: &str| json!({"mutations": apply(expression)});
    for (reinvocation, runs, seen) in [("IfNeeded", "xx", "true"), ("Never", "x", "false")] {
        let mut early = mutations(count);
        early["reinvocationPolicy"] = reinvocation.into();
        put_up(&world, "early", early, json!({})).await;
        put_up(&world, "later", mutations("Object{data: {'late': 'y'}}"), json!({})).await;
        let made = world.make(CONFIGMAPS, configmap(json!({"k": "v"}))).await;
        assert_eq!(made["data"], json!({"k": "v", "runs": runs, "seen": seen, "late": "y"}), "{reinvocation}");
        world.remove(&format!("{CONFIGMAPS}/a")).await;
        take_down(&world, "later").await;
        // Webhooks come after policies and ask for a second round too.
        let hooks = Webhooks::start().await;
        hooks.answers("late", Answer::patch(json!([{"op": "add", "path": "/data/late", "value": "y"}])));
        let configuration = json!({"metadata": {"name": "late"}, "webhooks": [hooks.hook("late", json!({}))]});
        world.configure("mutatingwebhookconfigurations", configuration).await;
        let made = world.make(CONFIGMAPS, configmap(json!({"k": "v"}))).await;
        assert_eq!(made["data"], json!({"k": "v", "runs": runs, "seen": seen, "late": "y"}), "{reinvocation}, webhook");
        world.remove(&format!("{GROUP}/mutatingwebhookconfigurations/late")).await;
        world.remove(&format!("{CONFIGMAPS}/a")).await;
        take_down(&world, "early").await;
    }
    let mut alone = mutations("Object{data: {'size': string(object.data.size())}}");
    alone["reinvocationPolicy"] = "IfNeeded".into();
    put_up(&world, "alone", alone, json!({})).await;
    let made = world.make(CONFIGMAPS, configmap(json!({"k": "v"}))).await;
    assert_eq!(
        made["data"],
        json!({"k": "v", "size": "2"}),
        "a policy that wants to sees its own change, as in kube-apiserver"
    );
    world.remove(&format!("{CONFIGMAPS}/a")).await;
    take_down(&world, "alone").await;
    // The server's own steps see what policies changed.
    put_up(
        &world,
        "marks",
        mutations("Object{metadata: Object.metadata{annotations: {'complete-me': 'please'}}}"),
        json!({}),
    )
    .await;
    let made = world.make(CONFIGMAPS, configmap(json!({}))).await;
    assert_eq!(made["metadata"]["annotations"]["completed"], "yes");
}

#[tokio::test]
async fn updates_are_changed_and_policies_themselves_are_not() {
    let world = World::new().await;
    world.make(CONFIGMAPS, configmap(json!({"k": "v"}))).await;
    let rule =
        json!({"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["CREATE", "UPDATE"]});
    let spec = json!({
        "matchConstraints": {"resourceRules": [rule]},
        "mutations": patch("[JSONPatch{op: 'add', path: '/metadata/labels', value: {'by': 'policy', 'old': string(oldObject != null)}}]"),
    });
    put_up(&world, "all", spec, json!({})).await;
    let reply = world.ask("PATCH", &format!("{CONFIGMAPS}/a"), json!({"data": {"k": "w"}})).await;
    assert_eq!(reply.body["metadata"]["labels"], json!({"by": "policy", "old": "true"}), "{}", reply.body);
    let made = world
        .make(&format!("{GROUP}/mutatingadmissionpolicies"), policy("free", json!({"mutations": apply("Object{}")})))
        .await;
    assert_eq!(made["metadata"]["labels"], Value::Null);
}

#[tokio::test]
async fn expressions_are_checked_when_the_policy_is_written() {
    let world = World::new().await;
    for (mutations, expected) in [
        (apply("{'a': 1}"), "must evaluate to Object but got map(string, int)"),
        (patch("Object{}"), "must evaluate to list(JSONPatch) but got Object"),
        (apply("Object{a: nope}"), "undeclared reference to 'nope'"),
        (apply(" "), "Required value"),
    ] {
        let reply = world
            .ask("POST", &format!("{GROUP}/mutatingadmissionpolicies"), policy("p", json!({"mutations": mutations})))
            .await;
        assert_eq!(reply.code, 422, "{}", reply.body);
        assert!(reply.message().contains(expected), "{expected}: {}", reply.message());
    }
}
