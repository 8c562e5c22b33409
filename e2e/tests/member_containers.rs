//! Pods of a member as real containers in containerd, with images from the registry and from an archive, used with
//! real kubectl.
//!
//! Needs root, containerd, runc, the CNI plugins and a static busybox; if skipped, prints what is missing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use e2e::eventually::eventually;
use e2e::flotilla::binary;
use e2e::light_member::LightMember;

const LIMIT: Duration = Duration::from_secs(90);
/// One at a time: every test has its own container runtime on the same machine.
static TURN: Mutex<()> = Mutex::new(());

/// Returns the reason why real containers cannot run here.
fn missing() -> Option<String> {
    let user = Command::new("id").arg("-u").output().expect("id runs");
    if user.stdout.trim_ascii() != b"0" {
        return Some("containers need root".to_owned());
    }
    let needed = [
        ("containerd", &["/usr/bin/containerd", "/usr/local/bin/containerd"][..]),
        ("runc", &["/usr/sbin/runc", "/usr/bin/runc", "/usr/local/sbin/runc"]),
        ("containernetworking-plugins", &["/usr/lib/cni/bridge", "/opt/cni/bin/bridge"]),
        ("busybox-static", &["/bin/busybox"]),
    ];
    let is_there = |paths: &[&str]| paths.iter().any(|path| Path::new(path).exists());
    needed.iter().find(|(_, paths)| !is_there(paths)).map(|(name, _)| format!("{name} is not installed"))
}

/// A member with real containers; stopped gracefully even when the test fails.
struct Containers {
    member: LightMember,
}

impl Containers {
    fn start(arguments: &[&str]) -> Self {
        Self { member: LightMember::start(&[&["--runtime", "containerd"], arguments].concat()) }
    }

    fn socket(&self) -> PathBuf {
        self.member.directory().join("containerd/containerd.sock")
    }

    /// Waits for a non-empty value of an object.
    fn value(&self, object: &str, path: &str) -> String {
        let mut value = String::new();
        eventually(&format!("{object} has {path}"), LIMIT, || {
            value = self.member.ask(&["get", object, &format!("-o=jsonpath={{{path}}}")]);
            !value.is_empty()
        });
        value
    }

    fn until(&self, object: &str, path: &str, expected: &str) {
        let mut value = String::new();
        let argument = format!("-o=jsonpath={{{path}}}");
        let holds = || {
            value = self.member.ask(&["get", object, &argument]);
            value == expected
        };
        eventually(&format!("{object} has {path} {expected}"), LIMIT, holds);
    }
}

impl Drop for Containers {
    fn drop(&mut self) {
        let pid = self.member.pid();
        let _ = Command::new("kill").args(["-TERM", &pid.to_string()]).status();
        // An exited process that was not waited for yet is a zombie.
        let ended = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        };
        let start = std::time::Instant::now();
        while !ended() && start.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Creates a build context: busybox under the names used by scripts.
fn context(directory: &Path) -> PathBuf {
    let context = directory.join("image");
    std::fs::create_dir_all(context.join("bin")).expect("made");
    std::fs::create_dir_all(context.join("tmp")).expect("made");
    std::fs::write(context.join("tmp/keep"), "").expect("written");
    std::fs::copy("/bin/busybox", context.join("bin/busybox")).expect("copied");
    for name in ["sh", "cat", "echo", "env", "httpd", "ls", "sleep", "tar", "true", "wc", "wget"] {
        std::os::unix::fs::symlink("busybox", context.join("bin").join(name)).expect("linked");
    }
    let dockerfile = "FROM scratch\nCOPY bin /bin\nCOPY tmp /tmp\nCMD [\"/bin/httpd\", \"-f\", \"-p\", \"8080\", \"-h\", \"/www\"]\n";
    std::fs::write(context.join("Dockerfile"), dockerfile).expect("written");
    context
}

#[track_caller]
fn flotilla(arguments: &[&str]) {
    let output = Command::new(binary()).args(arguments).stdin(Stdio::null()).output().expect("flotilla runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "flotilla {arguments:?}: {said}");
}

/// Builds the image and distributes it to the member.
fn distribute(containers: &Containers, tag: &str) {
    let context = context(containers.member.directory());
    let store = format!("m1={}", containers.socket().display());
    flotilla(&["image", "distribute", &context.display().to_string(), "-t", tag, "--no-push", "--containerd", &store]);
}

struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the body of a page.
fn fetch(address: &str) -> String {
    let Ok(mut stream) = TcpStream::connect(address) else { return String::new() };
    let _ = stream.write_all(b"GET / HTTP/1.0\r\n\r\n");
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()
}

const WEB: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: page}
data: {index.html: "hello from a container\n"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      volumes: [{name: page, configMap: {name: page}}]
      containers:
      - name: web
        image: IMAGE
        env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
        ports: [{name: http, containerPort: 8080}]
        readinessProbe: {httpGet: {path: /, port: http}, periodSeconds: 1}
        volumeMounts: [{name: page, mountPath: /www}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: http}]}
"#;

#[test]
fn a_deployment_from_the_registry_is_reachable_by_every_tool() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(missing) = missing() {
        test_skip::skip(format_args!("{missing}; run `make test` as root to install it"));
        return;
    }
    let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound").port();
    let registry = format!("127.0.0.1:{port}");
    let images = tempfile::tempdir().expect("a temporary directory");
    let serving = Command::new(binary())
        .args(["registry", "--bind", &registry, "--data-dir"])
        .arg(images.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the registry starts");
    let _serving = Ending(serving);
    eventually("the registry answers", LIMIT, || TcpStream::connect(&registry).is_ok());
    let containers = Containers::start(&["--pod-cidr", "10.91.1.0/24", "--registry", &registry]);
    let member = &containers.member;
    let build = context(images.path()).display().to_string();
    flotilla(&["image", "distribute", &build, "-t", "web:1", "--to", &registry, "--no-import"]);

    member.apply(&WEB.replace("IMAGE", &format!("{registry}/web:1")));
    member.expect_kubectl(&["rollout", "status", "deployment/web", "--timeout=90s"]);
    let pods = member.expect_kubectl(&["get", "pods", "-l=app=web", "-o=jsonpath={.items[*].metadata.name}"]);
    let pods: Vec<&str> = pods.split_whitespace().collect();
    assert_eq!(pods.len(), 2);
    let address = containers.value(&format!("pod/{}", pods[0]), ".status.podIP");
    assert_eq!(fetch(&format!("{address}:8080")), "hello from a container\n");
    eventually("both pods are behind the service", LIMIT, || {
        let path = "-o=jsonpath={.items[*].endpoints[?(@.conditions.ready==true)].addresses[0]}";
        member.ask(&["get", "endpointslices", "-l=kubernetes.io/service-name=web", path]).split_whitespace().count()
            == 2
    });

    let one = pods[0];
    assert_eq!(member.expect_kubectl(&["exec", one, "--", "sh", "-c", "echo $NODE"]), "m1-node-1\n");
    assert_eq!(member.kubectl(&["exec", one, "--", "sh", "-c", "exit 5"]).status.code(), Some(5));
    let token =
        member.expect_kubectl(&["exec", one, "--", "cat", "/var/run/secrets/kubernetes.io/serviceaccount/token"]);
    assert_eq!(token.split('.').count(), 3, "the token of its service account: {token}");
    let note = member.directory().join("note");
    std::fs::write(&note, "noted\n").expect("written");
    member.expect_kubectl(&["cp", &note.display().to_string(), &format!("{one}:/tmp/note")]);
    assert_eq!(member.expect_kubectl(&["exec", one, "--", "cat", "/tmp/note"]), "noted\n");

    let mut forward = Ending(member.spawn(&["port-forward", &format!("pod/{one}"), ":8080"]));
    let mut said = String::new();
    // Kept open: kubectl keeps printing and would be killed by a closed pipe.
    let mut words = BufReader::new(forward.0.stdout.take().expect("a pipe"));
    words.read_line(&mut said).expect("a line with the address");
    let forwarded = said.split_whitespace().nth(2).expect("an address").to_owned();
    assert_eq!(fetch(&forwarded), "hello from a container\n");

    assert_eq!(member.expect_kubectl(&["exec", one, "--", "wget", "-qO-", "http://web"]), "hello from a container\n");
    let news = r#"{"data": {"index.html": "news\n"}}"#;
    member.expect_kubectl(&["patch", "configmap", "page", "--type=merge", "-p", news]);
    eventually("the page follows its ConfigMap", LIMIT, || fetch(&format!("{address}:8080")) == "news\n");
    eventually("usage is measured", LIMIT, || member.ask(&["top", "pods"]).contains(one));

    member.expect_kubectl(&["rollout", "restart", "deployment/web"]);
    member.expect_kubectl(&["rollout", "status", "deployment/web", "--timeout=90s"]);
    eventually("the old pods are deleted", LIMIT, || {
        let names = member.ask(&["get", "pods", "-l=app=web", "-o=jsonpath={.items[*].metadata.name}"]);
        names.split_whitespace().count() == 2 && !names.contains(one)
    });
}

const TASKS: &str = r#"
apiVersion: batch/v1
kind: Job
metadata: {name: sum}
spec:
  template:
    spec:
      restartPolicy: Never
      initContainers: [{name: ready, image: IMAGE, command: [sh, -c, "echo 1 > /shared/a; echo 2 > /shared/b"], volumeMounts: [{name: shared, mountPath: /shared}]}]
      containers: [{name: sum, image: IMAGE, command: [sh, -c, "cat /shared/* | wc -l"], volumeMounts: [{name: shared, mountPath: /shared}]}]
      volumes: [{name: shared, emptyDir: {}}]
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: shelf}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], storageClassName: shelves, hostPath: {path: FOLDER/shelf}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: shelf}
spec: {accessModes: [ReadWriteOnce], storageClassName: shelves, resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Secret
metadata: {name: secret}
stringData: {word: open sesame}
---
apiVersion: v1
kind: Pod
metadata: {name: keeps}
spec:
  restartPolicy: Never
  volumes: [{name: shelf, persistentVolumeClaim: {claimName: shelf}}, {name: secret, secret: {secretName: secret}}]
  containers:
  - name: main
    image: IMAGE
    command: [sh, -c, "cat /secret/word > /shelf/word; echo $MEMORY"]
    env: [{name: MEMORY, valueFrom: {resourceFieldRef: {resource: limits.memory}}}]
    resources: {limits: {memory: 32Mi}}
    volumeMounts: [{name: shelf, mountPath: /shelf}, {name: secret, mountPath: /secret}]
---
apiVersion: v1
kind: Pod
metadata: {name: hungry}
spec:
  restartPolicy: Never
  containers:
  - {name: main, image: IMAGE, command: [sh, -c, "x=a; while true; do x=$x$x; done"], resources: {limits: {memory: 16Mi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: crashes}
spec: {containers: [{name: main, image: IMAGE, command: [sh, -c, "echo too bad; exit 3"]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: unpulled}
spec: {containers: [{name: main, image: "127.0.0.1:9/none:1"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: sick}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: IMAGE
    command: [sleep, "1000"]
    livenessProbe: {exec: {command: [cat, /no/such/file]}, periodSeconds: 1, failureThreshold: 1}
"#;

#[test]
fn kubectl_shows_exited_and_failed_containers() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(missing) = missing() {
        test_skip::skip(format_args!("{missing}; run `make test` as root to install it"));
        return;
    }
    let containers = Containers::start(&["--pod-cidr", "10.91.2.0/24"]);
    let member = &containers.member;
    distribute(&containers, "flotilla.test/tasks:1");
    let folder = member.directory().display().to_string();
    member.apply(&TASKS.replace("IMAGE", "flotilla.test/tasks:1").replace("FOLDER", &folder));
    member.expect_kubectl(&["wait", "--for=condition=complete", "job/sum", "--timeout=90s"]);
    assert_eq!(member.expect_kubectl(&["logs", "job/sum", "-c", "sum"]), "2\n");
    containers.until("pod/keeps", ".status.phase", "Succeeded");
    assert_eq!(std::fs::read_to_string(member.directory().join("shelf/word")).expect("kept"), "open sesame");
    assert_eq!(member.expect_kubectl(&["logs", "keeps"]), format!("{}\n", 32 << 20));
    containers.until("pod/hungry", ".status.containerStatuses[0].state.terminated.reason", "OOMKilled");
    let waiting = ".status.containerStatuses[0].state.waiting.reason";
    containers.until("pod/crashes", waiting, "CrashLoopBackOff");
    containers.until("pod/crashes", ".status.containerStatuses[0].lastState.terminated.exitCode", "3");
    assert_eq!(member.expect_kubectl(&["logs", "crashes", "--previous"]), "too bad\n");
    containers.until("pod/unpulled", waiting, "ImagePullBackOff");
    eventually("the sick container is started again", LIMIT, || {
        let count = containers.value("pod/sick", ".status.containerStatuses[0].restartCount");
        count.parse::<u32>().is_ok_and(|count| count > 0)
    });
    let events = member.expect_kubectl(&["events", "--for", "pod/sick"]);
    assert!(events.contains("Liveness probe failed"), "{events}");
    assert!(member.expect_kubectl(&["describe", "pod", "unpulled"]).contains("Failed to pull image"));

    let attach = ["run", "echo", "-i", "--rm", "--restart=Never", "--image=flotilla.test/tasks:1", "--command", "--"];
    let mut child = member.spawn(&[&attach[..], &["sh", "-c", "read x; echo heard $x"]].concat());
    child.stdin.take().expect("a pipe").write_all(b"you\n").expect("typed");
    let output = child.wait_with_output().expect("kubectl ends");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("heard you"), "{said}{}", String::from_utf8_lossy(&output.stderr));
    member.expect_kubectl(&["delete", "pod", "crashes", "sick", "unpulled", "--timeout=60s"]);
}

#[test]
fn a_stopped_member_leaves_nothing_behind() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(missing) = missing() {
        test_skip::skip(format_args!("{missing}; run `make test` as root to install it"));
        return;
    }
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: main, image: flotilla.test/x:1, command: [sleep, '1000']}]}\n";
    let before = interfaces();
    let path = {
        let containers = Containers::start(&["--pod-cidr", "10.91.3.0/24"]);
        distribute(&containers, "flotilla.test/x:1");
        containers.member.apply(pod);
        containers.until("pod/web", ".status.phase", "Running");
        assert_ne!(interfaces(), before, "the member has a bridge");
        containers.member.directory().to_owned()
    };
    assert_eq!(interfaces(), before);
    assert_eq!(traces(&path), Vec::<String>::new());
}

fn interfaces() -> Vec<String> {
    let entries = std::fs::read_dir("/sys/class/net").expect("interfaces").flatten();
    // Other programs may create interfaces meanwhile: bridges of members have a prefix.
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| name.starts_with("fl") && name.len() == 10);
    names.sort();
    names
}

/// Returns mounts and processes that refer to a directory.
fn traces(folder: &Path) -> Vec<String> {
    let folder = folder.display().to_string();
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("mounts");
    let mut traces: Vec<String> = mounts.lines().filter(|line| line.contains(&folder)).map(str::to_owned).collect();
    for process in std::fs::read_dir("/proc").expect("processes").flatten() {
        let line = std::fs::read_to_string(process.path().join("cmdline")).unwrap_or_default();
        if line.contains(&folder) {
            traces.push(line.replace('\0', " "));
        }
    }
    traces
}
