//! `status`: the processes of a testbed, their addresses and readiness.

use std::path::Path;
use std::time::Duration;

use karmadactl::console::Console;
use membership::join::Readiness;
use provisioners::Condition;
use provisioners::process::ProcessReport;
use serde::Serialize;

use crate::bed::Testbed;
use crate::clusters::open_within;
use crate::faults;
use crate::hint::Hint;
use crate::host_cluster::{self, HOST, PodState};
use crate::manager;
use crate::place::{INSTANCE_MEMBER, MANAGER, PLANE, REGISTRY, TestbedDir, agent_of};
use crate::registration::readiness;
use crate::runtime::{self, HostContainers};
use crate::spec::{MemberSpec, Mode, Spec, loopback};
use crate::supervisor::client::SupervisorClient;

const CHECK_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TestbedStatus {
    #[serde(skip)]
    pub up_command: String,
    #[serde(skip)]
    pub logs_command: String,
    pub name: String,
    pub directory: String,
    pub kubeconfig: String,
    pub running: bool,
    pub ready: bool,
    pub memory_bytes: u64,
    /// Runtime of the pods of members, and how to get the other one.
    pub pods: Option<String>,
    pub parts: Vec<ComponentStatus>,
}

/// A process or a container.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ComponentStatus {
    pub name: String,
    pub role: &'static str,
    pub state: String,
    pub pid: Option<u32>,
    pub memory_bytes: Option<u64>,
    pub restarts: Option<u32>,
    /// Address on this host.
    pub address: Option<String>,
    /// Readiness of a member in the control plane.
    pub ready: Option<bool>,
    /// Problem or active faults.
    pub note: Option<String>,
}

/// A testbed in the list of testbeds.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TestbedSummary {
    pub name: String,
    pub running: bool,
    pub members: usize,
    /// Address of the control plane.
    pub address: String,
    pub directory: String,
}

/// Lists the testbeds below a directory, by name.
pub async fn list(home: &Path) -> anyhow::Result<Vec<TestbedSummary>> {
    let Ok(entries) = std::fs::read_dir(home) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        // Other files and directories in it are not testbeds.
        let Ok(place) = TestbedDir::find(Some(home.to_owned()), &name) else { continue };
        let Some(spec) = Spec::load(&place)? else { continue };
        found.push(TestbedSummary {
            running: SupervisorClient::find(&place).await?.is_some(),
            members: spec.members.len(),
            address: spec.address(spec.plane_port),
            directory: place.directory().display().to_string(),
            name,
        });
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

pub async fn look(place: &TestbedDir) -> anyhow::Result<TestbedStatus> {
    let spec = Spec::existing(place)?;
    let supervisor = SupervisorClient::find(place).await?;
    let mut parts = Vec::new();
    if let Some(supervisor) = &supervisor {
        let bed = Testbed::new(place, spec.clone(), supervisor.clone()).await?;
        parts = look_at_parts(&bed).await?;
    }
    let is_ready = |part: &ComponentStatus| part.ready.unwrap_or(part.state == "Running");
    Ok(TestbedStatus {
        up_command: place.hint(&Hint::Up),
        logs_command: place.hint(&Hint::PartLogs(if spec.host.is_some() { HOST } else { PLANE })),
        name: place.name().to_owned(),
        directory: place.directory().display().to_string(),
        kubeconfig: place.merged_config().display().to_string(),
        running: supervisor.is_some(),
        ready: supervisor.is_some() && parts.iter().all(is_ready),
        memory_bytes: parts.iter().filter_map(|part| part.memory_bytes).sum(),
        pods: runtime::describe(&spec, &HostContainers::gather(), place),
        parts,
    })
}

async fn look_at_parts(bed: &Testbed) -> anyhow::Result<Vec<ComponentStatus>> {
    let reports = bed.supervisor.reports().await?;
    let of = |name: &str| reports.iter().find(|report| report.name == name);
    let address = |port: u16| (port != 0).then(|| bed.spec.address(port));
    let pid = bed.supervisor.pid().await?;
    let mut parts = vec![ComponentStatus {
        name: "supervisor".to_owned(),
        role: "supervisor",
        state: "Running".to_owned(),
        pid: Some(pid),
        memory_bytes: provisioners::process::memory_bytes(pid),
        restarts: None,
        address: None,
        ready: None,
        note: None,
    }];
    match &bed.spec.host {
        Some(host) => {
            parts.push(part(HOST, "host cluster", of(HOST), address(host.cluster.port)));
            let state = host_cluster::plane_state(bed).await;
            parts.push(pod_part(PLANE, "control plane (pod)", &state, address(bed.spec.plane_port)));
        }
        None => parts.push(part(PLANE, "control plane", of(PLANE), address(bed.spec.plane_port))),
    }
    if let Some(port) = bed.spec.registry_port {
        parts.push(part(REGISTRY, "registry", of(REGISTRY), address(port)));
    }
    let faults = faults::load(&bed.place)?;
    for member in &bed.spec.members {
        let mut part = part(&member.name, role(member), of(&member.name), address(member.port));
        if of(&member.name).is_none() {
            part.state = format!("{:?}", bed.members.condition(&member.name).await?);
        }
        let ready = ready(bed, &member.name).await;
        part.ready = Some(ready.is_ok());
        let on: Vec<String> = faults.of(&member.name).iter().map(|fault| format!("fault {fault}")).collect();
        part.note = ready.err().into_iter().chain(on).reduce(|all, next| format!("{all}; {next}")).or(part.note);
        parts.push(part);
        if member.mode == Mode::Pull {
            let name = agent_of(&member.name);
            parts.push(match &bed.spec.host {
                Some(_) => {
                    let state = host_cluster::agent_state(bed, &member.name).await;
                    pod_part(&name, "agent (pod)", &state, None)
                }
                None => self::part(&name, "agent", of(&name), None),
            });
        }
    }
    if let Some(manager) = bed.spec.manager {
        let mut part = part(MANAGER, "manager", of(MANAGER), address(manager.port));
        let ready = manager::readiness(&bed.place, CHECK_TIMEOUT).await;
        part.ready = Some(ready.is_ok());
        part.note = ready.err().or(part.note);
        parts.push(part);
        let address = loopback(manager.member_port).to_string();
        parts.push(self::part(INSTANCE_MEMBER, "member (second)", of(INSTANCE_MEMBER), Some(address)));
    }
    Ok(parts)
}

fn role(member: &MemberSpec) -> &'static str {
    match member.mode {
        Mode::Push => "member (push)",
        Mode::Pull => "member (pull)",
    }
}

async fn ready(bed: &Testbed, member: &str) -> Result<(), String> {
    let plane = open_within(&bed.place.plane_config(), CHECK_TIMEOUT).map_err(|error| format!("{error:#}"))?;
    match readiness(&plane, member).await.map_err(|error| format!("{error:#}"))? {
        Readiness::Ready => Ok(()),
        Readiness::NotReady(reason) => Err(reason),
    }
}

fn part(name: &str, role: &'static str, report: Option<&ProcessReport>, address: Option<String>) -> ComponentStatus {
    let state = report.map_or(Condition::Missing, |report| report.condition);
    let note = report.filter(|report| report.pid.is_none()).and_then(|report| report.last_end.clone());
    ComponentStatus {
        name: name.to_owned(),
        role,
        state: format!("{state:?}"),
        pid: report.and_then(|report| report.pid),
        memory_bytes: report.and_then(|report| report.memory_bytes),
        restarts: report.map(|report| report.restarts),
        address,
        ready: None,
        note,
    }
}

fn pod_part(name: &str, role: &'static str, state: &PodState, address: Option<String>) -> ComponentStatus {
    let (restarts, note) = match state {
        PodState::Ready { restarts } => (Some(*restarts), None),
        other => (None, Some(other.describe())),
    };
    let state = format!("{:?}", state.condition());
    ComponentStatus { restarts, note, state, ..part(name, role, None, address) }
}

pub fn print(console: &Console, status: &TestbedStatus) -> anyhow::Result<()> {
    if !status.running {
        console.line(format!("the testbed {} is not running; `{}` starts it", status.name, status.up_command))?;
        return Ok(());
    }
    let heading = ["NAME", "ROLE", "STATE", "READY", "PID", "MEMORY", "RESTARTS", "ADDRESS", "NOTE"].map(str::to_owned);
    let rows = status.parts.iter().map(cells);
    let rows: Vec<[String; 9]> = std::iter::once(heading).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..9).map(width).collect();
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        let line = cells.join("   ");
        let has_failed = row[2] == "Failing" || row[2] == "Missing" || row[3] == "False";
        console.line(if has_failed { console.failure(line.trim_end()) } else { line.trim_end().to_owned() })?;
    }
    console.line(format!(
        "\n{} total; kubeconfig for all clusters: {}",
        mebibytes(status.memory_bytes),
        status.kubeconfig
    ))?;
    if let Some(pods) = &status.pods {
        console.line(pods)?;
    }
    console.line(format!("`{}` prints the log of a part.", status.logs_command))?;
    Ok(())
}

fn cells(part: &ComponentStatus) -> [String; 9] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    [
        part.name.clone(),
        part.role.to_owned(),
        part.state.clone(),
        or_dash(part.ready.map(|ready| if ready { "True" } else { "False" }.to_owned())),
        or_dash(part.pid.map(|pid| pid.to_string())),
        or_dash(part.memory_bytes.map(mebibytes)),
        or_dash(part.restarts.map(|restarts| restarts.to_string())),
        or_dash(part.address.clone()),
        part.note.clone().unwrap_or_default(),
    ]
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1024 * 1024))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Members, UpOptions, plan};
    use crate::ports::Ports;

    #[tokio::test]
    async fn testbeds_are_listed_by_name_and_other_files_are_skipped() {
        let home = tempfile::tempdir().unwrap();
        for (name, members) in [("two", 2), ("one", 1)] {
            let place = TestbedDir::find(Some(home.path().into()), name).unwrap();
            let options = UpOptions { members: Some(Members::Count(members)), ..UpOptions::default() };
            let spec = plan(None, &options, &mut Ports::pretending(|_| true), false, &place).unwrap();
            spec.save(&place).unwrap();
        }
        std::fs::create_dir(home.path().join("registry")).unwrap();
        std::fs::write(home.path().join("karmada-apiserver.config"), "").unwrap();
        let found = list(home.path()).await.unwrap();
        let found: Vec<_> = found.iter().map(|bed| (bed.name.as_str(), bed.members, bed.running)).collect();
        assert_eq!(found, [("one", 1, false), ("two", 2, false)]);
        assert!(list(&home.path().join("missing")).await.unwrap().is_empty());
    }
}
