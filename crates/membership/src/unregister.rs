//! Unregisters a pull-mode cluster: removes it from the control plane, then its agent from the member.

use std::path::Path;
use std::time::Duration;

use api::Resource;
use api::cluster::{CLUSTERS, ClusterSpec, SyncMode};
use api::names::execution_namespace;
use api::work::WORKS;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::{ClusterClient, DeleteOptions, Endpoint, Kubeconfig, ListOptions, ResourceRef};
use tokio::time::Instant;

use crate::agent_manifests::{AGENT, AGENT_ACCOUNT, DEPLOYMENTS, KUBECONFIG_SECRET};
use crate::credentials::{
    CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, NAMESPACES, SECRETS, SERVICE_ACCOUNTS, ignore_missing, role_of,
    service_account_of, target_of,
};
use crate::invitation::Invitation;
use crate::rights::AgentRights;
use crate::{MembershipError, Progress};

const POLL: Duration = Duration::from_millis(250);

pub struct UnregisterOptions {
    pub control_plane: ControlPlaneAccess,
    pub member: ClusterClient,
    pub name: String,
    /// Namespace of the cluster's secrets.
    pub namespace: String,
    /// Namespace of the agent in the member.
    pub agent_namespace: String,
    /// Name of the agent's Deployment.
    pub agent_name: String,
    pub wait: Duration,
    /// Checks everything and changes nothing.
    pub dry_run: bool,
}

/// The identity used in the control plane.
pub enum ControlPlaneAccess {
    /// A user; also revokes the agent's permissions.
    User(ClusterClient),
    /// The agent itself, which cannot revoke its own permissions.
    Agent(ClusterClient),
}

impl ControlPlaneAccess {
    fn client(&self) -> &ClusterClient {
        match self {
            Self::User(client) | Self::Agent(client) => client,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum UnregisterOutcome {
    /// All checks passed, nothing was changed.
    Checked,
    Removed,
}

/// Connects to the control plane with the agent's kubeconfig, from its secret in the member.
pub async fn connect_as_agent(
    member: &ClusterClient,
    agent_namespace: &str,
    context: Option<&str>,
) -> Result<ClusterClient, MembershipError> {
    let secret = format!("{agent_namespace}/{KUBECONFIG_SECRET}");
    let target = ResourceRef::namespaced(&SECRETS.gvr(), agent_namespace, KUBECONFIG_SECRET);
    let found = match member.get(target).await {
        Ok(found) => found,
        Err(status) => return Err(MembershipError::ReadAgentKubeconfig { secret, status }),
    };
    let text = STANDARD.decode(found.str_at(&["data", KUBECONFIG_SECRET])).ok();
    let text = text.and_then(|text| String::from_utf8(text).ok());
    let text = text.ok_or(MembershipError::InvalidAgentKubeconfig(secret))?;
    let remote = Kubeconfig::parse(&text, Path::new("/"))?.remote(context)?;
    Ok(ClusterClient::connect(Endpoint::Remote(remote))?)
}

pub async fn unregister(
    options: &UnregisterOptions,
    progress: &dyn Progress,
) -> Result<UnregisterOutcome, MembershipError> {
    let (name, plane) = (&options.name, options.control_plane.client());
    let target = ResourceRef::cluster(&CLUSTERS.gvr(), name);
    let Some(cluster) = plane.find(target.clone()).await? else {
        return Err(MembershipError::NoSuchCluster(name.clone()));
    };
    if api::read::<ClusterSpec>(&cluster)?.sync_mode == SyncMode::Push {
        return Err(MembershipError::IsPushMember(name.clone()));
    }
    if options.dry_run {
        return Ok(UnregisterOutcome::Checked);
    }
    // The works are deleted with the Cluster, and the agent, which is still running, removes their objects. Works deleted
    // earlier would only be created again.
    ignore_missing(plane.delete(target.clone(), DeleteOptions::default()).await)?;
    wait_until_gone(options, plane, target).await?;
    progress.note(&format!("cluster({name}) is removed from the control plane"));
    let rights = AgentRights::new(name, &options.namespace);
    match &options.control_plane {
        ControlPlaneAccess::User(plane) => {
            rights.revoke(plane, progress).await;
            Invitation::new(name, &options.namespace)?.revoke(plane, progress).await;
        }
        ControlPlaneAccess::Agent(_) => progress.warn(&format!(
            "the agent cannot remove its own permissions; remove them with --karmada-config, or manually: {}",
            rights.names().join(", ")
        )),
    }
    clean_member(options).await?;
    Ok(UnregisterOutcome::Removed)
}

async fn wait_until_gone(
    options: &UnregisterOptions,
    plane: &ClusterClient,
    target: ResourceRef,
) -> Result<(), MembershipError> {
    let deadline = Instant::now() + options.wait;
    while plane.find(target.clone()).await?.is_some() {
        if Instant::now() >= deadline {
            let works = ResourceRef::within(&WORKS.gvr(), &execution_namespace(&options.name));
            let left = plane.list_all(works, ListOptions::default()).await.map_or(0, |list| list.items.len());
            let remaining =
                format!("{left} object(s) in it are not cleaned up yet; is its agent running? The removal continues");
            return Err(MembershipError::NotRemoved { name: options.name.clone(), wait: options.wait, remaining });
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

/// Deletes the agent's objects in the member.
async fn clean_member(options: &UnregisterOptions) -> Result<(), MembershipError> {
    let (own, impersonator) = (service_account_of(&options.name), service_account_of("impersonator"));
    let role = role_of(&own);
    let (secrets, agents) = (options.namespace.as_str(), options.agent_namespace.as_str());
    let objects: [(&Resource, &str, &str); 12] = [
        (&DEPLOYMENTS, agents, &options.agent_name),
        (&SERVICE_ACCOUNTS, secrets, &own),
        (&SECRETS, secrets, &own),
        (&CLUSTER_ROLE_BINDINGS, "", &role),
        (&CLUSTER_ROLES, "", &role),
        (&SERVICE_ACCOUNTS, secrets, &impersonator),
        (&SECRETS, secrets, &impersonator),
        (&NAMESPACES, "", secrets),
        (&SERVICE_ACCOUNTS, agents, AGENT_ACCOUNT),
        (&CLUSTER_ROLE_BINDINGS, "", AGENT),
        (&CLUSTER_ROLES, "", AGENT),
        (&SECRETS, agents, KUBECONFIG_SECRET),
    ];
    for (resource, namespace, name) in objects {
        let deleted = options.member.delete(target_of(resource, namespace, name), DeleteOptions::default()).await;
        ignore_missing(deleted).map_err(|status| MembershipError::DeleteInMember {
            kind: resource.kind,
            name: name.to_owned(),
            cluster: options.name.clone(),
            status,
        })?;
    }
    Ok(())
}
