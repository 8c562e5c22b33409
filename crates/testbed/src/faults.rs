//! Faults of members: crash, network partition, latency, errors, no capacity, expired credentials.

mod credentials;
mod nodes;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Context, bail};
use karmadactl::console::Console;
use provisioners::process::forward::NetworkFault;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::bed::Testbed;
use crate::clusters::open;
use crate::hint::Hint;
use crate::place::{TestbedDir, agent_of};
use crate::spec::{API_FORWARD, Kind, MemberSpec, Mode, PLANE_FORWARD, write_file};
use crate::up::hold_existing;

/// Path of the API that sets the error rate of a member.
const DISTURBANCE_PATH: &str = "/flotilla/v1alpha1/disturbance";

/// A fault of a member.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// Its process is killed and not restarted.
    Kill,
    /// No traffic passes in either direction.
    Partition,
    /// Added latency.
    Slow { millis: u64 },
    /// Percentage of requests its API answers with 503.
    Errors { percent: u8 },
    /// All its nodes are cordoned.
    Unschedulable,
    /// The credentials of the control plane (or of the agent) are rejected.
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

/// Active faults, and the data needed to end them. Stored in a file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Faults {
    members: BTreeMap<String, MemberFaults>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MemberFaults {
    faults: BTreeSet<Fault>,
    /// Nodes cordoned by the fault.
    cordoned: Vec<String>,
    /// The valid token to restore.
    token: Option<String>,
}

impl MemberFaults {
    fn has_errors(&self) -> bool {
        self.faults.iter().any(|fault| matches!(fault, Fault::Errors { .. }))
    }
}

impl Faults {
    pub fn of(&self, member: &str) -> Vec<&Fault> {
        self.members.get(member).map(|member_faults| member_faults.faults.iter().collect()).unwrap_or_default()
    }

    pub fn described(&self) -> Vec<String> {
        let all = self.members.iter();
        all.flat_map(|(name, member_faults)| member_faults.faults.iter().map(move |fault| format!("{name} {fault}")))
            .collect()
    }
}

pub fn load(place: &TestbedDir) -> anyhow::Result<Faults> {
    let path = place.faults_file();
    match std::fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).with_context(|| format!("{} is damaged", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Faults::default()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn save(place: &TestbedDir, faults: &Faults) -> anyhow::Result<()> {
    write_file(&place.faults_file(), &serde_json::to_vec_pretty(faults)?)
}

/// Starts a fault.
pub async fn inject(console: &Console, place: &TestbedDir, name: &str, fault: Fault) -> anyhow::Result<()> {
    let _held = hold_existing(place)?;
    let bed = Testbed::running(place).await?;
    let member = bed.spec.member(name)?;
    refuse_impossible(&bed, &fault)?;
    let mut faults = load(place)?;
    let member_faults = faults.members.entry(name.to_owned()).or_default();
    // Recorded first, so that a partly applied fault can be ended.
    member_faults.faults.retain(|known| std::mem::discriminant(known) != std::mem::discriminant(&fault));
    member_faults.faults.insert(fault.clone());
    match &fault {
        Fault::Unschedulable => {
            let nodes = nodes::not_cordoned(&bed, member).await?;
            member_faults.cordoned.extend(nodes);
        }
        Fault::ExpireCredentials if member_faults.token.is_none() => {
            member_faults.token = Some(credentials::good_token(&bed, member).await?);
        }
        _ => {}
    }
    let (cordoned, wire) = (member_faults.cordoned.clone(), wire_of(&member_faults.faults));
    save(place, &faults)?;
    match &fault {
        Fault::Kill => bed.supervisor.kill(name).await?,
        Fault::Partition | Fault::Slow { .. } => set_wires(&bed, member, wire).await?,
        Fault::Errors { percent } => disturb(&bed, member, *percent).await?,
        Fault::Unschedulable => nodes::cordon(&bed, member, &cordoned, true).await?,
        Fault::ExpireCredentials => credentials::expire(&bed, member).await?,
    }
    console.line(format!(
        "{name}: {fault} is active; `{}` ends it",
        place.hint(&Hint::Fault { member: name, fault: "heal" })
    ))?;
    Ok(())
}

/// Ends all faults of a member.
pub async fn heal(console: &Console, place: &TestbedDir, name: &str) -> anyhow::Result<()> {
    let _held = hold_existing(place)?;
    let bed = Testbed::running(place).await?;
    let member = bed.spec.member(name)?.clone();
    let faults = load(place)?;
    let member_faults = faults.members.get(name).cloned().unwrap_or_default();
    // The connection first: everything else needs it.
    set_wires(&bed, &member, NetworkFault::Pass).await?;
    if member_faults.faults.contains(&Fault::Kill) {
        bed.members.start(name).await?;
    }
    restore(&bed, &member, &member_faults).await?;
    forget(place, name)?;
    console.line(format!("{name} is healed"))?;
    Ok(())
}

/// Ends faults that keep members from answering, before a testbed is started. The others are ended when members answer.
pub async fn heal_ways(bed: &Testbed) -> anyhow::Result<Faults> {
    let faults = load(&bed.place)?;
    for (name, member_faults) in &faults.members {
        let Ok(member) = bed.spec.member(name) else { continue };
        if !is_known(bed, member).await? {
            continue;
        }
        if wire_of(&member_faults.faults) != NetworkFault::Pass {
            set_wires(bed, member, NetworkFault::Pass).await?;
        }
        if member_faults.has_errors() {
            // A stopped member has no error rate.
            let _ = disturb(bed, member, 0).await;
        }
    }
    Ok(faults)
}

async fn is_known(bed: &Testbed, member: &MemberSpec) -> anyhow::Result<bool> {
    Ok(bed.supervisor.reports().await?.iter().any(|report| report.name == member.name))
}

/// Ends the remaining faults once the control plane and the member answer.
pub async fn heal_member(bed: &Testbed, member: &MemberSpec, faults: &Faults) -> anyhow::Result<()> {
    match faults.members.get(&member.name) {
        Some(member_faults) => restore(bed, member, member_faults).await,
        None => Ok(()),
    }
}

/// Removes the records of ended faults.
pub fn forget_all(place: &TestbedDir, faults: &Faults) -> anyhow::Result<()> {
    faults.members.keys().try_for_each(|name| forget(place, name))
}

/// Removes the record of a kill when the member is started.
pub fn clear_kill(place: &TestbedDir, name: &str) -> anyhow::Result<()> {
    let mut faults = load(place)?;
    let was_killed =
        faults.members.get_mut(name).is_some_and(|member_faults| member_faults.faults.remove(&Fault::Kill));
    if was_killed { save(place, &faults) } else { Ok(()) }
}

pub fn forget(place: &TestbedDir, name: &str) -> anyhow::Result<()> {
    let mut faults = load(place)?;
    match faults.members.remove(name) {
        Some(_) => save(place, &faults),
        None => Ok(()),
    }
}

async fn restore(bed: &Testbed, member: &MemberSpec, member_faults: &MemberFaults) -> anyhow::Result<()> {
    if let (true, Some(token)) = (member_faults.faults.contains(&Fault::ExpireCredentials), &member_faults.token) {
        credentials::restore(bed, member, token).await?;
    }
    if member_faults.has_errors() {
        bed.wait_member(member).await?;
        disturb(bed, member, 0).await?;
    }
    if member_faults.faults.contains(&Fault::Unschedulable) {
        bed.wait_member(member).await?;
        nodes::cordon(bed, member, &member_faults.cordoned, false).await?;
    }
    Ok(())
}

fn refuse_impossible(bed: &Testbed, fault: &Fault) -> anyhow::Result<()> {
    let needs_process = matches!(fault, Fault::Kill | Fault::Partition | Fault::Slow { .. });
    let needs_agent = matches!(fault, Fault::Partition | Fault::Slow { .. } | Fault::ExpireCredentials);
    if needs_agent && bed.spec.host.is_some() {
        bail!("{fault} needs agents that are processes of this host; with a host cluster they are pods");
    }
    if needs_process && bed.spec.provisioner != Kind::Process {
        bail!(
            "{fault} needs members that are processes of this host; these use the provisioner {:?}",
            bed.spec.provisioner
        );
    }
    if matches!(fault, Fault::Errors { .. }) && bed.spec.provisioner == Kind::Kubeconfig {
        bail!("{fault} is not supported with your own clusters");
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

/// Sets the connection to a member, and in pull mode also that of its agent to the control plane.
async fn set_wires(bed: &Testbed, member: &MemberSpec, wire: NetworkFault) -> anyhow::Result<()> {
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

async fn disturb(bed: &Testbed, member: &MemberSpec, percent: u8) -> anyhow::Result<()> {
    let client = open(&bed.place.member_config(&member.name))?;
    let body = json!({"errorPercent": percent}).to_string();
    let request = http::Request::put(DISTURBANCE_PATH)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(bytes::Bytes::from(body))
        .context("cannot build the request")?;
    let response = client.raw(request).await?;
    if !response.status().is_success() {
        bail!("{} does not accept an error rate: {}", member.name, String::from_utf8_lossy(response.body()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_overrides_latency() {
        let wire = |faults: &[Fault]| wire_of(&faults.iter().cloned().collect());
        assert_eq!(wire(&[]), NetworkFault::Pass);
        assert_eq!(wire(&[Fault::Kill, Fault::Unschedulable]), NetworkFault::Pass);
        assert_eq!(wire(&[Fault::Slow { millis: 5 }]), NetworkFault::Delay { millis: 5 });
        assert_eq!(wire(&[Fault::Slow { millis: 5 }, Fault::Partition]), NetworkFault::Swallow);
    }
}
