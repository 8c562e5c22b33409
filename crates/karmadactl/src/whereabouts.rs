//! Where a cluster is, as users say it of one that joins or registers.

use clap::Args;

#[derive(Args, Debug)]
pub struct WhereaboutsArgs {
    /// Provider of the cluster, to spread workloads across providers
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    pub cluster_provider: String,
    /// Region of the cluster, to spread workloads across regions
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    pub cluster_region: String,
    /// Zones of the cluster, to spread workloads across zones
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    cluster_zones: Vec<String>,
}

impl WhereaboutsArgs {
    pub fn zones(&self) -> Vec<String> {
        self.cluster_zones.iter().filter(|zone| !zone.is_empty()).cloned().collect()
    }

    /// The same, said to an agent.
    pub fn flags(&self) -> [String; 3] {
        [
            format!("--cluster-provider={}", self.cluster_provider),
            format!("--cluster-region={}", self.cluster_region),
            format!("--cluster-zones={}", self.cluster_zones.join(",")),
        ]
    }
}
