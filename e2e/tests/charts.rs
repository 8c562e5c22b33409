//! The Helm charts, rendered by real helm with user values, are accepted by an API server; so is `agent manifest`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use e2e::flotilla::{Flotilla, binary, programs};

fn charts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/charts")
}

/// Finds helm: `FLOTILLA_HELM`, the directory of the other programs, or the PATH.
fn helm() -> Option<PathBuf> {
    let named = std::env::var_os("FLOTILLA_HELM").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let candidates = named.into_iter().chain([programs().join("helm")]);
    let found = candidates.chain(std::env::split_paths(&path).map(|folder| folder.join("helm"))).find(|p| p.is_file());
    if found.is_none() {
        test_skip::skip(format_args!(
            "helm is missing; put it into {}, on the PATH, or name it with FLOTILLA_HELM",
            programs().display()
        ));
    }
    found
}

fn run(program: &Path, arguments: &[&str]) -> Output {
    let home = std::env::temp_dir().join("flotilla-helm");
    Command::new(program)
        .args(arguments)
        // The user's own helm configuration is not used.
        .env("HELM_CONFIG_HOME", &home)
        .env("HELM_CACHE_HOME", &home)
        .env("HELM_DATA_HOME", &home)
        .stdin(Stdio::null())
        .output()
        .expect("the program runs")
}

fn render(helm: &Path, chart: &str, values: &[&str]) -> Output {
    let chart = charts().join(chart);
    let chart = chart.to_str().expect("a path");
    let mut arguments = vec!["template", "test", chart, "--namespace", "default"];
    arguments.extend(values.iter().flat_map(|value| ["--set-json", value]));
    run(helm, &arguments)
}

/// Checks that the server accepts everything in a server-side dry run.
#[track_caller]
fn is_taken(server: &Flotilla, what: &str, manifests: &[u8]) -> String {
    let file = server.data_dir.join("manifests.yaml");
    std::fs::write(&file, manifests).expect("written");
    let file = file.to_str().expect("a path");
    let taken = server.kubectl(&["apply", "--dry-run=server", "--validate=strict", "-o", "name", "-f", file]);
    let names = String::from_utf8_lossy(&taken.stdout).into_owned();
    assert!(taken.status.success(), "{what}: {}", String::from_utf8_lossy(&taken.stderr));
    names
}

#[test]
fn charts_render_to_valid_manifests() {
    let Some(helm) = helm() else { return };
    let server = Flotilla::start();
    let etcd = [
        "replicas=3",
        r#"storage={"type":"etcd","etcd":{"servers":["https://a:2379","https://b:2379"],"tlsSecret":"etcd-client"}}"#,
    ];
    let own_keys = [
        "replicas=2",
        r#"storage={"type":"etcd","etcd":{"servers":["http://a:2379"]}}"#,
        r#"pkiSecret="flotilla-pki""#,
    ];
    let outside = [
        r#"service={"type":"LoadBalancer","loadBalancerClass":"tailscale","annotations":{"tailscale.com/hostname":"k"}}"#,
        r#"tlsNames=["karmada-apiserver.example.net","10.0.0.1"]"#,
        r#"advertiseUrl="https://karmada-apiserver.example.net:5443""#,
        r#"extraArgs=["--event-ttl=60"]"#,
        r#"nodeSelector={"kubernetes.io/os":"linux"}"#,
    ];
    let agent = [r#"clusterName="robbinsdale""#];
    let full_agent = [
        r#"clusterName="st-petersburg""#,
        "replicas=2",
        r#"provider="home""#,
        r#"region="us-south""#,
        r#"zones=["a","b"]"#,
        "tunnel=false",
        r#"kubeconfig={"existingSecret":"sealed","key":"config","context":"plane"}"#,
        r#"featureGates={"Failover":true,"CustomizedClusterResourceModeling":false}"#,
    ];
    let table: [(&str, &[&str], &[&str]); 6] = [
        ("flotilla", &[], &["statefulset.apps/test-flotilla", "service/test-flotilla"]),
        ("flotilla", &etcd, &["deployment.apps/test-flotilla", "poddisruptionbudget.policy/test-flotilla"]),
        ("flotilla", &own_keys, &["deployment.apps/test-flotilla"]),
        ("flotilla", &outside, &["statefulset.apps/test-flotilla"]),
        ("flotilla-agent", &agent, &["deployment.apps/test-flotilla-agent", "clusterrolebinding"]),
        ("flotilla-agent", &full_agent, &["deployment.apps/test-flotilla-agent", "serviceaccount/"]),
    ];
    for (chart, values, expected) in table {
        let rendered = render(&helm, chart, values);
        assert!(rendered.status.success(), "{chart} {values:?}: {}", String::from_utf8_lossy(&rendered.stderr));
        let names = is_taken(&server, chart, &rendered.stdout);
        for name in expected {
            assert!(names.contains(name), "{chart} {values:?} has no {name}: {names}");
        }
    }
}

#[test]
fn charts_report_invalid_values() {
    let Some(helm) = helm() else { return };
    let table: [(&str, &[&str], &str); 5] = [
        ("flotilla", &["replicas=3"], "replicas above 1 need storage.type etcd"),
        ("flotilla", &[r#"storage={"type":"etcd"}"#], "needs storage.etcd.servers"),
        ("flotilla", &["replica=3"], "replica"),
        ("flotilla-agent", &[], "clusterName"),
        ("flotilla-agent", &[r#"clusterName="Not A Name""#], "clusterName"),
    ];
    for (chart, values, expected) in table {
        let rendered = render(&helm, chart, values);
        let said = String::from_utf8_lossy(&rendered.stderr);
        assert!(!rendered.status.success() && said.contains(expected), "{chart} {values:?}: {said}");
    }
}

#[test]
fn charts_pass_the_linter() {
    let Some(helm) = helm() else { return };
    for (chart, values) in [("flotilla", "log=info"), ("flotilla-agent", "clusterName=ottawa")] {
        let chart = charts().join(chart);
        let linted = run(&helm, &["lint", "--strict", chart.to_str().expect("a path"), "--set", values]);
        assert!(linted.status.success(), "{}", String::from_utf8_lossy(&linted.stdout));
    }
}

#[test]
fn the_printed_agent_manifest_is_valid() {
    let server = Flotilla::start();
    // A dry run in a namespace needs that namespace.
    assert!(server.kubectl(&["create", "namespace", "fleet"]).status.success());
    let kubeconfig = server.kubeconfig.to_str().expect("a path");
    let flags = ["agent", "manifest", "--cluster-name=ottawa", "--namespace=fleet", "--cluster-zones=a,b"];
    let table: [(&[&str], bool); 2] =
        [(&["--kubeconfig-secret=sealed", "--replicas=2"], false), (&["--karmada-kubeconfig", kubeconfig], true)];
    for (more, has_secret) in table {
        let printed = run(&binary(), &[&flags, more].concat());
        assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
        let names = is_taken(&server, "the manifest", &printed.stdout);
        assert!(names.contains("deployment.apps/karmada-agent"), "{names}");
        assert_eq!(names.contains("secret/karmada-kubeconfig"), has_secret, "{names}");
    }
}
