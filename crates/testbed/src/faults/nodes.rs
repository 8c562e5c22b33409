//! Cordons all nodes of a member, and later uncordons only those.

use cluster_client::{ListOptions, Patch, ResourceRef, WriteOptions};
use serde_json::json;

use crate::bed::Testbed;
use crate::clusters::{NODES, open};
use crate::spec::MemberSpec;

/// Returns the schedulable nodes.
pub async fn not_cordoned(bed: &Testbed, member: &MemberSpec) -> anyhow::Result<Vec<String>> {
    let client = open(&bed.place.member_config(&member.name))?;
    let nodes = client.list_all(ResourceRef::all(&NODES.gvr()), ListOptions::default()).await?;
    let free = nodes.items.iter().filter(|node| node.bool_at(&["spec", "unschedulable"]) != Some(true));
    Ok(free.map(|node| node.name().to_owned()).collect())
}

/// Sets spec.unschedulable of nodes; missing nodes are skipped.
pub async fn cordon(bed: &Testbed, member: &MemberSpec, nodes: &[String], is_on: bool) -> anyhow::Result<()> {
    let client = open(&bed.place.member_config(&member.name))?;
    for node in nodes {
        let value = if is_on { json!(true) } else { json!(null) };
        let patch = Patch::merge(json!({"spec": {"unschedulable": value}}));
        match client.patch(ResourceRef::cluster(&NODES.gvr(), node), patch, WriteOptions::default()).await {
            Err(status) if !status.is_not_found() => return Err(status.into()),
            _ => {}
        }
    }
    Ok(())
}
