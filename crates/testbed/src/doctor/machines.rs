//! The parts of a testbed: its supervisor, and every process or container in it.

use std::path::PathBuf;

use async_trait::async_trait;
use provisioners::Condition;
use provisioners::lxd::{LxdSettings, MACHINE_LOG};

use super::causes::SUPERVISOR;
use super::subject::Hints;
use super::{Check, DoctorSubject, Evidence, Finding, Layer, Severity, broken};
use crate::bed::Testbed;
use crate::faults;
use crate::hint::{Hint, quoted};
use crate::host_cluster::{self, HOST};
use crate::place::{PLANE, REGISTRY, agent_of};
use crate::spec::{Mode, Spec};
use crate::supervisor::client::SupervisorClient;

/// Number of log lines that are quoted to explain an exit.
const LOG_LINES: usize = 3;

#[derive(Debug, Default)]
pub struct Seen {
    /// `None` where nothing is supervised: a control plane that is not a testbed's.
    pub supervised: Option<Result<(), String>>,
    pub machines: Vec<MachineSeen>,
    /// Members with a fault switched on, and which.
    pub faults: Vec<(String, String)>,
}

#[derive(Debug)]
pub struct MachineSeen {
    pub name: String,
    pub is_member: bool,
    pub condition: Result<Condition, String>,
    /// The reason of its last exit, and the last lines of its log.
    pub last_words: String,
}

pub struct Machines;

#[async_trait]
impl Check for Machines {
    fn layer(&self) -> Layer {
        Layer::Machines
    }

    async fn gather(&self, subject: &DoctorSubject) -> Evidence {
        let Some((place, spec)) = subject.bed() else { return Evidence::NotApplicable(Layer::Machines) };
        let supervisor = match SupervisorClient::find(place).await {
            Ok(Some(supervisor)) => supervisor,
            Ok(None) => return Evidence::Machines(unsupervised("its supervisor does not run")),
            Err(error) => return Evidence::Machines(unsupervised(&format!("{error:#}"))),
        };
        let machines = match Testbed::new(place, spec.clone(), supervisor).await {
            Ok(bed) => gather_machines(&bed).await,
            Err(error) => return Evidence::Machines(unsupervised(&format!("{error:#}"))),
        };
        let faults = faults::load(place).ok();
        let of = |member: &str| {
            let faults = faults.iter().flat_map(|faults| faults.of(member).into_iter().map(ToString::to_string));
            faults.map(|fault| (member.to_owned(), fault)).collect::<Vec<_>>()
        };
        let faults = spec.members.iter().flat_map(|member| of(&member.name)).collect();
        Evidence::Machines(Seen { supervised: Some(Ok(())), machines, faults })
    }
}

fn unsupervised(why: &str) -> Seen {
    Seen { supervised: Some(Err(why.to_owned())), ..Seen::default() }
}

async fn gather_machines(bed: &Testbed) -> Vec<MachineSeen> {
    let reports = bed.supervisor.reports().await.unwrap_or_default();
    let mut seen = Vec::new();
    for (name, is_member) in names(&bed.spec) {
        let report = reports.iter().find(|report| report.name == name);
        let condition = match report {
            Some(report) => Ok(report.condition),
            None if is_member => bed.members.condition(&name).await.map_err(|error| error.to_string()),
            None => Ok(Condition::Missing),
        };
        let end = report.and_then(|report| report.last_end.clone()).unwrap_or_default();
        let mut said = last_lines(&std::fs::read(bed.place.log_of(&name)).unwrap_or_default());
        if report.is_none() && is_member && !matches!(condition, Ok(Condition::Running | Condition::Missing)) {
            said = last_lines(&bed.members.read_file(&name, MACHINE_LOG).await.unwrap_or_default());
        }
        let last_words = [end, said].into_iter().filter(|text| !text.is_empty());
        seen.push(MachineSeen { last_words: last_words.collect::<Vec<_>>().join("; "), name, is_member, condition });
    }
    seen.extend(gather_pods(bed).await);
    seen
}

/// The control plane and the agents, where they are pods.
async fn gather_pods(bed: &Testbed) -> Vec<MachineSeen> {
    if bed.spec.host.is_none() {
        return Vec::new();
    }
    let mut states = vec![(PLANE.to_owned(), host_cluster::plane_state(bed).await)];
    for member in &bed.spec.members {
        states.push((agent_of(&member.name), host_cluster::agent_state(bed, &member.name).await));
    }
    let seen = states.into_iter().map(|(name, state)| MachineSeen {
        name,
        is_member: false,
        condition: Ok(state.condition()),
        last_words: state.describe(),
    });
    seen.collect()
}

/// Every process or container there should be, and whether it is a member.
fn names(spec: &Spec) -> Vec<(String, bool)> {
    let plane = if spec.host.is_some() { HOST } else { PLANE };
    let mut names = vec![(plane.to_owned(), false)];
    names.extend(spec.registry_port.map(|_| (REGISTRY.to_owned(), false)));
    for member in &spec.members {
        names.push((member.name.clone(), true));
        names.extend((member.mode == Mode::Pull && spec.host.is_none()).then(|| (agent_of(&member.name), false)));
    }
    names
}

fn last_lines(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(&text[text.len().saturating_sub(4096)..]).into_owned();
    // Other lines say what the process did while it was healthy.
    let is_problem = |line: &&str| ["WARN", "ERROR", "error:", "panicked"].iter().any(|mark| line.contains(mark));
    let lines: Vec<&str> = text.lines().filter(is_problem).collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join(" | ")
}

pub fn judge(seen: &Seen, hints: &Hints) -> Vec<Finding> {
    if let Some(Err(why)) = &seen.supervised {
        let what = "the testbed is not running";
        return vec![broken(Layer::Machines, SUPERVISOR, what, why.clone(), hints.flotilla(&Hint::Up))];
    }
    let mut findings: Vec<Finding> = seen.machines.iter().filter_map(|machine| judge_machine(machine, hints)).collect();
    findings.extend(seen.faults.iter().map(|(member, fault)| Finding {
        severity: Severity::Note,
        ..broken(
            Layer::Machines,
            member,
            format!("the fault {fault} is active"),
            "the command fault requested it",
            hints.flotilla(&Hint::Fault { member, fault: "heal" }),
        )
    }));
    findings
}

fn judge_machine(machine: &MachineSeen, hints: &Hints) -> Option<Finding> {
    let start = if machine.is_member { hints.flotilla(&Hint::Start(&machine.name)) } else { hints.flotilla(&Hint::Up) };
    let (what, why, command) = match &machine.condition {
        Ok(Condition::Running) => return None,
        Ok(Condition::Stopped) => ("is stopped", "it was stopped, or its process exited: ", start),
        Ok(Condition::Missing) => {
            ("does not exist", "it was never started, or it was removed", hints.flotilla(&Hint::Up))
        }
        Ok(Condition::Failing) => ("keeps exiting", "its log has: ", log_command(machine, hints)),
        Err(error) => {
            let (why, hint) = (error.clone(), if hints.is_lxd { Hint::PrepareLxd } else { Hint::Up });
            let command = hints.flotilla(&hint);
            return Some(broken(Layer::Machines, &machine.name, "cannot be examined", why, command));
        }
    };
    let why = format!("{why}{}", machine.last_words);
    Some(broken(Layer::Machines, &machine.name, what, why.trim().trim_end_matches(':'), command))
}

fn log_command(machine: &MachineSeen, hints: &Hints) -> String {
    let Some(place) = &hints.place else { return String::new() };
    if hints.is_lxd && machine.is_member {
        let instance = LxdSettings::new(place.name(), PathBuf::new()).instance(&machine.name);
        return format!("lxc exec {instance} -- tail -n 50 {MACHINE_LOG}");
    }
    format!("tail -n 50 {}", quoted(&place.log_of(&machine.name)))
}
