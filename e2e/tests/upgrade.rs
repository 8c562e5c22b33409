//! State moves between storage engines with its keys and growing versions; a server rejects data it must not open.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use e2e::etcd::EtcdCluster;
use e2e::fleet::{run, text};
use e2e::flotilla::{Flotilla, binary, kubectl};
use serde_json::Value;

fn flotilla(arguments: &[&str]) -> Output {
    run(&binary(), Path::new("/nonexistent"), arguments)
}

fn expect_kubectl(arguments: &[&str]) {
    let output = flotilla(arguments);
    assert!(output.status.success(), "{}: {}", arguments.join(" "), text(&output));
}

/// Returns the output of a server that fails to start.
fn refusal(data_dir: &Path) -> String {
    let mut server = Command::new(binary());
    server.args(["server", "--bind", "127.0.0.1:0", "--data-dir"]).arg(data_dir);
    let output = server.stdin(Stdio::null()).output().expect("the binary runs");
    assert!(!output.status.success(), "it started");
    text(&output)
}

fn version(server: &Flotilla) -> u64 {
    let list = server.kubectl(&["get", "--raw", "/api/v1/namespaces/default/configmaps"]);
    let list: Value = serde_json::from_slice(&list.stdout).expect("JSON");
    let names: Vec<&str> =
        list["items"].as_array().into_iter().flatten().filter_map(|item| item["metadata"]["name"].as_str()).collect();
    assert!(["a", "b", "c"].iter().all(|name| names.contains(name)), "{list}");
    list["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok()).expect("a version")
}

/// Earlier watchers get an error that makes them list again.
fn rejects_old_watches(server: &Flotilla, seen: u64) {
    let path = format!("/api/v1/namespaces/default/configmaps?watch=1&resourceVersion={seen}&timeoutSeconds=5");
    let answer = text(&server.kubectl(&["get", "--raw", &path]));
    assert!(answer.contains("410") || answer.contains("too old resource version"), "{answer}");
}

#[test]
fn state_moves_to_etcd_and_back_with_keys_and_growing_versions() {
    let Some(etcd) = EtcdCluster::start(1) else { return };
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (one, two, three) = (folder.path().join("one"), folder.path().join("two"), folder.path().join("three"));
    for directory in [&one, &two] {
        std::fs::create_dir(directory).expect("a directory");
    }
    let server = Flotilla::start_in(&one, &[]);
    for name in ["a", "b", "c"] {
        assert!(server.kubectl(&["create", "configmap", name]).status.success());
    }
    // Earlier credentials must stay valid.
    let client = folder.path().join("client.config");
    std::fs::copy(&server.kubeconfig, &client).expect("a copy");
    let (first, port) = (version(&server), server.port());
    let (from, to) = (format!("embedded:{}", one.display()), format!("etcd:{}", etcd.servers()));
    let flags = etcd.flags();
    let tls: Vec<&str> = flags.iter().map(String::as_str).skip_while(|flag| *flag != "--etcd-cafile").collect();
    // The keys of the plane are encrypted in etcd.
    let config = one.join("encryption/config.yaml");
    let keys = ["--encryption-provider-config", config.to_str().expect("UTF-8")];
    let migrate =
        |from: &str, to: &str| flotilla(&[&["migrate", "--from", from, "--to", to], &keys[..], &tls].concat());
    let running = migrate(&from, &to);
    assert!(!running.status.success() && text(&running).contains("in use"), "{}", text(&running));
    assert!(server.stop().success());
    let moved = migrate(&from, &to);
    assert!(moved.status.success(), "{}", text(&moved));
    let left = refusal(&one);
    assert!(left.contains("no longer in use") && left.contains("migrated to etcd"), "{left}");

    let flags: Vec<&str> = flags.iter().map(String::as_str).chain(keys).collect();
    let server = Flotilla::start_at(&two, port, &flags);
    let second = version(&server);
    assert!(second > first, "{second} after {first}");
    rejects_old_watches(&server, first);
    assert!(kubectl(&client, &["get", "configmap", "a"]).status.success(), "the keys went along");
    let used = migrate(&to, &format!("embedded:{}", three.display()));
    assert!(!used.status.success() && text(&used).contains("in use"), "{}", text(&used));
    assert!(server.stop().success());

    let back = migrate(&to, &format!("embedded:{}", three.display()));
    assert!(back.status.success(), "{}", text(&back));
    let server = Flotilla::start_at(&three, port, &[]);
    let third = version(&server);
    assert!(third > second, "{third} after {second}");
    rejects_old_watches(&server, second);
    assert!(kubectl(&client, &["get", "configmap", "a"]).status.success(), "and came back");
}

/// Written with `testdata/backups/make` by the last release of each format, with the objects as its server showed them.
#[test]
fn backups_of_earlier_releases_are_restored() {
    let backups = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/backups");
    let mut seen = 0;
    for entry in std::fs::read_dir(&backups).expect("backups") {
        let backup = entry.expect("a file").path();
        if backup.extension().is_some_and(|extension| extension == "flotilla") {
            seen += 1;
            restore_earlier(&backup);
        }
    }
    assert!(seen > 0, "{} has no backup", backups.display());
}

fn restore_earlier(backup: &Path) {
    let release = backup.file_stem().expect("a name").display().to_string();
    let file = backup.to_str().expect("UTF-8");
    let about = flotilla(&["backup", "inspect", file, "-o", "json"]);
    let about: Value = serde_json::from_slice(&about.stdout).unwrap_or_else(|_| panic!("{release}: {}", text(&about)));
    assert!(about["program"].as_str().is_some_and(|program| program.contains(&release)), "{about}");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let data = folder.path().join("data");
    expect_kubectl(&["restore", file, "--data-dir", data.to_str().expect("UTF-8")]);
    let server = Flotilla::start_in(&data, &[]);
    let expected = std::fs::read(backup.with_extension("json")).expect("the objects");
    let expected: Value = serde_json::from_slice(&expected).expect("JSON");
    for object in expected["items"].as_array().expect("objects") {
        let (kind, name) =
            (object["kind"].as_str().expect("a kind"), object["metadata"]["name"].as_str().expect("a name"));
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
        let found = server.kubectl(&["get", kind, name, "-n", namespace, "-o", "json"]);
        let found: Value = serde_json::from_slice(&found.stdout).unwrap_or_else(|_| panic!("{kind}: {}", text(&found)));
        for field in ["/metadata/uid", "/metadata/creationTimestamp", "/metadata/labels", "/data", "/spec"] {
            assert_eq!(found.pointer(field), object.pointer(field), "{release}: {kind} {namespace}/{name}: {field}");
        }
    }
    // In safe mode until an operator confirms; then it works like any other.
    let state = run(&binary(), &server.kubeconfig, &["restore", "status", "-o", "json"]);
    let state: Value = serde_json::from_slice(&state.stdout).unwrap_or_else(|_| panic!("{}", text(&state)));
    assert_eq!(state["on"], true, "{state}");
    let confirmed = run(&binary(), &server.kubeconfig, &["restore", "confirm"]);
    assert!(confirmed.status.success(), "{}", text(&confirmed));
    let written = server.kubectl(&["-n", "shop", "create", "configmap", "later"]);
    assert!(written.status.success(), "{}", text(&written));
}

#[test]
fn a_server_rejects_newer_formats_and_unfinished_restores() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let data = folder.path().join("data");
    std::fs::create_dir(&data).expect("a directory");
    assert!(Flotilla::start_in(&data, &[]).stop().success());
    let backup = folder.path().join("backup");
    let (data_text, backup_text) = (data.to_str().expect("UTF-8"), backup.to_str().expect("UTF-8"));
    expect_kubectl(&["backup", "--data-dir", data_text, backup_text]);

    let unfinished = data.join("store/restore.unfinished");
    std::fs::write(&unfinished, "a restore was begun").expect("a file");
    let said = refusal(&data);
    assert!(said.contains("is not whole: a restore was begun"), "{said}");
    std::fs::remove_file(unfinished).expect("removed");

    // SQLite stores the format version (`user_version`) in bytes 60 to 63.
    let database = data.join("store/store.db");
    let mut bytes = std::fs::read(&database).expect("the database");
    bytes[63] = 9;
    std::fs::write(&database, bytes).expect("the database");
    let said = refusal(&data);
    assert!(said.contains("storage format 9") && said.contains("use a newer version"), "{said}");

    let mut bytes = std::fs::read(&backup).expect("the backup");
    bytes[8] = 9;
    std::fs::write(&backup, bytes).expect("the backup");
    let other = folder.path().join("other");
    let refused = flotilla(&["restore", backup_text, "--data-dir", other.to_str().expect("UTF-8")]);
    assert!(text(&refused).contains("storage format 9"), "{}", text(&refused));
    assert!(!other.exists());
}
