//! Aggregates the Works of a binding into its aggregated status and its FullyApplied condition.

use api::core::{Condition, find_condition, set_condition};
use api::names::cluster_of_execution_namespace;
use api::work::{
    AggregatedStatusItem, BindingSpec, CONDITION_APPLIED, CONDITION_FULLY_APPLIED, ManifestStatus, ObjectReference,
    WorkStatus,
};
use object::{GroupVersion, Object, Status};
use serde_json::{Map, Value, json};

use crate::works::existing_clusters;

/// One item per member that has a work of the binding, by name. Works that are going away say nothing more, and so does
/// an object that is no work of a member.
pub fn aggregate<'a>(
    works: impl IntoIterator<Item = &'a Object>,
    resource: &ObjectReference,
) -> Result<Vec<AggregatedStatusItem>, Status> {
    let mut items = Vec::new();
    for work in works {
        let Some(cluster) = cluster_of_execution_namespace(work.namespace()) else { continue };
        if !work.is_deleting() {
            let status: WorkStatus = api::read_at(work, &["status"])?;
            items.push(item(cluster, work, status, resource));
        }
    }
    items.sort_by(|a: &AggregatedStatusItem, b| a.cluster_name.cmp(&b.cluster_name));
    Ok(items)
}

fn item(cluster: &str, work: &Object, status: WorkStatus, resource: &ObjectReference) -> AggregatedStatusItem {
    let applied = find_condition(&status.conditions, CONDITION_APPLIED);
    let is_applied = applied.is_some_and(Condition::is_true);
    let mut item = AggregatedStatusItem {
        cluster_name: cluster.to_owned(),
        applied: is_applied,
        health: "Unknown".to_owned(),
        ..Default::default()
    };
    if !is_applied {
        item.applied_message = applied.map(|condition| condition.message.clone()).unwrap_or_default();
    } else if let Some(found) = find_manifest_status(work, status.manifest_statuses, resource) {
        item.status = found.status;
        item.health = found.health;
    }
    item
}

/// Returns the status of the template among the manifests of a Work.
fn find_manifest_status(
    work: &Object,
    statuses: Vec<ManifestStatus>,
    resource: &ObjectReference,
) -> Option<ManifestStatus> {
    let manifests = work.items(&["spec", "workload", "manifests"]);
    let is_template = |manifest: &Value| {
        let metadata = |field: &str| manifest["metadata"][field].as_str().unwrap_or_default();
        manifest["apiVersion"] == resource.api_version.as_str()
            && manifest["kind"] == resource.kind.as_str()
            && metadata("name") == resource.name
            && metadata("namespace") == resource.namespace
    };
    let ordinal = i64::try_from(manifests.iter().position(is_template)?).ok()?;
    let version = GroupVersion::parse(&resource.api_version)?;
    statuses.into_iter().find(|status| {
        let id = &status.identifier;
        id.ordinal == ordinal
            && id.group == version.group
            && id.version == version.version
            && id.kind == resource.kind
            && id.namespace == resource.namespace
            && id.name == resource.name
    })
}

/// Is the template applied in every member it is meant for, and in no other?
pub fn is_fully_applied(spec: &BindingSpec, items: &[AggregatedStatusItem]) -> bool {
    let expected = existing_clusters(spec);
    !expected.is_empty()
        && expected.len() == items.len()
        && items.iter().all(|item| item.applied && expected.contains(item.cluster_name.as_str()))
}

fn fully_applied(is_fully_applied: bool, now: &str) -> Condition {
    let (status, reason, message) = match is_fully_applied {
        true => ("True", "FullyAppliedSuccess", "All works have been successfully applied"),
        false => ("False", "FullyAppliedFailed", "Failed to apply all works, see status.aggregatedStatus for details"),
    };
    Condition {
        kind: CONDITION_FULLY_APPLIED.to_owned(),
        status: status.to_owned(),
        observed_generation: None,
        last_transition_time: now.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}

/// The merge patch of the binding's status that makes it say this; `None` when it says so already. It holds for the
/// version it names only: conditions are a list, and others write theirs into it.
pub fn plan(
    binding: &Object,
    spec: &BindingSpec,
    items: &[AggregatedStatusItem],
    now: &str,
) -> Result<Option<Value>, Status> {
    let mut status = Map::new();
    let mut conditions: Vec<Condition> = api::read_at(binding, &["status", "conditions"])?;
    if set_condition(&mut conditions, fully_applied(is_fully_applied(spec, items), now)) {
        status.insert("conditions".to_owned(), json!(conditions));
    }
    let aggregated = json!(items);
    let known = binding.get(&["status", "aggregatedStatus"]);
    if items.is_empty() {
        if known.is_some() {
            status.insert("aggregatedStatus".to_owned(), Value::Null);
        }
    } else if known != Some(&aggregated) {
        status.insert("aggregatedStatus".to_owned(), aggregated);
    }
    if status.is_empty() {
        return Ok(None);
    }
    let metadata = json!({"resourceVersion": binding.resource_version(), "uid": binding.uid()});
    Ok(Some(json!({"metadata": metadata, "status": status})))
}

#[cfg(test)]
mod tests;
