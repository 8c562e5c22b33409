//! `up`: brings about what the testbed is to be, all parts at the same time, and leaves alone what is well.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use cluster_client::{ListOptions, ResourceRef};
use karmadactl::console::Console;
use object::Object;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::bed::Bed;
use crate::clusters::{NODES, open, write_merged};
use crate::display::{Display, Line};
use crate::faults::{self, Faults};
use crate::place::{Place, REGISTRY};
use crate::plan::{Wanted, plan};
use crate::ports::Ports;
use crate::registration::{self, RegistrationState};
use crate::spec::{Kind, MemberSpec, Mode, Spec};
use crate::supervisor::FileLock;
use crate::supervisor::client::{SupervisorClient, this_program};

const PLANE_LINE: &str = "control plane";
const NODES_POLL: Duration = Duration::from_millis(100);

pub async fn up(console: &Arc<Console>, place: &Place, wanted: &Wanted, patience: Duration) -> anyhow::Result<()> {
    let _held = hold(place)?;
    let existing = Spec::load(place)?;
    let is_running = SupervisorClient::find(place).await?.is_some();
    let mut ports = Ports::new(existing.iter().flat_map(ports_of));
    let spec = plan(existing, wanted, &mut ports, is_running)?;
    spec.save(place)?;
    for note in &ports.notes {
        console.note(note);
    }
    let display = bring_up(console, place, spec.clone(), patience).await?;
    print_next(console, place, &spec, display.elapsed())
}

/// One command at a time changes a testbed.
pub fn hold(place: &Place) -> anyhow::Result<FileLock> {
    let directory = place.directory();
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    FileLock::try_hold(&place.change_lock_file())?.with_context(|| {
        format!("another command is changing the testbed {}; try again when it has ended", place.name())
    })
}

fn ports_of(spec: &Spec) -> Vec<u16> {
    let members = spec.members.iter().flat_map(|member| [member.port, member.own_port, member.agent_plane_port]);
    members.chain([spec.plane_port]).chain(spec.registry_port).collect()
}

/// Everything of the spec, running and ready.
pub async fn bring_up(
    console: &Arc<Console>,
    place: &Place,
    spec: Spec,
    patience: Duration,
) -> anyhow::Result<Display> {
    let width = spec.members.iter().map(|member| member.name.len()).max().unwrap_or_default().max(PLANE_LINE.len());
    let display = Display::new(Arc::clone(console), width);
    let supervisor = SupervisorClient::ensure(place, &this_program()?).await?;
    let bed = Arc::new(Bed::new(place, spec, supervisor).await?);
    let healed = Arc::new(faults::heal_ways(&bed).await?);
    let deadline = Instant::now() + patience;
    let (plane_is_up, plane_seen) = watch::channel(false);
    let mut parts: JoinSet<(Arc<Line>, String, anyhow::Result<String>)> = JoinSet::new();

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
    let outcome = gather(parts).await;
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
        Some(source) => format!("ready, {mode}, a cluster of yours from {}", source.kubeconfig.display()),
        None => format!("ready on 127.0.0.1:{}, {mode}", member.port),
    }
}

/// Waits for all, so that each problem is seen.
async fn gather(mut parts: JoinSet<(Arc<Line>, String, anyhow::Result<String>)>) -> anyhow::Result<()> {
    let mut problems = Vec::new();
    while let Some(ended) = parts.join_next().await {
        let (line, name, result) = ended.context("a part of the testbed ended badly")?;
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
        bail!("the testbed is not complete; `flotilla up` again repairs what can be repaired\n{}", problems.join("\n"));
    }
    Ok(())
}

async fn bring_member(
    bed: &Bed,
    member: &MemberSpec,
    faults: &Faults,
    line: &Line,
    mut plane_is_up: watch::Receiver<bool>,
    deadline: Instant,
) -> anyhow::Result<()> {
    bed.start_member(member, line, deadline).await?;
    line.say("waiting for the control plane");
    if plane_is_up.wait_for(|is_up| *is_up).await.is_err() {
        bail!("the control plane did not come up");
    }
    faults::heal_member(bed, member, faults).await?;
    let plane = open(&bed.place.plane_config())?;
    let state = registration::look_up(&plane, &bed.place, member).await?;
    if let RegistrationState::Stale(reason) = &state {
        line.say(&format!("registering again: {reason}"));
        registration::forget(&plane, member, deadline).await?;
    }
    if !matches!(state, RegistrationState::Current) {
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
        // What their nodes do is not ours to judge.
        Kind::Kubeconfig => Ok(()),
    }
}

/// A cluster is of use when pods can run in it.
async fn wait_nodes(bed: &Bed, member: &MemberSpec, line: &Line, deadline: Instant) -> anyhow::Result<()> {
    let client = open(&bed.place.member_config(&member.name))?;
    loop {
        let nodes = client.list_all(ResourceRef::all(&NODES.gvr()), ListOptions::default()).await?;
        let is_ready = |node: &Arc<Object>| {
            let conditions = node.items(&["status", "conditions"]);
            conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
        };
        let ready = nodes.items.iter().filter(|node| is_ready(node)).count();
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

fn print_next(console: &Console, place: &Place, spec: &Spec, took: Duration) -> anyhow::Result<()> {
    let first = spec.members.first().map_or("member1", |member| member.name.as_str());
    let registry = spec.registry_port.map(|port| format!(" and a registry on 127.0.0.1:{port}")).unwrap_or_default();
    let which =
        if place.name() == crate::place::DEFAULT_NAME { String::new() } else { format!(" --name {}", place.name()) };
    console.line(format!(
        "\nThe testbed is ready after {:.1}s: a control plane, {} members{registry}.\n\n  \
         export KUBECONFIG={}\n  \
         kubectl get clusters\n  \
         kubectl --context {first} get nodes\n  \
         flotilla demo nginx{which}\n\n\
         It keeps running when this terminal closes: `flotilla status{which}` shows it, `flotilla down{which}` stops it.",
        took.as_secs_f32(),
        spec.members.len(),
        place.merged_config().display(),
    ))?;
    Ok(())
}
