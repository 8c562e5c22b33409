//! Streams of clusters, and new credentials for the instances of a cluster.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use api::cluster::CLUSTERS;
use cluster_client::{ListOptions, Patch, ResourceRef, WatchCall, WatchEvent, WriteOptions};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use manager_api::*;
use manager_kinds::MANAGED_CLUSTERS;
use manager_kinds::access_rules::{ROTATED_AT, is_pull};
use object::{Object, Status, conditions, time};
use serde_json::json;
use transcode::call::Results;
use transcode::errors::failed_precondition;

use super::clusters::{joined, managed};
use super::query::{Found, Query};
use super::{ApiCaller, ManagerApi};

const FIELD_MANAGER: &str = "flotilla";

/// Clusters of the inventory as a caller has seen them.
struct Sent {
    query: Query,
    clusters: BTreeMap<String, Arc<Object>>,
}

impl Sent {
    /// Returns the event a caller gets for a change.
    fn change(&mut self, cluster: &Arc<Object>, is_visible: bool) -> Option<ManagedClusterEvent> {
        let name = cluster.name();
        let found = Found { instance: "", cluster: name, object: cluster };
        let is_meant = is_visible && self.query.matches(&found);
        let kind = match (self.clusters.contains_key(name), is_meant) {
            (false, false) => return None,
            (false, true) => ChangeType::Added,
            (true, true) => ChangeType::Modified,
            (true, false) => ChangeType::Deleted,
        };
        // Of a cluster that is not visible any more, the caller learns nothing new.
        let shown = match is_meant {
            true => {
                self.clusters.insert(name.to_owned(), Arc::clone(cluster));
                Some(Arc::clone(cluster))
            }
            false => self.clusters.remove(name),
        };
        Some(ManagedClusterEvent { r#type: kind.into(), cluster: shown.map(|cluster| managed(&cluster)) })
    }
}

impl ManagerApi {
    pub(super) async fn watch_inventory(
        &self,
        caller: &ApiCaller,
        request: &WatchManagedClustersRequest,
    ) -> Result<Results<ManagedClusterEvent>, Status> {
        let mut sent = Sent { query: Query::parse(&request.filter, Timestamp::now())?, clusters: BTreeMap::new() };
        let gvr = MANAGED_CLUSTERS.gvr();
        let list = self.system.list_all(ResourceRef::all(&gvr), ListOptions::default()).await?;
        let visible: Vec<Arc<Object>> =
            list.items.into_iter().filter(|cluster| self.sees_cluster(&caller.user, cluster)).collect();
        let mut first: VecDeque<_> = visible.iter().filter_map(|cluster| sent.change(cluster, true)).collect();
        first.push_back(ManagedClusterEvent { r#type: ChangeType::Synced.into(), cluster: None });
        let options = ListOptions { resource_version: Some(list.resource_version), ..ListOptions::default() };
        let changes = self.system.watch(WatchCall { gvr, namespace: None, options, as_table: false }).await?;
        let (rights, user) = (self.operations.rights.clone(), Arc::clone(&caller.user));
        let changes = changes.filter_map(move |event| {
            let sent_event = match event {
                WatchEvent::Added(cluster) | WatchEvent::Modified(cluster) => {
                    let is_visible = super::clusters::sees_cluster(&rights, &user, &cluster);
                    sent.change(&cluster, is_visible).map(Ok)
                }
                WatchEvent::Deleted(cluster) => sent.change(&cluster, false).map(Ok),
                WatchEvent::Error(status) => Some(Err(status)),
                WatchEvent::Bookmark { .. } => None,
            };
            async move { sent_event }
        });
        Ok(Box::pin(stream::iter(first.into_iter().map(Ok)).chain(changes)))
    }

    pub(super) async fn watch_clusters(
        &self,
        caller: &ApiCaller,
        instance: &str,
    ) -> Result<Results<JoinedClusterEvent>, Status> {
        let client = self.operations.instance_client(&caller.user, instance).await?;
        let options = ListOptions::default();
        let call = WatchCall { gvr: CLUSTERS.gvr(), namespace: None, options, as_table: false };
        let changes = client.watch(call).await?.filter_map(|event| {
            let sent_event = |kind: ChangeType, cluster: &Object| {
                Some(Ok(JoinedClusterEvent { r#type: kind.into(), cluster: Some(joined(cluster)) }))
            };
            let sent_event = match event {
                WatchEvent::Added(cluster) => sent_event(ChangeType::Added, &cluster),
                WatchEvent::Modified(cluster) => sent_event(ChangeType::Modified, &cluster),
                WatchEvent::Deleted(cluster) => sent_event(ChangeType::Deleted, &cluster),
                WatchEvent::Error(status) => Some(Err(status)),
                WatchEvent::Bookmark { .. } => None,
            };
            async move { sent_event }
        });
        Ok(Box::pin(changes))
    }

    pub(super) async fn rotate(
        &self,
        caller: &ApiCaller,
        RotateCredentialsRequest { name, validate_only }: &RotateCredentialsRequest,
    ) -> Result<CredentialState, Status> {
        let cluster = self.managed_cluster(caller, name).await?;
        if is_pull(&cluster) {
            return Err(failed_precondition("the agent of a pull cluster renews its credentials itself"));
        }
        let now = time::format_micros(Timestamp::now());
        let patch = json!({"metadata": {"annotations": {ROTATED_AT: now}}});
        let target = ResourceRef::cluster(&MANAGED_CLUSTERS.gvr(), name);
        let options = WriteOptions { dry_run: *validate_only, ..WriteOptions::managed_by(FIELD_MANAGER) };
        self.system.patch(target, Patch::merge(patch), options).await?;
        let valid = conditions::find(&cluster, "CredentialsValid");
        Ok(CredentialState {
            fingerprint: cluster.str_at(&["status", "credential", "fingerprint"]).to_owned(),
            valid: valid.is_some_and(|valid| valid.is_true()),
            message: "the instances of the cluster get new credentials".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_is_told_about_clusters_it_sees_or_saw() {
        let query = Query::parse("region", Timestamp::now()).expect("a query");
        let mut sent = Sent { query, clusters: BTreeMap::new() };
        let mut check = |name: &str, is_visible: bool, expected: Option<ChangeType>| {
            let cluster = Arc::new(MANAGED_CLUSTERS.object("", name));
            let sent_event = sent.change(&cluster, is_visible).map(|event| event.r#type);
            assert_eq!(sent_event, expected.map(i32::from), "{name} {is_visible}");
        };
        check("region-a", false, None);
        check("region-a", true, Some(ChangeType::Added));
        check("region-a", true, Some(ChangeType::Modified));
        check("other", true, None);
        check("region-a", false, Some(ChangeType::Deleted));
        check("region-a", false, None);
    }
}
