//! The Helm charts, rendered by real helm with user values, are accepted by an API server; so is `agent manifest`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use e2e::flotilla::{Flotilla, binary, programs};
use serde_json::Value;

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
    serve_monitors(&server);
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
    let own_etcd = [
        "replicas=3",
        r#"storage={"type":"etcd","etcd":{"install":true,"replicas":3}}"#,
        r#"networkPolicy={"enabled":true,"from":[{"namespaceSelector":{}}]}"#,
        r#"commonLabels={"team":"fleet"}"#,
    ];
    let secured = [
        r#"storage={"embedded":{"volume":"hostPath","hostPath":"/var/lib/flotilla"}}"#,
        r#"oidc={"issuerUrl":"https://issuer.example.net","clientId":"f","groupsClaim":"groups","requiredClaims":{"a":"b"},"caSecret":"issuer"}"#,
        r#"encryption={"existingSecret":"encryption"}"#,
        r#"featureGates={"Failover":true,"WorkloadAffinity":false}"#,
        r#"extraEnv=[{"name":"A","value":"b"}]"#,
        r#"extraVolumes=[{"name":"audit","emptyDir":{}}]"#,
        r#"extraVolumeMounts=[{"name":"audit","mountPath":"/audit"}]"#,
        r#"extraContainers=[{"name":"side","image":"side:1"}]"#,
        r#"global={"imageRegistry":"registry.example.net"}"#,
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
        r#"networkPolicy={"enabled":true}"#,
        r#"extraEnv=[{"name":"A","value":"b"}]"#,
    ];
    let manager = [
        "grpcReflection=true",
        r#"pkiSecret="manager-pki""#,
        r#"storage={"size":"1Gi","storageClassName":"fast"}"#,
        r#"tlsNames=["manager.example.net"]"#,
    ];
    let full_manager = [
        r#"global={"imageRegistry":"registry.example.net"}"#,
        DIGEST,
        r#"commonLabels={"team":"fleet"}"#,
        r#"instancesDomain="example.net""#,
        r#"kubeconfigSecret={"create":true,"name":"m"}"#,
        r#"oidc={"issuerUrl":"https://issuer.example.net","clientId":"f","groupsClaim":"groups","groupsPrefix":"x:","requiredClaims":{"a":"b"},"caSecret":"issuer"}"#,
        r#"encryption={"existingSecret":"encryption"}"#,
        r#"extraEnv=[{"name":"A","value":"b"}]"#,
        r#"extraEnvFrom=[{"secretRef":{"name":"env"}}]"#,
        r#"extraVolumes=[{"name":"audit","emptyDir":{}}]"#,
        r#"extraVolumeMounts=[{"name":"audit","mountPath":"/audit"}]"#,
        r#"extraContainers=[{"name":"side","image":"side:1"}]"#,
        r#"extraInitContainers=[{"name":"first","image":"side:1"}]"#,
        r#"podDisruptionBudget={"enabled":true}"#,
        r#"networkPolicy={"enabled":true,"from":[{"namespaceSelector":{}}]}"#,
        MONITOR,
    ];
    let watched = [MONITOR, DIGEST];
    let table: [(&str, &[&str], &[&str]); 13] = [
        ("flotilla-manager", &[], &["statefulset.apps/test-flotilla-manager", "service/test-flotilla-manager"]),
        ("flotilla-manager", &manager, &["statefulset.apps/test-flotilla-manager"]),
        (
            "flotilla-manager",
            &full_manager,
            &[
                "statefulset.apps/test-flotilla-manager",
                "poddisruptionbudget.policy/test-flotilla-manager",
                "networkpolicy.networking.k8s.io/test-flotilla-manager",
                "servicemonitor.monitoring.coreos.com/test-flotilla-manager",
                "role.rbac.authorization.k8s.io/test-flotilla-manager-kubeconfig",
            ],
        ),
        ("flotilla", &watched, &["servicemonitor.monitoring.coreos.com/test-flotilla"]),
        (
            "flotilla-agent",
            &[r#"clusterName="ottawa""#, r#"serviceMonitor={"enabled":true}"#, DIGEST],
            &["servicemonitor.monitoring.coreos.com/test-flotilla-agent"],
        ),
        ("flotilla", &[], &["statefulset.apps/test-flotilla", "service/test-flotilla"]),
        ("flotilla", &etcd, &["deployment.apps/test-flotilla", "poddisruptionbudget.policy/test-flotilla"]),
        ("flotilla", &own_keys, &["deployment.apps/test-flotilla"]),
        ("flotilla", &outside, &["statefulset.apps/test-flotilla"]),
        (
            "flotilla",
            &own_etcd,
            &["statefulset.apps/test-flotilla-etcd", "networkpolicy.networking.k8s.io/test-flotilla-etcd", "secret/"],
        ),
        ("flotilla", &secured, &["statefulset.apps/test-flotilla", "role.rbac.authorization.k8s.io/"]),
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
        if values.contains(&DIGEST) {
            let images = String::from_utf8_lossy(&rendered.stdout).matches("flotilla@sha256:0123456789").count();
            assert_eq!(images, 1, "{chart} {values:?}");
        }
    }
}

/// The rendered flags are those of the commands that the pods run.
#[test]
fn charts_use_flags_the_program_has() {
    let Some(helm) = helm() else { return };
    let oidc = r#"oidc={"issuerUrl":"https://issuer.example.net","clientId":"f","usernamePrefix":"u:","groupsClaim":"g","groupsPrefix":"g:","requiredClaims":{"a":"b"},"caSecret":"issuer"}"#;
    let shared = [oidc, r#"encryption={"existingSecret":"e"}"#, r#"pkiSecret="p""#, r#"tlsNames=["a"]"#];
    let etcd = [
        r#"storage={"type":"etcd","etcd":{"servers":["https://a:2379"],"tlsSecret":"t"}}"#,
        r#"featureGates={"Failover":true}"#,
    ];
    let manager =
        ["allowLoopbackEndpoints=true", "sharedMembers=true", "grpcReflection=true", r#"instancesDomain="d""#];
    let agent = [
        r#"clusterName="a""#,
        r#"provider="p""#,
        r#"region="r""#,
        r#"zones=["z"]"#,
        r#"apiEndpoint="https://a""#,
        r#"proxyServerAddress="http://p""#,
        r#"featureGates={"Failover":true}"#,
        r#"kubeconfig={"context":"c"}"#,
    ];
    for (chart, command, values) in [
        ("flotilla", "server", [&shared[..], &etcd].concat()),
        ("flotilla-manager", "manager", [&shared[..], &manager].concat()),
        ("flotilla-agent", "agent", agent.to_vec()),
    ] {
        let help = run(&binary(), &[command, "--help"]);
        let help = String::from_utf8_lossy(&help.stdout).into_owned();
        let rendered = render(&helm, chart, &values);
        assert!(rendered.status.success(), "{chart}: {}", String::from_utf8_lossy(&rendered.stderr));
        let rendered = String::from_utf8_lossy(&rendered.stdout).into_owned();
        let lines = rendered.lines().map(|line| line.trim_start().trim_start_matches("- ").trim_matches('"'));
        let flags: Vec<&str> = lines.filter(|line| line.starts_with("--") && line.len() > 3).collect();
        assert!(flags.len() > values.len(), "{chart}: {flags:?}");
        for flag in flags {
            let name = flag.split('=').next().unwrap_or(flag);
            let has = help.lines().any(|line| line.split([' ', ',', '[']).any(|word| word == name));
            assert!(has, "{chart} uses {name}, which `flotilla {command}` does not have");
        }
    }
}

const DIGEST: &str = r#"image={"repository":"flotilla","digest":"sha256:0123456789012345678901234567890123456789012345678901234567890123"}"#;
const MONITOR: &str = r#"serviceMonitor={"enabled":true,"labels":{"a":"b"},"tokenSecret":{"name":"token"}}"#;

/// Serves the kind of the Prometheus operator, so that its objects can be checked.
fn serve_monitors(server: &Flotilla) {
    let definition = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "servicemonitors.monitoring.coreos.com"},
        "spec": {"group": "monitoring.coreos.com", "scope": "Namespaced",
            "names": {"plural": "servicemonitors", "singular": "servicemonitor", "kind": "ServiceMonitor"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}"#;
    let file = server.data_dir.join("monitors.json");
    std::fs::write(&file, definition).expect("written");
    let created = server.kubectl(&["create", "-f", file.to_str().expect("a path")]);
    assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
    let name = "crd/servicemonitors.monitoring.coreos.com";
    let served = server.kubectl(&["wait", "--for=condition=Established", name, "--timeout=60s"]);
    assert!(served.status.success(), "{}", String::from_utf8_lossy(&served.stderr));
}

#[test]
fn charts_report_invalid_values() {
    let Some(helm) = helm() else { return };
    let both = [r#"storage={"type":"etcd","etcd":{"install":true,"servers":["http://a:2379"]}}"#];
    let table: [(&str, &[&str], &str); 14] = [
        ("flotilla-manager", &["replicas=3"], "replicas"),
        ("flotilla-manager", &[r#"image={"repository":"f","digest":"sha256:1"}"#], "digest"),
        ("flotilla-manager", &[r#"oidc={"issuerUrl":"https://x"}"#], "oidc.clientId"),
        ("flotilla-manager", &[r#"serviceMonitor={"enabled":true}"#], "serviceMonitor.tokenSecret.name"),
        ("flotilla-manager", &[r#"networkPolicy={"to":[]}"#], "networkPolicy"),
        ("flotilla", &["replicas=3"], "replicas above 1 need storage.type etcd"),
        ("flotilla", &[r#"storage={"type":"etcd"}"#], "needs storage.etcd.servers"),
        ("flotilla", &["replica=3"], "replica"),
        ("flotilla", &both, "cannot be combined with storage.etcd.install"),
        ("flotilla", &[r#"storage={"embedded":{"volume":"tape"}}"#], "volume"),
        ("flotilla", &[r#"oidc={"issuerUrl":"https://x"}"#], "oidc.clientId"),
        ("flotilla", &[r#"serviceMonitor={"enabled":true}"#], "serviceMonitor.tokenSecret.name"),
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
    for (chart, values) in
        [("flotilla", "log=info"), ("flotilla-manager", "log=info"), ("flotilla-agent", "clusterName=ottawa")]
    {
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

/// Reads manifests, without the labels that only one of the tools sets, by kind and name.
fn comparable(manifests: &[u8]) -> BTreeMap<String, Value> {
    let text = String::from_utf8_lossy(manifests);
    let documents = text.split("\n---").map(|part| part.trim_start_matches("---"));
    let parsed = documents.filter_map(|part| serde_saphyr::from_str::<Value>(part).ok().filter(Value::is_object));
    let mut found = BTreeMap::new();
    for mut object in parsed {
        drop_labels(&mut object);
        found.insert(format!("{}/{}", object["kind"], object["metadata"]["name"]), object);
    }
    found
}

fn drop_labels(value: &mut Value) {
    if let Some(labels) = value.get_mut("labels").and_then(Value::as_object_mut) {
        for key in ["helm.sh/chart", "app.kubernetes.io/managed-by", "karmada.io/bootstrapping", "app"] {
            labels.remove(key);
        }
    }
    match value {
        Value::Object(map) => map.values_mut().for_each(drop_labels),
        Value::Array(items) => items.iter_mut().for_each(drop_labels),
        _ => {}
    }
}

const ENCRYPTION: &str = "\"Secret\"/\"karmada-apiserver-encryption\"";

/// Checks the configuration in a Secret and leaves out the key, which is random.
fn without_key(mut secret: Value) -> Value {
    let text = secret["stringData"]["encryption.yaml"].take();
    let config: Value = serde_saphyr::from_str(text.as_str().expect("a configuration")).expect("YAML");
    assert_eq!(config["kind"], "EncryptionConfiguration");
    let entry = &config["resources"][0];
    assert_eq!(entry["resources"], serde_json::json!(["secrets"]));
    let key = entry["providers"][0]["secretbox"]["keys"][0]["secret"].as_str().expect("a key");
    assert_eq!(key.trim_end_matches('=').len(), 43, "32 bytes in base64");
    assert!(entry["providers"][1]["identity"].is_object());
    // The chart says that it is kept when a release is removed.
    secret["metadata"].as_object_mut().expect("metadata").remove("annotations");
    secret
}

#[test]
fn init_installs_the_manifests_of_the_chart() {
    let Some(helm) = helm() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, name).expect("written");
        path.display().to_string()
    };
    let (certificate, key) = (file("crt"), file("key"));
    let etcd_flags = [
        "--karmada-apiserver-replicas=3",
        "--external-etcd-servers=https://a:2379,https://b:2379",
        "--external-etcd-key-prefix=/p",
        &format!("--external-etcd-ca-cert-path={certificate}"),
        &format!("--external-etcd-client-cert-path={certificate}"),
        &format!("--external-etcd-client-key-path={key}"),
        &format!("--ca-cert-file={certificate}"),
        &format!("--ca-key-file={key}"),
    ];
    let etcd_values = [
        "replicas=3",
        r#"storage={"type":"etcd","etcd":{"servers":["https://a:2379","https://b:2379"],"prefix":"/p","tlsSecret":"etcd-cert"}}"#,
        r#"pkiSecret="karmada-cert""#,
    ];
    let claim_flags = [
        "--etcd-storage-mode=PVC",
        "--storage-classes-name=fast",
        "--etcd-pvc-size=7Gi",
        "--cert-external-ip=10.0.0.9",
        "--karmada-apiserver-extra-args=--event-ttl=60",
        "--image-pull-secrets=pull",
        "--etcd-node-selector-labels=disk=ssd",
        "--karmada-apiserver-priority-class=high",
    ];
    let claim_values = [
        r#"storage={"embedded":{"storageClassName":"fast","size":"7Gi"}}"#,
        r#"tlsNames=["10.0.0.9"]"#,
        r#"extraArgs=["--event-ttl=60"]"#,
        r#"imagePullSecrets=[{"name":"pull"}]"#,
        r#"nodeSelector={"disk":"ssd"}"#,
        r#"priorityClassName="high""#,
    ];
    let host_values = [
        r#"storage={"embedded":{"volume":"hostPath","hostPath":"/d"}}"#,
        r#"podSecurityContext={"runAsUser":0,"runAsGroup":0,"runAsNonRoot":null,"fsGroup":null}"#,
    ];
    let table: [(&[&str], &[&str]); 3] =
        [(&["--etcd-data=/d"], &host_values), (&claim_flags, &claim_values), (&etcd_flags, &etcd_values)];
    for (flags, values) in table {
        let common = [r#"fullnameOverride="karmada-apiserver""#, r#"service={"type":"NodePort","nodePort":32443}"#];
        let chart = charts().join("flotilla");
        let mut arguments = vec!["template", "karmada-apiserver", chart.to_str().expect("a path")];
        arguments.extend(["--namespace", "karmada-system"]);
        arguments.extend(common.iter().chain(values).flat_map(|value| ["--set-json", value]));
        let rendered = run(&helm, &arguments);
        assert!(rendered.status.success(), "{values:?}: {}", String::from_utf8_lossy(&rendered.stderr));
        let printed = run(&binary(), &[&["init", "--print-manifest-only"], flags].concat());
        assert!(printed.status.success(), "{flags:?}: {}", String::from_utf8_lossy(&printed.stderr));
        let (mut chart, mut own) = (comparable(&rendered.stdout), comparable(&printed.stdout));
        let (of_chart, of_init) = (chart.remove(ENCRYPTION), own.remove(ENCRYPTION));
        assert_eq!(of_chart.is_some(), values == etcd_values, "{values:?}: keys for what is stored in etcd");
        assert_eq!(of_chart.map(without_key), of_init.map(without_key), "{flags:?}");
        // The chart leaves the namespace and the other secrets to the user.
        own.retain(|key, _| !key.starts_with("\"Namespace") && !key.starts_with("\"Secret"));
        assert_eq!(own.keys().collect::<Vec<_>>(), chart.keys().collect::<Vec<_>>(), "{flags:?}");
        for (key, object) in &own {
            assert_eq!(object, &chart[key], "{flags:?}: {key}");
        }
    }
}
