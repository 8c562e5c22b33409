//! Loses one of three members with hundreds of applications on it: how soon they are ready elsewhere, how many leave in a
//! second, and whether that keeps to the rate that was set.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::options::Options;
use crate::process;
use crate::propagation::PropagationOptions;
use crate::propagation::measure::{deployment, follow, name_of, say_ready};
use crate::propagation::members::Member;
use crate::propagation::planes::Plane;
use crate::wire::Call;

/// What the failover benchmark can be told.
#[derive(Clone, Args)]
pub struct FailoverOptions {
    /// Applications on the member that is lost.
    #[arg(long, default_value_t = 500, value_name = "N")]
    pub applications: usize,
    /// `--resource-eviction-rate` of the plane, one run for each.
    #[arg(long, value_delimiter = ',', default_value = "50,1000", value_name = "RATE,...")]
    pub rates: Vec<f64>,
    /// `tolerationSeconds` of the applications.
    #[arg(long, default_value_t = 5, value_name = "SECONDS")]
    pub patience: u64,
}

const NAMESPACE: &str = "bench-failover";
const LOST: &str = "lost";
const OTHERS: [&str; 2] = ["north", "south"];
const CREATORS: usize = 8;
/// Nothing new for this long is the end of a run that will not end by itself.
const SILENCE_MAX: Duration = Duration::from_secs(120);

#[derive(Clone, Serialize)]
pub struct Measured {
    pub applications: usize,
    pub rate: f64,
    pub patience_seconds: u64,
    /// From the death of the member's API server until the plane taints it.
    pub detection_seconds: f64,
    /// From the taint until the first application was ready elsewhere, beyond its patience.
    pub first_ready_beyond_patience_seconds: f64,
    /// From leaving to being ready elsewhere.
    pub move_p50_ms: f64,
    pub move_p99_ms: f64,
    /// Evictions per second from the first to the last.
    pub evictions_per_second: f64,
    /// The most in one second of the plane's own clock, as the bindings remember it.
    pub evictions_in_a_second_max: usize,
    pub rate_holds: bool,
    pub cpu_ms_per_application: f64,
}

enum Seen {
    Tainted,
    Left { name: String, told: String },
    Ready(String),
}

type Sender = mpsc::UnboundedSender<(Seen, Instant)>;

pub async fn run(options: &Options, own: &FailoverOptions) -> anyhow::Result<Vec<Measured>> {
    let options = &crate::run::with_programs(options)?;
    let mut results = Vec::new();
    for rate in &own.rates {
        eprintln!("{} applications leave a lost member, at most {rate} in a second ...", own.applications);
        let measured = measure(options, own, *rate).await?;
        eprintln!("{}", line(&measured));
        results.push(measured);
    }
    Ok(results)
}

async fn measure(options: &Options, own: &FailoverOptions, rate: f64) -> anyhow::Result<Measured> {
    let workloads =
        PropagationOptions { counts: vec![], karmada_max: 0, only: None, replicas: 1, real_workloads: false };
    let mut members = Vec::new();
    for name in std::iter::once(LOST).chain(OTHERS) {
        members.push(Member::start(name, options, &workloads).await.with_context(|| format!("member {name}"))?);
    }
    let settings = [
        format!("--resource-eviction-rate={rate}"),
        "--cluster-status-update-frequency=1s".to_owned(),
        "--cluster-failure-threshold=2s".to_owned(),
        "--cluster-success-threshold=1s".to_owned(),
    ];
    let plane = Plane::start_flotilla(options, &settings).await?;
    for member in &members {
        plane.join(member).await?;
    }
    prepare(&plane, own).await?;
    let (sender, mut receiver) = mpsc::unbounded_channel();
    for member in &members {
        play_member(member, sender.clone());
    }
    create_all(&plane, own.applications).await?;
    until_ready(&mut receiver, own.applications).await?;
    follow_plane(&plane, sender);
    let cpu_before = process::cpu(&plane.pids)?;
    let lost_at = Instant::now();
    drop(members.remove(0));
    let seen = collect(&mut receiver, own.applications).await?;
    let cpu = process::cpu(&plane.pids)?.saturating_sub(cpu_before);
    summarize(own, rate, lost_at, &seen, cpu)
}

/// Half of the applications go north first, half south.
async fn prepare(plane: &Plane, own: &FailoverOptions) -> anyhow::Result<()> {
    let mut connection = plane.target.connect().await?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    connection.read(Call::create("/api/v1/namespaces".to_owned(), namespace.to_string().into())).await?;
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
                    "decisionConditions": {"tolerationSeconds": own.patience}, "purgeMode": "Gracefully"}},
            },
        });
        let path = format!("/apis/policy.karmada.io/v1alpha1/namespaces/{NAMESPACE}/propagationpolicies");
        connection.read(Call::create(path, policy.to_string().into())).await?;
    }
    Ok(())
}

async fn create_all(plane: &Plane, count: usize) -> anyhow::Result<()> {
    let tasks = (0..CREATORS).map(|creator| {
        let target = plane.target.clone();
        tokio::spawn(async move {
            let mut connection = target.connect().await?;
            for number in (creator..count).step_by(CREATORS) {
                let mut application = deployment(&format!("web-{number:05}"), 1);
                application["metadata"]["labels"]["next"] = OTHERS[number % 2].into();
                let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments");
                connection.read(Call::create(path, application.to_string().into())).await?;
            }
            anyhow::Ok(())
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.context("a client ended badly")??;
    }
    Ok(())
}

/// Every application that arrives is ready at once, and told of when it is.
fn play_member(member: &Member, sender: Sender) {
    let (arrived, arrivals) = mpsc::unbounded_channel();
    tokio::spawn(say_ready(member.target().clone(), NAMESPACE.to_owned(), 1, arrivals));
    let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments?watch=true");
    tokio::spawn(follow(member.target().clone(), path, move |event| {
        let name = name_of(event);
        // Who is gone needs to know nothing.
        if event["type"] == "ADDED" {
            let _ = arrived.send(name.clone());
        }
        if event["object"]["status"]["readyReplicas"] == 1 && event["type"] != "DELETED" {
            let _ = sender.send((Seen::Ready(name), Instant::now()));
        }
    }));
}

fn follow_plane(plane: &Plane, sender: Sender) {
    let clusters = "/apis/cluster.karmada.io/v1alpha1/clusters?watch=true".to_owned();
    let of_clusters = sender.clone();
    tokio::spawn(follow(plane.target.clone(), clusters, move |event| {
        let taints = event["object"]["spec"]["taints"].as_array().map(Vec::as_slice).unwrap_or_default();
        let drives_out = |taint: &Value| taint["effect"] == "NoExecute";
        if name_of(event) == LOST && taints.iter().any(drives_out) {
            let _ = of_clusters.send((Seen::Tainted, Instant::now()));
        }
    }));
    let path = format!("/apis/work.karmada.io/v1alpha2/namespaces/{NAMESPACE}/resourcebindings?watch=true");
    tokio::spawn(follow(plane.target.clone(), path, move |event| {
        let tasks = event["object"]["spec"]["gracefulEvictionTasks"].as_array().map(Vec::as_slice).unwrap_or_default();
        if tasks.iter().any(|task| task["fromCluster"] == LOST) {
            let name = event["object"]["spec"]["resource"]["name"].as_str().unwrap_or_default().to_owned();
            let history = &event["object"]["metadata"]["annotations"]["flotilla.dev/failover-history"];
            let moves: Value = serde_json::from_str(history.as_str().unwrap_or_default()).unwrap_or_default();
            let told = moves[0]["time"].as_str().unwrap_or_default().to_owned();
            let _ = sender.send((Seen::Left { name, told }, Instant::now()));
        }
    }));
}

async fn next(receiver: &mut mpsc::UnboundedReceiver<(Seen, Instant)>) -> anyhow::Result<(Seen, Instant)> {
    let seen = tokio::time::timeout(SILENCE_MAX, receiver.recv()).await;
    seen.ok().flatten().context("nothing more happens")
}

async fn until_ready(receiver: &mut mpsc::UnboundedReceiver<(Seen, Instant)>, count: usize) -> anyhow::Result<()> {
    let mut ready = HashSet::new();
    while ready.len() < count {
        if let (Seen::Ready(name), _) = next(receiver).await? {
            ready.insert(name);
        }
    }
    Ok(())
}

#[derive(Default)]
struct Collected {
    tainted: Option<Instant>,
    left: HashMap<String, Instant>,
    /// When they left by the clock of the plane, in whole seconds.
    told: HashMap<String, String>,
    ready: HashMap<String, Instant>,
}

async fn collect(receiver: &mut mpsc::UnboundedReceiver<(Seen, Instant)>, count: usize) -> anyhow::Result<Collected> {
    let mut collected = Collected::default();
    while collected.ready.len() < count {
        let (seen, at) = match next(receiver).await {
            Ok(seen) => seen,
            Err(error) => bail!("{error}: {} left, {} ready", collected.left.len(), collected.ready.len()),
        };
        match seen {
            Seen::Tainted => drop(collected.tainted.get_or_insert(at)),
            Seen::Left { name, told } => {
                collected.told.entry(name.clone()).or_insert(told);
                collected.left.entry(name).or_insert(at);
            }
            // What the lost member said last may still be on its way.
            Seen::Ready(name) if collected.tainted.is_some() => drop(collected.ready.entry(name).or_insert(at)),
            Seen::Ready(_) => {}
        }
    }
    Ok(collected)
}

fn summarize(
    own: &FailoverOptions,
    rate: f64,
    lost_at: Instant,
    seen: &Collected,
    cpu: Duration,
) -> anyhow::Result<Measured> {
    let tainted = seen.tainted.context("the member was never tainted")?;
    let first_ready = seen.ready.values().min().context("nothing was ready")?;
    let mut moves: Vec<f64> = seen
        .ready
        .iter()
        .filter_map(|(name, ready)| Some(ready.saturating_duration_since(*seen.left.get(name)?).as_secs_f64() * 1000.0))
        .collect();
    moves.sort_by(f64::total_cmp);
    let at = |share: f64| moves.get(((moves.len() as f64 * share) as usize).min(moves.len().saturating_sub(1)));
    let mut left: Vec<Instant> = seen.left.values().copied().collect();
    left.sort();
    let span = left.last().zip(left.first()).map_or(0.0, |(last, first)| (*last - *first).as_secs_f64());
    let mut seconds: HashMap<&str, usize> = HashMap::new();
    for told in seen.told.values() {
        *seconds.entry(told).or_default() += 1;
    }
    let most = seconds.into_values().max().unwrap_or(0);
    let average = (left.len() as f64 - 1.0) / span.max(f64::EPSILON);
    Ok(Measured {
        applications: own.applications,
        rate,
        patience_seconds: own.patience,
        detection_seconds: (tainted - lost_at).as_secs_f64(),
        first_ready_beyond_patience_seconds: (*first_ready - tainted).as_secs_f64() - own.patience as f64,
        move_p50_ms: at(0.5).copied().unwrap_or(0.0),
        move_p99_ms: at(0.99).copied().unwrap_or(0.0),
        evictions_per_second: average,
        evictions_in_a_second_max: most,
        // A second holds both of its ends, and what a tenth of one before it missed.
        rate_holds: average <= rate * 1.02 && most as f64 <= rate * 1.1 + 1.0,
        cpu_ms_per_application: cpu.as_secs_f64() * 1000.0 / own.applications as f64,
    })
}

pub fn table(results: &[Measured]) -> String {
    let mut text = "| applications | rate set | evictions/s | most in 1 s | rate holds | detected after | first ready, beyond its \
patience | move p50 | p99 | CPU per application |\n|---|---|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for result in results {
        // A text is always writable.
        let _ = writeln!(text, "{}", line(result));
    }
    text
}

fn line(result: &Measured) -> String {
    format!(
        "| {} | {} | {:.1} | {} | {} | {:.1} s | {:+.2} s of {} s | {:.0} ms | {:.0} ms | {:.1} ms |",
        result.applications,
        result.rate,
        result.evictions_per_second,
        result.evictions_in_a_second_max,
        if result.rate_holds { "yes" } else { "NO" },
        result.detection_seconds,
        result.first_ready_beyond_patience_seconds,
        result.patience_seconds,
        result.move_p50_ms,
        result.move_p99_ms,
        result.cpu_ms_per_application,
    )
}
