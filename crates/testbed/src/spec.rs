//! What a testbed is to be: its clusters, where they run and which ports lead to them. Kept in a file beside its data.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use provisioners::{Forward, Machine};
use serde::{Deserialize, Serialize};

use crate::place::{PLANE, Place, REGISTRY, agent_of};

/// Members one testbed may have.
pub const MEMBERS_MAX: usize = 200;
/// The forward of a member's API.
pub const API_FORWARD: &str = "api";
/// The forward of a pull member's agent to the control plane.
pub const PLANE_FORWARD: &str = "plane";
/// Where a member in a system container listens, as in the seeds.
const CONTAINER_PORT: u16 = 16443;
/// The image of our members has it there.
const CONTAINER_BINARY: &str = "/usr/bin/flotilla";
const CONTAINER_DATA: &str = "/var/lib/flotilla";
/// A testbed is there to be watched: what happens to members shows within seconds, not within a minute.
const PLANE_HASTE: [&str; 5] = [
    "--cluster-status-update-frequency=2s",
    "--cluster-failure-threshold=6s",
    "--cluster-success-threshold=3s",
    "--cluster-monitor-period=2s",
    "--cluster-monitor-grace-period=15s",
];
const AGENT_HASTE: [&str; 4] = [
    "--cluster-status-update-frequency=2s",
    "--cluster-failure-threshold=6s",
    "--cluster-success-threshold=3s",
    "--cluster-lease-duration=12s",
];
/// Written by a member before it is ready.
const MEMBER_CONFIG: &str = "member.config";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    pub plane_port: u16,
    /// `None` for a testbed without one.
    pub registry_port: Option<u16>,
    pub provisioner: Kind,
    pub members: Vec<MemberSpec>,
    #[serde(default)]
    pub machines: MachineSpec,
}

/// What was chosen about the machines of members in system containers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineSpec {
    /// `ubuntu:22.04`, `images:debian/12`, or one the daemon has; by default our own.
    pub image: Option<String>,
    /// MicroK8s in them instead of our member.
    pub microk8s: bool,
    pub cpu: Option<String>,
    pub memory: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberSpec {
    pub name: String,
    pub mode: Mode,
    /// The forwarded port on 127.0.0.1; 0 for a cluster of the user, which is reached as they reach it.
    pub port: u16,
    /// Where the member itself listens.
    pub own_port: u16,
    /// Where its agent reaches the control plane; 0 for push members.
    pub agent_plane_port: u16,
    pub nodes: Option<u32>,
    pub runtime: Option<String>,
    pub kubernetes_version: Option<String>,
    /// The cluster of the user that this is, with the `kubeconfig` provisioner.
    pub source: Option<Source>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    pub kubeconfig: PathBuf,
    pub context: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    Push,
    Pull,
}

/// Where members run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Processes of this host.
    #[default]
    Process,
    /// System containers of LXD or Incus.
    Lxd,
    /// Clusters the user already has.
    Kubeconfig,
}

impl Spec {
    pub fn load(place: &Place) -> anyhow::Result<Option<Self>> {
        let path = place.spec_file();
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let spec = serde_json::from_slice(&text);
        spec.map(Some).with_context(|| format!("{} is damaged; `flotilla down --delete` starts over", path.display()))
    }

    /// The testbed that must be there.
    pub fn existing(place: &Place) -> anyhow::Result<Self> {
        Self::load(place)?
            .with_context(|| format!("there is no testbed in {}; `flotilla up` makes one", place.directory().display()))
    }

    pub fn save(&self, place: &Place) -> anyhow::Result<()> {
        write_file(&place.spec_file(), &serde_json::to_vec_pretty(self)?)
    }

    pub fn member(&self, name: &str) -> anyhow::Result<&MemberSpec> {
        let found = self.members.iter().find(|member| member.name == name);
        found.with_context(|| {
            let names: Vec<&str> = self.members.iter().map(|member| member.name.as_str()).collect();
            format!("the testbed has no member {name}; it has {}", names.join(", "))
        })
    }

    pub fn plane_machine(&self, place: &Place, program: &Path) -> Machine {
        let data = place.machine_data(PLANE);
        let bind = loopback(self.plane_port).to_string();
        let mut made = machine(PLANE, command(program, &["server", "--bind", &bind, "--data-dir"], &[&data]));
        made.command.extend(PLANE_HASTE.map(str::to_owned));
        made
    }

    pub fn registry_machine(&self, place: &Place, program: &Path) -> Option<Machine> {
        let data = place.machine_data(REGISTRY);
        let bind = loopback(self.registry_port?).to_string();
        Some(machine(REGISTRY, command(program, &["registry", "--bind", &bind, "--data-dir"], &[&data])))
    }

    pub fn member_machine(&self, place: &Place, program: &Path, member: &MemberSpec) -> Machine {
        let (mut made, target) = match self.provisioner {
            Kind::Lxd if self.machines.microk8s => (machine(&member.name, Vec::new()), loopback(CONTAINER_PORT)),
            Kind::Lxd => {
                let bind = format!("0.0.0.0:{CONTAINER_PORT}");
                let words = ["member", "--bind", &bind, "--tls-san", "127.0.0.1", "--data-dir", CONTAINER_DATA];
                (machine(&member.name, command(Path::new(CONTAINER_BINARY), &words, &[])), loopback(CONTAINER_PORT))
            }
            Kind::Process | Kind::Kubeconfig => {
                let bind = loopback(member.own_port).to_string();
                let data = place.machine_data(&member.name);
                let words = ["member", "--bind", &bind, "--data-dir"];
                (machine(&member.name, command(program, &words, &[&data])), loopback(member.own_port))
            }
        };
        if !made.command.is_empty() {
            made.command.extend(member.arguments());
        }
        if member.port != 0 {
            made.forwards.push(forward(API_FORWARD, member.port, target));
        }
        made
    }

    /// `endpoint` is where others reach the member.
    pub fn agent_machine(&self, place: &Place, program: &Path, member: &MemberSpec, endpoint: &str) -> Machine {
        let words =
            ["agent", "--cluster-name", &member.name, "--cluster-api-endpoint", endpoint, "--karmada-kubeconfig"];
        let plane_config = place.agent_plane_config(&member.name);
        let mut made = machine(&agent_of(&member.name), command(program, &words, &[&plane_config]));
        made.command.push("--kubeconfig".to_owned());
        made.command.push(place.agent_member_config(&member.name).display().to_string());
        made.command.extend(AGENT_HASTE.map(str::to_owned));
        made.forwards.push(forward(PLANE_FORWARD, member.agent_plane_port, loopback(self.plane_port)));
        made
    }

    /// Where a member's machine keeps the kubeconfig of its administrator.
    pub fn member_config_inside(&self) -> String {
        match self.provisioner {
            Kind::Lxd => format!("{CONTAINER_DATA}/{MEMBER_CONFIG}"),
            Kind::Process | Kind::Kubeconfig => MEMBER_CONFIG.to_owned(),
        }
    }
}

impl MemberSpec {
    fn arguments(&self) -> Vec<String> {
        let mut words = vec!["--cluster-name".to_owned(), self.name.clone()];
        let mut add = |flag: &str, value: Option<String>| {
            if let Some(value) = value {
                words.extend([flag.to_owned(), value]);
            }
        };
        add("--nodes", self.nodes.map(|nodes| nodes.to_string()));
        add("--runtime", self.runtime.clone());
        add("--kubernetes-version", self.kubernetes_version.clone());
        words
    }
}

/// Names that machines of the testbed itself have, or that cannot be names of clusters.
pub fn check_member_name(name: &str) -> anyhow::Result<()> {
    membership::cluster_name::check_name(name)?;
    if [PLANE, REGISTRY, "kubeconfig", "supervisor", "karmada-apiserver"].contains(&name) || name.ends_with("-agent") {
        bail!("{name} cannot be the name of a member: the testbed uses it itself");
    }
    Ok(())
}

pub fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// Replaces a file in one step; only its owner may read it, since most hold keys.
pub fn write_file(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let write = || {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}", std::process::id()));
        let temporary = PathBuf::from(name);
        let mut file =
            std::fs::OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(content)?;
        std::fs::rename(&temporary, path)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

fn machine(name: &str, command: Vec<String>) -> Machine {
    Machine { name: name.to_owned(), command, env: BTreeMap::new(), files: Vec::new(), forwards: Vec::new() }
}

fn command(program: &Path, words: &[&str], paths: &[&Path]) -> Vec<String> {
    let words = words.iter().map(|word| (*word).to_owned());
    let paths = paths.iter().map(|path| path.display().to_string());
    std::iter::once(program.display().to_string()).chain(words).chain(paths).collect()
}

fn forward(name: &str, port: u16, target: SocketAddr) -> Forward {
    Forward { name: name.to_owned(), listen: loopback(port), target: target.to_string() }
}
