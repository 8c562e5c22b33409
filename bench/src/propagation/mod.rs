//! From a Deployment on the plane to three real members and back: flotilla beside Karmada, same members, same run.

pub mod measure;
pub mod members;
pub mod planes;
mod table;

use anyhow::Context;
use clap::Args;

use crate::options::Options;
use crate::propagation::measure::Measured;
use crate::propagation::members::Member;
use crate::propagation::planes::{Plane, Which};

/// What the propagation benchmark can be told.
#[derive(Clone, Args)]
pub struct PropagationOptions {
    /// Deployments to propagate, one run for each number.
    #[arg(long, value_delimiter = ',', default_value = "1000", value_name = "N,...")]
    pub counts: Vec<usize>,
    /// Deployments Karmada is given at most: it takes minutes for a thousand.
    #[arg(long, default_value_t = 1000, value_name = "N")]
    pub karmada_max: usize,
    /// Measure one plane alone.
    #[arg(long, value_enum, value_name = "PLANE")]
    pub only: Option<Which>,
    /// Replicas of each Deployment in each member.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub replicas: u32,
    /// Run the real controllers, scheduler and simulated nodes in the members. On a small machine they take far more time
    /// than either plane; without it, the benchmark says ready for each Deployment with one write, as they would with many.
    #[arg(long)]
    pub real_workloads: bool,
}

const MEMBERS: [&str; 3] = ["member1", "member2", "member3"];

/// Runs every count on every plane and prints what was found.
pub async fn run(options: &Options, own: &PropagationOptions) -> anyhow::Result<Vec<Measured>> {
    let mut results = Vec::new();
    for which in
        [Which::Flotilla, Which::Karmada].into_iter().filter(|which| own.only.is_none_or(|only| only == *which))
    {
        // New members for each plane: what one left behind must not weigh on the other.
        let mut members = Vec::new();
        for name in MEMBERS {
            members.push(Member::start(name, options, own).await.with_context(|| format!("member {name}"))?);
        }
        let plane = Plane::start(which, options).await?;
        for member in &members {
            plane.join(member).await.with_context(|| format!("{name} joins", name = member.name))?;
        }
        for count in own.counts.iter().copied().filter(|count| which == Which::Flotilla || *count <= own.karmada_max) {
            eprintln!("{which}: {count} Deployments to {} members ...", members.len());
            results.push(measure::measure(&plane, &members, count, own).await?);
            eprintln!("{}", table::line(results.last().expect("just pushed")));
        }
    }
    Ok(results)
}

pub use table::table;
