//! Users of the manager: roles on instances, kubeconfigs, login and revocation, with real clients.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use e2e::flotilla::{binary, kubectl, programs};
use e2e::manager::{ManagerProcess, eventually, text};
use e2e::raw_client::RawClient;
use serde_json::{Value, json};

const PASSWORD: &str = "a long enough password";

fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": "manager.flotilla.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// A manager with the instances east and west, and a user with a password.
fn with_user(user: &str) -> ManagerProcess {
    let manager = ManagerProcess::start(&[]);
    for name in ["east", "west"] {
        manager.create(name, json!({}), json!({}));
        manager.wait_for(name, "Completed");
    }
    let created = manager.apply(&object("User", user, json!({"displayName": user})));
    assert!(created.status.success(), "{}", text(&created));
    set_password(&manager, user, PASSWORD);
    manager
}

fn set_password(manager: &ManagerProcess, user: &str, password: &str) {
    let file = manager.directory.path().join("password.json");
    std::fs::write(&file, json!({"user": user, "password": password}).to_string()).expect("written");
    let set = || {
        let path = file.display().to_string();
        let done = manager.kubectl(&["create", "--raw", "/flotilla/manager/passwords", "-f", &path]);
        if done.status.success() { Ok(()) } else { Err(text(&done)) }
    };
    eventually(Duration::from_secs(10), set, || manager.server.log());
}

fn log_in(manager: &ManagerProcess, user: &str, password: &str, output: &Path) -> (bool, String) {
    let url = format!("https://127.0.0.1:{}", manager.server.port());
    let mut child = Command::new(binary())
        .args(["login", &url, "--user", user, "--certificate-authority"])
        .arg(manager.directory.path().join("pki/ca.crt"))
        .arg("--output")
        .arg(output)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("flotilla runs");
    child.stdin.take().expect("an input").write_all(password.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("flotilla ends");
    (output.status.success(), text(&output))
}

fn bind(manager: &ManagerProcess, name: &str, user: &str, role: &str, target: Value) {
    let spec = json!({"subject": {"kind": "User", "name": user}, "role": role, "target": target});
    let bound = manager.apply(&object("Binding", name, spec));
    assert!(bound.status.success(), "{}", text(&bound));
}

/// Waits until kubectl with this context succeeds or fails as expected, and its output contains a text.
#[track_caller]
fn expect(manager: &ManagerProcess, config: &Path, arguments: &[&str], succeeds: bool, contains: &str) {
    let check = || {
        let done = kubectl(config, arguments);
        let said = text(&done);
        if done.status.success() == succeeds && said.contains(contains) {
            Ok(())
        } else {
            Err(format!("{arguments:?}: {said}"))
        }
    };
    eventually(Duration::from_secs(5), check, || manager.server.log());
}

#[test]
fn roles_decide_what_a_user_sees_and_does() {
    let manager = with_user("ann");
    let config = manager.directory.path().join("ann.config");
    let (logged_in, said) = log_in(&manager, "ann", PASSWORD, &config);
    assert!(logged_in && said.contains("no instances"), "{said}");
    bind(&manager, "ann-east", "ann", "view", json!({"instance": "east"}));
    let refreshed = || {
        let (_, said) = log_in(&manager, "ann", PASSWORD, &config);
        if said.contains("contexts manager, east;") { Ok(()) } else { Err(said) }
    };
    eventually(Duration::from_secs(10), refreshed, || manager.server.log());

    expect(&manager, &config, &["--context", "east", "get", "configmaps", "-A"], true, "kube-root-ca.crt");
    expect(&manager, &config, &["--context", "east", "get", "clusters"], true, "");
    expect(&manager, &config, &["--context", "east", "get", "secrets", "-A"], false, "forbidden");
    expect(&manager, &config, &["--context", "east", "create", "configmap", "a"], false, "forbidden");
    // An instance without a role does not exist, and the manager's own API is closed.
    let west = format!("https://127.0.0.1:{}/instances/west", manager.server.port());
    let north = format!("https://127.0.0.1:{}/instances/north", manager.server.port());
    for url in [&west, &north] {
        expect(
            &manager,
            &config,
            &["--context", "east", "--server", url, "get", "--raw", "/version"],
            false,
            "not found",
        );
    }
    expect(&manager, &config, &["--context", "manager", "get", "karmadas", "-A"], false, "forbidden");

    bind(&manager, "ann-east-edit", "ann", "edit", json!({"instance": "east"}));
    expect(&manager, &config, &["--context", "east", "create", "configmap", "a"], true, "created");
    expect(&manager, &config, &["--context", "east", "get", "clusterroles"], false, "forbidden");
    // A namespace role opens that namespace only.
    assert!(manager.kubectl(&["--server", &west, "create", "namespace", "shop"]).status.success());
    bind(&manager, "ann-west", "ann", "edit", json!({"instance": "west", "namespace": "shop"}));

    for (rest, succeeds, contains) in [
        (&["-n", "shop", "create", "configmap", "b"][..], true, "created"),
        (&["-n", "default", "get", "configmaps"][..], false, "forbidden"),
        (&["get", "namespaces"][..], false, "forbidden"),
    ] {
        let words = [&["--context", "east", "--server", west.as_str()][..], rest].concat();
        expect(&manager, &config, &words, succeeds, contains);
    }
    // Claims in headers do not help.
    expect(
        &manager,
        &config,
        &["--context", "east", "--as", "root", "--as-group", "system:masters", "get", "secrets"],
        false,
        "cannot impersonate",
    );

    // Removing the binding takes effect within a second, also on the open session.
    for name in ["ann-east", "ann-east-edit"] {
        assert!(manager.kubectl(&["delete", "bindings.manager.flotilla.dev", name]).status.success());
    }
    std::thread::sleep(Duration::from_secs(1));
    let gone = kubectl(&config, &["--context", "east", "get", "configmaps"]);
    assert!(!gone.status.success() && text(&gone).contains("not found"), "{}", text(&gone));
    // A disabled user has no valid credential at all.
    assert!(manager.apply(&object("User", "ann", json!({"disabled": true}))).status.success());
    expect(&manager, &config, &["--context", "manager", "get", "--raw", "/version"], false, "must be logged in");
    let (logged_in, said) = log_in(&manager, "ann", PASSWORD, &config);
    assert!(!logged_in && said.contains("user name or the password is wrong"), "{said}");
}

#[test]
fn wrong_passwords_lock_the_account_and_reveal_nothing() {
    let manager = with_user("bob");
    let config = manager.directory.path().join("bob.config");
    let raw = RawClient::of(&manager.server);
    let attempt = |user: &str| {
        let body = json!({"user": user, "password": "some wrong password"});
        let began = Instant::now();
        let answer = raw.post("/flotilla/manager/v1alpha1/sessions:login", &body).expect("an answer");
        (began.elapsed(), answer.code, answer.body)
    };
    let [unknown, wrong] = ["noone", "bob"].map(|user| attempt(user).min(attempt(user)));
    assert_eq!((unknown.1, &unknown.2), (401, &wrong.2), "unknown users and wrong passwords look the same");
    assert!(unknown.0 * 3 > wrong.0, "and take the same work: {:?} and {:?}", unknown.0, wrong.0);
    let locked = || {
        let (_, said) = log_in(&manager, "bob", "some wrong password", &config);
        if said.contains("too many failed logins") { Ok(()) } else { Err(said) }
    };
    eventually(Duration::from_secs(30), locked, || manager.server.log());
    let (logged_in, said) = log_in(&manager, "bob", PASSWORD, &config);
    assert!(!logged_in, "the right password does not unlock it: {said}");
    assert!(!manager.server.log().contains("wrong password"), "no password is logged");
}

#[test]
fn kubeconfigs_work_with_real_clients_and_are_revoked() {
    let manager = with_user("cid");
    let config: PathBuf = manager.directory.path().join("east.config");
    let issued =
        manager.flotilla(&["instance", "kubeconfig", "east", "--expires", "1h", "-o", &config.display().to_string()]);
    assert!(issued.status.success(), "{}", text(&issued));
    expect(&manager, &config, &["get", "namespaces"], true, "kube-system");
    // It is for this instance only.
    let base = format!("https://127.0.0.1:{}", manager.server.port());
    for url in [base.clone(), format!("{base}/instances/west")] {
        expect(&manager, &config, &["--server", &url, "get", "namespaces"], false, "must be logged in");
    }
    watch_sees_changes(&manager, &config);
    karmadactl_and_helm_work(&manager, &config);

    let listed = text(&manager.flotilla(&["instance", "kubeconfig", "east", "--list"]));
    let id = listed.split_whitespace().next().expect("an id").to_owned();
    let revoked = manager.flotilla(&["instance", "kubeconfig", "east", "--revoke", &id]);
    assert!(revoked.status.success(), "{}", text(&revoked));
    let after = kubectl(&config, &["get", "namespaces"]);
    assert!(!after.status.success() && text(&after).contains("must be logged in"), "{}", text(&after));

    // A new instance of the same name does not accept kubeconfigs of the old one.
    let again = manager.directory.path().join("west.config");
    let issued = manager.flotilla(&["instance", "kubeconfig", "west", "-o", &again.display().to_string()]);
    assert!(issued.status.success(), "{}", text(&issued));
    assert!(manager.flotilla(&["instance", "delete", "west"]).status.success());
    assert!(manager.flotilla(&["instance", "create", "west"]).status.success());
    let old = kubectl(&again, &["get", "namespaces"]);
    assert!(!old.status.success() && text(&old).contains("must be logged in"), "{}", text(&old));
}

fn watch_sees_changes(manager: &ManagerProcess, config: &Path) {
    let mut watching = Command::new(programs().join("kubectl"))
        .arg("--kubeconfig")
        .arg(config)
        .args(["get", "configmaps", "--watch-only", "-o", "name", "--request-timeout=20s"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("kubectl runs");
    let output = watching.stdout.take().expect("an output");
    let (sender, seen) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let lines = std::io::BufRead::lines(std::io::BufReader::new(output));
        lines.map_while(Result::ok).for_each(|line| drop(sender.send(line)));
    });
    let mut count = 0;
    let check = || {
        count += 1;
        let made = kubectl(config, &["create", "configmap", &format!("watched-{count}")]);
        assert!(made.status.success(), "{}", text(&made));
        match seen.recv_timeout(Duration::from_millis(300)) {
            Ok(line) if line.contains("watched") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    };
    eventually(Duration::from_secs(15), check, || manager.server.log());
    let _ = watching.kill();
    let _ = watching.wait();
}

fn karmadactl_and_helm_work(manager: &ManagerProcess, config: &Path) {
    let karmadactl = programs().join("karmadactl");
    if !karmadactl.exists() {
        test_skip::skip(format_args!("karmadactl is not in {}", programs().display()));
        return;
    }
    let got = Command::new(karmadactl)
        .arg("get")
        .args(["namespaces", "--operation-scope=karmada", "--kubeconfig"])
        .arg(config)
        .output();
    let got = got.expect("karmadactl runs");
    assert!(got.status.success() && text(&got).contains("kube-system"), "{}", text(&got));
    let helm = programs().join("helm");
    if !helm.exists() {
        test_skip::skip(format_args!("helm is not in {}", programs().display()));
        return;
    }
    let chart = manager.directory.path().join("chart");
    std::fs::create_dir_all(chart.join("templates")).expect("a directory");
    std::fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: demo\nversion: 0.1.0\n").expect("written");
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: from-helm}\ndata: {a: b}\n";
    std::fs::write(chart.join("templates/map.yaml"), template).expect("written");
    let run = |arguments: &[&str]| {
        let ran = Command::new(&helm).arg("--kubeconfig").arg(config).args(arguments).output().expect("helm runs");
        assert!(ran.status.success(), "{}", text(&ran));
    };
    run(&["install", "demo", &chart.display().to_string()]);
    expect(manager, config, &["get", "configmap", "from-helm", "-o", "jsonpath={.data.a}"], true, "b");
    run(&["uninstall", "demo"]);
}
