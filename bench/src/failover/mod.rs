//! Loses one of three members with hundreds of applications: time until they are ready elsewhere, evictions per
//! second compared with the configured rate, and the time of each stage.

mod follow;
pub mod table;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::failover::follow::{FailoverEvent, FailoverStage, follow_member, follow_plane};
use crate::fleet::plane::BenchPlane;
use crate::fleet::real_member::{Member, Runs};
use crate::fleet::watch::Watches;
use crate::fleet::{create, make_namespace};
use crate::load::Percentiles;
use crate::options::BenchOptions;
use crate::process;
use crate::programs;
use crate::propagation::objects::{deployment, deployments, policies};
use crate::restart::until_quiet;
use crate::wire::Call;

/// Options of the failover benchmark.
#[derive(Clone, Default, Args)]
pub struct FailoverOptions {
    /// Applications on the lost member [default: 500; --quick 100].
    #[arg(long, value_name = "N")]
    applications: Option<usize>,
    /// `--resource-eviction-rate` of the control plane, one run for each [default: 50,1000; --quick 50].
    #[arg(long, value_delimiter = ',', value_name = "RATE,...")]
    rates: Option<Vec<f64>>,
    /// Only with members of this kind [default: real ones at every rate, light ones at the highest].
    #[arg(long, value_enum, value_name = "KIND")]
    members: Option<MemberKind>,
    /// `tolerationSeconds` of the applications [default: 5].
    #[arg(long, value_name = "SECONDS")]
    patience: Option<u64>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub enum MemberKind {
    /// kube-apiserver on etcd, with this program marking Deployments as ready.
    #[default]
    Real,
    /// `flotilla member`, whose pods are ready at once.
    Light,
}

#[derive(Default, Serialize, Deserialize)]
pub struct Results {
    pub runs: Vec<FailoverMeasured>,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct FailoverMeasured {
    #[serde(default)]
    pub members: MemberKind,
    pub applications: usize,
    pub rate: f64,
    pub patience_seconds: u64,
    /// From the kill of the member's API server until the control plane taints it.
    pub detection_seconds: f64,
    /// From the taint until the first application was ready elsewhere, beyond its toleration.
    pub first_ready_beyond_patience_seconds: f64,
    pub last_ready_seconds: f64,
    /// From eviction to ready elsewhere.
    pub moves: Percentiles,
    pub stages: Vec<StageTimes>,
    /// Evictions per second from the first to the last.
    pub evictions_per_second: f64,
    /// The maximum in one second of the control plane's own clock, as recorded in the bindings.
    pub evictions_in_a_second_max: usize,
    pub rate_holds: bool,
    pub cpu_ms_per_application: f64,
    /// Of the remaining members and of this program: they share the processors with the control plane.
    pub others_cpu_ms_per_application: f64,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct StageTimes {
    pub name: String,
    /// Since the previous stage, per application.
    pub step: Percentiles,
    /// Applications per second at this stage, from the first to the last.
    pub per_second: f64,
}

const NAMESPACE: &str = "bench-failover";
const LOST: &str = "lost";
const OTHERS: [&str; 2] = ["north", "south"];
const CREATORS: usize = 8;
/// Without an event for this long, a run is aborted.
const SILENCE_MAX: Duration = Duration::from_secs(60);
const QUIET_MAX: Duration = Duration::from_secs(30);
const PROGRESS: Duration = Duration::from_secs(5);

type Receiver = mpsc::UnboundedReceiver<(FailoverEvent, Instant)>;

pub async fn run(options: &BenchOptions, own: &FailoverOptions, results: &mut Results) -> anyhow::Result<()> {
    for (rate, kind) in planned(options, own) {
        if kind == MemberKind::Real {
            programs::ensure_present(options, programs::MEMBERS).await?;
        }
        let applications = options.size(own.applications, 100, 500);
        eprintln!("{applications} applications leave a lost member, at most {rate} per second ...");
        let load = Load { kind, applications, rate, patience: own.patience.unwrap_or(5) };
        let measured = measure(options, &load).await?;
        eprintln!("  {}\n{}", table::line(&measured), table::stages(&measured));
        results.runs.push(measured);
    }
    Ok(())
}

/// Rates and members of the runs.
fn planned(options: &BenchOptions, own: &FailoverOptions) -> Vec<(f64, MemberKind)> {
    let rates = options.size(own.rates.clone(), vec![50.0], vec![50.0, 1000.0]);
    if let Some(kind) = own.members {
        return rates.into_iter().map(|rate| (rate, kind)).collect();
    }
    let highest = rates.iter().copied().reduce(f64::max);
    let light = highest.into_iter().map(|rate| (rate, MemberKind::Light));
    rates.iter().map(|rate| (*rate, MemberKind::Real)).chain(light).collect()
}

/// The parameters of a run.
struct Load {
    kind: MemberKind,
    applications: usize,
    rate: f64,
    patience: u64,
}

async fn measure(options: &BenchOptions, load: &Load) -> anyhow::Result<FailoverMeasured> {
    let names = [LOST, OTHERS[0], OTHERS[1]];
    let is_light = load.kind == MemberKind::Light;
    let runs = if is_light { Runs::Light } else { Runs::Nothing };
    let mut members = Member::start_all(&names, options, runs).await?;
    let settings = [
        format!("--resource-eviction-rate={}", load.rate),
        "--cluster-status-update-frequency=1s".to_owned(),
        "--cluster-failure-threshold=2s".to_owned(),
        "--cluster-success-threshold=1s".to_owned(),
    ];
    let plane = BenchPlane::start_flotilla(options, &settings).await?;
    plane.join_all(&members, options).await?;
    prepare(&plane, load.patience).await?;
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let mut watches = Watches::default();
    for member in &members {
        follow_member(&mut watches, member, sender.clone());
    }
    create_all(&plane, load.applications).await?;
    until_ready(&mut receiver, load.applications).await?;
    eprintln!("  all are ready on the first member");
    follow_plane(&mut watches, &plane, &sender);
    // Work left over from the preparation must not slow down the failover.
    until_quiet(&plane.pids(), 5.0, QUIET_MAX).await?;
    let left: Vec<u32> = members[1..].iter().flat_map(Member::pids).chain([std::process::id()]).collect();
    let before = (process::cpu(&plane.pids())?, process::cpu(&left)?);
    let lost_at = Instant::now();
    drop(members.remove(0));
    let mut seen = Collected { lost_at, ..Collected::new() };
    let collected = collect(&mut receiver, load.applications, &mut seen).await;
    let cpu = process::cpu(&plane.pids())?.saturating_sub(before.0);
    let others = process::cpu(&left)?.saturating_sub(before.1);
    collected.with_context(|| {
        format!("{} left, {} ready", seen.count(FailoverStage::Evicted), seen.count(FailoverStage::Ready))
    })?;
    summarize(load, Used { cpu, others }, &seen)
}

/// Half of the applications prefer north, half south.
async fn prepare(plane: &BenchPlane, patience: u64) -> anyhow::Result<()> {
    make_namespace(plane.target(), NAMESPACE).await?;
    for (index, first) in OTHERS.iter().enumerate() {
        let second = OTHERS[1 - index];
        let weight = |name: &str, weight: i32| json!({"targetCluster": {"clusterNames": [name]}, "weight": weight});
        let policy = json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": first, "namespace": NAMESPACE},
            "spec": {
                "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment",
                    "labelSelector": {"matchLabels": {"next": first}}}],
                "propagateDeps": true,
                "placement": {"replicaScheduling": {
                    "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
                    "weightPreference": {"staticWeightList": [weight(LOST, 1), weight(first, 0), weight(second, 0)]},
                }},
                "failover": {"application": {
                    "decisionConditions": {"tolerationSeconds": patience}, "purgeMode": "Gracefully"}},
            },
        });
        create(plane.target(), &policies(NAMESPACE), &policy).await?;
    }
    Ok(())
}

async fn create_all(plane: &BenchPlane, count: usize) -> anyhow::Result<()> {
    let mut creators = JoinSet::new();
    for creator in 0..CREATORS {
        let target = plane.target().clone();
        creators.spawn(async move {
            let mut connection = target.connect().await?;
            for number in (creator..count).step_by(CREATORS) {
                let mut application = deployment(&format!("web-{number:05}"), 1);
                application["metadata"]["labels"]["next"] = OTHERS[number % 2].into();
                connection.read(Call::create(deployments(NAMESPACE), application.to_string().into())).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(creator) = creators.join_next().await {
        creator.context("a client failed")??;
    }
    Ok(())
}

async fn next(receiver: &mut Receiver) -> anyhow::Result<(FailoverEvent, Instant)> {
    let seen = tokio::time::timeout(SILENCE_MAX, receiver.recv()).await;
    seen.ok().flatten().context("no more events")
}

async fn until_ready(receiver: &mut Receiver, count: usize) -> anyhow::Result<()> {
    let mut ready = std::collections::HashSet::new();
    while ready.len() < count {
        if let (FailoverEvent::Reached { stage: FailoverStage::Ready, name }, _) = next(receiver).await? {
            ready.insert(name);
        }
    }
    Ok(())
}

struct Collected {
    lost_at: Instant,
    tainted: Option<Instant>,
    /// When each application first reached each stage.
    reached: [HashMap<String, Instant>; FailoverStage::ALL.len()],
    /// Eviction times by the clock of the control plane, in whole seconds.
    left_at: HashMap<String, String>,
}

impl Collected {
    fn new() -> Self {
        Self { lost_at: Instant::now(), tainted: None, reached: Default::default(), left_at: HashMap::new() }
    }

    fn at(&self, stage: FailoverStage) -> &HashMap<String, Instant> {
        &self.reached[stage as usize]
    }

    fn count(&self, stage: FailoverStage) -> usize {
        self.at(stage).len()
    }
}

/// Runs until every application has reached the last stage.
async fn collect(receiver: &mut Receiver, count: usize, collected: &mut Collected) -> anyhow::Result<()> {
    let mut left_at = Instant::now();
    while collected.count(FailoverStage::Reported) < count || collected.count(FailoverStage::Ready) < count {
        let (seen, at) = next(receiver).await?;
        if left_at.elapsed() > PROGRESS {
            left_at = Instant::now();
            let counts = FailoverStage::ALL.map(|stage| format!("{} {}", collected.count(stage), stage.name()));
            eprintln!("  {}", counts.join(", "));
        }
        match seen {
            FailoverEvent::Tainted => drop(collected.tainted.get_or_insert(at)),
            FailoverEvent::LeftAt { name, left_at } => drop(collected.left_at.entry(name).or_insert(left_at)),
            // Last events of the lost member may still arrive.
            FailoverEvent::Reached { stage, name } if collected.tainted.is_some() => {
                collected.reached[stage as usize].entry(name).or_insert(at);
            }
            FailoverEvent::Reached { .. } => {}
        }
    }
    Ok(())
}

/// CPU time of the control plane and of all others.
struct Used {
    cpu: Duration,
    others: Duration,
}

fn summarize(run: &Load, used: Used, seen: &Collected) -> anyhow::Result<FailoverMeasured> {
    let tainted = seen.tainted.context("the member was not tainted")?;
    let ready = seen.at(FailoverStage::Ready);
    let first_ready = *ready.values().min().context("nothing was ready")?;
    let last_ready = *ready.values().max().context("nothing was ready")?;
    let stages: Vec<StageTimes> =
        FailoverStage::ALL.windows(2).map(|pair| stage_times(seen, pair[0], pair[1])).collect();
    ensure!(seen.count(FailoverStage::Evicted) > 1, "nothing was evicted");
    let mut seconds: HashMap<&str, usize> = HashMap::new();
    for left_at in seen.left_at.values() {
        *seconds.entry(left_at).or_default() += 1;
    }
    let most = seconds.into_values().max().unwrap_or(0);
    let average = per_second(seen.at(FailoverStage::Evicted));
    let each = |time: Duration| time.as_secs_f64() * 1000.0 / run.applications as f64;
    Ok(FailoverMeasured {
        members: run.kind,
        applications: run.applications,
        rate: run.rate,
        patience_seconds: run.patience,
        detection_seconds: (tainted - seen.lost_at).as_secs_f64(),
        first_ready_beyond_patience_seconds: (first_ready - tainted).as_secs_f64() - run.patience as f64,
        last_ready_seconds: (last_ready - tainted).as_secs_f64(),
        moves: between(seen.at(FailoverStage::Evicted), ready),
        stages,
        evictions_per_second: average,
        evictions_in_a_second_max: most,
        // A second includes both ends, plus the tenth of a second before it.
        rate_holds: average <= run.rate * 1.02 && most as f64 <= run.rate * 1.1 + 1.0,
        cpu_ms_per_application: each(used.cpu),
        others_cpu_ms_per_application: each(used.others),
    })
}

fn stage_times(seen: &Collected, from: FailoverStage, to: FailoverStage) -> StageTimes {
    let (from, reached) = (seen.at(from), seen.at(to));
    StageTimes { name: to.name().to_owned(), step: between(from, reached), per_second: per_second(reached) }
}

fn between(from: &HashMap<String, Instant>, to: &HashMap<String, Instant>) -> Percentiles {
    let steps = to.iter().filter_map(|(name, at)| Some(at.saturating_duration_since(*from.get(name)?)));
    Percentiles::of(steps.collect())
}

fn per_second(reached: &HashMap<String, Instant>) -> f64 {
    let Some((first, last)) = reached.values().min().zip(reached.values().max()) else { return 0.0 };
    (reached.len() as f64 - 1.0) / (*last - *first).as_secs_f64().max(1e-3)
}
