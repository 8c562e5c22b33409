//! Access to pods of a member with real kubectl: logs, exec, cp, port-forward, attach, top, and simulated faults.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use e2e::eventually::eventually;
use e2e::flotilla::programs;
use e2e::light_member::LightMember;

const LIMIT: Duration = Duration::from_secs(30);
/// Makes kubectl use SPDY, as older clients do.
const SPDY: [(&str, &str); 2] =
    [("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false"), ("KUBECTL_PORT_FORWARD_WEBSOCKETS", "false")];

/// Starts a member with the pods of a manifest and waits for their final state.
fn member(manifest: &str, pods: &[(&str, &str)]) -> LightMember {
    let member = LightMember::start(&[]);
    member.apply(manifest);
    for (pod, phase) in pods {
        eventually(&format!("{pod} is {phase}"), LIMIT, || {
            member.ask(&["get", "pod", pod, "-o=jsonpath={.status.phase}"]) == *phase
        });
    }
    member
}

fn pod(name: &str, annotations: &str, container: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{app: {name}}}, annotations: {{{annotations}}}}}\n\
         spec:\n  terminationGracePeriodSeconds: 1\n  containers:\n  - {{name: main, {container}}}\n---\n"
    )
}

struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// Runs kubectl with input and environment.
fn run(member: &LightMember, environment: &[(&str, &str)], arguments: &[&str], input: &[u8]) -> Ran {
    let mut command = Command::new(programs().join("kubectl"));
    command.arg("--kubeconfig").arg(&member.kubeconfig).args(arguments).envs(environment.iter().copied());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("kubectl runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_vec();
    let writing = std::thread::spawn(move || {
        // A command may exit without reading its input.
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().expect("kubectl ends");
    writing.join().expect("written");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[test]
fn logs_are_complete_and_missing_ones_have_a_reason() {
    let script = "command: [sh, -c, 'echo one; echo two; while true; do echo tick; sleep 1; done']";
    let manifest = [
        pod("web", "", "image: nginx"),
        pod("ticker", "", &format!("image: busybox, {script}")),
        pod("crasher", "flotilla.dev/simulate: crash, flotilla.dev/run-for: 100ms", "image: app"),
        pod("unpulled", "flotilla.dev/simulate: image-pull-error", "image: missing"),
        "apiVersion: v1\nkind: Pod\nmetadata: {name: two}\nspec:\n  initContainers: [{name: setup, image: i, command: [echo, prepared]}]\n  \
         containers: [{name: a, image: x, command: [sh, -c, 'echo from a; sleep 1h']}, {name: b, image: x}]\n"
            .to_owned(),
    ];
    let running = [("web", "Running"), ("ticker", "Running"), ("crasher", "Running"), ("two", "Running")];
    let member = member(&manifest.concat(), &running);
    assert!(member.expect_kubectl(&["logs", "web"]).contains("started nginx in pod default/web"));
    assert!(member.expect_kubectl(&["logs", "ticker"]).starts_with("one\ntwo\ntick\n"));
    assert_eq!(member.expect_kubectl(&["logs", "ticker", "--tail=1"]), "tick\n");
    assert_eq!(member.expect_kubectl(&["logs", "two", "-c", "setup"]), "prepared\n");
    assert_eq!(member.expect_kubectl(&["logs", "two", "-c", "a"]), "from a\n");
    assert_eq!(member.expect_kubectl(&["logs", "two", "-c", "a", "--limit-bytes=4"]), "from");
    let stamped = member.expect_kubectl(&["logs", "two", "-c", "a", "--timestamps"]);
    assert!(stamped.starts_with("20") && stamped.ends_with("Z from a\n"), "{stamped}");
    eventually("an old line is left out", LIMIT, || !member.ask(&["logs", "ticker", "--since=2s"]).contains("one"));
    eventually("the crash is over", LIMIT, || member.kubectl(&["logs", "crasher", "--previous"]).status.success());
    assert!(member.expect_kubectl(&["logs", "crasher", "--previous"]).contains("exiting with code 1"));

    let refused = |arguments: &[&str]| run(&member, &[], arguments, b"").stderr;
    let none = refused(&["logs", "web", "--previous"]);
    assert!(none.contains("previous terminated container \"main\" in pod \"web\" not found"), "{none}");
    let unpulled = refused(&["logs", "unpulled"]);
    assert!(unpulled.contains("container \"main\" in pod \"unpulled\" is waiting to start:"), "{unpulled}");
    let unnamed = refused(&["logs", "two", "-c", "other"]);
    assert!(unnamed.contains("container other is not valid for pod two"), "{unnamed}");
    assert!(refused(&["logs", "missing"]).contains("pods \"missing\" not found"));

    let mut following = Ending(member.spawn(&["logs", "-f", "ticker", "--tail=0"]));
    let mut lines = BufReader::new(following.0.stdout.take().expect("a pipe")).lines();
    assert_eq!(lines.next().expect("a line").expect("text"), "tick");
    member.expect_kubectl(&["delete", "pod", "ticker", "--wait=false"]);
    assert!(lines.all(|line| line.is_ok()), "the log ends with its container");
}

struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn commands_run_in_containers_over_web_sockets_and_over_spdy() {
    let env = "env: [{name: GREETING, value: hello}]";
    let config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf}\ndata: {colour: green}\n---\n\
                  apiVersion: v1\nkind: Pod\nmetadata: {name: mounted}\nspec:\n  volumes: [{name: v, configMap: {name: conf}}]\n  \
                  containers: [{name: c, image: x, volumeMounts: [{name: v, mountPath: /etc/conf}]}]\n";
    let manifest = pod("web", "", &format!("image: nginx, {env}")) + config;
    let member = member(&manifest, &[("web", "Running"), ("mounted", "Running")]);
    for environment in [&[][..], &SPDY[..]] {
        let exec = |arguments: &[&str], input: &[u8]| run(&member, environment, arguments, input);
        let ran = exec(&["exec", "web", "--", "echo", "a  b"], b"");
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "a  b\n"), "{}", ran.stderr);
        let ran = exec(&["exec", "web", "--", "sh", "-c", "echo out; echo err >&2; exit 42"], b"");
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(42), "out\n"));
        assert!(ran.stderr.contains("err\n") && ran.stderr.contains("exit code 42"), "{}", ran.stderr);
        assert_eq!(exec(&["exec", "web", "--", "hostname"], b"").stdout, "web\n");
        assert!(exec(&["exec", "web", "--", "env"], b"").stdout.contains("GREETING=hello\n"));
        assert_eq!(exec(&["exec", "mounted", "--", "cat", "/etc/conf/colour"], b"").stdout, "green");
        let input = "line\n".repeat(50_000);
        let ran = exec(&["exec", "-i", "web", "--", "wc", "-l"], input.as_bytes());
        assert_eq!(ran.stdout, "50000\n", "{}", ran.stderr);
        let ran = exec(&["exec", "-i", "web", "--", "sh"], b"x=5\nif true; then\necho $x\nfi\nexit 3\n");
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), "5\n"), "{}", ran.stderr);
        let ran = exec(&["exec", "web", "--", "nmap"], b"");
        assert!(ran.code == Some(1) && ran.stderr.contains("executable file not found"), "{}", ran.stderr);
    }
    let ran = run(&member, &[], &["exec", "web", "-c", "other", "--", "ls"], b"");
    assert!(ran.stderr.contains("container other is not valid for pod web"), "{}", ran.stderr);
}

#[test]
fn a_terminal_shows_what_is_typed_and_ends_with_the_shell() {
    let member = member(&pod("web", "", "image: nginx"), &[("web", "Running")]);
    let kubectl = programs().join("kubectl");
    let inner = format!("{} --kubeconfig {} exec -it web -- sh", kubectl.display(), member.kubeconfig.display());
    let mut child = Command::new("script")
        .args(["-qefc", &inner, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    let mut stdout = child.stdout.take().expect("a pipe");
    let mut seen = Vec::new();
    let mut wait_for = |text: &str| {
        let mut byte = [0];
        while !String::from_utf8_lossy(&seen).contains(text) {
            let count = stdout.read(&mut byte).expect("readable");
            assert!(count > 0, "{text:?} was not shown: {:?}", String::from_utf8_lossy(&seen));
            seen.push(byte[0]);
        }
    };
    wait_for("/ # ");
    stdin.write_all(b"ecxho hi\x7f\x7f\x7f\x7f\x7f\x7fho $((40+2))\r").expect("typed");
    wait_for("42");
    stdin.write_all(b"exit 7\r").expect("typed");
    drop(stdin);
    let mut rest = Vec::new();
    stdout.read_to_end(&mut rest).expect("readable");
    assert_eq!(child.wait().expect("it ends").code(), Some(7));
}

#[test]
fn files_are_copied_into_a_container_and_back() {
    let member = member(&pod("web", "", "image: nginx"), &[("web", "Running")]);
    let files = member.directory().join("files");
    std::fs::create_dir_all(files.join("deep/er")).expect("made");
    let content: Vec<u8> = (0..300_000u32).map(|n| (n * 7) as u8).collect();
    std::fs::write(files.join("deep/er/blob"), &content).expect("written");
    std::fs::write(files.join("note"), "hello\n").expect("written");
    let local = files.display().to_string();
    for (environment, target) in [(&[][..], "/tmp/one"), (&SPDY[..], "/tmp/two")] {
        let remote = format!("web:{target}");
        let ran = run(&member, environment, &["cp", &local, &remote], b"");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert_eq!(member.expect_kubectl(&["exec", "web", "--", "cat", &format!("{target}/note")]), "hello\n");
        let back = member.directory().join(format!("back{}", target.replace('/', "-")));
        let ran = run(&member, environment, &["cp", &remote, &back.display().to_string()], b"");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(std::fs::read(back.join("deep/er/blob")).expect("copied back") == content);
    }
}

#[test]
fn ports_of_pods_answer_through_port_forward_and_proxies() {
    let manifest = pod("web", "", "image: nginx, ports: [{containerPort: 80, name: http}]")
        + "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{port: 8080, targetPort: http}]}\n";
    let member = member(&manifest, &[("web", "Running")]);
    for environment in [&[][..], &SPDY[..]] {
        let mut command = Command::new(programs().join("kubectl"));
        command.arg("--kubeconfig").arg(&member.kubeconfig).args(["port-forward", "pod/web", ":80"]);
        let command = command.envs(environment.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut forwarding = Ending(command.spawn().expect("kubectl runs"));
        let mut lines = BufReader::new(forwarding.0.stdout.take().expect("a pipe")).lines();
        // For example: Forwarding from 127.0.0.1:40001 -> 80
        let line = lines.next().expect("a line").expect("text");
        let port = line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next()).expect("a port");
        for _ in 0..3 {
            let page = fetch(port.parse().expect("a number"));
            for part in ["HTTP/1.1 200", "cluster: m1", "node: m1-node-1", "pod: web", "port: 80"] {
                assert!(page.contains(part), "{part:?} is missing in {page}");
            }
        }
    }
    let page = member.expect_kubectl(&["get", "--raw", "/api/v1/namespaces/default/pods/web:80/proxy/some/path"]);
    assert!(page.contains(r#""pod":"web""#), "{page}");
    eventually("the service leads to the pod", LIMIT, || {
        member.ask(&["get", "--raw", "/api/v1/namespaces/default/services/web:8080/proxy/"]).contains(r#""pod":"web""#)
    });
    assert!(member.expect_kubectl(&["logs", "web"]).contains("GET /some/path 200"));
}

fn fetch(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("forwarded");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit");
    stream.write_all(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n").expect("sent");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("a page");
    page
}

#[test]
fn attaching_shows_the_output_and_talks_to_a_shell() {
    let script = "command: [sh, -c, 'while true; do echo tick; sleep 1; done']";
    let manifest = pod("ticker", "", &format!("image: busybox, {script}"));
    let member = member(&manifest, &[("ticker", "Running")]);
    let mut attached = Ending(member.spawn(&["attach", "ticker"]));
    let mut lines = BufReader::new(attached.0.stdout.take().expect("a pipe")).lines();
    assert_eq!(lines.next().expect("a line").expect("text"), "tick");
    drop(attached);

    let arguments = ["run", "once", "-i", "--image=busybox", "--restart=Never", "--rm", "--", "sh"];
    let ran = run(&member, &[], &arguments, b"echo from within $((2*21))\nexit 0\n");
    assert!(ran.stdout.contains("from within 42"), "{} {}", ran.stdout, ran.stderr);
    eventually("the pod is gone", LIMIT, || !member.kubectl(&["get", "pod", "once"]).status.success());
}

#[test]
fn top_shows_what_pods_and_nodes_use() {
    let manifest = pod("busy", "flotilla.dev/usage-cpu: 250m, flotilla.dev/usage-memory: 64Mi", "image: nginx")
        + &pod("idle", "", "image: nginx");
    let member = member(&manifest, &[("busy", "Running"), ("idle", "Running")]);
    let pods = member.expect_kubectl(&["top", "pods", "--no-headers"]);
    let busy: Vec<&str> =
        pods.lines().find(|line| line.starts_with("busy")).expect("a line").split_whitespace().collect();
    assert_eq!(busy, ["busy", "250m", "64Mi"]);
    let selected = member.expect_kubectl(&["top", "pods", "-l", "app=idle", "--no-headers"]);
    assert!(selected.starts_with("idle") && !selected.contains("busy"), "{selected}");
    let nodes = member.expect_kubectl(&["top", "nodes", "--no-headers"]);
    let node: Vec<&str> = nodes.split_whitespace().collect();
    assert_eq!((node[0], node[1]), ("m1-node-1", "351m"), "{nodes}");
    assert!(member.expect_kubectl(&["api-resources", "--api-group=metrics.k8s.io"]).contains("PodMetrics"));
    let raw = member.expect_kubectl(&["get", "--raw", "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/busy"]);
    assert!(raw.contains(r#""kind":"PodMetrics""#), "{raw}");
}

#[test]
fn simulated_faults_take_effect_and_heal() {
    let manifest = [
        pod("crasher", "flotilla.dev/simulate: crash, flotilla.dev/run-for: 100ms", "image: app"),
        pod("unready", "flotilla.dev/simulate: not-ready", "image: app"),
        pod("unpulled", "flotilla.dev/simulate: image-pull-error", "image: missing"),
    ];
    let member = member(&manifest.concat(), &[("unready", "Running")]);
    let shows = |pod: &str, text: &str| {
        eventually(&format!("{pod} shows {text}"), LIMIT, || {
            member.ask(&["get", "pod", pod, "--no-headers"]).contains(text)
        });
    };
    shows("crasher", "CrashLoopBackOff");
    shows("unready", "0/1");
    shows("unpulled", "ImagePullBackOff");
    eventually("an event reports it", LIMIT, || {
        let events = member.ask(&["get", "events", "--no-headers"]);
        ["BackOff", "Unhealthy", "Failed", "Started"].iter().all(|reason| events.contains(reason))
    });
    member.expect_kubectl(&["annotate", "pod", "crasher", "unready", "unpulled", "flotilla.dev/simulate-"]);
    member.expect_kubectl(&["annotate", "pod", "crasher", "flotilla.dev/run-for-"]);
    for pod in ["unready", "unpulled", "crasher"] {
        shows(pod, "1/1");
    }

    member.expect_kubectl(&["annotate", "node", "m1-node-1", "flotilla.dev/simulate=not-ready"]);
    eventually("the node is not ready", LIMIT, || member.ask(&["get", "nodes", "--no-headers"]).contains("NotReady"));
    member.expect_kubectl(&["annotate", "node", "m1-node-1", "flotilla.dev/simulate-"]);
    eventually("the node is ready", LIMIT, || !member.ask(&["get", "nodes", "--no-headers"]).contains("NotReady"));
}
