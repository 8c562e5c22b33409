//! Flags of `flotilla server` for FederatedHPAs, with the names and defaults of karmada-controller-manager.

use std::time::Duration;

use anyhow::bail;
use clap::Args;
use control_plane::settings::AutoscalingSettings;

#[derive(Args)]
#[command(next_help_heading = "Autoscaling")]
pub struct AutoscalingArgs {
    /// Interval at which FederatedHPAs read metrics.
    #[arg(long, value_parser = karmadactl::durations::parse, default_value = "15s", value_name = "DURATION")]
    horizontal_pod_autoscaler_sync_period: Duration,
    /// Time a FederatedHPA looks back before it scales down: it uses the highest recommendation of that time.
    #[arg(long, value_parser = karmadactl::durations::parse, default_value = "5m", value_name = "DURATION")]
    horizontal_pod_autoscaler_downscale_stabilization: Duration,
    /// Deviation of usage from its target, as a ratio, that does not change the replicas.
    #[arg(long, default_value_t = 0.1, value_name = "RATIO")]
    horizontal_pod_autoscaler_tolerance: f64,
    /// Time after the start of a pod during which its CPU usage is ignored until it is ready.
    #[arg(long, value_parser = karmadactl::durations::parse, default_value = "5m", value_name = "DURATION")]
    horizontal_pod_autoscaler_cpu_initialization_period: Duration,
    /// Time after the start of a pod during which a change to unready does not count as having been ready.
    #[arg(long, value_parser = karmadactl::durations::parse, default_value = "30s", value_name = "DURATION")]
    horizontal_pod_autoscaler_initial_readiness_delay: Duration,
}

impl AutoscalingArgs {
    pub fn read(&self) -> anyhow::Result<AutoscalingSettings> {
        let sync_period = self.horizontal_pod_autoscaler_sync_period;
        let mut settings = AutoscalingSettings { sync_period, ..AutoscalingSettings::default() };
        if settings.sync_period.is_zero() {
            bail!("--horizontal-pod-autoscaler-sync-period must be greater than 0");
        }
        let scaling = &mut settings.scaling;
        scaling.downscale_stabilization = self.horizontal_pod_autoscaler_downscale_stabilization;
        scaling.tolerance = self.horizontal_pod_autoscaler_tolerance;
        if !scaling.tolerance.is_finite() || scaling.tolerance < 0.0 {
            bail!("--horizontal-pod-autoscaler-tolerance must be 0 or more, not {}", scaling.tolerance);
        }
        scaling.cpu_initialization_period = self.horizontal_pod_autoscaler_cpu_initialization_period;
        scaling.initial_readiness_delay = self.horizontal_pod_autoscaler_initial_readiness_delay;
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: AutoscalingArgs,
    }

    fn read(line: &str) -> anyhow::Result<AutoscalingSettings> {
        Line::try_parse_from(std::iter::once("server").chain(line.split_whitespace()))?.args.read()
    }

    #[test]
    fn every_flag_has_an_effect() {
        let line = "--horizontal-pod-autoscaler-sync-period 1s --horizontal-pod-autoscaler-downscale-stabilization 2s \
            --horizontal-pod-autoscaler-tolerance 0.3 --horizontal-pod-autoscaler-cpu-initialization-period 4s \
            --horizontal-pod-autoscaler-initial-readiness-delay 5s";
        let settings = read(line).expect(line);
        let scaling = &settings.scaling;
        let seconds = [
            settings.sync_period,
            scaling.downscale_stabilization,
            scaling.cpu_initialization_period,
            scaling.initial_readiness_delay,
        ];
        assert_eq!(seconds.map(|duration| duration.as_secs()), [1, 2, 4, 5]);
        assert!((scaling.tolerance - 0.3).abs() < f64::EPSILON);
        assert!(read("--horizontal-pod-autoscaler-tolerance=-1").is_err());
        assert!(read("--horizontal-pod-autoscaler-sync-period=0s").is_err());
        assert!(read("--horizontal-pod-autoscaler-tolerance=NaN").is_err());
    }
}
