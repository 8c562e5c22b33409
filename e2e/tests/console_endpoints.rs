//! The endpoints of the web console answer with the rights of their caller, and refuse bad input with the field.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use e2e::flotilla::Flotilla;
use e2e::raw_client::{RawClient, RawResponse};
use serde_json::{Value, json};

const ROOT: &str = "/flotilla/v1alpha1";
const JOIN: &str = "/flotilla/v1alpha1/join";
const TOKEN: &str = "/flotilla/v1alpha1/join/token";

const TOKENS: &str = "admin-token,admin,1,\"system:masters\"
reader-token,reader,2
tenant-token,tenant,3
guest-token,guest,4
joiner-token,joiner,5
";

/// The callers of the table, with the names that no answer may show them.
///
/// The reader may list ResourceBindings in all namespaces, the tenant reads bindings and secrets in namespace `shop`.
const CALLERS: [(&str, &[&str]); 5] = [
    ("admin-token", &[]),
    ("reader-token", &["topaz-role", "topaz-secret", "topaz-key"]),
    ("tenant-token", HIDDEN),
    ("guest-token", &["shop-secret", "shop-key", "web-deployment", "web-policy", "shop-m1"]),
    ("", &["shop-secret", "shop-key", "web-deployment", "web-policy", "shop-m1"]),
];
const HIDDEN: &[&str] =
    &["vault", "topaz-web", "topaz-policy", "topaz-m8", "topaz-m9", "topaz-role", "topaz-secret", "topaz-key"];

/// A request with the code for each caller, and a part of the answer to the administrator.
type Row = (&'static str, [u16; 5], &'static str);

const ROWS: &[Row] = &[
    ("/bindings", [200, 200, 403, 403, 401], "topaz-role-clusterrole"),
    ("/bindings?namespace=shop", [200, 200, 200, 403, 401], "web-deployment"),
    ("/bindings?namespace=vault", [200, 200, 403, 403, 401], "topaz-web-deployment"),
    // The first value is the one that is checked and listed.
    ("/bindings?namespace=shop&namespace=vault", [200, 200, 200, 403, 401], "web-deployment"),
    ("/bindings?namespace=vault&namespace=shop", [200, 200, 403, 403, 401], "topaz-web-deployment"),
    ("/bindings?subject=Deployment/vault/topaz-web", [200, 200, 403, 403, 401], "\"matching\":1"),
    ("/bindings?namespace=shop&subject=Deployment/vault/topaz-web", [200, 200, 200, 403, 401], "\"matching\":0"),
    ("/bindings?namespace=shop&cluster=topaz-m9", [200, 200, 200, 403, 401], "\"matching\":0"),
    ("/bindings/summary", [200, 200, 403, 403, 401], "topaz-m9"),
    ("/bindings/summary?namespace=shop", [200, 200, 200, 403, 401], "shop-m1"),
    ("/bindings/summary?namespace=vault", [200, 200, 403, 403, 401], "topaz-m9"),
    ("/bindings/failovers", [200, 200, 403, 403, 401], "topaz-m8"),
    ("/bindings/failovers?namespace=shop", [200, 200, 200, 403, 401], "\"total\":1"),
    ("/bindings/failovers?namespace=vault", [200, 200, 403, 403, 401], "topaz-m8"),
    ("/bindings/failovers?cluster=topaz-m8", [200, 200, 403, 403, 401], "\"leftTotal\":1"),
    ("/bindings/failovers?namespace=shop&cluster=topaz-m8", [200, 200, 200, 403, 401], "\"leftTotal\":0"),
    ("/bindings/flows", [200, 200, 403, 403, 401], "topaz-m9"),
    ("/bindings/flows?namespace=shop&by=workload", [200, 200, 200, 403, 401], "shop/web (Deployment)"),
    ("/bindings/flows?namespace=vault&by=policy", [200, 200, 403, 403, 401], "topaz-policy"),
    ("/secrets/keys?namespace=shop&name=shop-secret", [200, 403, 200, 403, 401], "shop-key"),
    ("/secrets/keys?namespace=vault&name=topaz-secret", [200, 403, 403, 403, 401], "topaz-key"),
    // Only callers who may read a secret learn that it is missing.
    ("/secrets/keys?namespace=vault&name=absent", [404, 403, 403, 403, 401], "absent"),
    ("/secrets/keys?namespace=shop&name=absent", [404, 403, 404, 403, 401], "absent"),
    ("/components", [200, 403, 403, 403, 401], "\"reconciles\""),
    ("/namespaces", [200, 200, 200, 200, 401], "items"),
];

/// Queries with a value that cannot be used, and the parameter that the refusal names.
const BAD_QUERIES: [(&str, &str); 10] = [
    ("/bindings?limit=many", "limit"),
    ("/bindings?limit=-1", "limit"),
    ("/bindings?limit=501", "limit"),
    ("/bindings?offset=1.5", "offset"),
    ("/bindings?subject=web", "subject"),
    ("/bindings/summary?subject=Deployment/web", "subject"),
    ("/bindings/failovers?limit=501", "limit"),
    ("/bindings/flows?by=color", "by"),
    ("/secrets/keys?namespace=shop", "name"),
    ("/secrets/keys?name=shop-secret", "namespace"),
];

struct World {
    server: Flotilla,
    admin: RawClient,
}

impl World {
    fn start(folder: &Path) -> Self {
        let tokens = folder.join("tokens.csv");
        std::fs::write(&tokens, TOKENS).expect("written");
        let server = Flotilla::start_in(folder, &["--token-auth-file", &tokens.display().to_string()]);
        let world = Self { admin: RawClient::of(&server).with_token("admin-token"), server };
        world.create_objects();
        world.grant("reader", "", "work.karmada.io", "resourcebindings");
        world.grant("tenant", "shop", "work.karmada.io", "resourcebindings");
        world.grant("tenant", "shop", "", "secrets");
        world.grant("joiner", "", "cluster.karmada.io", "clusters");
        world
    }

    fn client(&self, token: &str) -> RawClient {
        let anonymous = RawClient::of(&self.server);
        if token.is_empty() { anonymous } else { anonymous.with_token(token) }
    }

    fn create(&self, path: &str, object: &Value) {
        let created = self.admin.post(path, object).expect("an answer");
        assert_eq!(created.code, 201, "{path} {object}: {}", created.body);
    }

    fn create_objects(&self) {
        for (namespace, workload, policy, [from, to]) in [
            ("shop", "web", "web-policy", ["shop-m2", "shop-m1"]),
            ("vault", "topaz-web", "topaz-policy", ["topaz-m8", "topaz-m9"]),
        ] {
            self.create("/api/v1/namespaces", &json!({"metadata": {"name": namespace}}));
            let bindings = format!("/apis/work.karmada.io/v1alpha2/namespaces/{namespace}/resourcebindings");
            self.create(&bindings, &binding(namespace, workload, policy, from, to));
            let prefix = if namespace == "shop" { "shop" } else { "topaz" };
            let data = json!({format!("{prefix}-key"): STANDARD.encode("value")});
            let secret = json!({"metadata": {"name": format!("{prefix}-secret")}, "data": data});
            self.create(&format!("/api/v1/namespaces/{namespace}/secrets"), &secret);
        }
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "topaz-role"});
        let cluster_wide = json!({
            "apiVersion": "work.karmada.io/v1alpha2",
            "kind": "ClusterResourceBinding",
            "metadata": {"name": "topaz-role-clusterrole"},
            "spec": {"schedulerName": "another", "resource": role, "clusters": [{"name": "topaz-m9"}]},
        });
        self.create("/apis/work.karmada.io/v1alpha2/clusterresourcebindings", &cluster_wide);
    }

    /// Grants access to a resource in a namespace, or in all.
    fn grant(&self, user: &str, namespace: &str, group: &str, resource: &str) {
        let (scope, kind) = match namespace {
            "" => (String::new(), "ClusterRole"),
            namespace => (format!("namespaces/{namespace}/"), "Role"),
        };
        let path = |resource: &str| format!("/apis/rbac.authorization.k8s.io/v1/{scope}{resource}");
        let (name, verbs) = (format!("{user}-{resource}"), json!(["get", "list", "watch", "create"]));
        let rules = json!([{"apiGroups": [group], "resources": [resource], "verbs": verbs}]);
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
        let subjects = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]);
        let kind = kind.to_lowercase();
        self.create(&path(&format!("{kind}s")), &json!({"metadata": {"name": name}, "rules": rules}));
        let bound = json!({"metadata": {"name": name}, "roleRef": role, "subjects": subjects});
        self.create(&path(&format!("{kind}bindings")), &bound);
    }

    /// The objects that a join could leave behind, by kind and name.
    fn joined_objects(&self) -> Vec<String> {
        let lists = ["/apis/cluster.karmada.io/v1alpha1/clusters", "/api/v1/secrets", "/api/v1/serviceaccounts"];
        let mut names = Vec::new();
        for path in lists {
            let answer = self.admin.get(path).expect("an answer");
            assert_eq!(answer.code, 200, "{}", answer.body);
            let list = answer.json();
            let items = list["items"].as_array().expect("a list");
            let name = |one: &Value| format!("{path} {} {}", one["metadata"]["namespace"], one["metadata"]["name"]);
            // Each new namespace gets a ServiceAccount of its own.
            names.extend(items.iter().filter(|one| one["metadata"]["name"] != "default").map(name));
        }
        names.sort();
        names
    }

    /// A kubeconfig for this server itself, or another, as the user of this token.
    fn kubeconfig(&self, server: &str, token: &str) -> String {
        let ca = STANDARD.encode(std::fs::read(self.server.data_dir.join("pki/ca.crt")).expect("a CA"));
        let cluster = json!({"server": server, "certificate-authority-data": ca});
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": token}}],
        })
        .to_string()
    }
}

/// A workload of two replicas that moved once. Another scheduler owns it, so that it stays as it is.
fn binding(namespace: &str, workload: &str, policy: &str, from: &str, to: &str) -> Value {
    let history = json!([{"time": "2026-01-01T00:00:01Z", "from": from, "reason": "TaintUntolerated",
        "by": "TaintManager", "to": [{"name": to}]}]);
    json!({
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {
            "name": format!("{workload}-deployment"),
            "annotations": {
                "flotilla.dev/failover-history": history.to_string(),
                "propagationpolicy.karmada.io/name": policy,
                "propagationpolicy.karmada.io/namespace": namespace,
            },
        },
        "spec": {
            "schedulerName": "another",
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": namespace, "name": workload},
            "replicas": 2,
            "clusters": [{"name": to, "replicas": 2}],
        },
    })
}

/// Checks that an answer has no name that the caller may not know, other than those of its request.
fn assert_hides(hidden: &[&str], request: &str, answer: &RawResponse) {
    for name in hidden.iter().filter(|name| !request.contains(**name)) {
        assert!(!answer.body.contains(name), "{request} shows {name}: {}", answer.body);
    }
}

fn assert_bad_request(answer: &RawResponse, field: &str, request: &str) {
    assert_eq!(answer.code, 400, "{request}: {}", answer.body);
    let message = answer.json()["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains(field), "{request} must name {field}: {message}");
}

/// The answer without what changes with every write.
fn content(answer: &RawResponse) -> Value {
    let mut value = answer.json();
    value["metadata"] = Value::Null;
    value
}

fn check_rows(world: &World) {
    for (path, codes, shown) in ROWS {
        let path = format!("{ROOT}{path}");
        let full = world.admin.get(&path).expect("an answer");
        assert!(full.body.contains(shown), "{path} lacks {shown}: {}", full.body);
        for ((token, hidden), code) in CALLERS.iter().zip(codes) {
            let answer = world.client(token).get(&path).expect("an answer");
            assert_eq!(answer.code, *code, "{path} as {token:?}: {}", answer.body);
            assert_hides(hidden, &path, &answer);
            if *token == "tenant-token" && *code == 200 && path.contains("/bindings") {
                assert_eq!(content(&answer), content(&full), "{path}: its answer is the whole of its namespace");
            }
        }
    }
}

fn check_counts(world: &World) {
    let get = |token: &str, path: &str| world.client(token).get(&format!("{ROOT}{path}")).expect("an answer").json();
    let own = get("tenant-token", "/bindings/summary?namespace=shop");
    assert_eq!([&own["total"], &own["replicas"], &own["unread"]], [&json!(1), &json!(2), &json!([])], "{own}");
    let all = get("admin-token", "/bindings/summary");
    assert_eq!([&all["total"], &all["unread"]], [&json!(3), &json!([])], "{all}");
    let namespaced = get("reader-token", "/bindings/summary");
    let unread = json!(["clusterresourcebindings"]);
    assert_eq!([&namespaced["total"], &namespaced["unread"]], [&json!(2), &unread], "{namespaced}");
    for (token, expected) in
        [("tenant-token", json!(["shop"])), ("guest-token", json!([])), ("reader-token", json!([]))]
    {
        assert_eq!(get(token, "/namespaces")["items"], expected, "{token}");
    }
}

fn check_rights_to_join(world: &World) {
    let before = world.joined_objects();
    let wanted = json!({"name": "m5"});
    for (path, codes) in [(JOIN, [400, 403, 403, 403, 401]), (TOKEN, [200, 403, 403, 403, 401])] {
        for ((token, hidden), code) in CALLERS.iter().zip(codes).rev() {
            let answer = world.client(token).post(path, &wanted).expect("an answer");
            assert_eq!(answer.code, code, "{path} as {token:?}: {}", answer.body);
            assert_hides(hidden, path, &answer);
            if code != 200 {
                assert_eq!(world.joined_objects(), before, "{path} as {token:?}");
            }
        }
    }
    let after = world.joined_objects();
    let new: Vec<&String> = after.iter().filter(|name| !before.contains(name)).collect();
    assert!(matches!(new[..], [one] if one.contains("bootstrap-token-")), "one token is stored: {new:?}");
    // Without access to secrets there is no token, though the caller may create clusters.
    let answer = world.client("joiner-token").post(TOKEN, &wanted).expect("an answer");
    assert_eq!((answer.code, world.joined_objects()), (403, after), "{}", answer.body);
}

fn check_bad_bodies(world: &World, good: &str) {
    let before = world.joined_objects();
    let whole = |change: Value| {
        let mut body = json!({"name": "m5", "kubeconfig": good});
        body.as_object_mut().expect("an object").extend(change.as_object().expect("an object").clone());
        body.to_string()
    };
    let too_long = json!({"name": "m5", "kubeconfig": "x".repeat(256 * 1024 + 1)}).to_string();
    for (path, body, field) in [
        (JOIN, "{".to_owned(), "body"),
        (JOIN, "[]".to_owned(), "body"),
        (JOIN, "{}".to_owned(), "kubeconfig"),
        (JOIN, too_long, "kubeconfig"),
        (JOIN, whole(json!({"name": "Bad_Name"})), "name"),
        (JOIN, whole(json!({"name": 5})), "name"),
        (JOIN, whole(json!({"zone": ["a"]})), "zone"),
        (JOIN, whole(json!({"dryRun": "true"})), "dryRun"),
        (JOIN, whole(json!({"dryrun": true})), "dryrun"),
        (TOKEN, String::new(), "body"),
        (TOKEN, "{}".to_owned(), "name"),
        (TOKEN, json!({"name": "Bad_Name"}).to_string(), "name"),
        (TOKEN, json!({"name": "m5", "ttl": "24h"}).to_string(), "ttl"),
    ] {
        let answer = world.admin.ask("POST", path, "application/json", &body).expect("an answer");
        let body = body.chars().take(80).collect::<String>();
        assert_bad_request(&answer, field, &format!("{path} {body}"));
        assert_eq!(world.joined_objects(), before, "{path} {body}");
    }
}

fn check_wrong_kubeconfigs(world: &World, own: &str, good: &str) {
    let before = world.joined_objects();
    let checked = json!({"name": "m5", "kubeconfig": good, "dryRun": true});
    let answer = world.admin.post(JOIN, &checked).expect("an answer");
    assert_eq!(answer.code, 200, "the kubeconfig is right: {}", answer.body);
    assert_eq!(world.joined_objects(), before, "a check changes nothing");
    let closed = "https://127.0.0.1:1";
    let program = good.replace("\"token\":\"admin-token\"", "\"exec\":{\"command\":\"/bin/true\"}");
    let mut untrusted: Value = serde_json::from_str(good).expect("a kubeconfig");
    untrusted["clusters"][0]["cluster"] = json!({"server": own});
    for (wrong, kubeconfig, part) in [
        ("no YAML", "{[".to_owned(), "kubeconfig"),
        ("no kubeconfig", "{}".to_owned(), "kubeconfig"),
        ("a program", program, "kubeconfig"),
        ("no server", world.kubeconfig("", "admin-token"), "address of a server"),
        ("a closed port", world.kubeconfig(closed, "admin-token"), closed),
        ("another CA", untrusted.to_string(), own),
        ("an unknown token", world.kubeconfig(own, "wrong-token"), own),
        ("a user without rights", world.kubeconfig(own, "guest-token"), own),
    ] {
        let body = json!({"name": "m5", "kubeconfig": kubeconfig});
        let answer = world.admin.post(JOIN, &body).expect("an answer");
        assert_bad_request(&answer, part, wrong);
        assert_eq!(world.joined_objects(), before, "{wrong}");
    }
}

#[test]
fn console_endpoints_show_a_caller_what_it_may_read_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let world = World::start(folder.path());
    check_rows(&world);
    check_counts(&world);
    for (path, field) in BAD_QUERIES {
        let answer = world.admin.get(&format!("{ROOT}{path}")).expect("an answer");
        assert_bad_request(&answer, field, path);
    }
}

#[test]
fn joins_with_bad_input_or_without_rights_change_nothing() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let world = World::start(folder.path());
    let own = format!("https://127.0.0.1:{}", world.server.port());
    let good = world.kubeconfig(&own, "admin-token");
    check_rights_to_join(&world);
    check_bad_bodies(&world, &good);
    check_wrong_kubeconfigs(&world, &own, &good);
}
