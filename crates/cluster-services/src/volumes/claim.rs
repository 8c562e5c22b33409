//! Reconciles a claim: binds it to a matching volume, provisions one, or reports why it waits.

use std::path::Path;
use std::sync::Arc;

use cluster_client::{ResourceRef, WriteOptions};
use object::builtin;
use object::{GroupVersionKind, Object};
use placement::{Labels, NodeSelector};
use reconcile::{Committed, ObjectKey, Outcome, ReconcileError, commit_object, commit_status};
use serde_json::{Value, json};

use crate::mirrors::FIELD_MANAGER;
use crate::scheduling::reach_of;
use crate::volumes::{
    BIND_COMPLETED, BOUND_BY_CONTROLLER, CLAIM_PROTECTION, PROVISIONED_BY, PROVISIONER, SELECTED_NODE,
    VOLUME_PROTECTION, Volumes, default_class, directories, has_ended, matching,
};

impl Volumes {
    pub(super) async fn reconcile_claim(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let Some(claim) = self.mirrors.claims.get(key) else { return Ok(Outcome::Done) };
        if claim.is_deleting() {
            return self.let_go(&claim).await;
        }
        match claim.str_at(&["spec", "volumeName"]) {
            "" => self.find_volume(&claim).await,
            name => self.keep_bound(&claim, name).await,
        }
    }

    /// A deleted claim keeps its finalizer until no pod uses it.
    async fn let_go(&self, claim: &Arc<Object>) -> Result<Outcome, ReconcileError> {
        if !claim.has_finalizer(CLAIM_PROTECTION) {
            return Ok(Outcome::Done);
        }
        if self.mirrors.pods_by_claim.list(&ObjectKey::of(claim)).iter().any(|pod| !has_ended(pod)) {
            return Ok(Outcome::Done);
        }
        let mut desired = Object::clone(claim);
        desired.remove_finalizer(CLAIM_PROTECTION);
        self.commit_claim(claim, &desired).await?;
        Ok(Outcome::Done)
    }

    async fn commit_claim(&self, claim: &Object, desired: &Object) -> Result<Arc<Object>, ReconcileError> {
        let target = ResourceRef::of(&builtin::persistent_volume_claims(), claim);
        match commit_object(&self.mirrors.client, target, claim, desired, FIELD_MANAGER).await? {
            Committed::Written(written) => Ok(written),
            Committed::Unchanged => Ok(Arc::new(claim.clone())),
        }
    }

    async fn find_volume(&self, claim: &Arc<Object>) -> Result<Outcome, ReconcileError> {
        if matching::class_of(claim).is_none()
            && let Some(class) = default_class(&self.mirrors)
        {
            let mut desired = Object::clone(claim);
            desired.set(&["spec", "storageClassName"], class.name());
            self.commit_claim(claim, &desired).await?;
            return Ok(Outcome::Done);
        }
        let class = matching::class_of(claim).unwrap_or_default();
        let class_object = self.mirrors.classes.get(&ObjectKey::new("", class));
        let waits_for_pod =
            class_object.as_ref().is_some_and(|class| class.str_at(&["volumeBindingMode"]) == "WaitForFirstConsumer");
        let volumes = self.mirrors.volumes.list();
        let meant =
            volumes.iter().find(|volume| matching::is_meant_for(volume, claim) && matching::fits(volume, claim));
        let selected = claim.annotation(SELECTED_NODE);
        if meant.is_none() && waits_for_pod && selected.is_none() {
            self.commit_pending(claim).await?;
            let message = "waiting for first consumer to be created before binding";
            self.recorder.normal(&**claim, "WaitForFirstConsumer", message);
            return Ok(Outcome::Done);
        }
        let reachable: Vec<Arc<Object>> = match (meant, selected) {
            (Some(meant), _) => vec![Arc::clone(meant)],
            (None, Some(node)) => volumes.into_iter().filter(|volume| self.reaches(volume, node)).collect(),
            (None, None) => volumes,
        };
        match matching::best(&reachable, claim) {
            Some(volume) => self.bind(claim, volume).await,
            None => self.provision_or_wait(claim, class, class_object.as_deref()).await,
        }
    }

    fn reaches(&self, volume: &Object, node: &str) -> bool {
        let Some(selector): Option<NodeSelector> = reach_of(volume) else { return true };
        let found = self.mirrors.nodes.get(&ObjectKey::new("", node));
        found.is_some_and(|node| selector.matches(node.name(), &Labels::of(&node)))
    }

    async fn provision_or_wait(
        &self,
        claim: &Arc<Object>,
        class: &str,
        class_object: Option<&Object>,
    ) -> Result<Outcome, ReconcileError> {
        let provisioner = class_object.map(|class| class.str_at(&["provisioner"])).unwrap_or_default();
        if let Some(class) = class_object.filter(|_| provisioner == PROVISIONER) {
            return self.provision(claim, class).await;
        }
        self.commit_pending(claim).await?;
        match (class, class_object, provisioner) {
            ("", ..) | (_, Some(_), "kubernetes.io/no-provisioner") => {
                let message = "no persistent volumes available for this claim and no storage class is set";
                self.recorder.normal(&**claim, "FailedBinding", message);
            }
            (class, None, _) => {
                let message = format!("storageclass.storage.k8s.io {class:?} not found");
                self.recorder.warning(&**claim, "ProvisioningFailed", message);
            }
            (_, Some(_), other) => {
                let message = format!(
                    "Waiting for a volume to be created either by the external provisioner '{other}' or manually by the \
                     system administrator. If volume creation is delayed, please verify that the provisioner is running \
                     and correctly registered."
                );
                self.recorder.normal(&**claim, "ExternalProvisioning", message);
            }
        }
        Ok(Outcome::Done)
    }

    async fn commit_pending(&self, claim: &Object) -> Result<(), ReconcileError> {
        if claim.str_at(&["status", "phase"]).is_empty() {
            let mut desired = claim.clone();
            desired.set(&["status", "phase"], "Pending");
            self.commit_claim_status(claim, &desired).await?;
        }
        Ok(())
    }

    async fn commit_claim_status(&self, claim: &Object, desired: &Object) -> Result<(), ReconcileError> {
        let target = ResourceRef::of(&builtin::persistent_volume_claims(), claim);
        commit_status(&self.mirrors.client, target, claim, desired, FIELD_MANAGER).await?;
        Ok(())
    }

    /// Provisions a volume reserved for this claim. Its name is derived from the claim's uid, so that a retry creates
    /// no second one.
    async fn provision(&self, claim: &Arc<Object>, class: &Object) -> Result<Outcome, ReconcileError> {
        let volume = plan_volume(&self.mirrors.settings.host_path_root, claim, class);
        let name = volume.name().to_owned();
        let options = WriteOptions::managed_by(FIELD_MANAGER);
        let target = ResourceRef::all(&builtin::persistent_volumes());
        let made = match self.mirrors.client.create(target, volume, options).await {
            Ok(made) => {
                let message = format!("Successfully provisioned volume {name}");
                self.recorder.normal(&**claim, "ProvisioningSucceeded", message);
                made
            }
            Err(status) if status.is_already_exists() => {
                self.mirrors.client.get(ResourceRef::cluster(&builtin::persistent_volumes(), &name)).await?
            }
            Err(status) => {
                let message = format!("failed to provision volume with StorageClass {:?}: {status}", class.name());
                self.recorder.warning(&**claim, "ProvisioningFailed", message);
                return Err(status.into());
            }
        };
        if !matching::is_meant_for(&made, claim) {
            return Err(ReconcileError::other(format!("volume {name} exists and belongs to another claim")));
        }
        self.bind(claim, &made).await
    }

    /// Writes the volume first, then the claim: a half-bound volume is found again, a half-bound claim would be lost.
    async fn bind(&self, claim: &Arc<Object>, volume: &Arc<Object>) -> Result<Outcome, ReconcileError> {
        let mut taken = Object::clone(volume);
        if volume.str_at(&["spec", "claimRef", "uid"]) != claim.uid() {
            if volume.str_at(&["spec", "claimRef", "name"]).is_empty() {
                taken.set_annotation(BOUND_BY_CONTROLLER, "yes");
            }
            taken.set(&["spec", "claimRef"], reference_to(claim));
        }
        let target = ResourceRef::of(&builtin::persistent_volumes(), volume);
        let taken = match commit_object(&self.mirrors.client, target, volume, &taken, FIELD_MANAGER).await? {
            Committed::Written(written) => written,
            Committed::Unchanged => Arc::clone(volume),
        };
        let mut bound = Object::clone(claim);
        bound.set(&["spec", "volumeName"], taken.name());
        bound.set_annotation(BIND_COMPLETED, "yes");
        bound.set_annotation(BOUND_BY_CONTROLLER, "yes");
        // From here on a pod may run on it.
        bound.add_finalizer(CLAIM_PROTECTION);
        let written = self.commit_claim(claim, &bound).await?;
        self.keep_status(&written, &taken).await?;
        Ok(Outcome::Done)
    }

    /// A claim that names a volume: bound while the volume refers to it, pending until it does, lost when it is gone.
    async fn keep_bound(&self, claim: &Arc<Object>, name: &str) -> Result<Outcome, ReconcileError> {
        let is_completed = claim.annotation(BIND_COMPLETED).is_some();
        match self.mirrors.volumes.get(&ObjectKey::new("", name)) {
            Some(volume) if matching::is_meant_for(&volume, claim) => self.bind(claim, &volume).await,
            Some(volume) if !is_completed && matching::fits(&volume, claim) => self.bind(claim, &volume).await,
            Some(_) if !is_completed => {
                self.commit_pending(claim).await?;
                let message = format!("volume {name:?} already bound to a different claim.");
                self.recorder.warning(&**claim, "FailedBinding", message);
                Ok(Outcome::Done)
            }
            found => {
                if !is_completed {
                    self.commit_pending(claim).await?;
                    return Ok(Outcome::Done);
                }
                // Lost is final, so it is set only after the API confirms it.
                let target = ResourceRef::cluster(&builtin::persistent_volumes(), name);
                if found.is_none() && self.mirrors.client.find(target).await?.is_some() {
                    return Ok(Outcome::Retry);
                }
                if claim.str_at(&["status", "phase"]) != "Lost" {
                    let mut lost = Object::clone(claim);
                    lost.set(&["status", "phase"], "Lost");
                    self.commit_claim_status(claim, &lost).await?;
                    let message = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
                    self.recorder.warning(&**claim, "ClaimLost", message);
                }
                Ok(Outcome::Done)
            }
        }
    }

    /// Updates the status of a bound claim, and the capacity on an expansion request: a directory has no size limit.
    async fn keep_status(&self, claim: &Object, volume: &Arc<Object>) -> Result<(), ReconcileError> {
        let asked = matching::asked_storage(claim);
        let mut capacity = volume.get(&["spec", "capacity"]).cloned().unwrap_or_default();
        let is_ours = volume.annotation(PROVISIONED_BY) == Some(PROVISIONER);
        if is_ours && matching::compare(&asked, &matching::capacity_of(volume)).is_gt() {
            let mut grown = Object::clone(volume);
            capacity["storage"] = claim.get(&["spec", "resources", "requests", "storage"]).cloned().unwrap_or_default();
            grown.set(&["spec", "capacity"], capacity.clone());
            let target = ResourceRef::of(&builtin::persistent_volumes(), volume);
            commit_object(&self.mirrors.client, target, volume, &grown, FIELD_MANAGER).await?;
        }
        let mut desired = claim.clone();
        desired.set(&["status", "phase"], "Bound");
        desired.set(&["status", "accessModes"], volume.get(&["spec", "accessModes"]).cloned().unwrap_or_default());
        desired.set(&["status", "capacity"], capacity);
        self.commit_claim_status(claim, &desired).await
    }
}

fn reference_to(claim: &Object) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.namespace(), "name": claim.name(),
        "uid": claim.uid(), "resourceVersion": claim.resource_version()})
}

/// Returns a hostPath volume for one claim.
fn plan_volume(root: &Path, claim: &Object, class: &Object) -> Object {
    let name = format!("pvc-{}", claim.uid());
    let mut volume = Object::new(&GroupVersionKind::new("", "v1", "PersistentVolume"), None, &name);
    volume.set_annotation(PROVISIONED_BY, PROVISIONER);
    volume.add_finalizer(VOLUME_PROTECTION);
    let policy = match class.str_at(&["reclaimPolicy"]) {
        "" => "Delete",
        policy => policy,
    };
    let path = directories::path_for(root, claim, &name);
    let mut spec = json!({
        "accessModes": claim.get(&["spec", "accessModes"]).cloned().unwrap_or_default(),
        "capacity": {"storage": claim.get(&["spec", "resources", "requests", "storage"]).cloned().unwrap_or_default()},
        "claimRef": reference_to(claim),
        "hostPath": {"path": path.to_string_lossy(), "type": "DirectoryOrCreate"},
        "persistentVolumeReclaimPolicy": policy,
        "storageClassName": class.name(),
    });
    if let Some(mode) = claim.get(&["spec", "volumeMode"]) {
        spec["volumeMode"] = mode.clone();
    }
    volume.set(&["spec"], spec);
    volume
}
