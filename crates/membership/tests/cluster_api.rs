//! Clusters of Cluster API join, leave, and are kept apart from clusters that joined otherwise.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::cluster::CLUSTERS;
use api::names::CLUSTER_NAMESPACE;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::testing::MemoryApi;
use cluster_client::{DeleteOptions, RemoteConfig, ResourceRef};
use membership::MemberAccess;
use membership::cluster_api::{ANNOTATION_SOURCE, DiscoveryDeps, run};
use membership::credentials::{NAMESPACES, SECRETS};
use object::{GroupVersionResource, Object};
use reconcile::{Mirror, MirrorSpec};
use serde_json::json;
use tokio_util::sync::CancellationToken;

const LIMIT: Duration = Duration::from_secs(600);
/// Longer than any pause of the controller.
const SETTLE: Duration = Duration::from_secs(60);
const KUBECONFIG: &str = "{clusters: [{name: c, cluster: {server: 'https://m1:6443'}}], users: [{name: u, \
    user: {token: t}}], contexts: [{name: x, context: {cluster: c, user: u}}], current-context: x}";

struct World {
    plane: MemoryApi,
    management: MemoryApi,
    dialed: Arc<Mutex<Vec<String>>>,
    cancel: CancellationToken,
}

fn sources() -> GroupVersionResource {
    GroupVersionResource::new("cluster.x-k8s.io", "v1beta1", "clusters")
}

fn member() -> MemoryApi {
    let member = MemoryApi::default();
    member.seed(&NAMESPACES.gvr(), NAMESPACES.object("", "kube-system"));
    for name in ["karmada-impersonator", "karmada-m1"] {
        let mut secret = SECRETS.object(CLUSTER_NAMESPACE, name);
        secret.set(&["type"], "kubernetes.io/service-account-token");
        secret.set(&["data"], json!({"token": STANDARD.encode("t"), "ca.crt": STANDARD.encode("CA")}));
        member.seed(&SECRETS.gvr(), secret);
    }
    member
}

impl World {
    fn start() -> Self {
        let (plane, management, cancel) = (MemoryApi::default(), MemoryApi::default(), CancellationToken::new());
        let dialed: Arc<Mutex<Vec<String>>> = Arc::default();
        let (noted, member) = (Arc::clone(&dialed), member());
        let connect = move |remote: RemoteConfig| {
            noted.lock().expect("not poisoned").push(remote.server.clone());
            Ok(MemberAccess {
                client: member.client(),
                endpoint: remote.server,
                insecure: false,
                proxy: None,
                authority: Some(b"CA".to_vec()),
            })
        };
        let deps = DiscoveryDeps {
            control_plane: plane.client(),
            clusters: Mirror::start(plane.client(), MirrorSpec::new(&CLUSTERS.gvr()), cancel.clone()),
            management: management.client(),
            connect: Arc::new(connect),
        };
        tokio::spawn(run(deps, cancel.clone()));
        Self { plane, management, dialed, cancel }
    }

    fn provision(&self, phase: &str) {
        let source = json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster",
            "metadata": {"namespace": "fleet", "name": "m1"}, "status": {"phase": phase}});
        self.management.seed(&sources(), Object::from_value(source).expect("a map"));
    }

    fn give_kubeconfig(&self, text: &str) {
        let mut secret = SECRETS.object("fleet", "m1-kubeconfig");
        secret.set(&["data"], json!({"value": STANDARD.encode(text)}));
        self.management.seed(&SECRETS.gvr(), secret);
    }

    async fn delete_source(&self) {
        let source = ResourceRef::namespaced(&sources(), "fleet", "m1");
        self.management.client().delete(source, DeleteOptions::default()).await.expect("deleted");
    }

    async fn cluster(&self) -> Option<Arc<Object>> {
        self.plane.client().find(ResourceRef::cluster(&CLUSTERS.gvr(), "m1")).await.expect("readable")
    }

    async fn until_joined(&self, expected: bool) {
        let waiting = async {
            while self.cluster().await.is_some() != expected {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(LIMIT, waiting).await.expect("in time");
    }

    fn dialed(&self) -> usize {
        self.dialed.lock().expect("not poisoned").len()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

#[tokio::test(start_paused = true)]
async fn provisioned_clusters_join_and_deleted_ones_leave() {
    let world = World::start();
    world.provision("Provisioning");
    tokio::time::sleep(SETTLE).await;
    assert!(world.cluster().await.is_none(), "it is not provisioned yet");
    world.provision("Provisioned");
    tokio::time::sleep(SETTLE).await;
    assert!(world.cluster().await.is_none(), "it has no kubeconfig yet");
    world.give_kubeconfig(KUBECONFIG);
    world.until_joined(true).await;
    let cluster = world.cluster().await.expect("joined");
    assert_eq!(cluster.annotation(ANNOTATION_SOURCE), Some("fleet/m1"));
    assert_eq!(cluster.str_at(&["spec", "apiEndpoint"]), "https://m1:6443");
    world.delete_source().await;
    world.until_joined(false).await;
}

#[tokio::test(start_paused = true)]
async fn clusters_that_joined_otherwise_are_left_alone() {
    let world = World::start();
    world.plane.seed(&CLUSTERS.gvr(), CLUSTERS.object("", "m1"));
    world.give_kubeconfig(KUBECONFIG);
    world.provision("Provisioned");
    tokio::time::sleep(SETTLE).await;
    world.delete_source().await;
    tokio::time::sleep(SETTLE).await;
    let cluster = world.cluster().await.expect("still there");
    assert_eq!((cluster.annotation(ANNOTATION_SOURCE), world.dialed()), (None, 0));
}

#[tokio::test(start_paused = true)]
async fn kubeconfigs_with_programs_or_files_are_not_used() {
    let with = |user: &str| KUBECONFIG.replace("{token: t}", user);
    for text in [
        String::new(),
        "clusters: [".to_owned(),
        with("{tokenFile: /etc/passwd}"),
        with("{client-certificate: /a, client-key: /b}"),
        with("{exec: {apiVersion: client.authentication.k8s.io/v1, command: sh}}"),
    ] {
        let world = World::start();
        world.give_kubeconfig(&text);
        world.provision("Provisioned");
        tokio::time::sleep(SETTLE).await;
        assert_eq!((world.dialed(), world.cluster().await.is_some()), (0, false), "{text}");
    }
}
