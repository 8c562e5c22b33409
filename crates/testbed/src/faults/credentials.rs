//! Expired credentials: the control plane's token for a push-mode member, or the agent's kubeconfig in pull mode.

use anyhow::Context;
use api::names::CLUSTER_NAMESPACE;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::{Patch, ResourceRef, WriteOptions};
use membership::credentials::SECRETS;
use object::yaml;
use provisioners::Provisioner;
use serde_json::{Value, json};

use crate::bed::Testbed;
use crate::clusters::open;
use crate::place::agent_of;
use crate::spec::{MemberSpec, Mode, write_file};

/// A token that no server accepts.
const EXPIRED: &str = "expired";

/// Returns what is restored later: a token, or the kubeconfig of an agent.
pub async fn good_token(bed: &Testbed, member: &MemberSpec) -> anyhow::Result<String> {
    if member.mode == Mode::Pull {
        let path = bed.place.agent_plane_config(&member.name);
        return std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()));
    }
    let secret = open(&bed.place.plane_config())?.get(target(member)).await?;
    Ok(secret.str_at(&["data", "token"]).to_owned())
}

pub async fn expire(bed: &Testbed, member: &MemberSpec) -> anyhow::Result<()> {
    if member.mode == Mode::Push {
        return set_token(bed, member, &STANDARD.encode(EXPIRED)).await;
    }
    let path = bed.place.agent_plane_config(&member.name);
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut config: Value = serde_saphyr::from_str(&text).context("the agent's kubeconfig is damaged")?;
    for user in config["users"].as_array_mut().into_iter().flatten() {
        user["user"] = json!({"token": EXPIRED});
    }
    replace_agent(bed, member, &yaml::to_string(&config)).await
}

pub async fn restore(bed: &Testbed, member: &MemberSpec, token: &str) -> anyhow::Result<()> {
    match member.mode {
        Mode::Push => set_token(bed, member, token).await,
        Mode::Pull => restore_agent(bed, member, token).await,
    }
}

pub async fn restore_agent(bed: &Testbed, member: &MemberSpec, config: &str) -> anyhow::Result<()> {
    if std::fs::read_to_string(bed.place.agent_plane_config(&member.name)).is_ok_and(|present| present == config) {
        return Ok(());
    }
    replace_agent(bed, member, config).await
}

/// Replaces the kubeconfig of an agent and restarts it.
async fn replace_agent(bed: &Testbed, member: &MemberSpec, config: &str) -> anyhow::Result<()> {
    write_file(&bed.place.agent_plane_config(&member.name), config.as_bytes())?;
    let agent = agent_of(&member.name);
    match bed.supervisor.stop(&agent).await {
        Err(provisioners::Error::NoMachine(_)) => return Ok(()),
        stopped => stopped?,
    }
    Ok(bed.supervisor.start(&agent).await?)
}

async fn set_token(bed: &Testbed, member: &MemberSpec, encoded: &str) -> anyhow::Result<()> {
    let patch = Patch::merge(json!({"data": {"token": encoded}}));
    match open(&bed.place.plane_config())?.patch(target(member), patch, WriteOptions::default()).await {
        // A member that is registered again gets new credentials.
        Err(status) if !status.is_not_found() => Err(status.into()),
        _ => Ok(()),
    }
}

fn target(member: &MemberSpec) -> ResourceRef {
    ResourceRef::namespaced(&SECRETS.gvr(), CLUSTER_NAMESPACE, &member.name)
}
