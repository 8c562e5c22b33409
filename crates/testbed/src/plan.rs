//! Plans the desired state of a testbed from its current state and the options of `up`.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context, bail};

use crate::hint::Hint;
use crate::host_cluster;
use crate::place::TestbedDir;
use crate::ports::{HOSTED_PLANE_PORT, MANAGER_PORT, PLANE_PORT, Ports, REGISTRY_PORT};
use crate::runtime::{self, HostContainers, Runtime, RuntimeChoice};
use crate::spec::{Kind, MEMBERS_MAX, MachineSpec, ManagerSpec, MemberSpec, Mode, Source, Spec, check_member_name};

const MEMBERS: usize = 3;
/// The member in pull mode by default.
const PULLING: &str = "member3";

/// Value of --pull for all members.
pub const ALL: &str = "all";

/// The requested members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Members {
    /// This number of members: member1, member2, …
    Count(usize),
    Named(Vec<String>),
}

impl Members {
    /// Parses a number or comma-separated names.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Ok(count) = text.parse() {
            return Ok(Self::Count(count));
        }
        let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
        let twice = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name));
        match (names.iter().any(String::is_empty), twice) {
            (true, _) => Err("expected a number, or comma-separated names".to_owned()),
            (_, Some((_, name))) => Err(format!("{name} is named twice")),
            _ => Ok(Self::Named(names)),
        }
    }

    /// Returns the names of the members to add to those present.
    fn names(&self, present: &[String]) -> Vec<String> {
        match self {
            Self::Count(count) => (present.len() + 1..=*count).map(|number| format!("member{number}")).collect(),
            Self::Named(names) => names.iter().filter(|name| !present.contains(name)).cloned().collect(),
        }
    }

    /// Returns a present member that is not among the requested ones.
    fn is_without<'a>(&self, present: &'a [String]) -> Option<&'a String> {
        match self {
            Self::Count(count) => present.get(*count),
            Self::Named(names) => present.iter().find(|name| !names.contains(name)),
        }
    }
}

/// Options of `up`; `None` keeps the current or default value.
#[derive(Clone, Debug, Default)]
pub struct UpOptions {
    pub members: Option<Members>,
    pub pull: Option<Vec<String>>,
    pub nodes: Option<u32>,
    pub runtime: Option<RuntimeChoice>,
    /// Checked by `up`.
    pub containers: HostContainers,
    /// 127.0.0.1 or 0.0.0.0.
    pub bind: Option<IpAddr>,
    /// Do not link kubeconfigs to the paths of Karmada's guides.
    pub no_links: bool,
    /// Keep a new testbed that did not start.
    pub retain: bool,
    pub kubernetes_version: Option<String>,
    pub provisioner: Option<Kind>,
    /// The user's clusters, by member name.
    pub sources: Vec<(String, Source)>,
    pub plane_port: Option<u16>,
    pub registry_port: Option<u16>,
    pub no_registry: bool,
    /// Port of the first member; the others follow.
    pub member_port: Option<u16>,
    /// Run the control plane and the agents as pods.
    pub host_cluster: bool,
    /// Settings of members in system containers.
    pub machines: MachineSpec,
    /// Start a manager; a testbed that has one keeps it.
    pub manager: bool,
    pub manager_port: Option<u16>,
}

/// Plans the testbed. `ports` knows which ports are free; `is_running` means that the testbed itself uses its ports.
/// `place` is for hints.
pub fn plan(
    existing: Option<Spec>,
    wanted: &UpOptions,
    ports: &mut Ports,
    is_running: bool,
    place: &TestbedDir,
) -> anyhow::Result<Spec> {
    check_bind(wanted)?;
    let wanted = &host_cluster::options(existing.as_ref(), wanted, place)?;
    let is_new = existing.is_none();
    let mut spec = match existing {
        Some(spec) => changed(spec, wanted, ports, is_running, place)?,
        None => fresh(wanted, ports, place)?,
    };
    spec.bind = wanted.bind.unwrap_or(spec.bind);
    spec.links &= !wanted.no_links;
    if wanted.manager && spec.manager.is_none() {
        let port = ports.choose(wanted.manager_port, MANAGER_PORT, "the manager")?;
        spec.manager = Some(ManagerSpec { port, member_port: ports.any()? });
    }
    set_runtime(&mut spec, wanted, is_new, place)?;
    for member in &mut spec.members {
        if wanted.nodes.is_some() {
            member.nodes = wanted.nodes;
        }
        if wanted.kubernetes_version.is_some() {
            member.kubernetes_version.clone_from(&wanted.kubernetes_version);
        }
    }
    Ok(spec)
}

/// Kubeconfigs use 127.0.0.1, so the ports must be reachable there.
fn check_bind(wanted: &UpOptions) -> anyhow::Result<()> {
    match wanted.bind {
        None | Some(IpAddr::V4(Ipv4Addr::LOCALHOST | Ipv4Addr::UNSPECIFIED)) => Ok(()),
        Some(other) => bail!("--bind {other}: must be 127.0.0.1, or 0.0.0.0 for all addresses of this host"),
    }
}

/// Chosen here, so that members do not start only to fail. An existing testbed keeps its runtime unless another is requested.
fn set_runtime(spec: &mut Spec, wanted: &UpOptions, is_new: bool, place: &TestbedDir) -> anyhow::Result<()> {
    let choice = match (wanted.runtime, is_new) {
        (Some(RuntimeChoice::Auto) | None, false) => None,
        (choice, _) => Some(choice.unwrap_or_default()),
    };
    let nodes = wanted.nodes.or_else(|| spec.members.first().and_then(|member| member.nodes));
    let kind = spec.provisioner;
    let chosen = choice.map(|choice| runtime::choose(choice, kind, nodes, &wanted.containers, place)).transpose()?;
    let current = spec.members.iter().find_map(|member| member.runtime);
    let network = pod_network(place);
    for (index, member) in spec.members.iter_mut().enumerate().filter(|(_, member)| member.source.is_none()) {
        member.runtime = chosen.or(member.runtime).or(current);
        if member.runtime() == Runtime::Containerd {
            if wanted.nodes.is_some_and(|nodes| nodes != 1) {
                bail!("--nodes: members with containers have one node, this host");
            }
            member.pod_cidr.get_or_insert_with(|| format!("{network}.{index}.0/24"));
        }
    }
    Ok(())
}

/// Returns the first two bytes of the pod addresses of a testbed: testbeds of one host rarely have the same.
fn pod_network(place: &TestbedDir) -> String {
    let sum: u32 = place.directory().as_os_str().as_encoded_bytes().iter().map(|byte| u32::from(*byte)).sum();
    format!("10.{}", 86 + sum % 100)
}

fn fresh(wanted: &UpOptions, ports: &mut Ports, place: &TestbedDir) -> anyhow::Result<Spec> {
    let provisioner = match wanted.provisioner {
        Some(kind) => kind,
        None if wanted.sources.is_empty() => Kind::Process,
        None => Kind::Kubeconfig,
    };
    if (provisioner == Kind::Kubeconfig) == wanted.sources.is_empty() {
        bail!("--provisioner kubeconfig requires --cluster NAME=FILE[:CONTEXT], once for each of your clusters");
    }
    refuse_second_names(wanted)?;
    let registry_port = match wanted.no_registry {
        true => None,
        false => Some(ports.choose(wanted.registry_port, REGISTRY_PORT, "the registry")?),
    };
    let default_port = if wanted.host_cluster { HOSTED_PLANE_PORT } else { PLANE_PORT };
    let plane_port = ports.choose(wanted.plane_port, default_port, "the control plane")?;
    if provisioner != Kind::Lxd && wanted.machines != MachineSpec::default() {
        bail!("--image, --microk8s, --cpu and --memory require --provisioner lxd");
    }
    let machines = wanted.machines.clone();
    let mut spec = Spec {
        plane_port,
        registry_port,
        provisioner,
        members: Vec::new(),
        machines,
        bind: IpAddr::V4(Ipv4Addr::LOCALHOST),
        links: true,
        host: None,
        manager: None,
    };
    if wanted.host_cluster {
        spec.host = Some(host_cluster::plan_host(wanted, ports, &pod_network(place))?);
    }
    let names: Vec<(String, Option<Source>)> = match provisioner {
        Kind::Kubeconfig => wanted.sources.iter().map(|(name, source)| (name.clone(), Some(source.clone()))).collect(),
        Kind::Process | Kind::Lxd => {
            let members = wanted.members.clone().unwrap_or(Members::Count(MEMBERS));
            members.names(&[]).into_iter().map(|name| (name, None)).collect()
        }
    };
    check_pulling(wanted, names.iter().map(|(name, _)| name.as_str()))?;
    for (name, source) in names {
        let member = new_member(wanted, ports, spec.members.len(), name, source)?;
        spec.members.push(member);
    }
    refuse_too_many(&spec)?;
    Ok(spec)
}

fn refuse_too_many(spec: &Spec) -> anyhow::Result<()> {
    if spec.members.len() > MEMBERS_MAX {
        bail!("{} members are too many for one testbed; the maximum is {MEMBERS_MAX}", spec.members.len());
    }
    Ok(())
}

/// The user's clusters have the names given with --cluster.
fn refuse_second_names(wanted: &UpOptions) -> anyhow::Result<()> {
    if !wanted.sources.is_empty() && matches!(wanted.members, Some(Members::Named(_))) {
        bail!("--members NAME,... cannot be combined with --cluster NAME=FILE[:CONTEXT], which names the members");
    }
    Ok(())
}

fn new_member(
    wanted: &UpOptions,
    ports: &mut Ports,
    index: usize,
    name: String,
    source: Option<Source>,
) -> anyhow::Result<MemberSpec> {
    check_member_name(&name)?;
    let is_pulling = match &wanted.pull {
        Some(names) => names.contains(&name) || names.iter().any(|name| name == ALL),
        None => name == PULLING && source.is_none(),
    };
    let is_ours = source.is_none();
    Ok(MemberSpec {
        mode: if is_pulling { Mode::Pull } else { Mode::Push },
        port: if is_ours { ports.member(wanted.member_port, index, &name)? } else { 0 },
        own_port: if is_ours { ports.any()? } else { 0 },
        agent_plane_port: if is_pulling { ports.any()? } else { 0 },
        nodes: None,
        runtime: None,
        pod_cidr: None,
        kubernetes_version: None,
        source,
        name,
    })
}

fn check_pulling<'a>(wanted: &UpOptions, names: impl Iterator<Item = &'a str>) -> anyhow::Result<()> {
    let names: Vec<&str> = names.collect();
    let mut pulling = wanted.pull.iter().flatten().filter(|name| !name.is_empty() && *name != ALL);
    let stranger = pulling.find(|name| !names.contains(&name.as_str()));
    match stranger {
        Some(name) => bail!("--pull {name}: no such member; the members are {}", names.join(", ")),
        None => Ok(()),
    }
}

/// Keeps the settings of an existing testbed. Members may be added; internal ports move when they are in use.
fn changed(
    mut spec: Spec,
    wanted: &UpOptions,
    ports: &mut Ports,
    is_running: bool,
    place: &TestbedDir,
) -> anyhow::Result<Spec> {
    let differs =
        |asked: Option<u16>, present: Option<u16>| asked.is_some_and(|port| port != 0 && Some(port) != present);
    let first = spec.members.first().map(|member| member.port);
    let moves = [
        ("--port", differs(wanted.plane_port, Some(spec.plane_port))),
        ("--registry-port", differs(wanted.registry_port, spec.registry_port)),
        ("--member-port", differs(wanted.member_port, first)),
        ("--provisioner", wanted.provisioner.is_some_and(|kind| kind != spec.provisioner)),
        ("--image", wanted.machines != MachineSpec::default() && wanted.machines != spec.machines),
        ("--manager-port", spec.manager.is_some_and(|manager| differs(wanted.manager_port, Some(manager.port)))),
        ("--no-registry", wanted.no_registry && spec.registry_port.is_some()),
    ];
    if let Some((flag, _)) = moves.iter().find(|(_, differs)| *differs) {
        bail!(
            "{flag}: the existing testbed has another value; delete it with `{}`, or use another --name",
            place.hint(&Hint::DownDelete)
        );
    }
    let names: Vec<String> = spec.members.iter().map(|member| member.name.clone()).collect();
    refuse_second_names(wanted)?;
    if let Some(name) = wanted.members.as_ref().and_then(|members| members.is_without(&names)) {
        bail!(
            "the testbed has {} members, including {name}; remove it with `{}`",
            names.len(),
            place.hint(&Hint::RemoveMember(name))
        );
    }
    let mut new = added_clusters(&spec, wanted, place)?;
    if let Some(members) = &wanted.members {
        let present: Vec<String> = names.iter().chain(new.iter().map(|(name, _)| name)).cloned().collect();
        new.extend(members.names(&present).into_iter().map(|name| (name, None)));
    }
    let template = spec.members.first().cloned();
    for (name, source) in new {
        let index = spec.members.len();
        let mut member = new_member(wanted, ports, index, name, source)?;
        if let Some(template) = &template {
            member.nodes = template.nodes;
            member.runtime = template.runtime;
            member.kubernetes_version.clone_from(&template.kubernetes_version);
        }
        spec.members.push(member);
    }
    refuse_too_many(&spec)?;
    check_pulling(wanted, spec.members.iter().map(|member| member.name.as_str()))?;
    if let Some(pull) = &wanted.pull {
        let pulls = |name: &String| pull.contains(name) || pull.iter().any(|name| name == ALL);
        let other = spec.members.iter().find(|member| pulls(&member.name) != (member.mode == Mode::Pull));
        if let Some(member) = other {
            bail!(
                "{} is in {:?} mode, and members cannot change their mode; use another --name",
                member.name,
                member.mode
            );
        }
    }
    if !is_running {
        reclaim(&mut spec, ports)?;
    }
    Ok(spec)
}

/// Returns the user's clusters that are not members yet.
fn added_clusters(
    spec: &Spec,
    wanted: &UpOptions,
    place: &TestbedDir,
) -> anyhow::Result<Vec<(String, Option<Source>)>> {
    let mut added = Vec::new();
    for (name, source) in &wanted.sources {
        if spec.provisioner != Kind::Kubeconfig {
            bail!(
                "--cluster {name}: this testbed starts its own members; add the cluster with `{}`, or use another --name",
                place.hint(&Hint::Join { name, kubeconfig: &source.kubeconfig })
            );
        }
        match spec.members.iter().find(|member| member.name == *name) {
            None => added.push((name.clone(), Some(source.clone()))),
            Some(member) if member.source.as_ref() == Some(source) => {}
            Some(_) => bail!(
                "--cluster {name}: the member exists with another kubeconfig; remove it first with `{}`",
                place.hint(&Hint::RemoveMember(name))
            ),
        }
    }
    Ok(added)
}

/// Checks the ports of a stopped testbed, which another program may use by now.
fn reclaim(spec: &mut Spec, ports: &mut Ports) -> anyhow::Result<()> {
    let mut public = vec![("the control plane".to_owned(), spec.plane_port)];
    public.extend(spec.registry_port.map(|port| ("the registry".to_owned(), port)));
    public.extend(spec.members.iter().map(|member| (format!("member {}", member.name), member.port)));
    public.extend(spec.manager.map(|manager| ("the manager".to_owned(), manager.port)));
    for (what, port) in public.into_iter().filter(|(_, port)| *port != 0) {
        if !ports.is_free(port) {
            bail!("port {port} of {what} is in use by another program; find it with `ss -tlpn | grep :{port}`");
        }
    }
    if let Some(host) = &mut spec.host {
        host_cluster::reclaim(host, ports)?;
    }
    if let Some(manager) = spec.manager.as_mut().filter(|manager| !ports.is_free(manager.member_port)) {
        manager.member_port = ports.any()?;
    }
    for member in &mut spec.members {
        for port in [&mut member.own_port, &mut member.agent_plane_port] {
            if *port != 0 && !ports.is_free(*port) {
                *port = ports.any().context("cannot find a port for a member")?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> TestbedDir {
        TestbedDir::find(Some("/beds".into()), "x").unwrap()
    }

    fn planned(existing: Option<Spec>, wanted: &UpOptions) -> anyhow::Result<Spec> {
        plan(existing, wanted, &mut Ports::pretending(|_| true), true, &place())
    }

    #[test]
    fn by_default_two_members_are_in_push_mode_and_one_in_pull_mode() {
        let spec = planned(None, &UpOptions::default()).unwrap();
        assert_eq!((spec.plane_port, spec.registry_port), (5443, Some(32000)));
        let members: Vec<_> =
            spec.members.iter().map(|member| (member.name.as_str(), member.mode, member.port)).collect();
        let expected = [("member1", Mode::Push, 16441), ("member2", Mode::Push, 16442), ("member3", Mode::Pull, 16444)];
        assert_eq!(members, expected);
        assert!(spec.members.iter().all(|member| member.own_port != 0 && member.own_port != member.port));
    }

    #[test]
    fn an_existing_testbed_keeps_its_settings_and_can_grow() {
        let first = planned(None, &UpOptions::default()).unwrap();
        assert_eq!(planned(Some(first.clone()), &UpOptions::default()).unwrap(), first);
        let grown =
            planned(Some(first.clone()), &UpOptions { members: Some(Members::Count(5)), ..UpOptions::default() })
                .unwrap();
        assert_eq!(grown.members[..3], first.members[..]);
        assert_eq!(grown.members.len(), 5);
        for wanted in [
            UpOptions { members: Some(Members::Count(2)), ..UpOptions::default() },
            UpOptions { plane_port: Some(6443), ..UpOptions::default() },
            UpOptions { provisioner: Some(Kind::Lxd), ..UpOptions::default() },
            UpOptions { machines: MachineSpec { microk8s: true, ..MachineSpec::default() }, ..UpOptions::default() },
            UpOptions { pull: Some(vec!["member1".into()]), ..UpOptions::default() },
        ] {
            assert!(planned(Some(first.clone()), &wanted).is_err(), "{wanted:?}");
        }
    }

    #[test]
    fn a_manager_is_added_once_and_keeps_its_port() {
        let first = planned(None, &UpOptions::default()).unwrap();
        assert_eq!(first.manager, None);
        let wanted = UpOptions { manager: true, ..UpOptions::default() };
        let with = planned(Some(first.clone()), &wanted).unwrap();
        assert_eq!(with.manager.map(|manager| manager.port), Some(MANAGER_PORT));
        assert_eq!(with.members, first.members);
        assert_eq!(planned(Some(with.clone()), &UpOptions::default()).unwrap(), with);
        let other = UpOptions { manager: true, manager_port: Some(7443), ..UpOptions::default() };
        assert!(planned(Some(with), &other).is_err());
        assert_eq!(planned(None, &other).unwrap().manager.map(|manager| manager.port), Some(7443));
    }

    fn cities() -> UpOptions {
        let members = Members::parse("ottawa,robbinsdale, stpetersburg").ok();
        UpOptions { members, pull: Some(vec![ALL.to_owned()]), ..UpOptions::default() }
    }

    #[test]
    fn members_have_the_given_names_and_can_all_be_in_pull_mode() {
        let spec = planned(None, &cities()).unwrap();
        let members: Vec<_> = spec.members.iter().map(|member| (member.name.as_str(), member.mode)).collect();
        assert_eq!(members, [("ottawa", Mode::Pull), ("robbinsdale", Mode::Pull), ("stpetersburg", Mode::Pull)]);
        assert_eq!(planned(Some(spec.clone()), &cities()).unwrap(), spec);
        let mode = |pull: Option<&str>| {
            let pull = pull.map(|name| vec![name.to_owned()]);
            planned(None, &UpOptions { pull, ..cities() }).unwrap().members[0].mode
        };
        assert_eq!((mode(None), mode(Some("ottawa")), mode(Some("robbinsdale"))), (Mode::Push, Mode::Pull, Mode::Push));
        let more = UpOptions { members: Members::parse("stpetersburg,berlin,ottawa,robbinsdale").ok(), ..cities() };
        let grown = planned(Some(spec.clone()), &more).unwrap();
        assert_eq!((&grown.members[..3], grown.members[3].name.as_str()), (&spec.members[..], "berlin"));
        let fewer = UpOptions { members: Members::parse("ottawa").ok(), ..cities() };
        assert!(planned(Some(spec), &fewer).unwrap_err().to_string().contains(
            "including robbinsdale; remove it with `flotilla remove-member robbinsdale --home /beds --name x`"
        ));
        let source = Source { kubeconfig: "/k".into(), context: None };
        assert!(planned(None, &UpOptions { sources: vec![("prod".into(), source)], ..cities() }).is_err());
        assert!(
            planned(None, &UpOptions { members: Members::parse("karmada,x").ok(), ..UpOptions::default() }).is_err()
        );
    }

    #[test]
    fn a_user_cluster_is_added_to_an_existing_testbed_or_refused() {
        let source = |file: &str| Source { kubeconfig: file.into(), context: None };
        let with = |clusters: &[(&str, &str)]| UpOptions {
            sources: clusters.iter().map(|(name, file)| ((*name).to_owned(), source(file))).collect(),
            ..UpOptions::default()
        };
        let first = planned(None, &with(&[("east", "/e")])).unwrap();
        let grown = planned(Some(first.clone()), &with(&[("west", "/w")])).unwrap();
        let names: Vec<&str> = grown.members.iter().map(|member| member.name.as_str()).collect();
        assert_eq!(names, ["east", "west"]);
        assert_eq!(planned(Some(first.clone()), &with(&[("east", "/e")])).unwrap(), first);
        let moved = planned(Some(first), &with(&[("east", "/other")])).unwrap_err().to_string();
        assert!(moved.contains("remove-member east --home /beds --name x"), "{moved}");
        for members in [0, 3] {
            let own = planned(None, &UpOptions { members: Some(Members::Count(members)), ..UpOptions::default() });
            let refused = planned(Some(own.unwrap()), &with(&[("east", "/e")])).unwrap_err().to_string();
            assert!(refused.contains("flotilla join east --cluster-kubeconfig /e"), "{refused}");
        }
    }

    #[test]
    fn an_added_member_is_like_the_others() {
        let first = planned(None, &UpOptions { nodes: Some(5), ..UpOptions::default() }).unwrap();
        let four = UpOptions { members: Some(Members::Count(4)), ..UpOptions::default() };
        assert_eq!(planned(Some(first), &four).unwrap().members[3].nodes, Some(5));
    }

    #[test]
    fn invalid_options_are_refused_before_anything_starts() {
        let bind = UpOptions { bind: Some([192, 0, 2, 1].into()), ..UpOptions::default() };
        let refused = planned(None, &bind).unwrap_err().to_string();
        assert_eq!(refused, "--bind 192.0.2.1: must be 127.0.0.1, or 0.0.0.0 for all addresses of this host");
        let containers = HostContainers::Unavailable("not installed: runc".into());
        let options = UpOptions { runtime: Some(RuntimeChoice::Containerd), containers, ..UpOptions::default() };
        let refused = planned(None, &options).unwrap_err().to_string();
        assert!(refused.starts_with("--runtime containerd: not installed: runc"), "{refused}");
        let first = planned(None, &UpOptions::default()).unwrap();
        let refused = planned(Some(first), &UpOptions { no_registry: true, ..UpOptions::default() }).unwrap_err();
        assert!(refused.to_string().contains("flotilla down --delete --home /beds --name x"), "{refused}");
    }

    #[test]
    fn a_testbed_keeps_its_runtime_until_another_is_requested() {
        let with = |runtime| UpOptions { runtime, containers: HostContainers::Available, ..UpOptions::default() };
        let runtimes = |spec: &Spec| -> Vec<Runtime> { spec.members.iter().map(MemberSpec::runtime).collect() };
        let first = planned(None, &with(None)).unwrap();
        assert_eq!(runtimes(&first), [Runtime::Containerd; 3]);
        let cidrs: Vec<_> = first.members.iter().filter_map(|member| member.pod_cidr.as_deref()).collect();
        assert!(cidrs.len() == 3 && cidrs[0] != cidrs[1] && cidrs[1] != cidrs[2], "{cidrs:?}");
        let simulated = planned(Some(first.clone()), &with(Some(RuntimeChoice::Simulated))).unwrap();
        assert_eq!(runtimes(&simulated), [Runtime::Simulated; 3]);
        for runtime in [None, Some(RuntimeChoice::Auto)] {
            assert_eq!(planned(Some(simulated.clone()), &with(runtime)).unwrap(), simulated);
            assert_eq!(planned(Some(first.clone()), &with(runtime)).unwrap(), first);
        }
        let more = UpOptions { members: Some(Members::Count(4)), ..with(None) };
        assert_eq!(runtimes(&planned(Some(first), &more).unwrap()), [Runtime::Containerd; 4]);
    }

    #[test]
    fn ports_listen_on_the_requested_address() {
        let all = UpOptions { bind: Some([0, 0, 0, 0].into()), ..UpOptions::default() };
        let spec = planned(None, &all).unwrap();
        let machine = spec.member_machine(&place(), std::path::Path::new("/f"), &spec.members[0]);
        assert_eq!(machine.forwards[0].listen.to_string(), "0.0.0.0:16441");
        assert!(spec.plane_machine(&place(), std::path::Path::new("/f")).command.contains(&"0.0.0.0:5443".to_owned()));
        assert_eq!(planned(Some(spec.clone()), &UpOptions::default()).unwrap(), spec);
    }

    #[test]
    fn members_are_a_number_or_names() {
        assert_eq!(Members::parse("4"), Ok(Members::Count(4)));
        assert_eq!(Members::parse("east"), Ok(Members::Named(vec!["east".into()])));
        for bad in ["", "a,,b", "a,b,a", "-1,"] {
            assert!(Members::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn user_clusters_need_no_ports() {
        let source = Source { kubeconfig: "/k".into(), context: None };
        let wanted = UpOptions { sources: vec![("prod".into(), source)], ..UpOptions::default() };
        let spec = planned(None, &wanted).unwrap();
        assert_eq!((spec.provisioner, spec.members[0].port, spec.members[0].own_port), (Kind::Kubeconfig, 0, 0));
        assert!(planned(None, &UpOptions { provisioner: Some(Kind::Kubeconfig), ..UpOptions::default() }).is_err());
    }

    #[test]
    fn machine_settings_require_system_containers() {
        let machines = MachineSpec { memory: Some("1GiB".into()), ..MachineSpec::default() };
        let wanted = UpOptions { machines: machines.clone(), ..UpOptions::default() };
        assert!(planned(None, &wanted).unwrap_err().to_string().contains("--provisioner lxd"));
        let wanted = UpOptions { provisioner: Some(Kind::Lxd), ..wanted };
        let spec = planned(None, &wanted).unwrap();
        assert_eq!(spec.machines, machines);
        assert_eq!(planned(Some(spec.clone()), &UpOptions::default()).unwrap(), spec);
    }

    #[test]
    fn only_members_can_be_in_pull_mode() {
        let wanted = UpOptions { pull: Some(vec!["member9".into()]), ..UpOptions::default() };
        assert_eq!(
            planned(None, &wanted).unwrap_err().to_string(),
            "--pull member9: no such member; the members are member1, member2, member3"
        );
        let none = UpOptions { pull: Some(vec![String::new()]), ..UpOptions::default() };
        assert!(planned(None, &none).unwrap().members.iter().all(|member| member.mode == Mode::Push));
    }

    #[test]
    fn internal_ports_move_when_in_use_and_public_ports_do_not() {
        let first = planned(None, &UpOptions::default()).unwrap();
        let mut ports = Ports::pretending(|port| port < 20000 || port == 32000 || port == 25000);
        let mut spec = first.clone();
        spec.members.truncate(1);
        let moved = plan(Some(spec), &UpOptions::default(), &mut ports, false, &place()).unwrap();
        assert_eq!(moved.members[0].own_port, 25000);
        let mut ports = Ports::pretending(|port| port != 16441);
        let refused = plan(Some(first), &UpOptions::default(), &mut ports, false, &place()).unwrap_err();
        assert!(refused.to_string().starts_with("port 16441 of member member1 is in use"), "{refused}");
    }
}
