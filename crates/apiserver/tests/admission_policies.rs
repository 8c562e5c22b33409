//! ValidatingAdmissionPolicies as clients see them: refusals, warnings and audit notes.

mod admission_world;

use admission_world::{CONFIGMAPS, GROUP, World};
use serde_json::{Value, json};

fn configmap(data: Value) -> Value {
    json!({"metadata": {"name": "a", "labels": {"app": "web"}}, "data": data})
}

fn policy(change: Value) -> Value {
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]});
    let mut spec = json!({"matchConstraints": {"resourceRules": [rule]}});
    for (key, value) in change.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    json!({"metadata": {"name": "p.example.com"}, "spec": spec})
}

fn binding(change: Value) -> Value {
    let mut spec = json!({"policyName": "p.example.com", "validationActions": ["Deny"]});
    for (key, value) in change.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    json!({"metadata": {"name": "b"}, "spec": spec})
}

async fn put_up(world: &World, policy: Value, binding: Value) {
    world.make(&format!("{GROUP}/validatingadmissionpolicies"), policy).await;
    world.configure("validatingadmissionpolicybindings", binding).await;
}

async fn take_down(world: &World) {
    world.remove(&format!("{GROUP}/validatingadmissionpolicybindings/b")).await;
    world.remove(&format!("{GROUP}/validatingadmissionpolicies/p.example.com")).await;
}

/// Puts the policy up, creates a configmap with `k: v`, and takes both away. An empty message means success.
async fn check(world: &World, spec: Value, bound: Value, code: u16, message: &str) {
    put_up(world, policy(spec.clone()), binding(bound.clone())).await;
    let reply = world.ask("POST", CONFIGMAPS, configmap(json!({"k": "v"}))).await;
    let expected = match message {
        "" => String::new(),
        text => format!(
            "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p.example.com' with binding 'b' denied request: {text}"
        ),
    };
    assert_eq!((reply.code, reply.message()), (code, expected.as_str()), "{spec} {bound}");
    take_down(world).await;
    if code == 201 {
        world.remove(&format!("{CONFIGMAPS}/a")).await;
    }
}

#[tokio::test]
async fn validations_refuse_with_their_message_and_reason() {
    let world = World::new().await;
    let validation = |fields: Value| json!({"validations": [fields]});
    let failing = "expression 'object.nope == 1' resulted in error: no such key: nope";
    for (spec, code, message) in [
        (validation(json!({"expression": "object.data.k == 'v'"})), 201, ""),
        (validation(json!({"expression": "object.data.k == 'w'"})), 422, "failed expression: object.data.k == 'w'"),
        (validation(json!({"expression": "false", "message": " no "})), 422, "no"),
        (validation(json!({"expression": "false", "reason": "Forbidden", "message": "no"})), 403, "no"),
        (
            validation(json!({"expression": "false", "messageExpression": "'k is ' + object.data.k", "message": "no"})),
            422,
            "k is v",
        ),
        (
            validation(json!({"expression": "false", "messageExpression": "string(object.nope)", "message": "no"})),
            422,
            "no",
        ),
        (validation(json!({"expression": "false", "messageExpression": "'a\\nb'", "message": "no"})), 422, "no"),
        (validation(json!({"expression": "object.nope == 1"})), 422, failing),
        (validation(json!({"expression": "oldObject == null && request.operation == 'CREATE'"})), 201, ""),
        (validation(json!({"expression": "namespaceObject.metadata.labels.tier == 'prod'"})), 201, ""),
        (validation(json!({"expression": "request.userInfo.username == 'admin'"})), 201, ""),
        (validation(json!({"expression": "authorizer.requestResource.check('create').allowed()"})), 201, ""),
        (
            validation(json!({"expression":
                "authorizer.serviceAccount('team', 'x').group('').resource('pods').check('get').allowed()"})),
            422,
            "failed expression: authorizer.serviceAccount('team', 'x').group('').resource('pods').check('get').allowed()",
        ),
    ] {
        check(&world, spec, json!({}), code, message).await;
    }
    let open = json!({"failurePolicy": "Ignore", "validations": [{"expression": "object.nope == 1"}]});
    check(&world, open, json!({}), 201, "").await;
}

#[tokio::test]
async fn the_refusal_is_a_whole_status() {
    let world = World::new().await;
    put_up(&world, policy(json!({"validations": [{"expression": "false", "message": "no"}]})), binding(json!({})))
        .await;
    let body = world.ask("POST", CONFIGMAPS, configmap(json!({}))).await.body;
    let text = "ValidatingAdmissionPolicy 'p.example.com' with binding 'b' denied request: no";
    assert_eq!(body["reason"], "Invalid");
    assert_eq!(body["details"], json!({"name": "a", "kind": "configmaps", "causes": [{"message": text}]}));
}

#[tokio::test]
async fn variables_are_computed_from_each_other() {
    let world = World::new().await;
    let spec = |expression: &str| {
        json!({"variables": [
            {"name": "size", "expression": "size(object.data)"},
            {"name": "twice", "expression": "variables.size * 2"},
            {"name": "bad", "expression": "object.nope"},
        ], "validations": [{"expression": expression, "messageExpression": "'twice is ' + string(variables.twice)"}]})
    };
    check(&world, spec("variables.twice == 2"), json!({}), 201, "").await;
    check(&world, spec("variables.twice == 3"), json!({}), 422, "twice is 2").await;
    let failing = "expression 'variables.bad == 1' resulted in error: composited variable \"bad\" fails to evaluate: no such key: nope";
    check(&world, spec("variables.bad == 1"), json!({}), 422, failing).await;
}

#[tokio::test]
async fn policies_and_bindings_both_have_match_rules() {
    let world = World::new().await;
    let refuse = |change: Value| {
        let mut spec = json!({"validations": [{"expression": "false", "message": "no"}]});
        for (key, value) in change.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        spec
    };
    let constraints = |rule: Value, change: Value| {
        let mut constraints = json!({"resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"],
            "operations": ["CREATE"]}]});
        for (key, value) in rule.as_object().into_iter().flatten() {
            constraints["resourceRules"][0][key] = value.clone();
        }
        for (key, value) in change.as_object().into_iter().flatten() {
            constraints[key] = value.clone();
        }
        refuse(json!({"matchConstraints": constraints}))
    };
    let exclude = json!({"excludeResourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
        "resources": ["configmaps"], "operations": ["*"]}]});
    let condition = |text: &str| refuse(json!({"matchConditions": [{"name": "c", "expression": text}]}));
    for (spec, bound, refused) in [
        (refuse(json!({})), json!({}), true),
        (constraints(json!({"resources": ["pods"]}), json!({})), json!({}), false),
        (constraints(json!({"resourceNames": ["a"]}), json!({})), json!({}), true),
        (constraints(json!({"resourceNames": ["b"]}), json!({})), json!({}), false),
        (constraints(json!({}), exclude), json!({}), false),
        (condition("object.data.k == 'v'"), json!({}), true),
        (condition("object.data.k == 'w'"), json!({}), false),
        (refuse(json!({})), json!({"matchResources": {"namespaceSelector": {"matchLabels": {"tier": "prod"}}}}), true),
        (refuse(json!({})), json!({"matchResources": {"namespaceSelector": {"matchLabels": {"tier": "x"}}}}), false),
        (refuse(json!({})), json!({"matchResources": {"objectSelector": {"matchLabels": {"app": "db"}}}}), false),
        (refuse(json!({})), json!({"policyName": "another"}), false),
    ] {
        let (code, message) = if refused { (422, "no") } else { (201, "") };
        check(&world, spec, bound, code, message).await;
    }
}

#[tokio::test]
async fn parameters_come_from_objects() {
    let world = World::new().await;
    let limits = |name: &str, value: &str, labels: Value| json!({"metadata": {"name": name, "labels": labels}, "stringData": {}, "type": "x/y", "data": {"max": value}});
    let secrets = "/api/v1/namespaces/other/secrets";
    world.make(secrets, limits("low", "MA==", json!({"set": "one"}))).await;
    world.make(secrets, limits("high", "OQ==", json!({"set": "both"}))).await;
    world.make(secrets, limits("higher", "OTk=", json!({"set": "both"}))).await;
    world.settle().await;
    let spec = json!({"paramKind": {"apiVersion": "v1", "kind": "Secret"}, "validations": [{
        "expression": "params != null && params.data.max != 'MA=='",
        "messageExpression": "'limit ' + params.metadata.name"}]});
    let spec_of_x =
        json!({"paramKind": {"apiVersion": "v1", "kind": "Secret"}, "validations": [{"expression": "params.x == 1"}]});
    let reference = |change: Value| {
        let mut reference = json!({"namespace": "other", "parameterNotFoundAction": "Deny"});
        for (key, value) in change.as_object().into_iter().flatten() {
            reference[key] = value.clone();
        }
        json!({"paramRef": reference})
    };
    let missing = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    let allow = json!({"name": "gone", "parameterNotFoundAction": "Allow"});
    for (bound, code, message) in [
        (reference(json!({"name": "high"})), 201, ""),
        (reference(json!({"name": "low"})), 422, "limit low"),
        (reference(json!({"name": "gone"})), 422, missing),
        (reference(allow), 201, ""),
        (reference(json!({"selector": {"matchLabels": {"set": "both"}}})), 201, ""),
        (reference(json!({"selector": {}})), 422, "limit low"),
    ] {
        check(&world, spec.clone(), bound, code, message).await;
    }
    check(&world, spec_of_x, json!({}), 422, "expression 'params.x == 1' resulted in error: no such key: x").await;
    let unknown = json!({"paramKind": {"apiVersion": "example.com/v1", "kind": "Limit"},
        "validations": [{"expression": "params != null"}]});
    put_up(&world, policy(unknown), binding(reference(json!({"name": "x"})))).await;
    let reply = world.ask("POST", CONFIGMAPS, configmap(json!({}))).await;
    let text = "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p.example.com' denied request: failed to configure policy: failed to find resource referenced by paramKind: 'example.com/v1, Kind=Limit'";
    assert_eq!((reply.code, reply.message()), (422, text));
}

#[tokio::test]
async fn a_binding_may_only_warn_or_audit() {
    let world = World::new().await;
    let spec = json!({"validations": [{"expression": "true"}, {"expression": "false", "message": "no"}],
    "auditAnnotations": [
        {"key": "k", "valueExpression": "'k is ' + object.data.k"},
        {"key": "none", "valueExpression": "null"},
    ]});
    put_up(&world, policy(spec), binding(json!({"validationActions": ["Warn", "Audit"]}))).await;
    let reply = world.ask("POST", CONFIGMAPS, configmap(json!({"k": "v"}))).await;
    let warning = "299 - \"Validation failed for ValidatingAdmissionPolicy 'p.example.com' with binding 'b': no\"";
    assert_eq!((reply.code, &reply.warnings[..]), (201, &[warning.to_owned()][..]));
    assert_eq!(world.audited("p.example.com/k").await.as_deref(), Some("k is v"));
    let noted = world.audited("validation.policy.admission.k8s.io/validation_failure").await;
    let expected = r#"[{"message":"no","policy":"p.example.com","binding":"b","expressionIndex":1,"validationActions":["Warn","Audit"]}]"#;
    assert_eq!(noted.as_deref(), Some(expected));
}

#[tokio::test]
async fn deletes_and_updates_see_the_old_object() {
    let world = World::new().await;
    world.make(CONFIGMAPS, configmap(json!({"k": "v"}))).await;
    let spec = json!({"validations": [
        {"expression": "request.operation != 'UPDATE' || object.data.k == oldObject.data.k", "message": "k stays"},
        {"expression": "request.operation != 'DELETE' || object == null && oldObject.data.k != 'v'", "message": "it stays"},
    ]});
    put_up(&world, policy(spec), binding(json!({}))).await;
    let path = format!("{CONFIGMAPS}/a");
    let changed = world.ask("PATCH", &path, json!({"data": {"k": "w"}})).await;
    assert!(changed.message().ends_with("denied request: k stays"), "{}", changed.body);
    let removed = world.ask("DELETE", &path, Value::Null).await;
    assert!(removed.message().ends_with("denied request: it stays"), "{}", removed.body);
    take_down(&world).await;
    world.remove(&path).await;
}
