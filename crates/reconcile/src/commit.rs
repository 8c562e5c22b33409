//! Patches that are sent only if something differs, separately for the object and its status.

use std::sync::Arc;

use cluster_client::{ClusterClient, Patch, ResourceRef, WriteOptions};
use object::request::Subresource;
use object::{Object, Status};
use serde_json::{Map, Value, json};

/// The result of a commit.
#[derive(Clone, Debug, PartialEq)]
pub enum Committed {
    /// Nothing differed, nothing was sent.
    Unchanged,
    Written(Arc<Object>),
}

/// Writes the differences between `current` and `desired`, excluding status. Fails with a conflict if `current` is no
/// longer the stored object: reconcile again then.
pub async fn commit_object(
    client: &ClusterClient,
    target: ResourceRef,
    current: &Object,
    desired: &Object,
    field_manager: &str,
) -> Result<Committed, Status> {
    let patch = map_difference(current.as_map(), desired.as_map(), Part::Root).map(Value::Object);
    commit(client, target, current, patch, field_manager).await
}

/// Writes the differences in status only.
pub async fn commit_status(
    client: &ClusterClient,
    target: ResourceRef,
    current: &Object,
    desired: &Object,
    field_manager: &str,
) -> Result<Committed, Status> {
    let status = |object: &Object| json!({"status": object.get(&["status"]).cloned().unwrap_or_else(|| json!({}))});
    let patch = merge_difference(&status(current), &status(desired));
    commit(client, target.subresource(Subresource::Status), current, patch, field_manager).await
}

async fn commit(
    client: &ClusterClient,
    target: ResourceRef,
    current: &Object,
    patch: Option<Value>,
    field_manager: &str,
) -> Result<Committed, Status> {
    let Some(mut patch) = patch else { return Ok(Committed::Unchanged) };
    // The decision was based on this version, and on this object rather than a later one with the same name.
    patch["metadata"]["resourceVersion"] = current.resource_version().into();
    patch["metadata"]["uid"] = current.uid().into();
    let written = client.patch(target, Patch::merge(patch), WriteOptions::managed_by(field_manager)).await?;
    Ok(Committed::Written(written))
}

/// A map of the object whose entries are not all a controller's to write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Root,
    Metadata,
    Other,
}

impl Part {
    /// Reports whether the main resource takes the entry: all except status and server-managed metadata.
    fn has(self, key: &str) -> bool {
        match self {
            Self::Root => key != "status",
            Self::Metadata => !matches!(
                key,
                "resourceVersion" | "uid" | "generation" | "creationTimestamp" | "deletionTimestamp" | "managedFields"
            ),
            Self::Other => true,
        }
    }

    fn below(self, key: &str) -> Self {
        if self == Self::Root && key == "metadata" { Self::Metadata } else { Self::Other }
    }
}

/// The merge patch that turns `from` into `to`; `None` if they are equal.
pub fn merge_difference(from: &Value, to: &Value) -> Option<Value> {
    difference(from, to, Part::Other)
}

fn difference(from: &Value, to: &Value, part: Part) -> Option<Value> {
    match (from, to) {
        (Value::Object(from), Value::Object(to)) => map_difference(from, to, part).map(Value::Object),
        (from, to) => (from != to).then(|| to.clone()),
    }
}

fn map_difference(from: &Map<String, Value>, to: &Map<String, Value>, part: Part) -> Option<Map<String, Value>> {
    let mut patch = Map::new();
    for key in from.keys().filter(|key| part.has(key) && !to.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in to.iter().filter(|(key, _)| part.has(key)) {
        let changed = match from.get(key) {
            Some(old) => difference(old, value, part.below(key)),
            None => Some(value.clone()),
        };
        if let Some(changed) = changed {
            patch.insert(key.clone(), changed);
        }
    }
    (!patch.is_empty()).then_some(patch)
}

#[cfg(test)]
mod tests {
    use cluster_client::testing::MemoryApi;
    use object::GroupVersionResource;
    use object::builtin;

    use super::*;

    #[track_caller]
    fn check(from: Value, to: Value, expected: Option<Value>) {
        assert_eq!(merge_difference(&from, &to), expected, "{from} to {to}");
    }

    #[test]
    fn a_merge_difference_contains_only_changes() {
        check(json!({"a": 1}), json!({"a": 1}), None);
        check(
            json!({"a": 1, "b": {"c": 2, "d": 3}}),
            json!({"b": {"c": 4, "d": 3}}),
            Some(json!({"a": null, "b": {"c": 4}})),
        );
        check(json!({"a": [1, 2]}), json!({"a": [1]}), Some(json!({"a": [1]})));
        check(json!({}), json!({"a": {"b": 1}}), Some(json!({"a": {"b": 1}})));
        check(json!({"a": {"b": 1}}), json!({"a": {}}), Some(json!({"a": {"b": null}})));
        check(json!({"a": 1}), json!({"a": {"b": 1}}), Some(json!({"a": {"b": 1}})));
    }

    fn stored(api: &MemoryApi) -> (GroupVersionResource, Arc<Object>) {
        let gvr = builtin::deployments();
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x", "namespace": "a"},
            "spec": {"replicas": 1}, "status": {"ready": 0}});
        let object = api.seed(&gvr, Object::from_value(object).expect("a map"));
        (gvr, object)
    }

    #[tokio::test]
    async fn spec_and_status_are_written_separately_and_only_when_changed() {
        let api = MemoryApi::default();
        let (gvr, current) = stored(&api);
        let target = || ResourceRef::of(&gvr, &current);
        let mut desired = Object::clone(&current);
        let client = api.client();
        let same = commit_object(&client, target(), &current, &desired, "me").await;
        assert_eq!(same, Ok(Committed::Unchanged));
        assert_eq!(commit_status(&client, target(), &current, &desired, "me").await, Ok(Committed::Unchanged));
        assert_eq!(api.calls(), Vec::<String>::new());

        desired.set(&["spec", "replicas"], 2);
        desired.set(&["status", "ready"], 1);
        let written = commit_object(&client, target(), &current, &desired, "me").await.expect("written");
        let Committed::Written(written) = written else { panic!("it differed") };
        assert_eq!((written.i64_at(&["spec", "replicas"]), written.i64_at(&["status", "ready"])), (Some(2), Some(0)));
        let stale = commit_status(&client, target(), &current, &desired, "me").await.expect_err("an old version");
        assert!(stale.is_conflict());
        let written = commit_status(&client, target(), &written, &desired, "me").await.expect("written");
        let Committed::Written(written) = written else { panic!("it differed") };
        assert_eq!(written.i64_at(&["status", "ready"]), Some(1));
        assert_eq!(
            api.calls(),
            ["patch deployments a/x", "patch deployments/status a/x", "patch deployments/status a/x"]
        );
    }
}
