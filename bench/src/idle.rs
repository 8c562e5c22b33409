//! Samples an idle control plane: its memory, and the CPU usage of keeping up with its members.

use std::time::Duration;

use clap::Args;

use crate::options::BenchOptions;
use crate::process::{self, Sample};

#[derive(Clone, Default, Args)]
pub struct IdleOptions {
    /// Number of samples [default: 3; --quick 2].
    #[arg(long, value_name = "N")]
    samples: Option<usize>,
    /// Seconds between samples [default: 20, for agents 40; --quick 8, for agents 10].
    #[arg(long, value_name = "SECONDS")]
    interval: Option<u64>,
}

impl IdleOptions {
    /// Adds samples; the interval is that of the part, quick or full, unless given.
    pub async fn sample(
        &self,
        options: &BenchOptions,
        (quick, full): (u64, u64),
        plane: &[u32],
        samples: &mut Vec<Sample>,
    ) -> anyhow::Result<()> {
        let interval = Duration::from_secs(options.size(self.interval, quick, full));
        for _ in 0..options.size(self.samples, 2, 3) {
            let sample = process::sample(plane, interval).await?;
            eprintln!("  plane: {:.0} MiB, {:.1} % of a core", sample.memory.resident_mib, sample.cpu_percent);
            samples.push(sample);
        }
        Ok(())
    }
}
