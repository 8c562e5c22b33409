//! Clients that hold connections, streams, bodies, lists and watches without using them, or ask for much work, do not harm others.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use e2e::eventually::eventually;
use e2e::flood_figures::observe;
use e2e::flotilla::Flotilla;
use e2e::raw_client::{RawClient, RawConnection};
use e2e::raw_http2::RawHttp2;
use serde_json::json;

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

fn assert_served(client: &RawClient) {
    let answer = client.get("/api/v1/namespaces/default").expect("an answer");
    assert_eq!(answer.code, 200, "{}", answer.body);
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
    let third = client.with_token("third-token");
    let (mut silent, _) = observe(&server, &third, "400 silent connections", || {
        let beginnings = ["", "P", "PRI * HTTP/2.0\r\n", "GET / HTTP/1.1\r\nhost"].iter().cycle().take(400);
        let open = |beginning: &&str| {
            let mut connection = client.connect().expect("a handshake");
            connection.send(beginning).expect("sent");
            connection
        };
        beginnings.map(open).collect::<Vec<RawConnection>>()
    });
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
    // The response that is not read, Accept header, number, and most growth of the server's memory in MiB. As a whole they
    // would take 5 MB each, and YAML twice as much.
    let floods = [
        ("lists", configmaps.to_owned(), "application/json", 60, 150),
        ("watches", format!("{configmaps}?watch=1"), "application/json", 60, 150),
        ("tables", configmaps.to_owned(), "application/json;as=Table;v=v1;g=meta.k8s.io", 30, 150),
        ("YAML lists", configmaps.to_owned(), "application/yaml", 10, 150),
        ("protobuf lists", configmaps.to_owned(), "application/vnd.kubernetes.protobuf", 10, 150),
    ];
    let mut held = Vec::new();
    for (what, path, accept, count, growth_max) in floods {
        let title = format!("{count} stalled {what} of 5 MB");
        let (stalled, figures) = observe(&server, &third, &title, || {
            let accept = format!("accept: {accept}\r\n");
            let stall = |_| {
                let mut connection = one.connect().expect("a handshake");
                connection.send(&one.request_text("GET", &path, &accept, "")).expect("sent");
                connection
            };
            (0..count).map(stall).collect::<Vec<RawConnection>>()
        });
        assert!(figures.grown_mib() < growth_max, "{title} took {} MiB", figures.grown_mib());
        held.push(stalled);
    }
    assert_served(&third);
}

#[test]
fn bodies_that_never_come_stop_neither_writes_nor_heartbeats() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (server, client) = start(folder.path(), &[]);
    let configmaps = "/api/v1/namespaces/default/configmaps";
    let (third, agent) = (client.with_token("third-token"), client.with_token("agent-token"));
    let (held, _) = observe(&server, &third, "320 bodies that never come", || {
        let users = ["one-token", "two-token"].into_iter().flat_map(|token| std::iter::repeat_n(token, 160));
        let begin = |token| {
            let user = client.with_token(token);
            let mut connection = user.connect().expect("a handshake");
            let header = "content-type: application/json\r\ncontent-length: 1000\r\n";
            connection.send(&user.request_text("POST", configmaps, header, "{")).expect("sent");
            connection
        };
        users.map(begin).collect::<Vec<RawConnection>>()
    });
    // Agents may renew the lease of their own cluster only.
    let leases = "/apis/coordination.k8s.io/v1/namespaces/karmada-cluster/leases";
    let lease = agent.post(leases, &json!({"metadata": {"name": "m1"}})).expect("an answer");
    assert_eq!(lease.code, 201, "{}", lease.body);
    let mut lease = lease.json();
    for index in 0..10 {
        lease["spec"] = json!({"renewTime": format!("2026-01-01T00:00:{index:02}.000000Z")});
        let renewed = agent.ask("PUT", &format!("{leases}/m1"), "application/json", &lease.to_string());
        let renewed = renewed.expect("an answer");
        assert_eq!(renewed.code, 200, "{}", renewed.body);
        lease = renewed.json();
    }
    drop(held);
}

#[test]
fn idle_watches_cost_little() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (server, client) = start(folder.path(), &[]);
    let (one, third) = (client.with_token("one-token"), client.with_token("third-token"));
    let path = "/api/v1/namespaces/default/services?watch=1&resourceVersion=0&timeoutSeconds=600";
    let (held, figures) = observe(&server, &third, "300 idle watches", || {
        let watch = |_| {
            let mut connection = one.connect().expect("a handshake");
            connection.send(&one.request_text("GET", path, "", "")).expect("sent");
            connection
        };
        (0..300).map(watch).collect::<Vec<RawConnection>>()
    });
    assert!(figures.grown_mib() < 100, "{figures:?}");
    drop(held);
}

/// Streams that are opened and reset at once, streams that stay open beyond every limit, bodies that never come, and responses that may
/// not be sent.
#[test]
fn floods_over_http2_take_little_memory() {
    /// Sends what the server still takes: it may close a connection that misbehaves.
    type Flood = fn(&mut RawHttp2) -> std::io::Result<()>;
    const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
    let resets: Flood = |http2| {
        for _ in 0..5_000 {
            let stream = http2.get(CONFIGMAPS)?;
            http2.reset(stream)?;
        }
        http2.flush()
    };
    let watches: Flood = |http2| {
        for _ in 0..1_000 {
            http2.get(&format!("{CONFIGMAPS}?watch=1&resourceVersion=0&timeoutSeconds=600"))?;
        }
        http2.flush()
    };
    let bodies: Flood = |http2| {
        for _ in 0..200 {
            let stream = http2.begin_post(CONFIGMAPS, 1000)?;
            http2.body(stream, b"{")?;
        }
        http2.flush()
    };
    let unread: Flood = |http2| {
        http2.close_window()?;
        for _ in 0..200 {
            http2.get("/openapi/v2")?;
        }
        http2.flush()
    };
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (server, client) = start(folder.path(), &[]);
    let third = client.with_token("third-token");
    let mut held = Vec::new();
    for (title, flood) in [
        ("20,000 HTTP/2 streams that are reset", resets),
        ("4,000 HTTP/2 streams with watches", watches),
        ("800 HTTP/2 bodies that never come", bodies),
        ("800 HTTP/2 documents that are not read", unread),
    ] {
        let (connections, figures) = observe(&server, &third, title, || {
            let open = |_| {
                let mut http2 = RawHttp2::connect(&client, "one-token").expect("a connection");
                let _ = flood(&mut http2);
                http2
            };
            (0..4).map(open).collect::<Vec<RawHttp2>>()
        });
        assert!(figures.grown_mib() < 150, "{title} took {} MiB", figures.grown_mib());
        held.push(connections);
    }
    assert_served(&third);
    drop(held);
    let one = client.with_token("one-token");
    eventually("the flooding user is served again", Duration::from_secs(90), || {
        one.get("/api/v1/namespaces/default").is_ok_and(|answer| answer.code == 200)
    });
}

/// Plans and explanations are more work than other requests: each is answered or refused, and other users are served meanwhile.
#[test]
fn floods_of_plans_and_explanations_are_bounded() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (server, client) = start(folder.path(), &[]);
    let may = ["create", "clusterrole", "asks", "--verb=get,post", "--non-resource-url=/flotilla/v1alpha1/*"];
    assert!(server.kubectl(&may).status.success());
    let bound = ["create", "clusterrolebinding", "asks", "--clusterrole=asks", "--user", "one"];
    assert!(server.kubectl(&bound).status.success());
    let (one, third) = (client.with_token("one-token"), client.with_token("third-token"));
    let deployment = |number: usize| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": format!("d{number}"), "namespace": "default"},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "d"}}, "template": {"metadata": {"labels": {"app": "d"}},
                "spec": {"containers": [{"name": "c", "image": "nginx"}]}}}})
    };
    let created = one.post("/apis/apps/v1/namespaces/default/deployments", &deployment(0)).expect("an answer");
    assert_eq!(created.code, 201, "{}", created.body);
    let plan = serde_json::Value::Array((0..20).map(deployment).collect()).to_string();
    let header = format!("content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n", plan.len());
    let why = "/flotilla/v1alpha1/why?apiVersion=apps/v1&kind=Deployment&namespace=default&name=d0";
    let requests = [
        ("60 plans of 20 manifests", one.request_text("POST", "/flotilla/v1alpha1/plan", &header, &plan)),
        ("60 explanations", one.request_text("GET", why, "connection: close\r\n", "")),
    ];
    for (title, request) in requests {
        let (asked, figures) = observe(&server, &third, title, || {
            let ask = |_| {
                let mut connection = one.connect().expect("a handshake");
                connection.send(&request).expect("sent");
                connection
            };
            (0..60).map(ask).collect::<Vec<RawConnection>>()
        });
        assert!(figures.grown_mib() < 200, "{title} took {} MiB", figures.grown_mib());
        let mut answered = 0;
        for mut connection in asked {
            let answer = connection.read_response().expect("an answer");
            // The last one is the end of its time.
            assert!(matches!(answer.code, 200 | 429 | 504), "{title}: {} {}", answer.code, answer.body);
            answered += usize::from(answer.code == 200);
        }
        assert!(answered > 0, "{title}: none was answered");
    }
    assert_served(&third);
}

/// The cap on connections is below the limit on files, so the server runs out of files only when that limit is lowered
/// while it runs, or when something else opens files.
#[test]
fn a_server_without_free_files_logs_it_once_and_recovers() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (server, client) = start(folder.path(), &[]);
    let third = client.with_token("third-token");
    assert_served(&third);
    let open = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("open files").count();
    let limit = |files: usize| {
        let files = format!("--nofile={files}:");
        Command::new("prlimit").args(["--pid", &server.pid().to_string(), &files]).status()
    };
    match limit(open + 20) {
        Ok(status) if status.success() => {}
        _ => return test_skip::skip(format_args!("prlimit cannot lower the limit on open files")),
    }
    // Handshakes do not complete any more, so these only connect.
    let held: Vec<_> = (0..60).map(|_| std::net::TcpStream::connect(("127.0.0.1", server.port()))).collect();
    assert!(held.iter().all(Result::is_ok));
    let refusals = || server.log().matches("cannot accept a connection").count();
    eventually("the server reports it", Duration::from_secs(30), || refusals() > 0);
    let start = Instant::now();
    // The period of the log is the point of this test, so it is a time and not a condition.
    std::thread::sleep(Duration::from_secs(3));
    let lines_max = 1 + start.elapsed().as_secs() as usize / 10 + 1;
    assert!(refusals() <= lines_max, "{} lines in {:?}", refusals(), start.elapsed());
    drop(held);
    eventually("the server accepts connections again", Duration::from_secs(60), || {
        third.get("/api/v1/namespaces/default").is_ok_and(|answer| answer.code == 200)
    });
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
        // The server counts a watch before it answers, so the next one finds this one counted.
        let header = connection.read_header().expect("a header");
        assert!(header.starts_with("HTTP/1.1 200"), "{header}");
        held.push(connection);
    }
    eventually("the sixth watch is refused", Duration::from_secs(30), || {
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
