//! The schedule of a run: a pure function of the seed, stored so that it can be repeated.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::random::SeededRandom;
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
pub struct SoakPlan {
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
pub struct ScheduledStep {
    pub at_ms: u64,
    pub action: Action,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    Fault { target: String, fault: Fault, for_ms: u64 },
    User(UserAction),
}

/// A user action. Numbers identify templates, policies and placements; see `users.rs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UserAction {
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
pub fn targets(plan: &SoakPlan) -> Vec<String> {
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

pub fn draw(plan: &SoakPlan) -> Vec<ScheduledStep> {
    let mut steps = draw_faults(plan);
    if plan.has_members {
        steps.extend(draw_deeds(plan));
    }
    steps.sort_by_key(|step| step.at_ms);
    steps
}

fn draw_faults(plan: &SoakPlan) -> Vec<ScheduledStep> {
    let mut random = SeededRandom::new(plan.seed, 1);
    let (names, end) = (targets(plan), plan.seconds * 1000);
    let mut steps = Vec::new();
    let mut at_ms = 2000;
    while at_ms + 1000 < end {
        let target = random.pick(&names).clone();
        let fault = draw_fault(plan, &target, &mut random);
        let longest = match fault {
            Fault::Kill => 4000,
            _ => 14_000,
        };
        let for_ms = random.between(200, longest).min(end - at_ms);
        steps.push(ScheduledStep { at_ms, action: Action::Fault { target, fault, for_ms } });
        // Mostly one at a time, sometimes several at once.
        let pause = random.between(500, 5000);
        at_ms += if random.percent(70) { for_ms + pause } else { pause };
    }
    steps
}

fn draw_fault(plan: &SoakPlan, target: &str, random: &mut SeededRandom) -> Fault {
    let seconds = *random.pick(&[-7200, -3600, -40, -5, 5, 40, 3600, 7200]);
    let clock = Fault::Clock { seconds };
    let slow_disk = Fault::SlowDisk { ms: random.between(20, 1500) };
    let slow_network = Fault::SlowNetwork { ms: random.between(20, 400) };
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
    *random.pick(&menu)
}

fn draw_deeds(plan: &SoakPlan) -> Vec<ScheduledStep> {
    let mut random = SeededRandom::new(plan.seed, 2);
    let end = plan.seconds * 1000;
    let mut steps = Vec::new();
    let mut has_left = false;
    let mut at_ms = 500;
    while at_ms < end {
        let action = draw_deed(&mut random, &mut has_left);
        steps.push(ScheduledStep { at_ms, action: Action::User(action) });
        at_ms += random.between(50, 900);
    }
    // Reverts actions that would prevent convergence.
    let undo =
        (0..LIGHT_MEMBERS).flat_map(|cluster| [UserAction::Uncordon { cluster }, UserAction::Untaint { cluster }]);
    let back = has_left.then_some(UserAction::Join { cluster: LEAVING });
    steps.extend(undo.chain(back).map(|action| ScheduledStep { at_ms: end, action: Action::User(action) }));
    steps
}

fn draw_deed(random: &mut SeededRandom, has_left: &mut bool) -> UserAction {
    let template = random.between(0, TEMPLATES);
    let policy = random.between(0, POLICIES);
    let cluster = random.between(0, LIGHT_MEMBERS);
    match random.between(0, 100) {
        0..=54 => UserAction::Write { template, replicas: random.between(0, 9) },
        55..=66 => UserAction::Delete { template },
        67..=76 => UserAction::Place { policy, placement: random.between(0, PLACEMENTS) },
        77..=82 => UserAction::Override { policy, cluster },
        83..=85 => UserAction::DropOverride { policy },
        86..=88 => UserAction::Cordon { cluster },
        89..=91 => UserAction::Uncordon { cluster },
        92..=93 => UserAction::Taint { cluster },
        94..=96 => UserAction::Untaint { cluster },
        _ => {
            *has_left = !*has_left;
            if *has_left { UserAction::Unjoin { cluster: LEAVING } } else { UserAction::Join { cluster: LEAVING } }
        }
    }
}

pub fn write(path: &Path, plan: &SoakPlan, steps: &[ScheduledStep]) -> std::io::Result<()> {
    let first = serde_json::to_string(plan).map_err(std::io::Error::other)?;
    let lines = steps.iter().map(|step| serde_json::to_string(step).map_err(std::io::Error::other));
    let lines: Vec<String> = std::iter::once(Ok(first)).chain(lines).collect::<Result<_, _>>()?;
    std::fs::write(path, lines.join("\n") + "\n")
}

pub fn read(path: &Path) -> std::io::Result<(SoakPlan, Vec<ScheduledStep>)> {
    let text = std::fs::read_to_string(path)?;
    let mut lines = text.lines();
    let plan = serde_json::from_str(lines.next().unwrap_or_default()).map_err(std::io::Error::other)?;
    let steps = lines.map(|line| serde_json::from_str(line).map_err(std::io::Error::other));
    Ok((plan, steps.collect::<Result<_, _>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(engine: Engine) -> SoakPlan {
        SoakPlan { seed: 7, seconds: 120, engine, has_members: true, has_real_member: true, toleration_seconds: 300 }
    }

    #[test]
    fn a_schedule_depends_only_on_the_seed_and_round_trips() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        for engine in [Engine::Embedded, Engine::Etcd] {
            let plan = plan(engine);
            let steps = draw(&plan);
            assert_eq!(steps, draw(&plan));
            assert_ne!(steps, draw(&SoakPlan { seed: 8, ..plan.clone() }));
            let file = folder.path().join("schedule.jsonl");
            write(&file, &plan, &steps).expect("written");
            assert_eq!(read(&file).expect("read"), (plan, steps));
        }
    }

    #[test]
    fn every_target_and_every_kind_of_action_occurs() {
        let plan = SoakPlan { seconds: 3600, ..plan(Engine::Etcd) };
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
