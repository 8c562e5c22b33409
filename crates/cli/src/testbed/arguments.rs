//! What `up` accepts.

use std::path::PathBuf;
use std::time::Duration;

use ::testbed::place::Place;
use ::testbed::plan::{Members, Wanted};
use ::testbed::spec::{Kind, MachineSpec, Source};
use anyhow::Context;
use clap::{Args, ValueEnum};

use super::{PatienceArgs, PlaceArgs};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # The control plane on 127.0.0.1:5443, member1, member2, member3 on 16441, 16442, 16444, a registry on 32000
  flotilla up

  # Five members, two of which pull, with ten nodes each, beside another testbed
  flotilla up --name big --members 5 --pull member4,member5 --nodes 10

  # Three cities, each with an agent that pulls
  flotilla up --members ottawa,robbinsdale,stpetersburg --pull all

  # Members in system containers of LXD or Incus; members that are clusters you have
  flotilla up --provisioner lxd
  flotilla up --provisioner lxd --microk8s --memory 4GiB
  flotilla up --cluster east=$HOME/.kube/config:east --cluster west=$HOME/.kube/config:west")]
pub struct UpArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// How many members, or their names [default: 3]
    #[arg(long, value_name = "N|NAME,...", value_parser = Members::parse)]
    members: Option<Members>,
    /// Members that pull, with an agent beside them; `all` for all of them [default: member3]
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    pull: Option<Vec<String>>,
    /// Nodes of each member
    #[arg(long, value_name = "N")]
    nodes: Option<u32>,
    /// Where members run [default: process]
    #[arg(long, value_enum, value_name = "WHERE")]
    provisioner: Option<ProvisionerKind>,
    /// What runs pods: simulated or containerd
    #[arg(long, value_name = "RUNTIME")]
    runtime: Option<String>,
    /// The Kubernetes version members report
    #[arg(long, value_name = "VERSION")]
    kubernetes_version: Option<String>,
    /// A cluster of yours that becomes a member; may be given several times
    #[arg(long = "cluster", value_name = "NAME=FILE[:CONTEXT]")]
    clusters: Vec<String>,
    /// Port of the control plane; 0 picks a free one [default: 5443]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Port of the registry; 0 picks a free one [default: 32000]
    #[arg(long, value_name = "PORT")]
    registry_port: Option<u16>,
    /// Port that leads to the first member, the others follow; 0 picks free ones [default: 16441, 16442, 16444, ...]
    #[arg(long, value_name = "PORT")]
    member_port: Option<u16>,
    /// With --provisioner lxd: the image of the machines, such as ubuntu:22.04 [default: made here from this program]
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// With --provisioner lxd: MicroK8s in the machines instead of a light member; needs snap in the image
    #[arg(long)]
    microk8s: bool,
    /// With --provisioner lxd: processors of each machine, such as 2
    #[arg(long, value_name = "N")]
    cpu: Option<String>,
    /// With --provisioner lxd: memory of each machine, such as 2GiB
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Start no registry
    #[arg(long)]
    no_registry: bool,
    #[command(flatten)]
    patience: PatienceArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ProvisionerKind {
    Process,
    Lxd,
    Kubeconfig,
}

impl UpArgs {
    pub fn place(&self) -> anyhow::Result<Place> {
        self.place.place()
    }

    pub fn patience(&self) -> Duration {
        self.patience.timeout
    }

    pub fn wanted(&self) -> anyhow::Result<Wanted> {
        Ok(Wanted {
            members: self.members.clone(),
            pull: self.pull.clone(),
            nodes: self.nodes,
            runtime: self.runtime.clone(),
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
    let (name, rest) = text.split_once('=').with_context(|| format!("--cluster {text}: say NAME=FILE[:CONTEXT]"))?;
    // A file may have a colon in its name; a file that is there is meant.
    let (file, context) = match rest.rsplit_once(':') {
        Some((file, context)) if !PathBuf::from(rest).exists() => (file, Some(context.to_owned())),
        _ => (rest, None),
    };
    let kubeconfig = std::path::absolute(file).with_context(|| format!("--cluster {text}"))?;
    Ok((name.to_owned(), Source { kubeconfig, context }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_a_name_a_file_and_perhaps_a_context() {
        let read =
            |text: &str| cluster_source(text).ok().map(|(name, source)| (name, source.kubeconfig, source.context));
        assert_eq!(read("east=/k/config:prod"), Some(("east".into(), "/k/config".into(), Some("prod".into()))));
        assert_eq!(read("east=/k/config"), Some(("east".into(), "/k/config".into(), None)));
        assert_eq!(read("east"), None);
    }
}
