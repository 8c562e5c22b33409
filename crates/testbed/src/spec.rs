//! The desired state of a testbed: its clusters, where they run, and their ports. Stored in its directory.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use provisioners::{Forward, Machine};
use serde::{Deserialize, Serialize};

use crate::hint::Hint;
use crate::host_cluster::{HOST, HostSpec};
use crate::place::{INSTANCE_MEMBER, MANAGER, PLANE, REGISTRY, SECOND_INSTANCE, TestbedDir, agent_of};
use crate::runtime::Runtime;

/// Maximum number of members of a testbed.
pub const MEMBERS_MAX: usize = 200;
/// Name of the forward to a member's API.
pub const API_FORWARD: &str = "api";
/// Name of the forward from a pull-mode member's agent to the control plane.
pub const PLANE_FORWARD: &str = "plane";
/// Port of a member in a system container.
const CONTAINER_PORT: u16 = 16443;
/// Path of the program in the image of members.
const CONTAINER_BINARY: &str = "/usr/bin/flotilla";
const CONTAINER_DATA: &str = "/var/lib/flotilla";
/// Shorter intervals than the defaults, so that changes in members show within seconds.
pub const PLANE_INTERVALS: [&str; 5] = [
    "--cluster-status-update-frequency=2s",
    "--cluster-failure-threshold=6s",
    "--cluster-success-threshold=3s",
    "--cluster-monitor-period=2s",
    "--cluster-monitor-grace-period=15s",
];
pub const AGENT_INTERVALS: [&str; 4] = [
    "--cluster-status-update-frequency=2s",
    "--cluster-failure-threshold=6s",
    "--cluster-success-threshold=3s",
    "--cluster-lease-duration=12s",
];
/// Kubeconfig a member writes before it is ready.
const MEMBER_CONFIG: &str = "member.config";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    pub plane_port: u16,
    /// `None` for a testbed without a registry.
    pub registry_port: Option<u16>,
    pub provisioner: Kind,
    pub members: Vec<MemberSpec>,
    #[serde(default)]
    pub machines: MachineSpec,
    /// Address of this host that public ports listen on.
    #[serde(default = "localhost")]
    pub bind: IpAddr,
    /// Link kubeconfigs to the paths of Karmada's guides, as root.
    #[serde(default = "is_linked_by_default")]
    pub links: bool,
    /// The cluster whose pods are the control plane; `None` if that is a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostSpec>,
    /// `None` for a testbed without a manager.
    #[serde(default)]
    pub manager: Option<ManagerSpec>,
}

/// The manager of a testbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ManagerSpec {
    pub port: u16,
    /// Port of the member of its second instance.
    pub member_port: u16,
}

fn localhost() -> IpAddr {
    IpAddr::V4(Ipv4Addr::LOCALHOST)
}

fn is_linked_by_default() -> bool {
    true
}

/// Settings of members in system containers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineSpec {
    /// `ubuntu:22.04`, `images:debian/12`, or a local image; by default one built from this program.
    pub image: Option<String>,
    /// Run MicroK8s instead of `flotilla member`.
    pub microk8s: bool,
    pub cpu: Option<String>,
    pub memory: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberSpec {
    pub name: String,
    pub mode: Mode,
    /// Forwarded port; 0 for a user's cluster, which is reached directly.
    pub port: u16,
    /// Port the member listens on.
    pub own_port: u16,
    /// Port through which its agent reaches the control plane; 0 for push-mode members.
    pub agent_plane_port: u16,
    pub nodes: Option<u32>,
    /// Simulated if not set.
    pub runtime: Option<Runtime>,
    /// Address range of pods in containers.
    #[serde(default)]
    pub pod_cidr: Option<String>,
    pub kubernetes_version: Option<String>,
    /// The user's cluster, with the `kubeconfig` provisioner.
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

/// Provisioner of the members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Processes of this host.
    #[default]
    Process,
    /// System containers of LXD or Incus.
    Lxd,
    /// Existing clusters of the user.
    Kubeconfig,
}

impl Spec {
    pub fn load(place: &TestbedDir) -> anyhow::Result<Option<Self>> {
        let path = place.spec_file();
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let spec = serde_json::from_slice(&text);
        spec.map(Some)
            .with_context(|| format!("{} is damaged; `{}` starts over", path.display(), place.hint(&Hint::DownDelete)))
    }

    /// Loads the state of a testbed that must exist.
    pub fn existing(place: &TestbedDir) -> anyhow::Result<Self> {
        Self::load(place)?.with_context(|| {
            format!("no testbed found in {}; `{}` creates one", place.directory().display(), place.hint(&Hint::Up))
        })
    }

    pub fn save(&self, place: &TestbedDir) -> anyhow::Result<()> {
        write_file(&place.spec_file(), &serde_json::to_vec_pretty(self)?)
    }

    pub fn member(&self, name: &str) -> anyhow::Result<&MemberSpec> {
        let found = self.members.iter().find(|member| member.name == name);
        found.with_context(|| {
            let names: Vec<&str> = self.members.iter().map(|member| member.name.as_str()).collect();
            format!("the testbed has no member {name}; it has {}", names.join(", "))
        })
    }

    /// Returns the address of a public port, as shown to users.
    pub fn address(&self, port: u16) -> String {
        SocketAddr::new(self.bind, port).to_string()
    }

    pub fn plane_machine(&self, place: &TestbedDir, program: &Path) -> Machine {
        let data = place.machine_data(PLANE);
        let bind = SocketAddr::new(self.bind, self.plane_port).to_string();
        let mut made = machine(PLANE, command(program, &["server", "--bind", &bind, "--data-dir"], &[&data]));
        made.command.extend(PLANE_INTERVALS.map(str::to_owned));
        made
    }

    pub fn registry_machine(&self, place: &TestbedDir, program: &Path) -> Option<Machine> {
        let data = place.machine_data(REGISTRY);
        let bind = SocketAddr::new(self.bind, self.registry_port?).to_string();
        Some(machine(REGISTRY, command(program, &["registry", "--bind", &bind, "--data-dir"], &[&data])))
    }

    pub fn member_machine(&self, place: &TestbedDir, program: &Path, member: &MemberSpec) -> Machine {
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
            made.command.extend(member.arguments(self.registry_port));
        }
        if member.port != 0 {
            made.forwards.push(forward(API_FORWARD, SocketAddr::new(self.bind, member.port), target));
        }
        made
    }

    /// `endpoint` is the URL at which others reach the member.
    pub fn agent_machine(&self, place: &TestbedDir, program: &Path, member: &MemberSpec, endpoint: &str) -> Machine {
        let words =
            ["agent", "--cluster-name", &member.name, "--cluster-api-endpoint", endpoint, "--karmada-kubeconfig"];
        let plane_config = place.agent_plane_config(&member.name);
        let mut made = machine(&agent_of(&member.name), command(program, &words, &[&plane_config]));
        made.command.push("--kubeconfig".to_owned());
        made.command.push(place.agent_member_config(&member.name).display().to_string());
        made.command.extend(AGENT_INTERVALS.map(str::to_owned));
        made.forwards.push(forward(PLANE_FORWARD, loopback(member.agent_plane_port), loopback(self.plane_port)));
        made
    }

    /// Returns the path of a member's administrator kubeconfig in its machine.
    pub fn member_config_inside(&self) -> String {
        match self.provisioner {
            Kind::Lxd => format!("{CONTAINER_DATA}/{MEMBER_CONFIG}"),
            Kind::Process | Kind::Kubeconfig => MEMBER_CONFIG.to_owned(),
        }
    }
}

impl MemberSpec {
    pub fn runtime(&self) -> Runtime {
        self.runtime.unwrap_or(Runtime::Simulated)
    }

    fn arguments(&self, registry_port: Option<u16>) -> Vec<String> {
        let mut words = vec!["--cluster-name".to_owned(), self.name.clone()];
        let mut add = |flag: &str, value: Option<String>| {
            if let Some(value) = value {
                words.extend([flag.to_owned(), value]);
            }
        };
        add("--nodes", self.nodes.map(|nodes| nodes.to_string()));
        add("--runtime", self.runtime.map(|runtime| runtime.name().to_owned()));
        if self.runtime() == Runtime::Containerd {
            add("--pod-cidr", self.pod_cidr.clone());
            for host in ["localhost", "127.0.0.1"] {
                add("--registry", registry_port.map(|port| format!("{host}:{port}=http://127.0.0.1:{port}")));
            }
        }
        add("--kubernetes-version", self.kubernetes_version.clone());
        words
    }
}

/// Refuses names of other machines of the testbed, and names clusters cannot have.
pub fn check_member_name(name: &str) -> anyhow::Result<()> {
    membership::cluster_name::check_name(name)?;
    let parts = [PLANE, HOST, REGISTRY, MANAGER, SECOND_INSTANCE, INSTANCE_MEMBER];
    let files = ["kubeconfig", "supervisor", "karmada-apiserver"];
    if parts.contains(&name) || files.contains(&name) || name.ends_with("-agent") {
        bail!("{name} cannot be the name of a member: it is reserved by the testbed");
    }
    Ok(())
}

pub fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// Replaces a file atomically, readable by its owner only, since most contain keys.
pub fn write_file(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let write = || {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        atomic_file::replace(path, content, 0o600)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

pub fn machine(name: &str, command: Vec<String>) -> Machine {
    Machine { name: name.to_owned(), command, env: BTreeMap::new(), files: Vec::new(), forwards: Vec::new() }
}

pub fn command(program: &Path, words: &[&str], paths: &[&Path]) -> Vec<String> {
    let words = words.iter().map(|word| (*word).to_owned());
    let paths = paths.iter().map(|path| path.display().to_string());
    std::iter::once(program.display().to_string()).chain(words).chain(paths).collect()
}

fn forward(name: &str, listen: SocketAddr, target: SocketAddr) -> Forward {
    Forward { name: name.to_owned(), listen, target: target.to_string() }
}
