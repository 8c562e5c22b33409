//! Removes a deleted instance.

use cluster_client::ClusterClient;
use jiff::Timestamp;
use manager_kinds::annotations::Mode;
use manager_kinds::instance::{FINALIZER, resource_name};
use object::Object;
use reconcile::{ObjectKey, Outcome, ReconcileError, commit_object};

use super::gather::Gathered;
use super::{FIELD_MANAGER, Lifecycle, end_stray_process, left_data, owner};
use crate::secrets;

impl Lifecycle {
    /// Stops the plane, moves its data away and removes the finalizer. Can be repeated at every point.
    pub(super) async fn remove(&self, gathered: &Gathered, keeps_plane: bool) -> Result<Outcome, ReconcileError> {
        let (instance, mode) = (&gathered.instance, gathered.settings.mode);
        let (uid, name) = (instance.uid(), instance.name());
        let leaves_process = keeps_plane && mode == Mode::Process;
        if leaves_process {
            // Its process goes on, in its directory.
            self.deps.running.remove(uid);
        } else {
            self.stop_running(uid).await;
        }
        let dirs = &self.deps.dirs;
        let moved = match (mode, keeps_plane) {
            (Mode::Imported, _) | (Mode::Process, true) => None,
            (Mode::InProcess, true) => dirs.release(uid, name).map_err(ReconcileError::other)?,
            (Mode::InProcess | Mode::Process, false) => {
                end_stray_process(dirs, uid).await;
                dirs.discard(uid, name, Timestamp::now()).map_err(ReconcileError::other)?
            }
        };
        // Backups of a kept plane stay where they are.
        if !keeps_plane {
            dirs.discard_backups(uid, name, Timestamp::now()).map_err(ReconcileError::other)?;
        }
        let other = self.deps.replica_context.elsewhere(instance);
        if let Some(replica) = other.filter(|_| !keeps_plane && moved.is_none() && owner::has_local_data(instance)) {
            left_data::record(&gathered.writer, instance, &replica).await?;
        }
        if let Some(directory) = moved {
            tracing::info!(instance = %ObjectKey::of(instance), directory = %directory.display(), "moved the data of a deleted instance");
        }
        self.deps.running.forget_failures(uid);
        delete_admin_config(&gathered.writer, instance).await?;
        self.release_object(&gathered.writer, instance).await
    }

    async fn release_object(&self, writer: &ClusterClient, instance: &Object) -> Result<Outcome, ReconcileError> {
        let target = self.karmadas().target(&ObjectKey::of(instance));
        let Some(current) = writer.find(target.clone()).await? else { return Ok(Outcome::Done) };
        if current.uid() != instance.uid() {
            return Ok(Outcome::Done);
        }
        let mut released = (*current).clone();
        released.remove_finalizer(FINALIZER);
        commit_object(writer, target, &current, &released, FIELD_MANAGER).await?;
        Ok(Outcome::Done)
    }
}

async fn delete_admin_config(writer: &ClusterClient, instance: &Object) -> Result<(), ReconcileError> {
    let name = resource_name(instance.name(), "admin-config");
    let target = cluster_client::ResourceRef::namespaced(&secrets::secrets(), instance.namespace(), &name);
    let owned = match writer.find(target.clone()).await? {
        Some(secret) => secret.owner_references().iter().any(|owner| owner.uid == instance.uid()),
        None => false,
    };
    if owned {
        match writer.delete(target, Default::default()).await {
            Err(status) if !status.is_not_found() => return Err(status.into()),
            _ => {}
        }
    }
    Ok(())
}
