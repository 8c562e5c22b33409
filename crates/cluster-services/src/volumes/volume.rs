//! Reconciles a volume: its phase, and its reclaim policy when the claim is gone.

use std::path::PathBuf;
use std::sync::Arc;

use cluster_client::{DeleteOptions, Preconditions, ResourceRef};
use object::Object;
use object::builtin;
use reconcile::{ObjectKey, Outcome, ReconcileError, commit_object, commit_status};

use crate::mirrors::FIELD_MANAGER;
use crate::volumes::{PROVISIONED_BY, PROVISIONER, VOLUME_PROTECTION, Volumes, directories};

impl Volumes {
    pub(super) async fn reconcile_volume(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let Some(volume) = self.mirrors.volumes.get(key) else { return Ok(Outcome::Done) };
        let reference = |field: &str| volume.str_at(&["spec", "claimRef", field]);
        if reference("name").is_empty() {
            return self.settle(&volume, "Available").await;
        }
        // Reserved for a claim that does not exist yet or is not bound yet.
        if reference("uid").is_empty() {
            return self.settle(&volume, "Available").await;
        }
        let claim = ObjectKey::new(reference("namespace"), reference("name"));
        let is_its_own = |claim: &Object| claim.uid() == reference("uid");
        if self.mirrors.claims.get(&claim).is_some_and(|claim| is_its_own(&claim)) {
            return self.settle(&volume, "Bound").await;
        }
        // Reclaiming deletes data, so the API must confirm that the claim is gone.
        let target = ResourceRef::namespaced(&builtin::persistent_volume_claims(), &claim.namespace, &claim.name);
        if self.mirrors.client.find(target).await?.is_some_and(|claim| is_its_own(&claim)) {
            return Ok(Outcome::Retry);
        }
        self.release(&volume).await
    }

    /// Writes the phase, and removes the finalizer of a deleted, unbound volume.
    async fn settle(&self, volume: &Arc<Object>, phase: &str) -> Result<Outcome, ReconcileError> {
        if volume.is_deleting() && phase != "Bound" {
            return self.unprotect(volume).await;
        }
        self.commit_phase(volume, phase, "").await?;
        Ok(Outcome::Done)
    }

    async fn commit_phase(&self, volume: &Object, phase: &str, message: &str) -> Result<(), ReconcileError> {
        let mut desired = volume.clone();
        desired.set(&["status", "phase"], phase);
        match message {
            "" => drop(desired.remove(&["status", "message"])),
            message => desired.set(&["status", "message"], message),
        }
        if volume.str_at(&["status", "phase"]) != phase {
            let now = object::time::format_seconds(self.mirrors.now());
            desired.set(&["status", "lastPhaseTransitionTime"], now);
        }
        let target = ResourceRef::of(&builtin::persistent_volumes(), volume);
        commit_status(&self.mirrors.client, target, volume, &desired, FIELD_MANAGER).await?;
        Ok(())
    }

    async fn release(&self, volume: &Arc<Object>) -> Result<Outcome, ReconcileError> {
        if volume.str_at(&["spec", "persistentVolumeReclaimPolicy"]) != "Delete" {
            return self.settle(volume, "Released").await;
        }
        if volume.annotation(PROVISIONED_BY) != Some(PROVISIONER) {
            if volume.is_deleting() {
                return self.unprotect(volume).await;
            }
            let message = "error getting deleter volume plugin for volume: no volume plugin matched";
            self.commit_phase(volume, "Failed", message).await?;
            self.recorder.warning(&**volume, "VolumeFailedDelete", message);
            return Ok(Outcome::Done);
        }
        let path = PathBuf::from(volume.str_at(&["spec", "hostPath", "path"]));
        let root = self.mirrors.settings.host_path_root.clone();
        let removed = tokio::task::spawn_blocking(move || directories::remove(&root, &path)).await;
        if let Err(error) = removed.map_err(std::io::Error::other).flatten() {
            let message = format!("failed to remove the directory: {error}");
            self.commit_phase(volume, "Failed", &message).await?;
            self.recorder.warning(&**volume, "VolumeFailedDelete", message);
            return Ok(Outcome::Done);
        }
        self.delete(volume).await
    }

    async fn delete(&self, volume: &Arc<Object>) -> Result<Outcome, ReconcileError> {
        if !volume.is_deleting() {
            let preconditions = Preconditions { uid: Some(volume.uid().to_owned()), resource_version: None };
            let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
            match self.mirrors.client.delete(ResourceRef::of(&builtin::persistent_volumes(), volume), options).await {
                Err(status) if !status.is_not_found() => return Err(status.into()),
                _ => {}
            }
            // The change event of this delete removes the finalizer.
            return Ok(Outcome::Done);
        }
        self.unprotect(volume).await
    }

    async fn unprotect(&self, volume: &Arc<Object>) -> Result<Outcome, ReconcileError> {
        let mut desired = Object::clone(volume);
        if desired.remove_finalizer(VOLUME_PROTECTION) {
            let target = ResourceRef::of(&builtin::persistent_volumes(), volume);
            commit_object(&self.mirrors.client, target, volume, &desired, FIELD_MANAGER).await?;
        }
        Ok(Outcome::Done)
    }
}
