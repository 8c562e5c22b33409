//! The manager with real kubectl: its kinds, the life cycle of instances, and the proxy to them.

use std::time::Duration;

use e2e::flotilla::kubectl;
use e2e::manager::{ManagerProcess, apply, eventually, karmada, ready, text};
use serde_json::{Value, json};

#[test]
fn an_instance_with_an_empty_spec_lives_in_the_manager() {
    let manager = ManagerProcess::start(&[]);
    let listed = manager.kubectl(&["get", "karmadas", "-A"]);
    assert!(listed.status.success() && text(&listed).contains("No resources found"), "{}", text(&listed));
    manager.create("east", json!({}), json!({}));
    let instance = manager.wait_for("east", "Completed");
    assert_eq!(instance["status"]["phase"], "Running");
    assert_eq!(instance["status"]["mode"], "in-process");
    assert_eq!(instance["status"]["secretRef"]["name"], "east-karmada-admin-config");
    assert_eq!(instance["status"]["apiServerService"]["name"], "east-karmada-apiserver");
    assert_eq!(instance["status"]["observedGeneration"], instance["metadata"]["generation"]);
    assert_eq!(instance["metadata"]["finalizers"], json!(["operator.karmada.io/finalizer"]));
    assert_eq!(instance["metadata"]["labels"]["operator.karmada.io/disable-cascading-deletion"], "false");
    let listed = text(&manager.kubectl(&["get", "karmadas", "-A"]));
    assert!(listed.contains("READY") && listed.contains("True"), "{listed}");

    // The plane's own administrator reaches it through the manager's listener.
    let admin = manager.admin_kubeconfig("east");
    let clusters = kubectl(&admin, &["get", "clusters"]);
    assert!(clusters.status.success(), "{}", text(&clusters));
    let who = text(&kubectl(&admin, &["auth", "whoami"]));
    assert!(who.contains("system:admin"), "{who}");
    let made = kubectl(&admin, &["create", "configmap", "a", "--from-literal=x=1"]);
    assert!(made.status.success(), "{}", text(&made));

    // The manager's administrator has the same rights there.
    let through =
        manager.kubectl(&["--server", &endpoint(&instance), "get", "configmap", "a", "-o", "jsonpath={.data.x}"]);
    assert_eq!(text(&through), "1");

    // Data survives a restart of the manager, and the kubeconfig stays valid.
    let manager = manager.restart("TERM");
    manager.wait_for("east", "Completed");
    let kept = || {
        let found = kubectl(&admin, &["get", "configmap", "a", "-o", "jsonpath={.data.x}"]);
        if text(&found) == "1" { Ok(()) } else { Err(text(&found)) }
    };
    eventually(Duration::from_secs(20), kept, || manager.server.log());

    let directory = instance["status"]["directory"].as_str().expect("a directory").to_owned();
    let deleted = manager.kubectl(&["delete", "karmada", "-n", "karmada-system", "east", "--timeout=30s"]);
    assert!(deleted.status.success(), "{}", text(&deleted));
    manager.wait_until_gone("east");
    assert!(!std::path::Path::new(&directory).exists(), "the data is moved away");
    assert_eq!(std::fs::read_dir(manager.directory.path().join("trash")).expect("the trash").count(), 1);
    let secret = manager.kubectl(&["get", "secret", "-n", "karmada-system", "east-karmada-admin-config"]);
    assert!(!secret.status.success(), "{}", text(&secret));
}

fn endpoint(instance: &Value) -> String {
    instance["status"]["endpoint"].as_str().expect("an endpoint").to_owned()
}

#[test]
fn every_field_is_honoured_warned_about_or_refused() {
    let manager = ManagerProcess::start(&[]);
    let components = json!({
        "etcd": {"local": {"volumeData": {"emptyDir": {}}}},
        "karmadaAPIServer": {"imageRepository": "registry.example/kube-apiserver", "replicas": 1,
            "serviceType": "ClusterIP", "certSANs": ["east.example.com"],
            "extraArgs": {"event-ttl": "30m", "profiling": "false"}},
        "karmadaControllerManager": {"replicas": 2, "controllers": ["*"],
            "extraArgs": {"cluster-failure-threshold": "45s"}},
        "karmadaScheduler": {"extraArgs": {"scheduler-name": "default-scheduler"}},
        "karmadaDescheduler": {"extraArgs": {"descheduling-interval": "5m"}},
    });
    let spec = json!({"featureGates": {"Failover": true, "NoSuchGate": true}, "components": components});
    let applied = manager.apply(&karmada("east", json!({}), spec));
    let said = text(&applied);
    assert!(applied.status.success(), "{said}");
    for warned in ["emptyDir", "featureGates[NoSuchGate]", "extraArgs[profiling]", "karmadaControllerManager.replicas"]
    {
        assert!(said.contains(warned), "{warned} is not warned about: {said}");
    }
    for honoured in ["certSANs", "event-ttl", "cluster-failure-threshold", "imageRepository"] {
        assert!(!said.contains(honoured), "{honoured} is warned about: {said}");
    }
    let instance = manager.wait_for("east", "Completed");
    let conditions = instance["status"]["conditions"].to_string();
    assert!(conditions.contains("SpecIgnored") && conditions.contains("emptyDir"), "{conditions}");

    let file = json!({"components": {"karmadaAPIServer": {"extraArgs": {"audit-log-path": "/etc/passwd"}}}});
    let host = json!({"hostCluster": {"secretRef": {"namespace": "a", "name": "b"}}});
    let flag = json!({"components": {"karmadaControllerManager": {"extraArgs": {"cluster-monitor-period": "soon"}}}});
    let controllers = json!({"components": {"karmadaControllerManager": {"controllers": ["no-such-controller"]}}});
    let cases: [(&str, Value, Value, &str); 8] = [
        ("a", json!({}), file, "names a file of the host"),
        ("a", json!({}), host, "import it"),
        ("a", json!({}), flag, "cluster-monitor-period"),
        ("a", json!({}), controllers, "no-such-controller"),
        ("a", json!({"flotilla.dev/mode": "remote"}), json!({}), "must be one of"),
        ("a", json!({"flotilla.dev/unknown": "x"}), json!({}), "is not a known annotation"),
        ("config", json!({}), json!({}), "is reserved"),
        ("a.b", json!({}), json!({}), "must not contain dots"),
    ];
    for (name, annotations, spec, expected) in cases {
        let refused = manager.apply(&karmada(name, annotations, spec));
        assert!(!refused.status.success() && text(&refused).contains(expected), "{expected}: {}", text(&refused));
    }
    let listed = text(&manager.kubectl(&["get", "karmadas", "-A", "-o", "name"]));
    assert_eq!(listed.trim(), "karmada.operator.karmada.io/east", "what is refused changes nothing");
    networks_and_certificates_of_an_instance_are_its_own(&manager);
}

/// The subnet of services and the validity of certificates.
fn networks_and_certificates_of_an_instance_are_its_own(manager: &ManagerProcess) {
    let components = json!({"karmadaAPIServer": {"serviceSubnet": "10.77.0.0/16"}});
    let spec = json!({"components": components, "customCertificate": {"leafCertValidityDays": 3}});
    let applied = manager.apply(&karmada("own", json!({}), spec));
    let said = text(&applied);
    assert!(applied.status.success() && !said.contains("Warning"), "{said}");
    manager.wait_for("own", "Completed");
    let admin = manager.admin_kubeconfig("own");
    let own = |arguments: &[&str]| kubectl(&admin, arguments);
    assert!(own(&["create", "service", "clusterip", "web", "--tcp=80"]).status.success());
    let address = text(&own(&["get", "service", "web", "-o", "jsonpath={.spec.clusterIP}"]));
    assert!(address.starts_with("10.77."), "{address}");
    let healthy = manager.flotilla(&["instance", "diagnose", "own"]);
    assert!(healthy.status.success() && text(&healthy).contains("no problem was found"), "{}", text(&healthy));
    let listed = text(&manager.flotilla(&["instance", "components", "own"]));
    assert!(listed.contains("informer-sync") && listed.contains("controller"), "{listed}");
}

#[test]
fn instances_are_isolated_from_each_other() {
    let manager = ManagerProcess::start(&[]);
    // A plane that cannot start: nothing listens on its etcd.
    let broken = json!({"components": {"etcd": {"external": {"endpoints": ["http://127.0.0.1:1"]}}}});
    manager.create("broken", json!({}), broken);
    for name in ["east", "west"] {
        manager.create(name, json!({}), json!({}));
    }
    let (east, west) = (manager.wait_for("east", "Completed"), manager.wait_for("west", "Completed"));
    let failed = manager.wait_for("broken", "Failed");
    assert!(ready(&failed)["message"].as_str().is_some_and(|text| text.contains("etcd")), "{}", ready(&failed));
    assert_ne!(east["status"]["identity"], west["status"]["identity"]);

    // The certificate of one plane is rejected by the other and by the manager.
    let admin = manager.admin_kubeconfig("east");
    let west_url = endpoint(&west);
    let manager_url = west_url.split("/instances").next().expect("a URL").to_owned();
    for url in [west_url.as_str(), manager_url.as_str()] {
        let refused = kubectl(&admin, &["--server", url, "get", "namespaces"]);
        assert!(!refused.status.success(), "{url} accepted a foreign certificate: {}", text(&refused));
        assert!(text(&refused).contains("must be logged in"), "{}", text(&refused));
    }
    // So is a token of a service account.
    let token = text(&kubectl(&admin, &["create", "token", "default"]));
    let own = |url: &str| {
        let ca = admin_ca(&manager);
        kubectl(&ca, &["--server", url, "--token", token.trim(), "auth", "whoami"])
    };
    let accepted = own(&endpoint(&east));
    assert!(accepted.status.success(), "{}", text(&accepted));
    for url in [west_url.as_str(), manager_url.as_str()] {
        assert!(!own(url).status.success(), "{url} accepted a foreign token");
    }

    // An unknown instance and a missing credential look the same.
    let unknown = manager.kubectl(&["--server", &format!("{manager_url}/instances/north"), "get", "namespaces"]);
    assert!(!unknown.status.success(), "{}", text(&unknown));
    let deleted = manager.kubectl(&["delete", "karmada", "-n", "karmada-system", "broken", "--timeout=30s"]);
    assert!(deleted.status.success(), "{}", text(&deleted));
}

/// Returns a kubeconfig that trusts the manager and has no credential.
fn admin_ca(manager: &ManagerProcess) -> std::path::PathBuf {
    let text = std::fs::read_to_string(&manager.server.kubeconfig).expect("a kubeconfig");
    let is_credential = |line: &&str| line.contains("client-certificate-data") || line.contains("client-key-data");
    let without = |line: &str| if line.trim() == "user:" { format!("{line} {{}}") } else { line.to_owned() };
    let kept: Vec<String> = text.lines().filter(|line| !is_credential(line)).map(without).collect();
    let path = manager.directory.path().join("anonymous.config");
    std::fs::write(&path, kept.join("\n")).expect("written");
    path
}

#[test]
fn instances_are_suspended_restarted_protected_and_kept() {
    let manager = ManagerProcess::start(&[]);
    manager.create("east", json!({}), json!({}));
    let first = manager.wait_for("east", "Completed");
    let done = manager.flotilla(&["instance", "suspend", "east"]);
    assert!(done.status.success(), "{}", text(&done));
    let suspended = manager.wait_for("east", "Suspended");
    assert_eq!(suspended["status"]["phase"], "Suspended");
    assert_eq!(ready(&suspended)["status"], "True", "a suspended plane goes on");
    assert!(manager.flotilla(&["instance", "resume", "east"]).status.success());
    manager.wait_for("east", "Completed");
    // Status has whole seconds: a restart in the second of the first start could not be recognised.
    let second = || std::time::UNIX_EPOCH.elapsed().expect("a clock").as_secs();
    let ready_at = second();
    let next = || if second() > ready_at { Ok(()) } else { Err("the clock stands still".to_owned()) };
    eventually(Duration::from_secs(30), next, || manager.server.log());
    assert!(manager.flotilla(&["instance", "restart", "east"]).status.success());
    let restarted = || {
        let now = manager.instance("east").unwrap_or_default();
        let is_new = now["status"]["startedAt"].as_str() > first["status"]["startedAt"].as_str();
        if is_new && ready(&now)["reason"] == "Completed" { Ok(()) } else { Err(now["status"].to_string()) }
    };
    eventually(Duration::from_secs(30), restarted, || manager.server.log());

    let annotate = ["annotate", "karmada", "-n", "karmada-system", "east"];
    assert!(manager.kubectl(&[&annotate[..], &["flotilla.dev/protected=true"]].concat()).status.success());
    let refused = manager.kubectl(&["delete", "karmada", "-n", "karmada-system", "east", "--timeout=5s"]);
    assert!(!refused.status.success() && text(&refused).contains("is protected"), "{}", text(&refused));
    assert!(manager.kubectl(&[&annotate[..], &["flotilla.dev/protected-"]].concat()).status.success());

    let kept = manager.flotilla(&["instance", "delete", "east", "--keep"]);
    assert!(kept.status.success(), "{}", text(&kept));
    assert_eq!(std::fs::read_dir(manager.directory.path().join("released")).expect("released").count(), 1);
    assert!(!manager.directory.path().join("trash").exists(), "a kept plane is not thrown away");
}

#[test]
fn clusters_hold_the_deletion_of_an_instance() {
    let manager = ManagerProcess::start(&[]);
    manager.create("east", json!({}), json!({}));
    manager.wait_for("east", "Completed");
    let admin = manager.admin_kubeconfig("east");
    let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "m1"},
        "spec": {"syncMode": "Pull"}});
    let joined = apply(&admin, &cluster);
    assert!(joined.status.success(), "{}", text(&joined));
    let asked = manager.kubectl(&["delete", "karmada", "-n", "karmada-system", "east", "--wait=false"]);
    assert!(asked.status.success(), "{}", text(&asked));
    let held = manager.wait_for("east", "ClustersJoined");
    assert!(ready(&held)["message"].as_str().is_some_and(|text| text.contains("1 clusters")), "{}", ready(&held));
    let removed = kubectl(&admin, &["delete", "cluster", "m1", "--timeout=30s"]);
    assert!(removed.status.success(), "{}", text(&removed));
    manager.wait_until_gone("east");
}

#[test]
fn an_idle_instance_hibernates_and_a_request_wakes_it() {
    let manager = ManagerProcess::start(&[]);
    manager.create("east", json!({"flotilla.dev/hibernate-after": "1s"}), json!({}));
    let asleep = manager.wait_for("east", "Hibernated");
    assert_eq!(asleep["status"]["phase"], "Hibernated");
    let woken = manager.kubectl(&["--server", &endpoint(&asleep), "get", "namespaces"]);
    assert!(woken.status.success() && text(&woken).contains("kube-system"), "{}", text(&woken));
    manager.wait_for("east", "Hibernated");
}
