//! Starts control planes in this process.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use cluster_client::User;
use control_plane::ControlPlane;
use instances::plane::{BackupFormat, Connection, Ended, PlaneFactory, PlaneRequest, PlaneTask, StartedPlane};

const ADMIN: (&str, &[&str]) = ("flotilla-manager", &["system:masters", "system:authenticated"]);

/// The arguments of one control plane.
pub struct PlaneFlags {
    pub data_dir: PathBuf,
    pub bind: std::net::SocketAddr,
    /// Flags of `flotilla server`.
    pub flags: Vec<String>,
}

/// Turns flags of `flotilla server` into options. The command line owns the flags, so it passes this in.
pub type PlaneFlagsParser = Arc<dyn Fn(PlaneFlags) -> anyhow::Result<control_plane::Options> + Send + Sync>;

/// Starts control planes in this process.
pub struct Planes {
    pub parse: PlaneFlagsParser,
    pub server_command: Vec<String>,
    pub backups: Option<Arc<dyn BackupFormat>>,
}

#[async_trait]
impl PlaneFactory for Planes {
    fn check(&self, flags: &[String]) -> Result<(), String> {
        if flags.is_empty() {
            return Ok(());
        }
        let (data_dir, bind) = (PathBuf::from("/nonexistent"), ([127, 0, 0, 1], 0).into());
        let read = (self.parse)(PlaneFlags { data_dir, bind, flags: flags.to_vec() });
        read.map(drop).map_err(|error| format!("{error:#}"))
    }

    async fn start(&self, request: PlaneRequest) -> Result<StartedPlane, String> {
        let PlaneRequest { directory, flags, bind, advertise, .. } = request;
        let mut options =
            (self.parse)(PlaneFlags { data_dir: directory, bind, flags }).map_err(|e| format!("{e:#}"))?;
        options.host.advertise = advertise;
        // In a task of its own: a panic of one plane does not end the manager.
        let starting = tokio::spawn(ControlPlane::start(options));
        let plane = starting.await.map_err(|error| format!("its start failed: {error}"))?;
        let plane = plane.map_err(|error| format!("{error:#}"))?;
        let admin = plane.client(User::new(ADMIN.0, ADMIN.1)).map_err(|error| format!("{error:#}"))?;
        let (server, address, kubeconfig) = (Arc::clone(&plane.server), plane.address, plane.kubeconfig.clone());
        let task = PlaneTask::spawn(|stop| async move {
            let broken = tokio::select! {
                () = stop.cancelled() => None,
                error = plane.broken() => Some(format!("{error:#}")),
            };
            plane.stop().await;
            broken.map_or(Ended::Stopped, Ended::Broken)
        });
        let connection = Connection::InProcess(server);
        Ok(StartedPlane { connection, admin, kubeconfig: Some(kubeconfig), address: Some(address), task })
    }

    fn backups(&self) -> Option<Arc<dyn BackupFormat>> {
        self.backups.clone()
    }

    fn server_command(&self) -> Vec<String> {
        self.server_command.clone()
    }
}
