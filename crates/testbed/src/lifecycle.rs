//! `down`, `stop`, `start`, `reset`, `snapshot` and `restore`: the life cycle of a testbed and its members.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use karmadactl::console::Console;
use membership::MembershipError;
use provisioners::Provisioner;
use tokio::time::Instant;

use crate::bed::Testbed;
use crate::clusters::{open, write_merged};
use crate::display::{Display, ProgressLine};
use crate::faults;
use crate::hint::Hint;
use crate::links;
use crate::place::{TestbedDir, agent_of};
use crate::registration;
use crate::snapshot;
use crate::spec::{Kind, MemberSpec, Mode, Spec};
use crate::supervisor::client::{SupervisorClient, this_program};
use crate::up::{bring_up, hold, hold_existing};

/// Timeout for restarting a killed member, so that it can be stopped cleanly.
const REVIVAL_TIMEOUT: Duration = Duration::from_secs(60);

/// Stops everything and keeps the data, or deletes it.
pub async fn down(console: &Console, place: &TestbedDir, delete: bool) -> anyhow::Result<()> {
    if !place.directory().exists() {
        console.note(format!("no testbed found in {}", place.directory().display()));
        return Ok(());
    }
    let was_running = end(console, place, delete).await?;
    if delete {
        console.line(format!("the testbed {} is deleted", place.name()))?;
    } else if was_running {
        console.line(format!(
            "the testbed {} is stopped; its data is in {}, `{}` starts it again",
            place.name(),
            place.directory().display(),
            place.hint(&Hint::Up)
        ))?;
    } else {
        console.line(format!("the testbed {} was not running", place.name()))?;
    }
    Ok(())
}

/// Deletes a testbed that did not start.
pub async fn delete(console: &Console, place: &TestbedDir) -> anyhow::Result<()> {
    end(console, place, true).await.map(drop)
}

/// Returns true if the testbed was running.
async fn end(console: &Console, place: &TestbedDir, delete: bool) -> anyhow::Result<bool> {
    let held = hold(place)?;
    // A damaged file must not prevent starting over.
    let spec = if delete { Spec::load(place).unwrap_or_default() } else { Spec::load(place)? };
    match spec {
        Some(spec) if spec.provisioner == Kind::Lxd => match end_containers(place, spec, delete).await {
            // Without the daemon there are no containers left to delete, or none that can be.
            Err(error) if delete => console.warn(format!("the system containers were not deleted: {error:#}")),
            ended => ended?,
        },
        Some(spec) if spec.provisioner == Kind::Kubeconfig && delete => leave_clusters(console, place, &spec).await?,
        Some(spec) => revive_killed(place, &spec).await?,
        None => {}
    }
    let was_running = match SupervisorClient::find(place).await? {
        Some(supervisor) => supervisor.shut_down().await.map(|()| true)?,
        None => false,
    };
    if delete {
        links::remove_all(place)?;
        std::fs::remove_dir_all(place.directory())
            .with_context(|| format!("cannot remove {}", place.directory().display()))?;
    }
    drop(held);
    Ok(was_running)
}

/// Unjoins the user's clusters, which needs the control plane.
async fn leave_clusters(console: &Console, place: &TestbedDir, spec: &Spec) -> anyhow::Result<()> {
    if spec.members.is_empty() {
        return Ok(());
    }
    if SupervisorClient::find(place).await?.is_none() {
        bail!("the control plane must be running to clean up your clusters: start it with `{}`", place.hint(&Hint::Up));
    }
    for member in &spec.members {
        match registration::unjoin(place, member).await {
            // The cluster has left the control plane: one that is gone for good must not block the deletion.
            Err(error) if is_left_behind(&error) => {
                console.warn(format!("{} keeps what joining created in it: {error:#}", member.name));
            }
            left => left.with_context(|| {
                let force = place.hint(&Hint::UnjoinForced(&member.name));
                format!("cannot unjoin {}; `{force}` removes it without cleaning it up", member.name)
            })?,
        }
    }
    Ok(())
}

/// Returns true if only the cleanup of the member failed.
fn is_left_behind(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(MembershipError::DeleteInMember { .. }))
}

/// Restarts killed members that left containers running, so that they stop them.
async fn revive_killed(place: &TestbedDir, spec: &Spec) -> anyhow::Result<()> {
    let host = spec.host.iter().map(|host| &host.cluster);
    let orphaned: Vec<&MemberSpec> = host
        .chain(&spec.members)
        .filter(|member| has_processes(&place.machine_data(&member.name).join("containerd")))
        .collect();
    if orphaned.is_empty() {
        return Ok(());
    }
    let supervisor = SupervisorClient::ensure(place, &this_program()?).await?;
    let bed = Testbed::new(place, spec.clone(), supervisor).await?;
    let running = bed.supervisor.reports().await?;
    for member in orphaned {
        if running.iter().any(|report| report.name == member.name && report.pid.is_some()) {
            continue;
        }
        bed.start_member(member, &ProgressLine::silent(), Instant::now() + REVIVAL_TIMEOUT).await?;
    }
    Ok(())
}

/// Returns true if a process has a file below this directory in its command line.
fn has_processes(directory: &Path) -> bool {
    let needle = directory.display().to_string();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()))
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .any(|line| String::from_utf8_lossy(&line).contains(&needle))
}

async fn end_containers(place: &TestbedDir, spec: Spec, delete: bool) -> anyhow::Result<()> {
    // The containers are reached without the supervisor; it is only needed for the paths.
    let supervisor = SupervisorClient::ensure(place, &this_program()?).await?;
    let bed = Testbed::new(place, spec, supervisor).await?;
    for member in &bed.spec.members {
        let ended = if delete { bed.members.delete(&member.name).await } else { bed.members.stop(&member.name).await };
        match ended {
            Err(provisioners::Error::NoMachine(_)) => {}
            ended => ended.with_context(|| format!("cannot stop {}", member.name))?,
        }
    }
    Ok(())
}

pub async fn stop(console: &Console, place: &TestbedDir, member: &str) -> anyhow::Result<()> {
    let _held = hold_existing(place)?;
    let bed = Testbed::running(place).await?;
    let mode = bed.spec.member(member)?.mode;
    if mode == Mode::Pull {
        ignore_missing(bed.supervisor.stop(&agent_of(member)).await)?;
    }
    bed.members.stop(member).await?;
    console.line(format!("{member} is stopped; `{}` starts it again", place.hint(&Hint::Start(member))))?;
    Ok(())
}

pub async fn start(console: &Arc<Console>, place: &TestbedDir, member: &str, patience: Duration) -> anyhow::Result<()> {
    let _held = hold_existing(place)?;
    let bed = Testbed::running(place).await?;
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

/// Removes a member from the control plane and from the testbed, with its data.
pub async fn remove_member(
    console: &Console,
    place: &TestbedDir,
    name: &str,
    patience: Duration,
) -> anyhow::Result<()> {
    let _held = hold_existing(place)?;
    let mut bed = Testbed::running(place).await?;
    let member = bed.spec.member(name)?.clone();
    let plane = open(&place.plane_config())?;
    match bed.spec.provisioner {
        // Cleans up what joining created in a cluster that continues to exist.
        Kind::Kubeconfig if member.mode == Mode::Push => registration::unjoin(place, &member).await?,
        _ => registration::forget(place, &plane, &member, Instant::now() + patience).await?,
    }
    for exposure in bed.supervisor.exposures().await?.into_iter().filter(|report| report.exposure.cluster == name) {
        bed.supervisor.unexpose(&exposure.exposure.name).await?;
    }
    if member.mode == Mode::Pull {
        ignore_missing(bed.supervisor.delete(&agent_of(name)).await)?;
    }
    if bed.spec.provisioner != Kind::Kubeconfig {
        ignore_missing(bed.members.delete(name).await)?;
    }
    bed.spec.members.retain(|known| known.name != name);
    bed.spec.save(place)?;
    faults::forget(place, name)?;
    for file in [place.member_config(name), place.agent_plane_config(name), place.agent_member_config(name)] {
        snapshot::remove(&file)?;
    }
    links::remove_member(place, name)?;
    write_merged(place, &bed.spec)?;
    console.line(format!("member {name} is removed"))?;
    Ok(())
}

fn ignore_missing(result: Result<(), provisioners::Error>) -> anyhow::Result<()> {
    match result {
        Err(provisioners::Error::NoMachine(_)) => Ok(()),
        result => Ok(result?),
    }
}

/// Deletes all data of the testbed and starts it on the same ports. Forwards to pods and snapshots are kept.
pub async fn reset(console: &Arc<Console>, place: &TestbedDir, patience: Duration) -> anyhow::Result<()> {
    let held = hold_existing(place)?;
    let spec = Spec::existing(place)?;
    if spec.provisioner == Kind::Kubeconfig {
        bail!(
            "the clusters are yours and are not emptied; `{}` removes the control plane's objects from them",
            place.hint(&Hint::DownDelete)
        );
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
    console.line(format!("the testbed {} is reset after {:.1}s", place.name(), display.elapsed().as_secs_f32()))?;
    Ok(())
}

pub async fn take_snapshot(console: &Console, place: &TestbedDir, name: &str, force: bool) -> anyhow::Result<()> {
    let _held = hold_existing(place)?;
    refuse_others(&Spec::existing(place)?)?;
    if snapshot::folder(place, name)?.exists() && !force {
        bail!("snapshot {name} already exists; choose another name, or replace it with --force");
    }
    let started = Instant::now();
    match SupervisorClient::find(place).await? {
        Some(supervisor) => supervisor.snapshot(name).await?,
        // Nothing is running, so nothing has to be paused.
        None => snapshot::copy_out(place, name)?,
    }
    console.line(format!(
        "snapshot {name} is taken after {:.2}s; `{}` restores it",
        started.elapsed().as_secs_f32(),
        place.hint(&Hint::Restore(name))
    ))?;
    Ok(())
}

pub async fn restore(console: &Arc<Console>, place: &TestbedDir, name: &str, patience: Duration) -> anyhow::Result<()> {
    let _held = hold_existing(place)?;
    refuse_others(&Spec::existing(place)?)?;
    if !snapshot::folder(place, name)?.is_dir() {
        // Fails with the list of snapshots before anything is stopped.
        return snapshot::copy_in(place, name);
    }
    revive_killed(place, &Spec::existing(place)?).await?;
    if let Some(supervisor) = SupervisorClient::find(place).await? {
        supervisor.shut_down().await?;
    }
    snapshot::copy_in(place, name)?;
    let display = bring_up(console, place, Spec::existing(place)?, patience).await?;
    console.line(format!("snapshot {name} is restored after {:.1}s", display.elapsed().as_secs_f32()))?;
    Ok(())
}

fn refuse_others(spec: &Spec) -> anyhow::Result<()> {
    if spec.host.is_some() {
        bail!("the control plane is a pod: snapshots of a testbed with a host cluster are not supported");
    }
    match spec.provisioner {
        Kind::Process => Ok(()),
        Kind::Lxd => bail!("the data is in LXD: take snapshots with `lxc snapshot`"),
        Kind::Kubeconfig => bail!("the clusters are yours: snapshots of them are not supported"),
    }
}
