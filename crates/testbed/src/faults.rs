//! Faults that are switched on and off: killed, cut off, slow, failing, full and locked-out members.

mod credentials;
mod nodes;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Context, bail};
use karmadactl::console::Console;
use provisioners::process::forward::NetworkFault;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::bed::Bed;
use crate::clusters::open;
use crate::place::{Place, agent_of};
use crate::spec::{API_FORWARD, Kind, MemberSpec, Mode, PLANE_FORWARD, write_file};
use crate::up::hold;

/// Where a member lets itself be disturbed.
const DISTURBANCE_PATH: &str = "/flotilla/v1alpha1/disturbance";

/// What can go wrong with a member.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// Its process ends as in a crash, and stays away.
    Kill,
    /// Nothing gets through, either way.
    Partition,
    /// Everything takes longer.
    Slow { millis: u64 },
    /// Its API answers this many of a hundred requests with 503.
    Errors { percent: u8 },
    /// All its nodes are cordoned.
    Unschedulable,
    /// What the control plane (or the agent) shows to be let in is good no more.
    ExpireCredentials,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill => f.write_str("kill"),
            Self::Partition => f.write_str("partition"),
            Self::Slow { millis } => write!(f, "slow ({millis}ms)"),
            Self::Errors { percent } => write!(f, "errors ({percent}%)"),
            Self::Unschedulable => f.write_str("unschedulable"),
            Self::ExpireCredentials => f.write_str("expire-credentials"),
        }
    }
}

/// What is switched on, and what is needed to switch it off. Kept in a file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Faults {
    members: BTreeMap<String, Troubles>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Troubles {
    faults: BTreeSet<Fault>,
    /// Nodes that were cordoned for the fault, not before.
    cordoned: Vec<String>,
    /// The token that was good.
    token: Option<String>,
}

impl Troubles {
    fn has_errors(&self) -> bool {
        self.faults.iter().any(|fault| matches!(fault, Fault::Errors { .. }))
    }
}

impl Faults {
    pub fn of(&self, member: &str) -> Vec<&Fault> {
        self.members.get(member).map(|troubles| troubles.faults.iter().collect()).unwrap_or_default()
    }

    pub fn described(&self) -> Vec<String> {
        let all = self.members.iter();
        all.flat_map(|(name, troubles)| troubles.faults.iter().map(move |fault| format!("{name} {fault}"))).collect()
    }
}

pub fn load(place: &Place) -> anyhow::Result<Faults> {
    let path = place.faults_file();
    match std::fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).with_context(|| format!("{} is damaged", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Faults::default()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn save(place: &Place, faults: &Faults) -> anyhow::Result<()> {
    write_file(&place.faults_file(), &serde_json::to_vec_pretty(faults)?)
}

/// Switches a fault on.
pub async fn inject(console: &Console, place: &Place, name: &str, fault: Fault) -> anyhow::Result<()> {
    let _held = hold(place)?;
    let bed = Bed::running(place).await?;
    let member = bed.spec.member(name)?;
    refuse_impossible(&bed, &fault)?;
    let mut faults = load(place)?;
    let troubles = faults.members.entry(name.to_owned()).or_default();
    // Noted first: what was done by half must be undone too.
    troubles.faults.retain(|known| std::mem::discriminant(known) != std::mem::discriminant(&fault));
    troubles.faults.insert(fault.clone());
    match &fault {
        Fault::Unschedulable => {
            let nodes = nodes::not_cordoned(&bed, member).await?;
            troubles.cordoned.extend(nodes);
        }
        Fault::ExpireCredentials if troubles.token.is_none() => {
            troubles.token = Some(credentials::good_token(&bed, member).await?);
        }
        _ => {}
    }
    let (cordoned, wire) = (troubles.cordoned.clone(), wire_of(&troubles.faults));
    save(place, &faults)?;
    match &fault {
        Fault::Kill => bed.supervisor.kill(name).await?,
        Fault::Partition | Fault::Slow { .. } => set_wires(&bed, member, wire).await?,
        Fault::Errors { percent } => disturb(&bed, member, *percent).await?,
        Fault::Unschedulable => nodes::cordon(&bed, member, &cordoned, true).await?,
        Fault::ExpireCredentials => credentials::expire(&bed, member).await?,
    }
    console.line(format!("{name}: {fault} is on; `flotilla fault {name} heal` ends it"))?;
    Ok(())
}

/// Switches every fault of a member off.
pub async fn heal(console: &Console, place: &Place, name: &str) -> anyhow::Result<()> {
    let _held = hold(place)?;
    let bed = Bed::running(place).await?;
    let member = bed.spec.member(name)?.clone();
    let faults = load(place)?;
    let troubles = faults.members.get(name).cloned().unwrap_or_default();
    // Credentials first: they need the control plane, not the member.
    set_wires(&bed, &member, NetworkFault::Pass).await?;
    if troubles.faults.contains(&Fault::Kill) {
        bed.members.start(name).await?;
    }
    restore(&bed, &member, &troubles).await?;
    forget(place, name)?;
    console.line(format!("{name} is healed"))?;
    Ok(())
}

/// What must go before a testbed can be brought up: whatever keeps a member from answering. The rest needs it to answer.
pub async fn heal_ways(bed: &Bed) -> anyhow::Result<Faults> {
    let faults = load(&bed.place)?;
    for (name, troubles) in &faults.members {
        let Ok(member) = bed.spec.member(name) else { continue };
        if !is_known(bed, member).await? {
            continue;
        }
        if wire_of(&troubles.faults) != NetworkFault::Pass {
            set_wires(bed, member, NetworkFault::Pass).await?;
        }
        if troubles.has_errors() {
            // One that does not run forgets it by itself.
            let _ = disturb(bed, member, 0).await;
        }
    }
    Ok(faults)
}

async fn is_known(bed: &Bed, member: &MemberSpec) -> anyhow::Result<bool> {
    Ok(bed.supervisor.reports().await?.iter().any(|report| report.name == member.name))
}

/// The rest, once the control plane and the member answer.
pub async fn heal_member(bed: &Bed, member: &MemberSpec, faults: &Faults) -> anyhow::Result<()> {
    match faults.members.get(&member.name) {
        Some(troubles) => restore(bed, member, troubles).await,
        None => Ok(()),
    }
}

/// Everything was healed.
pub fn forget_all(place: &Place, faults: &Faults) -> anyhow::Result<()> {
    faults.members.keys().try_for_each(|name| forget(place, name))
}

/// A member that is started is not killed any more.
pub fn clear_kill(place: &Place, name: &str) -> anyhow::Result<()> {
    let mut faults = load(place)?;
    let was_killed = faults.members.get_mut(name).is_some_and(|troubles| troubles.faults.remove(&Fault::Kill));
    if was_killed { save(place, &faults) } else { Ok(()) }
}

fn forget(place: &Place, name: &str) -> anyhow::Result<()> {
    let mut faults = load(place)?;
    match faults.members.remove(name) {
        Some(_) => save(place, &faults),
        None => Ok(()),
    }
}

async fn restore(bed: &Bed, member: &MemberSpec, troubles: &Troubles) -> anyhow::Result<()> {
    if let (true, Some(token)) = (troubles.faults.contains(&Fault::ExpireCredentials), &troubles.token) {
        credentials::restore(bed, member, token).await?;
    }
    if troubles.has_errors() {
        bed.wait_member(member).await?;
        disturb(bed, member, 0).await?;
    }
    if troubles.faults.contains(&Fault::Unschedulable) {
        bed.wait_member(member).await?;
        nodes::cordon(bed, member, &troubles.cordoned, false).await?;
    }
    Ok(())
}

fn refuse_impossible(bed: &Bed, fault: &Fault) -> anyhow::Result<()> {
    let needs_process = matches!(fault, Fault::Kill | Fault::Partition | Fault::Slow { .. });
    if needs_process && bed.spec.provisioner != Kind::Process {
        bail!("{fault} needs members that are processes of this host; these run in {:?}", bed.spec.provisioner);
    }
    if matches!(fault, Fault::Errors { .. }) && bed.spec.provisioner == Kind::Kubeconfig {
        bail!("{fault} needs a member of ours; these clusters are yours");
    }
    Ok(())
}

fn wire_of(faults: &BTreeSet<Fault>) -> NetworkFault {
    let slow = faults.iter().find_map(|fault| match fault {
        Fault::Slow { millis } => Some(NetworkFault::Delay { millis: *millis }),
        _ => None,
    });
    if faults.contains(&Fault::Partition) { NetworkFault::Swallow } else { slow.unwrap_or_default() }
}

/// The way to a member, and for one that pulls also its agent's way out.
async fn set_wires(bed: &Bed, member: &MemberSpec, wire: NetworkFault) -> anyhow::Result<()> {
    if bed.spec.provisioner != Kind::Process {
        return Ok(());
    }
    bed.supervisor.set_wire(&member.name, API_FORWARD, wire).await?;
    if member.mode == Mode::Pull {
        match bed.supervisor.set_wire(&agent_of(&member.name), PLANE_FORWARD, wire).await {
            Err(provisioners::Error::NoMachine(_)) => {}
            set => set?,
        }
    }
    Ok(())
}

async fn disturb(bed: &Bed, member: &MemberSpec, percent: u8) -> anyhow::Result<()> {
    let client = open(&bed.place.member_config(&member.name))?;
    let body = json!({"errorPercent": percent}).to_string();
    let request = http::Request::put(DISTURBANCE_PATH)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(bytes::Bytes::from(body))
        .context("a request")?;
    let response = client.raw(request).await?;
    if !response.status().is_success() {
        bail!("{} refuses to be disturbed: {}", member.name, String::from_utf8_lossy(response.body()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_wire_is_cut_however_slow_it_is() {
        let wire = |faults: &[Fault]| wire_of(&faults.iter().cloned().collect());
        assert_eq!(wire(&[]), NetworkFault::Pass);
        assert_eq!(wire(&[Fault::Kill, Fault::Unschedulable]), NetworkFault::Pass);
        assert_eq!(wire(&[Fault::Slow { millis: 5 }]), NetworkFault::Delay { millis: 5 });
        assert_eq!(wire(&[Fault::Slow { millis: 5 }, Fault::Partition]), NetworkFault::Swallow);
    }
}
