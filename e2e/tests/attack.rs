//! Requests of a past attack on the real server, sent again by the callers that had success with them.
//!
//! `docs/security.md` lists the findings by their ids and the tests of those that are not single requests.

use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use e2e::eventually::eventually;
use e2e::fleet::text;
use e2e::flotilla::Flotilla;
use e2e::member;
use e2e::raw_client::{RawClient, RawResponse};
use serde_json::{Value, json};

const JSON: &str = "application/json";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/tenant/resourcebindings";
const WORKS: &str = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-m2/works";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const TENANT: &str = "/api/v1/namespaces/tenant";
const BLOBS: &str = "/apis/example.com/v1/namespaces/deep/blobs";

/// The token of each caller is its name.
const CALLERS: &str = "admin,admin,1,\"system:masters\"
low,low,2
viewer,viewer,3
patcher,patcher,4
updater,updater,5
approver,approver,6
agent,system:karmada:agent:m2,7,\"system:karmada:agents\"
owner,owner,8
";

const OBJECTS: &str = "
{apiVersion: v1, kind: Namespace, metadata: {name: tenant}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: other}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: deep}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: karmada-es-m2}}
---
{apiVersion: v1, kind: Secret, metadata: {name: topsecret, namespace: other}, stringData: {password: hunter2}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: existing, namespace: tenant}}
---
{apiVersion: work.karmada.io/v1alpha1, kind: Work, metadata: {name: existing, namespace: karmada-es-m2},
  spec: {workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: tenant}}]}}}
---
{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m2}, spec: {syncMode: Pull}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: low, namespace: tenant},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit},
  subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: low}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: owner, namespace: tenant},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin},
  subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: owner}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: viewer},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view},
  subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: viewer}]}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: blobs.example.com},
  spec: {group: example.com, scope: Namespaced, names: {plural: blobs, singular: blob, kind: Blob, listKind: BlobList},
    versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {
      spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}}]}}
";

/// Roles of callers: name, API groups, resources, verbs.
const ROLES: &[(&str, &str, &str, &str)] = &[
    ("patcher", "*", "*", "get,patch,update"),
    ("updater", "*", "*", "get,update"),
    ("approver", "certificates.k8s.io", "certificatesigningrequests", "create,get"),
    (
        "approver",
        "certificates.k8s.io",
        "certificatesigningrequests/approval,certificatesigningrequests/status",
        "update",
    ),
    ("system:karmada:agent:m2", "work.karmada.io", "works", "get,list,watch,patch,update"),
];

struct Reproduction {
    /// The id of the finding.
    id: &'static str,
    caller: &'static str,
    method: &'static str,
    path: String,
    content_type: &'static str,
    body: String,
    code: u16,
    /// A part of the response.
    part: &'static str,
}

fn reproduction(
    (id, caller): (&'static str, &'static str),
    (method, path, content_type): (&'static str, &str, &'static str),
    body: impl ToString,
    (code, part): (u16, &'static str),
) -> Reproduction {
    Reproduction { id, caller, method, path: path.to_owned(), content_type, body: body.to_string(), code, part }
}

struct World {
    server: Flotilla,
    anonymous: RawClient,
}

impl World {
    fn start(folder: &Path) -> Self {
        let tokens = folder.join("tokens.csv");
        std::fs::write(&tokens, CALLERS).expect("written");
        let (tokens, log) = (tokens.display().to_string(), folder.join("audit.log").display().to_string());
        let arguments = ["--token-auth-file", &tokens, "--audit-log-path", &log, "--audit-level", "RequestResponse"];
        let server = Flotilla::start_in(folder, &arguments);
        let output = member::apply(&server.kubeconfig, &["apply", "-f", "-"], OBJECTS);
        assert!(output.status.success(), "{}", text(&output));
        for (index, (user, groups, resources, verbs)) in ROLES.iter().enumerate() {
            let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
            let rule = json!({"apiGroups": list(groups), "resources": list(resources), "verbs": list(verbs)});
            let (name, rbac) = (format!("role-{index}"), "rbac.authorization.k8s.io");
            let role = json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": {"name": name}, "rules": [rule]});
            let binding = json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
                "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
                "subjects": [{"apiGroup": rbac, "kind": "User", "name": user}]});
            for object in [role, binding] {
                let output = member::apply(&server.kubeconfig, &["create", "-f", "-"], &object.to_string());
                assert!(output.status.success(), "{}", text(&output));
            }
        }
        let anonymous = RawClient::of(&server);
        let world = Self { server, anonymous };
        eventually("blobs are served", Duration::from_secs(30), || {
            world.ask("admin", "GET", BLOBS, JSON, "").code == 200
        });
        world
    }

    fn ask(&self, caller: &str, method: &str, path: &str, content_type: &str, body: &str) -> RawResponse {
        let answer = self.anonymous.with_token(caller).ask(method, path, content_type, body);
        answer.unwrap_or_else(|error| panic!("{method} {path} has no answer: {error}\n{}", self.server.log()))
    }

    /// Returns what is wrong unless the request is answered as expected, by a server that goes on.
    fn check(&self, case: &Reproduction) -> Result<(), String> {
        let Reproduction { id, caller, method, path, content_type, body, code, part } = case;
        let answer = self.ask(caller, method, path, content_type, body);
        let alive = self.ask("admin", "GET", "/readyz", JSON, "");
        let is_well = (alive.code, alive.body.as_str()) == (200, "ok") && !self.server.log().contains("panicked");
        match answer.code == *code && answer.body.contains(part) && is_well {
            true => Ok(()),
            false => Err(format!(
                "{id}: {caller} {method} {path}: expected {code} {part:?}, got {} {}; the server is well: {is_well}",
                answer.code, answer.body
            )),
        }
    }
}

fn binding(name: &str, more: Value) -> Value {
    let mut object =
        json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", "metadata": {"name": name}});
    object.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
    object
}

/// C1: bindings that name objects of others.
fn forged_bindings() -> Vec<Reproduction> {
    let post =
        |body: Value| reproduction(("C1", "low"), ("POST", BINDINGS, JSON), body, (403, "spec.resource.namespace"));
    let secret = |namespace: &str, name: &str| json!({"apiVersion": "v1", "kind": "Secret", "namespace": namespace, "name": name});
    let finalizers = json!(["karmada.io/binding-controller"]);
    let mut victim = binding(
        "exf",
        json!({"spec": {"resource": {"apiVersion": "v1", "kind": "Namespace", "name": "victim"},
        "clusters": [{"name": "m1"}]}}),
    );
    victim["metadata"]["finalizers"] = finalizers;
    vec![
        post(binding(
            "exf",
            json!({"spec": {"resource": secret("karmada-cluster", "m1"), "clusters": [{"name": "m2"}]}}),
        )),
        post(binding(
            "exf",
            json!({"spec": {"resource": secret("kube-system", "bootstrap-token-z16cbs"), "clusters": [{"name": "m2"}]}}),
        )),
        post(binding(
            "exf",
            json!({"spec": {"resource": secret("other", "topsecret"),
            "requiredBy": [{"namespace": "tenant", "name": "x", "clusters": [{"name": "m2"}]}]}}),
        )),
        post(victim),
    ]
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!({}), |inner, _| json!({"x": inner}))
}

/// C2: 401 operations of 174 KB that nest 20,001 levels without copying.
fn nesting_patch(base: &str) -> Value {
    let mut operations = vec![json!({"op": "add", "path": format!("{base}/q0"), "value": {}})];
    for round in 0..200 {
        let (from, to) = (round % 2, (round + 1) % 2);
        operations.push(json!({"op": "add", "path": format!("{base}/q{to}"), "value": nested(99)}));
        let path = format!("{base}/q{to}{}", "/x".repeat(100));
        operations.push(json!({"op": "move", "from": format!("{base}/q{from}"), "path": path}));
    }
    operations.into()
}

fn nesting_patches() -> Vec<Reproduction> {
    let configmap = format!("{TENANT}/configmaps/existing");
    let work = format!("{WORKS}/existing");
    let manifest = "/spec/workload/manifests/0";
    let deep = json!([{"op": "add", "path": format!("{manifest}/deep"), "value": nested(110)}]);
    vec![
        reproduction(("C2", "low"), ("PATCH", &configmap, JSON_PATCH), nesting_patch(""), (422, "levels deep")),
        reproduction(("C2", "patcher"), ("PATCH", &configmap, JSON_PATCH), nesting_patch("/data"), (422, "")),
        reproduction(("C2", "agent"), ("PATCH", &work, JSON_PATCH), nesting_patch(manifest), (422, "levels deep")),
        reproduction(("H3", "agent"), ("PATCH", &work, JSON_PATCH), deep, (422, "levels deep")),
    ]
}

fn signing_request(name: &str, organization: &str) -> Value {
    let mut parameters = rcgen::CertificateParams::default();
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters.distinguished_name.push(rcgen::DnType::OrganizationName, organization);
    parameters.distinguished_name.push(rcgen::DnType::CommonName, "evil-admin");
    let key = rcgen::KeyPair::generate().expect("a key");
    let pem = parameters.serialize_request(&key).and_then(|request| request.pem()).expect("a request");
    json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {"signerName": CLIENT_SIGNER, "usages": ["client auth"], "request": STANDARD.encode(pem)}})
}

/// H1: signing requests of a caller that may update approvals and has no right on a signer. L3: their names.
fn certificates(world: &World) -> Vec<Reproduction> {
    let post = |name: &str, organization: &str, expected| {
        reproduction(("H1", "approver"), ("POST", REQUESTS, JSON), signing_request(name, organization), expected)
    };
    assert_eq!(world.check(&post("honest", "team", (201, ""))), Ok(()));
    let stored = world.ask("admin", "GET", &format!("{REQUESTS}/honest"), JSON, "").json();
    let (mut approved, mut signed) = (stored.clone(), stored);
    approved["status"]["conditions"] = json!([{"type": "Approved", "status": "True", "reason": "R", "message": "m"}]);
    let certificate = rcgen::generate_simple_self_signed(vec!["evil".to_owned()]).expect("a certificate");
    signed["status"]["certificate"] = STANDARD.encode(certificate.cert.pem()).into();
    let put = |part: &'static str, body: Value, problem| {
        let path = format!("{REQUESTS}/honest/{part}");
        reproduction(("H1", "approver"), ("PUT", &path, JSON), body, (403, problem))
    };
    let mut all = vec![
        post("masters", "system:masters", (403, "system:masters group is not allowed")),
        put("approval", approved, "not permitted to approve"),
        put("status", signed, "not permitted to sign"),
    ];
    for name in ["a/b", "..", ".", "a%2fb"] {
        all.push(Reproduction { id: "L3", ..post(name, "team", (422, "metadata.name")) });
    }
    all
}

/// H2: writes that create, by callers that may not create.
fn creating_writes() -> Vec<Reproduction> {
    let named = |api_version: &str, kind: &str, more: Value| {
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "made"}});
        object.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
        object
    };
    let apply = |caller, path: String, body| {
        reproduction(
            ("H2", caller),
            ("PATCH", &format!("{path}/made?fieldManager=x"), APPLY),
            body,
            (403, "cannot create"),
        )
    };
    let put = |path: String, body: Value| {
        reproduction(("H2", "updater"), ("PUT", &format!("{path}/made"), JSON), body, (403, "cannot create"))
    };
    let mut token = named("v1", "Secret", json!({"type": "kubernetes.io/service-account-token"}));
    token["metadata"]["annotations"] = json!({"kubernetes.io/service-account.name": "default"});
    let about = json!({"kind": "Pod", "namespace": "tenant", "name": "p"});
    vec![
        apply("patcher", format!("{TENANT}/configmaps"), named("v1", "ConfigMap", json!({}))),
        apply("patcher", format!("{TENANT}/secrets"), token),
        apply(
            "agent",
            WORKS.to_owned(),
            named("work.karmada.io/v1alpha1", "Work", json!({"spec": {"workload": {"manifests": []}}})),
        ),
        put(format!("{TENANT}/endpoints"), named("v1", "Endpoints", json!({}))),
        put(
            format!("{TENANT}/events"),
            named("v1", "Event", json!({"involvedObject": about, "reason": "R", "type": "Normal"})),
        ),
        put(format!("{TENANT}/services"), named("v1", "Service", json!({"spec": {"ports": [{"port": 80}]}}))),
        put(format!("{TENANT}/limitranges"), named("v1", "LimitRange", json!({"spec": {"limits": []}}))),
        put(
            "/apis/rbac.authorization.k8s.io/v1/namespaces/tenant/roles".to_owned(),
            named("rbac.authorization.k8s.io/v1", "Role", json!({"rules": []})),
        ),
    ]
}

/// M1, M5 and L6, which need no preparation.
fn single_requests() -> Vec<Reproduction> {
    let pod = json!({"metadata": {"name": "slow"}, "spec": {"terminationGracePeriodSeconds": 253_402_300_799_i64,
        "containers": [{"name": "c", "image": "i"}]}});
    let pods = format!("{TENANT}/pods");
    vec![
        reproduction(("M1", "viewer"), ("GET", "/apis/work.karmada.io/v1alpha1/works", JSON), "", (403, "cannot list")),
        reproduction(("M1", "viewer"), ("GET", &format!("{WORKS}/existing"), JSON), "", (403, "cannot get")),
        reproduction(("M5", "low"), ("POST", &pods, JSON), pod, (201, "")),
        reproduction(("M5", "low"), ("DELETE", &format!("{pods}/slow"), JSON), "", (200, "")),
        reproduction(("L6", "low"), ("POST", "/flotilla/v1alpha1/safe-mode/confirm", JSON), "", (403, "")),
    ]
}

/// Found later (N1): objects without a namespace, in the rights of a role with everything in one namespace.
fn objects_without_a_namespace() -> Vec<Reproduction> {
    let get = |path: &str, expected| {
        let path = format!("/flotilla/v1alpha1/{path}&namespace=tenant");
        reproduction(("N1", "owner"), ("GET", &path, JSON), "", expected)
    };
    vec![
        get("rows?version=v1&resource=configmaps", (200, "existing")),
        get("rows?version=v1&resource=namespaces", (403, "cannot list")),
        get("rows?group=cluster.karmada.io&version=v1alpha1&resource=clusters", (403, "cannot list")),
        get("rows?group=rbac.authorization.k8s.io&version=v1&resource=clusterroles", (403, "cannot list")),
        get("why?apiVersion=cluster.karmada.io/v1alpha1&kind=Cluster&name=m2", (403, "cannot get")),
        get("timeline?apiVersion=v1&kind=Namespace&name=other", (403, "cannot get")),
    ]
}

#[test]
fn requests_of_the_attack_are_refused_or_bounded() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let world = World::start(folder.path());
    let certificates = certificates(&world);
    let groups = [
        forged_bindings(),
        nesting_patches(),
        certificates,
        creating_writes(),
        single_requests(),
        objects_without_a_namespace(),
    ];
    let failures: Vec<String> = groups.iter().flatten().filter_map(|case| world.check(case).err()).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    deep_objects_are_refused_or_can_be_deleted(&world);
    watches_of_any_length_start(&world);
    status_changes_no_metadata(&world);
    the_audit_log_has_every_caller_and_no_secret(&world, folder.path());
}

/// H3: depths at which the object was stored and could not be read.
fn deep_objects_are_refused_or_can_be_deleted(world: &World) {
    let mut refused = 0;
    for levels in [60, 99, 100, 121, 123, 124, 125, 128, 1_000] {
        let blob = json!({"apiVersion": "example.com/v1", "kind": "Blob", "metadata": {"name": format!("b{levels}")},
            "spec": nested(levels)});
        let answer = world.ask("admin", "POST", BLOBS, JSON, &blob.to_string());
        match answer.code {
            201 => {
                let deleted = world.ask("admin", "DELETE", &format!("{BLOBS}/b{levels}"), JSON, "");
                assert_eq!(deleted.code, 200, "H3: {levels}: {}", deleted.body);
            }
            400 | 422 => refused += 1,
            code => panic!("H3: {levels}: {code} {}", answer.body),
        }
    }
    assert!(refused >= 6, "H3: {refused} of the deep objects were refused");
    let deleted = world.ask("admin", "DELETE", "/api/v1/namespaces/deep", JSON, "");
    assert_eq!(deleted.code, 200, "{}", deleted.body);
    eventually("the namespace is gone", Duration::from_secs(60), || {
        world.ask("admin", "GET", "/api/v1/namespaces/deep", JSON, "").code == 404
    });
}

/// M5: a time that does not fit ended the connection.
fn watches_of_any_length_start(world: &World) {
    for seconds in ["9223372036854775807", "1000000000000000000", "-9223372036854775808"] {
        let path = format!("{TENANT}/pods?watch=1&resourceVersion=0&timeoutSeconds={seconds}");
        let low = world.anonymous.with_token("low");
        let mut connection = low.connect().expect("a handshake");
        connection.send(&low.request_text("GET", &path, "", "")).expect("sent");
        let header = connection.read_header().unwrap_or_else(|error| panic!("M5: {seconds}: {error}"));
        assert!(header.starts_with("HTTP/1.1 200") || header.starts_with("HTTP/1.1 400"), "M5: {seconds}: {header}");
    }
    assert!(!world.server.log().contains("panicked"), "M5: {}", world.server.log());
}

/// L4: finalizers and annotations through `/status`.
fn status_changes_no_metadata(world: &World) {
    let path = "/apis/cluster.karmada.io/v1alpha1/clusters/m2";
    let before = world.ask("admin", "GET", path, JSON, "").json();
    let body = json!({"metadata": {"annotations": {"evil": "yes"}, "finalizers": ["example.com/evil"]}, "status": {"apiEnablements": []}});
    let answer = world.ask("admin", "PATCH", &format!("{path}/status"), MERGE, &body.to_string());
    assert_eq!(answer.code, 200, "L4: {}", answer.body);
    let after = world.ask("admin", "GET", path, JSON, "").json();
    for field in ["annotations", "finalizers"] {
        assert!(!after["metadata"][field].to_string().contains("evil"), "L4: {field}: {before} {after}");
    }
}

/// M6: bodies without a kind, patches, and the user of a refused impersonation.
fn the_audit_log_has_every_caller_and_no_secret(world: &World, folder: &Path) {
    let secrets = format!("{TENANT}/secrets");
    let plain = json!({"metadata": {"name": "s"}, "stringData": {"p": "needle-in-clear"}});
    assert_eq!(world.ask("low", "POST", &secrets, JSON, &plain.to_string()).code, 201);
    let patch = json!({"stringData": {"q": "needle-in-clear"}});
    assert_eq!(world.ask("low", "PATCH", &format!("{secrets}/s"), MERGE, &patch.to_string()).code, 200);
    let low = world.anonymous.with_token("low");
    let mut connection = low.connect().expect("a handshake");
    let header = "impersonate-user: admin\r\nimpersonate-group: system:masters\r\nconnection: close\r\n";
    connection.send(&low.request_text("GET", &format!("{TENANT}/pods/impersonated"), header, "")).expect("sent");
    assert_eq!(connection.read_response().expect("an answer").code, 403);

    let log = std::fs::read_to_string(folder.join("audit.log")).expect("the log");
    for needle in ["needle-in-clear", &STANDARD.encode("needle-in-clear")] {
        assert!(!log.contains(needle), "M6: a secret is in the log");
    }
    let mut events: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect();
    events.retain(|event| event["stage"] == "ResponseComplete");
    let find = |verb: &str, part: &str| {
        let found = events.iter().find(|e| e["verb"] == verb && e["requestURI"].as_str().unwrap_or("").contains(part));
        found.unwrap_or_else(|| panic!("M6: no entry of {verb} {part}")).clone()
    };
    assert_eq!(find("get", "/pods/impersonated")["user"]["username"], "low");
    assert_eq!(find("patch", "/secrets/s")["requestObject"]["stringData"]["q"], "<masked>");
    assert_eq!(find("create", "/tenant/secrets")["requestObject"]["metadata"]["name"], "s");
    // C2 left no entry, because the process ended.
    assert_eq!(find("patch", "/configmaps/existing")["responseStatus"]["code"], 422);
}
