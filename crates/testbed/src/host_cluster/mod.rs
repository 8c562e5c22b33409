//! `up --host-cluster`: the control plane and the agents run as pods, in a host cluster and in the members.
//!
//! The host cluster is a member with containers that is not registered. Its pod of the control plane opens a port on the
//! bridge of the host cluster, where the agents in the members reach it; the supervisor forwards a public port there.

mod agents;
mod image;
mod plane;
mod planning;
mod pods;

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Context;
use api::Resource;
use cluster_client::{ClusterClient, ResourceRef};
use object::Object;
use provisioners::{Forward, Machine};
use serde::{Deserialize, Serialize};

use crate::place::TestbedDir;
use crate::spec::{MemberSpec, PLANE_FORWARD, Spec};

pub use agents::{register, restart_agent, start_agent};
pub use plane::start_plane;
pub use planning::{options, plan_host, reclaim};
pub use pods::{PodState, agent_state, plane_state};

/// Machine, kubeconfig and context of the host cluster.
pub const HOST: &str = "host";

const FIELD_MANAGER: &str = "flotilla-up";

/// The host cluster of a testbed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostSpec {
    pub cluster: MemberSpec,
    /// Port of the control plane on the bridge of the host cluster.
    pub plane_port: u16,
}

impl HostSpec {
    /// Returns the address at which pods of all clusters reach the control plane.
    pub fn plane_address(&self) -> anyhow::Result<SocketAddr> {
        Ok(SocketAddr::from((self.gateway()?, self.plane_port)))
    }

    /// Returns the address of this host in the network of the host cluster: the first of its range.
    fn gateway(&self) -> anyhow::Result<Ipv4Addr> {
        let cidr = self.cluster.pod_cidr.as_deref().unwrap_or_default();
        let first = cidr.split_once('/').and_then(|(network, _)| network.parse::<Ipv4Addr>().ok());
        let first = first.with_context(|| format!("the host cluster has no pod CIDR but {cidr:?}"))?;
        Ok(Ipv4Addr::from(u32::from(first) + 1))
    }

    /// Returns the machine of the host cluster, with the public port of the control plane.
    pub fn machine(&self, spec: &Spec, mut made: Machine) -> anyhow::Result<Machine> {
        let listen = SocketAddr::new(spec.bind, spec.plane_port);
        let target = self.plane_address()?.to_string();
        made.forwards.push(Forward { name: PLANE_FORWARD.to_owned(), listen, target });
        Ok(made)
    }
}

/// Creates or updates an object of the control plane or of an agent.
async fn apply(client: &ClusterClient, resource: Option<Resource>, object: Object) -> anyhow::Result<()> {
    let what = format!("{} {}", object.kind(), object.name());
    let resource = resource.with_context(|| format!("{what} has no known resource"))?;
    let applied = client.apply(ResourceRef::of(&resource.gvr(), &object), object, FIELD_MANAGER).await;
    applied.map(drop).with_context(|| format!("cannot write {what}"))
}

/// Returns the file with the reference of the image that the pods run.
fn image_file(place: &TestbedDir) -> std::path::PathBuf {
    place.directory().join("images/flotilla.reference")
}
