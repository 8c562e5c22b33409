//! Instances in the manager's process: the size limit of their storage, and the runtime of their controllers.

use std::sync::Arc;
use std::time::Duration;

use cluster_client::{ClusterClient, DeleteOptions, Patch, ResourceRef, WriteOptions};
use manager::{Manager, ManagerOptions, PlaneFlags};
use manager_kinds::annotations::Mode;
use manager_kinds::{INSTANCE_NAMESPACE, KARMADAS};
use object::request::User;
use object::{GroupVersionResource, Object, Status, conditions};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Handle};

const WAIT: Duration = Duration::from_secs(60);
const QUOTA: &str = "--quota-backend-bytes=";

struct World {
    manager: Manager,
    admin: User,
    _directory: tempfile::TempDir,
}

/// Starts a manager that reads the size limit of its instances, and runs their controllers in a runtime.
async fn world(background: Option<Handle>) -> World {
    let directory = tempfile::tempdir().expect("a directory");
    let parse = move |flags: PlaneFlags| {
        let mut options = control_plane::Options::new(flags.data_dir, flags.bind);
        let quota = flags.flags.iter().find_map(|flag| flag.strip_prefix(QUOTA));
        options.host.storage_bytes_max = quota.map_or(Ok(0), str::parse)?;
        options.propagation.background.clone_from(&background);
        Ok(options)
    };
    let options = ManagerOptions::new(directory.path(), ([127, 0, 0, 1], 0).into(), Arc::new(parse));
    let manager = Manager::start(options).await.expect("the manager starts");
    World { manager, admin: User::new("root", &["system:masters"]), _directory: directory }
}

impl World {
    async fn instance(&self, name: &str, spec: Value) -> ClusterClient {
        let operations = &self.manager.operations;
        operations.create_instance(&self.admin, name, Mode::InProcess, spec).await.expect(name);
        operations.wait_until_ready(name, WAIT).await.expect(name);
        self.client(name).await
    }

    async fn client(&self, name: &str) -> ClusterClient {
        self.manager.operations.instance_client(&self.admin, name).await.expect("a client")
    }

    /// Sets the size limit of the storage of an instance.
    async fn limit(&self, name: &str, size: &str) -> Result<(), Status> {
        let client = self.manager.operations.client_as(&self.admin).expect("a client");
        let target = ResourceRef::namespaced(&KARMADAS.gvr(), INSTANCE_NAMESPACE, name);
        let patch = Patch::merge(json!({"spec": storage(size)}));
        client.patch(target, patch, WriteOptions::default()).await.map(drop)
    }

    /// Waits until the condition Ready of an instance has a reason.
    async fn until(&self, name: &str, reason: &str) {
        let waiting = async {
            loop {
                let entry = self.manager.operations.directory.find(name).expect("it is there");
                let ready = conditions::find(&entry.object, "Ready");
                if ready.is_some_and(|ready| ready.reason() == reason) && !entry.is_restarting() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(WAIT, waiting).await.unwrap_or_else(|_| panic!("{name} does not become {reason}"));
    }
}

fn storage(size: &str) -> Value {
    let claim = json!({"spec": {"resources": {"requests": {"storage": size}}}});
    json!({"components": {"etcd": {"local": {"volumeData": {"volumeClaim": claim}}}}})
}

fn config_maps() -> GroupVersionResource {
    GroupVersionResource::new("", "v1", "configmaps")
}

/// Creates a ConfigMap of half a mebibyte.
async fn create(client: &ClusterClient, name: &str) -> Result<(), Status> {
    let metadata = json!({"name": name, "namespace": "default"});
    let data = json!({"text": "x".repeat(512 << 10)});
    let object =
        Object::from_value(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}));
    let target = ResourceRef::within(&config_maps(), "default");
    client.create(target, object.expect("a map"), WriteOptions::default()).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_storage_of_an_instance_is_limited_by_its_volume_claim() {
    let world = world(None).await;
    let refused = world.manager.operations.create_instance(&world.admin, "tiny", Mode::InProcess, storage("1Mi")).await;
    let refused = refused.err().map(|status| status.message).unwrap_or_default();
    assert!(refused.contains("requests.storage") && refused.contains("at least 16Mi"), "{refused}");

    let client = world.instance("east", storage("64Mi")).await;
    for number in 0..40 {
        create(&client, &format!("a{number}")).await.expect("there is space");
    }
    world.limit("east", "16Mi").await.expect("a lower limit");
    world.until("east", "StorageFull").await;
    let client = world.client("east").await;
    let status = create(&client, "more").await.expect_err("there is no space");
    assert!(status.code == 507 && status.message.contains("size limit of 16.0 MiB"), "{status}");
    let target = ResourceRef::namespaced(&config_maps(), "default", "a0");
    client.get(target.clone()).await.expect("nothing is lost");
    client.delete(target, DeleteOptions::default()).await.expect("deletes need no space");

    world.limit("east", "64Mi").await.expect("a higher limit");
    world.until("east", "Completed").await;
    create(&world.client("east").await, "more").await.expect("there is space again");
    world.manager.stop().await;
}

#[test]
fn controllers_of_instances_run_in_the_runtime_for_them() {
    let background = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let requests = Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let handle = background.handle().clone();
    requests.block_on(async {
        let world = world(Some(handle.clone())).await;
        assert_eq!(handle.metrics().num_alive_tasks(), 0, "the manager's own controllers stay with it");
        let client = world.instance("east", json!({})).await;
        world.instance("west", json!({})).await;
        assert!(handle.metrics().num_alive_tasks() > 2);
        let created = async {
            let account = GroupVersionResource::new("", "v1", "serviceaccounts");
            while client.get(ResourceRef::namespaced(&account, "default", "default")).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(WAIT, created).await.expect("the controllers work");
        world.manager.stop().await;
        let ended = async {
            while handle.metrics().num_alive_tasks() > 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(WAIT, ended).await.expect("the controllers end with their instances");
    });
    background.shutdown_background();
}
