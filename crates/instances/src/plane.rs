//! A started control plane: how to reach it, and the task that owns it.

use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use apiserver::server::Server;
use async_trait::async_trait;
use cluster_client::{ClusterClient, RemoteConfig};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The connection to a control plane.
#[derive(Clone)]
pub enum Connection {
    /// In this process, as any user.
    InProcess(Arc<Server>),
    /// Over the network, with a credential that may impersonate users.
    Remote(Arc<RemoteAccess>),
}

/// A control plane in another process.
pub struct RemoteAccess {
    pub config: RemoteConfig,
    /// False when the credential may not impersonate; only administrators can use the instance then.
    pub can_impersonate: bool,
}

/// A control plane to start.
#[derive(Clone, Debug)]
pub struct PlaneRequest {
    pub name: String,
    pub directory: PathBuf,
    /// Flags of `flotilla server`, without data directory and address.
    pub flags: Vec<String>,
    pub bind: SocketAddr,
    /// URL for clients, if it is not the address.
    pub advertise: Option<String>,
}

/// A control plane that answers.
pub struct StartedPlane {
    pub connection: Connection,
    /// A client with all rights.
    pub admin: ClusterClient,
    /// The administrator's kubeconfig of the plane itself.
    pub kubeconfig: Option<PathBuf>,
    pub address: Option<SocketAddr>,
    pub task: PlaneTask,
}

/// Starts control planes in this process. The entry point implements it, because it knows the flags of the server.
#[async_trait]
pub trait PlaneFactory: Send + Sync {
    /// Returns the problem of a set of flags.
    fn check(&self, flags: &[String]) -> Result<(), String>;

    async fn start(&self, request: PlaneRequest) -> Result<StartedPlane, String>;

    /// Reads and writes backups, if this manager can.
    fn backups(&self) -> Option<Arc<dyn BackupFormat>>;

    /// Returns the program and its first arguments that run `flotilla server`.
    fn server_command(&self) -> Vec<String>;
}

/// Reads and writes files with the whole state of a control plane. The entry point implements it.
#[async_trait]
pub trait BackupFormat: Send + Sync {
    /// Writes the state in a data directory to a new file. The control plane may be running.
    async fn back_up(&self, directory: &Path, file: &Path) -> Result<(), String>;

    /// Writes the state in a file to a new data directory. The encryption keys of an encrypted backup are in one of `keys`.
    async fn restore(&self, file: &Path, directory: &Path, keys: &[PathBuf]) -> Result<(), String>;
}

/// The end of a plane's task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    Stopped,
    /// It ended by itself, or must be restarted.
    Broken(String),
}

/// The task that owns a running plane. Dropping it leaves the plane running.
pub struct PlaneTask {
    stop: CancellationToken,
    ended: watch::Receiver<Option<Ended>>,
}

impl PlaneTask {
    /// Runs `own` until it ends; it must return soon after its token is cancelled.
    pub fn spawn<F>(own: impl FnOnce(CancellationToken) -> F) -> Self
    where
        F: Future<Output = Ended> + Send + 'static,
    {
        let stop = CancellationToken::new();
        let (sender, ended) = watch::channel(None);
        let running = tokio::spawn(own(stop.clone()));
        tokio::spawn(async move {
            let end = running.await.unwrap_or_else(|error| Ended::Broken(format!("its task failed: {error}")));
            sender.send_replace(Some(end));
        });
        Self { stop, ended }
    }

    /// Returns the task of a plane that another replica of the manager runs: there is nothing to stop or to wait for.
    pub fn elsewhere() -> Self {
        let (_, ended) = watch::channel(None);
        Self { stop: CancellationToken::new(), ended }
    }

    /// Stops the plane and waits until it has stopped.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.ended().await;
    }

    /// Returns when the plane has ended.
    pub async fn ended(&self) -> Ended {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(end) => end.clone().unwrap_or(Ended::Stopped),
            Err(_) => Ended::Broken("its task failed".to_owned()),
        }
    }

    /// Returns the end of the plane, if it has ended.
    pub fn has_ended(&self) -> Option<Ended> {
        self.ended.borrow().clone()
    }
}
