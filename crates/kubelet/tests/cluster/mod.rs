//! A node with a private containerd and an in-memory API, for tests with real containers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use cluster_client::testing::MemoryApi;
use cluster_client::{ClusterClient, ResourceRef, WriteOptions};
use kubelet::containerd::pause::{ImageFile, image_archive};
use kubelet::containerd::{Containerd, ContainerdSettings, unmet};
use kubelet::{Kubelet, KubeletDeps, KubeletSettings};
use object::Object;
use object::builtin;
use pod_streams::PodRef;
use reconcile::SystemClock;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub const BUSYBOX: &str = "flotilla.test/busybox:1";
const NODE: &str = "worker";
/// Longer than the timeout of a sandbox, so that a runtime that does not answer shows as an event and is retried.
const DEADLINE: Duration = Duration::from_secs(180);
const LOG_LINES_SHOWN: usize = 40;

pub struct Cluster {
    /// Dropped first: the directory is removed with the last of these.
    _sweeper: Sweeper,
    pub client: ClusterClient,
    pub kubelet: Kubelet,
    pub directory: tempfile::TempDir,
    containerd: Containerd,
    cancel: CancellationToken,
    running: JoinHandle<()>,
}

/// Stops the processes a failed test leaves running.
struct Sweeper(PathBuf);

impl Drop for Sweeper {
    fn drop(&mut self) {
        let directory = self.0.clone();
        let sweep = move || {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(kubelet::containerd::clean_up(&directory));
        };
        std::thread::spawn(sweep).join().expect("swept");
    }
}

/// Returns a static busybox, from which test images are built.
fn busybox() -> Option<PathBuf> {
    let candidates = ["/bin/busybox", "/usr/bin/busybox"].map(PathBuf::from);
    // A static executable has no loader.
    let is_static = |path: &PathBuf| {
        std::fs::read(path).is_ok_and(|bytes| !bytes.windows(9).take(1 << 12).any(|window| window == b"/ld-linux"))
    };
    candidates.into_iter().find(is_static)
}

fn busybox_image(busybox: &Path) -> Vec<u8> {
    let content = std::fs::read(busybox).expect("busybox can be read");
    let mut files = BTreeMap::from([
        ("bin".to_owned(), ImageFile::Folder),
        ("tmp".to_owned(), ImageFile::Folder),
        ("bin/busybox".to_owned(), ImageFile::File { content, mode: 0o755 }),
    ]);
    for name in [
        "sh", "cat", "echo", "env", "httpd", "id", "kill", "ls", "nc", "sleep", "true", "false", "touch", "wget",
        "hostname",
    ] {
        files.insert(format!("bin/{name}"), ImageFile::Link("busybox".to_owned()));
    }
    image_archive(BUSYBOX, &files, &["/bin/sh"]).expect("the names are valid")
}

impl Cluster {
    /// Prints the reason and returns `None` where containers cannot run.
    pub async fn start() -> Option<Self> {
        if let Some(why) = unmet() {
            test_skip::skip(why);
            return None;
        }
        let Some(busybox) = busybox() else {
            test_skip::skip("no static busybox; on Debian: apt-get install busybox-static");
            return None;
        };
        // Concurrent tests use different pod addresses.
        static NEXT: AtomicU8 = AtomicU8::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let pod_cidr = format!("10.{}.{number}.0/24", 200 + std::process::id() % 50);
        let directory = tempfile::tempdir().expect("a folder");
        let settings = ContainerdSettings {
            directory: directory.path().join("containerd"),
            pod_cidr: pod_cidr.clone(),
            registries: Vec::new(),
        };
        let sweeper = Sweeper(settings.directory.clone());
        let containerd = Containerd::start(&settings).await.expect("containerd starts");
        let archive = directory.path().join("busybox.tar");
        std::fs::write(&archive, busybox_image(&busybox)).expect("written");
        containerd.import(&archive).await.expect("imported");
        let mut settings = KubeletSettings::new(
            containerd.socket().to_owned(),
            directory.path().join("kubelet"),
            NODE,
            &pod_cidr,
            "v1.36.4",
        );
        settings.cgroup = containerd.cgroup().to_owned();
        let api = MemoryApi::default();
        let client = api.client();
        let cancel = CancellationToken::new();
        let parts = KubeletDeps { client: client.clone(), clock: Arc::new(SystemClock), settings };
        let (kubelet, running) = kubelet::start(parts, cancel.clone()).expect("a node starts");
        let running = tokio::spawn(running);
        Some(Self { client, kubelet, directory, containerd, cancel, running, _sweeper: sweeper })
    }

    /// Stops everything; returns the directory for checks.
    pub async fn stop(self) -> tempfile::TempDir {
        self.cancel.cancel();
        self.running.await.expect("the node ends");
        self.kubelet.end_pods().await;
        self.containerd.stop().await;
        self.directory
    }

    /// Stops the node as on a power failure: containers keep running.
    pub async fn abandon(self) -> tempfile::TempDir {
        self.cancel.cancel();
        self.running.await.expect("the node ends");
        std::mem::forget(self._sweeper);
        self.directory
    }

    pub async fn create(&self, resource: &str, object: Value) -> Arc<Object> {
        let object = Object::from_value(object).expect("a map");
        let target = ResourceRef::within(&builtin::core(resource), "default");
        self.client.create(target, object, WriteOptions::default()).await.expect("created")
    }

    /// Creates a pod on this node. Containers without an image get the test image.
    pub async fn run(&self, name: &str, mut spec: Value) -> Arc<Object> {
        spec["nodeName"] = NODE.into();
        for list in ["containers", "initContainers"] {
            for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                let map = container.as_object_mut().expect("a map");
                map.entry("image").or_insert_with(|| BUSYBOX.into());
                map.entry("imagePullPolicy").or_insert_with(|| "IfNotPresent".into());
            }
        }
        let metadata = json!({"name": name, "namespace": "default", "labels": {"app": name}});
        self.create("pods", json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})).await
    }

    pub async fn pod(&self, name: &str) -> Option<Arc<Object>> {
        self.client.find(ResourceRef::namespaced(&builtin::pods(), "default", name)).await.expect("an answer")
    }

    /// Waits until the pod meets the condition and returns it.
    pub async fn until(&self, name: &str, what: &str, holds: impl Fn(&Object) -> bool) -> Arc<Object> {
        let start = Instant::now();
        loop {
            let pod = self.pod(name).await.expect("the pod is there");
            if holds(&pod) {
                return pod;
            }
            let status = pod.get(&["status"]).cloned().unwrap_or_default();
            if start.elapsed() > DEADLINE {
                panic!("{name} is not {what}: {status:#}\n{:#?}\n{}", self.events(name).await, self.runtime_log());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Returns the end of containerd's log.
    fn runtime_log(&self) -> String {
        let log = std::fs::read_to_string(self.directory.path().join("containerd/containerd.log")).unwrap_or_default();
        let skipped = log.lines().count().saturating_sub(LOG_LINES_SHOWN);
        log.lines().skip(skipped).collect::<Vec<_>>().join("\n")
    }

    pub async fn until_ready(&self, name: &str) -> Arc<Object> {
        self.until(name, "ready", is_ready).await
    }

    /// Returns the events of a pod: `Reason: message`.
    pub async fn events(&self, name: &str) -> Vec<String> {
        let events = self.client.list_all(ResourceRef::within(&builtin::events(), "default"), Default::default()).await;
        let events = events.expect("an answer").items;
        let about = events.iter().filter(|event| event.str_at(&["involvedObject", "name"]) == name);
        about.map(|event| format!("{}: {}", event.str_at(&["reason"]), event.str_at(&["message"]))).collect()
    }

    pub async fn reference(&self, name: &str, container: &str) -> PodRef {
        let pod = self.pod(name).await.expect("the pod is there");
        PodRef { namespace: "default".into(), name: name.into(), uid: pod.uid().into(), container: container.into() }
    }
}

pub fn is_ready(pod: &Object) -> bool {
    pod.items(&["status", "conditions"]).iter().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

/// Waits for a condition, with a deadline.
pub async fn eventually<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let start = Instant::now();
    while !holds().await {
        assert!(start.elapsed() < DEADLINE, "timed out: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
