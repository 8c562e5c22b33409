//! `up`: starts all parts of the testbed concurrently, and leaves running parts alone.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use cluster_client::{ClusterClient, DeleteOptions, ListOptions, ResourceRef};
use karmadactl::console::Console;
use karmadactl::web_console::sign_in_path;
use object::conditions;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::bed::Testbed;
use crate::clusters::{NODES, open, write_merged};
use crate::display::{Display, ProgressLine};
use crate::faults::{self, Faults};
use crate::place::{REGISTRY, TestbedDir};
use crate::plan::{UpOptions, plan};
use crate::ports::Ports;
use crate::registration::{self, RegistrationState};
use crate::spec::{Kind, MemberSpec, Mode, Spec};
use crate::supervisor::FileLock;
use crate::supervisor::client::{SupervisorClient, this_program};

const PLANE_LINE: &str = "control plane";
/// The command that checks and prepares this host; it needs no testbed.
const PREPARE: &str = "flotilla prepare --provisioner lxd";
const NODES_POLL: Duration = Duration::from_millis(100);

pub async fn up(
    console: &Arc<Console>,
    place: &TestbedDir,
    wanted: &UpOptions,
    patience: Duration,
) -> anyhow::Result<()> {
    let is_new = !place.directory().exists();
    let outcome = up_locked(console, place, wanted, patience).await;
    if outcome.is_err() && is_new && !place.spec_file().exists() {
        // Nothing was started: leave no trace.
        let _ = std::fs::remove_dir_all(place.directory());
    }
    outcome
}

async fn up_locked(
    console: &Arc<Console>,
    place: &TestbedDir,
    wanted: &UpOptions,
    patience: Duration,
) -> anyhow::Result<()> {
    let _held = hold(place)?;
    let existing = Spec::load(place)?;
    let is_running = SupervisorClient::find(place).await?.is_some();
    let mut ports = Ports::new(existing.iter().flat_map(ports_of));
    let spec = plan(existing, wanted, &mut ports, is_running, place)?;
    check_provisioner(place, &spec).await?;
    spec.save(place)?;
    for note in &ports.notes {
        console.note(note);
    }
    let display = bring_up(console, place, spec.clone(), patience).await?;
    let web_console = web_console(place, &spec).await;
    print_next(console, place, &spec, display.elapsed(), &web_console)
}

/// Locks a testbed that must exist.
pub fn hold_existing(place: &TestbedDir) -> anyhow::Result<FileLock> {
    Spec::existing(place)?;
    hold(place)
}

/// Locks the testbed: one command at a time changes it.
pub fn hold(place: &TestbedDir) -> anyhow::Result<FileLock> {
    let directory = place.directory();
    std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    FileLock::try_hold(&place.change_lock_file())?.with_context(|| {
        format!("another command is changing the testbed {}; try again when it has finished", place.name())
    })
}

fn ports_of(spec: &Spec) -> Vec<u16> {
    let members = spec.members.iter().flat_map(|member| [member.port, member.own_port, member.agent_plane_port]);
    members.chain([spec.plane_port]).chain(spec.registry_port).collect()
}

/// Starts everything in the spec and waits until it is ready.
pub async fn bring_up(
    console: &Arc<Console>,
    place: &TestbedDir,
    spec: Spec,
    patience: Duration,
) -> anyhow::Result<Display> {
    let width = spec.members.iter().map(|member| member.name.len()).max().unwrap_or_default().max(PLANE_LINE.len());
    let display = Display::new(Arc::clone(console), width);
    let supervisor = SupervisorClient::ensure(place, &this_program()?).await?;
    let bed = Arc::new(Testbed::new(place, spec, supervisor).await?);
    let healed = Arc::new(faults::heal_ways(&bed).await?);
    let deadline = Instant::now() + patience;
    let (plane_is_up, plane_seen) = watch::channel(false);
    let mut parts: JoinSet<(Arc<ProgressLine>, String, anyhow::Result<String>)> = JoinSet::new();

    let (line, plane_bed) = (display.line(PLANE_LINE), Arc::clone(&bed));
    parts.spawn(async move {
        let result = plane_bed.start_plane(&line, deadline).await;
        if result.is_ok() {
            plane_is_up.send_replace(true);
        }
        let ready = format!("ready on 127.0.0.1:{}", plane_bed.spec.plane_port);
        (line, PLANE_LINE.to_owned(), result.map(|()| ready))
    });
    for member in bed.spec.members.clone() {
        let (line, bed, seen) = (display.line(&member.name), Arc::clone(&bed), plane_seen.clone());
        let faults = Arc::clone(&healed);
        parts.spawn(async move {
            let result = bring_member(&bed, &member, &faults, &line, seen, deadline).await;
            (line, member.name.clone(), result.map(|()| ready_text(&member)))
        });
    }
    if let Some(port) = bed.spec.registry_port {
        let (line, bed) = (display.line(REGISTRY), Arc::clone(&bed));
        parts.spawn(async move {
            let result = bed.start_registry(&line, deadline).await;
            (line, REGISTRY.to_owned(), result.map(|()| format!("ready on 127.0.0.1:{port}")))
        });
    }
    let outcome = gather(place, parts).await;
    write_merged(place, &bed.spec)?;
    outcome?;
    faults::forget_all(place, &healed)?;
    for fault in healed.described() {
        console.note(format!("healed: {fault}"));
    }
    Ok(display)
}

fn ready_text(member: &MemberSpec) -> String {
    let mode = if member.mode == Mode::Pull { "pull" } else { "push" };
    match &member.source {
        Some(source) => format!("ready, {mode}, your cluster from {}", source.kubeconfig.display()),
        None => format!("ready on 127.0.0.1:{}, {mode}", member.port),
    }
}

/// Waits for all parts, so that every problem is reported.
async fn gather(
    place: &TestbedDir,
    mut parts: JoinSet<(Arc<ProgressLine>, String, anyhow::Result<String>)>,
) -> anyhow::Result<()> {
    let mut problems = Vec::new();
    while let Some(ended) = parts.join_next().await {
        let (line, name, result) = ended.context("a part of the testbed failed")?;
        match result {
            Ok(text) => line.done(&text),
            Err(error) => {
                line.failed("failed");
                problems.push(format!("{name}: {error:#}"));
            }
        }
    }
    if !problems.is_empty() {
        problems.sort();
        problems.dedup();
        bail!("the testbed is not complete; retry with `{}`\n{}", place.command("up"), problems.join("\n"));
    }
    Ok(())
}

async fn bring_member(
    bed: &Testbed,
    member: &MemberSpec,
    faults: &Faults,
    line: &ProgressLine,
    mut plane_is_up: watch::Receiver<bool>,
    deadline: Instant,
) -> anyhow::Result<()> {
    bed.start_member(member, line, deadline).await?;
    line.say("waiting for the control plane");
    if plane_is_up.wait_for(|is_up| *is_up).await.is_err() {
        bail!("the control plane did not start");
    }
    faults::heal_member(bed, member, faults).await?;
    let plane = open(&bed.place.plane_config())?;
    let state = registration::look_up(&plane, &bed.place, member).await?;
    if let RegistrationState::Stale(reason) = &state {
        line.say(&format!("registering again: {reason}"));
        registration::forget(&bed.place, &plane, member, deadline).await?;
    }
    if matches!(state, RegistrationState::MissingCredentials) {
        line.say("restoring its credentials");
        registration::restore_credentials(bed, member).await?;
    } else if !matches!(state, RegistrationState::Current) {
        line.say("registering");
        match member.mode {
            Mode::Push => registration::join(&bed.place, member).await?,
            Mode::Pull => registration::register(&bed.place, bed.spec.plane_port, member).await?,
        }
    }
    if member.mode == Mode::Pull {
        bed.start_agent(member).await?;
    }
    registration::wait_ready(&plane, &member.name, line, deadline).await?;
    match bed.spec.provisioner {
        Kind::Process | Kind::Lxd => wait_nodes(bed, member, line, deadline).await,
        // The nodes of a user's cluster are not checked.
        Kind::Kubeconfig => Ok(()),
    }
}

/// Waits until all nodes of the member are ready.
async fn wait_nodes(bed: &Testbed, member: &MemberSpec, line: &ProgressLine, deadline: Instant) -> anyhow::Result<()> {
    let client = open(&bed.place.member_config(&member.name))?;
    remove_surplus_nodes(&client, member).await?;
    loop {
        let nodes = client.list_all(ResourceRef::all(&NODES.gvr()), ListOptions::default()).await?;
        let ready = nodes.items.iter().filter(|node| conditions::is_true(node, "Ready")).count();
        if ready > 0 && ready == nodes.items.len() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            bail!("{ready} of {} nodes are ready", nodes.items.len());
        }
        line.say("waiting for its nodes");
        tokio::time::sleep(NODES_POLL).await;
    }
}

/// Deletes nodes a member no longer runs after `up --nodes N` with a smaller number: they would stay NotReady.
async fn remove_surplus_nodes(client: &ClusterClient, member: &MemberSpec) -> anyhow::Result<()> {
    let nodes = client.list_all(ResourceRef::all(&NODES.gvr()), ListOptions::default()).await?;
    for name in surplus_nodes(member, nodes.items.iter().map(|node| node.name())) {
        match client.delete(ResourceRef::cluster(&NODES.gvr(), &name), DeleteOptions::default()).await {
            Err(status) if !status.is_not_found() => return Err(status.into()),
            _ => {}
        }
    }
    Ok(())
}

/// Returns the simulated nodes whose number is higher than the number of nodes.
fn surplus_nodes<'a>(member: &MemberSpec, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let is_simulated =
        member.source.is_none() && member.runtime.as_deref().is_none_or(|runtime| runtime == "simulated");
    let Some(count) = member.nodes.filter(|_| is_simulated) else { return Vec::new() };
    let prefix = format!("{}-node-", member.name);
    let number = |name: &str| name.strip_prefix(&prefix)?.parse::<u32>().ok();
    names.filter(|name| number(name).is_some_and(|number| number > count)).map(str::to_owned).collect()
}

/// Checks that the provisioner is usable before anything is started.
async fn check_provisioner(place: &TestbedDir, spec: &Spec) -> anyhow::Result<()> {
    match Testbed::connect_provisioner(place, spec).await {
        Ok(()) => Ok(()),
        Err(error) => Err(error.context(format!("run `{PREPARE}` to check this host"))),
    }
}

/// Returns the link that opens the web console signed in, or the reason why there is none.
async fn web_console(place: &TestbedDir, spec: &Spec) -> String {
    let requested = async { sign_in_path(&open(&place.plane_config())?).await };
    match requested.await {
        Ok(path) => format!("https://127.0.0.1:{}{path}", spec.plane_port),
        Err(error) => format!("not available: {error:#}"),
    }
}

fn print_next(
    console: &Console,
    place: &TestbedDir,
    spec: &Spec,
    took: Duration,
    web_console: &str,
) -> anyhow::Result<()> {
    let first = spec.members.first().map(|member| format!("kubectl --context {} get nodes\n  ", member.name));
    let members = match spec.members.len() {
        1 => "1 member".to_owned(),
        count => format!("{count} members"),
    };
    let registry = spec.registry_port.map(|port| format!(" and a registry on 127.0.0.1:{port}")).unwrap_or_default();
    console.line(format!(
        "\nThe testbed is ready after {:.1}s: a control plane, {members}{registry}.\n\n  \
         export KUBECONFIG={}\n  \
         kubectl get clusters\n  \
         {}{}\n\n\
         Web console, signed in by this link once (`{}` prints another; the certificate is the testbed's own):\n  \
         {web_console}\n\n\
         It keeps running when this terminal closes: `{}` shows it, `{}` stops it.",
        took.as_secs_f32(),
        place.merged_config().display(),
        first.unwrap_or_default(),
        place.command("demo nginx"),
        place.plane_command("console"),
        place.command("status"),
        place.command("down"),
    ))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::UpOptions;
    use crate::ports::Ports;

    #[test]
    fn nodes_beyond_the_requested_number_are_surplus() {
        let place = TestbedDir::find(Some("/beds".into()), "x").unwrap();
        let options = UpOptions { nodes: Some(1), ..UpOptions::default() };
        let spec = plan(None, &options, &mut Ports::pretending(|_| true), false, &place).unwrap();
        let member = &spec.members[0];
        let names = ["member1-node-1", "member1-node-2", "member1-node-10", "other-node-7", "member1-node-x"];
        assert_eq!(surplus_nodes(member, names.into_iter()), ["member1-node-2", "member1-node-10"]);
        let unknown = MemberSpec { nodes: None, ..member.clone() };
        assert!(surplus_nodes(&unknown, names.into_iter()).is_empty());
        let containers = MemberSpec { runtime: Some("containerd".into()), ..member.clone() };
        assert!(surplus_nodes(&containers, names.into_iter()).is_empty());
    }
}
