//! Tests the conventions of all calls: versions, preconditions, selected fields, checks without writing, and the end of credentials.

use super::*;

const BASE: &str = "/flotilla/manager/v1alpha1";

/// An answer: its status, its headers and its body.
struct Answer {
    code: u16,
    headers: http::HeaderMap,
    body: Value,
}

impl World {
    async fn user(&self, name: &str, role: &str, target: Value) -> ClusterClient {
        self.create(&BINDINGS, name, grants::binding_spec("User", name, role, target)).await;
        let acting = User::new(name, &[]);
        eventually("the binding takes effect", || async {
            let rights = &self.manager.operations.rights;
            !rights.platform_roles(&acting).is_empty() || rights.instance_access(&acting, "east").sees_instance()
        })
        .await;
        let (_, token) = self.token(name).await;
        self.remote(&token, "")
    }
}

async fn ask(client: &ClusterClient, verb: &str, path: &str, headers: &[(&str, &str)], body: Value) -> Answer {
    let mut request = Request::builder().method(verb).uri(format!("{BASE}{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    let response = client.raw(request.body(body).expect("a request")).await.expect("an answer");
    let (parts, body) = response.into_parts();
    Answer {
        code: parts.status.as_u16(),
        headers: parts.headers,
        body: serde_json::from_slice(&body).unwrap_or_default(),
    }
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(|one| one["name"].as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_and_watches_show_the_same_instances_to_every_caller() {
    let world = world().await;
    world.instance("east").await;
    world.instance("west").await;
    for (user, role, target, expected) in [
        ("root", "platform-admin", json!(null), &["east", "west"][..]),
        ("auditor", "auditor", json!(null), &["east", "west"]),
        ("iam", "iam-owner", json!(null), &["east", "west"]),
        ("ann", "view", json!({"instance": "east"}), &["east"]),
        ("bob", "edit", json!({"instance": "east", "namespace": "shop"}), &["east"]),
    ] {
        let client = world.user(user, role, target).await;
        let list = ask(&client, "GET", "/instances", &[], json!(null)).await;
        assert_eq!(names(&list.body["instances"]), expected, "{user}");
        assert_eq!(watched(&world, user).await, list.body["instances"], "{user}");
    }
    world.manager.stop().await;
}

/// The instances that a watch sends first. The revoked token ends the watch, so that its answer is complete.
async fn watched(world: &World, user: &str) -> Value {
    for wait in [100, 400, 1600, 6400] {
        let (id, token) = world.token(user).await;
        let client = world.remote(&token, "");
        let request = Request::get(format!("{BASE}/instances:watch")).body(Bytes::new()).expect("a request");
        let watch = tokio::spawn(async move { client.raw(request).await });
        tokio::time::sleep(Duration::from_millis(wait)).await;
        world.manager.operations.tokens.revoke(&id).await.expect("revoked");
        let answer = tokio::time::timeout(WAIT, watch).await.expect("it ends").expect("no panic").expect("an answer");
        let lines = String::from_utf8_lossy(answer.body()).into_owned();
        let events = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let events: Vec<Value> = events.map(|event| event["result"].clone()).collect();
        let added = events.iter().filter(|event| event["type"] == "CHANGE_TYPE_ADDED");
        let mut found: Vec<Value> = added.map(|event| event["instance"].clone()).collect();
        found.sort_by_key(|instance| instance["name"].to_string());
        if events.iter().any(|event| event["type"] == "CHANGE_TYPE_SYNCED") {
            return found.into();
        }
    }
    panic!("the watch sent no instances to {user}");
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_return_versions_and_can_demand_one() {
    let world = world().await;
    world.instance("east").await;
    let root = world.user("root", "platform-admin", json!(null)).await;
    let created = ask(&root, "POST", "/users", &[], json!({"name": "ann", "emails": ["ann@example.com"]})).await;
    assert_eq!((created.code, &created.body["emails"]), (200, &json!(["ann@example.com"])));
    let version = created.headers["x-flotilla-version"].to_str().expect("text").to_owned();
    let etag = created.body["etag"].as_str().expect("an etag").to_owned();
    assert_eq!(version, format!("manager:{etag}"));

    // A read that demands the version has it; a version that does not exist yet is not answered with an older state.
    for (version, code) in
        [(version.as_str(), 200), ("manager:999999999", 504), ("no-such-uid:1", 504), ("nonsense", 400)]
    {
        let headers = [("x-flotilla-at-least", version)];
        for path in ["/users/ann", "/instances"] {
            assert_eq!(ask(&root, "GET", path, &headers, json!(null)).await.code, code, "{path} {version}");
        }
        let query = format!("/instances?atLeast={version}");
        assert_eq!(ask(&root, "GET", &query, &[], json!(null)).await.code, code, "{query}");
    }

    // If-Match, in the header as in the body.
    let quoted = format!("\"{etag}\"");
    let wanted = json!({"displayName": "Ann"});
    let changed = ask(&root, "PUT", "/users/ann", &[("if-match", &quoted)], wanted.clone()).await;
    assert_eq!(changed.code, 200, "{}", changed.body);
    let stale = ask(&root, "PUT", "/users/ann", &[("if-match", &quoted)], wanted.clone()).await;
    assert_eq!((stale.code, &stale.body["details"][0]["reason"]), (412, &json!("PreconditionFailed")));
    let mut with_etag = wanted;
    with_etag["etag"] = etag.clone().into();
    assert_eq!(ask(&root, "PUT", "/users/ann", &[], with_etag).await.code, 409);
    assert_eq!(ask(&root, "DELETE", "/users/ann", &[("if-match", &quoted)], json!(null)).await.code, 412);
    assert_eq!(ask(&root, "GET", "/users", &[("if-match", "7")], json!(null)).await.code, 400, "a read takes none");
    let suspended = ask(&root, "POST", "/instances/east:suspend", &[("if-match", "\"1\"")], json!({})).await;
    assert_eq!(suspended.code, 412, "{}", suspended.body);
    world.manager.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_return_the_fields_that_were_asked_for() {
    let world = world().await;
    world.instance("east").await;
    let root = world.user("root", "platform-admin", json!(null)).await;
    let get = async |query: &str| ask(&root, "GET", &format!("/instances?{query}"), &[], json!(null)).await;
    let found = get("fields=instances.name,instances.summary.clusters&includeTotal=false").await;
    assert_eq!(found.code, 200, "{}", found.body);
    let instance = found.body["instances"][0].as_object().expect("an instance");
    assert!(instance.keys().all(|field| ["name", "summary"].contains(&field.as_str())), "{instance:?}");
    assert_eq!((&instance["name"], &found.body["total"]), (&json!("east"), &json!("0")));
    assert_eq!(get("").await.body["total"], "1");
    assert_eq!(get("fields=instances.nmae").await.code, 400);
    assert_eq!(ask(&root, "GET", "/search:export?fields=items", &[], json!(null)).await.code, 400);
    let collections = ask(&root, "GET", "/collections", &[], json!(null)).await;
    assert!(names(&collections.body["collections"]).contains(&"workloads"));
    let found = ask(&root, "GET", "/collections/kuberesources?query=ns:kube-system", &[], json!(null)).await;
    assert_eq!((found.code, &found.body["unread"]), (200, &json!([])), "{}", found.body);
    assert_eq!(ask(&root, "GET", "/collections/none", &[], json!(null)).await.code, 404);
    world.manager.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_change_nothing_and_logging_out_ends_the_token() {
    let world = world().await;
    world.instance("east").await;
    let root = world.user("root", "platform-admin", json!(null)).await;
    let before = ask(&root, "GET", "/instances/east", &[], json!(null)).await.body;
    let check = json!({"validateOnly": true});
    for (path, body) in [
        ("/instances/east:suspend", check.clone()),
        ("/instances/east:restart", check.clone()),
        ("/instances/east:hibernate", check.clone()),
        ("/instances/east/kubeconfigs", check.clone()),
        ("/access-tokens", check.clone()),
        ("/sessions:logout", check.clone()),
    ] {
        let answer = ask(&root, "POST", path, &[], body).await;
        assert_eq!(answer.code, 200, "{path}: {}", answer.body);
    }
    let too_long = json!({"validateOnly": true, "expirationSeconds": "99999999"});
    assert_eq!(ask(&root, "POST", "/instances/east/kubeconfigs", &[], too_long).await.code, 400);
    let after = ask(&root, "GET", "/instances/east", &[], json!(null)).await.body;
    assert_eq!((&after["suspended"], &after["spec"]), (&before["suspended"], &before["spec"]));
    let tokens = ask(&root, "GET", "/instances/east/kubeconfigs", &[], json!(null)).await;
    assert_eq!(tokens.body["kubeconfigs"], json!([]), "no kubeconfig was issued");

    assert_eq!(ask(&root, "GET", "/sessions", &[], json!(null)).await.body["sessions"], json!([]));
    assert_eq!(ask(&root, "DELETE", "/sessions/none", &[], json!(null)).await.code, 404);
    assert_eq!(ask(&root, "POST", "/sessions:startOidc", &[], json!({"redirectUri": "https://x/"})).await.code, 400);
    assert_eq!(ask(&root, "POST", "/sessions:logout", &[], json!({})).await.code, 200);
    assert_eq!(ask(&root, "GET", "/whoami", &[], json!(null)).await.code, 401);
    world.manager.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_deleted_by_force_with_its_clusters() {
    let world = world().await;
    world.instance("east").await;
    let root = world.user("root", "platform-admin", json!(null)).await;
    let cluster = api::cluster::CLUSTERS;
    let east = world.manager.operations.instance_client(&User::new("root", &[]), "east").await.expect("a client");
    let mut member = cluster.object("", "m1");
    member.set(&["spec"], json!({"syncMode": "Pull"}));
    let created = east.create(ResourceRef::all(&cluster.gvr()), member, WriteOptions::default()).await;
    created.expect("a cluster");
    let delete = async |query: &str| {
        let path = format!("/instances/east?confirmName=east{query}");
        ask(&root, "DELETE", &path, &[], json!(null)).await.code
    };
    assert_eq!(delete("").await, 400, "a cluster is joined");
    assert_eq!(delete("&force=true&validateOnly=true").await, 200);
    let found = east.get(ResourceRef::cluster(&cluster.gvr(), "m1")).await.expect("still there");
    assert!(!found.is_deleting(), "a check removes nothing");
    assert_eq!(delete("&force=true").await, 200);
    eventually("the cluster leaves with the instance", || async {
        let found = east.find(ResourceRef::cluster(&cluster.gvr(), "m1")).await;
        !matches!(found, Ok(Some(cluster)) if !cluster.is_deleting())
    })
    .await;
    world.manager.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_named_by_an_e_mail_address_is_the_user_with_it() {
    let world = world().await;
    world.instance("east").await;
    world.create(&USERS, "ann", json!({"email": "Ann@example.com"})).await;
    let spec = grants::binding_spec("User", "ann", "view", json!({"instance": "east"}));
    world.create(&BINDINGS, "ann", spec).await;
    let caller = User::new("ann@example.com", &[]);
    let rights = &world.manager.operations.rights;
    eventually("the address is known", || async { rights.instance_access(&caller, "east").sees_instance() }).await;
    let (_, token) = world.token("ann@example.com").await;
    let client = world.remote(&token, "");
    assert_eq!(ask(&client, "GET", "/instances/east", &[], json!(null)).await.code, 200);
    world.change(&USERS, "ann", json!({"disabled": true})).await;
    eventually("the user is disabled by its address too", || async {
        ask(&client, "GET", "/instances/east", &[], json!(null)).await.code == 401
    })
    .await;
    world.manager.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_has_a_graph_a_history_and_a_preview_of_policies() {
    let world = world().await;
    world.instance("east").await;
    let root = world.user("root", "platform-admin", json!(null)).await;
    let pods =
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": pods},
    });
    let deployments = "/instances/east/gvr/apps/v1/namespaces/default/deployments";
    let json_type = [("content-type", "application/json")];
    let created = ask(&root, "POST", deployments, &json_type, deployment).await;
    assert_eq!(created.code, 200, "{}", created.body);

    let subject = "apiVersion=apps/v1&kind=Deployment&namespace=default&name=web";
    let graph = ask(&root, "GET", &format!("/instances/east/graph?{subject}"), &[], json!(null)).await;
    assert_eq!((graph.code, &graph.body["nodes"][0]["role"]), (200, &json!("template")), "{}", graph.body);
    let workload = "/instances/east/namespaces/default/workloads/deployments/web";
    let history = ask(&root, "GET", &format!("{workload}/history"), &[], json!(null)).await;
    assert_eq!((history.code, &history.body["revisions"]), (200, &json!([])), "{}", history.body);
    let rollback = ask(&root, "POST", &format!("{workload}:rollback"), &[], json!({})).await;
    assert_eq!(rollback.body["details"][0]["reason"], "FailedPrecondition", "{}", rollback.body);
    let jobs = "/instances/east/namespaces/default/workloads/jobs/web";
    let none = ask(&root, "GET", &format!("{jobs}/history"), &[], json!(null)).await;
    assert!(none.body["message"].as_str().is_some_and(|text| text.contains("no revisions")), "{}", none.body);

    let selectors = json!([{"apiVersion": "apps/v1", "kind": "Deployment"}]);
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "all", "namespace": "default"}, "spec": {"resourceSelectors": selectors},
    });
    let preview = ask(&root, "POST", "/instances/east/policies:preview", &json_type, policy).await;
    let change = &preview.body["objects"][0];
    assert_eq!((preview.code, &change["name"], &change["future"]), (200, &json!("web"), &json!("default/all")));
    assert_eq!((&change["current"], &change["changesHands"]), (&json!(""), &json!(true)), "{}", preview.body);
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let refused = ask(&root, "POST", "/instances/east/policies:preview", &json_type, other).await;
    assert_eq!(refused.code, 400, "{}", refused.body);

    // A version can be demanded from objects of an instance and from workloads.
    let stale = [("if-match", "\"1\"")];
    let restart = ask(&root, "POST", &format!("{workload}:restart"), &stale, json!({})).await;
    assert_eq!(restart.code, 412, "{}", restart.body);
    let one = format!("{deployments}/web");
    assert_eq!(ask(&root, "DELETE", &one, &stale, json!(null)).await.code, 412);
    let patch = [("if-match", "\"1\""), ("content-type", "application/merge-patch+json")];
    assert_eq!(ask(&root, "PATCH", &one, &patch, json!({"spec": {"paused": true}})).await.code, 412);
    let current = ask(&root, "GET", &one, &[], json!(null)).await;
    let version = current.body["metadata"]["resourceVersion"].as_str().expect("a version").to_owned();
    assert_eq!(ask(&root, "DELETE", &one, &[("if-match", &version)], json!(null)).await.code, 200);
    world.manager.stop().await;
}
