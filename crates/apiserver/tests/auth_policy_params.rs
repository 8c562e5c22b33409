//! Rights that a request needs besides those for the request itself: to read the parameters of a policy, and to open streams.

mod admission_world;

use admission_world::{GROUP, World};
use apiserver::auth::param_access::ParamAccess;
use serde_json::{Value, json};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// A world where bob may write policies and bindings, and read configmaps but no secrets.
async fn world() -> World {
    let world = World::serving(kinds::builtin(), vec![Box::new(ParamAccess)]).await;
    let rules = json!([
        {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]},
    ]);
    world.make(&format!("{RBAC}/clusterroles"), json!({"metadata": {"name": "r"}, "rules": rules})).await;
    let binding = json!({
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}],
    });
    world.make(&format!("{RBAC}/clusterrolebindings"), binding).await;
    world
}

fn policy(kind: &str, param_kind: &str) -> Value {
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]});
    let mut spec = json!({
        "matchConstraints": {"resourceRules": [rule]},
        "paramKind": {"apiVersion": "v1", "kind": param_kind},
    });
    if kind == "mutating" {
        spec["reinvocationPolicy"] = "Never".into();
        spec["mutations"] =
            json!([{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}]);
    } else {
        spec["validations"] = json!([{"expression": "true", "messageExpression": "string(params.data)"}]);
    }
    json!({"metadata": {"name": format!("{}-{}", kind, param_kind.to_lowercase())}, "spec": spec})
}

fn binding(kind: &str, policy: &str, name: &str) -> Value {
    let mut spec = json!({
        "policyName": policy,
        "paramRef": {"name": name, "namespace": "team", "parameterNotFoundAction": "Allow"},
    });
    if kind == "validating" {
        spec["validationActions"] = json!(["Deny"]);
    }
    json!({"metadata": {"name": format!("{policy}-{name}")}, "spec": spec})
}

#[tokio::test]
async fn authors_need_the_right_to_read_policy_parameters() {
    let world = world().await;
    for kind in ["validating", "mutating"] {
        let (policies, bindings) =
            (format!("{GROUP}/{kind}admissionpolicies"), format!("{GROUP}/{kind}admissionpolicybindings"));
        for (param_kind, code) in [("ConfigMap", 201), ("Secret", 422)] {
            let reply = world.ask_as("bob", "POST", &policies, policy(kind, param_kind)).await;
            assert_eq!(reply.code, code, "{kind} {param_kind}: {}", reply.body);
            if code == 422 {
                let expected = "spec.paramKind: Forbidden: user bob must have \"get\" permission on all objects of the \
                    referenced paramKind (kind=Secret, apiVersion=v1)";
                assert!(reply.message().contains(expected), "{}", reply.message());
                world.make(&policies, policy(kind, param_kind)).await;
            }
        }
        for (policy, code, text) in [
            ("configmap", 201, ""),
            ("secret", 422, "user bob does not have \"get\" permission on the object referenced by paramRef"),
            ("nope", 422, "unable to get policy"),
        ] {
            let policy = format!("{kind}-{policy}");
            let reply = world.ask_as("bob", "POST", &bindings, binding(kind, &policy, "p")).await;
            assert_eq!(reply.code, code, "{policy}: {}", reply.body);
            assert!(reply.message().contains(text), "{}", reply.message());
        }
        // Unchanged references are not judged again.
        let path = format!("{policies}/{kind}-secret");
        let reply = world.ask_as("bob", "PATCH", &path, json!({"metadata": {"labels": {"a": "b"}}})).await;
        assert_eq!(reply.code, 200, "{}", reply.body);
    }
}

#[tokio::test]
async fn streams_need_the_right_to_create_with_any_method() {
    let world = World::new().await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    world.make("/api/v1/namespaces/team/pods", pod).await;
    let exec = "/api/v1/namespaces/team/pods/p/exec?command=ls";
    for (verb, get, post) in [("get", 403, 403), ("create", 403, 501), ("*", 501, 501)] {
        let rules = json!([{"apiGroups": [""], "resources": ["pods/exec"], "verbs": [verb]}]);
        world.make(&format!("{RBAC}/clusterroles"), json!({"metadata": {"name": "r"}, "rules": rules})).await;
        let binding = json!({
            "metadata": {"name": "b"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}],
        });
        world.make(&format!("{RBAC}/clusterrolebindings"), binding).await;
        // Nothing here runs pods, so a request that is allowed ends with 501.
        for (method, expected) in [("GET", get), ("POST", post)] {
            let reply = world.ask_as("bob", method, exec, Value::Null).await;
            assert_eq!(reply.code, expected, "{verb} {method}: {}", reply.body);
        }
        world.remove(&format!("{RBAC}/clusterrolebindings/b")).await;
        world.remove(&format!("{RBAC}/clusterroles/r")).await;
    }
}
