//! A testbed whose pods are real containers: nginx, Flask and Prometheus in three members, fetched through forwarded ports, while one
//! member is killed.
//!
//! Needs root, containerd, runc, the CNI plugins, a static busybox, Prometheus, and the nginx and Flask that `tools/setup` unpacks; if
//! skipped, prints what is missing.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use e2e::eventually::eventually;
use e2e::fleet::text;
use e2e::flotilla::programs;
use e2e::testbed::{CROSSING, Testbed};

const MEMBERS: [&str; 3] = ["member1", "member2", "member3"];
const PLANE: &str = "karmada-apiserver";
const PAGE: &str = "<h1>Welcome to nginx!</h1>\n";
const IMAGE: &str = "nginx:flotilla-test";
const NGINX_CONF: &str = "
daemon off;
user root;
pid /tmp/nginx.pid;
error_log stderr;
events {}
http {
  access_log off;
  client_body_temp_path /tmp/body;
  proxy_temp_path /tmp/proxy;
  fastcgi_temp_path /tmp/fastcgi;
  uwsgi_temp_path /tmp/uwsgi;
  scgi_temp_path /tmp/scgi;
  server { listen 80; root /www; default_type text/html; }
}
";

/// A server whose image is built here from programs of the distribution.
struct ServerImage {
    name: &'static str,
    port: u16,
    /// Files that `tools/setup` has unpacked.
    files: &'static str,
    /// A program of this host.
    program: Option<&'static str>,
    /// A text file, by its path in the image.
    text: (&'static str, &'static str),
    command: &'static str,
    request: &'static str,
    /// A part of the response that no other server sends.
    response: &'static str,
}

const SERVERS: [ServerImage; 2] = [
    ServerImage {
        name: "flask",
        port: 5000,
        files: "flask",
        program: None,
        text: (
            "/app.py",
            "import flask\napp = flask.Flask('demo')\n@app.route('/')\ndef page():\n    return 'Hello from Flask ' + flask.__version__\n\
             app.run(host='0.0.0.0', port=5000)\n",
        ),
        command: r#"["/usr/bin/python3.11", "/app.py"]"#,
        request: "/",
        response: "Hello from Flask 2",
    },
    ServerImage {
        name: "prometheus",
        port: 9090,
        // For its libraries.
        files: "nginx",
        program: Some("/usr/bin/prometheus"),
        text: ("/etc/prometheus.yml", "global: {scrape_interval: 15s}\nscrape_configs: []\n"),
        command: r#"["/usr/bin/prometheus", "--config.file=/etc/prometheus.yml", "--storage.tsdb.path=/tmp"]"#,
        request: "/-/ready",
        response: "Prometheus Server is Ready.",
    },
];

/// Returns the reason why containers cannot run here, with the check of `up` itself.
fn is_missing(home: &Path) -> bool {
    let bed = Testbed::at(home, "check");
    let refused =
        bed.flotilla(&["up", "--runtime=containerd", "--members=0", "--no-registry", "--no-links", "--port=0"]);
    let is_lacking = |path: &Path, why: &str| (!path.exists()).then(|| why.to_owned());
    let lacking = is_lacking(Path::new("/bin/busybox"), "busybox-static is not installed")
        .or_else(|| is_lacking(&unpacked("nginx").join("usr/sbin/nginx"), "tools/setup has not unpacked nginx"))
        .or_else(|| is_lacking(&unpacked("flask").join("usr/bin/python3.11"), "tools/setup has not unpacked Flask"))
        .or_else(|| is_lacking(Path::new("/usr/bin/prometheus"), "prometheus is not installed"))
        .or_else(|| (!refused.status.success()).then(|| text(&refused)));
    let Some(reason) = lacking else { return false };
    test_skip::skip(format_args!("real containers: {}; run `make test` as root to install it", reason.trim()));
    true
}

/// A server of the distribution and its libraries.
fn unpacked(name: &str) -> PathBuf {
    programs().with_file_name(name)
}

/// Returns the directory of a new image, with the files of a server in `root` and an empty `tmp`.
fn image_context(directory: &Path, name: &str, files: &str) -> PathBuf {
    let context = directory.join(name);
    std::fs::create_dir_all(context.join("tmp")).expect("a directory");
    std::fs::write(context.join("tmp/empty"), "").expect("written");
    let copied = Command::new("cp").arg("-a").arg(unpacked(files)).arg(context.join("root")).status();
    assert!(copied.is_ok_and(|status| status.success()), "{files} is copied");
    context
}

/// Builds an image with nginx and its page, and distributes it to all members. busybox is the client of other tests.
fn distribute(bed: &Testbed, directory: &Path) {
    let context = image_context(directory, "nginx", "nginx");
    std::fs::copy("/bin/busybox", context.join("busybox")).expect("copied");
    let files = [
        ("index.html", PAGE),
        ("nginx.conf", NGINX_CONF),
        ("passwd", "root:x:0:0:root:/:/bin/sh\n"),
        ("group", "root:x:0:\n"),
        (
            "Dockerfile",
            "FROM scratch\nCOPY root /\nCOPY busybox /bin/busybox\nCOPY index.html /www/index.html\nCOPY nginx.conf /nginx.conf\n\
             COPY passwd /etc/passwd\nCOPY group /etc/group\nCOPY tmp /tmp\nCMD [\"/usr/sbin/nginx\", \"-c\", \"/nginx.conf\"]\n",
        ),
    ];
    for (name, content) in files {
        std::fs::write(context.join(name), content).expect("written");
    }
    bed.run_ok(&["image", "distribute", &context.display().to_string(), "-t", IMAGE]);
}

/// A workload of nginx.
fn workload(name: &str, placement: &str) -> String {
    deployment(name, IMAGE, 80, placement)
}

fn deployment(name: &str, image: &str, port: u16, placement: &str) -> String {
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
      containers: [{{name: main, image: '{image}', imagePullPolicy: IfNotPresent, ports: [{{containerPort: {port}}}]}}]
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

/// Returns the response with its headers; empty on failure.
fn get(port: u16, path: &str) -> String {
    let answer = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes())?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    answer().unwrap_or_default()
}

/// Returns the page if nginx serves it; empty otherwise.
fn fetch(port: u16) -> String {
    let response = get(port, "/");
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or_default();
    if head.contains("Server: nginx/") { body.to_owned() } else { String::new() }
}

/// Forwards a local port to the pods of a Deployment in a member.
fn expose(bed: &Testbed, name: &str, member: &str, target: u16) -> u16 {
    let port = free_port();
    let (forward, pod, ports) = (format!("{name}-{member}"), format!("deploy/{name}"), format!("{port}:{target}"));
    bed.run_ok(&["expose", &forward, "-C", member, "--pod", &pod, "--port", &ports]);
    port
}

/// Builds the image of the server, distributes it and fetches a page from every member.
fn runs_in_every_member(bed: &Testbed, directory: &Path, server: &ServerImage) {
    let (name, (path, text)) = (server.name, server.text);
    let context = image_context(directory, name, server.files);
    std::fs::write(context.join("text"), text).expect("written");
    let mut dockerfile =
        format!("FROM scratch\nCOPY root /\nCOPY tmp /tmp\nCOPY text {path}\nCMD {}\n", server.command);
    if let Some(program) = server.program {
        std::fs::copy(program, context.join("program")).expect("copied");
        dockerfile += &format!("COPY program {program}\n");
    }
    std::fs::write(context.join("Dockerfile"), dockerfile).expect("written");
    let image = format!("{name}:flotilla-test");
    bed.run_ok(&["image", "distribute", &context.display().to_string(), "-t", &image]);
    bed.apply(&deployment(name, &image, server.port, "{clusterAffinity: {clusterNames: [member1, member2, member3]}}"));
    for member in MEMBERS {
        bed.wait(member, &["get", "deploy", name, "-o=jsonpath={.status.readyReplicas}"], "1");
        let port = expose(bed, name, member, server.port);
        let what = format!("{name} answers in {member}");
        eventually(&what, CROSSING, || get(port, server.request).contains(server.response));
    }
}

/// A client in a container of member2 and one of member3, a server in member1: a push and a pull member.
fn reaches_a_server_in_another_member(bed: &Testbed) {
    bed.apply(&workload("remote", "{clusterAffinity: {clusterNames: [member1]}}"));
    bed.apply(
        "
apiVersion: v1
kind: Service
metadata: {name: remote, namespace: default}
spec: {selector: {app: remote}, ports: [{port: 8080, targetPort: 80}]}
---
apiVersion: networking.karmada.io/v1alpha1
kind: MultiClusterService
metadata: {name: remote, namespace: default}
spec: {types: [CrossCluster], providerClusters: [{name: member1}], consumerClusters: [{name: member2}, {name: member3}]}
",
    );
    for member in ["member2", "member3"] {
        let fetched = || {
            let address = bed.ask(member, &["get", "service", "remote", "-o=jsonpath={.spec.clusterIP}"]);
            let url = format!("http://{address}:8080/");
            bed.ask(member, &["exec", "deploy/nginx", "--", "/bin/busybox", "wget", "-q", "-O", "-", &url])
        };
        eventually(&format!("a pod of {member} reaches member1"), CROSSING, || fetched() == PAGE.trim());
    }
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
    let ports = MEMBERS.map(|member| expose(&bed, "nginx", member, 80));
    for (member, port) in MEMBERS.iter().zip(ports) {
        eventually(&format!("{member} serves the page"), CROSSING, || fetch(port) == PAGE);
    }

    reaches_a_server_in_another_member(&bed);
    for server in &SERVERS {
        runs_in_every_member(&bed, directory.path(), server);
    }

    // The cluster of the single workload is lost.
    bed.wait(PLANE, &["get", "deploy", "single", "-o=jsonpath={.status.readyReplicas}"], "1");
    let placed = ["get", "rb", "single-deployment", "-o=jsonpath={.spec.clusters[0].name}"];
    let lost = bed.ask(PLANE, &placed);
    let other = if lost == "member1" { "member2" } else { "member1" };
    bed.run_ok(&["fault", &lost, "kill"]);
    bed.wait(PLANE, &placed, other);
    bed.wait(other, &["get", "deploy", "single", "-o=jsonpath={.status.readyReplicas}"], "1");
    let moved = expose(&bed, "single", other, 80);
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
