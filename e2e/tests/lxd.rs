//! A testbed in system containers: three members with their own processes and network, joined through forwarded
//! ports.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use e2e::eventually::eventually;
use e2e::fleet::text;
use e2e::flotilla::binary;
use e2e::testbed::{CROSSING, Testbed};
use serde_json::Value;

const PLANE: &str = "karmada-apiserver";
const MEMBERS: [&str; 3] = ["member1", "member2", "member3"];

/// Skips the test on hosts without LXD or Incus, with the message of `flotilla prepare`.
fn is_missing() -> bool {
    let words = ["prepare", "--provisioner", "lxd", "--dry-run", "--json"];
    let output = Command::new(binary()).args(words).stdin(Stdio::null()).output().expect("flotilla runs");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)));
    let checks = report["checks"].as_array().cloned().unwrap_or_default();
    let needed = ["daemon", "dnsmasq", "busybox"];
    let missing = checks
        .iter()
        .find(|check| check["standing"] == "broken" && needed.contains(&check["name"].as_str().unwrap_or_default()));
    if let Some(check) = missing {
        test_skip::skip(format_args!("{}: {}; run `make test` as root to install it", check["name"], check["detail"]));
    }
    missing.is_some()
}

fn bed(home: &tempfile::TempDir) -> Testbed {
    Testbed::at(home.path(), &format!("lxd{}", std::process::id()))
}

/// Returns the member's process as seen by this host.
fn process_of(bed: &Testbed, member: &str) -> Option<u32> {
    // The same member of another testbed has the same command, so its cgroup is compared.
    let name = bed.directory().file_name()?.to_str()?.to_owned();
    let entries = std::fs::read_dir("/proc").ok()?;
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()?.parse::<u32>().ok()).find(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let cgroup = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        line.starts_with("/usr/bin/flotilla member ") && cgroup.contains(&format!("{name}-{member}"))
    })
}

fn namespace(pid: u32, kind: &str) -> PathBuf {
    std::fs::read_link(format!("/proc/{pid}/ns/{kind}")).expect("a namespace")
}

fn port_of(bed: &Testbed, member: &str) -> u16 {
    let part = bed.part(member);
    let address = part["address"].as_str().unwrap_or_default();
    address.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("{member}: {part}"))
}

const NGINX: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: nginx, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: nginx}}
  template:
    metadata: {labels: {app: nginx}}
    spec: {containers: [{name: nginx, image: 'nginx:1.27'}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: nginx, namespace: default}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: nginx}]
  placement: {clusterAffinity: {clusterNames: [member1, member2, member3]}}
";

fn document(data: &str) -> String {
    format!(
        "
apiVersion: v1
kind: ConfigMap
metadata: {{name: greeting, namespace: default}}
data: {{text: {data}}}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {{name: greeting, namespace: default}}
spec:
  resourceSelectors: [{{apiVersion: v1, kind: ConfigMap, name: greeting}}]
  placement: {{clusterAffinity: {{clusterNames: [member1, member2, member3]}}}}
"
    )
}

#[test]
fn three_members_in_system_containers_are_joined_ready_and_removed() {
    if is_missing() {
        return;
    }
    let home = tempfile::tempdir().expect("a temporary directory");
    let bed = bed(&home);
    let said = bed.bring_up(&["--provisioner", "lxd", "--memory", "512MiB"]);
    assert!(said.contains("The testbed is ready"), "{said}");
    for member in MEMBERS {
        bed.wait_ready(member, "True");
        let mode = if member == "member3" { "Pull" } else { "Push" };
        bed.wait(PLANE, &["get", "cluster", member, "-o=jsonpath={.spec.syncMode}"], mode);
    }
    they_are_apart(&bed);
    bed.apply(NGINX);
    bed.apply(&document("hello"));
    for member in MEMBERS {
        bed.wait(member, &["get", "deploy", "nginx", "-o=jsonpath={.status.readyReplicas}"], "2");
        bed.wait(member, &["get", "configmap", "greeting", "-o=jsonpath={.data.text}"], "hello");
    }

    bed.wait(PLANE, &["get", "deploy", "nginx", "-o=jsonpath={.status.readyReplicas}"], "6");
    bed.run_ok(&["doctor"]);

    // One member is stopped and restarted with its data; the others are not affected.
    bed.run_ok(&["stop", "member1"]);
    bed.wait_ready("member1", "False");
    bed.apply(&document("again"));
    for member in ["member2", "member3"] {
        bed.wait(member, &["get", "configmap", "greeting", "-o=jsonpath={.data.text}"], "again");
    }
    bed.run_ok(&["start", "member1"]);
    bed.wait_ready("member1", "True");
    bed.wait("member1", &["get", "configmap", "greeting", "-o=jsonpath={.data.text}"], "again");

    // Another `up` does not touch healthy members.
    let before = MEMBERS.map(|member| process_of(&bed, member));
    bed.run_ok(&["up"]);
    assert_eq!(MEMBERS.map(|member| process_of(&bed, member)), before);
    let ports = MEMBERS.map(|member| port_of(&bed, member));
    microk8s_needs_snap();
    bed.run_ok(&["down", "--delete"]);
    nothing_is_left(&bed, &ports);
}

/// MicroK8s is installed with snap: an image without it is refused, and the failed testbed is removed.
fn microk8s_needs_snap() {
    let home = tempfile::tempdir().expect("a directory");
    let images = Command::new("lxc").args(["image", "list", "--format=csv", "-c", "F"]).output();
    let images = images.map(|output| text(&output)).unwrap_or_default();
    let Some(image) = images.lines().find(|line| line.len() == 64) else {
        test_skip::skip("no image of this LXD can be listed; MicroK8s without snap is not tried");
        return;
    };
    let bed = Testbed::at(home.path(), &format!("snap{}", std::process::id()));
    let image = format!("--image=local:{image}");
    let words = [
        "up",
        "--provisioner=lxd",
        "--microk8s",
        &image,
        "--members=1",
        "--no-registry",
        "--no-links",
        "--port=0",
        "--member-port=0",
    ];
    let refused = bed.flotilla(&words);
    let said = text(&refused);
    assert!(!refused.status.success(), "{said}");
    if said.contains("Failed to load kernel module") {
        test_skip::skip(
            "this kernel lacks modules of MicroK8s, so its container does not start; the lack of snap is not reached",
        );
    } else {
        assert!(said.contains("has no snap"), "{said}");
    }
    assert!(said.contains("was removed because it did not start"), "{said}");
    assert!(!bed.directory().exists() && bed.processes().is_empty(), "{:?}", bed.processes());
}

fn they_are_apart(bed: &Testbed) {
    let mut seen = BTreeSet::from([(namespace(std::process::id(), "net"), namespace(std::process::id(), "pid"))]);
    for member in MEMBERS {
        let pid = process_of(bed, member).unwrap_or_else(|| panic!("{member} runs"));
        assert!(
            seen.insert((namespace(pid, "net"), namespace(pid, "pid"))),
            "{member} shares its network or its processes"
        );
        let server = std::fs::read_to_string(bed.config(member)).expect("a kubeconfig");
        assert!(server.contains(&format!("https://127.0.0.1:{}", port_of(bed, member))), "{server}");
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).expect("a command line");
        assert!(String::from_utf8_lossy(&line).contains(":16443"), "it listens on the documented port inside");
    }
}

fn nothing_is_left(bed: &Testbed, ports: &[u16]) {
    assert!(bed.processes().is_empty(), "{:?}", bed.processes());
    for member in MEMBERS {
        eventually(&format!("the processes of {member} are gone"), CROSSING, || process_of(bed, member).is_none());
    }
    for port in ports {
        assert!(TcpListener::bind(("127.0.0.1", *port)).is_ok(), "port {port} is still taken");
    }
    let name = bed.directory().file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
    for words in [&["list", "--format=csv"][..], &["profile", "list"]] {
        // Incus has another client, so its list is not checked.
        let Ok(output) = Command::new("lxc").args(words).output() else { return };
        assert!(!text(&output).contains(&name), "{}", text(&output));
    }
}
