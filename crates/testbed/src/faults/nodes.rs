//! All nodes of a member cordoned, and only those uncordoned again.

use cluster_client::{ListOptions, Patch, ResourceRef, WriteOptions};
use serde_json::json;

use crate::bed::Bed;
use crate::clusters::{NODES, open};
use crate::spec::MemberSpec;

/// Nodes that take pods now.
pub async fn not_cordoned(bed: &Bed, member: &MemberSpec) -> anyhow::Result<Vec<String>> {
    let client = open(&bed.place.member_config(&member.name))?;
    let nodes = client.list_all(ResourceRef::all(&NODES.gvr()), ListOptions::default()).await?;
    let free = nodes.items.iter().filter(|node| node.bool_at(&["spec", "unschedulable"]) != Some(true));
    Ok(free.map(|node| node.name().to_owned()).collect())
}

/// A node that is gone needs nothing.
pub async fn cordon(bed: &Bed, member: &MemberSpec, nodes: &[String], is_on: bool) -> anyhow::Result<()> {
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
