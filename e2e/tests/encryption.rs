//! Encryption at rest of the real server: nothing of a Secret on disk, kube-apiserver's format, existing stores, rotation.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use e2e::eventually::eventually;
use e2e::fleet::{CROSSING, READY, run, text};
use e2e::flotilla::{Flotilla, binary};
use e2e::kube_apiserver::KubeApiServer;
use e2e::light_member::LightMember;
use e2e::member;
use e2e::replicas::Replicas;

fn path(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

#[track_caller]
fn succeed(output: Output) -> String {
    assert!(output.status.success(), "{}", text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn random_text() -> String {
    (0..30).map(|_| char::from(b"abcdefghijkmnpqrstuvwxyz"[rand::random_range(0..24)])).collect()
}

/// The text in every form in which a program may write it: plain, base64 at each offset, hexadecimal.
fn forms(canary: &str) -> Vec<Vec<u8>> {
    let mut forms = vec![canary.as_bytes().to_vec()];
    for offset in 0..3 {
        let shifted = format!("{}{canary}", "x".repeat(offset));
        let encoded = STANDARD.encode(shifted);
        // Without the characters that depend on what is before and after.
        forms.push(encoded.as_bytes()[4..encoded.len() - 4].to_vec());
    }
    let hex: String = canary.bytes().map(|byte| format!("{byte:02x}")).collect();
    forms.push(hex.to_uppercase().into_bytes());
    forms.push(hex.into_bytes());
    forms
}

fn contains(bytes: &[u8], forms: &[Vec<u8>]) -> bool {
    forms.iter().any(|form| memchr::memmem::find(bytes, form).is_some())
}

/// Files below a directory that contain the text in any form. `grep` reads the logs of hundreds of megabytes in a
/// second; a search in this program without optimization takes minutes.
fn found_in(directory: &Path, canary: &str) -> Vec<PathBuf> {
    let mut command = Command::new("grep");
    command.args(["--recursive", "--text", "--fixed-strings", "--files-with-matches"]).env("LC_ALL", "C");
    for form in forms(canary) {
        command.arg("-e").arg(String::from_utf8(form).expect("ASCII"));
    }
    let output = command.arg(directory).output().expect("grep runs");
    // Files of a running server may be removed meanwhile, which ends with 2 and a message.
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.lines().all(|line| line.ends_with("No such file or directory")), "{message}");
    String::from_utf8_lossy(&output.stdout).lines().map(PathBuf::from).collect()
}

/// The records of a backup, which are compressed in the file.
fn unpacked(backup: &Path) -> Vec<u8> {
    let bytes = std::fs::read(backup).expect("a backup");
    let about = u32::from_le_bytes(bytes[12..16].try_into().expect("four bytes")) as usize;
    let mut records = Vec::new();
    let mut decoder = flate2::read::ZlibDecoder::new(&bytes[16 + about..]);
    std::io::Read::read_to_end(&mut decoder, &mut records).expect("deflated records");
    records
}

const POLICY: &str = "
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: secrets, namespace: default}
spec:
  resourceSelectors: [{apiVersion: v1, kind: Secret}]
  placement: {clusterAffinity: {clusterNames: [m1]}}
";

fn secret(name: &str, canary: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}, namespace: default}}\nstringData: {{value: {canary}}}\n"
    )
}

const VALUE: &str = "-o=jsonpath={.data.value}";

/// Writes the canary in every way a client can.
fn write_everywhere(plane: &Flotilla, canary: &str) {
    let apply = |document: &str| succeed(member::apply(&plane.kubeconfig, &["apply", "-f", "-"], document));
    let ours = |arguments: &[&str]| succeed(plane.kubectl(arguments));
    apply(POLICY);
    apply(&secret("applied", &random_text()));
    apply(&secret("applied", canary));
    succeed(member::apply(&plane.kubeconfig, &["apply", "--server-side", "-f", "-"], &secret("ssa", canary)));
    ours(&["create", "secret", "generic", "created", &format!("--from-literal=value={canary}")]);
    ours(&["create", "secret", "generic", "patched", "--from-literal=value=x"]);
    let encoded = STANDARD.encode(canary);
    ours(&["patch", "secret", "patched", "-p", &format!(r#"{{"data":{{"value":"{encoded}"}}}}"#)]);
    let operation = format!(r#"[{{"op":"add","path":"/data/other","value":"{encoded}"}}]"#);
    ours(&["patch", "secret", "patched", "--type=json", "-p", &operation]);
    ours(&["create", "secret", "generic", "deleted", &format!("--from-literal=value={canary}")]);
    ours(&["delete", "secret", "deleted"]);
    ours(&["get", "secrets", "-A", "-o=yaml"]);
}

#[test]
fn a_canary_in_a_secret_is_found_in_no_file_and_no_output() {
    let canary = random_text();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let data_dir = folder.path().join("plane");
    std::fs::create_dir(&data_dir).expect("a directory");
    let audit = folder.path().join("audit.log");
    let arguments = ["--audit-log-path", path(&audit), "--audit-level", "RequestResponse", "--log", "trace", "-v", "9"];
    let plane = Flotilla::start_in(&data_dir, &arguments);
    let flotilla = |arguments: &[&str]| run(&binary(), &plane.kubeconfig, arguments);
    let member = LightMember::start(&[]);
    succeed(flotilla(&["join", "m1", "--cluster-kubeconfig", path(&member.kubeconfig)]));
    eventually("m1 is ready", CROSSING, || plane.kubectl(&["get", "cluster", "m1", READY]).stdout == b"True");
    write_everywhere(&plane, &canary);
    let encoded = STANDARD.encode(&canary);
    for name in ["applied", "ssa", "created", "patched"] {
        let arrived = || member.ask(&["get", "secret", name, VALUE]) == encoded;
        eventually(&format!("{name} reaches the member"), CROSSING, arrived);
    }

    let backup = folder.path().join("plane.backup");
    succeed(flotilla(&["backup", "--data-dir", path(&data_dir), path(&backup)]));
    let outputs: Vec<Output> = vec![
        flotilla(&["backup", "inspect", path(&backup), "-o", "json"]),
        flotilla(&["encryption", "status", "--json"]),
        flotilla(&["doctor", "--kubeconfig", path(&plane.kubeconfig)]),
        flotilla(&["why", "secret/applied", "-n", "default"]),
        flotilla(&["describe", "secret", "applied", "-n", "default"]),
        plane.kubectl(&["get", "--raw", "/metrics"]),
        plane.kubectl(&["get", "--raw", "/readyz?verbose"]),
        plane.kubectl(&["get", "events", "-A", "-o=yaml"]),
    ];
    let forms = forms(&canary);
    for output in &outputs {
        assert!(!contains(&output.stdout, &forms) && !contains(&output.stderr, &forms), "{}", text(output));
    }
    assert!(plane.log().len() > 10_000 && std::fs::read(&audit).expect("a log").len() > 10_000, "logs are detailed");
    let records = unpacked(&backup);
    assert!(contains(&records, &[b"k8s:enc:secretbox:v1:".to_vec()]) && !contains(&records, &forms), "the backup");
    assert!(!contains(&records, &[b"PRIVATE KEY".to_vec()]), "keys of the plane are sealed in the backup");
    // While it runs, and after its last checkpoint.
    assert_eq!(found_in(folder.path(), &canary), Vec::<PathBuf>::new());
    assert!(plane.stop().success());
    assert_eq!(found_in(folder.path(), &canary), Vec::<PathBuf>::new());
    // The search itself works: the key is in the directory.
    let config = std::fs::read_to_string(data_dir.join("encryption/config.yaml")).expect("a configuration");
    let line = config.lines().find(|line| line.contains("secret:")).expect("a key").trim();
    assert_eq!(found_in(&data_dir, line.trim_start_matches("secret: ")), [data_dir.join("encryption/config.yaml")]);
}

/// The values in the server's own report, by provider.
fn values(plane: &Flotilla) -> serde_json::Value {
    let report = run(&binary(), &plane.kubeconfig, &["encryption", "status", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap_or_default();
    match report["rewriting"]["running"] == false && report["rewriting"]["passes"].as_u64() > Some(0) {
        true => report["values"].clone(),
        false => serde_json::Value::Null,
    }
}

/// Runs `flotilla server` until it exits by itself, and returns what it prints.
fn failed_start(data_dir: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("timeout");
    command
        .arg("30")
        .arg(binary())
        .args(["server", "--bind", "127.0.0.1:0", "--data-dir"])
        .arg(data_dir)
        .args(arguments);
    let output = command.output().expect("the server runs");
    assert_eq!(output.status.code(), Some(1), "it must not start: {}", text(&output));
    text(&output)
}

#[test]
fn an_existing_store_is_sealed_at_its_next_start_and_refused_without_its_key() {
    let canary = random_text();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (data_dir, identity) = (folder.path().join("plane"), folder.path().join("identity.yaml"));
    std::fs::create_dir(&data_dir).expect("a directory");
    std::fs::write(&identity, configuration("[{identity: {}}]")).expect("written");
    let plane = Flotilla::start_in(&data_dir, &["--encryption-provider-config", path(&identity)]);
    succeed(plane.kubectl(&["create", "secret", "generic", "old", &format!("--from-literal=value={canary}")]));
    assert!(plane.stop().success());
    assert!(!found_in(&data_dir.join("store"), &canary).is_empty(), "identity stores it in clear");

    let plane = Flotilla::start_in(&data_dir, &[]);
    let key = data_dir.join("encryption/config.yaml");
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&key.metadata().expect("a file").permissions()) & 0o777, 0o600);
    eventually("all values are sealed", CROSSING, || {
        values(&plane).as_object().is_some_and(|values| !values.is_empty() && !values.contains_key("identity"))
    });
    assert_eq!(
        found_in(&data_dir.join("store"), &canary),
        Vec::<PathBuf>::new(),
        "the old value is gone from the files"
    );
    assert_eq!(succeed(plane.kubectl(&["get", "secret", "old", VALUE])), STANDARD.encode(&canary));
    assert!(plane.stop().success());

    let copy = folder.path().join("copy.yaml");
    std::fs::rename(&key, &copy).expect("moved");
    let message = failed_start(&data_dir, &[]);
    assert!(message.contains("the store is encrypted") && message.contains("config.yaml is missing"), "{message}");
    assert!(!key.exists(), "no new key is made for a sealed store");
    succeed(Command::new(binary()).args(["encryption", "init", path(&key)]).output().expect("it runs"));
    let message = failed_start(&data_dir, &[]);
    assert!(message.contains("do not open this store"), "{message}");
    let plane = Flotilla::start_in(&data_dir, &["--encryption-provider-config", path(&copy)]);
    assert_eq!(succeed(plane.kubectl(&["get", "secret", "old", VALUE])), STANDARD.encode(&canary));
}

#[test]
fn an_invalid_configuration_is_refused_with_its_field() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("config.yaml");
    std::fs::write(&file, configuration("[{aescbc: {keys: [{name: a, secret: c2hvcnQ=}]}}]")).expect("written");
    let message = failed_start(folder.path(), &["--encryption-provider-config", path(&file)]);
    assert!(
        message.contains("resources[0].providers[0].aescbc.keys[0].secret: Invalid value: \"REDACTED\""),
        "{message}"
    );
    assert!(!message.contains("c2hvcnQ"), "{message}");
}

fn configuration(providers: &str) -> String {
    format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers: {providers}\n"
    )
}

/// The resources sealed in the test with kube-apiserver, each by another provider, so that one start of it covers all.
const SEALED_BY: [(&str, &str); 3] = [("secret", "aescbc"), ("configmap", "aesgcm"), ("serviceaccount", "secretbox")];

fn a_provider_for_each_resource() -> String {
    let key = "{keys: [{name: k1, secret: MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=}]}";
    let rule = |(resource, provider): (&str, &str)| {
        format!("- resources: [{resource}s]\n  providers: [{{{provider}: {key}}}, {{identity: {{}}}}]\n")
    };
    let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n";
    format!("{head}{}", SEALED_BY.map(rule).concat())
}

/// kube-apiserver with this prefix has the same keys for objects of the core group as `flotilla server` with `/registry`.
const KUBE_PREFIX: &str = "--etcd-prefix=/registry/core";

#[test]
fn kube_apiserver_and_the_plane_read_what_the_other_has_sealed() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("config.yaml");
    let config = format!("--encryption-provider-config={}", path(&file));
    let flags = [KUBE_PREFIX, "--storage-media-type=application/json", &config].map(str::to_owned);
    std::fs::write(&file, a_provider_for_each_resource()).expect("written");
    let Some(mut kube) = KubeApiServer::start_with(&flags) else { return };
    let theirs = SEALED_BY.map(|_| random_text());
    let ours = SEALED_BY.map(|_| random_text());
    create_sealed(&|arguments| kube.kubectl(arguments), "kube", &theirs);
    kube.end_api();

    let data_dir = folder.path().join("plane");
    std::fs::create_dir(&data_dir).expect("a directory");
    let arguments = ["--storage", "etcd", "--etcd-servers", &kube.etcd_url(), &config];
    let plane = Flotilla::start_in(&data_dir, &arguments);
    assert_sealed(&|arguments| plane.kubectl(arguments), "kube", &theirs);
    for (resource, _) in SEALED_BY {
        let listed = succeed(plane.kubectl(&["get", resource, "-n", "default", "-o=name"]));
        assert!(listed.contains("kube"), "{listed}");
    }
    create_sealed(&|arguments| plane.kubectl(arguments), "ours", &ours);
    assert!(plane.stop().success());

    kube.start_api_again();
    assert_sealed(&|arguments| kube.kubectl(arguments), "kube", &theirs);
    assert_sealed(&|arguments| kube.kubectl(arguments), "ours", &ours);
    let etcd = kube.directory().join("etcd");
    for value in theirs.iter().chain(&ours) {
        assert_eq!(found_in(&etcd, value), Vec::<PathBuf>::new());
    }
    for (_, provider) in SEALED_BY {
        assert!(!found_in(&etcd, &format!("k8s:enc:{provider}:v1:k1:")).is_empty(), "{provider}");
    }
}

/// A kind by which an import recognizes a Karmada.
const KARMADA_KIND: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusters.cluster.karmada.io, annotations: {api-approved.kubernetes.io: unapproved}}
spec:
  group: cluster.karmada.io
  scope: Cluster
  names: {plural: clusters, kind: Cluster}
  versions:
  - {name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
";

/// Writes a new CA and its key.
fn write_authority(certificate: &Path, key: &Path) {
    let mut params = rcgen::CertificateParams::new(Vec::<String>::new()).expect("parameters");
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let pair = rcgen::KeyPair::generate().expect("a key");
    std::fs::write(certificate, params.self_signed(&pair).expect("signed").pem()).expect("written");
    std::fs::write(key, pair.serialize_pem()).expect("written");
}

#[test]
fn an_import_reads_the_encrypted_values_of_a_kube_apiserver_and_writes_them_to_another_etcd_prefix() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("config.yaml");
    let config = format!("--encryption-provider-config={}", path(&file));
    std::fs::write(&file, a_provider_for_each_resource()).expect("written");
    let Some(mut kube) = KubeApiServer::start_with(std::slice::from_ref(&config)) else { return };
    let values = SEALED_BY.map(|_| random_text());
    create_sealed(&|arguments| kube.kubectl(arguments), "kube", &values);
    let defined = folder.path().join("kind.yaml");
    std::fs::write(&defined, KARMADA_KIND).expect("written");
    succeed(kube.kubectl(&["create", "-f", path(&defined)]));
    kube.end_api();

    let names = ["front-proxy.crt", "front-proxy.key", "ca.crt", "ca.key", "other.yaml", "plane"];
    let [certificate, key, ca, ca_key, other, data_dir] = names.map(|name| folder.path().join(name));
    write_authority(&certificate, &key);
    write_authority(&ca, &ca_key);
    std::fs::write(&other, a_provider_for_each_resource().replace("MDEy", "MTEy")).expect("written");
    let etcd = kube.etcd_url();
    let import = |flags: &[&str]| {
        let to = ["import", "--from-etcd", &etcd, "--to-etcd", &etcd, "--to-etcd-prefix=/flotilla", "--yes"];
        let front = ["--front-proxy-ca-file", path(&certificate), "--front-proxy-ca-key-file", path(&key)];
        let keys =
            ["--ca-file", path(&ca), "--ca-key-file", path(&ca_key), "--service-account-key-file", path(&ca_key)];
        run(&binary(), folder.path(), &[&to[..], &front, &keys, &[config.as_str()], flags].concat())
    };
    let refused = |flags: &[&str], expected: &str| {
        let output = import(flags);
        assert!(!output.status.success() && text(&output).contains(expected), "{flags:?}: {}", text(&output));
    };
    refused(&[], "use --from-encryption-provider-config");
    refused(
        &["--from-encryption-provider-config", path(&other)],
        "must be the EncryptionConfiguration of the Karmada's",
    );
    refused(&["--from-encryption-provider-config", "/nowhere"], "/nowhere");
    succeed(import(&["--from-encryption-provider-config", path(&file)]));

    std::fs::create_dir(&data_dir).expect("a directory");
    let arguments = ["--storage", "etcd", "--etcd-servers", &etcd, "--etcd-prefix=/flotilla", &config];
    let plane = Flotilla::start_in(&data_dir, &arguments);
    assert_sealed(&|arguments| plane.kubectl(arguments), "kube", &values);
    for (used, given) in [("front-proxy-ca.crt", &certificate), ("ca.crt", &ca)] {
        let used = std::fs::read_to_string(data_dir.join("pki").join(used)).expect("a CA");
        assert_eq!(used.trim(), std::fs::read_to_string(given).expect("a CA").trim());
    }
    assert_eq!(found_in(&kube.directory().join("etcd"), &values[0]), Vec::<PathBuf>::new());
}

/// Creates one object of each resource with a value in an annotation.
fn create_sealed(kubectl: &dyn Fn(&[&str]) -> Output, name: &str, values: &[String]) {
    for ((resource, _), value) in SEALED_BY.iter().zip(values) {
        let arguments = match *resource {
            "secret" => vec!["create", "secret", "generic", name],
            other => vec!["create", other, name],
        };
        succeed(kubectl(&arguments));
        succeed(kubectl(&["annotate", resource, name, &format!("value={value}")]));
    }
}

fn assert_sealed(kubectl: &dyn Fn(&[&str]) -> Output, name: &str, values: &[String]) {
    for ((resource, provider), value) in SEALED_BY.iter().zip(values) {
        let read = succeed(kubectl(&["get", resource, name, "-o=jsonpath={.metadata.annotations.value}"]));
        assert_eq!(read, *value, "{provider} {name}");
    }
}

#[test]
fn two_replicas_rotate_their_key_while_clients_write() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("config.yaml");
    let ours = |arguments: &[&str]| succeed(Command::new(binary()).args(arguments).output().expect("it runs"));
    ours(&["encryption", "init", path(&file)]);
    let flags = ["--encryption-provider-config", path(&file), "--encryption-provider-config-automatic-reload"];
    let Some(mut replicas) = Replicas::start(2, 1, &flags) else { return };
    let write = |number: usize, name: &str| {
        let literal = format!("--from-literal=value={name}");
        succeed(replicas.get(number).kubectl(&["create", "secret", "generic", name, &literal]));
        let read = || replicas.get(1 - number).kubectl(&["get", "secret", name, VALUE]).stdout;
        assert_eq!(String::from_utf8_lossy(&read()), STANDARD.encode(name), "the other replica reads it");
    };
    let keys = |plane: &Flotilla| -> Vec<String> {
        values(plane).as_object().map(|values| values.keys().cloned().collect()).unwrap_or_default()
    };
    write(0, "before-0");
    write(1, "before-1");
    let old = keys(replicas.get(0));
    assert_eq!(old.len(), 1, "{old:?}");
    ours(&["encryption", "rotate", "--config", path(&file), "--add-only"]);
    wait_for_reload(&replicas, 1);
    write(0, "added-0");
    write(1, "added-1");
    ours(&["encryption", "rotate", "--config", path(&file), "--use-added"]);
    write(0, "used-0");
    write(1, "used-1");
    wait_for_reload(&replicas, 2);
    eventually("all values have the new key", CROSSING, || {
        let new = keys(replicas.get(0));
        new.len() == 1 && new != old
    });
    let kubeconfig = replicas.get(1).kubeconfig.clone();
    ours(&["encryption", "prune", "--config", path(&file), "--kubeconfig", path(&kubeconfig)]);
    wait_for_reload(&replicas, 3);
    for name in ["before-0", "before-1", "added-0", "added-1", "used-0", "used-1"] {
        for number in 0..2 {
            let read = replicas.get(number).kubectl(&["get", "secret", name, VALUE]);
            assert_eq!(succeed(read), STANDARD.encode(name));
        }
    }
    // A replica without the configuration is refused, and not given a key of its own.
    replicas.stop(1);
    let empty = tempfile::tempdir().expect("a temporary directory");
    let etcd = replicas.etcd.flags();
    let arguments: Vec<&str> = etcd.iter().map(String::as_str).collect();
    let message = failed_start(empty.path(), &arguments);
    assert!(
        message.contains("the store is encrypted") && message.contains("--encryption-provider-config"),
        "{message}"
    );
}

/// Waits until both replicas have reloaded the file so many times.
fn wait_for_reload(replicas: &Replicas, times: usize) {
    for number in 0..2 {
        eventually("the configuration is reloaded", Duration::from_secs(30), || {
            replicas.get(number).log().matches("the encryption configuration was reloaded").count() >= times
        });
    }
}

#[test]
fn without_its_kms_plugin_a_server_is_alive_but_not_ready_and_stores_no_secret() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("config.yaml");
    let endpoint = format!("unix://{}/absent.sock", path(folder.path()));
    let kms = format!("[{{kms: {{apiVersion: v2, name: absent, endpoint: '{endpoint}', timeout: 1s}}}}]");
    std::fs::write(&file, configuration(&kms)).expect("written");
    let mut command = Command::new(binary());
    command.args(["server", "--bind", "127.0.0.1:0", "--data-dir"]).arg(folder.path());
    command.args(["--encryption-provider-config", path(&file)]).stdin(std::process::Stdio::null());
    let log = std::fs::File::create(folder.path().join("server.log")).expect("a log file");
    let mut server = command.stderr(log).spawn().expect("the server starts");
    let kubeconfig = folder.path().join("karmada-apiserver.config");
    let kubectl = |arguments: &[&str]| e2e::flotilla::kubectl(&kubeconfig, arguments);
    eventually("the server is alive", CROSSING, || {
        kubeconfig.exists() && kubectl(&["get", "--raw", "/livez"]).stdout.starts_with(b"ok")
    });
    let ready = text(&kubectl(&["get", "--raw", "/readyz?verbose"]));
    let refused = text(&kubectl(&["create", "secret", "generic", "a", "--from-literal=value=x"]));
    let others = kubectl(&["create", "configmap", "a", "--from-literal=value=x"]);
    let _ = server.kill();
    let _ = server.wait();
    assert!(ready.contains("[-]kms-providers failed"), "{ready}");
    assert!(refused.contains("/core/secrets/default/a cannot be encrypted: kms provider absent"), "{refused}");
    succeed(others);
}
