//! The image stores of members: those of a testbed, or given containerd sockets.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::oci_registry::distribute::{ContainerdSink, ImageSink, ImportOutcome, MachineSink, RemoteMachine, SimulatedSink};
use ::oci_registry::name::Reference;
use ::testbed::Testbed;
use ::testbed::hint::Hint;
use ::testbed::place::TestbedDir;
use ::testbed::runtime::Runtime;
use ::testbed::spec::{Kind, MemberSpec, Spec};
use anyhow::Context;
use async_trait::async_trait;
use clap::Args;
use provisioners::Provisioner;

use crate::testbed::TestbedArgs;

/// Containerd socket of a member in a system container.
const CONTAINER_SOCKET: &str = "/var/lib/flotilla/containerd/containerd.sock";

#[derive(Args)]
pub struct MembersArgs {
    /// Import into this containerd instead of the testbed's members (can be repeated).
    #[arg(long, value_name = "NAME=SOCKET", value_parser = named_socket)]
    containerd: Vec<(String, PathBuf)>,
    /// Members to import into [default: all].
    #[arg(long, short = 'C', value_delimiter = ',', value_name = "NAME,...")]
    clusters: Vec<String>,
    /// Do not import into members.
    #[arg(long, conflicts_with_all = ["containerd", "clusters"])]
    no_import: bool,
    #[command(flatten)]
    testbed: TestbedArgs,
}

/// The registry of a testbed on its default port.
pub const DEFAULT_REGISTRY: &str = "127.0.0.1:32000";

/// Selects a registry: the testbed's unless another is given.
#[derive(Args)]
pub struct RegistryArgs {
    /// Registry [default: the testbed's, else 127.0.0.1:32000].
    #[arg(long, value_name = "HOST:PORT")]
    registry: Option<String>,
    #[command(flatten)]
    testbed: TestbedArgs,
}

impl RegistryArgs {
    pub fn address(&self) -> anyhow::Result<String> {
        match &self.registry {
            Some(registry) => Ok(registry.clone()),
            None => registry_of(&self.testbed.place()?),
        }
    }

    /// Explains why a registry may not answer.
    pub fn unreachable(&self, registry: &str) -> String {
        match self.testbed.place() {
            Ok(place) if self.registry.is_none() => {
                format!("cannot read the registry {registry}; `{}` starts it", place.hint(&Hint::Up))
            }
            _ => format!("cannot read the registry {registry}"),
        }
    }
}

/// Returns the address of a testbed's registry.
pub fn registry_of(place: &TestbedDir) -> anyhow::Result<String> {
    let port = Spec::load(place)?.and_then(|spec| spec.registry_port);
    Ok(port.map_or_else(|| DEFAULT_REGISTRY.to_owned(), |port| format!("127.0.0.1:{port}")))
}

type Sinks = Vec<Box<dyn ImageSink>>;

impl MembersArgs {
    pub fn place(&self) -> anyhow::Result<TestbedDir> {
        self.testbed.place()
    }

    /// Returns the image stores, and the testbed's registry if it has one.
    pub async fn sinks(&self) -> anyhow::Result<(Sinks, Option<String>)> {
        if !self.containerd.is_empty() {
            let sink = |(name, socket): &(String, PathBuf)| Box::new(ContainerdSink::new(name, socket)) as Box<_>;
            return Ok((self.containerd.iter().map(sink).collect(), None));
        }
        let place = self.place()?;
        let found = Spec::load(&place)?;
        let registry = found.as_ref().and_then(|spec| spec.registry_port).map(|port| format!("127.0.0.1:{port}"));
        if self.no_import {
            return Ok((Vec::new(), registry));
        }
        let hint = format!(
            "create one with `{}`, use --containerd NAME=SOCKET for other image stores, or --no-import",
            place.hint(&Hint::Up)
        );
        let spec = found.with_context(|| format!("no testbed found in {}: {hint}", place.directory().display()))?;
        for name in &self.clusters {
            spec.member(name)?;
        }
        let wanted = |member: &&MemberSpec| self.clusters.is_empty() || self.clusters.contains(&member.name);
        let mut sinks = Vec::new();
        for member in spec.members.iter().filter(wanted) {
            sinks.push(sink_of(&place, &spec, member).await?);
        }
        Ok((sinks, registry))
    }
}

async fn sink_of(place: &TestbedDir, spec: &Spec, member: &MemberSpec) -> anyhow::Result<Box<dyn ImageSink>> {
    let name = member.name.clone();
    let has_containers = member.runtime() == Runtime::Containerd;
    Ok(match spec.provisioner {
        Kind::Kubeconfig => Box::new(OutOfReach { member: name }),
        _ if !has_containers => Box::new(SimulatedSink { member: name }),
        Kind::Process => Box::new(ContainerdSink::new(&name, &socket_in(&place.machine_data(&member.name)))),
        Kind::Lxd => {
            let machine = Inside { provisioner: Testbed::running(place).await?.members, machine: name.clone() };
            let ctr = ["ctr", "--address", CONTAINER_SOCKET, "--namespace", "k8s.io"].map(str::to_owned).to_vec();
            Box::new(MachineSink { member: name, machine, ctr })
        }
    })
}

/// Returns the containerd socket of a member from its configuration: long paths cannot be socket addresses.
fn socket_in(data: &Path) -> PathBuf {
    let usual = data.join("containerd");
    let configured = std::fs::read_to_string(usual.join("config.toml")).unwrap_or_default();
    let address = configured.lines().find_map(|line| line.trim().strip_prefix("address = "));
    address.map_or_else(|| usual.join("containerd.sock"), |address| address.trim_matches('"').into())
}

/// Imports into a machine of a provisioner.
struct Inside {
    provisioner: Arc<dyn Provisioner>,
    machine: String,
}

#[async_trait]
impl RemoteMachine for Inside {
    async fn push_file(&self, from: &Path, to: &str) -> Result<(), String> {
        self.provisioner.push_file(&self.machine, from, to).await.map_err(|error| error.to_string())
    }

    async fn exec(&self, command: &[String]) -> Result<String, String> {
        let done = self.provisioner.exec(&self.machine, command, None).await.map_err(|error| error.to_string())?;
        if done.code == 0 {
            return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&done.stderr);
        Err(format!("{} exited with code {}: {}", command.join(" "), done.code, said.trim()))
    }
}

/// A cluster of the user, which is skipped.
struct OutOfReach {
    member: String,
}

#[async_trait]
impl ImageSink for OutOfReach {
    fn member(&self) -> &str {
        &self.member
    }

    async fn import(&self, _: &Path, _: &[Reference]) -> Result<ImportOutcome, String> {
        Err("the nodes of a cluster of yours are out of reach: let them pull from the registry, or say \
             --containerd NAME=SOCKET"
            .to_owned())
    }
}

fn named_socket(text: &str) -> Result<(String, PathBuf), String> {
    let (name, socket) = text.split_once('=').ok_or("expected NAME=SOCKET")?;
    Ok((name.to_owned(), socket.into()))
}
