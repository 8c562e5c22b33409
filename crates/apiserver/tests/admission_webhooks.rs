//! Webhooks: which are called for which requests, and the effect of their responses.

mod admission_world;

use admission_world::{Answer, CONFIGMAPS, GROUP, Webhooks, World, patch_response};
use serde_json::{Value, json};

fn configmap(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": "web"}}, "data": {"k": "v"}})
}

fn rule(change: Value) -> Value {
    let mut rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]});
    for (key, value) in change.as_object().into_iter().flatten() {
        rule[key] = value.clone();
    }
    json!({"rules": [rule]})
}

/// Puts one validating webhook up, creates a configmap and takes the webhook down again.
async fn check(world: &World, hooks: &Webhooks, change: Value, answer: Answer, code: u16, message: &str) {
    hooks.answers("one", answer);
    let hook = hooks.hook("one", change.clone());
    let configuration = json!({"metadata": {"name": "one"}, "webhooks": [hook]});
    world.configure("validatingwebhookconfigurations", configuration).await;
    let reply = world.ask("POST", CONFIGMAPS, configmap("a")).await;
    assert_eq!((reply.code, reply.message()), (code, message), "{change}");
    world.remove(&format!("{GROUP}/validatingwebhookconfigurations/one")).await;
    if code == 201 {
        world.remove(&format!("{CONFIGMAPS}/a")).await;
    }
    hooks.take("one");
}

#[tokio::test]
async fn the_answer_decides() {
    let (world, hooks) = (World::new().await, Webhooks::start().await);
    let denied = "admission webhook \"one.example.com\" denied the request";
    let failed = "Internal error occurred: failed calling webhook \"one.example.com\"";
    let invalid = format!("{failed}: received invalid webhook response");
    let fail = |text: &str| format!("{failed}: failed to call webhook: {text}");
    let say = |response: Value| Answer::response(response);
    for (answer, code, message) in [
        (Answer::allow(), 201, String::new()),
        (say(json!({"allowed": false})), 400, format!("{denied} without explanation")),
        (say(json!({"allowed": false, "status": {"message": "no"}})), 400, format!("{denied}: no")),
        (
            say(json!({"allowed": false, "status": {"code": 403, "reason": "Forbidden", "message": "no"}})),
            403,
            format!("{denied}: no"),
        ),
        (say(json!({"allowed": false, "status": {"code": 418, "reason": "Teapot"}})), 418, format!("{denied}: Teapot")),
        (Answer::Sends(json!({})), 500, format!("{invalid}: webhook response was absent")),
        (
            say(json!({"allowed": true, "patchType": "JSONPatch", "patch": "W10="})),
            500,
            format!("{invalid}: validating webhook may not return response.patch"),
        ),
        (Answer::Code(404, "not here"), 500, fail("the server could not find the requested resource")),
        (
            Answer::Code(500, "broken"),
            500,
            fail("an error on the server (\"broken\") has prevented the request from succeeding"),
        ),
    ] {
        check(&world, &hooks, json!({}), answer, code, &message).await;
    }
}

#[tokio::test]
async fn an_answer_to_another_review_is_an_error() {
    let (world, hooks) = (World::new().await, Webhooks::start().await);
    hooks.answers("one", Answer::response(json!({"allowed": true, "uid": "other"})));
    let configuration = json!({"metadata": {"name": "one"}, "webhooks": [hooks.hook("one", json!({}))]});
    world.configure("validatingwebhookconfigurations", configuration).await;
    let reply = world.ask("POST", CONFIGMAPS, configmap("a")).await;
    let uid = hooks.take("one")[0]["uid"].clone();
    let problem = format!("received invalid webhook response: expected response.uid={uid}, got \"other\"");
    let text = format!("Internal error occurred: failed calling webhook \"one.example.com\": {problem}");
    assert_eq!((reply.code, reply.message()), (500, text.as_str()));
}

#[tokio::test]
async fn a_failed_call_follows_the_failure_policy() {
    let (world, hooks) = (World::new().await, Webhooks::start().await);
    let ignore = json!({"failurePolicy": "Ignore"});
    check(&world, &hooks, ignore.clone(), Answer::Code(500, ""), 201, "").await;
    let denied = "admission webhook \"one.example.com\" denied the request without explanation";
    check(&world, &hooks, ignore, Answer::response(json!({"allowed": false})), 400, denied).await;
    let key = "failed-open.validating.webhook.admission.k8s.io/round_0_index_0";
    assert_eq!(world.audited(key).await.as_deref(), Some("one.example.com"));

    let slow = json!({"timeoutSeconds": 1});
    let text = format!(
        "Internal error occurred: failed calling webhook \"one.example.com\": failed to call webhook: Post \"{}?timeout=1s\": context deadline exceeded",
        hooks.url("one")
    );
    check(&world, &hooks, slow, Answer::Hangs, 500, &text).await;
    let missing = json!({"clientConfig": {"service": {"namespace": "team", "name": "gone", "path": "/x"}}});
    let text = "Internal error occurred: failed calling webhook \"one.example.com\": failed to call webhook: Post \"https://gone.team.svc:443/x?timeout=10s\": service \"gone\" not found";
    check(&world, &hooks, missing, Answer::allow(), 500, text).await;
}

#[tokio::test]
async fn only_matching_writes_are_sent() {
    let (world, hooks) = (World::new().await, Webhooks::start().await);
    let denied = "admission webhook \"one.example.com\" denied the request without explanation";
    let condition = |text: &str| json!({"matchConditions": [{"name": "c", "expression": text}]});
    let failing = "configmaps \"a\" is forbidden: expression 'object.nope == 1' resulted in error: no such key: nope";
    let ignoring =
        json!({"failurePolicy": "Ignore", "matchConditions": [{"name": "c", "expression": "object.nope == 1"}]});
    for (change, message) in [
        (rule(json!({})), denied),
        (rule(json!({"resources": ["*"]})), denied),
        (rule(json!({"resources": ["*/*"]})), denied),
        (rule(json!({"resources": ["configmaps/*"]})), denied),
        (rule(json!({"resources": ["configmaps/status"]})), ""),
        (rule(json!({"resources": ["pods"]})), ""),
        (rule(json!({"apiGroups": ["apps"]})), ""),
        (rule(json!({"apiVersions": ["v2"]})), ""),
        (rule(json!({"operations": ["UPDATE", "DELETE"]})), ""),
        (rule(json!({"scope": "Namespaced"})), denied),
        (rule(json!({"scope": "Cluster"})), ""),
        (json!({"namespaceSelector": {"matchLabels": {"tier": "prod"}}}), denied),
        (json!({"namespaceSelector": {"matchLabels": {"tier": "test"}}}), ""),
        (json!({"objectSelector": {"matchLabels": {"app": "web"}}}), denied),
        (json!({"objectSelector": {"matchLabels": {"app": "db"}}}), ""),
        (condition("object.data.k == 'v' && request.operation == 'CREATE'"), denied),
        (condition("request.userInfo.username != 'admin'"), ""),
        (condition("oldObject != null"), ""),
        (condition("authorizer.group('').resource('pods').check('get').allowed()"), denied),
        (condition("object.nope == 1"), failing),
        (ignoring, ""),
    ] {
        let code = match message {
            "" => 201,
            text if text == failing => 403,
            _ => 400,
        };
        check(&world, &hooks, change, Answer::response(json!({"allowed": false})), code, message).await;
    }
}

#[tokio::test]
async fn the_review_names_user_and_object() {
    let (world, hooks) = (World::new().await, Webhooks::start().await);
    hooks.answers("one", Answer::allow());
    let configuration = json!({"metadata": {"name": "one"}, "webhooks": [hooks.hook("one", json!({}))]});
    world.configure("validatingwebhookconfigurations", configuration).await;
    world.make(CONFIGMAPS, configmap("a")).await;
    let path = format!("{CONFIGMAPS}/a");
    world.ask("PATCH", &path, json!({"data": {"k": "w"}})).await;
    world.ask("DELETE", &format!("{path}?gracePeriodSeconds=0"), Value::Null).await;
    let asked = hooks.take("one");
    let [create, update, delete] = &asked[..] else { panic!("three questions, got {}", asked.len()) };
    for (key, expected) in [
        ("kind", json!({"group": "", "version": "v1", "kind": "ConfigMap"})),
        ("resource", json!({"group": "", "version": "v1", "resource": "configmaps"})),
        ("requestKind", json!({"group": "", "version": "v1", "kind": "ConfigMap"})),
        ("name", json!("a")),
        ("namespace", json!("team")),
        ("operation", json!("CREATE")),
        ("dryRun", json!(false)),
        ("oldObject", Value::Null),
    ] {
        assert_eq!(create[key], expected, "{key}");
    }
    assert_eq!(create["userInfo"]["username"], "admin");
    assert_eq!(create["options"]["kind"], "CreateOptions");
    assert_eq!(create["object"]["data"]["k"], "v");
    assert_eq!((&update["operation"], &update["options"]["kind"]), (&json!("UPDATE"), &json!("UpdateOptions")));
    assert_eq!((&update["oldObject"]["data"]["k"], &update["object"]["data"]["k"]), (&json!("v"), &json!("w")));
    assert_eq!((&delete["operation"], &delete["object"]), (&json!("DELETE"), &Value::Null));
    assert_eq!(delete["oldObject"]["data"]["k"], "w");
    let options = json!({"apiVersion": "meta.k8s.io/v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
    assert_eq!(delete["options"], options);
}

#[tokio::test]
async fn a_version_that_was_not_asked_for_is_converted() {
    let (world, hooks) = (World::new().await, Webhooks::start().await);
    let add = json!([{"op": "add", "path": "/metadata/annotations", "value": {"seen": "v2"}}]);
    hooks.answers("one", Answer::patch(add));
    let autoscalers = json!({"apiGroups": ["autoscaling"], "apiVersions": ["v2"], "resources": ["horizontalpodautoscalers"], "operations": ["CREATE"]});
    let hook = hooks.hook("one", json!({"rules": [autoscalers]}));
    let configuration = json!({"metadata": {"name": "one"}, "webhooks": [hook]});
    world.configure("mutatingwebhookconfigurations", configuration).await;
    let body = json!({"metadata": {"name": "a"}, "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 50,
        "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}}});
    let path = "/apis/autoscaling/v1/namespaces/team/horizontalpodautoscalers";
    let made = world.make(path, body).await;
    let asked = hooks.take("one");
    assert_eq!(asked[0]["kind"]["version"], "v2");
    assert_eq!(asked[0]["requestKind"]["version"], "v1");
    assert_eq!(asked[0]["object"]["apiVersion"], "autoscaling/v2");
    assert_eq!(asked[0]["object"]["spec"]["metrics"][0]["resource"]["name"], "cpu");
    assert_eq!(made["apiVersion"], "autoscaling/v1");
    assert_eq!(made["metadata"]["annotations"]["seen"], "v2");
    assert_eq!(made["spec"]["targetCPUUtilizationPercentage"], 50);
}

#[tokio::test]
async fn patches_add_up_in_the_order_of_names() {
    let (world, hooks) = (World::new().await, Webhooks::start().await);
    let set = |value: &str| Answer::patch(json!([{"op": "add", "path": "/data/k", "value": value}]));
    hooks.answers("first", set("1"));
    hooks.answers("second", set("2"));
    for (configuration, name) in [("b", "second"), ("a", "first")] {
        let hook = hooks.hook(name, json!({}));
        let body = json!({"metadata": {"name": configuration}, "webhooks": [hook]});
        world.configure("mutatingwebhookconfigurations", body).await;
    }
    let made = world.make(CONFIGMAPS, configmap("a")).await;
    assert_eq!(made["data"]["k"], "2");
    assert_eq!(hooks.take("second")[0]["object"]["data"]["k"], "1");
    let note = world.audited("mutation.webhook.admission.k8s.io/round_0_index_1").await;
    assert_eq!(note.as_deref(), Some(r#"{"configuration":"b","mutated":true,"webhook":"second.example.com"}"#));
}

#[tokio::test]
async fn patches_that_do_not_fit_are_errors() {
    let (world, hooks) = (World::new().await, Webhooks::start().await);
    let configuration = json!({"metadata": {"name": "one"}, "webhooks": [hooks.hook("one", json!({}))]});
    hooks.answers("one", Answer::allow());
    world.configure("mutatingwebhookconfigurations", configuration).await;
    let mut untyped = patch_response(json!([{"op": "remove", "path": "/data"}]));
    untyped["patchType"].take();
    for (response, part) in [
        (
            patch_response(json!([{"op": "replace", "path": "/data", "value": 5}])),
            "occurred: json: cannot unmarshal number",
        ),
        (
            patch_response(json!([{"op": "remove", "path": "/nope"}])),
            "error in remove for path: '/nope': Unable to remove nonexistent key: nope: missing value",
        ),
        (patch_response(json!({"a": 1})), "received undecodable patch in webhook response"),
        (untyped, "webhook returned response.patch but not response.patchType"),
    ] {
        hooks.answers("one", Answer::response(response));
        let reply = world.ask("POST", CONFIGMAPS, configmap("a")).await;
        assert_eq!(reply.code, 500, "{part}");
        assert!(reply.message().contains(part), "{part}: {}", reply.message());
    }
    hooks.answers("one", Answer::allow());
    world.make(CONFIGMAPS, configmap("a")).await;
    hooks.answers("one", Answer::patch(json!([{"op": "remove", "path": "/data"}])));
    let reply = world.ask("DELETE", &format!("{CONFIGMAPS}/a"), Value::Null).await;
    let text = "Internal error occurred: admission webhook \"one.example.com\" attempted to modify the object, which is not supported for this operation";
    assert_eq!((reply.code, reply.message()), (500, text));
}

#[tokio::test]
async fn webhooks_are_reinvoked_after_later_changes() {
    let (world, hooks) = (World::new().await, Webhooks::start().await);
    hooks.answers("willing", Answer::allow());
    hooks.answers("once", Answer::allow());
    hooks.answers("changes", Answer::patch(json!([{"op": "add", "path": "/data/new", "value": "x"}])));
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    let webhooks = [hooks.hook("willing", again.clone()), hooks.hook("once", json!({})), hooks.hook("changes", again)];
    let configuration = json!({"metadata": {"name": "all"}, "webhooks": webhooks});
    world.configure("mutatingwebhookconfigurations", configuration).await;
    world.make(CONFIGMAPS, configmap("a")).await;
    let counts = ["willing", "once", "changes"].map(|name| hooks.take(name).len());
    assert_eq!(counts, [2, 1, 1]);
    hooks.answers("changes", Answer::allow());
    world.make(CONFIGMAPS, configmap("b")).await;
    assert_eq!(["willing", "once", "changes"].map(|name| hooks.take(name).len()), [1, 1, 1]);
    // The server's own steps see what webhooks brought in, and webhooks see what the steps make of it.
    let mark = json!([{"op": "add", "path": "/metadata/annotations", "value": {"complete-me": "", "completed": "no"}}]);
    hooks.answers(
        "changes",
        Answer::Says(Box::new(move |request| {
            if request["object"]["metadata"]["annotations"]["completed"] == "yes" {
                return json!({"allowed": true});
            }
            patch_response(mark.clone())
        })),
    );
    let made = world.make(CONFIGMAPS, configmap("c")).await;
    assert_eq!(made["metadata"]["annotations"]["completed"], "yes");
    assert_eq!(["willing", "once", "changes"].map(|name| hooks.take(name).len()), [2, 1, 2]);
}

#[tokio::test]
async fn dry_runs_reach_only_webhooks_without_side_effects() {
    let (world, hooks) = (World::new().await, Webhooks::start().await);
    hooks.answers(
        "one",
        Answer::response(json!({"allowed": true, "warnings": ["mind the gap"], "auditAnnotations": {"k": "v"}})),
    );
    let configuration =
        json!({"metadata": {"name": "one"}, "webhooks": [hooks.hook("one", json!({"sideEffects": "NoneOnDryRun"}))]});
    world.configure("validatingwebhookconfigurations", configuration).await;
    let reply = world.ask("POST", &format!("{CONFIGMAPS}?dryRun=All"), configmap("a")).await;
    assert_eq!((reply.code, &reply.warnings[..]), (201, &["299 - \"mind the gap\"".to_owned()][..]));
    assert_eq!(hooks.take("one")[0]["dryRun"], true);
    assert_eq!(world.audited("one.example.com/k").await.as_deref(), Some("v"));
    // Configurations from before the rule may still have side effects; none can be made any more.
    let resource = world.server.registry.find("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations");
    let key = resource.expect("served").key("", "one");
    let current = world.server.objects.get(&key).await.expect("readable").expect("there");
    let mut old = current.object.to_value();
    old["webhooks"][0]["sideEffects"] = "Unknown".into();
    old["metadata"].as_object_mut().expect("a map").remove("resourceVersion");
    let bytes = object::Object::from_value(old).expect("a map").encode();
    assert!(world.server.objects.update(&key, bytes, current.revision, None).await.is_ok());
    world.settle().await;
    let reply = world.ask("POST", &format!("{CONFIGMAPS}?dryRun=All"), configmap("a")).await;
    let text = "admission webhook \"one.example.com\" does not support dry run";
    assert_eq!((reply.code, reply.message()), (400, text));
}

#[tokio::test]
async fn configurations_are_not_matched_by_webhooks_and_policies() {
    let (world, hooks) = (World::new().await, Webhooks::start().await);
    hooks.answers("one", Answer::response(json!({"allowed": false})));
    let everything = json!({"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]});
    for plural in ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"] {
        let hook = hooks.hook("one", json!({"rules": [everything]}));
        world.configure(plural, json!({"metadata": {"name": "one"}, "webhooks": [hook]})).await;
        assert_eq!(world.ask("POST", CONFIGMAPS, configmap("a")).await.code, 400);
        world.remove(&format!("{GROUP}/{plural}/one")).await;
    }
    world.make(CONFIGMAPS, configmap("a")).await;
}

#[tokio::test]
async fn deletes_can_be_refused_by_both_webhook_types() {
    let (world, hooks) = (World::new().await, Webhooks::start().await);
    hooks.answers("one", Answer::response(json!({"allowed": false, "status": {"message": "keep it"}})));
    world.make(CONFIGMAPS, configmap("a")).await;
    for plural in ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"] {
        let hook = hooks.hook("one", rule(json!({"operations": ["DELETE"]})));
        world.configure(plural, json!({"metadata": {"name": "one"}, "webhooks": [hook]})).await;
        let reply = world.ask("DELETE", &format!("{CONFIGMAPS}/a"), Value::Null).await;
        assert_eq!(reply.message(), "admission webhook \"one.example.com\" denied the request: keep it");
        world.remove(&format!("{GROUP}/{plural}/one")).await;
    }
    world.remove(&format!("{CONFIGMAPS}/a")).await;
}

#[tokio::test]
async fn a_namespace_is_judged_by_its_own_labels() {
    let (world, hooks) = (World::new().await, Webhooks::start().await);
    hooks.answers("one", Answer::response(json!({"allowed": false})));
    let mut change = rule(json!({"resources": ["namespaces"]}));
    change["namespaceSelector"] = json!({"matchLabels": {"guarded": "yes"}});
    let configuration = json!({"metadata": {"name": "one"}, "webhooks": [hooks.hook("one", change)]});
    world.configure("validatingwebhookconfigurations", configuration).await;
    world.make("/api/v1/namespaces", json!({"metadata": {"name": "free"}})).await;
    let guarded = json!({"metadata": {"name": "guarded", "labels": {"guarded": "yes"}}});
    assert_eq!(world.ask("POST", "/api/v1/namespaces", guarded).await.code, 400);
    let asked = hooks.take("one");
    assert_eq!((&asked[0]["namespace"], &asked[0]["name"]), (&json!("guarded"), &json!("guarded")));
}

#[tokio::test]
async fn subresources_are_sent_with_their_own_bodies() {
    let (world, hooks) = (World::new().await, Webhooks::start().await);
    let mut change = rule(
        json!({"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["deployments", "pods", "*/scale", "pods/*"]}),
    );
    change["rules"][0]["operations"] = json!(["CREATE", "UPDATE"]);
    hooks.answers("one", Answer::allow());
    let configuration = json!({"metadata": {"name": "one"}, "webhooks": [hooks.hook("one", change)]});
    world.configure("mutatingwebhookconfigurations", configuration).await;
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployments = "/apis/apps/v1/namespaces/team/deployments";
    let selector = json!({"matchLabels": {"a": "b"}});
    world
        .make(deployments, json!({"metadata": {"name": "d"}, "spec": {"selector": selector, "template": template}}))
        .await;
    let pods = "/api/v1/namespaces/team/pods";
    let spec = template["spec"].clone();
    world.make(pods, json!({"metadata": {"name": "p"}, "spec": spec})).await;
    hooks.take("one");
    hooks.answers("one", Answer::patch(json!([{"op": "replace", "path": "/spec/replicas", "value": 7}])));
    let scaled = world.ask("PATCH", &format!("{deployments}/d/scale"), json!({"spec": {"replicas": 3}})).await;
    assert_eq!((scaled.code, &scaled.body["spec"]["replicas"]), (200, &json!(7)), "{}", scaled.body);
    hooks.answers("one", Answer::allow());
    let node = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    world.make(&format!("{pods}/p/binding"), node).await;
    world
        .make(
            &format!("{pods}/p/eviction"),
            json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}),
        )
        .await;
    let asked = hooks.take("one");
    let heads: Vec<String> = asked
        .iter()
        .map(|a| format!("{} {} {}", a["operation"], a["kind"]["kind"], a["subResource"]).replace('"', ""))
        .collect();
    assert_eq!(heads, ["UPDATE Scale scale", "CREATE Binding binding", "CREATE Eviction eviction"]);
    assert_eq!(asked[0]["oldObject"]["spec"]["replicas"], 1);
    assert_eq!(asked[0]["object"]["spec"]["replicas"], 3);
}
