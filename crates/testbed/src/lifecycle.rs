//! `down`, `stop`, `start`, `reset`, `snapshot` and `restore`: what can be done with a whole testbed or one of its members.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use karmadactl::console::Console;
use provisioners::Provisioner;
use tokio::time::Instant;

use crate::bed::Bed;
use crate::clusters::open;
use crate::display::{Display, Line};
use crate::faults;
use crate::place::{Place, agent_of};
use crate::registration;
use crate::snapshot;
use crate::spec::{Kind, MemberSpec, Mode, Spec};
use crate::supervisor::client::{SupervisorClient, this_program};
use crate::up::{bring_up, hold};

/// How long a member that was killed may take to come back, to be stopped in order.
const REVIVAL_PATIENCE: Duration = Duration::from_secs(60);

/// Stops everything and keeps the data, or removes it too.
pub async fn down(console: &Console, place: &Place, delete: bool) -> anyhow::Result<()> {
    if !place.directory().exists() {
        console.note(format!("there is no testbed in {}", place.directory().display()));
        return Ok(());
    }
    let held = hold(place)?;
    // A damaged file must not keep anyone from starting over.
    let spec = if delete { Spec::load(place).unwrap_or_default() } else { Spec::load(place)? };
    match spec {
        Some(spec) if spec.provisioner == Kind::Lxd => end_containers(place, spec, delete).await?,
        Some(spec) if spec.provisioner == Kind::Kubeconfig && delete => leave_clusters(place, &spec).await?,
        Some(spec) => revive_killed(place, &spec).await?,
        None => {}
    }
    let was_running = match SupervisorClient::find(place).await? {
        Some(supervisor) => supervisor.shut_down().await.map(|()| true)?,
        None => false,
    };
    if delete {
        std::fs::remove_dir_all(place.directory())
            .with_context(|| format!("cannot remove {}", place.directory().display()))?;
        drop(held);
        console.line(format!("the testbed {} is gone, with its data", place.name()))?;
    } else if was_running {
        console.line(format!(
            "the testbed {} is stopped; its data is in {}, `flotilla up` starts it again",
            place.name(),
            place.directory().display()
        ))?;
    } else {
        console.line(format!("the testbed {} was not running", place.name()))?;
    }
    Ok(())
}

/// Clusters of the user are left as they were found, which only their control plane can do.
async fn leave_clusters(place: &Place, spec: &Spec) -> anyhow::Result<()> {
    if spec.members.is_empty() {
        return Ok(());
    }
    if SupervisorClient::find(place).await?.is_none() {
        bail!(
            "the control plane must run to take back what it made in your clusters: start it with `flotilla up --name {}`",
            place.name()
        );
    }
    for member in &spec.members {
        let left = registration::unjoin(place, member).await;
        left.with_context(|| {
            format!(
                "{} could not be left in order; with `flotilla unjoin {0} --force` it is left as it is",
                member.name
            )
        })?;
    }
    Ok(())
}

/// A member that was killed could not end its containers. Started once more, it ends them when it is stopped.
async fn revive_killed(place: &Place, spec: &Spec) -> anyhow::Result<()> {
    let orphaned: Vec<&MemberSpec> = spec
        .members
        .iter()
        .filter(|member| has_processes(&place.machine_data(&member.name).join("containerd")))
        .collect();
    if orphaned.is_empty() {
        return Ok(());
    }
    let supervisor = SupervisorClient::ensure(place, &this_program()?).await?;
    let bed = Bed::new(place, spec.clone(), supervisor).await?;
    let running = bed.supervisor.reports().await?;
    for member in orphaned {
        if running.iter().any(|report| report.name == member.name && report.pid.is_some()) {
            continue;
        }
        bed.start_member(member, &Line::silent(), Instant::now() + REVIVAL_PATIENCE).await?;
    }
    Ok(())
}

/// Is there a process that was told of a file below this directory?
fn has_processes(directory: &Path) -> bool {
    let needle = directory.display().to_string();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()))
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .any(|line| String::from_utf8_lossy(&line).contains(&needle))
}

async fn end_containers(place: &Place, spec: Spec, delete: bool) -> anyhow::Result<()> {
    // The containers are reached without the supervisor; it is only needed to say where things are.
    let supervisor = SupervisorClient::ensure(place, &this_program()?).await?;
    let bed = Bed::new(place, spec, supervisor).await?;
    for member in &bed.spec.members {
        let ended = if delete { bed.members.delete(&member.name).await } else { bed.members.stop(&member.name).await };
        match ended {
            Err(provisioners::Error::NoMachine(_)) => {}
            ended => ended.with_context(|| format!("cannot end {}", member.name))?,
        }
    }
    Ok(())
}

pub async fn stop(console: &Console, place: &Place, member: &str) -> anyhow::Result<()> {
    let _held = hold(place)?;
    let bed = Bed::running(place).await?;
    let mode = bed.spec.member(member)?.mode;
    if mode == Mode::Pull {
        ignore_missing(bed.supervisor.stop(&agent_of(member)).await)?;
    }
    bed.members.stop(member).await?;
    console.line(format!("{member} is stopped; `flotilla start {member}` starts it again"))?;
    Ok(())
}

pub async fn start(console: &Arc<Console>, place: &Place, member: &str, patience: Duration) -> anyhow::Result<()> {
    let _held = hold(place)?;
    let bed = Bed::running(place).await?;
    let spec = bed.spec.member(member)?;
    let display = Display::new(Arc::clone(console), member.len());
    let line = display.line(member);
    let deadline = Instant::now() + patience;
    faults::clear_kill(place, member)?;
    bed.start_member(spec, &line, deadline).await?;
    if spec.mode == Mode::Pull {
        bed.start_agent(spec).await?;
    }
    let plane = open(&place.plane_config())?;
    registration::wait_ready(&plane, member, &line, deadline).await?;
    line.done("ready");
    console.line(format!("{member} is ready"))?;
    Ok(())
}

fn ignore_missing(result: Result<(), provisioners::Error>) -> anyhow::Result<()> {
    match result {
        Err(provisioners::Error::NoMachine(_)) => Ok(()),
        result => Ok(result?),
    }
}

/// The same testbed on the same ports, as if it were new. Forwards to pods and snapshots stay.
pub async fn reset(console: &Arc<Console>, place: &Place, patience: Duration) -> anyhow::Result<()> {
    let held = hold(place)?;
    let spec = Spec::existing(place)?;
    if spec.provisioner == Kind::Kubeconfig {
        bail!("the clusters are yours: flotilla does not empty them; `flotilla unjoin` them and run `flotilla up`");
    }
    if spec.provisioner == Kind::Lxd {
        end_containers(place, spec.clone(), true).await?;
    }
    revive_killed(place, &spec).await?;
    if let Some(supervisor) = SupervisorClient::find(place).await? {
        supervisor.shut_down().await?;
    }
    for part in ["data", "agents", "faults.json", "logs"] {
        snapshot::remove(&place.directory().join(part))?;
    }
    let display = bring_up(console, place, spec, patience).await?;
    drop(held);
    console.line(format!("the testbed {} is as new after {:.1}s", place.name(), display.elapsed().as_secs_f32()))?;
    Ok(())
}

pub async fn take_snapshot(console: &Console, place: &Place, name: &str) -> anyhow::Result<()> {
    let _held = hold(place)?;
    refuse_others(&Spec::existing(place)?)?;
    snapshot::folder(place, name)?;
    let started = Instant::now();
    match SupervisorClient::find(place).await? {
        Some(supervisor) => supervisor.snapshot(name).await?,
        // Nothing runs, so nothing needs to be held still.
        None => snapshot::copy_out(place, name)?,
    }
    console.line(format!(
        "snapshot {name} is taken after {:.2}s; `flotilla restore {name}` brings the testbed back to it",
        started.elapsed().as_secs_f32()
    ))?;
    Ok(())
}

pub async fn restore(console: &Arc<Console>, place: &Place, name: &str, patience: Duration) -> anyhow::Result<()> {
    let _held = hold(place)?;
    refuse_others(&Spec::existing(place)?)?;
    if !snapshot::folder(place, name)?.is_dir() {
        // Says which there are, before anything is stopped.
        return snapshot::copy_in(place, name);
    }
    revive_killed(place, &Spec::existing(place)?).await?;
    if let Some(supervisor) = SupervisorClient::find(place).await? {
        supervisor.shut_down().await?;
    }
    snapshot::copy_in(place, name)?;
    let display = bring_up(console, place, Spec::existing(place)?, patience).await?;
    console.line(format!("the testbed is as it was in {name} after {:.1}s", display.elapsed().as_secs_f32()))?;
    Ok(())
}

fn refuse_others(spec: &Spec) -> anyhow::Result<()> {
    match spec.provisioner {
        Kind::Process => Ok(()),
        Kind::Lxd => bail!("the data is inside LXD: take snapshots with `lxc snapshot`"),
        Kind::Kubeconfig => bail!("the clusters are yours, with their data: flotilla takes no snapshots of them"),
    }
}
