//! `-s` and `-C` of commands that run against the control plane or one member.

use clap::Args;
use cluster_client::ClusterClient;

use crate::plane::{PlaneArgs, PlaneClient};
use crate::scope::{self, Scope};

/// Selects the control plane or a member.
#[derive(Args, Clone, Debug)]
pub struct MemberTargetArgs {
    #[command(flatten)]
    pub plane: PlaneArgs,
    /// Scope: karmada or members
    #[arg(short = 's', long, default_value = "karmada", value_parser = scope::parse, value_name = "SCOPE")]
    pub operation_scope: Scope,
    /// Member, with -s members
    #[arg(short = 'C', long, value_name = "NAME")]
    pub cluster: Option<String>,
}

/// An opened control plane, or a member of it.
pub struct MemberTarget {
    pub plane: PlaneClient,
    pub client: ClusterClient,
}

impl MemberTargetArgs {
    pub async fn open(&self) -> anyhow::Result<MemberTarget> {
        let member = scope::single_member(self.operation_scope, self.cluster.as_deref())?;
        let plane = PlaneClient::open(&self.plane)?;
        let client = match member {
            None => plane.client.clone(),
            Some(cluster) => plane.existing_member(cluster).await.map_err(|error| plane.explain(error))?,
        };
        Ok(MemberTarget { plane, client })
    }
}
