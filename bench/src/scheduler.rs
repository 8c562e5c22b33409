//! The scheduler alone: decisions per second on one core, by the number of clusters and bindings.

use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::scheduler::{ClusterSnapshot, Peers, Request, SchedulerOptions, explain, schedule};
use anyhow::Context;
use api::capacity::{ClusterNodes, NodeCapacity};
use api::work::{BindingSpec, BindingStatus};
use object::Object;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::report::rows::{Better, Row, RowTarget};

/// The target rate with 100 clusters.
const TARGET_PER_SECOND: f64 = 20_000.0;
const CLUSTERS: usize = 100;
const MIXED: &str = "mixed placements";
const REGIONS: usize = 5;
const NODES: usize = 50;
/// Kinds a member serves in addition to its workloads, as with some operators installed.
const API_GROUPS: usize = 40;
const KINDS_PER_GROUP: usize = 6;

#[derive(Clone, Default, clap::Args)]
pub struct SchedulerBenchOptions {
    /// Duration of each measurement, in seconds [default: 2; --quick 0.4].
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
}

#[derive(Serialize, Deserialize)]
pub struct Figure {
    pub what: String,
    pub clusters: usize,
    pub bindings: usize,
    pub per_second: f64,
}

#[derive(Default, Serialize, Deserialize)]
pub struct Results {
    pub figures: Vec<Figure>,
}

/// On a separate thread, so that it can be abandoned.
pub async fn run(
    options: &crate::options::BenchOptions,
    own: &SchedulerBenchOptions,
    results: &mut Results,
) -> anyhow::Result<()> {
    let time = Duration::from_secs_f64(options.size(own.seconds, 0.4, 2.0).clamp(0.1, 60.0));
    let measuring = tokio::task::spawn_blocking(move || measure_all(time));
    results.figures = measuring.await.context("the scheduler failed")??;
    Ok(())
}

fn measure_all(time: Duration) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for clusters in [10, CLUSTERS, 1000] {
        figures.push(measure(MIXED, time, &fleet(clusters, 0)?, &bindings(1000)?, decide));
    }
    for count in [10_000, 100_000] {
        figures.push(measure(MIXED, time, &fleet(CLUSTERS, 0)?, &bindings(count)?, decide));
    }
    for (kind, name) in KINDS {
        let of_kind: Vec<BindingSpec> = (0..100).map(|n| binding(n, kind)).collect::<Result<_, _>>()?;
        figures.push(measure(name, time, &fleet(CLUSTERS, 0)?, &of_kind, decide));
    }
    let with_nodes = fleet(CLUSTERS, NODES)?;
    let what = format!("{MIXED}, {NODES} nodes in each cluster");
    figures.push(measure(&what, time, &with_nodes, &bindings(1000)?, decide));
    figures.push(measure("mixed placements, explained", time, &fleet(CLUSTERS, 0)?, &bindings(1000)?, explain_one));
    figures.push(burst(time)?);
    Ok(figures)
}

pub fn rows(results: &Results) -> Vec<Row> {
    let mixed = |clusters, bindings| {
        results.figures.iter().find(|f| f.what == MIXED && f.clusters == clusters && f.bindings == bindings)
    };
    let mut rows = Vec::new();
    if let Some(figure) = mixed(CLUSTERS, 1000) {
        let target = Some(RowTarget::AtLeast(TARGET_PER_SECOND));
        let what = format!("scheduler alone, decisions over {CLUSTERS} clusters on one core");
        rows.push(Row::new(what, "per second", Better::Higher, figure.per_second, None, target));
    }
    if let Some((few, many)) = mixed(CLUSTERS, 1000).zip(mixed(CLUSTERS, 100_000)) {
        let what = "scheduler alone, rate with 100,000 bindings over that with 1,000";
        rows.push(Row::new(what, "", Better::Higher, many.per_second / few.per_second, None, None));
    }
    rows
}

pub fn details(results: &Results) -> String {
    let mut text = "As a library in one thread, with made-up clusters.\n\n\
                    | decisions | clusters | bindings | per second, one core | µs each |\n|---|---:|---:|---:|---:|\n"
        .to_owned();
    for figure in &results.figures {
        let Figure { what, clusters, bindings, per_second } = figure;
        let _ = writeln!(text, "| {what} | {clusters} | {bindings} | {per_second:.0} | {:.1} |", 1e6 / per_second);
    }
    text
}

fn measure(
    what: &str,
    time: Duration,
    snapshot: &ClusterSnapshot,
    bindings: &[BindingSpec],
    decision: fn(&ClusterSnapshot, &BindingSpec) -> bool,
) -> Figure {
    let (mut count, mut placed) = (0u64, 0u64);
    let begin = Instant::now();
    'measure: loop {
        for binding in bindings {
            placed += u64::from(decision(snapshot, binding));
            count += 1;
            if count.is_multiple_of(64) && begin.elapsed() >= time {
                break 'measure;
            }
        }
    }
    assert_eq!(placed, count, "every binding finds its clusters");
    let per_second = count as f64 / begin.elapsed().as_secs_f64();
    Figure { what: what.to_owned(), clusters: snapshot.len(), bindings: bindings.len(), per_second }
}

fn decide(snapshot: &ClusterSnapshot, spec: &BindingSpec) -> bool {
    let (status, peers, options) = (BindingStatus::default(), Peers::default(), SchedulerOptions::default());
    schedule(snapshot, &Request { spec, status: &status, peers: &peers, options: &options, answers: None })
        .result
        .is_ok()
}

fn explain_one(snapshot: &ClusterSnapshot, spec: &BindingSpec) -> bool {
    let (status, peers, options) = (BindingStatus::default(), Peers::default(), SchedulerOptions::default());
    explain(snapshot, &Request { spec, status: &status, peers: &peers, options: &options, answers: None })
        .0
        .result
        .is_ok()
}

/// New bindings one after the other, each on top of the reservations of earlier ones.
fn burst(time: Duration) -> anyhow::Result<Figure> {
    let mut snapshot = fleet(CLUSTERS, NODES)?;
    let all = bindings(20_000)?;
    let (status, peers, options) = (BindingStatus::default(), Peers::default(), SchedulerOptions::default());
    let begin = Instant::now();
    let mut count = 0;
    for (n, spec) in all.iter().enumerate().take_while(|_| begin.elapsed() < time * 5) {
        let request = Request { spec, status: &status, peers: &peers, options: &options, answers: None };
        if let Ok(targets) = schedule(&snapshot, &request).result {
            snapshot.reserve(&format!("default/b{n}"), spec, &targets, jiff::Timestamp::UNIX_EPOCH);
        }
        count += 1;
    }
    let per_second = f64::from(count) / begin.elapsed().as_secs_f64();
    let what = format!("a burst with reservations, {NODES} nodes in each cluster");
    Ok(Figure { what, clusters: CLUSTERS, bindings: all.len(), per_second })
}

fn fleet(count: usize, nodes: usize) -> anyhow::Result<ClusterSnapshot> {
    let clusters: Vec<Arc<Object>> = (0..count).map(cluster).collect::<Option<_>>().context("clusters are maps")?;
    let mut snapshot = ClusterSnapshot::of(&clusters).map_err(|error| anyhow::anyhow!(error.message))?;
    for cluster in clusters.iter().filter(|_| nodes > 0) {
        let known = ClusterNodes { nodes: (0..nodes).map(node).collect(), ..ClusterNodes::default() };
        snapshot.set_nodes(cluster.name(), Some(Arc::new(known)));
    }
    snapshot.settle();
    Ok(snapshot)
}

fn cluster(n: usize) -> Option<Arc<Object>> {
    let kinds = |group: usize| -> Vec<Value> {
        (0..KINDS_PER_GROUP)
            .map(|kind| json!({"name": format!("k{kind}s"), "kind": format!("K{group}x{kind}")}))
            .collect()
    };
    let mut apis: Vec<Value> = (0..API_GROUPS)
        .map(|group| json!({"groupVersion": format!("g{group}.example.com/v1"), "resources": kinds(group)}))
        .collect();
    apis.push(json!({"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}));
    let tier = if n.is_multiple_of(3) { "gold" } else { "silver" };
    Object::from_value(json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": format!("member{n:04}"), "labels": {"tier": tier, "site": format!("s{n}")}},
        "spec": {"syncMode": "Push", "provider": "p", "region": format!("r{}", n % REGIONS), "zones": ["z"]},
        "status": {
            "apiEnablements": apis,
            "resourceSummary": {
                "allocatable": {"cpu": "4000", "memory": "16Ti", "pods": format!("{}", 5500 + n), "ephemeral-storage": "90Ti"},
                "allocated": {"cpu": format!("{}", n % 17), "memory": "9Gi", "pods": "300"},
            },
        },
    }))
    .map(Arc::new)
}

fn node(n: usize) -> NodeCapacity {
    let amounts = |cpu: i64, memory: i64, pods: i64| {
        [("cpu", cpu), ("memory", memory), ("pods", pods)].map(|(name, amount)| (name.to_owned(), amount)).into()
    };
    NodeCapacity {
        name: format!("n{n}"),
        allocatable: amounts(80_000, 320 << 30, 110),
        requested: amounts(4_000, 16 << 30, 6),
        ..NodeCapacity::default()
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Duplicated,
    Labels,
    Dynamic,
    Aggregated,
    Static,
    Regions,
}

const KINDS: [(Kind, &str); 6] = [
    (Kind::Duplicated, "duplicated to all"),
    (Kind::Labels, "duplicated by label"),
    (Kind::Dynamic, "divided by available capacity among all"),
    (Kind::Aggregated, "aggregated in at most 3"),
    (Kind::Static, "divided by static weights"),
    (Kind::Regions, "spread over 3 regions"),
];

fn bindings(count: usize) -> anyhow::Result<Vec<BindingSpec>> {
    (0..count).map(|n| binding(n, KINDS[n % KINDS.len()].0)).collect()
}

fn binding(n: usize, kind: Kind) -> anyhow::Result<BindingSpec> {
    let divided = |preference: &str, weights: Value| json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": preference, "weightPreference": weights});
    let by = |field: &str, min: u8, max: u8| json!({"spreadByField": field, "minGroups": min, "maxGroups": max});
    let by_capacity = || divided("Weighted", json!({"dynamicWeight": "AvailableReplicas"}));
    let weights = || -> Vec<Value> {
        let entry = |n: usize| json!({"targetCluster": {"clusterNames": [format!("member{n:04}")]}, "weight": n + 1});
        (0..5).map(entry).collect()
    };
    let placement = match kind {
        Kind::Duplicated => json!({}),
        Kind::Labels => json!({"clusterAffinity": {"labelSelector": {"matchLabels": {"tier": "gold"}}}}),
        Kind::Dynamic => json!({"replicaScheduling": by_capacity()}),
        Kind::Aggregated => {
            json!({"replicaScheduling": divided("Aggregated", Value::Null), "spreadConstraints": [by("cluster", 1, 3)]})
        }
        Kind::Static => json!({"replicaScheduling": divided("Weighted", json!({"staticWeightList": weights()}))}),
        Kind::Regions => {
            json!({"replicaScheduling": by_capacity(), "spreadConstraints": [by("region", 3, 3), by("cluster", 3, 6)]})
        }
    };
    let spec = json!({
        "resource": {
            "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default",
            "name": format!("web{n}"), "uid": format!("uid-{n}"),
        },
        "replicas": 1 + n % 40,
        "replicaRequirements": {"resourceRequest": {"cpu": "100m", "memory": "128Mi"}},
        "placement": placement,
    });
    serde_json::from_value(spec).context("a binding")
}
