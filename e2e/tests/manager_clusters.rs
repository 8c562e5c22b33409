//! The cluster inventory of the manager with real members: join, statistics, the member proxy, credentials.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use e2e::agent::Agent;
use e2e::flotilla::{binary, programs};
use e2e::light_member::LightMember;
use e2e::manager::{ManagerProcess, eventually, text};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(90);

fn secret(manager: &ManagerProcess, member: &LightMember) {
    let file = member.kubeconfig.display().to_string();
    let source = format!("--from-file=kubeconfig={file}");
    let made = manager.kubectl(&["create", "secret", "generic", "m1", &source, "--dry-run=client", "-o", "json"]);
    assert!(made.status.success(), "{}", text(&made));
    let object: Value = serde_json::from_slice(&made.stdout).expect("a Secret");
    let applied = manager.apply(&object);
    assert!(applied.status.success(), "{}", text(&applied));
}

fn cluster(instances: Value) -> Value {
    json!({
        "apiVersion": "manager.flotilla.dev/v1alpha1", "kind": "ManagedCluster", "metadata": {"name": "m1"},
        "spec": {"region": "eu", "labels": {"tier": "gold"}, "instances": instances,
            "secretRef": {"namespace": "default", "name": "m1"}},
    })
}

#[track_caller]
fn wait_for_condition(manager: &ManagerProcess, kind: &str, reason: &str) {
    let check = || {
        let found = manager.kubectl(&["get", "managedcluster", "m1", "-o", "json"]);
        let found: Value = serde_json::from_slice(&found.stdout).unwrap_or_default();
        let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let is = conditions.iter().any(|condition| condition["type"] == kind && condition["reason"] == reason);
        if is { Ok(()) } else { Err(found["status"].to_string()) }
    };
    eventually(LIMIT, check, || manager.server.log());
}

#[test]
fn a_cluster_of_the_inventory_is_joined_used_and_removed() {
    let member = LightMember::start(&["--nodes", "1"]);
    let manager = ManagerProcess::start(&["--allow-loopback-endpoints"]);
    manager.create("east", json!({}), json!({}));
    let instance = manager.wait_for("east", "Completed");
    let endpoint = instance["status"]["endpoint"].as_str().expect("an endpoint").to_owned();
    let east = |arguments: &[&str]| manager.kubectl(&[&["--server", endpoint.as_str()][..], arguments].concat());
    secret(&manager, &member);
    let applied = manager.apply(&cluster(json!(["east"])));
    assert!(applied.status.success(), "{}", text(&applied));
    wait_for_condition(&manager, "Ready", "Joined");
    let joined = || {
        let found = east(&[
            "get",
            "cluster",
            "m1",
            "-o",
            "jsonpath={.spec.region} {.metadata.labels.tier} {.status.conditions[?(@.type=='Ready')].status}",
        ]);
        if text(&found) == "eu gold True" { Ok(()) } else { Err(text(&found)) }
    };
    eventually(LIMIT, joined, || manager.server.log());
    statistics_and_member_proxy_work(&manager, &endpoint);
    an_object_of_the_member_is_promoted_without_a_restart(&manager, &member, &east);

    let refused = manager.flotilla(&["instance", "hibernate", "east"]);
    assert!(!refused.status.success() && text(&refused).contains("joined clusters"), "{}", text(&refused));
    let refused = manager.kubectl(&["delete", "managedcluster", "m1", "--timeout=5s"]);
    assert!(!refused.status.success() && text(&refused).contains("joined to east"), "{}", text(&refused));
    // A credential of another cluster is refused, and the old one stays in use.
    let other = LightMember::start(&[]);
    secret(&manager, &other);
    wait_for_condition(&manager, "CredentialsValid", "OtherCluster");
    eventually(LIMIT, joined, || manager.server.log());
    secret(&manager, &member);
    wait_for_condition(&manager, "CredentialsValid", "Checked");

    assert!(manager.apply(&cluster(json!([]))).status.success());
    let left = || {
        let found = text(&east(&["get", "clusters"]));
        if found.contains("No resources found") { Ok(()) } else { Err(found) }
    };
    eventually(LIMIT, left, || manager.server.log());
    let removed = || {
        let done = manager.kubectl(&["delete", "managedcluster", "m1", "--timeout=5s"]);
        if done.status.success() { Ok(()) } else { Err(text(&done)) }
    };
    eventually(LIMIT, removed, || manager.server.log());
    hibernates_and_wakes(&manager);
    a_pull_cluster_is_adopted_and_removed(&manager, &member, &east);
}

fn an_object_of_the_member_is_promoted_without_a_restart(
    manager: &ManagerProcess,
    member: &LightMember,
    east: &dyn Fn(&[&str]) -> Output,
) {
    const BASE: &str = "/flotilla/manager/v1alpha1/instances/east";
    let read = |path: &str| text(&manager.kubectl(&["get", "--raw", &format!("{BASE}/{path}")]));
    let until = |what: &dyn Fn() -> (bool, String)| {
        let check = || what().0.then_some(()).ok_or_else(|| what().1);
        eventually(LIMIT, check, || manager.server.log());
    };
    member.expect_kubectl(&["create", "deployment", "legacy", "--image=nginx"]);
    let pod = || member.ask(&["get", "pods", "-l=app=legacy", "-o=jsonpath={.items[*].metadata.uid}"]);
    until(&|| (!pod().is_empty(), "no pod".to_owned()));
    let before = pod();
    let listed = || read("member-clusters/m1/promotable?namespace=default");
    until(&|| (listed().contains("\"legacy\""), listed()));
    assert!(!listed().contains("\"kubernetes\""), "{}", listed());
    let path = "member-clusters/m1/namespaces/default/deployments/legacy";
    let preview = read(&format!("{path}:previewPromotion"));
    assert!(
        preview.contains("PropagationPolicy") && !east(&["get", "deployment", "legacy"]).status.success(),
        "{preview}"
    );
    let body = manager.directory.path().join("promote.json");
    std::fs::write(&body, "{}").expect("written");
    let (url, body) = (format!("{BASE}/{path}:promote"), body.display().to_string());
    let promote = || manager.kubectl(&["create", "--raw", &url, "-f", &body]);
    let promoted = promote();
    assert!(promoted.status.success(), "{}", text(&promoted));
    let label = || member.ask(&["get", "deployment", "legacy", r"-o=jsonpath={.metadata.labels.karmada\.io/managed}"]);
    until(&|| (label() == "true", text(&east(&["get", "resourcebindings", "-o", "yaml"]))));
    assert_eq!(pod(), before, "the pods were not replaced");
    assert!(!promote().status.success(), "it is promoted once");
    let matched = read("policies:match?apiVersion=apps%2Fv1&kind=Deployment&namespace=default&name=legacy");
    assert!(matched.contains("\"chosen\":true"), "{matched}");
    let timeline = read("timeline?apiVersion=apps%2Fv1&kind=Deployment&namespace=default&name=legacy");
    assert!(timeline.contains("\"steps\""), "{timeline}");
    for cluster in [&[][..], &["-C", "m1"]] {
        let metrics = manager.flotilla(&[&["instance", "metrics", "east"], cluster].concat());
        assert!(metrics.status.success() && text(&metrics).contains("apiserver_request_total"), "{}", text(&metrics));
    }
    assert!(east(&["delete", "propagationpolicies,deployments", "--all"]).status.success());
}

/// The cluster registers itself with a token of the manager, and the inventory takes it over.
fn a_pull_cluster_is_adopted_and_removed(
    manager: &ManagerProcess,
    member: &LightMember,
    east: &dyn Fn(&[&str]) -> Output,
) {
    let cluster = |instances: Value| {
        json!({
            "apiVersion": "manager.flotilla.dev/v1alpha1", "kind": "ManagedCluster", "metadata": {"name": "m1"},
            "spec": {"mode": "Pull", "region": "eu", "labels": {"tier": "gold"}, "instances": instances},
        })
    };
    assert!(manager.apply(&cluster(json!(["east"]))).status.success());
    wait_for_condition(manager, "Ready", "WaitingForAgent");
    let token = manager.flotilla(&["instance", "token", "east", "--cluster", "m1"]);
    let command = text(&token);
    assert!(token.status.success() && command.starts_with("flotilla register 127.0.0.1:"), "{command}");
    let listed = text(&manager.flotilla(&["instance", "token", "east"]));
    let secret = command.split_whitespace().nth(4).and_then(|token| token.split('.').nth(1)).expect("a token");
    assert!(listed.contains("m1") && !listed.contains(secret), "{listed}");
    let mut register = Command::new(binary());
    register.args(command.split_whitespace().skip(1)).arg("--kubeconfig").arg(&member.kubeconfig);
    let registered = register.stdin(Stdio::null()).output().expect("the program runs");
    assert!(registered.status.success(), "{}", text(&registered));
    let path = r#"-o=go-template={{index .data "karmada-kubeconfig" | base64decode}}"#;
    let config = manager.directory.path().join("agent.config");
    let kubeconfig = member.ask(&["-n=karmada-system", "get", "secret", "karmada-kubeconfig", path]);
    std::fs::write(&config, kubeconfig).expect("written");
    let agent = Agent::ours_outside(&config, ("m1", &member.kubeconfig), &[]);
    wait_for_condition(manager, "Ready", "Joined");
    wait_for_condition(manager, "CredentialsValid", "ManagedByAgent");
    let shown = || {
        let path = "jsonpath={.spec.region} {.metadata.labels.tier} {.spec.syncMode} {.status.conditions[?(@.type=='Ready')].status}";
        let found = text(&east(&["get", "cluster", "m1", "-o", path]));
        if found == "eu gold Pull True" { Ok(()) } else { Err(found) }
    };
    eventually(LIMIT, shown, || manager.server.log());
    let healthy = manager.flotilla(&["instance", "diagnose", "east"]);
    assert!(healthy.status.success(), "{}", text(&healthy));

    // Without an instance the cluster leaves, and its agent's rights end.
    assert!(manager.apply(&cluster(json!([]))).status.success());
    wait_for_condition(manager, "Ready", "NotJoined");
    assert!(text(&east(&["get", "clusters"])).contains("No resources found"));
    let rights = text(&east(&["get", "clusterroles", "-o", "name"]));
    assert!(!rights.contains("system:karmada:m1:agent"), "{rights}");
    drop(agent);
    let removed = manager.kubectl(&["delete", "managedcluster", "m1", "--timeout=20s"]);
    assert!(removed.status.success(), "{}", text(&removed));
}

fn hibernates_and_wakes(manager: &ManagerProcess) {
    let done = manager.flotilla(&["instance", "hibernate", "east"]);
    assert!(done.status.success(), "{}", text(&done));
    manager.wait_for("east", "Hibernated");
    let done = manager.flotilla(&["instance", "wake", "east"]);
    assert!(done.status.success(), "{}", text(&done));
    let instance = manager.wait_for("east", "Completed");
    assert_eq!(instance["status"]["phase"], "Running");
}

fn statistics_and_member_proxy_work(manager: &ManagerProcess, endpoint: &str) {
    let counted = || {
        let summary = manager.instance("east").unwrap_or_default()["status"]["summary"].clone();
        let is = summary["clusterSummary"]["readyNum"] == 1 && summary["nodeSummary"]["totalNum"] == 1;
        if is { Ok(()) } else { Err(summary.to_string()) }
    };
    eventually(LIMIT, counted, || manager.server.log());
    // The member through the instance through the manager: objects, exec and logs.
    let proxy = format!("{endpoint}/apis/cluster.karmada.io/v1alpha1/clusters/m1/proxy");
    let member = |arguments: &[&str]| manager.kubectl(&[&["--server", proxy.as_str()][..], arguments].concat());
    let ran = || {
        let done = member(&["get", "nodes"]);
        if done.status.success() { Ok(()) } else { Err(text(&done)) }
    };
    eventually(LIMIT, ran, || manager.server.log());
    assert!(member(&["run", "web", "--image=nginx", "--restart=Never"]).status.success());
    let waited = member(&["wait", "--for=condition=Ready", "pod/web", "--timeout=60s"]);
    assert!(waited.status.success(), "{}", text(&waited));
    let done = member(&["exec", "web", "--", "echo", "through two planes"]);
    assert_eq!(text(&done), "through two planes\n");
    a_shell_ends_when_its_credential_is_revoked(manager, &proxy);
}

fn a_shell_ends_when_its_credential_is_revoked(manager: &ManagerProcess, proxy: &str) {
    let config = manager.directory.path().join("shell.config").display().to_string();
    let errors = manager.directory.path().join("shell.errors");
    let issued = manager.flotilla(&["instance", "kubeconfig", "east", "--expires", "1h", "-o", &config]);
    assert!(issued.status.success(), "{}", text(&issued));
    let mut shell = Command::new(programs().join("kubectl"))
        .args(["--kubeconfig", &config, "--server", proxy, "exec", "-i", "web", "--", "sh"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(&errors).expect("a file for errors"))
        .spawn()
        .expect("kubectl starts");
    let mut input = shell.stdin.take().expect("an input");
    input.write_all(b"echo open\n").expect("typed");
    let mut line = String::new();
    BufReader::new(shell.stdout.take().expect("an output")).read_line(&mut line).expect("an answer");
    let said = || format!("{}\n{}", std::fs::read_to_string(&errors).unwrap_or_default(), manager.server.log());
    assert_eq!(line, "open\n", "{}", said());

    let listed = text(&manager.flotilla(&["instance", "kubeconfig", "east", "--list"]));
    let id = listed.split_whitespace().next().expect("an id").to_owned();
    let revoked = manager.flotilla(&["instance", "kubeconfig", "east", "--revoke", &id]);
    assert!(revoked.status.success(), "{}", text(&revoked));
    let began = Instant::now();
    let ended = || match shell.try_wait().expect("a state") {
        Some(_) => Ok(()),
        None => Err("the shell is still open".to_owned()),
    };
    eventually(LIMIT, ended, || manager.server.log());
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    drop(input);
}
