//! Changes the taints of a cluster by read, plan and guarded write.

use api::cluster::CLUSTERS;
use cluster_client::{ClusterClient, Patch, ResourceRef, WriteOptions};
use object::Object;
use serde_json::{Value, json};

use crate::outcome::DryRun;

/// Heartbeats update the same object, so a guarded write can lose a race; several in a row are unlikely.
const TRIES_MAX: u32 = 10;

/// Plans the taints of a cluster and writes them unless the plan has none; after a conflict it reads and plans again.
/// Returns the word of the plan for the user.
pub async fn change<T>(
    client: &ClusterClient,
    name: &str,
    dry_run: DryRun,
    plan: impl Fn(&Object) -> anyhow::Result<(T, Option<Vec<Value>>)>,
) -> anyhow::Result<T> {
    let target = ResourceRef::cluster(&CLUSTERS.gvr(), name);
    let options = WriteOptions { dry_run: dry_run == DryRun::Server, ..WriteOptions::default() };
    let mut tries = 1;
    loop {
        let cluster = client.get(target.clone()).await?;
        let (word, taints) = plan(&cluster)?;
        let Some(taints) = taints.filter(|_| dry_run != DryRun::Client) else { return Ok(word) };
        match client.patch(target.clone(), patch_of(&cluster, taints), options.clone()).await {
            Ok(_) => return Ok(word),
            Err(status) if status.is_conflict() && tries < TRIES_MAX => tries += 1,
            Err(status) => return Err(status.into()),
        }
    }
}

/// Replaces the list of taints, guarded by the resource version it was read at.
fn patch_of(cluster: &Object, taints: Vec<Value>) -> Patch {
    let taints = if taints.is_empty() { Value::Null } else { Value::Array(taints) };
    Patch::merge(json!({
        "metadata": {"resourceVersion": cluster.resource_version()},
        "spec": {"taints": taints},
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use cluster_client::ApiRequest;
    use cluster_client::testing::MemoryApi;
    use object::Status;

    use super::*;

    /// Adds a taint while the first `conflicts` writes lose the race against another writer.
    async fn check(conflicts: u32, succeeds: bool) {
        let api = MemoryApi::default();
        api.seed(&CLUSTERS.gvr(), CLUSTERS.object("", "m1"));
        let writes = AtomicU32::new(0);
        api.set_fault(move |call| {
            let lost =
                matches!(call.request, ApiRequest::Patch { .. }) && writes.fetch_add(1, Ordering::Relaxed) < conflicts;
            lost.then(|| Status::conflict(&CLUSTERS.gvr().group_resource(), "m1", "the object has been modified"))
        });
        let taint = json!({"key": "a", "effect": "NoSchedule"});
        let result = change(&api.client(), "m1", DryRun::None, |_| Ok(((), Some(vec![taint.clone()])))).await;
        assert_eq!(result.is_ok(), succeeds, "{conflicts} conflicts: {result:?}");
        let cluster = api.client().get(ResourceRef::cluster(&CLUSTERS.gvr(), "m1")).await.unwrap();
        assert_eq!(cluster.items(&["spec", "taints"]).len(), usize::from(succeeds));
    }

    #[tokio::test]
    async fn a_conflict_with_a_heartbeat_is_retried() {
        check(0, true).await;
        check(TRIES_MAX - 1, true).await;
        check(TRIES_MAX, false).await;
    }
}
