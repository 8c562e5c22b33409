//! Runs the agents as pods in `karmada-system` of their members.

use std::time::Duration;

use anyhow::bail;
use api::names::{CLUSTER_NAMESPACE, SYSTEM_NAMESPACE};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::{ClusterClient, DeleteOptions, Kubeconfig, ListOptions, ResourceRef};
use membership::ClusterLocation;
use membership::agent_manifests::{
    AGENT, AgentFlags, AgentInstallation, DEPLOYMENTS, KUBECONFIG_SECRET, KubeconfigSecret, resource_of,
};
use membership::credentials::{NAMESPACES, SECRETS};
use serde_json::json;
use tokio::time::Instant;

use super::{HostSpec, agent_state, apply, image};
use crate::bed::Testbed;
use crate::clusters::{PODS, open, rewrite, write_if_changed};
use crate::registration;
use crate::spec::{AGENT_INTERVALS, MemberSpec};

/// Karmada's guides look for the agent's kubeconfig in this Secret.
const AGENT_SECRET: &str = "karmada-agent-kubeconfig";
const START_TIMEOUT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(100);

/// Registers a member, and stores the kubeconfig of its agent in a Secret of the member.
pub async fn register(bed: &Testbed, host: &HostSpec, member: &MemberSpec) -> anyhow::Result<()> {
    let registered = registration::register_member(&bed.place, bed.spec.plane_port, member).await?;
    let server = format!("https://{}", host.plane_address()?);
    let config = rewrite(&registered.kubeconfig, &member.name, &server)?;
    let client = open(&bed.place.member_config(&member.name))?;
    apply(&client, Some(NAMESPACES), NAMESPACES.object("", SYSTEM_NAMESPACE)).await?;
    let mut secret = SECRETS.object(SYSTEM_NAMESPACE, AGENT_SECRET);
    secret.set(&["type"], "Opaque");
    secret.set(&["data"], json!({KUBECONFIG_SECRET: STANDARD.encode(&config)}));
    apply(&client, Some(SECRETS), secret).await?;
    // Last: it marks a member whose agent has its credentials.
    write_if_changed(&bed.place.agent_plane_config(&member.name), &config)
}

/// Creates or updates the agent of a registered member, and returns when its pod is ready.
pub async fn start_agent(bed: &Testbed, member: &MemberSpec) -> anyhow::Result<()> {
    let config = bed.place.member_config(&member.name);
    let endpoint = Kubeconfig::load(std::slice::from_ref(&config))?.remote(None)?.server;
    let flags = AgentFlags {
        cluster_name: &member.name,
        cluster_api_endpoint: &endpoint,
        location: &ClusterLocation::default(),
        proxy_server_address: "",
        cluster_namespace: CLUSTER_NAMESPACE,
        namespace: SYSTEM_NAMESPACE,
    };
    let mut arguments = flags.arguments();
    arguments.extend(AGENT_INTERVALS.map(str::to_owned));
    let installation = AgentInstallation {
        namespace: SYSTEM_NAMESPACE.to_owned(),
        kubeconfig: KubeconfigSecret::Existing(AGENT_SECRET.to_owned()),
        image: image::published(&bed.place)?,
        replicas: 1,
        arguments,
    };
    let client = open(&config)?;
    for object in installation.objects() {
        apply(&client, resource_of(&object), object).await?;
    }
    wait_for_agent(bed, member, &client).await
}

async fn wait_for_agent(bed: &Testbed, member: &MemberSpec, client: &ClusterClient) -> anyhow::Result<()> {
    let deadline = Instant::now() + START_TIMEOUT;
    let target = ResourceRef::namespaced(&DEPLOYMENTS.gvr(), SYSTEM_NAMESPACE, AGENT);
    loop {
        let deployment = client.get(target.clone()).await?;
        let count = |field: &str| deployment.i64_at(&["status", field]).unwrap_or_default();
        let is_seen = count("observedGeneration") >= deployment.generation();
        if is_seen && count("updatedReplicas") == 1 && count("availableReplicas") == 1 {
            return Ok(());
        }
        if Instant::now() >= deadline {
            bail!("its agent does not run: {}", agent_state(bed, &member.name).await.describe());
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Deletes the pod of an agent; its Deployment creates another.
pub async fn restart_agent(bed: &Testbed, member: &MemberSpec) -> anyhow::Result<()> {
    let client = open(&bed.place.member_config(&member.name))?;
    let options = ListOptions { label_selector: Some(format!("app={AGENT}")), ..ListOptions::default() };
    let pods = client.list_all(ResourceRef::within(&PODS.gvr(), SYSTEM_NAMESPACE), options).await?;
    for pod in pods.items {
        match client.delete(ResourceRef::of(&PODS.gvr(), &pod), DeleteOptions::default()).await {
            Err(status) if !status.is_not_found() => return Err(status.into()),
            _ => {}
        }
    }
    Ok(())
}
