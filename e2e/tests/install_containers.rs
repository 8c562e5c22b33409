//! The image as pods of a cluster: the chart and `flotilla init` install a control plane, a member joins it, a workload is
//! propagated, and the chart of the agent registers another member.
//!
//! Needs root, containerd, runc, the CNI plugins and helm; if skipped, prints what is missing.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use e2e::eventually::eventually;
use e2e::fleet::text;
use e2e::flotilla::{binary, kubectl, programs};
use e2e::light_member::LightMember;
use e2e::member::apply;

const LIMIT: Duration = Duration::from_secs(120);
/// Address range of the pods; the host is its first address.
const POD_CIDR: &str = "10.91.9.0/24";
const HOST: &str = "10.91.9.1";
/// The Secret in which the chart of the control plane and `init` publish the kubeconfig.
const KUBECONFIG_SECRET: &str = "karmada-kubeconfig";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the workspace exists")
}

/// Returns the reason why this cannot run here.
fn missing() -> Option<String> {
    let is_root = std::fs::metadata("/proc/self").map(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if !is_root.unwrap_or(false) {
        return Some("containers need root".to_owned());
    }
    let helm = programs().join("helm").display().to_string();
    let needed = [
        ("containerd", vec!["/usr/bin/containerd", "/usr/local/bin/containerd"]),
        ("runc", vec!["/usr/sbin/runc", "/usr/bin/runc", "/usr/local/sbin/runc"]),
        ("containernetworking-plugins", vec!["/usr/lib/cni/bridge", "/opt/cni/bin/bridge"]),
        ("strip", vec!["/usr/bin/strip"]),
        ("helm", vec![helm.as_str()]),
    ];
    let is_there = |paths: &[&str]| paths.iter().any(|path| Path::new(path).exists());
    needed.iter().find(|(_, paths)| !is_there(paths)).map(|(name, _)| format!("{name} is not installed"))
}

#[track_caller]
fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", text(&output));
    text(&output)
}

struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
        let start = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) && start.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A cluster with real containers that has the image.
struct HostCluster {
    member: LightMember,
    directory: tempfile::TempDir,
}

impl Drop for HostCluster {
    fn drop(&mut self) {
        // Containers and mounts are removed by a graceful stop only.
        let pid = self.member.pid();
        let _ = Command::new("kill").args(["-TERM", &pid.to_string()]).status();
        let start = Instant::now();
        let runs = || std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
        while runs() && start.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl HostCluster {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let member = LightMember::start(&["--runtime", "containerd", "--pod-cidr", POD_CIDR]);
        let host = Self { member, directory };
        let (program, archive) = (host.path("flotilla"), host.path("image.tar"));
        run(Command::new("strip").arg("-o").arg(&program).arg(binary()));
        let mut build = Command::new(root().join("tools/image"));
        // Compression takes half a minute in a debug build.
        run(build
            .args([&program, &archive])
            .env("FLOTILLA_BUILDER", binary())
            .env("FLOTILLA_IMAGE_FLAGS", "--uncompressed"));
        let socket = host.member.directory().join("containerd/containerd.sock");
        let store = format!("m1={}", socket.display());
        run(host.flotilla().args(["image", "distribute", &archive, "--no-push", "--containerd", &store]));
        host
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    fn flotilla(&self) -> Command {
        let mut command = Command::new(binary());
        command.env("KUBECONFIG", &self.member.kubeconfig).env("HOME", self.directory.path());
        command
    }

    fn helm(&self, arguments: &[&str]) {
        let mut command = Command::new(programs().join("helm"));
        for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(variable, self.path("helm"));
        }
        let charts = root().join("deploy/charts");
        let said = command.args(arguments).env("KUBECONFIG", &self.member.kubeconfig).current_dir(charts).output();
        let said = said.expect("helm runs");
        assert!(said.status.success(), "helm {arguments:?}: {}\n{}", text(&said), self.pods());
    }

    fn pods(&self) -> String {
        let pods = self.member.kubectl(&["describe", "pods", "-A"]);
        let logs = self.member.kubectl(&["logs", "-n", "karmada-system", "-l", "app.kubernetes.io/name", "--tail=20"]);
        format!("{}{}", text(&pods), text(&logs))
    }

    /// Forwards a local port to a Service, and returns the kubeconfig, from this Secret, of the server behind it.
    fn connect(&self, namespace: &str, service: &str, secret: &str) -> ForwardedPlane {
        let target = format!("svc/{service}");
        let mut child = self.member.spawn(&["-n", namespace, "port-forward", &target, ":5443"]);
        let mut words = BufReader::new(child.stdout.take().expect("a pipe"));
        let forward = Ending(child);
        let mut said = String::new();
        words.read_line(&mut said).expect("a line with the address");
        let address = said.split_whitespace().nth(2).unwrap_or_else(|| panic!("no address: {said}")).to_owned();
        let path = "-o=jsonpath={.data.kubeconfig}";
        let mut encoded = String::new();
        eventually("the kubeconfig is published", LIMIT, || {
            encoded = self.member.ask(&["-n", namespace, "get", "secret", secret, path]);
            !encoded.is_empty()
        });
        let inside = PathBuf::from(self.path(&format!("{namespace}.config")));
        let decode = format!("echo {encoded} | base64 -d > {}", inside.display());
        run(Command::new("sh").args(["-c", &decode]));
        let outside = PathBuf::from(self.path(&format!("{namespace}-forwarded.config")));
        let server = format!("https://{service}.{namespace}.svc:5443");
        let content = std::fs::read_to_string(&inside).expect("a kubeconfig");
        assert!(content.contains(&server), "{content}");
        std::fs::write(&outside, content.replace(&server, &format!("https://{address}"))).expect("written");
        ForwardedPlane { inside, kubeconfig: outside, _forward: forward, _words: words }
    }
}

/// A control plane in a pod.
struct ForwardedPlane {
    /// The kubeconfig for clients in the cluster.
    inside: PathBuf,
    kubeconfig: PathBuf,
    _forward: Ending,
    /// Kept open: kubectl keeps printing.
    _words: BufReader<ChildStdout>,
}

impl ForwardedPlane {
    fn kubectl(&self, arguments: &[&str]) -> Output {
        kubectl(&self.kubeconfig, arguments)
    }

    fn wait_ready(&self, cluster: &str) {
        let path = r#"-o=jsonpath={.status.conditions[?(@.type=="Ready")].status}"#;
        eventually(&format!("{cluster} is ready"), LIMIT, || {
            text(&self.kubectl(&["get", "cluster", cluster, path])).trim() == "True"
        });
    }

    /// Joins a member in push mode and propagates a Deployment to it.
    fn propagate(&self, member: &PushMember) {
        let flags = ["join", "member1", "--kubeconfig", &self.kubeconfig.display().to_string()].map(str::to_owned);
        run(Command::new(binary()).args(flags).arg("--cluster-kubeconfig").arg(&member.kubeconfig));
        self.wait_ready("member1");
        for file in ["deployment.yaml", "policy.yaml"] {
            let document = std::fs::read_to_string(root().join("examples/nginx").join(file)).expect("an example");
            let applied = apply(&self.kubeconfig, &["apply", "-f", "-"], &document);
            assert!(applied.status.success(), "{}", text(&applied));
        }
        let path = "-o=jsonpath={.status.readyReplicas}";
        eventually("nginx runs in the member", LIMIT, || {
            text(&kubectl(&member.kubeconfig, &["get", "deployment", "nginx", path])).trim() == "2"
        });
        eventually("its status is reported", LIMIT, || {
            text(&self.kubectl(&["get", "deployment", "nginx", path])).trim() == "2"
        });
    }
}

/// A member with simulated nodes that pods of the host cluster can reach.
struct PushMember {
    kubeconfig: PathBuf,
    _process: Ending,
    _directory: tempfile::TempDir,
}

impl PushMember {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let port = e2e::etcd::steady_port();
        let child = Command::new(binary())
            .args(["member", "--in-memory", "--cluster-name=member1", "--tls-san", HOST])
            .args([format!("--bind=0.0.0.0:{port}"), format!("--advertise-url=https://{HOST}:{port}")])
            .arg("--data-dir")
            .arg(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the member starts");
        let kubeconfig = directory.path().join("member.config");
        let member = Self { kubeconfig, _process: Ending(child), _directory: directory };
        eventually("the member is ready", LIMIT, || {
            member.kubeconfig.exists()
                && kubectl(&member.kubeconfig, &["get", "--raw", "/readyz"]).stdout.starts_with(b"ok")
        });
        member
    }
}

#[test]
fn the_charts_and_init_install_a_working_control_plane() {
    if let Some(missing) = missing() {
        test_skip::skip(format_args!("{missing}; run `make test` as root to install it"));
        return;
    }
    let host = HostCluster::start();
    let started = Instant::now();
    host.helm(&[
        "install",
        "flotilla",
        "flotilla",
        "-n",
        "karmada-system",
        "--create-namespace",
        "--set",
        "image.pullPolicy=Never",
        "--wait",
        "--timeout=120s",
    ]);
    let plane = host.connect("karmada-system", "flotilla", KUBECONFIG_SECRET);
    let pod = ["-n", "karmada-system", "get", "pod", "flotilla-0", "-o=jsonpath={.spec.securityContext.runAsUser}"];
    assert_eq!(host.member.ask(&pod), "65532");
    plane.propagate(&PushMember::start());
    eprintln!("from helm install to the first propagated workload: {:?}", started.elapsed());

    // The agent registers the host cluster itself, in pull mode.
    let content = format!("kubeconfig.content={}", plane.inside.display());
    host.helm(&[
        "install",
        "agent",
        "flotilla-agent",
        "-n",
        "karmada-system",
        "--set",
        "clusterName=pulled",
        "--set",
        "image.pullPolicy=Never",
        "--set",
        "kubeconfig.existingSecret=agent-kubeconfig",
        "--set-file",
        &content,
        "--wait",
        "--timeout=120s",
    ]);
    plane.wait_ready("pulled");
    assert_eq!(text(&plane.kubectl(&["get", "cluster", "pulled", "-o=jsonpath={.spec.syncMode}"])).trim(), "Pull");
    eventually("the agent logs", LIMIT, || {
        !host.member.ask(&["-n", "karmada-system", "logs", "-l", "app=karmada-agent", "--tail=1"]).is_empty()
    });
    drop(plane);
    host.helm(&["uninstall", "agent", "-n", "karmada-system"]);
    host.helm(&["uninstall", "flotilla", "-n", "karmada-system"]);
    init_and_deinit(&host);
    manager(&host);
}

/// The chart of the manager: it publishes its kubeconfig and runs an instance.
fn manager(host: &HostCluster) {
    let (release, namespace) = ("flotilla-manager", "managers");
    let flags = ["-n", namespace, "--create-namespace", "--set", "image.pullPolicy=Never", "--wait", "--timeout=120s"];
    host.helm(&[&["install", release, "flotilla-manager"], &flags[..]].concat());
    let manager = host.connect(namespace, release, "manager-kubeconfig");
    let instance = "apiVersion: operator.karmada.io/v1alpha1\nkind: Karmada\n\
        metadata: {name: east, namespace: karmada-system}\nspec: {}\n";
    let applied = apply(&manager.kubeconfig, &["apply", "-f", "-"], instance);
    assert!(applied.status.success(), "{}", text(&applied));
    eventually("the instance runs", LIMIT, || {
        let phase = ["-n", "karmada-system", "get", "karmada", "east", "-o=jsonpath={.status.phase}"];
        text(&manager.kubectl(&phase)).trim() == "Running"
    });
    drop(manager);
    host.helm(&["uninstall", release, "-n", namespace]);
}

fn init_and_deinit(host: &HostCluster) {
    let data = host.path("data");
    let flags = ["init", "-n", "fleet", "--image-pull-policy=Never", "--karmada-data", &host.path("karmada")];
    let said = run(host.flotilla().args(flags).args(["--etcd-data", &data]));
    assert!(said.contains("Karmada is installed successfully"), "{said}");
    let written = std::fs::read_to_string(host.path("karmada/karmada-apiserver.config")).expect("a kubeconfig");
    assert!(written.contains(":32443"), "{written}");
    let plane = host.connect("fleet", "karmada-apiserver", KUBECONFIG_SECRET);
    plane.propagate(&PushMember::start());
    assert!(
        host.member.ask(&["-n", "fleet", "get", "pods", "-l", "app=karmada-apiserver"]).contains("karmada-apiserver-0")
    );
    drop(plane);

    let deinit = |more: &[&str]| run(host.flotilla().args(["deinit", "-n", "fleet", "--force"]).args(more));
    let said = deinit(&["--dry-run"]);
    assert!(said.contains("delete statefulset \"karmada-apiserver\""), "{said}");
    deinit(&[]);
    let kinds = "statefulsets,services,secrets,serviceaccounts,roles,rolebindings";
    eventually("everything is removed", LIMIT, || {
        let left = host.member.ask(&["-n", "fleet", "get", kinds, "-o=name"]);
        // The account of the namespace itself stays.
        left.lines().all(|name| name == "serviceaccount/default")
    });
    assert!(Path::new(&data).join("store").exists(), "the data is kept");
    deinit(&["--purge-namespace"]);
    eventually("the namespace is removed", LIMIT, || {
        host.member.ask(&["get", "namespace", "fleet", "-o=name"]).is_empty()
    });
}
