//! A hundred thousand pods of several members in the cache of search: memory for each of them, and lists by label.

use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::fleet::light_member::LightMember;
use crate::fleet::plane::{BenchPlane, Which};
use crate::fleet::{create, eventually, get};
use crate::load::Percentiles;
use crate::machine;
use crate::options::BenchOptions;
use crate::process::{self, Memory};
use crate::report::rows::{Better, Row, RowTarget, grouped};
use crate::scale::join_all;
use crate::wire::Call;

/// Options of the search benchmark.
#[derive(Clone, Default, Args)]
pub struct SearchOptions {
    /// Pods in all members together [default: 100000; --quick 5000].
    #[arg(long, value_name = "N")]
    objects: Option<usize>,
}

#[derive(Default, Serialize, Deserialize)]
pub struct Results {
    pub members: usize,
    pub objects: usize,
    /// The size of a pod as the member lists it, without managedFields.
    pub object_bytes: f64,
    /// The control plane with its members before anything is cached, and with everything cached.
    pub empty: Memory,
    pub cached: Memory,
    /// From the registry until all objects are cached.
    pub cached_seconds: f64,
    pub list: Option<ListFigures>,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct ListFigures {
    pub lists: usize,
    pub items: usize,
    pub latency: Percentiles,
    pub server_cpu_ms: f64,
}

const MEMBERS: usize = 10;
/// Pods of one application; a list by its label has all of them.
const PER_APP: usize = 500;
const LISTS: usize = 200;
const WRITERS: usize = 4;
const CACHED_MAX: Duration = Duration::from_secs(180);
const SETTLE: Duration = Duration::from_secs(10);
const PODS: &str = "/api/v1/namespaces/default/pods";
const SEARCH: &str = "/apis/search.karmada.io/v1alpha1/search/cache/api/v1/pods";
/// Memory of a pod in a member, with its history.
const MEMBER_OBJECT_BYTES: usize = 24 << 10;

pub async fn run(options: &BenchOptions, own: &SearchOptions, results: &mut Results) -> anyhow::Result<()> {
    results.members = MEMBERS;
    results.objects = options.size(own.objects, 5_000, 100_000) / MEMBERS * MEMBERS;
    let needed = (results.objects * MEMBER_OBJECT_BYTES) as f64 / (1 << 20) as f64;
    let available = machine::available_mib();
    ensure!(needed < available, "requires {needed:.0} MiB, {available:.0} MiB are available");
    let each = results.objects / MEMBERS;
    let starts = futures::stream::iter(0..MEMBERS).map(|number| filled_member(number, each, options));
    let started: Vec<_> = starts.buffer_unordered(2).collect().await;
    let members: Vec<LightMember> = started.into_iter().collect::<anyhow::Result<_>>()?;
    let plane = BenchPlane::start(Which::Flotilla, options).await?;
    join_all(&plane, &members, options).await?;
    tokio::time::sleep(SETTLE).await;
    results.empty = process::memory(&plane.pids())?;
    let registry = json!({"apiVersion": "search.karmada.io/v1alpha1", "kind": "ResourceRegistry",
        "metadata": {"name": "pods"}, "spec": {"targetCluster": {"clusterNames": []},
            "resourceSelectors": [{"apiVersion": "v1", "kind": "Pod"}]}});
    let start = std::time::Instant::now();
    create(plane.target(), "/apis/search.karmada.io/v1alpha1/resourceregistries", &registry).await?;
    let all = eventually(CACHED_MAX, async || count(&plane).await.is_ok_and(|count| count == results.objects)).await;
    ensure!(all, "{:?} of {} objects are cached", count(&plane).await, results.objects);
    results.cached_seconds = start.elapsed().as_secs_f64();
    eprintln!("{} objects are cached after {:.1} s", results.objects, results.cached_seconds);
    tokio::time::sleep(SETTLE).await;
    results.cached = process::memory(&plane.pids())?;
    let sample = get(&members[0].target, &format!("{PODS}?limit=1")).await?;
    results.object_bytes = bytes_of(&sample["items"][0]) as f64;
    results.list = Some(list(&plane, results.objects).await?);
    Ok(())
}

/// Objects whose application exists once in every member: a list by its label reads all members.
fn app_of(member: usize, number: usize) -> usize {
    (number * MEMBERS + member) / PER_APP
}

async fn filled_member(number: usize, pods: usize, options: &BenchOptions) -> anyhow::Result<LightMember> {
    let member = LightMember::start(&format!("member{number:03}"), options, &[]).await?;
    let mut writers = member.target.connect_many(WRITERS).await?;
    let each = writers.iter_mut().enumerate().map(|(writer, connection)| async move {
        for pod in (writer..pods).step_by(WRITERS) {
            let body = pod_of(number, pod).to_string();
            connection.read(Call::create(PODS.to_owned(), body.into())).await.context("a pod")?;
        }
        anyhow::Ok(())
    });
    futures::future::try_join_all(each).await?;
    eprintln!("  {} has {pods} pods", member.name);
    Ok(member)
}

/// A pod of about 4 KiB, as a web application has it. It stays unscheduled: running pods are not measured.
fn pod_of(member: usize, number: usize) -> Value {
    let app = format!("app-{}", app_of(member, number));
    let env: Vec<Value> = (0..16)
        .map(|index| json!({"name": format!("SETTING_{index:02}"), "value": format!("{app}-value-{index}-{}", number % 97)}))
        .collect();
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": 8080}, "periodSeconds": 10});
    let container = |name: &str| {
        json!({"name": name, "image": format!("registry.example.com/team/{app}:1.{}", number % 7), "env": env,
            "ports": [{"containerPort": 8080, "name": "http"}], "livenessProbe": probe("/healthz"),
            "readinessProbe": probe("/readyz"),
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
            "volumeMounts": [{"name": "config", "mountPath": "/etc/app"}]})
    };
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("{app}-{member:03}-{number:06}"),
            "labels": {"app": app, "pod-template-hash": format!("{:08x}", number.wrapping_mul(2_654_435_761))},
            "annotations": {"checksum/config": format!("{:064x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))}},
        "spec": {"schedulerName": "none", "containers": [container("main"), container("proxy")],
            "volumes": [{"name": "config", "configMap": {"name": app}}]}})
}

fn bytes_of(pod: &Value) -> usize {
    let mut pod = pod.clone();
    if let Some(metadata) = pod["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    pod.to_string().len()
}

/// Lists everything in pages: the response names no total over all members.
async fn count(plane: &BenchPlane) -> anyhow::Result<usize> {
    let (mut count, mut token) = (0, String::new());
    loop {
        let page = get(plane.target(), &format!("{SEARCH}?limit=5000&continue={token}")).await?;
        count += page["items"].as_array().map_or(0, Vec::len);
        token = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        if token.is_empty() {
            return Ok(count);
        }
    }
}

/// Lists the objects of one application after the other.
async fn list(plane: &BenchPlane, objects: usize) -> anyhow::Result<ListFigures> {
    let apps = (objects / PER_APP).max(1);
    let mut connection = plane.target().connect().await?;
    let (mut latencies, mut items) = (Vec::with_capacity(LISTS), 0);
    let before = process::cpu(&plane.pids())?;
    for number in 0..LISTS {
        let path = format!("{SEARCH}?labelSelector=app%3Dapp-{}&limit={PER_APP}", number % apps);
        let start = std::time::Instant::now();
        let body = connection.read(Call::get(path)).await?;
        latencies.push(start.elapsed());
        if number == 0 {
            let list: Value = serde_json::from_slice(&body).context("the list is not JSON")?;
            items = list["items"].as_array().map_or(0, Vec::len);
        }
    }
    let used = process::cpu(&plane.pids())?.saturating_sub(before);
    ensure!(items == PER_APP.min(objects), "a list by label has {items} items");
    let server_cpu_ms = used.as_secs_f64() * 1e3 / LISTS as f64;
    Ok(ListFigures { lists: LISTS, items, latency: Percentiles::of(latencies), server_cpu_ms })
}

fn bytes_per_object(results: &Results) -> Option<f64> {
    let grown = results.cached.anonymous_mib - results.empty.anonymous_mib;
    (results.list.is_some() && results.objects > 0)
        .then(|| grown.max(0.0) * f64::from(1 << 20) / results.objects as f64)
}

pub fn rows(results: &Results) -> Vec<Row> {
    let mut rows = Vec::new();
    let row = |what: String, unit, value, target| Row::new(what, unit, Better::Lower, value, None, target);
    if let Some(bytes) = bytes_per_object(results) {
        let what = format!("search, memory for each of {} cached pods", grouped(results.objects));
        rows.push(row(what, "B", bytes, Some(RowTarget::Below(600.0))));
    }
    if let Some(list) = &results.list {
        let what = |part: &str| format!("search, list of {} by label, {part}", list.items);
        rows.push(row(what("p50"), "ms", list.latency.p50_ms, None));
        rows.push(row(what("p99"), "ms", list.latency.p99_ms, Some(RowTarget::Below(30.0))));
        rows.push(row(what("server CPU"), "ms", list.server_cpu_ms, None));
    }
    rows
}

pub fn details(results: &Results) -> String {
    format!(
        "{} members with {} pods of {:.0} bytes (without managedFields) in all; all were cached {:.1} s after the registry was \
         created. The plane held {:.0} MiB before and {:.0} MiB after. No comparison: karmada-search was not run.\n",
        results.members,
        grouped(results.objects),
        results.object_bytes,
        results.cached_seconds,
        results.empty.resident_mib,
        results.cached.resident_mib,
    )
}
