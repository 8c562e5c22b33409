//! Starts and stops a control plane: an API server with Karmada's kinds, and everything that works on its objects.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use api_host::{Additions, ApiHost};
use apiserver::server::Server;
use cluster_client::UserInfo;
use explain::Explainer;
use member_sync::gate::Gate;
use plane_api::admission::agents::AgentRestriction;
use plane_api::admission::karmada;
use plane_api::admission::safe_mode::SafeModeStep;
use plane_api::cluster_proxy::ClusterProxy;
use plane_api::cluster_proxy::peers::{PeerDoor, Peers};
use plane_api::cluster_proxy::tunnels::{TunnelDoor, Tunnels};
use plane_state::Decisions;
use plane_state::MemberCapacity;
use plane_state::SafeMode;
use search::Search;

use crate::components::{self, Running, Shared};
use crate::interpretation;
use crate::options::{Options, Propagation};
use plane_api::explaining::Explaining;
use plane_api::safe_mode::{self, Confirming, Telling};
use plane_api::searching::{Reached, Searching};

const FEDERATION: (&str, &[&str]) = ("system:admin", &["system:masters", "system:authenticated"]);

/// A running control plane.
pub struct ControlPlane {
    pub address: SocketAddr,
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    pub server: Arc<Server>,
    host: ApiHost,
    components: Running,
}

impl ControlPlane {
    /// Returns when the API answers and is ready.
    pub async fn start(options: Options) -> anyhow::Result<Self> {
        let mut options = options;
        let mode = SafeMode::unknown();
        let explaining = Explaining::new(mode.clone());
        let tunnels = Arc::new(Tunnels::default());
        let searching = Searching::new(&tunnels);
        let additions = additions(&options.propagation, &explaining, &searching, &tunnels);
        let host = ApiHost::start(&options.host, additions).await?;
        safe_mode::begin(&host.server, &mode).await.map_err(|status| anyhow::anyhow!("{status}"))?;
        options.propagation.member_sync.gate = Gate::shared(mode);
        share_tunnels(&host, &tunnels);
        let client = host.client(UserInfo::new(FEDERATION.0, FEDERATION.1))?;
        let interpreter = interpretation::start(client.clone(), &host.server, host.stop.clone()).await;
        let shared = Shared {
            client,
            interpreter,
            member_capacity: MemberCapacity::default(),
            decisions: Decisions::default(),
            metrics: host.server.metrics.rooms.clone(),
        };
        explaining.answer_with(Explainer::new(explain::ExplainerDeps {
            client: shared.client.clone(),
            interpreter: shared.interpreter.clone(),
            member_capacity: shared.member_capacity.clone(),
            decisions: shared.decisions.clone(),
            features: Arc::clone(&options.propagation.features),
        }));
        // Every replica answers, so every replica keeps copies; they are only read.
        let reached = Reached { server: Arc::downgrade(&host.server), tunnels };
        let search = Search::new(search::SearchDeps { client: shared.client.clone(), members: Arc::new(reached) });
        tokio::spawn(search.clone().run(host.stop.clone()));
        searching.answer_with(search);
        let candidate = candidate(&options, host.address)?;
        let components = components::start(&host, shared, options.propagation, candidate)?;
        let (address, kubeconfig, server) = (host.address, host.kubeconfig.clone(), host.server.clone());
        Ok(Self { address, kubeconfig, server, host, components })
    }

    /// Why it had better be started anew; returns only then.
    pub async fn broken(&self) -> anyhow::Error {
        self.host.broken().await
    }

    /// Lets requests and writes finish, then closes the store.
    pub async fn stop(self) {
        self.components.end().await;
        self.host.stop().await;
    }
}

/// What makes an API server a control plane's.
fn additions(
    propagation: &Propagation,
    explaining: &Explaining,
    searching: &Searching,
    tunnels: &Arc<Tunnels>,
) -> Additions {
    let tunnels = || Arc::clone(tunnels);
    let mode = &explaining.mode;
    Additions {
        kinds: validation::kinds(&propagation.features),
        objects: plane_api::bootstrap::objects(),
        judges: vec![Box::new(AgentRestriction), Box::new(SafeModeStep { mode: mode.clone() })],
        admission: karmada::steps(karmada::Options {
            features: Arc::clone(&propagation.features),
            allow_no_execute_taints: propagation.allow_no_execute_taint_policy,
            compile: Arc::new(interpreter::check::compile),
        }),
        connect_handlers: vec![Box::new(ClusterProxy { tunnels: tunnels() }), Box::new(searching.clone())],
        extensions: vec![
            Box::new(explaining.clone()),
            Box::new(Telling { mode: mode.clone() }),
            Box::new(Confirming { mode: mode.clone() }),
            Box::new(TunnelDoor { tunnels: tunnels() }),
            Box::new(PeerDoor { tunnels: tunnels() }),
        ],
    }
}

/// An agent opens its way to one replica; the others get there through that one.
fn share_tunnels(host: &ApiHost, tunnels: &Arc<Tunnels>) {
    let Some(address) = &host.peer_address else { return };
    let ca = host.certificates.ca_pem().into_bytes();
    let identity = Arc::clone(&host.certificates.front_proxy_identity);
    tunnels.share(&host.server, Peers { address: address.clone(), ca, identity });
}

/// What this process is called among those that share its storage. Storage of its own is shared with nobody.
fn candidate(options: &Options, address: SocketAddr) -> anyhow::Result<Option<String>> {
    Ok(match options.host.storage {
        // Addresses and process ids repeat across machines.
        api_host::Storage::Etcd(_) => Some(format!("{address}_{}", pki::token::random_lowercase(12)?)),
        api_host::Storage::Embedded | api_host::Storage::Memory => None,
    })
}
