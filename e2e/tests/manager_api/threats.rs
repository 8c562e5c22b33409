//! Threats to the manager, tried on a running one: claims in headers, paths, Secrets in outputs, addresses, more rights than given.

use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use e2e::manager::eventually;
use e2e::raw_client::{RawClient, RawResponse};
use serde_json::{Value, json};

use crate::{BASE, World, expect, filled, operations};

/// The value of the Secrets `key` in both instances.
pub const CANARY: &str = "canary-value";

/// The users of these tests.
pub struct Users<'a> {
    /// Has the role view on west.
    pub viewer: &'a RawClient,
    /// Has no role.
    pub stranger: &'a RawClient,
}

pub fn all(world: &World, users: &Users<'_>) {
    claims_in_headers_change_nothing(users);
    paths_that_could_mean_another_are_refused(world, users);
    only_known_fields_are_sorted_by(world);
    answers_are_those_the_instance_gives(world);
    instances_do_not_connect_to_the_machine_of_the_manager(world);
    secrets_are_in_no_output_and_no_file(world);
}

/// Sends a request with more headers.
fn ask_with(client: &RawClient, (method, path): (&str, &str), headers: &str, body: &str) -> RawResponse {
    let own = format!("connection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n", body.len());
    let extra = if headers.is_empty() { own } else { format!("{own}{headers}\r\n") };
    let mut connection = client.connect().expect("connected");
    connection.send(&client.request_text(method, path, &extra, body)).expect("sent");
    connection.read_response().expect("an answer")
}

/// T6: no header makes a caller another user, at any entry point.
fn claims_in_headers_change_nothing(users: &Users<'_>) {
    let whoami = format!("{BASE}/whoami");
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).to_string();
    let reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let in_instance = format!("/instances/west{reviews}");
    let entry_points = [
        (users.stranger, ("GET", whoami.as_str()), "", "/name", "stan"),
        (users.stranger, ("POST", reviews), review.as_str(), "/status/userInfo/username", "stan"),
        (users.viewer, ("POST", in_instance.as_str()), review.as_str(), "/status/userInfo/username", "vera"),
    ];
    for (client, entry_point, body, place, expected) in entry_points {
        for claim in [
            "",
            "x-remote-user: root",
            "x-remote-user: root\r\nx-remote-group: system:masters",
            "x-remote-extra-scopes: all",
            "x-forwarded-user: root",
            "x-forwarded-for: 127.0.0.1",
            "forwarded: for=127.0.0.1;host=east",
            "grpc-metadata-authorization: Bearer x",
            "grpc-metadata-x-remote-user: root",
            "grpcgateway-authorization: Bearer x",
            "x-flotilla-user: root",
            "cookie: __Host-flotilla-session=root",
        ] {
            let answer = ask_with(client, entry_point, claim, body);
            let found = answer.json();
            assert_eq!(found.pointer(place), Some(&json!(expected)), "{entry_point:?} {claim}: {}", answer.body);
            assert!(!found.to_string().contains("system:masters"), "{entry_point:?} {claim}: {}", answer.body);
        }
        for claim in [
            "impersonate-user: root",
            "impersonate-user: root\r\nimpersonate-group: system:masters",
            "impersonate-uid: 1",
        ] {
            let answer = ask_with(client, entry_point, claim, body);
            assert!([400, 403].contains(&answer.code), "{entry_point:?} {claim}: {} {}", answer.code, answer.body);
        }
    }
}

/// T10.
fn paths_that_could_mean_another_are_refused(world: &World, users: &Users<'_>) {
    const NAMES: &[&str] = &[
        "..",
        ".",
        "%2e%2e",
        "%2e%2e%2f%2e%2e",
        "..%2fwest",
        "west%2f..",
        "west%2f..%2feast",
        "east%00",
        "EAST",
        "west;x",
        "%c0%ae%c0%ae",
        "west%5c..",
        "%ef%bd%97est",
        "~west",
        "west~",
        "karmada-system~east",
        "west%20",
        "east",
    ];
    for name in NAMES {
        for path in [
            format!("{BASE}/instances/{name}"),
            format!("{BASE}/instances/{name}/manifest"),
            format!("{BASE}/instances/{name}/gvr/core/v1/namespaces"),
            format!("/instances/{name}/api/v1/namespaces"),
        ] {
            let answer = users.viewer.get(&path).expect("an answer");
            assert!([400, 404].contains(&answer.code), "{path}: {} {}", answer.code, answer.body);
        }
        for (method, path) in [
            ("GET", format!("{BASE}/instances/west/backups/{name}:export")),
            ("DELETE", format!("{BASE}/instances/west/backups/{name}?confirmName=west")),
            ("DELETE", format!("{BASE}/access-tokens/{name}")),
            ("DELETE", format!("/flotilla/manager/kubeconfigs/{name}")),
        ] {
            let answer = world.admin.ask(method, &path, "application/json", "").expect("an answer");
            assert!([400, 404, 405].contains(&answer.code), "{method} {path}: {} {}", answer.code, answer.body);
        }
    }
}

/// T9.
fn only_known_fields_are_sorted_by(world: &World) {
    for list in ["instances", "users", "bindings", "search", "instances/west/clusters"] {
        for order in ["name;drop", "name)--", "spec.x", "name,(select 1)", "data.password", "name desc desc"] {
            let order = order.replace(' ', "%20");
            let answer = world.admin.get(&format!("{BASE}/{list}?orderBy={order}")).expect("an answer");
            assert_eq!(answer.code, 400, "{list} {order}: {}", answer.body);
        }
    }
}

/// T3: the manager gives no role more than the instance itself gives the user and groups that the role stands for.
fn answers_are_those_the_instance_gives(world: &World) {
    let reviews = "/instances/west/apis/authorization.k8s.io/v1/subjectaccessreviews";
    expect(world.admin.post("/instances/west/api/v1/namespaces", &json!({"metadata": {"name": "shop"}})), 201);
    let (west, shop) = (json!({"instance": "west"}), json!({"instance": "west", "namespace": "shop"}));
    let mut both = 0;
    for (user, role, target, group) in [
        ("tina", "view", &west, "flotilla:instance:view"),
        ("tess", "view", &shop, "flotilla:namespace:shop:view"),
        ("tom", "edit", &shop, "flotilla:namespace:shop:edit"),
    ] {
        let client = world.user(user, &[(role, target.clone())]);
        // The bindings of a namespace are made for the first request.
        client.get("/instances/west/api/v1/namespaces/shop/configmaps").expect("an answer");
        for (group_name, resource) in [
            ("", "configmaps"),
            ("", "secrets"),
            ("apps", "deployments"),
            ("rbac.authorization.k8s.io", "clusterroles"),
            ("rbac.authorization.k8s.io", "roles"),
            ("policy.karmada.io", "propagationpolicies"),
            ("policy.karmada.io", "clusterpropagationpolicies"),
            ("cluster.karmada.io", "clusters"),
            ("work.karmada.io", "works"),
        ] {
            for namespace in ["", "default", "shop"] {
                let is_global = ["clusterroles", "clusterpropagationpolicies", "clusters"].contains(&resource);
                if is_global && !namespace.is_empty() {
                    continue;
                }
                let attributes =
                    json!({"verb": "list", "group": group_name, "resource": resource, "namespace": namespace});
                let groups = json!([group, "system:authenticated"]);
                let spec = json!({"user": user, "groups": groups, "resourceAttributes": attributes});
                let review =
                    json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec});
                let direct = expect(world.admin.post(reviews, &review), 201)["status"]["allowed"] == true;
                let place = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
                let (version, api) = match group_name {
                    "" => ("v1", "core"),
                    "policy.karmada.io" | "cluster.karmada.io" | "work.karmada.io" => ("v1alpha1", group_name),
                    _ => ("v1", group_name),
                };
                let path = format!("{BASE}/instances/west/gvr/{api}/{version}{place}/{resource}");
                let answer = client.get(&path).expect("an answer");
                assert_eq!(answer.code == 200, direct, "{user} {resource} in {namespace:?}: {}", answer.body);
                both += usize::from(direct);
            }
        }
    }
    assert!(both > 15, "only {both} reads were allowed");
}

/// T5: an administrator of an instance makes it connect only to servers elsewhere.
fn instances_do_not_connect_to_the_machine_of_the_manager(world: &World) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("nonblocking");
    let port = listener.local_addr().expect("bound").port();
    let api = "/instances/west";
    let secret = json!({"metadata": {"name": "inward"}, "stringData": {"token": "t"}});
    expect(world.admin.post(&format!("{api}/api/v1/namespaces/karmada-cluster/secrets"), &secret), 201);
    for (name, endpoint, proxy, problem) in [
        ("metadata", "http://169.254.169.254".to_owned(), String::new(), "metadata services"),
        ("mapped", "https://[::ffff:169.254.169.254]".to_owned(), String::new(), "metadata services"),
        ("own", format!("https://127.0.0.1:{port}"), String::new(), "address of this machine"),
        ("named", format!("http://localhost:{port}"), String::new(), "address of this machine"),
        ("six", format!("https://[::1]:{port}"), String::new(), "address of this machine"),
        ("proxied", "https://10.255.255.1".to_owned(), format!("http://127.0.0.1:{port}"), "address of this machine"),
    ] {
        let reference = json!({"namespace": "karmada-cluster", "name": "inward"});
        let mut cluster = json!({
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
            "spec": {"syncMode": "Push", "id": name, "apiEndpoint": endpoint, "insecureSkipTLSVerification": true,
                "secretRef": reference, "impersonatorSecretRef": reference},
        });
        if !proxy.is_empty() {
            cluster["spec"]["proxyURL"] = proxy.into();
        }
        let clusters = format!("{api}/apis/cluster.karmada.io/v1alpha1/clusters");
        expect(world.admin.post(&clusters, &cluster), 201);
        let refused = || {
            let read = world.admin.get(&format!("{clusters}/{name}/proxy/latest/meta-data")).expect("an answer");
            // 429 until the members were asked to accept the user.
            match read.code == 503 && read.body.contains(problem) {
                true => Ok(()),
                false => Err(format!("{name}: {} {}", read.code, read.body)),
            }
        };
        eventually(Duration::from_secs(20), refused, || world.manager.server.log());
    }
    let hook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "inward"},
        "webhooks": [{"name": "inward.example.com", "clientConfig": {"url": format!("https://127.0.0.1:{port}/")},
            "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["serviceaccounts"]}]}],
    });
    let hooks = format!("{api}/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations");
    expect(world.admin.post(&hooks, &hook), 201);
    let account = json!({"metadata": {"name": "a"}});
    let called = world.admin.post(&format!("{api}/api/v1/namespaces/default/serviceaccounts"), &account);
    let called = called.expect("an answer");
    assert!(called.code == 500 && called.body.contains("address of this machine"), "{} {}", called.code, called.body);
    expect(world.admin.ask("DELETE", &format!("{hooks}/inward"), "application/json", ""), 200);
    let refused = listener.accept().expect_err("no connection arrives");
    assert_eq!(refused.kind(), std::io::ErrorKind::WouldBlock);
}

/// T13 and T14: the content of Secrets, of instances and of the manager itself, is in no answer but that of `reveal`, in no
/// log and in no file.
fn secrets_are_in_no_output_and_no_file(world: &World) {
    let object = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "own", "namespace": "karmada-system"},
        "stringData": {"a": CANARY},
    });
    assert!(world.manager.apply(&object).status.success());
    // A write that is refused: the value is in the request only.
    let wrong = json!({"metadata": {"name": "wrong"}, "type": "kubernetes.io/tls", "stringData": {"a": CANARY}});
    let secrets = format!("{BASE}/instances/west/gvr/core/v1/namespaces/default/secrets");
    let refused = world.admin.post(&secrets, &wrong).expect("an answer");
    assert!(refused.code >= 400, "{}", refused.body);

    let document = expect(world.admin.get("/openapi/manager/v3"), 200);
    let reads = operations(&document).into_iter().filter(|(verb, path, _)| verb == "GET" && !path.ends_with(":watch"));
    let mut paths: Vec<String> = reads.map(|(_, path, _)| filled(&path)).collect();
    paths.extend([secrets.clone(), format!("{secrets}/key"), "/metrics".into(), "/instances/west/metrics".into()]);
    for query in ["search?query=kind:secret&includeObjects=true", "search:export?query=kind:secret&includeObjects=true"]
    {
        paths.push(format!("{BASE}/{query}"));
    }
    for query in ["audit?pageSize=500", "audit?instance=west&pageSize=500"] {
        paths.push(format!("{BASE}/{query}"));
    }
    assert!(paths.len() > 60, "{} paths", paths.len());
    for path in paths {
        let answer = world.admin.get(&path).expect("an answer");
        assert_eq!(revealing(answer.body.as_bytes()), None, "{path}");
    }
    assert_eq!(revealing(world.manager.server.log().as_bytes()), None, "the log");
    let mut count = 0;
    files_below(world.manager.directory.path(), &mut |path| {
        let content = std::fs::read(path).unwrap_or_default();
        assert_eq!(revealing(&content), None, "{}", path.display());
        count += 1;
    });
    assert!(count > 10, "only {count} files");
}

/// Returns the form in which a text contains the canary.
fn revealing(text: &[u8]) -> Option<&'static str> {
    // Base64 of the whole value, and of the value at the other two offsets without its ends.
    let forms = [CANARY, "Y2FuYXJ5LXZhbHVl", "NhbmFyeS12YWx1Z", "jYW5hcnktdmFsdW"];
    forms.into_iter().find(|form| text.windows(form.len()).any(|part| part == form.as_bytes()))
}

fn files_below(directory: &Path, visit: &mut impl FnMut(&Path)) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => files_below(&path, visit),
            path => visit(&path),
        }
    }
}

/// T24: each call of this user that was refused, or that would have changed something, has one entry.
pub fn every_call_left_one_entry(world: &World, user: &str, calls: usize) {
    let found = expect(world.admin.get(&format!("{BASE}/audit?user={user}&refused=true&pageSize=1")), 200);
    assert_eq!(found["total"], Value::String(calls.to_string()), "{found}");
}
