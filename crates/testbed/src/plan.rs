//! What a testbed is to be, out of what it is and what was typed.

use anyhow::{Context, bail};

use crate::ports::{PLANE_PORT, Ports, REGISTRY_PORT};
use crate::spec::{Kind, MEMBERS_MAX, MachineSpec, MemberSpec, Mode, Source, Spec, check_member_name};

const MEMBERS: usize = 3;
/// Pulls unless something else was said, as the one the plane is not to reach.
const PULLING: &str = "member3";

/// Who pulls when all are to.
const ALL: &str = "all";

/// Which members there are to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Members {
    /// This many: member1, member2, …
    Count(usize),
    Named(Vec<String>),
}

impl Members {
    /// A number, or names.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Ok(count) = text.parse() {
            return Ok(Self::Count(count));
        }
        let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
        let twice = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name));
        match (names.iter().any(String::is_empty), twice) {
            (true, _) => Err("say a number, or names with commas between them".to_owned()),
            (_, Some((_, name))) => Err(format!("{name} is named twice")),
            _ => Ok(Self::Named(names)),
        }
    }

    /// Their names, beside those that are there already.
    fn names(&self, present: &[String]) -> Vec<String> {
        match self {
            Self::Count(count) => (present.len() + 1..=*count).map(|number| format!("member{number}")).collect(),
            Self::Named(names) => names.iter().filter(|name| !present.contains(name)).cloned().collect(),
        }
    }

    /// One that is there and not among these.
    fn is_without<'a>(&self, present: &'a [String]) -> Option<&'a String> {
        match self {
            Self::Count(count) => present.get(*count),
            Self::Named(names) => present.iter().find(|name| !names.contains(name)),
        }
    }
}

/// What was typed after `up`; `None` is nothing.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub members: Option<Members>,
    pub pull: Option<Vec<String>>,
    pub nodes: Option<u32>,
    pub runtime: Option<String>,
    pub kubernetes_version: Option<String>,
    pub provisioner: Option<Kind>,
    /// Clusters of the user, by the names they get.
    pub sources: Vec<(String, Source)>,
    pub plane_port: Option<u16>,
    pub registry_port: Option<u16>,
    pub no_registry: bool,
    /// Of the first member; the others follow.
    pub member_port: Option<u16>,
    /// Of members in system containers.
    pub machines: MachineSpec,
}

/// The spec to bring about. `ports` knows what is free; `is_running` is whether the testbed's own ports are held by
/// itself.
pub fn plan(existing: Option<Spec>, wanted: &Wanted, ports: &mut Ports, is_running: bool) -> anyhow::Result<Spec> {
    let mut spec = match existing {
        Some(spec) => changed(spec, wanted, ports, is_running)?,
        None => fresh(wanted, ports)?,
    };
    for member in &mut spec.members {
        if wanted.nodes.is_some() {
            member.nodes = wanted.nodes;
        }
        if wanted.runtime.is_some() {
            member.runtime.clone_from(&wanted.runtime);
        }
        if wanted.kubernetes_version.is_some() {
            member.kubernetes_version.clone_from(&wanted.kubernetes_version);
        }
    }
    Ok(spec)
}

fn fresh(wanted: &Wanted, ports: &mut Ports) -> anyhow::Result<Spec> {
    let provisioner = match wanted.provisioner {
        Some(kind) => kind,
        None if wanted.sources.is_empty() => Kind::Process,
        None => Kind::Kubeconfig,
    };
    if (provisioner == Kind::Kubeconfig) == wanted.sources.is_empty() {
        bail!("--provisioner kubeconfig goes with --cluster NAME=FILE[:CONTEXT], once for each cluster of yours");
    }
    refuse_second_names(wanted)?;
    let registry_port = match wanted.no_registry {
        true => None,
        false => Some(ports.choose(wanted.registry_port, REGISTRY_PORT, "the registry")?),
    };
    let plane_port = ports.choose(wanted.plane_port, PLANE_PORT, "the control plane")?;
    if provisioner != Kind::Lxd && wanted.machines != MachineSpec::default() {
        bail!("--image, --microk8s, --cpu and --memory are for members in system containers: --provisioner lxd");
    }
    let machines = wanted.machines.clone();
    let mut spec = Spec { plane_port, registry_port, provisioner, members: Vec::new(), machines };
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
        bail!("{} members are too many for one testbed; {MEMBERS_MAX} are the most", spec.members.len());
    }
    Ok(())
}

/// Clusters of the user have the names they were given with --cluster.
fn refuse_second_names(wanted: &Wanted) -> anyhow::Result<()> {
    if !wanted.sources.is_empty() && matches!(wanted.members, Some(Members::Named(_))) {
        bail!("--members with names: with --cluster NAME=FILE[:CONTEXT] the members have their names already");
    }
    Ok(())
}

fn new_member(
    wanted: &Wanted,
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
        kubernetes_version: None,
        source,
        name,
    })
}

fn check_pulling<'a>(wanted: &Wanted, names: impl Iterator<Item = &'a str>) -> anyhow::Result<()> {
    let names: Vec<&str> = names.collect();
    let mut pulling = wanted.pull.iter().flatten().filter(|name| !name.is_empty() && *name != ALL);
    let stranger = pulling.find(|name| !names.contains(&name.as_str()));
    match stranger {
        Some(name) => bail!("--pull {name}: there will be no such member; there will be {}", names.join(", ")),
        None => Ok(()),
    }
}

/// A testbed that is there keeps what it has. It may get more members; ports nobody sees move where they are taken.
fn changed(mut spec: Spec, wanted: &Wanted, ports: &mut Ports, is_running: bool) -> anyhow::Result<Spec> {
    let differs =
        |asked: Option<u16>, present: Option<u16>| asked.is_some_and(|port| port != 0 && Some(port) != present);
    let first = spec.members.first().map(|member| member.port);
    let moves = [
        ("--port", differs(wanted.plane_port, Some(spec.plane_port))),
        ("--registry-port", differs(wanted.registry_port, spec.registry_port)),
        ("--member-port", differs(wanted.member_port, first)),
        ("--provisioner", wanted.provisioner.is_some_and(|kind| kind != spec.provisioner)),
        ("--image", wanted.machines != MachineSpec::default() && wanted.machines != spec.machines),
    ];
    if let Some((flag, _)) = moves.iter().find(|(_, differs)| *differs) {
        bail!("{flag}: the testbed is there with another one; `flotilla down --delete` first, or use another --name");
    }
    let names: Vec<String> = spec.members.iter().map(|member| member.name.clone()).collect();
    refuse_second_names(wanted)?;
    if let Some(name) = wanted.members.as_ref().and_then(|members| members.is_without(&names)) {
        bail!(
            "the testbed has {} members, {name} among them; take one out with `flotilla unjoin` and `flotilla stop`",
            names.len()
        );
    }
    let mut new: Vec<(String, Option<Source>)> =
        wanted.sources.iter().skip(names.len()).map(|(name, source)| (name.clone(), Some(source.clone()))).collect();
    if let Some(members) = &wanted.members {
        let present: Vec<String> = names.iter().chain(new.iter().map(|(name, _)| name)).cloned().collect();
        new.extend(members.names(&present).into_iter().map(|name| (name, None)));
    }
    for (name, source) in new {
        let index = spec.members.len();
        spec.members.push(new_member(wanted, ports, index, name, source)?);
    }
    refuse_too_many(&spec)?;
    check_pulling(wanted, spec.members.iter().map(|member| member.name.as_str()))?;
    if let Some(pull) = &wanted.pull {
        let pulls = |name: &String| pull.contains(name) || pull.iter().any(|name| name == ALL);
        let other = spec.members.iter().find(|member| pulls(&member.name) != (member.mode == Mode::Pull));
        if let Some(member) = other {
            bail!(
                "{} is there in {:?} mode, and members do not change it; use another --name",
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

/// Ports of a testbed that does not run may have been taken meanwhile.
fn reclaim(spec: &mut Spec, ports: &mut Ports) -> anyhow::Result<()> {
    let mut public = vec![("the control plane".to_owned(), spec.plane_port)];
    public.extend(spec.registry_port.map(|port| ("the registry".to_owned(), port)));
    public.extend(spec.members.iter().map(|member| (format!("member {}", member.name), member.port)));
    for (what, port) in public.into_iter().filter(|(_, port)| *port != 0) {
        if !ports.is_free(port) {
            bail!("port {port} of {what} was taken meanwhile; see by whom with `ss -tlpn | grep :{port}`");
        }
    }
    for member in &mut spec.members {
        for port in [&mut member.own_port, &mut member.agent_plane_port] {
            if *port != 0 && !ports.is_free(*port) {
                *port = ports.any().context("a port for a member")?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(existing: Option<Spec>, wanted: &Wanted) -> anyhow::Result<Spec> {
        plan(existing, wanted, &mut Ports::pretending(|_| true), true)
    }

    #[test]
    fn without_a_word_there_are_two_members_to_push_to_and_one_that_pulls() {
        let spec = planned(None, &Wanted::default()).unwrap();
        assert_eq!((spec.plane_port, spec.registry_port), (5443, Some(32000)));
        let members: Vec<_> =
            spec.members.iter().map(|member| (member.name.as_str(), member.mode, member.port)).collect();
        let expected = [("member1", Mode::Push, 16441), ("member2", Mode::Push, 16442), ("member3", Mode::Pull, 16444)];
        assert_eq!(members, expected);
        assert!(spec.members.iter().all(|member| member.own_port != 0 && member.own_port != member.port));
    }

    #[test]
    fn a_testbed_that_is_there_keeps_everything_and_may_grow() {
        let first = planned(None, &Wanted::default()).unwrap();
        assert_eq!(planned(Some(first.clone()), &Wanted::default()).unwrap(), first);
        let grown =
            planned(Some(first.clone()), &Wanted { members: Some(Members::Count(5)), ..Wanted::default() }).unwrap();
        assert_eq!(grown.members[..3], first.members[..]);
        assert_eq!(grown.members.len(), 5);
        for wanted in [
            Wanted { members: Some(Members::Count(2)), ..Wanted::default() },
            Wanted { plane_port: Some(6443), ..Wanted::default() },
            Wanted { provisioner: Some(Kind::Lxd), ..Wanted::default() },
            Wanted { machines: MachineSpec { microk8s: true, ..MachineSpec::default() }, ..Wanted::default() },
            Wanted { pull: Some(vec!["member1".into()]), ..Wanted::default() },
        ] {
            assert!(planned(Some(first.clone()), &wanted).is_err(), "{wanted:?}");
        }
    }

    fn cities() -> Wanted {
        let members = Members::parse("ottawa,robbinsdale, stpetersburg").ok();
        Wanted { members, pull: Some(vec![ALL.to_owned()]), ..Wanted::default() }
    }

    #[test]
    fn members_have_the_names_they_are_given_and_may_all_pull() {
        let spec = planned(None, &cities()).unwrap();
        let members: Vec<_> = spec.members.iter().map(|member| (member.name.as_str(), member.mode)).collect();
        assert_eq!(members, [("ottawa", Mode::Pull), ("robbinsdale", Mode::Pull), ("stpetersburg", Mode::Pull)]);
        assert_eq!(planned(Some(spec.clone()), &cities()).unwrap(), spec);
        let mode = |pull: Option<&str>| {
            let pull = pull.map(|name| vec![name.to_owned()]);
            planned(None, &Wanted { pull, ..cities() }).unwrap().members[0].mode
        };
        assert_eq!((mode(None), mode(Some("ottawa")), mode(Some("robbinsdale"))), (Mode::Push, Mode::Pull, Mode::Push));
        let more = Wanted { members: Members::parse("stpetersburg,berlin,ottawa,robbinsdale").ok(), ..cities() };
        let grown = planned(Some(spec.clone()), &more).unwrap();
        assert_eq!((&grown.members[..3], grown.members[3].name.as_str()), (&spec.members[..], "berlin"));
        let fewer = Wanted { members: Members::parse("ottawa").ok(), ..cities() };
        assert!(planned(Some(spec), &fewer).unwrap_err().to_string().contains("robbinsdale among them"));
        let source = Source { kubeconfig: "/k".into(), context: None };
        assert!(planned(None, &Wanted { sources: vec![("prod".into(), source)], ..cities() }).is_err());
        assert!(planned(None, &Wanted { members: Members::parse("karmada,x").ok(), ..Wanted::default() }).is_err());
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
    fn clusters_of_the_user_need_no_ports() {
        let source = Source { kubeconfig: "/k".into(), context: None };
        let wanted = Wanted { sources: vec![("prod".into(), source)], ..Wanted::default() };
        let spec = planned(None, &wanted).unwrap();
        assert_eq!((spec.provisioner, spec.members[0].port, spec.members[0].own_port), (Kind::Kubeconfig, 0, 0));
        assert!(planned(None, &Wanted { provisioner: Some(Kind::Kubeconfig), ..Wanted::default() }).is_err());
    }

    #[test]
    fn machines_are_chosen_for_system_containers_only() {
        let machines = MachineSpec { memory: Some("1GiB".into()), ..MachineSpec::default() };
        let wanted = Wanted { machines: machines.clone(), ..Wanted::default() };
        assert!(planned(None, &wanted).unwrap_err().to_string().contains("--provisioner lxd"));
        let wanted = Wanted { provisioner: Some(Kind::Lxd), ..wanted };
        let spec = planned(None, &wanted).unwrap();
        assert_eq!(spec.machines, machines);
        assert_eq!(planned(Some(spec.clone()), &Wanted::default()).unwrap(), spec);
    }

    #[test]
    fn only_members_can_pull() {
        let wanted = Wanted { pull: Some(vec!["member9".into()]), ..Wanted::default() };
        assert_eq!(
            planned(None, &wanted).unwrap_err().to_string(),
            "--pull member9: there will be no such member; there will be member1, member2, member3"
        );
        let nobody = Wanted { pull: Some(vec![String::new()]), ..Wanted::default() };
        assert!(planned(None, &nobody).unwrap().members.iter().all(|member| member.mode == Mode::Push));
    }

    #[test]
    fn hidden_ports_move_when_they_are_taken_and_visible_ones_do_not() {
        let first = planned(None, &Wanted::default()).unwrap();
        let mut ports = Ports::pretending(|port| port < 20000 || port == 32000 || port == 25000);
        let mut spec = first.clone();
        spec.members.truncate(1);
        let moved = plan(Some(spec), &Wanted::default(), &mut ports, false).unwrap();
        assert_eq!(moved.members[0].own_port, 25000);
        let mut ports = Ports::pretending(|port| port != 16441);
        let refused = plan(Some(first), &Wanted::default(), &mut ports, false).unwrap_err();
        assert!(refused.to_string().starts_with("port 16441 of member member1 was taken"), "{refused}");
    }
}
