//! Pods as real containers: HTTP, logs, exec, probes, restarts, volumes, and complete cleanup.
//!
//! Needs root, containerd, runc, the CNI plugins and a static busybox; if skipped, prints what is missing.

mod cluster;

use std::sync::Arc;

use cluster::{Cluster, eventually};
use cluster_client::{DeleteOptions, Patch, ResourceRef, WriteOptions};
use futures::StreamExt as _;
use object::Object;
use object::builtin;
use parking_lot::Mutex;
use pod_streams::{Attach, Exec, ExitStatus, LogOptions, PodBackend, Streams};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// The output of a stream.
#[derive(Clone, Default)]
struct OutputBuffer(Arc<Mutex<Vec<u8>>>);

impl OutputBuffer {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock()).into_owned()
    }
}

impl tokio::io::AsyncWrite for OutputBuffer {
    fn poll_write(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> std::task::Poll<std::io::Result<usize>> {
        self.0.lock().extend_from_slice(bytes);
        std::task::Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn poll_shutdown(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }
}

/// Runs a command in a container; returns its exit status and the output of both streams.
async fn exec(cluster: &Cluster, pod: &str, command: &[&str], stdin: Option<&'static str>) -> (ExitStatus, String) {
    let reference = cluster.reference(pod, "main").await;
    let (out, err) = (OutputBuffer::default(), OutputBuffer::default());
    let (_sizes, resize) = mpsc::channel(1);
    let streams = Streams {
        stdin: stdin.map(|text| Box::new(text.as_bytes()) as Box<_>),
        stdout: Some(Box::new(out.clone())),
        stderr: Some(Box::new(err.clone())),
        resize,
    };
    let command = command.iter().map(|word| (*word).to_owned()).collect();
    let status = cluster.kubelet.exec(&reference, Exec { command, tty: false }, streams).await.expect("it runs");
    (status, out.text() + &err.text())
}

async fn logs(cluster: &Cluster, pod: &str, options: LogOptions) -> String {
    let reference = cluster.reference(pod, "main").await;
    let mut stream = cluster.kubelet.logs(&reference, options).await.expect("a log");
    let mut text = Vec::new();
    while let Some(piece) = stream.next().await {
        text.extend(piece.expect("readable"));
    }
    String::from_utf8(text).expect("text")
}

async fn page(mut stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin) -> String {
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await.expect("asked");
    let mut text = String::new();
    stream.read_to_string(&mut text).await.expect("answered");
    text.rsplit("\r\n\r\n").next().unwrap_or_default().to_owned()
}

fn web() -> Value {
    json!({
        "terminationGracePeriodSeconds": 2,
        "volumes": [{"name": "pages", "configMap": {"name": "pages"}}, {"name": "shared", "emptyDir": {}},
            {"name": "about", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}}],
        "containers": [{
            "name": "main",
            "command": ["/bin/sh", "-c", "echo serving $GREETING; echo oops >&2; exec httpd -f -p $(PORT) -h /www"],
            "env": [{"name": "PORT", "value": "8080"},
                {"name": "GREETING", "valueFrom": {"configMapKeyRef": {"name": "pages", "key": "greeting"}}},
                {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
            "volumeMounts": [{"name": "pages", "mountPath": "/www"}, {"name": "shared", "mountPath": "/shared"},
                {"name": "about", "mountPath": "/about"}],
            "resources": {"limits": {"memory": "64Mi", "cpu": "500m"}},
            "ports": [{"containerPort": 8080, "name": "http"}],
            "readinessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 1},
        }],
    })
}

async fn pages(cluster: &Cluster) {
    let data = json!({"index.html": "hello from a pod\n", "greeting": "warmly"});
    let page = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "pages", "namespace": "default"},
        "data": data});
    cluster.create("configmaps", page).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_serves_http_logs_exec_and_port_forward() {
    let Some(cluster) = Cluster::start().await else { return };
    pages(&cluster).await;
    cluster.run("web", web()).await;
    let pod = cluster.until_ready("web").await;
    let ip = pod.str_at(&["status", "podIP"]).to_owned();
    let served = || async { page(TcpStream::connect((ip.as_str(), 8080)).await.expect("it listens")).await };
    assert_eq!(served().await, "hello from a pod\n");

    let log = logs(&cluster, "web", LogOptions::default()).await;
    // The order of the two streams is undefined.
    let lines: std::collections::BTreeSet<&str> = log.lines().collect();
    assert_eq!(lines, ["oops", "serving warmly"].into());
    let tail = LogOptions { tail_lines: Some(1), ..Default::default() };
    assert_eq!(logs(&cluster, "web", tail).await.lines().next(), log.lines().last());

    assert_eq!(
        exec(&cluster, "web", &["sh", "-c", "echo out; exit 3"], None).await,
        (ExitStatus::Code(3), "out\n".into())
    );
    let typed = exec(&cluster, "web", &["cat"], Some("typed in")).await;
    assert_eq!(typed, (ExitStatus::Success, "typed in".into()));
    let (status, said) = exec(&cluster, "web", &["sh", "-c", "echo $POD_IP; cat /about/labels; hostname"], None).await;
    assert_eq!((status, said), (ExitStatus::Success, format!("{ip}\napp=\"web\"web\n")));
    let (status, _) = exec(&cluster, "web", &["no-such-program"], None).await;
    assert!(matches!(status, ExitStatus::Failed(_)), "{status:?}");

    let reference = cluster.reference("web", "main").await;
    let tunnel = cluster.kubelet.port_forward(&reference, 8080).await.expect("a tunnel");
    assert_eq!(page(tunnel).await, "hello from a pod\n");

    let target = ResourceRef::namespaced(&builtin::config_maps(), "default", "pages");
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "shop", "namespace": "default"},
        "spec": {"clusterIP": "10.0.0.77", "ports": [{"port": 80}]}});
    cluster.create("services", service).await;
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": "shop-1", "namespace": "default", "labels": {"kubernetes.io/service-name": "shop"}},
        "ports": [{"port": 8080}], "endpoints": [{"addresses": [ip], "conditions": {"ready": true}}]});
    let slices = object::builtin::endpoint_slices();
    let slice = Object::from_value(slice).expect("a map");
    let made = cluster.client.create(ResourceRef::within(&slices, "default"), slice, WriteOptions::default()).await;
    made.expect("created");
    eventually("a service is reached by its name", || async {
        let asked = exec(&cluster, "web", &["wget", "-qO-", "http://shop/"], None).await;
        asked == (ExitStatus::Success, "hello from a pod\n".into())
    })
    .await;

    let news = Patch::merge(json!({"data": {"index.html": "news\n"}}));
    cluster.client.patch(target, news, WriteOptions::default()).await.expect("written");
    eventually("the page changes with its ConfigMap", || async { served().await == "news\n" }).await;

    eventually("the pod's memory is measured", || async {
        let usage = cluster.kubelet.usage();
        let pod = usage.and_then(|usage| usage.pods.into_iter().find(|pod| pod.name == "web"));
        pod.is_some_and(|pod| pod.containers["main"].memory_bytes > 0)
    })
    .await;

    let events = cluster.events("web").await;
    for reason in ["Pulled", "Created", "Started"] {
        assert!(events.iter().any(|event| event.starts_with(reason)), "{reason}: {events:#?}");
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_restart_policy_is_applied() {
    let Some(cluster) = Cluster::start().await else { return };
    let main = |script: &str| json!({"name": "main", "command": ["sh", "-c", script]});
    cluster.run("once", json!({"restartPolicy": "Never", "containers": [main("echo done")]})).await;
    let failing = main("echo too bad > /dev/termination-log; exit 7");
    cluster.run("fails", json!({"restartPolicy": "Never", "containers": [failing]})).await;
    cluster.run("crashes", json!({"containers": [main("exit 1")]})).await;
    let mut sick = main("sleep 1000");
    sick["livenessProbe"] = json!({"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 2});
    cluster.run("sick", json!({"terminationGracePeriodSeconds": 1, "containers": [sick]})).await;
    let mut ordered = json!({"restartPolicy": "Never", "terminationGracePeriodSeconds": 2,
        "volumes": [{"name": "shared", "emptyDir": {}}], "containers": [main("cat /shared/*; ls /shared/side")],
        "initContainers": [{"name": "first", "command": ["sh", "-c", "echo first > /shared/1"]},
            {"name": "side", "restartPolicy": "Always", "command": ["sh", "-c", "touch /shared/side; exec sleep 1000"]},
            {"name": "second", "command": ["sh", "-c", "echo second > /shared/2"]}]});
    for list in ["containers", "initContainers"] {
        for container in ordered[list].as_array_mut().expect("a list") {
            container["volumeMounts"] = json!([{"name": "shared", "mountPath": "/shared"}]);
        }
    }
    cluster.run("ordered", ordered).await;

    let phase = |phase: &'static str| move |pod: &Object| pod.str_at(&["status", "phase"]) == phase;
    cluster.until("once", "done", phase("Succeeded")).await;
    assert_eq!(logs(&cluster, "once", LogOptions::default()).await, "done\n");
    let pod = cluster.until("fails", "over", phase("Failed")).await;
    let ended = &pod.items(&["status", "containerStatuses"])[0]["state"]["terminated"];
    assert_eq!((&ended["exitCode"], &ended["message"]), (&json!(7), &json!("too bad\n")));

    let waiting = |pod: &Object| pod.items(&["status", "containerStatuses"])[0]["state"]["waiting"]["reason"].clone();
    let has_status = |pod: &Object| !pod.items(&["status", "containerStatuses"]).is_empty();
    let pod =
        cluster.until("crashes", "backing off", |pod| has_status(pod) && waiting(pod) == "CrashLoopBackOff").await;
    assert_eq!(pod.items(&["status", "containerStatuses"])[0]["restartCount"], 1);
    let previous = LogOptions { previous: true, ..Default::default() };
    assert_eq!(logs(&cluster, "crashes", previous).await, "");

    let restarted =
        |pod: &Object| has_status(pod) && pod.items(&["status", "containerStatuses"])[0]["restartCount"] != 0;
    cluster.until("sick", "started again", restarted).await;
    let events = cluster.events("sick").await;
    assert!(events.iter().any(|event| event.starts_with("Unhealthy: Liveness probe failed")), "{events:#?}");
    assert!(events.iter().any(|event| event.contains("failed liveness probe, will be restarted")), "{events:#?}");

    let pod = cluster.until("ordered", "done", phase("Succeeded")).await;
    assert_eq!(logs(&cluster, "ordered", LogOptions::default()).await, "first\nsecond\n/shared/side\n");
    let side = &pod.items(&["status", "initContainerStatuses"])[1];
    assert!(side["state"]["terminated"].is_object(), "the sidecar stopped after the others: {side:#}");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_cannot_start_reports_why_and_starts_later() {
    let Some(cluster) = Cluster::start().await else { return };
    let sleeps = || json!({"name": "main", "command": ["sleep", "1000"]});
    let with = |field: &str, value: Value| {
        let mut container = sleeps();
        container[field] = value;
        json!({"terminationGracePeriodSeconds": 1, "containers": [container]})
    };
    // Nothing listens there, so the pull fails at once on this machine.
    cluster.run("no-image", with("image", json!("127.0.0.1:9/none:1"))).await;
    let mut never = with("image", json!("flotilla.test/none:1"));
    never["containers"][0]["imagePullPolicy"] = "Never".into();
    cluster.run("never", never).await;
    cluster.run("no-settings", with("envFrom", json!([{"configMapRef": {"name": "pages"}}]))).await;
    let mut no_volume = with("volumeMounts", json!([{"name": "v", "mountPath": "/v"}]));
    no_volume["volumes"] = json!([{"name": "v", "configMap": {"name": "pages"}}]);
    cluster.run("no-volume", no_volume).await;
    cluster.run("root", with("securityContext", json!({"runAsNonRoot": true}))).await;
    cluster.run("no-program", with("command", json!(["/no/such/program"]))).await;

    let reason = |pod: &Object| {
        let statuses = pod.items(&["status", "containerStatuses"]);
        statuses.first().map(|status| status["state"]["waiting"]["reason"].clone()).unwrap_or_default()
    };
    for (name, expected) in [
        ("no-image", "ImagePullBackOff"),
        ("never", "ErrImageNeverPull"),
        ("no-settings", "CreateContainerConfigError"),
        ("root", "CreateContainerConfigError"),
        ("no-program", "CrashLoopBackOff"),
    ] {
        cluster.until(name, expected, |pod| reason(pod) == expected).await;
    }
    eventually("an event reports a volume that cannot be created", || async {
        cluster.events("no-volume").await.iter().any(|event| event.contains("configmap \"pages\" not found"))
    })
    .await;
    pages(&cluster).await;
    cluster.until_ready("no-settings").await;
    cluster.until_ready("no-volume").await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn security_context_hooks_and_host_paths_are_applied() {
    let Some(cluster) = Cluster::start().await else { return };
    let shared = cluster.directory.path().join("shared");
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound").port();
    let spec = json!({
        "terminationGracePeriodSeconds": 5,
        "securityContext": {"runAsUser": 1000, "fsGroup": 2000},
        "hostAliases": [{"ip": "10.9.9.9", "hostnames": ["elsewhere"]}],
        "volumes": [{"name": "host", "hostPath": {"path": shared, "type": "DirectoryOrCreate"}},
            {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}],
        "containers": [{
            "name": "main",
            "stdin": true,
            "command": ["sh", "-c", "while read line; do echo heard $line; done; exec httpd -f -p 8080 -h /etc"],
            "securityContext": {"readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}},
            "ports": [{"containerPort": 8080, "hostPort": free, "hostIP": "127.0.0.1"}],
            "lifecycle": {"postStart": {"exec": {"command": ["touch", "/memory/started"]}},
                "preStop": {"exec": {"command": ["touch", "/host/stopped"]}}},
            "volumeMounts": [{"name": "host", "mountPath": "/host"}, {"name": "memory", "mountPath": "/memory"}],
        }],
    });
    std::fs::create_dir(&shared).expect("made");
    std::fs::set_permissions(&shared, std::os::unix::fs::PermissionsExt::from_mode(0o777)).expect("set");
    cluster.run("strict", spec).await;
    cluster.until_ready("strict").await;
    let script = "id; touch /here; ls /memory; cat /etc/hosts";
    let (_, said) = exec(&cluster, "strict", &["sh", "-c", script], None).await;
    assert!(said.contains("uid=1000 gid=0") && said.contains("2000"), "{said}");
    assert!(said.contains("Read-only file system"), "{said}");
    assert!(said.contains("started") && said.contains("10.9.9.9\telsewhere"), "{said}");

    let reference = cluster.reference("strict", "main").await;
    let output = OutputBuffer::default();
    let (_sizes, resize) = mpsc::channel(1);
    let (mut typing, stdin) = tokio::io::duplex(64);
    let streams =
        Streams { stdin: Some(Box::new(stdin)), stdout: Some(Box::new(output.clone())), stderr: None, resize };
    let kubelet = cluster.kubelet.clone();
    let attached = tokio::spawn(async move { kubelet.attach(&reference, Attach { tty: false }, streams).await });
    typing.write_all(b"you\n").await.expect("typed");
    eventually("the attached input is received", || async { output.text() == "heard you\n" }).await;
    attached.abort();

    let target = ResourceRef::namespaced(&builtin::pods(), "default", "strict");
    let finalizer = Patch::merge(json!({"metadata": {"finalizers": ["test/wait"]}}));
    cluster.client.patch(target.clone(), finalizer, WriteOptions::default()).await.expect("kept");
    cluster.client.delete(target, DeleteOptions::default()).await.expect("deleted");
    let ended = |pod: &Object| pod.items(&["status", "containerStatuses"])[0]["state"]["terminated"].is_object();
    cluster.until("strict", "ended", ended).await;
    assert!(shared.join("stopped").exists(), "the stop hook ran");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_pods_leave_nothing_behind() {
    let Some(cluster) = Cluster::start().await else { return };
    pages(&cluster).await;
    cluster.run("web", web()).await;
    let pod = cluster.until_ready("web").await;
    let uid = pod.uid().to_owned();
    cluster.run("stays", json!({"containers": [{"name": "main", "command": ["sleep", "1000"]}]})).await;
    cluster.until_ready("stays").await;
    let target = ResourceRef::namespaced(&builtin::pods(), "default", "web");
    cluster.client.delete(target, DeleteOptions::default()).await.expect("deleted");
    let folder = cluster.directory.path().join("kubelet/pods").join(&uid);
    eventually("the directory of a deleted pod is removed", || async { !folder.exists() }).await;

    let directory = cluster.stop().await;
    assert_eq!(traces(directory.path()), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_remains_of_a_killed_member_are_removed() {
    let Some(cluster) = Cluster::start().await else { return };
    cluster.run("stays", json!({"containers": [{"name": "main", "command": ["sleep", "1000"]}]})).await;
    cluster.until_ready("stays").await;
    let directory = cluster.abandon().await;
    assert_ne!(traces(directory.path()), Vec::<String>::new(), "its containers keep running");
    kubelet::containerd::clean_up(&directory.path().join("containerd")).await;
    assert_eq!(traces(directory.path()), Vec::<String>::new());
}

/// Returns mounts, processes and interfaces that belong to a directory.
fn traces(folder: &std::path::Path) -> Vec<String> {
    let path = std::fs::canonicalize(folder).expect("there").display().to_string();
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("mounts");
    let mut traces: Vec<String> = mounts.lines().filter(|line| line.contains(&path)).map(str::to_owned).collect();
    for process in std::fs::read_dir("/proc").expect("processes").flatten() {
        let line = std::fs::read_to_string(process.path().join("cmdline")).unwrap_or_default();
        if line.contains(&path) {
            traces.push(line.replace('\0', " "));
        }
    }
    let bridge = kubelet::containerd::bridge_of(&folder.join("containerd"));
    if std::path::Path::new("/sys/class/net").join(&bridge).exists() {
        traces.push(bridge.clone());
    }
    let cgroup = format!("flotilla-{}", bridge.trim_start_matches("fl"));
    for hierarchy in ["", "memory", "systemd", "unified"] {
        let path = std::path::Path::new("/sys/fs/cgroup").join(hierarchy).join(&cgroup);
        if path.exists() {
            traces.push(path.display().to_string());
        }
    }
    traces
}
