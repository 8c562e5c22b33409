//! `flotilla manager`: runs the management plane until it is terminated.

use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use manager::{Manager, ManagerOptions, PlaneFlags};

use crate::background::Background;
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
    // Ends after the instances of this process have stopped.
    let background = Background::start()?;
    let options = args.into_options(&background)?;
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
    fn into_options(self, background: &Background) -> anyhow::Result<ManagerOptions> {
        let data_dir = self.host.data_dir(".flotilla-manager")?;
        let background = background.handle();
        let plane_flags = move |flags: PlaneFlags| {
            let mut options = server::options_of(flags)?;
            options.propagation.background.clone_from(&background);
            Ok(options)
        };
        let mut options = ManagerOptions::new(data_dir, self.host.bind, Arc::new(plane_flags));
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    #[command(no_binary_name = true)]
    struct Line {
        #[command(flatten)]
        args: ManagerArgs,
    }

    #[test]
    fn instances_share_a_runtime_for_their_controllers() {
        let background = Background::start().expect("a runtime");
        let line = Line::try_parse_from(["--data-dir=/nonexistent"]).expect("valid flags");
        let options = line.args.into_options(&background).expect("options");
        let bind = ([127, 0, 0, 1], 0).into();
        let flags = vec!["--quota-backend-bytes=16777216".to_owned()];
        let plane = (options.plane_flags)(PlaneFlags { data_dir: "/nonexistent".into(), bind, flags });
        let plane = plane.expect("valid flags");
        assert_eq!(plane.host.storage_bytes_max, manager_kinds::spec::STORAGE_BYTES_MIN);
        let ids =
            (background.handle().map(|handle| handle.id()), plane.propagation.background.map(|handle| handle.id()));
        assert!(ids.0.is_some() && ids.0 == ids.1);
    }
}
