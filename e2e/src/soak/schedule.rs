//! The schedule of a run: a pure function of the seed, stored so that it can be repeated.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::chance::Chance;
use crate::faults::Fault;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    Embedded,
    /// Three replicas on three nodes.
    Etcd,
}

/// The parameters of a run; the first line of its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub seed: u64,
    pub seconds: u64,
    pub engine: Engine,
    /// With members and propagation, or only API clients.
    pub has_members: bool,
    /// Adds a member of real Kubernetes.
    pub has_real_member: bool,
    /// Toleration of workloads for an unreachable member.
    pub toleration_seconds: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub at_ms: u64,
    pub action: Action,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    Fault { target: String, fault: Fault, for_ms: u64 },
    User(Deed),
}

/// A user action. Numbers identify templates, policies and placements; see `users.rs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deed {
    Write { template: u64, replicas: u64 },
    Delete { template: u64 },
    Place { policy: u64, placement: u64 },
    Override { policy: u64, cluster: u64 },
    DropOverride { policy: u64 },
    Cordon { cluster: u64 },
    Uncordon { cluster: u64 },
    Taint { cluster: u64 },
    Untaint { cluster: u64 },
    Unjoin { cluster: u64 },
    Join { cluster: u64 },
}

pub const TEMPLATES: u64 = 24;
pub const POLICIES: u64 = 4;
pub const PLACEMENTS: u64 = 5;
/// Members 0 and 1 are in push mode, 2 in pull mode; a real one is 3.
pub const LIGHT_MEMBERS: u64 = 3;
/// The only member that users unjoin and rejoin.
pub const LEAVING: u64 = 1;

/// Names of the fault targets.
pub fn targets(plan: &Plan) -> Vec<String> {
    let mut names = Vec::new();
    match plan.engine {
        Engine::Embedded => names.push("plane-0".to_owned()),
        Engine::Etcd => {
            names.extend((0..3).map(|number| format!("plane-{number}")));
            names.extend((0..3).map(|number| format!("etcd-{number}")));
        }
    }
    if plan.has_members {
        names.extend((0..LIGHT_MEMBERS).map(|number| format!("member-{number}")));
        names.push("agent".to_owned());
        if plan.has_real_member {
            names.push(format!("member-{LIGHT_MEMBERS}"));
        }
    }
    names
}

pub fn draw(plan: &Plan) -> Vec<Step> {
    let mut steps = draw_faults(plan);
    if plan.has_members {
        steps.extend(draw_deeds(plan));
    }
    steps.sort_by_key(|step| step.at_ms);
    steps
}

fn draw_faults(plan: &Plan) -> Vec<Step> {
    let mut chance = Chance::new(plan.seed, 1);
    let (names, end) = (targets(plan), plan.seconds * 1000);
    let mut steps = Vec::new();
    let mut at_ms = 2000;
    while at_ms + 1000 < end {
        let target = chance.pick(&names).clone();
        let fault = draw_fault(plan, &target, &mut chance);
        let longest = match fault {
            Fault::Kill => 4000,
            _ => 14_000,
        };
        let for_ms = chance.between(200, longest).min(end - at_ms);
        steps.push(Step { at_ms, action: Action::Fault { target, fault, for_ms } });
        // Mostly one at a time, sometimes several at once.
        let pause = chance.between(500, 5000);
        at_ms += if chance.percent(70) { for_ms + pause } else { pause };
    }
    steps
}

fn draw_fault(plan: &Plan, target: &str, chance: &mut Chance) -> Fault {
    let seconds = *chance.pick(&[-7200, -3600, -40, -5, 5, 40, 3600, 7200]);
    let clock = Fault::Clock { seconds };
    let slow_disk = Fault::SlowDisk { ms: chance.between(20, 1500) };
    let slow_network = Fault::SlowNetwork { ms: chance.between(20, 400) };
    let (kill, pause) = (Fault::Kill, Fault::Pause);
    let menu: Vec<Fault> = match target.split('-').next().unwrap_or_default() {
        "plane" if plan.engine == Engine::Embedded => {
            vec![kill, kill, kill, pause, slow_disk, Fault::FullDisk, Fault::BrokenDisk, clock]
        }
        "plane" => vec![kill, kill, pause, pause, clock, Fault::Silence, Fault::Reset, slow_network],
        "etcd" => vec![kill, kill, pause],
        "agent" => vec![kill, pause, clock],
        _ if target == format!("member-{LIGHT_MEMBERS}") => vec![kill, pause],
        _ => vec![kill, pause, Fault::Partition, Fault::Unplug, slow_disk, Fault::FullDisk, clock],
    };
    *chance.pick(&menu)
}

fn draw_deeds(plan: &Plan) -> Vec<Step> {
    let mut chance = Chance::new(plan.seed, 2);
    let end = plan.seconds * 1000;
    let mut steps = Vec::new();
    let mut has_left = false;
    let mut at_ms = 500;
    while at_ms < end {
        let deed = draw_deed(&mut chance, &mut has_left);
        steps.push(Step { at_ms, action: Action::User(deed) });
        at_ms += chance.between(50, 900);
    }
    // Reverts actions that would prevent convergence.
    let undo = (0..LIGHT_MEMBERS).flat_map(|cluster| [Deed::Uncordon { cluster }, Deed::Untaint { cluster }]);
    let back = has_left.then_some(Deed::Join { cluster: LEAVING });
    steps.extend(undo.chain(back).map(|deed| Step { at_ms: end, action: Action::User(deed) }));
    steps
}

fn draw_deed(chance: &mut Chance, has_left: &mut bool) -> Deed {
    let template = chance.between(0, TEMPLATES);
    let policy = chance.between(0, POLICIES);
    let cluster = chance.between(0, LIGHT_MEMBERS);
    match chance.between(0, 100) {
        0..=54 => Deed::Write { template, replicas: chance.between(0, 9) },
        55..=66 => Deed::Delete { template },
        67..=76 => Deed::Place { policy, placement: chance.between(0, PLACEMENTS) },
        77..=82 => Deed::Override { policy, cluster },
        83..=85 => Deed::DropOverride { policy },
        86..=88 => Deed::Cordon { cluster },
        89..=91 => Deed::Uncordon { cluster },
        92..=93 => Deed::Taint { cluster },
        94..=96 => Deed::Untaint { cluster },
        _ => {
            *has_left = !*has_left;
            if *has_left { Deed::Unjoin { cluster: LEAVING } } else { Deed::Join { cluster: LEAVING } }
        }
    }
}

pub fn write(path: &Path, plan: &Plan, steps: &[Step]) -> std::io::Result<()> {
    let first = serde_json::to_string(plan).map_err(std::io::Error::other)?;
    let lines = steps.iter().map(|step| serde_json::to_string(step).map_err(std::io::Error::other));
    let lines: Vec<String> = std::iter::once(Ok(first)).chain(lines).collect::<Result<_, _>>()?;
    std::fs::write(path, lines.join("\n") + "\n")
}

pub fn read(path: &Path) -> std::io::Result<(Plan, Vec<Step>)> {
    let text = std::fs::read_to_string(path)?;
    let mut lines = text.lines();
    let plan = serde_json::from_str(lines.next().unwrap_or_default()).map_err(std::io::Error::other)?;
    let steps = lines.map(|line| serde_json::from_str(line).map_err(std::io::Error::other));
    Ok((plan, steps.collect::<Result<_, _>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(engine: Engine) -> Plan {
        Plan { seed: 7, seconds: 120, engine, has_members: true, has_real_member: true, toleration_seconds: 300 }
    }

    #[test]
    fn a_schedule_depends_only_on_the_seed_and_round_trips() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        for engine in [Engine::Embedded, Engine::Etcd] {
            let plan = plan(engine);
            let steps = draw(&plan);
            assert_eq!(steps, draw(&plan));
            assert_ne!(steps, draw(&Plan { seed: 8, ..plan.clone() }));
            let file = folder.path().join("schedule.jsonl");
            write(&file, &plan, &steps).expect("written");
            assert_eq!(read(&file).expect("read"), (plan, steps));
        }
    }

    #[test]
    fn every_target_and_every_kind_of_action_occurs() {
        let plan = Plan { seconds: 3600, ..plan(Engine::Etcd) };
        let steps = draw(&plan);
        let text = format!("{steps:?}");
        for target in targets(&plan) {
            assert!(text.contains(&format!("{target:?}")), "{target}");
        }
        for word in
            ["Kill", "Pause", "Partition", "Unplug", "SlowDisk", "FullDisk", "Clock", "Silence", "Reset", "Unjoin"]
        {
            assert!(text.contains(word), "{word}");
        }
        assert!(steps.iter().all(|step| step.at_ms <= plan.seconds * 1000));
    }
}
