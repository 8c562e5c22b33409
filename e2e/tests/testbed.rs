//! The testbed: one command starts a control plane, members and a registry, with faults and repairs.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use e2e::eventually::eventually;
use e2e::fleet::text;
use e2e::flotilla::binary;
use e2e::testbed::{CROSSING, Testbed};

const PLANE: &str = "karmada-apiserver";
const READY_REPLICAS: &str = "-o=jsonpath={.status.readyReplicas}";
const MEMBERS: [&str; 3] = ["member1", "member2", "member3"];

fn nginx(name: &str, replicas: u32, members: &str) -> String {
    format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: default, labels: {{app: {name}}}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      containers: [{{name: nginx, image: 'nginx:1.27', ports: [{{containerPort: 80}}]}}]
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {{name: {name}, namespace: default}}
spec:
  resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment, name: {name}}}]
  placement: {{clusterAffinity: {{clusterNames: [{members}]}}}}
"
    )
}

/// Returns the first line of the response to a GET; empty on failure.
fn fetch(port: u16, path: &str) -> String {
    let answer = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text.lines().next().unwrap_or_default().to_owned())
    };
    answer().unwrap_or_default()
}

fn port_of(bed: &Testbed, part: &str) -> u16 {
    let address = bed.part(part)["address"].as_str().unwrap_or_default().to_owned();
    address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
}

/// Like `kill -9` in a shell.
fn kill(pid: u64) {
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().expect("kill runs").success());
}

fn pids(bed: &Testbed) -> Vec<Option<u64>> {
    ["supervisor", "karmada", "registry", "member1", "member2", "member3", "member3-agent"].map(|p| bed.pid(p)).into()
}

#[test]
fn one_command_starts_a_control_plane_members_and_a_registry() {
    let bed = Testbed::up(&[]);
    // The documented verification: clusters, nodes, nginx.
    for member in MEMBERS {
        bed.wait_ready(member, "True");
        let mode = if member == "member3" { "Pull" } else { "Push" };
        bed.wait(PLANE, &["get", "cluster", member, "-o=jsonpath={.spec.syncMode}"], mode);
        let ready = r#"-o=jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}"#;
        eventually("its nodes are ready", CROSSING, || bed.ask(member, &["get", "nodes", ready]).starts_with("True"));
    }
    bed.apply(&nginx("nginx", 2, "member1, member2, member3"));
    for member in MEMBERS {
        bed.wait(member, &["get", "deploy", "nginx", READY_REPLICAS], "2");
    }
    bed.wait(PLANE, &["get", "deploy", "nginx", READY_REPLICAS], "6");
    assert_eq!(fetch(port_of(&bed, "registry"), "/v2/"), "HTTP/1.0 200 OK");

    // One kubeconfig has a context for each.
    let merged = bed.directory().join("kubeconfig");
    for context in MEMBERS.iter().chain(&[PLANE]) {
        let output = e2e::flotilla::kubectl(&merged, &["--context", context, "get", "ns", "default", "-o=name"]);
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "namespace/default", "{context}");
    }
    let status = bed.status();
    assert_eq!(status["ready"], true);
    let memory = status["memoryBytes"].as_u64().expect("memory");
    assert!(memory < 300 * 1024 * 1024, "{} MiB", memory / 1024 / 1024);

    // Healthy processes are not touched.
    let before = pids(&bed);
    assert!(before.iter().all(Option::is_some), "{before:?}");
    let said = bed.run_ok(&["up"]);
    assert!(said.contains("The testbed is ready"), "{said}");
    assert_eq!(pids(&bed), before);
}

#[test]
fn failures_are_repaired() {
    let bed = Testbed::up(&["--no-registry"]);
    bed.apply(&nginx("kept", 1, "member1, member3"));
    bed.wait(PLANE, &["get", "deploy", "kept", READY_REPLICAS], "2");

    // A killed process is restarted.
    let died = bed.pid("member1").expect("a process");
    kill(died);
    eventually("another process runs", CROSSING, || bed.pid("member1").is_some_and(|pid| pid != died));
    bed.wait("member1", &["get", "deploy", "kept", READY_REPLICAS], "1");

    // Without its supervisor all processes exit; `up` restarts them with their data.
    kill(bed.pid("supervisor").expect("a supervisor"));
    eventually("no process is left", CROSSING, || bed.processes().is_empty());
    let status = bed.flotilla(&["status"]);
    assert!(!status.status.success() && text(&status).contains("is not running"), "{}", text(&status));
    bed.run_ok(&["up"]);
    for member in ["member1", "member3"] {
        bed.wait(member, &["get", "deploy", "kept", READY_REPLICAS], "1");
    }

    // A member with lost data is a new cluster: it is registered again and gets its workloads.
    bed.run_ok(&["stop", "member1"]);
    assert_eq!(bed.part("member1")["state"], "Stopped");
    std::fs::remove_dir_all(bed.directory().join("data/member1")).expect("removed");
    bed.run_ok(&["up"]);
    bed.wait("member1", &["get", "deploy", "kept", READY_REPLICAS], "1");

    // So is a stopped pull-mode member.
    bed.run_ok(&["stop", "member3"]);
    bed.run_ok(&["start", "member3"]);
    bed.wait_ready("member3", "True");
}

#[test]
fn a_manager_has_the_control_plane_and_a_second_one_as_instances() {
    let bed = Testbed::up(&["--manager", "--manager-port=0", "--members=1", "--no-registry"]);
    let list = text(&flotilla_at(&bed, &["instance", "list"]));
    assert!(list.contains("testbed") && list.contains("second"), "{list}");
    // Each instance has the members of its own control plane, and the merged kubeconfig has a context for each of them.
    bed.wait("second", &["get", "clusters", "-o=jsonpath={.items[*].metadata.name}"], "second-member1");
    let imported = format!("{}/instances/testbed", server_of(&bed, "manager"));
    let clusters = ["--server", &imported, "get", "clusters", "-o=jsonpath={.items[*].metadata.name}"];
    bed.wait("manager", &clusters, "member1");
    let merged = std::fs::read_to_string(bed.directory().join("kubeconfig")).expect("the merged kubeconfig");
    for context in ["manager", "second", "second-member1", "member1", PLANE] {
        assert!(merged.contains(&format!("name: {context}\n")), "{context}: {merged}");
    }
    assert_eq!(bed.part("manager")["ready"], true);
    bed.run_ok(&["logs", "--part", "manager", "--tail=1"]);
    // A killed manager and a stopped testbed come back with their instances.
    kill(bed.pid("manager").expect("it runs"));
    eventually("the manager runs again", CROSSING, || bed.part("manager")["ready"] == true);
    bed.run_ok(&["down"]);
    assert!(TcpStream::connect(("127.0.0.1", manager_port(&imported))).is_err());
    bed.run_ok(&["up"]);
    bed.wait("second", &["get", "clusters", "-o=jsonpath={.items[*].metadata.name}"], "second-member1");
    bed.run_ok(&["status"]);
}

/// Runs `flotilla` with the kubeconfig of the testbed's manager.
fn flotilla_at(bed: &Testbed, arguments: &[&str]) -> std::process::Output {
    let config = bed.config("manager");
    Command::new(binary()).args(arguments).arg("--kubeconfig").arg(config).output().expect("flotilla runs")
}

fn server_of(bed: &Testbed, cluster: &str) -> String {
    bed.ask(cluster, &["config", "view", "-o=jsonpath={.clusters[0].cluster.server}"])
}

fn manager_port(url: &str) -> u16 {
    let authority = url.trim_start_matches("https://").split('/').next().unwrap_or_default();
    authority.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
}

#[test]
fn several_testbeds_run_concurrently() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let beds = ["one", "two"].map(|name| Testbed::at(directory.path(), name));
    for bed in &beds {
        bed.bring_up(&["--members=1", "--no-registry", "--kubernetes-version=v1.34.1"]);
    }
    let [one, two] = &beds;
    assert!(one.kubectl(PLANE, &["create", "configmap", "mine"]).status.success());
    assert_eq!(two.ask(PLANE, &["get", "configmap", "mine", "--ignore-not-found"]), "");
    one.run_ok(&["down"]);
    assert_eq!(two.status()["ready"], true);
    // A requested port that is in use is rejected, with a remedy.
    let taken = port_of(two, "karmada").to_string();
    let three = Testbed::at(directory.path(), "three");
    let refused = three.flotilla(&["up", "--port", &taken]);
    assert!(text(&refused).contains(&format!("port {taken} for the control plane is in use")), "{}", text(&refused));
}

#[test]
fn a_snapshot_restores_everything() {
    let bed = Testbed::up(&["--no-registry"]);
    bed.apply(&nginx("web", 1, "member1, member3"));
    bed.wait(PLANE, &["get", "deploy", "web", READY_REPLICAS], "2");
    bed.run_ok(&["snapshot", "good"]);
    // It continues from the snapshot.
    assert!(bed.kubectl(PLANE, &["delete", "deploy", "web"]).status.success());
    bed.wait("member1", &["get", "deploy", "web", "--ignore-not-found", "-o=name"], "");
    bed.apply(&nginx("later", 1, "member1"));
    bed.wait("member1", &["get", "deploy", "later", READY_REPLICAS], "1");
    bed.run_ok(&["restore", "good"]);
    for member in ["member1", "member3"] {
        bed.wait(member, &["get", "deploy", "web", READY_REPLICAS], "1");
        bed.wait_ready(member, "True");
    }
    bed.wait("member1", &["get", "deploy", "later", "--ignore-not-found", "-o=name"], "");
    assert!(bed.run_ok(&["snapshot"]).contains("\ngood "), "it is listed");
    let again = bed.flotilla(&["snapshot", "good"]);
    assert!(text(&again).contains("already exists"), "{}", text(&again));
    let missing = bed.flotilla(&["restore", "bad"]);
    assert!(text(&missing).contains("snapshot bad not found; existing snapshots: good"), "{}", text(&missing));

    bed.run_ok(&["reset"]);
    bed.wait(PLANE, &["get", "deploy", "-A", "-o=name"], "");
    bed.wait_ready("member3", "True");
}

#[test]
fn a_port_forwards_to_a_pod_and_its_replacements() {
    let bed = Testbed::up(&["--members=1", "--no-registry"]);
    bed.apply(&nginx("web", 1, "member1"));
    bed.wait("member1", &["get", "deploy", "web", READY_REPLICAS], "1");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    let pod = bed.ask("member1", &["get", "pods", "-l", "app=web", "-o=jsonpath={.items[0].metadata.name}"]);
    let ports = format!("{port}:80");
    let said = bed.run_ok(&["expose", "web", "--cluster", "member1", "--pod", &pod, "--port", &ports]);
    assert!(said.contains(&format!("to default/{pod}")), "{said}");
    let answers = || fetch(port, "/").starts_with("HTTP/1.") && fetch(port, "/").contains("200");
    eventually("the pod answers", CROSSING, answers);

    assert!(bed.kubectl("member1", &["delete", "pod", &pod]).status.success());
    eventually("another pod answers", CROSSING, || {
        let list = bed.run_ok(&["forwards"]);
        list.contains("default/web-") && !list.contains(&pod) && answers()
    });
    // It is restored after a restart.
    bed.run_ok(&["down"]);
    assert_eq!(fetch(port, "/"), "");
    bed.run_ok(&["up"]);
    eventually("the pod answers again", CROSSING, answers);
    bed.run_ok(&["unexpose", "web"]);
    assert_eq!(fetch(port, "/"), "");
    assert!(!bed.run_ok(&["forwards"]).contains("default/web-"));
}

#[test]
fn every_fault_takes_effect_and_heals() {
    let bed = Testbed::up(&["--no-registry"]);
    for member in MEMBERS {
        bed.wait_ready(member, "True");
    }
    bed.run_ok(&["fault", "member1", "kill"]);
    bed.run_ok(&["fault", "member2", "errors"]);
    bed.run_ok(&["fault", "member3", "partition"]);
    assert!(text(&bed.kubectl("member2", &["get", "--raw", "/readyz"])).contains("set to fail"));
    bed.wait_ready("member1", "False");
    bed.wait_ready("member2", "False");
    bed.wait_ready("member3", "Unknown");
    let note = bed.part("member1")["note"].as_str().unwrap_or_default().to_owned();
    assert!(note.contains("fault kill") && bed.pid("member1").is_none(), "{note}");
    for member in MEMBERS {
        bed.run_ok(&["fault", member, "heal"]);
    }
    for member in MEMBERS {
        bed.wait_ready(member, "True");
    }

    bed.run_ok(&["fault", "member1", "expire-credentials"]);
    bed.run_ok(&["fault", "member2", "partition"]);
    bed.run_ok(&["fault", "member3", "expire-credentials"]);
    bed.wait_ready("member1", "False");
    bed.wait_ready("member2", "False");
    bed.wait_ready("member3", "Unknown");
    // `up` repairs all injected faults.
    let output = bed.flotilla(&["up"]);
    assert!(
        output.status.success() && text(&output).contains("healed: member1 expire-credentials"),
        "{}",
        text(&output)
    );
    for member in MEMBERS {
        bed.wait_ready(member, "True");
    }

    bed.run_ok(&["fault", "member1", "unschedulable"]);
    let cordoned = "-o=jsonpath={.items[*].spec.unschedulable}";
    assert!(bed.ask("member1", &["get", "nodes", cordoned]).starts_with("true"));
    bed.run_ok(&["fault", "member2", "slow", "--delay=400ms"]);
    let start = std::time::Instant::now();
    assert_eq!(bed.ask("member2", &["get", "ns", "default", "-o=name"]), "namespace/default");
    assert!(start.elapsed() >= Duration::from_millis(800), "{:?}", start.elapsed());
    for member in ["member1", "member2"] {
        bed.run_ok(&["fault", member, "heal"]);
    }
    assert_eq!(bed.ask("member1", &["get", "nodes", cordoned]), "");
    let stranger = bed.flotilla(&["fault", "member9", "kill"]);
    assert!(text(&stranger).contains("the testbed has no member member9; it has member1, member2, member3"));
}

#[test]
fn demos_succeed() {
    let bed = Testbed::up(&["--no-registry"]);
    for scenario in ["nginx", "overrides", "spread", "dependencies", "failover"] {
        let said = bed.run_ok(&["demo", scenario]);
        assert!(said.contains("$ kubectl --kubeconfig") && said.contains("is complete."), "{said}");
    }
    bed.wait(PLANE, &["get", "deploy,pp,op", "-A", "-o=name"], "");
    // Simulated containers serve a page of the simulation, which is said.
    for scenario in ["flask", "prometheus"] {
        let said = bed.run_ok(&["demo", scenario]);
        assert!(said.contains("pods are simulated") && said.contains("is complete."), "{said}");
    }
    assert!(!bed.run_ok(&["forwards"]).contains("flask"), "forwards of a demo are closed");
    assert!(bed.run_ok(&["demo", "list"]).contains("failover"));
}

#[test]
fn repeated_starts_and_stops_leave_nothing_behind() {
    let rounds = std::env::var("FLOTILLA_TEST_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(4);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let bed = Testbed::at(directory.path(), "loop");
    for round in 0..rounds {
        bed.bring_up(&["--members=2", "--pull=member2"]);
        assert!(bed.processes().len() >= 5, "{:?}", bed.processes());
        // Half of the rounds keep their data for the next.
        let is_kept = round % 2 == 0 && round + 1 < rounds;
        bed.run_ok(if is_kept { &["down"] } else { &["down", "--delete"] });
        assert_eq!(bed.processes(), Vec::<String>::new());
        assert_eq!(bed.directory().exists(), is_kept);
        let running: Vec<_> = std::fs::read_dir(bed.directory().join("data"))
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "pid"))
            .collect();
        assert!(running.is_empty() && !bed.directory().join("supervisor.sock").exists(), "{running:?}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).expect("a directory").count(), 0);
    // Interfaces and rules are only created for containers; other programs may create theirs meanwhile.
    let mounts = std::fs::read_to_string("/proc/mounts").expect("a list of mounts");
    assert!(!mounts.contains(&directory.path().display().to_string()), "{mounts}");
    assert_eq!(text(&bed.flotilla(&["down"])).trim(), format!("no testbed found in {}", bed.directory().display()));
}

/// The requirements of real containers.
fn can_run_containers() -> bool {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let programs = ["/usr/bin/containerd", "/usr/sbin/runc", "/usr/bin/runc", "/bin/busybox"];
    let [containerd, sbin_runc, bin_runc, busybox] = programs.map(|path| std::path::Path::new(path).exists());
    let can = is_root && containerd && (sbin_runc || bin_runc) && busybox;
    if !can {
        test_skip::skip("real containers require root, containerd, runc and busybox");
    }
    can
}

#[test]
fn a_custom_image_runs_in_a_real_container_and_is_removed() {
    if !can_run_containers() {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let bed = Testbed::at(directory.path(), "real");
    bed.bring_up(&["--members=1", "--runtime=containerd"]);
    let said = bed.run_ok(&["demo", "flask", "--keep"]);
    let port = said.split("✔ http://127.0.0.1:").nth(1).and_then(|rest| rest.split('/').next()?.parse::<u16>().ok());
    let port = port.unwrap_or_else(|| panic!("no page answers: {said}"));
    eventually("the page is the one that was put into the image", CROSSING, || fetch(port, "/").contains("200"));
    // The replacement pod answers on the same port, from its own address.
    assert!(bed.kubectl("member1", &["delete", "pod", "-l", "app=flask", "--wait=false"]).status.success());
    eventually("another pod answers", CROSSING, || {
        bed.run_ok(&["forwards"]).contains(":5000)") && fetch(port, "/").contains("200")
    });
    // Even a killed member leaves no container, mount or file behind.
    bed.run_ok(&["fault", "member1", "kill"]);
    bed.run_ok(&["down", "--delete"]);
    assert_eq!(bed.processes(), Vec::<String>::new());
    let mounts = std::fs::read_to_string("/proc/mounts").expect("a list of mounts");
    assert!(!mounts.contains(&directory.path().display().to_string()), "{mounts}");
    assert_eq!(std::fs::read_dir(directory.path()).expect("a directory").count(), 0);
}

#[test]
fn a_failed_start_leaves_nothing_behind_and_a_retained_one_can_be_examined() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let bed = Testbed::at(directory.path(), "failed");
    let words = ["up", "--port=0", "--member-port=0", "--registry-port=0", "--no-links", "--runtime=simulated"];
    let failing = [&words[..], &["--timeout=1ms"]].concat();
    let output = bed.flotilla(&failing);
    assert!(
        !output.status.success() && text(&output).contains("was removed because it did not start"),
        "{}",
        text(&output)
    );
    assert!(!bed.directory().exists() && bed.processes().is_empty(), "{:?}", bed.processes());
    let output = bed.flotilla(&[&failing[..], &["--retain"]].concat());
    assert!(!output.status.success() && bed.directory().exists(), "{}", text(&output));
    bed.run_ok(&["logs", "--part", "supervisor"]);
    bed.run_ok(&["up"]);
    assert_eq!(bed.status()["ready"], true);
    let unknown = bed.flotilla(&["logs", "--part", "nosuch"]);
    assert!(text(&unknown).contains("it has supervisor, karmada, registry, member1"), "{}", text(&unknown));
    assert!(bed.run_ok(&["logs", "--part=member3-agent", "--tail=1"]).lines().count() <= 1);
    client_commands_need_no_kubectl(&bed);
}

/// The commands of kubectl that karmadactl has, with no other program on PATH.
fn client_commands_need_no_kubectl(bed: &Testbed) {
    let kubeconfig = bed.config("karmada-apiserver");
    let run = |words: &[&str]| {
        let mut command = Command::new(binary());
        command.args(words).env("KUBECONFIG", &kubeconfig).env("PATH", "/nonexistent").env_remove("FLOTILLA_HOME");
        command.stdin(Stdio::null()).output().expect("the program runs")
    };
    let check = |words: &[&str], expected: &str| {
        let said = run(words);
        assert!(said.status.success() && text(&said).contains(expected), "{words:?}: {}", text(&said));
    };
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/nginx/deployment.yaml");
    let web = web.to_str().expect("a path in UTF-8");
    check(&["apply", "-f", web, "-C", "member1"], "deployment.apps/nginx created");
    check(&["apply", "-f", web, "-C", "member1"], "deployment.apps/nginx unchanged");
    check(&["create", "configmap", "settings", "--from-literal=a=b"], "configmap/settings created");
    check(&["label", "configmap", "settings", "a=b"], "configmap/settings labeled");
    check(&["annotate", "configmap", "settings", "a=b"], "configmap/settings annotated");
    check(&["patch", "configmap", "settings", "-p", r#"{"data":{"a":"c"}}"#], "configmap/settings patched");
    check(&["edit", "configmap", "settings", "--help"], "Usage:");
    check(&["explain", "pp.spec.placement"], "FIELD: placement <Object>");
    check(&["api-resources", "--api-group=policy.karmada.io"], "propagationpolicies");
    check(&["api-versions"], "policy.karmada.io/v1alpha1");
    bed.wait("member1", &["get", "deployment", "nginx", "-o=jsonpath={.status.readyReplicas}"], "2");
    check(&["logs", "deploy/nginx", "--tail=1"], "nginx");
    check(&["exec", "deploy/nginx", "--", "echo", "hello"], "hello");
    let pod = run(&["get", "pods", "-s", "members", "-C", "member1", "-o", "jsonpath={.items[0].metadata.name}"]);
    let pod = String::from_utf8_lossy(&pod.stdout).into_owned();
    check(&["describe", "pod", &pod, "-s", "members", "-C", "member1"], "Controlled By:");
    check(&["describe", "-f", web], "RollingUpdateStrategy:");
    let failed = run(&["exec", "deploy/nginx", "--", "sh", "-c", "exit 3"]);
    assert_eq!(failed.status.code(), Some(3), "{}", text(&failed));
    check(&["delete", "configmap", "settings"], "configmap \"settings\" deleted from default namespace");
    let refused = run(&["create", "gizmo", "x"]);
    assert!(text(&refused).contains("kubectl create gizmo x"), "{}", text(&refused));
}

#[test]
fn kubeconfigs_and_ports_are_where_guides_expect_them() {
    let bed = Testbed::up(&["--members=1", "--bind=0.0.0.0"]);
    assert!(bed.part("member1")["address"].as_str().is_some_and(|address| address.starts_with("0.0.0.0:")));
    let secret = [
        "-n",
        "karmada-system",
        "get",
        "secret",
        "karmada-kubeconfig",
        "-o=go-template={{.data.kubeconfig | base64decode}}",
    ];
    let kept = std::fs::read_to_string(bed.config(PLANE)).expect("a kubeconfig");
    assert_eq!(bed.ask(PLANE, &secret), kept.trim());
    bed.apply(&nginx("web", 1, "member1"));
    bed.wait("member1", &["get", "deploy", "web", READY_REPLICAS], "1");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    let ports = format!("{port}:80");
    let said =
        bed.run_ok(&["expose", "web", "-C", "member1", "--pod", "deploy/web", "--port", &ports, "--bind", "0.0.0.0"]);
    assert!(said.contains(&format!("forwarding 0.0.0.0:{port} to default/web-")), "{said}");
    eventually("the pod answers", CROSSING, || fetch(port, "/").contains("200"));

    // Images of the registry are listed and removed.
    let directory = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(directory.path().join("Dockerfile"), "FROM scratch\nCOPY Dockerfile /file\n").expect("written");
    bed.run_ok(&["image", "distribute", &directory.path().display().to_string(), "-t", "team/app:v1"]);
    let listed = bed.run_ok(&["image", "list"]);
    let image = listed.lines().find(|line| line.ends_with("/team/app:v1")).unwrap_or_else(|| panic!("{listed}"));
    bed.run_ok(&["image", "remove", image]);
    assert!(!bed.run_ok(&["image", "list"]).contains("team/app"));
}

#[test]
fn completion_knows_the_members_of_the_testbed() {
    let bed = Testbed::up(&["--members=east,west", "--no-registry"]);
    let home = bed.directory().parent().expect("a home").display().to_string();
    let complete = |words: &[&str]| {
        let mut command = Command::new(e2e::flotilla::binary());
        command.env("FLOTILLA_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string());
        command.env("FLOTILLA_HOME", &home).env("_CLAP_IFS", " ").arg("--").args(words);
        text(&command.output().expect("flotilla runs"))
    };
    assert!(complete(&["flotilla", "fault", ""]).contains("east"), "{}", complete(&["flotilla", "fault", ""]));
    assert!(complete(&["flotilla", "expose", "x", "-C", "w"]).contains("west"));
    assert!(complete(&["flotilla", "demo", "fl"]).contains("flask"));
    assert!(complete(&["flotilla", "status", "--name", "d"]).contains("default"));
}

/// The member restarts each time, while the testbed keeps its port.
#[test]
fn nodes_are_added_and_removed_repeatedly() {
    let bed = Testbed::up(&["--members=1", "--no-registry", "--nodes=2"]);
    for nodes in [3, 1, 4, 1, 2, 1, 3, 1] {
        bed.run_ok(&["up", &format!("--nodes={nodes}")]);
        let count = || bed.ask("member1", &["get", "nodes", "-o=name"]).lines().count();
        eventually("the member has the requested nodes", CROSSING, || count() == nodes);
    }
    bed.run_ok(&["down", "--delete"]);
}
