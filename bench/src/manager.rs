//! Many control planes in one manager: time to ready, memory and CPU time of each, restart, hibernation.

use std::fmt::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::Bytes;
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::options::BenchOptions;
use crate::process::{self, Memory};
use crate::report::rows::{Better, Row, RowTarget};
use crate::server::Server;
use crate::wire::{Call, Connection};

const INSTANCES: &str = "/apis/operator.karmada.io/v1alpha1/namespaces/karmada-system/karmadas";
const POLL: Duration = Duration::from_millis(2);
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// Lets one-time work after a start finish.
const SETTLE: Duration = Duration::from_secs(10);
const IDLE: Duration = Duration::from_secs(15);
/// Idle time after which planes stop, in the measurement of hibernation.
const HIBERNATE_AFTER: &str = "1s";
/// Woken planes.
const WAKES: usize = 20;
const API: &str = "/flotilla/manager/v1alpha1";
/// The plane that gets objects, after everything else.
const FILLED: &str = "plane-0";
/// Requests of each read that is measured.
const READS: usize = 100;

/// Options of the manager benchmark.
#[derive(Clone, Default, Args)]
pub struct ManagerBenchOptions {
    /// Control planes in the manager's process [default: 100; --quick 10].
    #[arg(long, value_name = "N")]
    instances: Option<usize>,
    /// Objects of one instance, for the lists [default: 20,000; --quick 2,000].
    #[arg(long, value_name = "N")]
    objects: Option<usize>,
}

#[derive(Default, Serialize, Deserialize)]
pub struct Results {
    pub planes: usize,
    /// Milliseconds from the request to create an instance until it is ready.
    pub ready_millis: Vec<f64>,
    pub first: Memory,
    pub all: Memory,
    pub threads: usize,
    pub files: usize,
    pub idle_cpu_percent: f64,
    /// Seconds from the start of the manager until the first and until all planes answer.
    pub restart_seconds: (f64, f64),
    pub hibernated: Memory,
    pub empty: Memory,
    /// Milliseconds of the first request to a hibernating plane.
    pub wake_millis: Vec<f64>,
    /// Milliseconds of a list of all instances, and its size.
    #[serde(default)]
    pub list_millis: Vec<f64>,
    #[serde(default)]
    pub list_kib: f64,
    #[serde(default)]
    pub objects: usize,
    /// Milliseconds of a search for 50 objects by label, the newest first.
    #[serde(default)]
    pub search_millis: Vec<f64>,
    /// Milliseconds of a search for an object that was just written.
    #[serde(default)]
    pub own_write_millis: Vec<f64>,
}

pub async fn run(options: &BenchOptions, own: &ManagerBenchOptions, results: &mut Results) -> anyhow::Result<()> {
    let count = options.size(own.instances, 10, 100);
    let mut server = Server::start_manager(options).await?;
    let mut connection = server.target.connect().await?;
    results.empty = settled(&server).await?;
    for number in 0..count {
        let name = format!("plane-{number}");
        let began = Instant::now();
        create(&mut connection, &name, json!({})).await?;
        wait_ready(&mut connection, &name, "Running").await?;
        results.ready_millis.push(began.elapsed().as_secs_f64() * 1000.0);
        if number == 0 {
            results.first = settled(&server).await?;
        }
    }
    results.planes = count;
    results.all = settled(&server).await?;
    results.idle_cpu_percent = process::cpu_percent(&server.pids(), IDLE).await?;
    (results.threads, results.files) = handles(&server)?;
    eprintln!("  {count} planes: {:.0} MiB, {} threads", results.all.resident_mib, results.threads);
    drop(connection);

    let began = Instant::now();
    server.start_again(options).await?;
    let mut connection = server.target.connect().await?;
    let mut first = None;
    for number in 0..count {
        answer(&mut connection, &format!("plane-{number}")).await?;
        first.get_or_insert_with(|| began.elapsed().as_secs_f64());
    }
    results.restart_seconds = (first.unwrap_or_default(), began.elapsed().as_secs_f64());
    eprintln!("  all planes answer {:.1} s after the restart of the manager", results.restart_seconds.1);

    for number in 0..count {
        let patch = json!({"metadata": {"annotations": {"flotilla.dev/hibernate-after": HIBERNATE_AFTER}}});
        let call = Call::merge_patch(format!("{INSTANCES}/plane-{number}"), Bytes::from(patch.to_string()));
        connection.read(call).await?;
    }
    for number in 0..count {
        wait_ready(&mut connection, &format!("plane-{number}"), "Hibernated").await?;
    }
    // A manager that has run no plane yet shows what hibernating ones cost.
    server.start_again(options).await?;
    results.hibernated = settled(&server).await?;
    let mut connection = server.target.connect().await?;
    for number in 0..count.min(WAKES) {
        let began = Instant::now();
        answer(&mut connection, &format!("plane-{number}")).await?;
        results.wake_millis.push(began.elapsed().as_secs_f64() * 1000.0);
    }
    reads(&mut connection, options.size(own.objects, 2_000, 20_000), results).await
}

/// Measures lists of instances and searches over the objects of one instance.
async fn reads(connection: &mut Connection, objects: usize, results: &mut Results) -> anyhow::Result<()> {
    for _ in 0..READS {
        let began = Instant::now();
        let body = connection.read(Call::get(format!("{API}/instances?pageSize=500"))).await?;
        results.list_millis.push(began.elapsed().as_secs_f64() * 1000.0);
        results.list_kib = body.len() as f64 / 1024.0;
    }
    answer(connection, FILLED).await?;
    let path = format!("/instances/{FILLED}/api/v1/namespaces/default/configmaps");
    let config_map = |name: String, app: &str| {
        let labels = json!({"app": app});
        let object = json!({"kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": {"k": "v"}});
        Call::create(path.clone(), Bytes::from(object.to_string()))
    };
    for number in 0..objects {
        let app = if number % 10 == 0 { "web" } else { "other" };
        connection.read(config_map(format!("object-{number}"), app)).await?;
    }
    results.objects = objects;
    let timed = async |connection: &mut Connection, query: &str, least: usize| -> anyhow::Result<f64> {
        let began = Instant::now();
        let body = connection.read(Call::get(format!("{API}/search?query=instance:{FILLED}%20{query}"))).await?;
        let took = began.elapsed().as_secs_f64() * 1000.0;
        let found: Value = serde_json::from_slice(&body).context("a search is not answered with JSON")?;
        match found["items"].as_array().is_some_and(|items| items.len() >= least) {
            true => Ok(took),
            false => bail!("a search found too little: {found}"),
        }
    };
    for _ in 0..READS {
        let query = "kind:cm%20label:app=web&pageSize=50&orderBy=created%20desc";
        results.search_millis.push(timed(connection, query, 50.min(objects / 10)).await?);
    }
    for number in 0..READS {
        connection.read(config_map(format!("own-{number}"), "own")).await?;
        let query = format!("kind:cm%20name:own-{number}");
        results.own_write_millis.push(timed(connection, &query, 1).await?);
    }
    Ok(())
}

async fn settled(server: &Server) -> anyhow::Result<Memory> {
    tokio::time::sleep(SETTLE).await;
    process::memory(&server.pids())
}

async fn create(connection: &mut Connection, name: &str, spec: Value) -> anyhow::Result<()> {
    let object = json!({
        "apiVersion": "operator.karmada.io/v1alpha1", "kind": "Karmada",
        "metadata": {"name": name, "namespace": "karmada-system"}, "spec": spec,
    });
    connection.read(Call::create(INSTANCES.to_owned(), Bytes::from(object.to_string()))).await.map(drop)
}

/// Waits for a phase; a running instance is ready as well.
async fn wait_ready(connection: &mut Connection, name: &str, phase: &str) -> anyhow::Result<()> {
    let deadline = Instant::now() + READY_TIMEOUT;
    loop {
        let body = connection.read(Call::get(format!("{INSTANCES}/{name}"))).await?;
        let found: Value = serde_json::from_slice(&body).context("an instance is not JSON")?;
        if found["status"]["phase"] == phase {
            return Ok(());
        }
        if Instant::now() >= deadline {
            bail!("{name} is not {phase}: {}", found["status"]);
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Waits until the API of an instance answers.
async fn answer(connection: &mut Connection, name: &str) -> anyhow::Result<()> {
    let deadline = Instant::now() + READY_TIMEOUT;
    loop {
        let path = format!("/instances/{name}/api/v1/namespaces/default");
        let status = connection.call(Call::get(path)).await?.status;
        if status.is_success() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            bail!("{name} does not answer: {status}");
        }
        tokio::time::sleep(POLL).await;
    }
}

fn handles(server: &Server) -> anyhow::Result<(usize, usize)> {
    let pid = *server.pids().first().context("the manager has a process")?;
    let count = |folder: &str| -> anyhow::Result<usize> {
        let path = format!("/proc/{pid}/{folder}");
        Ok(std::fs::read_dir(&path).with_context(|| format!("cannot read {path}"))?.count())
    };
    Ok((count("task")?, count("fd")?))
}

fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len().max(1)) - 1;
    sorted.get(at).copied().unwrap_or_default()
}

/// Memory of each plane beyond the first.
fn each(results: &Results) -> f64 {
    (results.all.resident_mib - results.first.resident_mib) / (results.planes.max(2) - 1) as f64
}

pub fn rows(results: &Results) -> Vec<Row> {
    if results.planes == 0 {
        return Vec::new();
    }
    let row = |what: &str, unit, value: f64, below: Option<f64>| {
        Row::new(what, unit, Better::Lower, value, None, below.map(RowTarget::Below))
    };
    let planes = results.planes;
    let sleeping = (results.hibernated.resident_mib - results.empty.resident_mib).max(0.0) / planes as f64;
    let mut rows = vec![
        row("P1 further idle control plane, resident", "MiB", each(results), Some(4.0)),
        row("P2 instance ready after its creation, median", "ms", percentile(&results.ready_millis, 0.5), Some(100.0)),
        row("P2 instance ready after its creation, p99", "ms", percentile(&results.ready_millis, 0.99), Some(250.0)),
        row(
            &format!("P3 {planes} control planes, resident"),
            "MiB",
            results.all.resident_mib,
            Some(5.0 * planes as f64),
        ),
        row(&format!("P3 {planes} control planes, threads"), "", results.threads as f64, Some(64.0)),
        row(
            &format!("P4 {planes} control planes, idle processor time"),
            "% of a core",
            results.idle_cpu_percent,
            Some(1.0),
        ),
        row("P5 restart, first control plane answers", "s", results.restart_seconds.0, Some(1.0)),
        row(&format!("P5 restart, {planes} control planes answer"), "s", results.restart_seconds.1, Some(10.0)),
    ];
    if !results.wake_millis.is_empty() {
        rows.push(row("P6 hibernating control plane, resident", "MiB", sleeping, Some(0.3)));
        rows.push(row(
            "P6 hibernating control plane answers",
            "ms",
            percentile(&results.wake_millis, 0.5),
            Some(150.0),
        ));
    }
    if results.objects > 0 {
        let (objects, p) = (results.objects, percentile);
        let listed = format!("list of {planes} instances");
        rows.push(row(&format!("P8 {listed}, median"), "ms", p(&results.list_millis, 0.5), Some(5.0)));
        rows.push(row(&format!("P8 {listed}, size"), "KiB", results.list_kib, Some(0.3 * planes as f64)));
        let found = format!("P9 50 of {objects} objects of an instance by label, the newest first");
        rows.push(row(&format!("{found}, median"), "ms", p(&results.search_millis, 0.5), None));
        rows.push(row(&format!("{found}, p99"), "ms", p(&results.search_millis, 0.99), Some(30.0)));
        let own = format!("P12 search for what was just written, among {objects} objects, median");
        rows.push(row(&own, "ms", p(&results.own_write_millis, 0.5), Some(5.0)));
    }
    rows
}

pub fn details(results: &Results) -> String {
    let mut text = "All instances are in the manager's process, without clusters and, but for P9 and P12, without objects. Ready: from the request that creates \
                    an instance until its phase is Running, one after the other. Hibernating planes are measured after a restart \
                    of the manager.\n\n| state | resident | without file pages |\n|---|---:|---:|\n"
        .to_owned();
    for (state, memory) in [
        ("no plane".to_owned(), results.empty),
        ("1 plane".to_owned(), results.first),
        (format!("{} planes", results.planes), results.all),
        (format!("{} hibernating planes", results.planes), results.hibernated),
    ] {
        let _ = writeln!(text, "| {state} | {:.1} MiB | {:.1} MiB |", memory.resident_mib, memory.anonymous_mib);
    }
    let _ = writeln!(
        text,
        "\n{} threads and {} open files with {} planes.",
        results.threads, results.files, results.planes
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_per_plane_and_missing_measurements_have_none() {
        assert!(rows(&Results::default()).is_empty());
        let memory = |mib: f64| Memory { resident_mib: mib, anonymous_mib: mib };
        let results = Results {
            planes: 11,
            ready_millis: (1..=100).map(f64::from).collect(),
            first: memory(50.0),
            all: memory(80.0),
            ..Results::default()
        };
        let rows = rows(&results);
        let value = |what: &str| rows.iter().find(|row| row.what.starts_with(what)).map(|row| row.flotilla);
        assert_eq!(value("P1"), Some(3.0));
        assert_eq!((value("P2 instance ready after its creation, median"), value("P6")), (Some(50.0), None));
    }
}
