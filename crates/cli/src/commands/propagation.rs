//! The flags of `flotilla server` that say how members are looked after, with the names and defaults of Karmada's programs.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use api::features::Features;
use clap::Args;
use control_plane::{Propagation, settings};

#[derive(Args)]
#[command(next_help_heading = "Propagation")]
pub struct PropagationArgs {
    /// Features to switch on or off, like Failover=true,WorkloadAffinity=true.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME=BOOL,...")]
    feature_gates: String,
    /// Controllers to run: `*` for those that are on by default, NAME for one more, -NAME for one less.
    #[arg(long, default_value = "*", value_name = "NAMES")]
    controllers: String,
    /// APIs whose objects stay on the control plane: GROUP, GROUP/VERSION or GROUP/VERSION/KIND,KIND; separated by `;`.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "APIS")]
    skipped_propagating_apis: String,
    /// Namespaces whose objects stay on the control plane, as regular expressions over the whole name.
    #[arg(long, value_delimiter = ',', default_value = "kube-.*", value_name = "REGEX,...")]
    skipped_propagating_namespaces: Vec<String>,
    /// How long a pull cluster may be silent before its health is unknown, in seconds.
    #[arg(long, default_value_t = 40, value_name = "SECONDS")]
    cluster_monitor_grace_period: u64,
    /// Evict what does not tolerate a NoExecute taint of its cluster (needs the feature gate Failover).
    #[arg(long)]
    enable_no_execute_taint_eviction: bool,
}

impl PropagationArgs {
    pub fn read(self) -> anyhow::Result<Propagation> {
        let mut chosen = Propagation {
            features: Arc::new(Features::parse(&self.feature_gates).context("--feature-gates")?),
            ..Propagation::default()
        };
        let namespaces = || self.skipped_propagating_namespaces.iter().map(String::as_str);
        chosen.federation.skipped_apis = settings::SkippedApis::parse(&self.skipped_propagating_apis)?;
        chosen.federation.skipped_namespaces = settings::TemplateNamespaces::parse(namespaces())?;
        chosen.fleet.skipped_namespaces = settings::SkippedNamespaces::new(namespaces())?;
        chosen.fleet.controllers = settings::Controllers::parse(&self.controllers);
        chosen.fleet.cluster_monitor_grace_period = Duration::from_secs(self.cluster_monitor_grace_period);
        chosen.fleet.enable_no_execute_taint_eviction = self.enable_no_execute_taint_eviction;
        Ok(chosen)
    }
}
