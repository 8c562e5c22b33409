//! Adds members to the control plane: joined in push mode, registered with an agent in pull mode.

use std::time::Duration;

use anyhow::{Context, bail};
use api::cluster::{CLUSTERS, ClusterSpec};
use api::names::{CLUSTER_NAMESPACE, SYSTEM_NAMESPACE};
use cluster_client::{ClusterClient, DeleteOptions, Kubeconfig, RemoteConfig, ResourceRef};
use karmadactl::plane::{PlaneArgs, PlaneClient};
use membership::agent_manifests::IMAGE;
use membership::credentials::SECRETS;
use membership::join::{JoinOptions, Readiness};
use membership::register::{AgentDelivery, AgentDeployment, RegisterOptions, Registered, register_as_administrator};
use membership::rights::AgentRights;
use membership::unjoin::UnjoinOptions;
use membership::{ClusterLocation, MemberAccess, NoProgress};
use provisioners::Provisioner;
use tokio::time::Instant;

use crate::bed::Testbed;
use crate::clusters::{open, rewrite, write_if_changed};
use crate::display::ProgressLine;
use crate::hint::Hint;
use crate::host_cluster;
use crate::place::{TestbedDir, agent_of};
use crate::spec::{MemberSpec, Mode, loopback};

const POLL: Duration = Duration::from_millis(50);
const REGISTER_TIMEOUT: Duration = Duration::from_secs(60);
const UNJOIN_WAIT: Duration = Duration::from_secs(60);
const CERTIFICATE_SECONDS: i32 = 365 * 24 * 3600;

/// Opens the control plane as its administrator.
pub fn open_plane(place: &TestbedDir) -> anyhow::Result<PlaneClient> {
    PlaneClient::open(&PlaneArgs::of_kubeconfig(&place.plane_config(), None))
}

/// Registration of a member in the control plane.
pub enum RegistrationState {
    Missing,
    /// Registered with its current ID and address. It may still not be ready.
    Current,
    /// Registered, but the secrets with its credentials are gone.
    MissingCredentials,
    /// Registered as another cluster or at another address.
    Stale(String),
}

pub async fn look_up(
    plane: &ClusterClient,
    place: &TestbedDir,
    member: &MemberSpec,
) -> anyhow::Result<RegistrationState> {
    let Some(cluster) = plane.find(ResourceRef::cluster(&CLUSTERS.gvr(), &member.name)).await? else {
        return Ok(RegistrationState::Missing);
    };
    let spec: ClusterSpec = api::read(&cluster)?;
    let remote = remote_of(place, member)?;
    let id = membership::join::cluster_id(&open(&place.member_config(&member.name))?, &remote.server).await?;
    if spec.id != id {
        return Ok(RegistrationState::Stale("it is registered with another cluster ID".to_owned()));
    }
    if member.mode == Mode::Push && spec.api_endpoint != remote.server {
        return Ok(RegistrationState::Stale(format!("it is registered at {}", spec.api_endpoint)));
    }
    if member.mode == Mode::Pull && !place.agent_plane_config(&member.name).exists() {
        return Ok(RegistrationState::Stale("the credentials of its agent are missing".to_owned()));
    }
    for secret in [member.name.clone(), format!("{}-impersonator", member.name)] {
        let target = ResourceRef::namespaced(&SECRETS.gvr(), CLUSTER_NAMESPACE, &secret);
        if plane.find(target).await?.is_none() {
            return Ok(RegistrationState::MissingCredentials);
        }
    }
    Ok(RegistrationState::Current)
}

/// Restores the credentials of a member in the control plane; its workloads are not affected.
pub async fn restore_credentials(bed: &Testbed, member: &MemberSpec) -> anyhow::Result<()> {
    let place = &bed.place;
    if member.mode == Mode::Push {
        membership::join::renew_credentials(&join_options(place, member)?, &NoProgress).await?;
        return Ok(());
    }
    // The agent fills the secrets when it starts; it may not create them.
    let plane = open_plane(place)?.client;
    AgentRights::new(&member.name, CLUSTER_NAMESPACE).create_secrets(&plane).await?;
    if bed.spec.host.is_some() {
        return host_cluster::restart_agent(bed, member).await;
    }
    match bed.supervisor.stop(&agent_of(&member.name)).await {
        Err(provisioners::Error::NoMachine(_)) => Ok(()),
        stopped => Ok(stopped?),
    }
}

/// Reads how a member is reached from its kubeconfig.
fn remote_of(place: &TestbedDir, member: &MemberSpec) -> anyhow::Result<RemoteConfig> {
    Ok(Kubeconfig::load(&[place.member_config(&member.name)])?.remote(None)?)
}

fn access(place: &TestbedDir, member: &MemberSpec) -> anyhow::Result<MemberAccess> {
    let kubeconfig = Kubeconfig::load(&[place.member_config(&member.name)])?;
    let access = MemberAccess::new(kubeconfig.remote(None)?, kubeconfig.proxy_url(None))?;
    Ok(MemberAccess { client: open(&place.member_config(&member.name))?, ..access })
}

/// Removes a cluster from the control plane without contacting the member.
pub async fn forget(
    place: &TestbedDir,
    plane: &ClusterClient,
    member: &MemberSpec,
    deadline: Instant,
) -> anyhow::Result<()> {
    let target = ResourceRef::cluster(&CLUSTERS.gvr(), &member.name);
    match plane.delete(target.clone(), DeleteOptions::default()).await {
        Err(status) if !status.is_not_found() => return Err(status.into()),
        _ => {}
    }
    while plane.find(target.clone()).await?.is_some() {
        if Instant::now() >= deadline {
            let name = &member.name;
            let command = place.hint(&Hint::UnjoinForced(name));
            bail!("the control plane did not remove {name} before the timeout; try `{command}`");
        }
        tokio::time::sleep(POLL).await;
    }
    AgentRights::new(&member.name, CLUSTER_NAMESPACE).revoke_with_objects(plane, &NoProgress).await;
    Ok(())
}

fn join_options(place: &TestbedDir, member: &MemberSpec) -> anyhow::Result<JoinOptions> {
    Ok(JoinOptions {
        control_plane: open_plane(place)?.client,
        member: access(place, member)?,
        name: member.name.clone(),
        namespace: CLUSTER_NAMESPACE.to_owned(),
        location: ClusterLocation::default(),
        dry_run: false,
    })
}

pub async fn join(place: &TestbedDir, member: &MemberSpec) -> anyhow::Result<()> {
    membership::join::join(&join_options(place, member)?, &NoProgress).await?;
    Ok(())
}

/// Unjoins a user's cluster, and deletes what joining created in it.
pub async fn unjoin(place: &TestbedDir, member: &MemberSpec) -> anyhow::Result<()> {
    let control_plane = open_plane(place)?.client;
    let cluster = ResourceRef::cluster(&CLUSTERS.gvr(), &member.name);
    if control_plane.find(cluster).await?.is_none() {
        return Ok(());
    }
    let options = UnjoinOptions {
        control_plane,
        member: Some(open(&place.member_config(&member.name))?),
        name: member.name.clone(),
        namespace: CLUSTER_NAMESPACE.to_owned(),
        wait: UNJOIN_WAIT,
        force: false,
        dry_run: false,
    };
    membership::unjoin::unjoin(&options, &NoProgress).await?;
    Ok(())
}

/// Registers a member, and writes the kubeconfig of its agent for the control plane.
pub async fn register(place: &TestbedDir, plane_port: u16, member: &MemberSpec) -> anyhow::Result<()> {
    let registered = register_member(place, plane_port, member).await?;
    // The agent connects through its own port, so that a fault can cut its connection.
    let own = format!("https://{}", loopback(member.agent_plane_port));
    let config = rewrite(&registered.kubeconfig, &member.name, &own)?;
    write_if_changed(&place.agent_plane_config(&member.name), &config)
}

/// Registers a member in pull mode, without starting an agent.
pub async fn register_member(place: &TestbedDir, plane_port: u16, member: &MemberSpec) -> anyhow::Result<Registered> {
    let plane = open_plane(place)?;
    let authority = plane.authority()?.context("the control plane's kubeconfig has no CA")?;
    let options = RegisterOptions {
        member: access(place, member)?,
        name: member.name.clone(),
        server: format!("https://{}", loopback(plane_port)),
        namespace: CLUSTER_NAMESPACE.to_owned(),
        location: ClusterLocation::default(),
        proxy_server_address: String::new(),
        agent: AgentDeployment {
            namespace: SYSTEM_NAMESPACE.to_owned(),
            image: IMAGE.to_owned(),
            replicas: 1,
            delivery: AgentDelivery::ReturnManifests,
        },
        certificate_seconds: CERTIFICATE_SECONDS,
        timeout: REGISTER_TIMEOUT,
    };
    Ok(register_as_administrator(&options, &plane.client, &authority, &NoProgress).await?)
}

/// Returns when the control plane reports that the member is ready.
pub async fn wait_ready(
    plane: &ClusterClient,
    member: &str,
    line: &ProgressLine,
    deadline: Instant,
) -> anyhow::Result<()> {
    loop {
        let reason = match readiness(plane, member).await? {
            Readiness::Ready => return Ok(()),
            Readiness::NotReady(reason) => reason,
        };
        line.say(&format!("waiting to be ready: {reason}"));
        if Instant::now() >= deadline {
            bail!("not ready before the timeout: {reason}");
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Reads the readiness of a member.
pub async fn readiness(plane: &ClusterClient, member: &str) -> anyhow::Result<Readiness> {
    let found = membership::join::readiness(plane, member).await?;
    Ok(found.unwrap_or_else(|| Readiness::NotReady("it is not registered in the control plane".to_owned())))
}
