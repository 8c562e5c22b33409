//! Starts and runs the controllers.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::ClusterClient;
use object::builtin;
use pki::authority::CertificateAuthority;
use reconcile::{Clock, Mirror, MirrorSpec};
use serde_json::{Map, Value};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::bootstrap::{self, BootstrapClients};
use crate::certificates::{AgentApproval, CertificateSettings};
use crate::garbage::Collector;
use crate::jobs::FinishedJobs;
use crate::quota::Recount;
use crate::resource_watcher::ResourceWatcher;
use crate::{accounts, certificates, namespaces, roles};

/// Signs the claims of a ServiceAccount token.
pub type SignToken = Arc<dyn Fn(&Map<String, Value>) -> Result<String, String> + Send + Sync>;

/// The API clients of the controllers.
#[derive(Clone)]
pub struct ControllerClients {
    /// Has full access, for writes that no Kubernetes controller role permits.
    pub manager: ClusterClient,
    /// Acts as the ServiceAccount of that name in `kube-system`, with the permissions of its role.
    pub controller: Arc<dyn Fn(&str) -> ClusterClient + Send + Sync>,
}

/// Configuration of the control plane the controllers need.
#[derive(Clone)]
pub struct ControllerParameters {
    /// The CA certificate by which clients in namespaces verify the API.
    pub ca_pem: String,
    /// Signs approved certificate requests.
    pub authority: Arc<CertificateAuthority>,
    pub sign_token: SignToken,
    /// The API address for joining machines, and the CA by which they verify it.
    pub server_url: String,
    pub server_ca_pem: String,
    pub agent_approval: AgentApproval,
    pub clock: Arc<dyn Clock>,
}

/// Runs until cancelled. Only one of the replicas that share a store may run it.
pub async fn run(clients: ControllerClients, parameters: ControllerParameters, cancel: CancellationToken) {
    let ControllerParameters { ca_pem, authority, sign_token, server_url, server_ca_pem, agent_approval, clock } =
        parameters;
    let manager = &clients.manager;
    let acting = |name: &str| (clients.controller)(name);
    let stop = || cancel.clone();
    let namespaces = Mirror::start(manager.clone(), MirrorSpec::new(&builtin::namespaces()), stop());

    let garbage = Collector::new(acting("generic-garbage-collector"), Arc::clone(&clock));
    let finished_jobs = FinishedJobs::new(acting("ttl-after-finished-controller"), Arc::clone(&clock));
    let recount = Recount::new(acting("resourcequota-controller"));
    let resource_watcher =
        ResourceWatcher::new(manager.clone(), vec![garbage.clone(), finished_jobs.clone(), recount.clone()]);

    let mut running = JoinSet::new();
    running.spawn(namespaces::run(acting("namespace-controller"), namespaces.clone(), Arc::clone(&clock), stop()));
    let account_writer = acting("service-account-controller");
    running.spawn(accounts::default_account::run(manager.clone(), account_writer, namespaces.clone(), stop()));
    let publisher = acting("root-ca-cert-publisher");
    running.spawn(accounts::root_certificate::run(manager.clone(), publisher, namespaces, ca_pem.clone(), stop()));
    running.spawn(accounts::tokens::run(manager.clone(), ca_pem.clone(), sign_token, stop()));
    running.spawn(garbage.run(Arc::clone(&resource_watcher), stop()));
    running.spawn(finished_jobs.run(stop()));
    running.spawn(recount.run(stop()));
    running.spawn(resource_watcher.run(stop()));
    let signer = acting("certificate-controller");
    let rules = CertificateSettings { authority, agent_approval };
    running.spawn(certificates::run(manager.clone(), signer, rules, Arc::clone(&clock), stop()));
    running.spawn(roles::run(manager.clone(), acting("clusterrole-aggregation-controller"), stop()));
    let bootstrap_clients = BootstrapClients { reader: manager.clone(), cleaner: acting("token-cleaner") };
    running.spawn(bootstrap::run(bootstrap_clients, plan_kubeconfig(&server_url, &server_ca_pem), clock, stop()));
    while let Some(ended) = running.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "controller exited with an error");
        }
    }
}

/// Returns the kubeconfig for joining machines: server address and CA, without credentials.
fn plan_kubeconfig(server_url: &str, ca_pem: &str) -> String {
    let ca = STANDARD.encode(ca_pem);
    format!(
        "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: {ca}\n    server: {server_url}\n  name: \"\"\n\
         contexts: null\ncurrent-context: \"\"\nkind: Config\npreferences: {{}}\nusers: null\n"
    )
}
