//! Bootstrap tokens: expired ones go, and `kube-public/cluster-info` is signed with those that may sign.

mod cleaner;
mod signer;
mod token;

use std::sync::Arc;

use cluster_client::ClusterClient;
use reconcile::{Clock, Mirror, MirrorSpec};
use tokio_util::sync::CancellationToken;

use crate::resources::core;

const NAMESPACE: &str = "kube-system";
const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";

/// Clients by the rights they need: to see tokens, to delete them, to write `cluster-info`.
pub struct BootstrapClients {
    pub reader: ClusterClient,
    pub cleaner: ClusterClient,
}

/// `kubeconfig` is what joining machines are told of this plane.
pub async fn run(clients: BootstrapClients, kubeconfig: String, clock: Arc<dyn Clock>, cancel: CancellationToken) {
    let spec = MirrorSpec {
        field_selector: Some(format!("type={SECRET_TYPE}")),
        ..MirrorSpec::new(&core("secrets")).within(NAMESPACE)
    };
    let tokens = Mirror::start(clients.reader.clone(), spec, cancel.clone());
    tokio::join!(
        cleaner::run(clients.cleaner, tokens.clone(), Arc::clone(&clock), cancel.clone()),
        signer::run(clients.reader, tokens, kubeconfig, clock, cancel),
    );
}
