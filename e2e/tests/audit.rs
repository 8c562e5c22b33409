//! The audit log of the real server: every request and its user, bodies without secrets, whatever the end.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use e2e::eventually::eventually;
use e2e::flotilla::Flotilla;
use e2e::raw_client::RawClient;
use serde_json::{Value, json};

const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitManagedFields: true
rules:
- level: None
  nonResourceURLs: ['/readyz*', '/livez*', '/api*', '/openapi*', '/version']
- level: RequestResponse
  users: [one]
- level: Metadata
  users: ['system:kube-controller-manager']
- level: Request
  userGroups: ['system:serviceaccounts:kube-system']
- level: None
";

fn events(log: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    // The last line may still be written.
    let (whole, _) = text.rsplit_once('\n').unwrap_or_default();
    whole.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
}

/// The newest event of a stage whose URI contains `uri`.
fn event(log: &Path, verb: &str, uri: &str, stage: &str) -> Value {
    let matches = |event: &Value| {
        event["verb"] == verb && event["stage"] == stage && event["requestURI"].as_str().unwrap_or("").contains(uri)
    };
    let mut found = None;
    eventually(&format!("{verb} {uri} {stage}"), Duration::from_secs(30), || {
        found = events(log).into_iter().rev().find(matches);
        found.is_some()
    });
    found.expect("found above")
}

fn start(folder: &Path, policy: Option<&str>) -> (Flotilla, RawClient) {
    let (tokens, file) = (folder.join("tokens.csv"), folder.join("policy.yaml"));
    std::fs::write(&tokens, "one-token,one,1\n").expect("written");
    let (tokens, log) = (tokens.display().to_string(), folder.join("audit.log").display().to_string());
    let mut arguments = vec!["--token-auth-file", &tokens, "--audit-log-path", &log];
    let name = file.display().to_string();
    if let Some(policy) = policy {
        std::fs::write(&file, policy).expect("written");
        arguments.extend(["--audit-policy-file", &name]);
    }
    let server = Flotilla::start_in(folder, &arguments);
    let bound = ["create", "clusterrolebinding", "one", "--clusterrole=edit", "--user", "one"];
    let bound = server.kubectl(&bound);
    let is_bound = bound.status.success() || String::from_utf8_lossy(&bound.stderr).contains("already exists");
    assert!(is_bound, "{}", server.log());
    let client = RawClient::of(&server).with_token("one-token");
    (server, client)
}

#[test]
fn requests_are_recorded_as_the_policy_asks_and_without_secrets() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (server, one) = start(folder.path(), Some(POLICY));
    let log = folder.path().join("audit.log");
    let namespace = "/api/v1/namespaces/default";

    let secret = json!({"metadata": {"name": "s"}, "stringData": {"password": "hunter2-hunter2"}});
    assert_eq!(one.post(&format!("{namespace}/secrets"), &secret).expect("an answer").code, 201);
    let created = event(&log, "create", "/secrets", "ResponseComplete");
    assert_eq!(created["user"]["username"], "one");
    assert_eq!(created["responseStatus"]["code"], 201);
    assert_eq!(created["requestObject"]["metadata"]["name"], "s");
    assert_eq!(created["level"], "RequestResponse");
    let received = event(&log, "create", "/secrets", "RequestReceived");
    assert_eq!(received["auditID"], created["auditID"]);

    let map = json!({"metadata": {"name": "m"}, "data": {"a": "visible"}});
    assert_eq!(one.post(&format!("{namespace}/configmaps"), &map).expect("an answer").code, 201);
    let patch = [
        ("application/merge-patch+json", "{\"data\":{\"b\":\"merged\"}}"),
        ("application/json-patch+json", "[{\"op\":\"add\",\"path\":\"/data/c\",\"value\":\"added\"}]"),
        ("application/apply-patch+yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {d: applied}\n"),
    ];
    for ((content_type, body), shown) in patch.into_iter().zip(["merged", "added", "applied"]) {
        let path = format!("{namespace}/configmaps/m?fieldManager=test&as={shown}");
        let answer = one.ask("PATCH", &path, content_type, body).expect("an answer");
        assert_eq!(answer.code, 200, "{}", answer.body);
        let patched = event(&log, "patch", &format!("as={shown}"), "ResponseComplete");
        assert!(patched["requestObject"].to_string().contains(shown), "{patched}");
        assert_eq!(patched["responseObject"]["kind"], "ConfigMap");
        assert!(patched["responseObject"]["metadata"]["managedFields"].is_null());
    }

    let mut connection = one.connect().expect("a handshake");
    let header = "impersonate-user: other\r\nconnection: close\r\n";
    connection.send(&one.request_text("GET", &format!("{namespace}/pods/refused"), header, "")).expect("sent");
    let refused = event(&log, "get", "/pods/refused", "ResponseComplete");
    assert_eq!((&refused["user"]["username"], &refused["responseStatus"]["code"]), (&json!("one"), &json!(403)));

    let watch = format!("{namespace}/pods?watch=1&timeoutSeconds=1");
    assert_eq!(one.get(&watch).expect("an answer").code, 200);
    let (began, ended) =
        (event(&log, "watch", "/pods", "ResponseStarted"), event(&log, "watch", "/pods", "ResponseComplete"));
    assert_eq!(began["auditID"], ended["auditID"]);

    // A body that never comes: the request still ends with an entry.
    let mut connection = one.connect().expect("a handshake");
    let header = "content-type: application/json\r\ncontent-length: 100\r\n";
    connection.send(&one.request_text("POST", &format!("{namespace}/services"), header, "{")).expect("sent");
    event(&log, "create", "/services", "RequestReceived");
    drop(connection);
    event(&log, "create", "/services", "ResponseComplete");

    let text = std::fs::read_to_string(&log).expect("the log");
    for needle in ["hunter2", "aHVudGVyMi1odW50ZXIy"] {
        assert!(!text.contains(needle), "a secret is in the log");
    }
    assert!(text.contains("visible"));
    // Controllers in the server are recorded with their identity.
    assert!(server.kubectl(&["create", "namespace", "watched"]).status.success());
    eventually("a controller's write is recorded", Duration::from_secs(30), || {
        events(&log).iter().any(|event| {
            let user = event["user"]["username"].as_str().unwrap_or("");
            let is_controller =
                user.starts_with("system:serviceaccount:kube-system:") || user.starts_with("system:kube-");
            is_controller && event["userAgent"] == "in-process" && event["objectRef"]["namespace"] == "watched"
        })
    });
}

/// Of a process that was killed, without a policy: what was acknowledged has its final entry, what was stored or
/// waited for the rest of its body was recorded as received, and controllers are recorded too.
#[test]
fn a_killed_server_leaves_an_entry_of_every_request() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (server, one) = start(folder.path(), None);
    let log = folder.path().join("audit.log");
    let configmaps = "/api/v1/namespaces/default/configmaps";

    let mut waiting = one.connect().expect("a handshake");
    let header = "content-type: application/json\r\ncontent-length: 100\r\n";
    waiting.send(&one.request_text("POST", &format!("{configmaps}?fieldManager=waiting"), header, "{")).expect("sent");
    event(&log, "create", "fieldManager=waiting", "RequestReceived");

    let acknowledged = Arc::new(Mutex::new(Vec::new()));
    let write = |writer: usize| {
        let (one, acknowledged) = (one.clone(), Arc::clone(&acknowledged));
        std::thread::spawn(move || {
            for number in 0.. {
                let name = format!("w{writer}-{number}");
                let path = format!("{configmaps}?fieldManager={name}.");
                // The first error is the end of the server.
                let Ok(answer) = one.post(&path, &json!({"metadata": {"name": name}})) else { return };
                if answer.code == 201 {
                    acknowledged.lock().expect("not poisoned").push(name);
                }
            }
        })
    };
    let writers: Vec<_> = (0..4).map(write).collect();
    let count = || acknowledged.lock().expect("not poisoned").len();
    eventually("writes are acknowledged", Duration::from_secs(60), || count() >= 40);
    server.kill();
    writers.into_iter().for_each(|writer| writer.join().expect("a writer"));

    let (server, one) = start(folder.path(), None);
    assert!(server.kubectl(&["create", "namespace", "later"]).status.success());
    let text = std::fs::read_to_string(&log).expect("the log");
    let events: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    // Lines are written one at a time, and the kernel may stop a write in its middle.
    assert!(text.lines().count() - events.len() <= 1, "more than one line is torn");
    let has = |name: &str, stage: &str| {
        let of_name = format!("fieldManager={name}");
        let mut found = events.iter().filter(|event| event["requestURI"].as_str().unwrap_or("").ends_with(&of_name));
        found.any(|event| event["stage"] == stage && event["user"]["username"] == "one")
    };
    assert!(has("waiting", "RequestReceived") && !has("waiting", "ResponseComplete"));
    for name in acknowledged.lock().expect("not poisoned").iter() {
        assert!(has(&format!("{name}."), "ResponseComplete"), "{name} was acknowledged");
    }
    let stored = one.get(configmaps).expect("an answer").json();
    let items = stored["items"].as_array().expect("a list");
    let names = items.iter().filter_map(|item| item["metadata"]["name"].as_str()).filter(|name| name.starts_with('w'));
    let names: Vec<&str> = names.collect();
    assert!(names.len() >= 40, "{names:?}");
    for name in names {
        assert!(has(&format!("{name}."), "RequestReceived"), "{name} was stored");
    }
    eventually("a controller's write is recorded", Duration::from_secs(30), || {
        let text = std::fs::read_to_string(&log).expect("the log");
        text.lines().any(|line| line.contains("\"in-process\"") && line.contains("\"later\""))
    });
}

#[test]
fn a_bad_policy_stops_the_server_with_the_field_that_is_wrong() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("policy.yaml");
    let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata, nonResourceURLs: [x]}]";
    std::fs::write(&file, policy).expect("written");
    let output = std::process::Command::new(e2e::flotilla::binary())
        .args(["server", "--bind", "127.0.0.1:0", "--data-dir"])
        .arg(folder.path())
        .args(["--audit-log", "/dev/null", "--audit-policy-file"])
        .arg(&file)
        .output()
        .expect("the binary runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("rules[0].nonResourceURLs"), "{text}");
}
