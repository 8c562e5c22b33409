//! Clients that hold connections, bodies, lists and watches without using them do not harm others.

use std::path::Path;
use std::time::{Duration, Instant};

use e2e::flotilla::Flotilla;
use e2e::raw_client::{RawClient, RawConnection};
use serde_json::json;

/// Generous: debug builds on busy machines take seconds where a release takes milliseconds.
const ANSWER_MAX: Duration = Duration::from_secs(10);

const TOKENS: &str = "one-token,one,1
two-token,two,2
third-token,third,3
agent-token,system:karmada:agent:m1,4,\"system:karmada:agents\"
";

/// A server whose users `one`, `two`, `third` and an agent may edit everything.
fn start(folder: &Path, arguments: &[&str]) -> (Flotilla, RawClient) {
    let tokens = folder.join("tokens.csv");
    std::fs::write(&tokens, TOKENS).expect("written");
    let tokens = tokens.display().to_string();
    let server = Flotilla::start_in(folder, &[&["--token-auth-file", &tokens], arguments].concat());
    for user in ["one", "two", "third", "system:karmada:agent:m1"] {
        let name = format!("may-edit-{}", user.replace(':', "-"));
        let bound = ["create", "clusterrolebinding", &name, "--clusterrole=edit", "--user", user];
        assert!(server.kubectl(&bound).status.success(), "{}", server.log());
    }
    let leases = ["create", "clusterrole", "leases", "--verb=create,get,update", "--resource=leases"];
    assert!(server.kubectl(&leases).status.success());
    let bound = ["create", "clusterrolebinding", "l", "--clusterrole=leases", "--user", "system:karmada:agent:m1"];
    assert!(server.kubectl(&bound).status.success());
    let client = RawClient::of(&server);
    (server, client)
}

/// Resident memory in KiB.
fn resident(server: &Flotilla) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("the process");
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).expect("a line");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

fn assert_served(client: &RawClient) {
    let started = Instant::now();
    let answer = client.get("/api/v1/namespaces/default").expect("an answer");
    assert_eq!(answer.code, 200, "{}", answer.body);
    assert!(started.elapsed() < ANSWER_MAX, "took {:?}", started.elapsed());
}

#[test]
fn silent_connections_are_closed_while_others_are_served() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (server, client) = start(folder.path(), &[]);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.pid())).expect("limits");
    let files: Vec<&str> = limits.lines().find(|line| line.starts_with("Max open files")).expect("a line")
        ["Max open files".len()..]
        .split_whitespace()
        .collect();
    assert_eq!(files[0], files[1], "the soft limit on open files is raised to the hard limit");
    let mut silent: Vec<RawConnection> = Vec::new();
    for beginning in ["", "P", "PRI * HTTP/2.0\r\n", "GET / HTTP/1.1\r\nhost"].iter().cycle().take(400) {
        let mut connection = client.connect().expect("a handshake");
        connection.send(beginning).expect("sent");
        silent.push(connection);
    }
    let third = client.with_token("third-token");
    assert_served(&third);
    for connection in &mut silent {
        connection.wait_closed(Duration::from_secs(90)).expect("the server closes the connection");
    }
    assert_served(&third);
}

#[test]
fn stalled_lists_and_watches_take_little_memory() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (server, client) = start(folder.path(), &[]);
    let (one, third) = (client.with_token("one-token"), client.with_token("third-token"));
    let configmaps = "/api/v1/namespaces/default/configmaps";
    for index in 0..250 {
        let text: String = (0..20 * 1024).map(|i| char::from(b'a' + ((i * 7 + index) % 26) as u8)).collect();
        let object = json!({"metadata": {"name": format!("c{index}")}, "data": {"text": text}});
        assert_eq!(one.post(configmaps, &object).expect("an answer").code, 201);
    }
    let whole = one.get(configmaps).expect("a list");
    // The namespace also has the ConfigMap of the server's CA.
    assert_eq!(whole.json()["items"].as_array().map(Vec::len), Some(251), "streamed lists are complete");
    let before = resident(&server);
    let mut stalled = Vec::new();
    // Path, Accept header, how many.
    let floods = [
        (configmaps.to_owned(), "application/json", 60),
        (format!("{configmaps}?watch=1"), "application/json", 60),
        (configmaps.to_owned(), "application/json;as=Table;v=v1;g=meta.k8s.io", 30),
        (configmaps.to_owned(), "application/yaml", 10),
        (configmaps.to_owned(), "application/vnd.kubernetes.protobuf", 10),
    ];
    for (path, accept, count) in floods {
        for _ in 0..count {
            let mut connection = one.connect().expect("a handshake");
            let accept = format!("accept: {accept}\r\n");
            connection.send(&one.request_text("GET", &path, &accept, "")).expect("sent");
            stalled.push(connection);
        }
        assert_served(&third);
    }
    // The figure is the highest of several, since the server works on the requests while it is read.
    let during = (0..30).map(|_| {
        std::thread::sleep(Duration::from_millis(100));
        resident(&server)
    });
    let during = during.max().expect("figures");
    let grown = during.saturating_sub(before) / 1024;
    println_figure(&format!(
        "170 stalled responses of 5 MB: {} MiB before, {} MiB during, {} KiB each",
        before / 1024,
        during / 1024,
        during.saturating_sub(before) / 170
    ));
    // Each response held as a whole would be more than 850 MB.
    assert!(grown < 250, "stalled clients took {grown} MiB");
    assert_served(&third);
    drop(stalled);
}

#[test]
fn bodies_that_never_come_stop_neither_writes_nor_heartbeats() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (_server, client) = start(folder.path(), &[]);
    let configmaps = "/api/v1/namespaces/default/configmaps";
    let mut held = Vec::new();
    for token in ["one-token", "two-token"] {
        let user = client.with_token(token);
        for _ in 0..160 {
            let mut connection = user.connect().expect("a handshake");
            let header = "content-type: application/json\r\ncontent-length: 1000\r\n";
            connection.send(&user.request_text("POST", configmaps, header, "{")).expect("sent");
            held.push(connection);
        }
    }
    let (third, agent) = (client.with_token("third-token"), client.with_token("agent-token"));
    // Agents may renew the lease of their own cluster only.
    let leases = "/apis/coordination.k8s.io/v1/namespaces/karmada-cluster/leases";
    let lease = agent.post(leases, &json!({"metadata": {"name": "m1"}})).expect("an answer");
    assert_eq!(lease.code, 201, "{}", lease.body);
    let mut lease = lease.json();
    let mut took = Vec::new();
    for index in 0..50 {
        let started = Instant::now();
        let written = third.post(configmaps, &json!({"metadata": {"name": format!("w{index}")}})).expect("an answer");
        took.push(started.elapsed());
        assert_eq!(written.code, 201, "{}", written.body);
        lease["spec"] = json!({"renewTime": format!("2026-01-01T00:00:{index:02}.000000Z")});
        let renewed = agent.ask("PUT", &format!("{leases}/m1"), "application/json", &lease.to_string());
        let renewed = renewed.expect("an answer");
        assert_eq!(renewed.code, 200, "{}", renewed.body);
        lease = renewed.json();
    }
    took.sort();
    println_figure(&format!("writes during the flood: median {:?}, p99 {:?}", took[25], took[49]));
    assert!(took[49] < ANSWER_MAX, "the slowest write took {:?}", took[49]);
    drop(held);
}

#[test]
fn a_user_gets_only_so_many_watches() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (_server, client) = start(folder.path(), &["--max-long-running-requests-per-user", "5"]);
    let (one, third) = (client.with_token("one-token"), client.with_token("third-token"));
    let mut held = Vec::new();
    let path = "/api/v1/namespaces/default/configmaps?watch=1&resourceVersion=0&timeoutSeconds=1";
    for _ in 0..5 {
        let mut connection = one.connect().expect("a handshake");
        let long = path.replace("timeoutSeconds=1", "timeoutSeconds=600");
        connection.send(&one.request_text("GET", &long, "", "")).expect("sent");
        held.push(connection);
    }
    e2e::eventually::eventually("the sixth watch is refused", Duration::from_secs(30), || {
        let refused = one.get(path).expect("an answer");
        refused.code == 429 && refused.headers.to_ascii_lowercase().contains("retry-after")
    });
    assert_eq!(third.get(path).expect("an answer").code, 200, "another user is not affected");
    assert_eq!(one.get("/api/v1/namespaces/default").expect("an answer").code, 200, "nor are short requests");
}

#[test]
fn anonymous_callers_do_not_choose_metric_labels() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (server, client) = start(folder.path(), &[]);
    for index in 0..50 {
        let path = format!("/apis/invented{index}.example/v1/namespaces/a/things{index}");
        let answer = client.get(&path).expect("an answer");
        assert!(matches!(answer.code, 401 | 403), "{}", answer.body);
        client.with_token("one-token").get(&path).expect("an answer");
    }
    let metrics = server.kubectl(&["get", "--raw", "/metrics"]);
    let metrics = String::from_utf8_lossy(&metrics.stdout).into_owned();
    assert!(!metrics.contains("invented"), "labels come from served resources only");
    assert!(metrics.contains("resource=\"clusterrolebindings\""), "honest series are there");
}

/// Figures go to the test's output, where a person reads them.
fn println_figure(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{text}");
}
