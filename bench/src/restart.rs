//! Restart of a control plane with thousands of bindings: time to ready, time to idle, and unnecessary writes.

use std::collections::HashMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::fleet::plane::{BenchPlane, Which};
use crate::fleet::real_member::{Member, Runs};
use crate::options::BenchOptions;
use crate::process::{self, Memory};
use crate::programs;
use crate::propagation::load;
use crate::propagation::measure::measure;
use crate::report::rows::{Better, Row, RowTarget, grouped};
use crate::wire::{Call, ServerTarget as Server};

/// Options of the restart benchmark.
#[derive(Clone, Default, Args)]
pub struct RestartOptions {
    /// Bindings on both control planes [default: 500; --quick 60].
    #[arg(long, value_name = "N")]
    count: Option<usize>,
    /// Bindings on flotilla in a second run [default: 5000; --quick 1000].
    #[arg(long, value_name = "N")]
    large: Option<usize>,
}

#[derive(Default, Serialize, Deserialize)]
pub struct Results {
    pub restarts: Vec<Restarted>,
}

#[derive(Serialize, Deserialize)]
pub struct Restarted {
    pub plane: Which,
    pub bindings: usize,
    /// True if the control plane was idle before; otherwise the result includes leftover work.
    pub was_quiet: bool,
    pub ready_seconds: f64,
    /// From the start of the process until its load was as before the restart; `None` after a timeout.
    pub quiet_seconds: Option<f64>,
    /// CPU time of the whole control plane until then.
    pub cpu_seconds: f64,
    /// Templates, bindings and works written although nothing had changed.
    pub written_on_plane: usize,
    /// Deployments written in members.
    pub written_in_members: usize,
    /// All writes counted by the store meanwhile, including leases and events.
    pub revisions: u64,
    pub memory: Memory,
}

const NAMES: [&str; 3] = ["member1", "member2", "member3"];
const LOAD_MAX: Duration = Duration::from_secs(200);
const QUIET_MAX: Duration = Duration::from_secs(60);
const WINDOW: Duration = Duration::from_millis(500);
/// Consecutive quiet windows required.
const WINDOWS: usize = 6;
const BEFORE: Duration = Duration::from_secs(5);

pub async fn run(
    options: &BenchOptions,
    own: &RestartOptions,
    results: &mut Results,
    notes: &mut Vec<String>,
) -> anyhow::Result<()> {
    programs::ensure_present(options, programs::MEMBERS).await?;
    let count = options.size(own.count, 60, 500);
    let large = options.size(own.large, 1000, 5000);
    run_plane(Which::Flotilla, &[count, large], options, results).await?;
    if options.alone {
        return Ok(());
    }
    let karmada = async {
        programs::ensure_present(options, programs::KARMADA).await?;
        run_plane(Which::Karmada, &[count], options, results).await
    };
    if let Err(error) = karmada.await {
        notes.push(format!("the Karmada run failed: {error:#}"));
    }
    Ok(())
}

async fn run_plane(
    which: Which,
    counts: &[usize],
    options: &BenchOptions,
    results: &mut Results,
) -> anyhow::Result<()> {
    eprintln!("{which}: starting with {} members ...", NAMES.len());
    let members = Member::start_all(&NAMES, options, Runs::Nothing).await?;
    let mut plane = BenchPlane::start(which, options).await?;
    plane.join_all(&members, options).await.context("joining")?;
    let mut held = 0;
    for count in counts {
        if let BenchPlane::Karmada(karmada) = &mut plane {
            // With its default limits the preparation would take minutes.
            let commands = karmada.stop_workers().await?;
            karmada.start_workers(&commands, true).await?;
        }
        let namespace = format!("restart-{count}");
        held += measure(&plane, &members, &load(&namespace, count - held, LOAD_MAX)).await?.arrived;
        eprintln!("{which}: {held} bindings, restarting ...");
        let restarted = restart(&mut plane, &members, held, options).await?;
        eprintln!("  {}", line(&restarted));
        results.restarts.push(restarted);
    }
    Ok(())
}

async fn restart(
    plane: &mut BenchPlane,
    members: &[Member],
    bindings: usize,
    options: &BenchOptions,
) -> anyhow::Result<Restarted> {
    // Leftover work of the load must not count.
    let was_quiet = until_quiet(&plane.pids(), 5.0, QUIET_MAX).await?.is_some();
    let idle = process::cpu_percent(&plane.pids(), BEFORE).await?;
    let (before, revision) = Versions::of_plane(plane.target()).await?;
    let before_members = Versions::of_members(members).await?;
    let (start, cpu_before, ready) = match plane {
        BenchPlane::Flotilla(server) => {
            let start = Instant::now();
            (start, Duration::ZERO, server.start_again(options).await?)
        }
        BenchPlane::Karmada(karmada) => {
            let commands = karmada.stop_workers().await?;
            let others: Vec<u32> = karmada.processes().into_iter().map(|(_, pid)| pid).collect();
            let start = Instant::now();
            let cpu_before = process::cpu(&others)?;
            (start, cpu_before, karmada.start_workers(&commands, false).await?)
        }
    };
    let quiet_at = until_quiet(&plane.pids(), idle, QUIET_MAX).await?;
    let cpu = process::cpu(&plane.pids())?.saturating_sub(cpu_before);
    let (after, revision_after) = Versions::of_plane(plane.target()).await?;
    let after_members = Versions::of_members(members).await?;
    Ok(Restarted {
        plane: plane.which(),
        bindings,
        was_quiet,
        ready_seconds: ready.as_secs_f64(),
        quiet_seconds: quiet_at.map(|at| at.saturating_duration_since(start).as_secs_f64()),
        cpu_seconds: cpu.as_secs_f64(),
        written_on_plane: before.changed(&after),
        written_in_members: before_members.changed(&after_members),
        revisions: revision_after.saturating_sub(revision),
        memory: process::memory(&plane.pids())?,
    })
}

/// Returns the start of the first of several quiet windows. A window is quiet if the CPU usage is close to idle.
pub async fn until_quiet(pids: &[u32], idle_percent: f64, limit: Duration) -> anyhow::Result<Option<Instant>> {
    let level = (idle_percent * 1.5 + 2.0).max(4.0);
    let begin = Instant::now();
    let mut quiet: Vec<Instant> = Vec::new();
    while begin.elapsed() < limit + WINDOW * WINDOWS as u32 {
        let window = Instant::now();
        if process::cpu_percent(pids, WINDOW).await? > level {
            quiet.clear();
            continue;
        }
        quiet.push(window);
        if quiet.len() == WINDOWS {
            return Ok(quiet.first().copied());
        }
    }
    Ok(None)
}

/// Objects and their versions.
#[derive(Default)]
struct Versions(HashMap<String, String>);

#[derive(Deserialize)]
struct List {
    metadata: Metadata,
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    resource_version: String,
}

impl Versions {
    async fn of_plane(plane: &Server) -> anyhow::Result<(Self, u64)> {
        let mut versions = Self::default();
        let mut revision = 0;
        for path in [
            "/apis/apps/v1/deployments",
            "/apis/work.karmada.io/v1alpha2/resourcebindings",
            "/apis/work.karmada.io/v1alpha1/works",
        ] {
            revision = versions.add(plane, path).await?;
        }
        Ok((versions, revision))
    }

    async fn of_members(members: &[Member]) -> anyhow::Result<Self> {
        let mut versions = Self::default();
        for member in members {
            let mut one = Self::default();
            one.add(member.target(), "/apis/apps/v1/deployments").await?;
            versions.0.extend(one.0.into_iter().map(|(key, version)| (format!("{}/{key}", member.name), version)));
        }
        Ok(versions)
    }

    /// Adds all objects of a kind; returns the current revision of the store.
    async fn add(&mut self, server: &Server, path: &str) -> anyhow::Result<u64> {
        let mut connection = server.connect().await?;
        let body = connection.read(Call::get(path.to_owned())).await?;
        let list: List = serde_json::from_slice(&body).with_context(|| format!("{path} is not a list"))?;
        for Item { metadata } in list.items {
            self.0.insert(format!("{path}/{}/{}", metadata.namespace, metadata.name), metadata.resource_version);
        }
        list.metadata.resource_version.parse().context("a revision is a number")
    }

    /// The number of objects written, created or deleted in between.
    fn changed(&self, after: &Self) -> usize {
        let written = after.0.iter().filter(|(key, version)| self.0.get(*key) != Some(version)).count();
        written + self.0.keys().filter(|key| !after.0.contains_key(*key)).count()
    }
}

pub fn rows(results: &Results) -> Vec<Row> {
    let mut rows = Vec::new();
    for ours in results.restarts.iter().filter(|restarted| restarted.plane == Which::Flotilla) {
        let same = |r: &&Restarted| r.plane == Which::Karmada && r.bindings == ours.bindings;
        let theirs = results.restarts.iter().find(same);
        let what = |what: &str| format!("restart with {} bindings, {what}", grouped(ours.bindings));
        let ready = theirs.map(|r| r.ready_seconds);
        rows.push(Row::new(what("ready"), "s", Better::Lower, ours.ready_seconds, ready, None));
        if let Some(quiet) = ours.quiet_seconds {
            let theirs = theirs.and_then(|r| r.quiet_seconds);
            rows.push(Row::new(what("quiet"), "s", Better::Lower, quiet, theirs, None));
        }
        let cpu = theirs.map(|r| r.cpu_seconds);
        rows.push(Row::new(what("CPU until quiet"), "s", Better::Lower, ours.cpu_seconds, cpu, None));
        let written = |r: &Restarted| (r.written_on_plane + r.written_in_members) as f64;
        let theirs = theirs.map(written);
        rows.push(Row::new(what("writes"), "", Better::Lower, written(ours), theirs, Some(RowTarget::Below(1.0))));
    }
    rows
}

pub fn details(results: &Results) -> String {
    let mut text = "`flotilla server` is killed and started again as a whole, store and API server with it; of Karmada only the \
                    controller manager and the scheduler are, while its API server and etcd go on. Karmada was loaded with raised \
                    limits, for which 5,000 would still take too long, and started again with its defaults. Quiet: for three seconds \
                    no more than half again the processor time of before. Written: objects whose version changed although nothing had \
                    happened.\n\n\
                    | plane | bindings | ready | quiet | CPU until quiet | written on the plane | in members | revisions of any kind | memory |\n\
                    |---|---:|---:|---:|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for restarted in &results.restarts {
        let _ = writeln!(text, "{}", line(restarted));
    }
    text
}

fn line(r: &Restarted) -> String {
    format!(
        "| {}{} | {} | {:.2} s | {} | {:.2} s | {} | {} | {} | {:.0} MiB |",
        r.plane,
        if r.was_quiet { "" } else { " (not at rest before)" },
        r.bindings,
        r.ready_seconds,
        r.quiet_seconds.map_or(format!("not within {} s", QUIET_MAX.as_secs()), |seconds| format!("{seconds:.1} s")),
        r.cpu_seconds,
        r.written_on_plane,
        r.written_in_members,
        r.revisions,
        r.memory.resident_mib
    )
}

#[cfg(test)]
mod tests {
    use super::Versions;

    #[test]
    fn written_created_and_deleted_objects_count_as_changed() {
        let of = |pairs: &[(&str, &str)]| {
            Versions(pairs.iter().map(|(key, version)| ((*key).to_owned(), (*version).to_owned())).collect())
        };
        let before = of(&[("a", "1"), ("b", "2"), ("c", "3")]);
        assert_eq!(before.changed(&of(&[("a", "1"), ("b", "2"), ("c", "3")])), 0);
        assert_eq!(before.changed(&of(&[("a", "1"), ("b", "9"), ("d", "4")])), 3, "written, created and deleted");
    }
}
