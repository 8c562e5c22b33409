//! Runs the controllers of a plane against its own API server, in process.

use std::sync::Arc;
use std::time::Duration;

use apiserver::direct::Direct;
use apiserver::server::Server;
use cluster_client::{Backend, ClusterClient, Endpoint, Identity, UserInfo};
use controllers::{Clients, Parameters, SignToken};
use pki::authority::CertificateAuthority;
use pki::jwt::signer::JwtSigner;
use reconcile::SystemClock;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::certificates::Certificates;

const MANAGER: (&str, &[&str]) = ("system:kube-controller-manager", &["system:masters", "system:authenticated"]);

/// How long work under way may take when the plane stops.
const END_WAIT_MAX: Duration = Duration::from_secs(5);

/// Controllers at work.
pub struct Running {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    /// Lets work under way finish. To be called while the API still answers, or they would take its end for a fault.
    pub async fn end(self) {
        self.stop.cancel();
        match tokio::time::timeout(END_WAIT_MAX, self.task).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "the controllers ended badly"),
            Err(_) => tracing::warn!("the controllers did not end in time"),
        }
    }
}

pub fn start(
    server: &Arc<Server>,
    certificates: &Certificates,
    server_url: &str,
    candidate: Option<String>,
) -> anyhow::Result<Running> {
    let direct: Arc<dyn Backend> = Arc::new(Direct::new(Arc::clone(server)));
    let manager = connect(&direct, UserInfo::new(MANAGER.0, MANAGER.1))?;
    let acting = move |name: &str| {
        connect(&direct, UserInfo::service_account("kube-system", name)).expect("a direct connection cannot fail")
    };
    let signer = JwtSigner::new(certificates.service_account_key.clone());
    let sign_token: SignToken = Arc::new(move |claims| signer.sign(claims).map_err(|error| error.to_string()));
    let authority = &certificates.authority;
    let authority = CertificateAuthority::new(authority.certificate().clone(), authority.key().clone())?;
    let parameters = Parameters {
        ca_pem: certificates.ca_pem(),
        authority: Arc::new(authority),
        sign_token,
        server_url: server_url.to_owned(),
        clock: Arc::new(SystemClock),
        candidate,
    };
    let clients = Clients { manager, controller: Arc::new(acting) };
    let stop = CancellationToken::new();
    let task = tokio::spawn(controllers::run(clients, parameters, stop.clone()));
    Ok(Running { stop, task })
}

fn connect(direct: &Arc<dyn Backend>, user: UserInfo) -> anyhow::Result<ClusterClient> {
    Ok(ClusterClient::connect(Endpoint::Direct { server: Arc::clone(direct), identity: Identity::of(user) })?)
}
