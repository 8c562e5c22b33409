//! Compares the default policy and authorization decisions with a real kube-apiserver.

// Shared with the tests of cluster-client, which this crate must not depend on.
#[path = "../../cluster-client/tests/kube/mod.rs"]
mod kube;

use std::collections::BTreeMap;

use access::{Action, PolicyIndex, ResourceAction, defaults};
use kube::KubeApiServer;
use object::Object;
use object::request::User;
use serde_json::{Value, json};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

fn get(server: &KubeApiServer, path: &str) -> Value {
    let output = server.kubectl(&["get", "--raw", path]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn post(server: &KubeApiServer, path: &str, body: &Value) -> Value {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), body.to_string()).expect("written");
    let name = file.path().to_str().expect("UTF-8");
    let output = server.kubectl(&["create", "--raw", path, "-f", name]);
    assert!(output.status.success(), "{path}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Keyed by namespace and name, without the fields the server adds.
fn by_name(objects: impl IntoIterator<Item = Value>, kind: &str) -> BTreeMap<String, Value> {
    let strip = |mut object: Value| {
        object["kind"] = kind.into();
        object["apiVersion"] = "rbac.authorization.k8s.io/v1".into();
        let metadata = object["metadata"].as_object_mut().expect("metadata");
        for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
            metadata.remove(field);
        }
        if object["rules"].is_null() {
            object.as_object_mut().expect("a map").remove("rules");
        }
        let key = format!("{}/{}", object["metadata"]["namespace"], object["metadata"]["name"]);
        (key, object)
    };
    objects.into_iter().map(strip).collect()
}

fn check_defaults(server: &KubeApiServer, resource: &str, kind: &str, ours: Vec<Object>) {
    let theirs = get(server, &format!("{RBAC}/{resource}"))["items"].as_array().expect("items").clone();
    let theirs = by_name(theirs, kind);
    let ours = by_name(ours.into_iter().map(Object::into_value), kind);
    assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
    for (name, theirs) in &theirs {
        assert_eq!(&ours[name], theirs, "{kind} {name}");
    }
}

/// Policy that reaches every branch of a decision; also created in the real server.
fn policy() -> Vec<(String, Value)> {
    let cluster = |resource: &str| format!("{RBAC}/{resource}");
    let inside = |resource: &str| format!("{RBAC}/namespaces/default/{resource}");
    let role_ref =
        |kind: &str, name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
    let head = |kind: &str| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind});
    let object = |kind: &str, name: &str, namespace: Option<&str>, rest: Value| {
        let mut value = head(kind);
        value["metadata"] = json!({"name": name});
        if let Some(namespace) = namespace {
            value["metadata"]["namespace"] = namespace.into();
        }
        for (key, field) in rest.as_object().expect("a map") {
            value[key] = field.clone();
        }
        value
    };
    vec![
        (
            cluster("clusterroles"),
            object(
                "ClusterRole",
                "reader",
                None,
                json!({"rules": [
                    {"verbs": ["get", "list"], "apiGroups": ["", "apps"], "resources": ["pods", "*/scale"]},
                    {"verbs": ["get"], "apiGroups": ["*"], "resources": ["configmaps"], "resourceNames": ["one"]},
                    {"verbs": ["get"], "nonResourceURLs": ["/logs/*", "/metrics"]},
                ]}),
            ),
        ),
        (
            inside("roles"),
            object(
                "Role",
                "writer",
                Some("default"),
                json!({"rules": [
                    {"verbs": ["*"], "apiGroups": [""], "resources": ["secrets", "pods/exec"]},
                ]}),
            ),
        ),
        (
            cluster("clusterrolebindings"),
            object(
                "ClusterRoleBinding",
                "jane-reads",
                None,
                json!({
            "roleRef": role_ref("ClusterRole", "reader"),
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}]}),
            ),
        ),
        (
            cluster("clusterrolebindings"),
            object(
                "ClusterRoleBinding",
                "nowhere",
                None,
                json!({
            "roleRef": role_ref("ClusterRole", "absent"),
            "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "ops"}]}),
            ),
        ),
        (
            inside("rolebindings"),
            object(
                "RoleBinding",
                "robot-writes",
                Some("default"),
                json!({
            "roleRef": role_ref("Role", "writer"),
            "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}]}),
            ),
        ),
        (
            inside("rolebindings"),
            object(
                "RoleBinding",
                "ops-write",
                Some("default"),
                json!({
            "roleRef": role_ref("Role", "gone"),
            "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "ops"}]}),
            ),
        ),
    ]
}

fn check_decision(server: &KubeApiServer, index: &PolicyIndex, user: &User, action: Action<'_>) {
    let mut spec = json!({"user": user.name, "groups": user.groups});
    match action {
        Action::Resource(a) => {
            spec["resourceAttributes"] = json!({"verb": a.verb, "group": a.group, "resource": a.resource,
                "subresource": a.subresource, "namespace": a.namespace, "name": a.name});
        }
        Action::NonResource { verb, path } => spec["nonResourceAttributes"] = json!({"verb": verb, "path": path}),
    }
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec});
    let theirs = post(server, "/apis/authorization.k8s.io/v1/subjectaccessreviews", &review);
    let ours = index.authorize(user, &action);
    assert_eq!(theirs["status"]["allowed"], ours.allowed, "{user:?} {action:?} {}", theirs["status"]);
    let reason = theirs["status"]["reason"].as_str().unwrap_or_default();
    assert!(
        is_possible_reason(index, user, &action, reason),
        "{user:?} {action:?}: {reason} but ours is {}",
        ours.reason
    );
}

/// Reports whether the reason is one of ours. With several allowing bindings or missing roles, the real server picks
/// one in hash-map order.
fn is_possible_reason(index: &PolicyIndex, user: &User, action: &Action<'_>, reason: &str) -> bool {
    let words = |text: &str| {
        let mut words: Vec<String> = text.split([' ', ',', '[', ']']).map(str::to_owned).collect();
        words.sort();
        words
    };
    let mut index = index.clone();
    loop {
        let ours = index.authorize(user, action);
        if words(&ours.reason) == words(reason) {
            return true;
        }
        let binding = ours.reason.strip_prefix("RBAC: allowed by ClusterRoleBinding \"");
        match binding.and_then(|rest| rest.split('"').next()) {
            Some(name) => index.remove("ClusterRoleBinding", "", name),
            None => return false,
        }
    }
}

fn check_decisions(server: &KubeApiServer) {
    let policy = policy();
    for (path, body) in &policy {
        post(server, path, body);
    }
    let mine: Vec<Object> = policy.iter().filter_map(|(_, body)| Object::from_value(body.clone())).collect();
    let index = PolicyIndex::build(defaults::all().iter().chain(&mine));
    let users = [
        User::new("jane", &["system:authenticated"]),
        User::service_account("default", "robot"),
        User::new("omar", &["ops", "system:authenticated"]),
        User::new("root", &["system:masters"]),
        User::new("system:anonymous", &["system:unauthenticated"]),
        User::new("system:kube-scheduler", &["system:authenticated"]),
    ];
    let base = ResourceAction { verb: "get", version: "v1", ..ResourceAction::default() };
    let resources = [
        ResourceAction { resource: "pods", namespace: "default", ..base },
        ResourceAction { resource: "pods", ..base },
        ResourceAction { resource: "pods", subresource: "exec", namespace: "default", verb: "create", ..base },
        ResourceAction { resource: "deployments", group: "apps", subresource: "scale", ..base },
        ResourceAction { resource: "deployments", group: "extensions", subresource: "scale", ..base },
        ResourceAction { resource: "configmaps", namespace: "x", name: "one", ..base },
        ResourceAction { resource: "configmaps", namespace: "x", name: "two", ..base },
        ResourceAction { resource: "configmaps", namespace: "x", verb: "list", ..base },
        ResourceAction { resource: "secrets", namespace: "default", verb: "delete", ..base },
        ResourceAction { resource: "secrets", namespace: "other", verb: "delete", ..base },
        ResourceAction { resource: "selfsubjectaccessreviews", group: "authorization.k8s.io", verb: "create", ..base },
    ];
    let paths = ["/logs/x/y", "/logs", "/metrics", "/healthz", "/apis/apps", "/version/", "/nothing"];
    for user in &users {
        for action in resources {
            check_decision(server, &index, user, Action::Resource(action));
        }
        for path in paths {
            check_decision(server, &index, user, Action::NonResource { verb: "get", path });
        }
    }
}

/// Writes policy as jane, with permission to write it and few others, and compares the refusals word for word.
fn check_escalation(server: &KubeApiServer) {
    let jane = User::new("jane", &["dev", "system:authenticated"]);
    let (group, rbac) = ("rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1");
    let writes = json!([{"verbs": ["create", "get"], "apiGroups": [group], "resources": ["*"]}]);
    let own = [
        json!({"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": "writes-policy"}, "rules": writes}),
        json!({"apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": {"name": "jane-writes-policy"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "writes-policy"},
            "subjects": [{"kind": "User", "apiGroup": group, "name": "jane"}]}),
    ];
    post(server, &format!("{RBAC}/clusterroles"), &own[0]);
    post(server, &format!("{RBAC}/clusterrolebindings"), &own[1]);
    let own = own.into_iter().filter_map(Object::from_value);
    let policy = policy().into_iter().filter_map(|(_, body)| Object::from_value(body));
    let all: Vec<Object> = defaults::all().into_iter().chain(policy).chain(own).collect();
    let index = PolicyIndex::build(&all);
    let bind = |role: &str| {
        json!({"apiVersion": rbac, "kind": "RoleBinding", "metadata": {"name": "b", "namespace": "default"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role}})
    };
    let cases = [
        (
            "clusterroles",
            json!({"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": "more"}, "rules": [
            {"verbs": ["get", "list", "watch"], "apiGroups": ["", "apps"], "resources": ["pods", "secrets"]},
            {"verbs": ["delete"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a", "b"]},
            {"verbs": ["get"], "nonResourceURLs": ["/logs/x", "/secret"]}]}),
        ),
        (
            "clusterroles",
            json!({"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": "sum"},
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}),
        ),
        ("namespaces/default/rolebindings", bind("system:auth-delegator")),
        ("namespaces/default/rolebindings", bind("absent")),
        ("namespaces/default/rolebindings", bind("reader")),
    ];
    for (path, body) in cases {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), body.to_string()).expect("written");
        let (path, name) = (format!("{RBAC}/{path}"), file.path().to_str().expect("UTF-8"));
        let output = server.kubectl(&["create", "--as", "jane", "--as-group", "dev", "--raw", &path, "-f", name]);
        let theirs = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        let object = Object::from_value(body).expect("a map");
        let ours = match object.kind() {
            "RoleBinding" => access::escalation::check_binding_write(&index, &jane, &object, None),
            _ => access::escalation::check_role_write(&index, &jane, &object, None),
        };
        match ours {
            Ok(()) => assert!(output.status.success(), "{theirs}"),
            Err(status) => assert_eq!(theirs, format!("Error from server ({}): {status}", status.reason)),
        }
    }
}

#[test]
fn policy_and_decisions_match_kube_apiserver() {
    let Some(server) = KubeApiServer::start() else { return };
    check_defaults(&server, "clusterroles", "ClusterRole", defaults::cluster_roles());
    check_defaults(&server, "roles", "Role", defaults::roles());
    check_defaults(&server, "clusterrolebindings", "ClusterRoleBinding", defaults::cluster_role_bindings());
    check_defaults(&server, "rolebindings", "RoleBinding", defaults::role_bindings());
    check_decisions(&server);
    check_escalation(&server);
}
