//! Data of deleted instances on a replica that was lost when they were deleted.
//!
//! The replica that removes such an instance records its UID, and the one that has the data moves it to its trash. Data without
//! a record is left where it is. That no instance has its UID does not mean that one was deleted for good: the control plane
//! may be kept, the finalizer may have been removed by hand, or the manager may use another storage than before.

use cluster_client::{ClusterClient, ListOptions, ResourceRef, WriteOptions};
use jiff::Timestamp;
use manager_kinds::instance::{LABEL_MANAGED_BY, MANAGED_BY};
use manager_kinds::{INSTANCE_NAMESPACE, KARMADAS};
use object::{GroupVersionKind, Object, builtin, names};
use reconcile::ReconcileError;
use serde_json::json;

use super::{FIELD_MANAGER, Lifecycle, end_stray_process};
use crate::data_dir::is_uid;
use crate::replica::ReplicaName;

/// Label of a record with the name of the replica that has the data.
const LABEL_REPLICA: &str = "manager.flotilla.dev/data-left-on";

/// Records that a replica which does not answer has data of an instance that is being deleted.
pub(super) async fn record(
    writer: &ClusterClient,
    instance: &Object,
    replica: &ReplicaName,
) -> Result<(), ReconcileError> {
    let name = format!("left-data-{}", instance.uid());
    let mut record = Object::new(&GroupVersionKind::new("", "v1", "ConfigMap"), Some(INSTANCE_NAMESPACE), &name);
    record.set_label(LABEL_MANAGED_BY, MANAGED_BY);
    record.set_label(LABEL_REPLICA, &replica.name);
    record.set(&["data"], json!({"uid": instance.uid(), "instance": instance.name()}));
    let records = ResourceRef::within(&builtin::config_maps(), INSTANCE_NAMESPACE);
    match writer.create(records, record, WriteOptions::managed_by(FIELD_MANAGER)).await {
        Err(status) if !status.is_already_exists() => Err(status.into()),
        _ => Ok(()),
    }
}

impl Lifecycle {
    /// Moves data of this replica to the trash whose instances were deleted while the replica was lost.
    pub(super) async fn discard_left_data(&self) -> Result<(), ReconcileError> {
        let Some(replicas) = &self.deps.replica_context.replicas else { return Ok(()) };
        let client = &self.deps.client;
        let label_selector = Some(format!("{LABEL_REPLICA}={}", replicas.own().name));
        let options = ListOptions { label_selector, ..ListOptions::default() };
        let records = ResourceRef::within(&builtin::config_maps(), INSTANCE_NAMESPACE);
        let records = client.list_all(records, options).await?;
        if records.items.is_empty() {
            return Ok(());
        }
        // Not from the mirror: it may not have followed yet.
        let instances = client.list_all(ResourceRef::all(&KARMADAS.gvr()), ListOptions::default()).await?;
        for record in &records.items {
            let (uid, name) = (record.str_at(&["data", "uid"]), record.str_at(&["data", "instance"]));
            if !is_uid(uid) || !names::dns1123_label(name).is_empty() {
                tracing::warn!(record = record.name(), "not a record of a deleted instance: nothing is removed");
                continue;
            }
            let exists = instances.items.iter().any(|instance| instance.uid() == uid);
            if exists || self.deps.running.get(uid).is_some() {
                continue;
            }
            self.discard(uid, name).await?;
            match client.delete(ResourceRef::of(&builtin::config_maps(), record), Default::default()).await {
                Err(status) if !status.is_not_found() => return Err(status.into()),
                _ => {}
            }
        }
        Ok(())
    }

    async fn discard(&self, uid: &str, name: &str) -> Result<(), ReconcileError> {
        let (dirs, now) = (&self.deps.dirs, Timestamp::now());
        end_stray_process(dirs, uid).await;
        if let Some(directory) = dirs.discard(uid, name, now).map_err(ReconcileError::other)? {
            let directory = directory.display();
            tracing::info!(%directory, "moved the data of an instance that was deleted while this manager was away");
        }
        dirs.discard_backups(uid, name, now).map_err(ReconcileError::other)
    }
}
