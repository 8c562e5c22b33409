//! A testbed whose pods are real containers: a web server in three members, fetched through forwarded ports, while one member is killed.
//!
//! Needs root, containerd, runc, the CNI plugins and a static busybox; if skipped, prints what is missing.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use e2e::eventually::eventually;
use e2e::fleet::text;
use e2e::testbed::{CROSSING, Testbed};

const MEMBERS: [&str; 3] = ["member1", "member2", "member3"];
const PLANE: &str = "karmada-apiserver";
const PAGE: &str = "<h1>Welcome to nginx!</h1>\n";
const IMAGE: &str = "nginx:flotilla-test";

/// Returns the reason why containers cannot run here, with the check of `up` itself.
fn is_missing(home: &Path) -> bool {
    let bed = Testbed::at(home, "check");
    let refused =
        bed.flotilla(&["up", "--runtime=containerd", "--members=0", "--no-registry", "--no-links", "--port=0"]);
    let busybox = Path::new("/bin/busybox").exists();
    if refused.status.success() && busybox {
        return false;
    }
    let reason = if busybox { text(&refused) } else { "busybox-static is not installed".to_owned() };
    test_skip::skip(format_args!("real containers: {}; run `make test` as root to install it", reason.trim()));
    true
}

/// Builds an image with a web server and its page, and distributes it to all members.
fn distribute(bed: &Testbed, directory: &Path) {
    let context = directory.join("nginx");
    std::fs::create_dir_all(&context).expect("a directory");
    std::fs::copy("/bin/busybox", context.join("busybox")).expect("copied");
    std::fs::write(context.join("index.html"), PAGE).expect("written");
    let dockerfile = "FROM scratch\nCOPY busybox /bin/busybox\nCOPY index.html /www/index.html\n\
        CMD [\"/bin/busybox\", \"httpd\", \"-f\", \"-p\", \"80\", \"-h\", \"/www\"]\n";
    std::fs::write(context.join("Dockerfile"), dockerfile).expect("written");
    bed.run_ok(&["image", "distribute", &context.display().to_string(), "-t", IMAGE]);
}

fn workload(name: &str, placement: &str) -> String {
    format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: default}}
spec:
  replicas: 1
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{{name: nginx, image: '{IMAGE}', imagePullPolicy: IfNotPresent, ports: [{{containerPort: 80}}]}}]
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {{name: {name}, namespace: default}}
spec:
  resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment, name: {name}}}]
  placement: {placement}
"
    )
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("bound").port()
}

/// Returns the body of a page; empty on failure.
fn fetch(port: u16) -> String {
    let answer = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
    };
    answer().unwrap_or_default()
}

/// Forwards a local port to the pods of a Deployment in a member.
fn expose(bed: &Testbed, name: &str, member: &str) -> u16 {
    let port = free_port();
    let (forward, pod, ports) = (format!("{name}-{member}"), format!("deploy/{name}"), format!("{port}:80"));
    bed.run_ok(&["expose", &forward, "-C", member, "--pod", &pod, "--port", &ports]);
    port
}

#[test]
fn a_page_is_served_from_every_member_and_survives_the_loss_of_one() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    if is_missing(directory.path()) {
        return;
    }
    let bed = Testbed::at(directory.path(), "real");
    let said = bed.bring_up(&["--runtime=containerd"]);
    assert!(said.contains("Pods are real containers"), "{said}");
    for member in MEMBERS {
        let runtime =
            bed.ask(member, &["get", "nodes", "-o=jsonpath={.items[*].status.nodeInfo.containerRuntimeVersion}"]);
        assert!(runtime.starts_with("containerd://"), "{member}: {runtime}");
    }
    distribute(&bed, directory.path());
    bed.apply(&workload("nginx", "{clusterAffinity: {clusterNames: [member1, member2, member3]}}"));
    let tolerate = |key: &str| {
        format!("{{key: cluster.karmada.io/{key}, operator: Exists, effect: NoExecute, tolerationSeconds: 2}}")
    };
    let single = format!(
        "{{clusterAffinity: {{clusterNames: [member1, member2]}}, clusterTolerations: [{}, {}], \
         spreadConstraints: [{{spreadByField: cluster, minGroups: 1, maxGroups: 1}}]}}",
        tolerate("not-ready"),
        tolerate("unreachable")
    );
    bed.apply(&workload("single", &single));
    bed.wait(PLANE, &["get", "deploy", "nginx", "-o=jsonpath={.status.readyReplicas}"], "3");
    let ports = MEMBERS.map(|member| expose(&bed, "nginx", member));
    for (member, port) in MEMBERS.iter().zip(ports) {
        eventually(&format!("{member} serves the page"), CROSSING, || fetch(port) == PAGE);
    }

    // The cluster of the single workload is lost.
    bed.wait(PLANE, &["get", "deploy", "single", "-o=jsonpath={.status.readyReplicas}"], "1");
    let placed = ["get", "rb", "single-deployment", "-o=jsonpath={.spec.clusters[0].name}"];
    let lost = bed.ask(PLANE, &placed);
    let other = if lost == "member1" { "member2" } else { "member1" };
    bed.run_ok(&["fault", &lost, "kill"]);
    bed.wait(PLANE, &placed, other);
    bed.wait(other, &["get", "deploy", "single", "-o=jsonpath={.status.readyReplicas}"], "1");
    let moved = expose(&bed, "single", other);
    eventually("the page is served by another member", CROSSING, || fetch(moved) == PAGE);
    for (member, port) in MEMBERS.iter().zip(ports).filter(|(member, _)| **member != lost) {
        assert_eq!(fetch(port), PAGE, "{member}");
    }

    // Nothing is left: no process, mount or file.
    bed.run_ok(&["down", "--delete"]);
    assert_eq!(bed.processes(), Vec::<String>::new());
    let mounts = std::fs::read_to_string("/proc/mounts").expect("a list of mounts");
    assert!(!mounts.contains(&bed.directory().display().to_string()), "{mounts}");
}
