//! From a Deployment on the control plane to three real members and back: flotilla compared with Karmada.

pub mod costs;
pub mod measure;
pub mod objects;
pub mod table;

use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::fleet::plane::{BenchPlane, Which};
use crate::fleet::real_member::{Member, Runs};
use crate::options::BenchOptions;
use crate::programs;
use crate::propagation::measure::{PropagationMeasured, PropagationTask, measure};
use crate::restart::until_quiet;

/// Options of the propagation benchmark.
#[derive(Clone, Default, Args)]
pub struct PropagationOptions {
    /// Deployments created at once on both control planes [default: 1000; --quick 60].
    #[arg(long, value_name = "N")]
    count: Option<usize>,
    /// Deployments per second [default: 1,10,100].
    #[arg(long, value_delimiter = ',', value_name = "RATE,...")]
    paces: Option<Vec<f64>>,
    /// Duration of each pace, in seconds [default: 20; --quick 6].
    #[arg(long, value_name = "SECONDS")]
    pace_seconds: Option<f64>,
    /// Number of Deployments of the growth run of flotilla; 0 disables it [default: 20000; --quick 2000].
    #[arg(long, value_name = "N")]
    growth: Option<usize>,
    /// Measure one control plane alone.
    #[arg(long, value_enum, value_name = "PLANE")]
    only: Option<Which>,
    /// Replicas of each Deployment in each member [default: 1].
    #[arg(long, value_name = "N")]
    replicas: Option<u32>,
    /// Run the real controllers, scheduler and simulated nodes in the members. On a small machine they take far more
    /// time than either control plane; without it, the benchmark marks each Deployment as ready with one write
    /// instead of many.
    #[arg(long)]
    real_workloads: bool,
    /// Use `flotilla member` processes as members, whose simulated pods are ready at once.
    #[arg(long, conflicts_with = "real_workloads")]
    light_members: bool,
}

#[derive(Default, Serialize, Deserialize)]
pub struct Results {
    pub members: usize,
    pub real_workloads: bool,
    #[serde(default)]
    pub light_members: bool,
    /// All at once, one for each control plane, and Karmada again with raised limits.
    pub flat_out: Vec<PropagationMeasured>,
    pub paced: Vec<PropagationMeasured>,
    /// Of flotilla alone, in blocks.
    pub growth: Option<PropagationMeasured>,
}

const NAMES: [&str; 3] = ["member1", "member2", "member3"];
pub const BLOCK: usize = 1000;
/// Karmada needs over ten minutes for a thousand; the number reached by then also gives a rate.
const FLAT_OUT_MAX: Duration = Duration::from_secs(11 * 60);
const RAISED_MAX: Duration = Duration::from_secs(2 * 60);
/// Additional time beyond that of a pace before it counts as not held.
const PACE_GRACE: Duration = Duration::from_secs(30);
const GROWTH_MAX: Duration = Duration::from_secs(12 * 60);
const SILENCE_MAX: Duration = Duration::from_secs(60);
const REST_MAX: Duration = Duration::from_secs(100);
/// An idle Karmada uses as much.
const AT_REST_PERCENT: f64 = 5.0;

pub async fn run(
    options: &BenchOptions,
    own: &PropagationOptions,
    results: &mut Results,
    notes: &mut Vec<String>,
) -> anyhow::Result<()> {
    if !own.light_members {
        programs::ensure_present(options, programs::MEMBERS).await?;
    }
    results.members = NAMES.len();
    results.light_members = own.light_members;
    results.real_workloads = own.real_workloads;
    let wants = |which: Which| own.only.is_none_or(|only| only == which);
    if wants(Which::Flotilla) {
        run_plane(Which::Flotilla, options, own, results).await?;
    }
    if wants(Which::Karmada) && !options.alone {
        let karmada = async {
            programs::ensure_present(options, programs::KARMADA).await?;
            run_plane(Which::Karmada, options, own, results).await
        };
        if let Err(error) = karmada.await {
            notes.push(format!("the Karmada run failed: {error:#}"));
        }
    }
    Ok(())
}

/// New members for each control plane, so that remains of one do not affect the other.
async fn run_plane(
    which: Which,
    options: &BenchOptions,
    own: &PropagationOptions,
    results: &mut Results,
) -> anyhow::Result<()> {
    eprintln!("{which}: starting with {} members ...", NAMES.len());
    let runs = match (own.real_workloads, own.light_members) {
        (true, _) => Runs::Pods,
        (false, true) => Runs::Light,
        (false, false) => Runs::Nothing,
    };
    let members = Member::start_all(&NAMES, options, runs).await?;
    let mut plane = BenchPlane::start(which, options).await?;
    plane.join_all(&members, options).await.context("joining")?;
    let count = options.size(own.count, 60, 1000);
    let flat_out = PropagationTask { count, limit: FLAT_OUT_MAX, ..task(own, "flat-out") };
    // First, so that both control planes are empty: their memory afterwards is compared.
    results.flat_out.push(report(measure(&plane, &members, &flat_out).await?));
    until_quiet(&plane.pids(), AT_REST_PERCENT, REST_MAX).await?;
    run_paces(&plane, &members, options, own, results).await?;
    let growth = options.size(own.growth, 2000, 20_000);
    if which == Which::Flotilla && growth > 0 {
        let task = PropagationTask { count: growth, limit: GROWTH_MAX, block: Some(BLOCK), ..task(own, "growth") };
        results.growth = Some(report(measure(&plane, &members, &task).await?));
    }
    if let BenchPlane::Karmada(karmada) = &mut plane {
        eprintln!("karmada: again with raised request limits ...");
        let commands = karmada.stop_workers().await?;
        karmada.start_workers(&commands, true).await?;
        let raised = PropagationTask { namespace: "flat-out-raised".to_owned(), limit: RAISED_MAX, ..flat_out };
        let measured = measure(&plane, &members, &raised).await?;
        results.flat_out.push(report(PropagationMeasured { raised: true, ..measured }));
    }
    Ok(())
}

/// From slow to fast; after a pace that is not held, faster ones are skipped, since the backlog would still be
/// processed.
async fn run_paces(
    plane: &BenchPlane,
    members: &[Member],
    options: &BenchOptions,
    own: &PropagationOptions,
    results: &mut Results,
) -> anyhow::Result<()> {
    let seconds = options.size(own.pace_seconds, 6.0, 20.0).clamp(1.0, 600.0);
    let mut paces = own.paces.clone().unwrap_or_else(|| vec![1.0, 10.0, 100.0]);
    paces.retain(|pace| *pace > 0.0);
    paces.sort_by(f64::total_cmp);
    for pace in paces {
        let task = PropagationTask {
            count: ((seconds * pace) as usize).max(1),
            pace: Some(pace),
            limit: Duration::from_secs_f64(seconds) + PACE_GRACE,
            ..task(own, &format!("paced-{pace}"))
        };
        let measured = report(measure(plane, members, &task).await?);
        let holds = measured.holds_pace() == Some(true);
        results.paced.push(measured);
        if !holds {
            // The backlog must not affect the next measurement.
            until_quiet(&plane.pids(), AT_REST_PERCENT, REST_MAX).await?;
            break;
        }
    }
    Ok(())
}

fn task(own: &PropagationOptions, namespace: &str) -> PropagationTask {
    PropagationTask {
        namespace: namespace.to_owned(),
        count: 0,
        pace: None,
        replicas: own.replicas.unwrap_or(1),
        real_workloads: own.real_workloads || own.light_members,
        limit: FLAT_OUT_MAX,
        silence: SILENCE_MAX,
        block: None,
    }
}

/// The load of other benchmarks before they start.
pub fn load(namespace: &str, count: usize, limit: Duration) -> PropagationTask {
    PropagationTask { count, limit, ..task(&PropagationOptions::default(), namespace) }
}

fn report(measured: PropagationMeasured) -> PropagationMeasured {
    eprintln!("  {}", table::line(&measured));
    measured
}
