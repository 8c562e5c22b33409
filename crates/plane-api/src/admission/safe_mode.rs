//! Refuses writes that would remove something from a member while the control plane is in safe mode, for all users.
//!
//! Controllers, agents and users all write through admission, so one step covers them. It refuses to remove a Work or one of
//! its manifests, to remove a target of a binding, to add an eviction, and to delete a Cluster or its execution namespace.
//! Changes that a Work would make in its member are held back where the Work is applied.

use api::cluster::CLUSTERS;
use api::names;
use api::safe_mode::{HELD_BACK, Held};
use api::work::{CLUSTER_RESOURCE_BINDINGS, RESOURCE_BINDINGS, WORKS};
use apiserver::admission::{Admission, AdmissionScope, Attributes, Operation};
use apiserver::context::Context;
use async_trait::async_trait;
use object::{Object, Status};
use plane_state::SafeMode;
use serde_json::Value;

pub struct SafeModeStep {
    pub mode: SafeMode,
}

#[async_trait]
impl Admission for SafeModeStep {
    fn name(&self) -> &'static str {
        "SafeMode"
    }

    async fn validate(
        &self,
        _scope: AdmissionScope<'_>,
        _ctx: &Context,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        if !self.mode.is_on() || attributes.subresource.is_some() {
            return Ok(());
        }
        let resource = attributes.resource.kind.group_resource();
        let held = removals(&resource.group, &resource.resource, attributes, object);
        let Some(first) = held.first() else { return Ok(()) };
        let Held { cluster, action, object: what } = first;
        let text = format!(
            "{HELD_BACK}: it would {action} {what} in cluster {cluster}{}. The control plane was restored or imported: look at \
             `flotilla restore status`, and end safe mode with `flotilla restore confirm`",
            if held.len() > 1 { format!(" and {} more", held.len() - 1) } else { String::new() }
        );
        if !attributes.dry_run {
            let is_new = held.into_iter().map(|held| self.mode.hold(held)).fold(false, |a, b| a | b);
            if is_new {
                tracing::warn!(name = attributes.name, resource = %resource.resource, "{text}");
            }
        }
        Err(Status::forbidden(&resource, attributes.name_in_refusals(object), text))
    }
}

/// Returns the changes the write would make to members.
fn removals(group: &str, resource: &str, attributes: &Attributes<'_>, object: Option<&Object>) -> Vec<Held> {
    let is = |known: &api::Resource| known.gvr().group == group && known.gvr().resource == resource;
    let is_delete = attributes.operation == Operation::Delete;
    let Some(old) = attributes.old else { return Vec::new() };
    // Its deletion was accepted before; the component that finishes it holds it back.
    if old.is_deleting() {
        return Vec::new();
    }
    if is(&WORKS) {
        let cluster = names::cluster_of_execution_namespace(attributes.namespace).unwrap_or(attributes.namespace);
        return match is_delete {
            true => manifests(old).map(|lost| held(cluster, "delete", lost)).collect(),
            false => lost_manifests(old, object).into_iter().map(|lost| held(cluster, "delete", lost)).collect(),
        };
    }
    if is(&RESOURCE_BINDINGS) || is(&CLUSTER_RESOURCE_BINDINGS) {
        return if is_delete { Vec::new() } else { lost_targets(old, object) };
    }
    if is_delete && is(&CLUSTERS) {
        return vec![held(old.name(), "remove", "the cluster and all that is placed there".to_owned())];
    }
    if is_delete
        && (group, resource) == ("", "namespaces")
        && let Some(cluster) = names::cluster_of_execution_namespace(old.name())
    {
        return vec![held(cluster, "remove", "all that is placed there".to_owned())];
    }
    Vec::new()
}

fn held(cluster: &str, action: &str, object: String) -> Held {
    Held { cluster: cluster.to_owned(), action: action.to_owned(), object }
}

fn manifests(work: &Object) -> impl Iterator<Item = String> {
    let list = work.get(&["spec", "workload", "manifests"]).and_then(Value::as_array);
    list.into_iter().flatten().map(described)
}

fn described(manifest: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &manifest["metadata"];
    let (kind, namespace, name) = (text(&manifest["kind"]), text(&metadata["namespace"]), text(&metadata["name"]));
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}

fn lost_manifests(old: &Object, new: Option<&Object>) -> Vec<String> {
    let Some(new) = new else { return Vec::new() };
    let kept: Vec<String> = manifests(new).collect();
    manifests(old).filter(|manifest| !kept.contains(manifest)).collect()
}

/// Returns removed targets and new evictions.
fn lost_targets(old: &Object, new: Option<&Object>) -> Vec<Held> {
    let Some(new) = new else { return Vec::new() };
    let what = described(&serde_json::json!({
        "kind": old.str_at(&["spec", "resource", "kind"]),
        "metadata": {
            "namespace": old.str_at(&["spec", "resource", "namespace"]),
            "name": old.str_at(&["spec", "resource", "name"]),
        },
    }));
    let gone = named(old, &["spec", "clusters"], "name")
        .filter(|cluster| named(new, &["spec", "clusters"], "name").all(|kept| kept != *cluster))
        .map(|cluster| held(cluster, "remove", what.clone()));
    let tasks = &["spec", "gracefulEvictionTasks"];
    let evicted = named(new, tasks, "fromCluster")
        .filter(|cluster| named(old, tasks, "fromCluster").all(|known| known != *cluster))
        .map(|cluster| held(cluster, "evict", what.clone()));
    let mut all: Vec<Held> = gone.chain(evicted).collect();
    // A graceful eviction also removes its target; that is one change.
    all.dedup_by(|a, b| a.cluster == b.cluster);
    all
}

fn named<'o>(object: &'o Object, path: &[&str], field: &'static str) -> impl Iterator<Item = &'o str> {
    let list = object.get(path).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(move |item| item[field].as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        Object::from_value(value).unwrap()
    }

    #[test]
    fn removed_targets_and_new_evictions_are_held_back() {
        let binding = |clusters: &[&str], evicted: &[&str]| {
            let clusters: Vec<Value> = clusters.iter().map(|name| json!({"name": name})).collect();
            let tasks: Vec<Value> = evicted.iter().map(|name| json!({"fromCluster": name})).collect();
            object(json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
                "metadata": {"name": "web-deployment", "namespace": "default"},
                "spec": {"resource": {"kind": "Deployment", "namespace": "default", "name": "web"},
                    "clusters": clusters, "gracefulEvictionTasks": tasks}}))
        };
        let check = |old: (&[&str], &[&str]), new: (&[&str], &[&str]), expected: &[&str]| {
            let lost = lost_targets(&binding(old.0, old.1), Some(&binding(new.0, new.1)));
            let lost: Vec<String> =
                lost.iter().map(|held| format!("{} {} {}", held.action, held.object, held.cluster)).collect();
            assert_eq!(lost, expected, "{old:?} -> {new:?}");
        };
        check((&["m1"], &[]), (&["m1", "m2"], &[]), &[]);
        check((&["m1", "m2"], &[]), (&["m2"], &[]), &["remove Deployment default/web m1"]);
        check((&["m1"], &[]), (&["m1"], &["m1"]), &["evict Deployment default/web m1"]);
        check((&["m1"], &["m1"]), (&["m1", "m3"], &["m1"]), &[]);
        check((&["m1"], &[]), (&["m2"], &["m1"]), &["remove Deployment default/web m1"]);
    }

    #[test]
    fn removed_manifests_are_held_back() {
        let work = |names: &[&str]| {
            let manifests: Vec<Value> = names
                .iter()
                .map(|name| json!({"kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}))
                .collect();
            object(json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
                "metadata": {"name": "w", "namespace": "karmada-es-m1"}, "spec": {"workload": {"manifests": manifests}}}))
        };
        assert_eq!(lost_manifests(&work(&["a", "b"]), Some(&work(&["b", "c"]))), ["ConfigMap default/a"]);
        assert!(lost_manifests(&work(&["a"]), Some(&work(&["a", "b"]))).is_empty());
    }
}
