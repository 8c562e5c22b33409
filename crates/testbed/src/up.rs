//! `up`: starts all parts of the testbed concurrently, and leaves running parts alone.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use cluster_client::{ClusterClient, DeleteOptions, ListOptions, ResourceRef};
use karmadactl::console::Console;
use karmadactl::web_console::sign_in_path;
use object::{Object, conditions};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::bed::Testbed;
use crate::clusters::{NODES, open, write_merged};
use crate::display::{Display, ProgressLine};
use crate::faults::{self, Faults};
use crate::hint::{Hint, quoted};
use crate::host_cluster::{self, HOST};
use crate::kubeconfig_secret;
use crate::lifecycle;
use crate::links::LinkFolders;
use crate::manager;
use crate::place::{INSTANCE_MEMBER, MANAGER, REGISTRY, SECOND_INSTANCE, TestbedDir};
use crate::plan::{UpOptions, plan};
use crate::ports::Ports;
use crate::registration::{self, RegistrationState};
use crate::runtime::{self, HostContainers, Runtime};
use crate::spec::{Kind, ManagerSpec, MemberSpec, Mode, Spec};
use crate::supervisor::FileLock;
use crate::supervisor::client::{SupervisorClient, this_program};

const PLANE_LINE: &str = "control plane";
const NODES_POLL: Duration = Duration::from_millis(100);

pub async fn up(
    console: &Arc<Console>,
    place: &TestbedDir,
    wanted: &UpOptions,
    patience: Duration,
) -> anyhow::Result<()> {
    let is_new = !place.spec_file().exists();
    let had_directory = place.directory().exists();
    let outcome = up_locked(console, place, wanted, patience).await;
    let Err(error) = outcome else { return Ok(()) };
    if !is_new || wanted.retain {
        return Err(error);
    }
    if place.spec_file().exists() {
        let removed = lifecycle::delete(console, place).await;
        return Err(match removed {
            Ok(()) => error.context("the new testbed was removed because it did not start; --retain keeps it"),
            Err(left) => error.context(format!("the new testbed did not start, and was not removed: {left:#}")),
        });
    }
    if !had_directory {
        // Nothing was started: leave no trace.
        let _ = std::fs::remove_dir_all(place.directory());
    }
    Err(error)
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
    let wanted = UpOptions { containers: HostContainers::gather(), ..wanted.clone() };
    let spec = plan(existing, &wanted, &mut ports, is_running, place)?;
    check_provisioner(place, &spec).await?;
    spec.save(place)?;
    for note in &ports.notes {
        console.note(note);
    }
    if !spec.bind.is_loopback() {
        console.warn("everyone who reaches this host can use the registry and connect to the clusters (--bind)");
    }
    let display = bring_up(console, place, spec.clone(), patience).await?;
    link_kubeconfigs(console, place, &spec)?;
    let manager = match spec.manager {
        Some(manager) => {
            let link = web_console(&place.manager_config(), manager.port).await;
            let link = link.unwrap_or_else(|error| format!("web console: not available: {error:#}"));
            describe_manager(&manager, place, &link)
        }
        None => String::new(),
    };
    let links = Links { web_console: plane_console(place, &spec).await, manager };
    print_next(console, place, &spec, &wanted.containers, display.elapsed(), &links)
}

/// Links the kubeconfigs to the paths that Karmada's guides use.
fn link_kubeconfigs(console: &Console, place: &TestbedDir, spec: &Spec) -> anyhow::Result<()> {
    let Some(folders) = LinkFolders::of_this_host().filter(|_| spec.links) else { return Ok(()) };
    let new = folders.create(place, spec)?;
    if !new.is_empty() {
        let names: Vec<String> = new.iter().map(|link| link.display().to_string()).collect();
        console.note(format!("linked {} (--no-links leaves them out)", names.join(", ")));
    }
    Ok(())
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
    let host = spec.host.iter().flat_map(|host| [host.cluster.port, host.cluster.own_port, host.plane_port]);
    let manager = spec.manager.iter().flat_map(|manager| [manager.port, manager.member_port]);
    members.chain(host).chain([spec.plane_port]).chain(spec.registry_port).chain(manager).collect()
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
        let ready = format!("ready on {}", plane_bed.spec.address(plane_bed.spec.plane_port));
        (line, PLANE_LINE.to_owned(), result.map(|()| ready))
    });
    for member in bed.spec.members.clone() {
        let (line, bed, seen) = (display.line(&member.name), Arc::clone(&bed), plane_seen.clone());
        let faults = Arc::clone(&healed);
        parts.spawn(async move {
            let result = bring_member(&bed, &member, &faults, &line, seen, deadline).await;
            (line, member.name.clone(), result.map(|()| ready_text(&bed.spec, &member)))
        });
    }
    if let Some(port) = bed.spec.registry_port {
        let (line, bed) = (display.line(REGISTRY), Arc::clone(&bed));
        parts.spawn(async move {
            let result = bed.start_registry(&line, deadline).await;
            (line, REGISTRY.to_owned(), result.map(|()| format!("ready on {}", bed.spec.address(port))))
        });
    }
    if let Some(manager) = bed.spec.manager {
        let (line, bed) = (display.line(MANAGER), Arc::clone(&bed));
        parts.spawn(async move {
            let result = manager::bring_up(&bed, &manager, &line, plane_seen, deadline).await;
            let ready = format!("ready on {}, 2 instances", bed.spec.address(manager.port));
            (line, MANAGER.to_owned(), result.map(|()| ready))
        });
    }
    let outcome = gather(place, parts).await;
    write_merged(place, &bed.spec)?;
    outcome?;
    kubeconfig_secret::publish(&open(&place.plane_config())?, place).await?;
    faults::forget_all(place, &healed)?;
    for fault in healed.described() {
        console.note(format!("healed: {fault}"));
    }
    Ok(display)
}

fn ready_text(spec: &Spec, member: &MemberSpec) -> String {
    let mode = if member.mode == Mode::Pull { "pull" } else { "push" };
    match &member.source {
        Some(source) => format!("ready, {mode}, your cluster from {}", source.kubeconfig.display()),
        None => format!("ready on {}, {mode}, {}", spec.address(member.port), member.runtime().name()),
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
        bail!("the testbed is not complete; retry with `{}`\n{}", place.hint(&Hint::Up), problems.join("\n"));
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
            Mode::Pull => match &bed.spec.host {
                Some(host) => host_cluster::register(bed, host, member).await?,
                None => registration::register(&bed.place, bed.spec.plane_port, member).await?,
            },
        }
    }
    if member.mode == Mode::Pull {
        line.say("starting its agent");
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
        let runtime = (bed.spec.provisioner == Kind::Process).then(|| member.runtime());
        let ready = nodes.items.iter().filter(|node| is_ready_with(node, runtime)).count();
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

/// Returns true if the node is ready and runs its pods with this runtime: after a change of the runtime, the node of the
/// former one seems ready until the new one has reported.
fn is_ready_with(node: &Object, runtime: Option<Runtime>) -> bool {
    let reported = node.str_at(&["status", "nodeInfo", "containerRuntimeVersion"]);
    let is_current = runtime.is_none_or(|runtime| reported.starts_with(&format!("{}://", runtime.name())));
    is_current && conditions::is_true(node, "Ready")
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

/// Returns the nodes of a member of ours whose number is higher than the number of nodes.
fn surplus_nodes<'a>(member: &MemberSpec, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let count = match (&member.source, member.runtime()) {
        (Some(_), _) => None,
        // This host is the only node.
        (None, Runtime::Containerd) => Some(1),
        (None, Runtime::Simulated) => member.nodes,
    };
    let Some(count) = count else { return Vec::new() };
    let prefix = format!("{}-node-", member.name);
    let number = |name: &str| name.strip_prefix(&prefix)?.parse::<u32>().ok();
    names.filter(|name| number(name).is_some_and(|number| number > count)).map(str::to_owned).collect()
}

/// Checks that the provisioner is usable before anything is started.
async fn check_provisioner(place: &TestbedDir, spec: &Spec) -> anyhow::Result<()> {
    match Testbed::connect_provisioner(place, spec).await {
        Ok(()) => Ok(()),
        Err(error) => Err(error.context(format!("run `{}` to check this host", place.hint(&Hint::PrepareLxd)))),
    }
}

/// Returns the lines about the web console of the control plane: a link that opens it signed in, or the reason why there is none.
async fn plane_console(place: &TestbedDir, spec: &Spec) -> String {
    match web_console(&place.plane_config(), spec.plane_port).await {
        Ok(link) => format!(
            "Web console, signed in by this link once (`{}` prints another; the certificate is the testbed's own):\n  {link}",
            place.hint(&Hint::Console),
        ),
        Err(error) => format!("Web console: not available: {error:#}"),
    }
}

/// Returns the link that opens a web console signed in.
async fn web_console(kubeconfig: &Path, port: u16) -> anyhow::Result<String> {
    Ok(format!("https://127.0.0.1:{port}{}", sign_in_path(&open(kubeconfig)?).await?))
}

/// The texts about the web consoles; that of the manager is empty without one.
struct Links {
    web_console: String,
    manager: String,
}

fn print_next(
    console: &Console,
    place: &TestbedDir,
    spec: &Spec,
    containers: &HostContainers,
    took: Duration,
    links: &Links,
) -> anyhow::Result<()> {
    let first = spec.members.first().map(|member| {
        format!("\n  kubectl --context {} get nodes\n  {}", member.name, place.hint(&Hint::Demo("nginx")))
    });
    let pods = spec.host.as_ref().map(|_| format!("\n  kubectl --context {HOST} -n karmada-system get pods"));
    let members = match spec.members.len() {
        1 => "1 member".to_owned(),
        count => format!("{count} members"),
    };
    let registry =
        spec.registry_port.map(|port| format!(" and a registry on {}", spec.address(port))).unwrap_or_default();
    console.line(format!(
        "\nThe testbed is ready after {:.1}s: a control plane, {members}{registry}.\n\n  \
         export KUBECONFIG={}\n  \
         kubectl get clusters{}{}\n\n\
         {}\n\n\
         {}{}It keeps running when this terminal closes: `{}` shows it, `{}` stops it.",
        took.as_secs_f32(),
        quoted(&place.merged_config()),
        pods.unwrap_or_default(),
        first.unwrap_or_default(),
        links.web_console,
        links.manager,
        runtime::describe(spec, containers, place).map(|text| text + "\n").unwrap_or_default(),
        place.hint(&Hint::Status),
        place.hint(&Hint::Down),
    ))?;
    Ok(())
}

/// Describes the manager and its instances.
fn describe_manager(spec: &ManagerSpec, place: &TestbedDir, web_console: &str) -> String {
    format!(
        "The manager on 127.0.0.1:{} has two instances: testbed is this control plane, second has the cluster \
         {INSTANCE_MEMBER}.\n  \
         {}\n  \
         kubectl --context {SECOND_INSTANCE} get clusters\n  \
         {web_console}\n\n",
        spec.port,
        place.hint(&Hint::Instances),
    )
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
        let containers = MemberSpec { runtime: Some(Runtime::Containerd), nodes: Some(9), ..member.clone() };
        assert_eq!(surplus_nodes(&containers, names.into_iter()), ["member1-node-2", "member1-node-10"]);
    }
    #[test]
    fn a_node_of_the_former_runtime_is_not_ready() {
        let node = |runtime: &str, ready: &str| {
            let mut node = NODES.object("", "n");
            node.set(&["status", "nodeInfo", "containerRuntimeVersion"], runtime);
            node.set(&["status", "conditions"], serde_json::json!([{"type": "Ready", "status": ready}]));
            node
        };
        let containers = Some(Runtime::Containerd);
        assert!(is_ready_with(&node("containerd://1.6", "True"), containers));
        assert!(!is_ready_with(&node("simulated://0.1", "True"), containers));
        assert!(!is_ready_with(&node("containerd://1.6", "False"), containers));
        assert!(is_ready_with(&node("cri-o://1", "True"), None));
    }
}
