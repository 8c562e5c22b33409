//! Authorization: RBAC on live policy, impersonation, escalation, and the default roles of a new API.

mod auth_world;

use std::time::{Duration, Instant};

use apiserver::auth::bootstrap::{self, PublishedTrust};
use auth_world::{Caller, World};
use serde_json::{Value, json};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

#[track_caller]
fn check(reply: &auth_world::Reply, expected: (u16, &str)) {
    assert_eq!((reply.code, reply.message()), expected, "{}", reply.body);
}

#[tokio::test]
async fn refusals_name_the_request() {
    let world = World::new().await;
    let ann = world.user("ann", &[]);
    let cases = [
        (
            "GET",
            "/api/v1/namespaces/default/pods",
            r#"pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the namespace "default""#,
        ),
        (
            "GET",
            "/api/v1/nodes/n1",
            r#"nodes "n1" is forbidden: User "ann" cannot get resource "nodes" in API group "" at the cluster scope"#,
        ),
        (
            "DELETE",
            "/apis/apps/v1/namespaces/x/deployments/d",
            r#"deployments.apps "d" is forbidden: User "ann" cannot delete resource "deployments" in API group "apps" in the namespace "x""#,
        ),
        (
            "GET",
            "/api/v1/namespaces/x/pods/p/log",
            r#"pods "p" is forbidden: User "ann" cannot get resource "pods/log" in API group "" in the namespace "x""#,
        ),
        (
            "GET",
            "/api/v1/pods?watch=true",
            r#"pods is forbidden: User "ann" cannot watch resource "pods" in API group "" at the cluster scope"#,
        ),
        ("GET", "/metrics", r#"forbidden: User "ann" cannot get path "/metrics""#),
        ("POST", "/api", r#"forbidden: User "ann" cannot post path "/api""#),
    ];
    for (method, path, message) in cases {
        check(&world.ask(&ann, method, path, Value::Null).await, (403, message));
    }
    assert_eq!(world.get(&ann, "/api").await.code, 200);
}

#[tokio::test]
async fn a_binding_counts_for_the_next_request_and_its_removal_too() {
    let world = World::new().await;
    let ann = world.user("ann", &[]);
    let pods = "/api/v1/namespaces/default/pods";
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    let binding = json!({"metadata": {"name": "b"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}]});
    for _ in 0..20 {
        assert_eq!(world.get(&ann, pods).await.code, 403);
        world.make(&bindings, binding.clone()).await;
        assert_eq!(world.get(&ann, pods).await.code, 200);
        assert_eq!(world.get(&ann, "/api/v1/namespaces/other/pods").await.code, 403);
        world.remove(&format!("{bindings}/b")).await;
    }
}

#[tokio::test]
async fn aggregated_roles_grant_from_the_start() {
    let world = World::new().await;
    for (name, role) in [("v", "view"), ("e", "edit"), ("a", "admin")] {
        let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name});
        world
            .make(
                &format!("{RBAC}/namespaces/default/rolebindings"),
                json!({"metadata": {"name": name}, "subjects": [subject],
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}}),
            )
            .await;
    }
    let cases = [
        ("v", "configmaps", 200),
        ("v", "secrets", 403),
        ("e", "secrets", 200),
        ("e", "configmaps", 200),
        ("a", "secrets", 200),
    ];
    for (name, resource, code) in cases {
        let reply = world.get(&world.user(name, &[]), &format!("/api/v1/namespaces/default/{resource}")).await;
        assert_eq!(reply.code, code, "{name} {resource}: {}", reply.body);
    }
    let roles = format!("{RBAC}/namespaces/default/roles");
    assert_eq!(world.get(&world.user("e", &[]), &roles).await.code, 403);
    assert_eq!(world.get(&world.user("a", &[]), &roles).await.code, 200);
}

#[tokio::test]
async fn impersonation_needs_the_right_to_it() {
    let world = World::new().await;
    let ann = world.user("ann", &[]);
    let pods = "/api/v1/pods";
    let cases = [
        (
            ann.clone().with("impersonate-user", "bob"),
            403,
            r#"pods is forbidden: User "ann" cannot impersonate-on:user-info:list resource "pods" in API group "" at the cluster scope"#,
        ),
        (
            ann.clone().with("impersonate-user", "system:serviceaccount:a:b"),
            403,
            r#"pods is forbidden: User "ann" cannot impersonate-on:serviceaccount:list resource "pods" in API group "" at the cluster scope"#,
        ),
        (
            ann.clone().with("impersonate-user", "system:node:n1"),
            403,
            r#"pods is forbidden: User "ann" cannot impersonate-on:arbitrary-node:list resource "pods" in API group "" at the cluster scope"#,
        ),
        (
            ann.clone().with("impersonate-user", "system:serviceaccount:a:b").with("impersonate-group", "g"),
            403,
            r#"serviceaccounts "b" is forbidden: User "ann" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "a""#,
        ),
        (
            world.admin().with("impersonate-group", "g"),
            400,
            r#"requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"g"}, Extra:map[string][]string(nil)} without impersonating a user name"#,
        ),
        (
            world.admin().with("impersonate-extra-foo%2fbar", "v").with("impersonate-uid", "u"),
            400,
            r#"requested &user.DefaultInfo{Name:"", UID:"u", Groups:[]string(nil), Extra:map[string][]string{"foo/bar":[]string{"v"}}} without impersonating a user name"#,
        ),
        (
            world.admin().with("impersonate-user", "bob"),
            403,
            r#"pods is forbidden: User "bob" cannot list resource "pods" in API group "" at the cluster scope"#,
        ),
    ];
    for (caller, code, message) in cases {
        check(&world.get(&caller, pods).await, (code, message));
    }
    assert_eq!(world.get(&Caller::anonymous().with("impersonate-user", "admin"), pods).await.code, 401);
}

#[tokio::test]
async fn the_impersonated_user_is_the_requested_one() {
    let world = World::new().await;
    world
        .allow(
            "imp",
            "ann",
            json!({"apiGroups": [""], "resources": ["users"], "resourceNames": ["bob"], "verbs": ["impersonate"]}),
        )
        .await;
    let (ann, admin) = (world.user("ann", &[]), world.admin());
    let cases = [
        (
            ann.clone().with("impersonate-user", "bob"),
            Some(json!({"username": "bob", "groups": ["system:authenticated"]})),
        ),
        (ann.clone().with("impersonate-user", "carl"), None),
        (ann.clone().with("impersonate-user", "bob").with("impersonate-group", "system:masters"), None),
        (
            admin.clone().with("impersonate-user", "system:node:n1"),
            Some(json!({"username": "system:node:n1", "groups": ["system:nodes", "system:authenticated"]})),
        ),
        (
            admin.clone().with("impersonate-user", "system:serviceaccount:a:b"),
            Some(json!({"username": "system:serviceaccount:a:b",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"]})),
        ),
        (
            admin.clone().with("impersonate-user", "x").with("impersonate-group", "system:masters"),
            Some(json!({"username": "x", "groups": ["system:masters", "system:authenticated"]})),
        ),
        (
            admin
                .clone()
                .with("impersonate-user", "x")
                .with("impersonate-uid", "7")
                .with("impersonate-extra-a%2fb", "c"),
            Some(json!({"username": "x", "uid": "7", "groups": ["system:authenticated"], "extra": {"a/b": ["c"]}})),
        ),
    ];
    for (caller, expected) in cases {
        let reply = world.whoami(&caller).await;
        let user = (reply.code == 201).then(|| reply.body["status"]["userInfo"].clone());
        assert_eq!(user, expected, "{}", reply.body);
    }
}

#[tokio::test]
async fn granting_needs_the_rights_that_are_granted() {
    let world = World::new().await;
    let ann = world.user("ann", &["dev"]);
    world.allow("editor", "ann", json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": ["create", "get", "update"]})).await;
    world.allow("reader", "ann", json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]})).await;
    let role = |name: &str, resource: &str| json!({"metadata": {"name": name}, "rules": [{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}]});
    let binding = |name: &str, role: &str| {
        json!({"metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}]})
    };
    let refused = "clusterroles.rbac.authorization.k8s.io \"pods\" is forbidden: user \"ann\" (groups=[\"dev\" \"system:authenticated\"]) \
                   is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\"]}";
    let (roles, bindings) = (format!("{RBAC}/clusterroles"), format!("{RBAC}/clusterrolebindings"));
    check(&world.ask(&ann, "POST", &roles, role("pods", "pods")).await, (403, refused));
    check(&world.ask(&ann, "POST", &roles, role("maps", "configmaps")).await, (201, ""));
    let changed = world.ask(&ann, "PUT", &format!("{roles}/maps"), role("maps", "secrets")).await;
    assert_eq!(changed.code, 403, "{}", changed.body);
    check(&world.ask(&ann, "POST", &bindings, binding("b1", "maps")).await, (201, ""));
    assert_eq!(world.ask(&ann, "POST", &bindings, binding("b2", "cluster-admin")).await.code, 403);
    let missing = "clusterrolebindings.rbac.authorization.k8s.io \"nope\" not found";
    check(&world.ask(&ann, "POST", &bindings, binding("b3", "nope")).await, (404, missing));
    // The verbs `bind` and `escalate` lift the rule.
    let lift = json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["bind", "escalate"]});
    world.allow("lifted", "ann", lift).await;
    check(&world.ask(&ann, "POST", &bindings, binding("b2", "cluster-admin")).await, (201, ""));
    check(&world.ask(&ann, "POST", &roles, role("pods", "pods")).await, (201, ""));
}

#[tokio::test]
async fn the_defaults_are_made_quickly_and_kept() {
    let world = World::empty(None);
    let started = Instant::now();
    bootstrap::ensure(world.server.write_scope(), Vec::new()).await.expect("made");
    let took = started.elapsed();
    // A debug build on a busy machine; a release build takes a tenth of this.
    assert!(took < Duration::from_secs(5), "{took:?}");
    let admin = world.admin();
    let names = |reply: &auth_world::Reply| -> Vec<String> {
        let items = reply.body["items"].as_array().expect("items").iter();
        items.map(|item| item["metadata"]["name"].as_str().expect("a name").to_owned()).collect()
    };
    let namespaces = names(&world.get(&admin, "/api/v1/namespaces").await);
    assert_eq!(namespaces, ["default", "kube-node-lease", "kube-public", "kube-system"]);
    let roles = names(&world.get(&admin, &format!("{RBAC}/clusterroles")).await);
    assert_eq!(roles.len(), access::defaults::cluster_roles().len());

    // An owner's additions stay, what was taken away comes back, a protected role is left alone.
    let put = async |name: &str, rules: Value, autoupdate: &str| {
        let path = format!("{RBAC}/clusterroles/{name}");
        let mut role = world.get(&admin, &path).await.body;
        role["rules"] = rules;
        role["metadata"]["annotations"]["rbac.authorization.kubernetes.io/autoupdate"] = autoupdate.into();
        let reply = world.ask(&admin, "PUT", &path, role).await;
        assert_eq!(reply.code, 200, "{}", reply.body);
    };
    let own = json!([{"apiGroups": ["x"], "resources": ["y"], "verbs": ["z"]}]);
    put("system:basic-user", own.clone(), "true").await;
    put("system:discovery", own.clone(), "false").await;
    world.remove(&format!("{RBAC}/clusterrolebindings/cluster-admin")).await;
    bootstrap::ensure(world.server.write_scope(), Vec::new()).await.expect("made again");
    let rules =
        async |name: &str| world.get(&admin, &format!("{RBAC}/clusterroles/{name}")).await.body["rules"].clone();
    assert!(rules("system:basic-user").await.as_array().expect("rules").len() > 1);
    assert_eq!(rules("system:basic-user").await[0], own[0]);
    assert_eq!(rules("system:discovery").await, own);
    assert_eq!(world.get(&admin, &format!("{RBAC}/clusterrolebindings/cluster-admin")).await.code, 200);
    let before = world.get(&admin, &format!("{RBAC}/clusterroles")).await.body["metadata"]["resourceVersion"].clone();
    bootstrap::ensure(world.server.write_scope(), Vec::new()).await.expect("nothing to do");
    let after = world.get(&admin, &format!("{RBAC}/clusterroles")).await.body["metadata"]["resourceVersion"].clone();
    assert_eq!(before, after, "a second start writes nothing");
}

#[tokio::test]
async fn aggregated_servers_find_the_trust_anchors() {
    let world = World::new().await;
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    for client_ca in ["one", "one", "two"] {
        let trust = PublishedTrust { client_ca, front_proxy_ca: "front", front_proxy_names: &["front-proxy-client"] };
        bootstrap::publish_trust(world.server.write_scope(), &trust).await.expect("published");
        let data = world.get(&world.admin(), path).await.body["data"].clone();
        assert_eq!(
            (&data["client-ca-file"], &data["requestheader-client-ca-file"]),
            (&json!(client_ca), &json!("front"))
        );
        assert_eq!(data["requestheader-allowed-names"], r#"["front-proxy-client"]"#);
    }
}
