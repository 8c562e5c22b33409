//! `flotilla member`: runs a light Kubernetes cluster until it is told to stop.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use member::{Member, Options};

use super::termination::Termination;

#[derive(Args)]
pub struct MemberArgs {
    /// State, keys and the administrator's kubeconfig (member.config) are kept here.
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Address to listen on; port 0 picks a free one.
    #[arg(long, default_value = "127.0.0.1:16443", value_name = "HOST:PORT")]
    bind: SocketAddr,
    /// What the cluster is called in its kubeconfig.
    #[arg(long, default_value = "member", value_name = "NAME")]
    cluster_name: String,
    /// Further DNS names or addresses the server certificate is valid for; may be given several times.
    #[arg(long = "tls-san", value_name = "NAME")]
    names: Vec<String>,
    /// URL written into the kubeconfig, when clients reach the member by another way than --bind.
    #[arg(long, value_name = "URL")]
    advertise_url: Option<String>,
    /// Keep objects in memory only: they are gone when the process ends.
    #[arg(long)]
    in_memory: bool,
}

pub async fn run(args: MemberArgs) -> anyhow::Result<()> {
    let mut termination = Termination::listen()?;
    let started = std::time::Instant::now();
    let member = Member::start(args.into_options()).await?;
    tracing::info!(
        address = %member.address,
        kubeconfig = %member.kubeconfig.display(),
        took = ?started.elapsed(),
        "the member is ready"
    );
    termination.asked().await;
    tracing::info!("stopping: requests under way may finish");
    member.stop().await;
    Ok(())
}

impl MemberArgs {
    fn into_options(self) -> Options {
        let mut options = Options::new(&self.cluster_name, self.data_dir, self.bind);
        options.host.names = self.names;
        options.host.advertise = self.advertise_url;
        if self.in_memory {
            options.host.storage = api_host::Storage::Memory;
        }
        options
    }
}
