//! Flags of `up`.

use std::path::PathBuf;
use std::time::Duration;

use ::testbed::place::TestbedDir;
use ::testbed::plan::{Members, UpOptions};
use ::testbed::runtime::{HostContainers, RuntimeChoice};
use ::testbed::spec::{Kind, MachineSpec, Source};
use anyhow::Context;
use clap::{Args, ValueEnum};

use super::{TestbedArgs, TimeoutArgs};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # The control plane on 127.0.0.1:5443, member1, member2, member3 on 16441, 16442, 16444, a registry on 32000
  flotilla up

  # A second testbed with five members, two of them in pull mode, with ten nodes each
  flotilla up --name big --members 5 --pull member4,member5 --nodes 10

  # Pods as real containers, and as simulations that need no root
  sudo flotilla up --runtime containerd
  flotilla up --runtime simulated

  # The control plane and the agents as pods, as in Karmada's guides
  sudo flotilla up --host-cluster

  # Three named members in pull mode
  flotilla up --members ottawa,robbinsdale,stpetersburg --pull all

  # With a manager and two of its instances
  flotilla up --manager

  # Members in system containers of LXD or Incus; existing clusters as members
  flotilla up --provisioner lxd
  flotilla up --provisioner lxd --microk8s --memory 4GiB
  flotilla up --cluster east=$HOME/.kube/config:east --cluster west=$HOME/.kube/config:west

Kubeconfigs, logs and commands compared with Karmada's guides: docs/from-karmada.md")]
pub struct UpArgs {
    #[command(flatten)]
    place: TestbedArgs,
    /// Number of members, or their names [default: 3]
    #[arg(long, value_name = "N|NAME,...", value_parser = Members::parse)]
    members: Option<Members>,
    /// Members in pull mode, or `all` [default: member3]
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    pull: Option<Vec<String>>,
    /// Number of nodes of each member
    #[arg(long, value_name = "N")]
    nodes: Option<u32>,
    /// Provisioner of members [default: process]
    #[arg(long, value_enum, value_name = "WHERE")]
    provisioner: Option<ProvisionerKind>,
    /// Runtime of pods: containerd runs real containers (needs root, containerd, runc and CNI plugins); auto uses it
    /// where it can [default: auto]
    #[arg(long, value_enum, value_name = "RUNTIME")]
    runtime: Option<RuntimeKind>,
    /// Address of this host that public ports listen on: 127.0.0.1, or 0.0.0.0 for all [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    bind: Option<std::net::IpAddr>,
    /// Kubernetes version that members report
    #[arg(long, value_name = "VERSION")]
    kubernetes_version: Option<String>,
    /// Existing cluster to add as a member (can be repeated)
    #[arg(long = "cluster", value_name = "NAME=FILE[:CONTEXT]")]
    clusters: Vec<String>,
    /// Port of the control plane; 0 picks a free port [default: 5443]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Port of the registry; 0 picks a free port [default: 32000]
    #[arg(long, value_name = "PORT")]
    registry_port: Option<u16>,
    /// Port of the first member, the others follow; 0 picks free ports [default: 16441, 16442, 16444, ...]
    #[arg(long, value_name = "PORT")]
    member_port: Option<u16>,
    /// With --provisioner lxd: image of the containers, such as ubuntu:22.04 [default: built from this program]
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// With --provisioner lxd: run MicroK8s instead of a lightweight member; needs snap in the image
    #[arg(long)]
    microk8s: bool,
    /// With --provisioner lxd: CPUs of each container, such as 2
    #[arg(long, value_name = "N")]
    cpu: Option<String>,
    /// With --provisioner lxd: memory of each container, such as 2GiB
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Run the control plane as a pod of a host cluster on 127.0.0.1:16443, and an agent as a pod in every member (needs
    /// root, containerd, runc and CNI plugins) [default port of the control plane: 32443]
    #[arg(long)]
    host_cluster: bool,
    /// Also start a manager with two instances: this control plane, and a second one with a cluster of its own
    #[arg(long)]
    manager: bool,
    /// Port of the manager; 0 picks a free port [default: 5444]
    #[arg(long, value_name = "PORT", requires = "manager")]
    manager_port: Option<u16>,
    /// Do not start a registry
    #[arg(long)]
    no_registry: bool,
    /// Do not link kubeconfigs to /etc/karmada/karmada-apiserver.config and /root/MEMBER.config (as root)
    #[arg(long)]
    no_links: bool,
    /// Keep a new testbed that failed to start, to examine it
    #[arg(long)]
    retain: bool,
    #[command(flatten)]
    patience: TimeoutArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RuntimeKind {
    Auto,
    Simulated,
    Containerd,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ProvisionerKind {
    Process,
    Lxd,
    Kubeconfig,
}

impl UpArgs {
    pub fn place(&self) -> anyhow::Result<TestbedDir> {
        self.place.place()
    }

    pub fn patience(&self) -> Duration {
        self.patience.timeout
    }

    pub fn wanted(&self) -> anyhow::Result<UpOptions> {
        Ok(UpOptions {
            members: self.members.clone(),
            pull: self.pull.clone(),
            nodes: self.nodes,
            runtime: self.runtime.map(|kind| match kind {
                RuntimeKind::Auto => RuntimeChoice::Auto,
                RuntimeKind::Simulated => RuntimeChoice::Simulated,
                RuntimeKind::Containerd => RuntimeChoice::Containerd,
            }),
            containers: HostContainers::Unknown,
            bind: self.bind,
            no_links: self.no_links,
            retain: self.retain,
            kubernetes_version: self.kubernetes_version.clone(),
            provisioner: self.provisioner.map(|kind| match kind {
                ProvisionerKind::Process => Kind::Process,
                ProvisionerKind::Lxd => Kind::Lxd,
                ProvisionerKind::Kubeconfig => Kind::Kubeconfig,
            }),
            sources: self.clusters.iter().map(|text| cluster_source(text)).collect::<anyhow::Result<_>>()?,
            plane_port: self.port,
            registry_port: self.registry_port,
            no_registry: self.no_registry,
            member_port: self.member_port,
            host_cluster: self.host_cluster,
            manager: self.manager,
            manager_port: self.manager_port,
            machines: MachineSpec {
                image: self.image.clone(),
                microk8s: self.microk8s,
                cpu: self.cpu.clone(),
                memory: self.memory.clone(),
            },
        })
    }
}

fn cluster_source(text: &str) -> anyhow::Result<(String, Source)> {
    let (name, rest) = text.split_once('=').with_context(|| format!("--cluster {text}: use NAME=FILE[:CONTEXT]"))?;
    // A file name may contain a colon: an existing file takes precedence.
    let (file, context) = match rest.rsplit_once(':') {
        Some((file, context)) if !PathBuf::from(rest).exists() => (file, Some(context.to_owned())),
        _ => (rest, None),
    };
    let kubeconfig = std::path::absolute(file).with_context(|| format!("--cluster {text}"))?;
    anyhow::ensure!(kubeconfig.is_file(), "--cluster {text}: {} does not exist", kubeconfig.display());
    Ok((name.to_owned(), Source { kubeconfig, context }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_a_name_an_existing_file_and_an_optional_context() {
        let read =
            |text: &str| cluster_source(text).ok().map(|(name, source)| (name, source.kubeconfig, source.context));
        let file = tempfile::NamedTempFile::new().expect("a file");
        let path = file.path().display();
        let expected = |context: Option<&str>| Some(("east".into(), file.path().into(), context.map(str::to_owned)));
        assert_eq!(read(&format!("east={path}:prod")), expected(Some("prod")));
        assert_eq!(read(&format!("east={path}")), expected(None));
        assert_eq!(read("east"), None);
        let missing = cluster_source("east=/nonexistent/config:prod").expect_err("no such file").to_string();
        assert_eq!(missing, "--cluster east=/nonexistent/config:prod: /nonexistent/config does not exist");
    }
}
