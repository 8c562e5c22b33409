//! A control plane whose storage has reached its size limit: it starts, reads and deletes, and refuses what needs space.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver::direct::Direct;
use bytes::Bytes;
use cluster_client::{ClusterClient, DeleteOptions, Endpoint, Identity, Patch, ResourceRef, User, WriteOptions};
use control_plane::{ControlPlane, Options};
use object::{GroupVersionResource, Object, Status};
use serde_json::json;

const LIMIT: u64 = 16 << 20;
const PATIENCE: Duration = Duration::from_secs(60);

struct World {
    plane: ControlPlane,
    client: ClusterClient,
}

impl World {
    async fn start(directory: &Path, storage_bytes_max: u64) -> Self {
        let mut options = Options::new(directory, ([127, 0, 0, 1], 0).into());
        options.host.storage_bytes_max = storage_bytes_max;
        let plane = ControlPlane::start(options).await.expect("a plane starts");
        let server = Arc::new(Direct::new(plane.server.clone()));
        let identity = Identity::of(User::new("admin", &["system:masters", "system:authenticated"]));
        let client = ClusterClient::connect(Endpoint::Direct { server, identity }).expect("it is in process");
        Self { plane, client }
    }

    /// Creates a ConfigMap of half a mebibyte.
    async fn create(&self, name: &str) -> Result<(), Status> {
        let metadata = json!({"name": name, "namespace": "default", "finalizers": ["example.com/kept"]});
        let data = json!({"text": "x".repeat(512 << 10)});
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
        let object = Object::from_value(object).expect("a map");
        let target = ResourceRef::within(&config_maps(), "default");
        self.client.create(target, object, WriteOptions::default()).await.map(drop)
    }

    /// Deletes a ConfigMap with its finalizer: two updates and a delete. Updates wait until the versions that others have replaced
    /// are compacted.
    async fn delete(&self, name: &str) {
        let target = || ResourceRef::namespaced(&config_maps(), "default", name);
        retry("deleted", async || self.client.delete(target(), DeleteOptions::default()).await.map(drop)).await;
        let patch = || Patch::merge(json!({"metadata": {"finalizers": null}}));
        retry("without finalizer", async || {
            self.client.patch(target(), patch(), WriteOptions::default()).await.map(drop)
        })
        .await;
    }

    async fn get(&self, path: &str) -> (u16, String) {
        let request = http::Request::get(path).body(Bytes::new()).expect("a request");
        let answer = self.client.raw(request).await.expect("an answer");
        (answer.status().as_u16(), String::from_utf8_lossy(answer.body()).into_owned())
    }
}

fn config_maps() -> GroupVersionResource {
    GroupVersionResource::new("", "v1", "configmaps")
}

/// Repeats a write until there is space for it.
async fn retry(what: &str, write: impl AsyncFn() -> Result<(), Status>) {
    let start = Instant::now();
    while let Err(status) = write().await {
        assert_eq!(status.code, 507, "{what}: {status}");
        assert!(start.elapsed() < PATIENCE, "{what}: {status}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_storage_refuses_writes_until_objects_are_deleted_or_the_limit_is_raised() {
    let directory = tempfile::tempdir().expect("a directory");
    let world = World::start(directory.path(), 0).await;
    assert_eq!(world.get("/readyz/storage-quota").await.0, 200, "there is no limit");
    for number in 0..40 {
        world.create(&format!("a{number}")).await.expect("there is no limit");
    }
    world.plane.stop().await;

    // Below the data: it starts and keeps everything.
    let world = World::start(directory.path(), LIMIT).await;
    let refused = world.create("more").await.expect_err("there is no space");
    assert_eq!((refused.code, refused.reason), (507, "InsufficientStorage"), "{refused}");
    assert!(refused.message.contains("the size limit of 16.0 MiB is reached"), "{refused}");
    for path in ["/readyz", "/livez"] {
        assert_eq!(world.get(path).await.0, 200, "{path}: it serves reads and deletes");
    }
    let (code, text) = world.get("/readyz/storage-quota").await;
    assert!(code == 500 && text.contains("size limit"), "{code} {text}");
    let metrics = world.get("/metrics").await.1;
    assert!(metrics.contains("flotilla_storage_limit_bytes 16777216"), "{metrics}");
    world.plane.stop().await;

    let world = World::start(directory.path(), 3 * LIMIT).await;
    world.create("more").await.expect("the limit is higher");
    world.plane.stop().await;

    let world = World::start(directory.path(), 2 * LIMIT).await;
    let mut filling = 0;
    while world.create(&format!("b{filling}")).await.is_ok() {
        filling += 1;
        assert!(filling < 40, "the limit has no effect");
    }
    for number in 0..30 {
        world.delete(&format!("a{number}")).await;
    }
    retry("created again", async || world.create("again").await).await;
    assert_eq!(world.get("/readyz/storage-quota").await.0, 200);
    world.plane.stop().await;
}
