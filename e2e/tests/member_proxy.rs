//! Access to members through the control plane with real kubectl: lists, watches, logs, exec, port-forward and top,
//! for push-mode members and for pull-mode members that cannot be dialed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use e2e::agent::Agent;
use e2e::eventually::eventually;
use e2e::fleet::READY;
use e2e::flotilla::{Flotilla, binary, programs};
use e2e::light_member::LightMember;

const LIMIT: Duration = Duration::from_secs(60);
/// The two streaming protocols of kubectl; the first is the default.
const PROTOCOLS: [&str; 2] = ["true", "false"];
const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec: {containers: [{name: main, image: nginx, ports: [{containerPort: 80}]}]}
";

/// Returns a kubectl command for a member through the control plane.
fn through(plane: &Flotilla, cluster: &str, websockets: &str, arguments: &[&str]) -> Command {
    let server =
        format!("https://127.0.0.1:{}/apis/cluster.karmada.io/v1alpha1/clusters/{cluster}/proxy", plane.port());
    let mut command = Command::new(programs().join("kubectl"));
    command.arg("--kubeconfig").arg(&plane.kubeconfig).args(["--server", &server]).args(arguments);
    command.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets).env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[track_caller]
fn expect_kubectl(plane: &Flotilla, cluster: &str, websockets: &str, arguments: &[&str]) -> String {
    let output = through(plane, cluster, websockets, arguments).output().expect("kubectl runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs everything users do in a member through the control plane.
fn reach(plane: &Flotilla, cluster: &str, member: &LightMember) {
    member.apply(POD);
    eventually("the pod runs", LIMIT, || {
        member.ask(&["get", "pod", "web", "-o=jsonpath={.status.phase}"]) == "Running"
    });
    for websockets in PROTOCOLS {
        let ask = |arguments: &[&str]| expect_kubectl(plane, cluster, websockets, arguments);
        assert!(ask(&["get", "pods", "--no-headers"]).starts_with("web "));
        assert!(ask(&["logs", "web"]).contains("started nginx in pod default/web"));
        assert_eq!(ask(&["exec", "web", "--", "sh", "-c", "echo said from within"]), "said from within\n");
        let failed = through(plane, cluster, websockets, &["exec", "web", "--", "sh", "-c", "exit 3"]).output();
        assert_eq!(failed.expect("kubectl runs").status.code(), Some(3));
        assert!(page_of(plane, cluster, websockets).contains("pod: web"), "a page through port-forward");
    }
    eventually("usage is available", LIMIT, || {
        expect_kubectl(plane, cluster, "true", &["top", "pods"]).contains("web")
    });
    watch(plane, cluster, member);
}

/// Fetches a page of the pod through a forwarded port.
fn page_of(plane: &Flotilla, cluster: &str, websockets: &str) -> String {
    let mut forward = through(plane, cluster, websockets, &["port-forward", "pod/web", ":80"]).spawn().expect("starts");
    let mut said = String::new();
    // Kept open while kubectl may write to it.
    let mut output = BufReader::new(forward.stdout.take().expect("a pipe"));
    output.read_line(&mut said).expect("a line");
    let port: u16 =
        said.split(':').nth(1).and_then(|rest| rest.split(' ').next()).and_then(|p| p.parse().ok()).unwrap_or(0);
    let mut page = String::new();
    let mut connection = TcpStream::connect(("127.0.0.1", port)).unwrap_or_else(|_| panic!("{said}"));
    connection.set_read_timeout(Some(LIMIT)).expect("a limit");
    connection.write_all(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n").expect("asked");
    connection.read_to_string(&mut page).expect("answered");
    forward.kill().expect("ends");
    forward.wait().expect("ended");
    page
}

/// A watch through the control plane shows changes in the member.
fn watch(plane: &Flotilla, cluster: &str, member: &LightMember) {
    let mut watch = through(plane, cluster, "true", &["get", "configmaps", "-w", "-o=name"]).spawn().expect("starts");
    let mut lines = BufReader::new(watch.stdout.take().expect("a pipe")).lines();
    member.expect_kubectl(&["create", "configmap", "made-meanwhile"]);
    let found = lines.by_ref().map_while(Result::ok).any(|line| line == "configmap/made-meanwhile");
    assert!(found, "the watch ended without the event");
    watch.kill().expect("ends");
    watch.wait().expect("ended");
}

fn wait_ready(plane: &Flotilla, cluster: &str) {
    eventually(&format!("{cluster} is ready"), LIMIT, || {
        plane.kubectl(&["get", "cluster", cluster, READY]).stdout.starts_with(b"True")
    });
}

#[test]
fn a_push_member_is_reached_through_the_plane() {
    let (plane, member) = (Flotilla::start(), LightMember::start(&[]));
    let kubeconfig = member.kubeconfig.to_str().expect("text");
    let joined = Command::new(binary())
        .args(["join", "pushed", "--kubeconfig"])
        .arg(&plane.kubeconfig)
        .args(["--cluster-kubeconfig", kubeconfig])
        .output()
        .expect("flotilla runs");
    assert!(joined.status.success(), "{}", String::from_utf8_lossy(&joined.stderr));
    wait_ready(&plane, "pushed");
    reach(&plane, "pushed", &member);
}

#[test]
fn an_undialable_pull_member_is_reached_through_its_agent() {
    let (plane, member) = (Flotilla::start(), LightMember::start(&[]));
    // The control plane gets an address without a listener.
    let nowhere = ["--cluster-api-endpoint", "https://127.0.0.1:9"];
    let agent = Agent::ours_outside(&plane.kubeconfig, ("pulled", &member.kubeconfig), &nowhere);
    wait_ready(&plane, "pulled");
    eventually("the way is open", LIMIT, || agent.log().contains("the tunnel to the control plane is open"));
    reach(&plane, "pulled", &member);
    drop(agent);
    eventually("without its agent the member is out of reach", LIMIT, || {
        !through(&plane, "pulled", "true", &["get", "pods"]).output().expect("kubectl runs").status.success()
    });
}

#[test]
fn an_agent_cannot_open_the_tunnel_of_another_cluster() {
    let plane = Flotilla::start();
    let cases = [
        (vec!["--as=system:karmada:agent:m1", "--as-group=system:karmada:agents"], "m2"),
        (vec!["--as=someone", "--as-group=system:authenticated"], "m1"),
    ];
    for (who, cluster) in cases {
        let path = format!("/flotilla/v1alpha1/tunnels/{cluster}");
        let asked = plane.kubectl(&[&who[..], &["get", "--raw", &path]].concat());
        let error = String::from_utf8_lossy(&asked.stderr).into_owned();
        assert!(error.contains("orbidden"), "{error}");
    }
    // Authorized callers get a method error.
    let asked = plane.kubectl(&["get", "--raw", "/flotilla/v1alpha1/tunnels/m1"]);
    assert!(String::from_utf8_lossy(&asked.stderr).contains("this path is for agents"));
}
