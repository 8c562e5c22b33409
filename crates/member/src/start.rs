//! Starts and stops a member: an API server and everything a Kubernetes cluster runs beside one.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api_host::{Additions, ApiHost};
use reconcile::{Clock, SystemClock};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::disturbance::Disturbing;

/// How long work under way may take when the member stops.
const END_WAIT_MAX: Duration = Duration::from_secs(5);

/// What a member can be told.
#[derive(Clone)]
pub struct Options {
    pub host: api_host::Options,
}

impl Options {
    pub fn new(cluster_name: &str, data_dir: impl Into<PathBuf>, bind: SocketAddr) -> Self {
        let mut host = api_host::Options::new(cluster_name, data_dir, bind);
        host.kubeconfig_file = "member.config".to_owned();
        Self { host }
    }
}

/// A running member.
pub struct Member {
    pub address: SocketAddr,
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    host: ApiHost,
    rooms: JoinSet<()>,
    stop: CancellationToken,
}

impl Member {
    /// Returns when the API answers and is ready; nodes and their pods follow within moments.
    pub async fn start(options: Options) -> anyhow::Result<Self> {
        let host = ApiHost::start(&options.host, additions()).await?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let stop = CancellationToken::new();
        let mut rooms = JoinSet::new();
        let (clients, parameters) = host.controllers(clock)?;
        rooms.spawn(controllers::run(clients, parameters, stop.clone()));
        Ok(Self { address: host.address, kubeconfig: host.kubeconfig.clone(), host, rooms, stop })
    }

    /// Lets requests and writes finish, then closes the store.
    pub async fn stop(mut self) {
        self.stop.cancel();
        let ended = tokio::time::timeout(END_WAIT_MAX, async {
            while let Some(ended) = self.rooms.join_next().await {
                if let Err(error) = ended {
                    tracing::error!(%error, "a part of the member ended badly");
                }
            }
        });
        if ended.await.is_err() {
            tracing::warn!("the member's controllers did not end in time");
        }
        self.host.stop().await;
    }
}

/// What a member's API has beside Kubernetes' own.
fn additions() -> Additions {
    Additions { extensions: vec![Box::new(Disturbing)], ..Additions::default() }
}
