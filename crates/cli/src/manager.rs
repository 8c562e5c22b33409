//! `flotilla manager`: runs the management plane until it is terminated.

use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use manager::{Manager, ManagerOptions};

use crate::backup::instances::InstanceBackups;
use crate::host::HostArgs;
use crate::pod::PodArgs;
use crate::server;
use crate::termination::Termination;

#[derive(Args)]
pub struct ManagerArgs {
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    pod: PodArgs,
    /// Allow kubeconfigs of imported instances and clusters to name addresses of this machine.
    #[arg(long)]
    allow_loopback_endpoints: bool,
    /// Allow a ManagedCluster in several instances, which then manage the same objects.
    #[arg(long)]
    shared_members: bool,
    /// Answer gRPC reflection requests of authenticated users.
    #[arg(long)]
    grpc_reflection: bool,
    /// Serve each instance also at NAME.instances.DOMAIN, which the serving certificate then covers.
    #[arg(long, value_name = "DOMAIN")]
    instances_domain: Option<String>,
}

pub async fn run(args: ManagerArgs) -> anyhow::Result<()> {
    let pod = args.pod.clone();
    let options = args.into_options()?;
    pod.import_keys(&options.host.data_dir)?;
    let mut termination = Termination::listen()?;
    let started = std::time::Instant::now();
    let manager = Manager::start(options).await?;
    tracing::info!(
        address = %manager.address,
        kubeconfig = %manager.kubeconfig.display(),
        took = ?started.elapsed(),
        "the manager is ready"
    );
    let publishing = pod.publish(manager.kubeconfig.clone())?;
    let ending = termination.asked_unless(manager.broken()).await;
    drop(publishing);
    tracing::info!("shutting down, stopping the instances of this process");
    manager.stop().await;
    ending
}

impl ManagerArgs {
    fn into_options(self) -> anyhow::Result<ManagerOptions> {
        let data_dir = self.host.data_dir(".flotilla-manager")?;
        let mut options = ManagerOptions::new(data_dir, self.host.bind, Arc::new(server::options_of));
        self.host.apply(&mut options.host)?;
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        options.server_command = vec![program.display().to_string(), "server".to_owned()];
        options.clusters.endpoints.allow_loopback = self.allow_loopback_endpoints;
        options.clusters.shared_members = self.shared_members;
        options.grpc_reflection = self.grpc_reflection;
        options.instances_domain = self.instances_domain;
        options.backups = Some(Arc::new(InstanceBackups));
        Ok(options)
    }
}
