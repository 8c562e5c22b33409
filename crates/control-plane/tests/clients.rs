//! In-process and network clients come from one constructor and keep the same contract against the same server.

use std::sync::Arc;

use apiserver::direct::Direct;
use cluster_client::testing::contract;
use cluster_client::{ClusterClient, Endpoint, Identity, Kubeconfig, User};
use control_plane::{ControlPlane, Options, Storage};

async fn plane(directory: &tempfile::TempDir) -> ControlPlane {
    let mut options = Options::new(directory.path(), ([127, 0, 0, 1], 0).into());
    options.host.storage = Storage::Memory;
    ControlPlane::start(options).await.expect("a plane starts")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_in_process_client_passes_the_contract() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let plane = plane(&directory).await;
    let server = Arc::new(Direct::new(plane.server.clone()));
    let identity = Identity::of(User::new("admin", &["system:masters", "system:authenticated"]));
    let client = ClusterClient::connect(Endpoint::Direct { server, identity }).expect("it is in process");
    contract::suite(&client).await;
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_network_client_passes_the_contract() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let plane = plane(&directory).await;
    let remote = Kubeconfig::load(std::slice::from_ref(&plane.kubeconfig))
        .and_then(|file| file.remote(None))
        .expect("a kubeconfig of ours");
    let client = ClusterClient::connect(Endpoint::Remote(remote)).expect("a valid configuration");
    contract::suite(&client).await;
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn impersonation_needs_permission() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let plane = plane(&directory).await;
    let server = Arc::new(Direct::new(plane.server.clone()));
    let mut identity = Identity::of(User::new("jane", &["system:authenticated"]));
    identity.impersonated = Some(User::new("root", &["system:masters"]));
    let client = ClusterClient::connect(Endpoint::Direct { server, identity }).expect("it is in process");
    let namespaces = object::GroupVersionResource::new("", "v1", "namespaces");
    let refused = client.list_all(cluster_client::ResourceRef::all(&namespaces), Default::default()).await;
    assert_eq!(refused.err().map(|status| status.code), Some(403));
    plane.stop().await;
}
