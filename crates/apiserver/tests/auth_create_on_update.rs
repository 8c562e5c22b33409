//! An update or apply that creates an object needs the right to create it, for every kind that can be created so.

mod auth_world;

use std::collections::BTreeSet;

use auth_world::{Caller, World};
use serde_json::{Value, json};

/// Group version, plural and a body of each kind that PUT creates.
fn created_by_put() -> Vec<(&'static str, &'static str, Value)> {
    let role_ref = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "none"});
    let about = json!({"kind": "Pod", "namespace": "default", "name": "p"});
    let event = json!({"involvedObject": about, "reason": "R", "type": "Normal"});
    let new_event = json!({"regarding": about, "reason": "R", "type": "Normal", "action": "A", "reportingController": "c.io/c",
        "reportingInstance": "i", "eventTime": "2026-01-01T00:00:00.000000Z"});
    vec![
        ("v1", "endpoints", json!({})),
        ("v1", "events", event),
        ("v1", "limitranges", json!({"spec": {"limits": []}})),
        ("v1", "services", json!({"spec": {"ports": [{"port": 80}], "clusterIP": "None"}})),
        ("events.k8s.io/v1", "events", new_event),
        ("rbac.authorization.k8s.io/v1", "clusterrolebindings", json!({"roleRef": role_ref, "subjects": []})),
        ("rbac.authorization.k8s.io/v1", "clusterroles", json!({"rules": []})),
        ("rbac.authorization.k8s.io/v1", "rolebindings", json!({"roleRef": role_ref, "subjects": []})),
        ("rbac.authorization.k8s.io/v1", "roles", json!({"rules": []})),
    ]
}

/// A world with the role of the bindings above. It grants nothing, so everyone may bind it.
async fn world() -> World {
    let world = World::new().await;
    let role = json!({"metadata": {"name": "none"}, "rules": []});
    world.make("/apis/rbac.authorization.k8s.io/v1/clusterroles", role).await;
    world
}

struct Subject {
    group: String,
    plural: &'static str,
    path: String,
    body: Value,
}

fn subject(api_version: &str, plural: &'static str, mut body: Value) -> Subject {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kinds = kinds::builtin();
    let kind = kinds.iter().find(|kind| kind.gvk.api_version() == api_version && kind.plural == plural);
    let kind = kind.unwrap_or_else(|| panic!("{api_version} {plural} is not served"));
    let base = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    let scope = if kind.namespaced { "/namespaces/default" } else { "" };
    body["apiVersion"] = api_version.into();
    body["kind"] = kind.gvk.kind.as_str().into();
    body["metadata"] = json!({"name": "x"});
    Subject { group: group.to_owned(), plural, path: format!("{base}{scope}/{plural}/x"), body }
}

/// Rights of a caller and the answers to a PUT or an apply of an absent object.
const RIGHTS: &[(&str, &[&str], &[&str], u16)] = &[
    ("writes", &["get", "update", "patch"], &[], 403),
    ("creates", &["create"], &[], 403),
    ("both", &["get", "update", "patch", "create"], &[], 201),
    ("named", &["update", "patch", "create"], &["x"], 201),
    ("misnamed", &["update", "patch", "create"], &["y"], 403),
];

async fn check(world: &World, subject: &Subject, method: &str) {
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    for (user, verbs, names, expected) in RIGHTS {
        let name = format!("{user}-{method}-{}-{}", subject.plural, subject.group).to_lowercase();
        let name = name.trim_end_matches('-');
        let rule = json!({"apiGroups": [subject.group], "resources": [subject.plural], "verbs": verbs, "resourceNames": names});
        world.allow(name, user, rule).await;
        let path = match method {
            "PATCH" => format!("{}?fieldManager=m", subject.path),
            _ => subject.path.clone(),
        };
        let caller = world.user(user, &[]);
        let reply = world.ask(&caller, method, &path, subject.body.clone()).await;
        assert_eq!(reply.code, *expected, "{user} {method} {path}: {}", reply.body);
        if *expected == 201 {
            world.remove(&subject.path).await;
        } else {
            assert_eq!(world.get(&world.admin(), &subject.path).await.code, 404, "{user} {method} {path}");
        }
        for resource in ["clusterrolebindings", "clusterroles"] {
            world.remove(&format!("{rbac}/{resource}/{name}")).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn put_creates_only_with_the_right_to_create() {
    let world = world().await;
    let listed: BTreeSet<(String, String)> =
        created_by_put().iter().map(|(version, plural, _)| ((*version).to_owned(), (*plural).to_owned())).collect();
    let known = kinds::builtin();
    let is_created = |kind: &&kinds::Kind| {
        // Without unconditional updates a PUT must name a version, and then an absent object is not created.
        let strategy = &kind.strategy;
        kind.stored && strategy.allows_create_on_update() && strategy.allows_unconditional_update()
    };
    let known = known.iter().filter(is_created);
    for kind in known.filter(|kind| kind.gvk.version == "v1") {
        let entry = (kind.gvk.api_version(), kind.plural.clone());
        assert!(listed.contains(&entry), "{entry:?} is created by PUT and not in the table");
    }
    for (api_version, plural, body) in created_by_put() {
        check(&world, &subject(api_version, plural, body), "PUT").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn apply_creates_only_with_the_right_to_create() {
    let world = world().await;
    let more = [
        ("coordination.k8s.io/v1", "leases", json!({"spec": {}})),
        ("node.k8s.io/v1", "runtimeclasses", json!({"handler": "h"})),
        ("v1", "configmaps", json!({})),
        ("v1", "secrets", json!({})),
        ("apps/v1", "controllerrevisions", json!({"revision": 1, "data": {}})),
    ];
    let kinds = created_by_put().into_iter().filter(|(version, plural, _)| (*version, *plural) != ("v1", "events"));
    for (api_version, plural, body) in kinds.chain(more) {
        check(&world, &subject(api_version, plural, body), "PATCH").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changing_what_exists_needs_no_right_to_create() {
    let world = World::new().await;
    let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "update", "patch"]});
    world.allow("writer", "ann", rule).await;
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
    world.make("/api/v1/namespaces/default/configmaps", body.clone()).await;
    let ann: Caller = world.user("ann", &[]);
    let path = "/api/v1/namespaces/default/configmaps/x";
    assert_eq!(world.ask(&ann, "PUT", path, body.clone()).await.code, 200);
    assert_eq!(world.ask(&ann, "PATCH", &format!("{path}?fieldManager=m"), body).await.code, 200);
}
