//! Flags for the location of a cluster that joins or registers.

use clap::Args;
use membership::ClusterLocation;

#[derive(Args, Debug)]
pub struct ClusterLocationArgs {
    /// Provider of the cluster, to spread workloads across providers
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    cluster_provider: String,
    /// Region of the cluster, to spread workloads across regions
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    cluster_region: String,
    /// Zones of the cluster, to spread workloads across zones
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    cluster_zones: Vec<String>,
}

impl ClusterLocationArgs {
    pub fn location(&self) -> ClusterLocation {
        ClusterLocation {
            provider: self.cluster_provider.clone(),
            region: self.cluster_region.clone(),
            zones: self.cluster_zones.iter().filter(|zone| !zone.is_empty()).cloned().collect(),
        }
    }
}
