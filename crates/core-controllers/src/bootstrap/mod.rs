//! Bootstrap tokens: deletes expired ones and signs `kube-public/cluster-info` with those that allow signing.

mod cleaner;
mod signer;
mod token;

use std::sync::Arc;

use cluster_client::ClusterClient;
use object::builtin;
use reconcile::{Clock, Mirror, MirrorSpec};
use tokio_util::sync::CancellationToken;

const NAMESPACE: &str = "kube-system";
const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";

/// Clients by the permissions they need: to read tokens, to delete them, to write `cluster-info`.
pub struct BootstrapClients {
    pub reader: ClusterClient,
    pub cleaner: ClusterClient,
}

/// `kubeconfig` is the one published in `cluster-info`.
pub async fn run(clients: BootstrapClients, kubeconfig: String, clock: Arc<dyn Clock>, cancel: CancellationToken) {
    let spec = MirrorSpec {
        field_selector: Some(format!("type={SECRET_TYPE}")),
        ..MirrorSpec::new(&builtin::secrets()).within(NAMESPACE)
    };
    let tokens = Mirror::start(clients.reader.clone(), spec, cancel.clone());
    tokio::join!(
        cleaner::run(clients.cleaner, tokens.clone(), Arc::clone(&clock), cancel.clone()),
        signer::run(clients.reader, tokens, kubeconfig, clock, cancel),
    );
}
