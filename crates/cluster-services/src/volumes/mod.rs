//! Binds claims to existing volumes or new directories on this host, and reclaims released volumes.

mod claim;
mod directories;
mod ephemeral;
pub mod matching;
#[cfg(test)]
mod tests;
mod volume;

use std::sync::Arc;

use cluster_client::{ResourceRef, WriteOptions};
use object::builtin;
use object::{Object, Status};
use reconcile::{Change, Controller, ObjectKey, Priority, Recorder, Source};
use serde_json::json;

use crate::mirrors::{ClusterMirrors, FIELD_MANAGER};
use crate::start::Service;

/// Set to the node of a claim's first consumer.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
pub const PROVISIONER: &str = "flotilla.dev/hostpath";

const CLASS_NAME: &str = "hostpath";
const IS_DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
const WORKERS: usize = 4;

/// The key of a reconcile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum VolumeKey {
    Claim(ObjectKey),
    Volume(ObjectKey),
    /// A pod with ephemeral volumes.
    Pod(ObjectKey),
}

struct Volumes {
    mirrors: Arc<ClusterMirrors>,
    recorder: Recorder,
}

pub fn start(mirrors: &Arc<ClusterMirrors>) -> Service {
    let controller = Controller::new("persistentvolume-binder");
    let listener = controller.clone();
    let on_pod = move |change: &Change| pod_changed(&listener, change);
    Service::new(run(Arc::clone(mirrors), controller)).on_pods(on_pod)
}

/// A finished pod may be the last user of a claim; a new one may need ephemeral claims.
fn pod_changed(controller: &Controller<VolumeKey>, change: &Change) {
    let priority = if change.is_initial { Priority::LOW } else { Priority::NORMAL };
    if let Some(pod) = &change.now
        && change.before.is_none()
        && pod.items(&["spec", "volumes"]).iter().any(|volume| volume["ephemeral"].is_object())
    {
        controller.queue().add_now(VolumeKey::Pod(change.key.clone()), priority);
    }
    let is_using = |pod: &Object| !has_ended(pod);
    if let Some(before) = &change.before
        && is_using(before)
        && !change.now.as_ref().is_some_and(|now| is_using(now))
    {
        for claim in &placement::Pod::read(before).claims {
            controller.queue().add_now(VolumeKey::Claim(ObjectKey::new(before.namespace(), claim)), priority);
        }
    }
}

fn has_ended(pod: &Object) -> bool {
    matches!(pod.str_at(&["status", "phase"]), "Succeeded" | "Failed")
}

async fn run(mirrors: Arc<ClusterMirrors>, controller: Controller<VolumeKey>) {
    if let Err(error) = ensure_class(&mirrors).await {
        tracing::warn!(%error, "failed to create the default storage class");
    }
    let volumes =
        Arc::new(Volumes { recorder: mirrors.recorder("persistentvolume-controller"), mirrors: Arc::clone(&mirrors) });
    let claims = Source::new(&mirrors.claims, claim_keys);
    let pvs = {
        let mirrors = Arc::clone(&mirrors);
        Source::new(&mirrors.volumes.clone(), move |change| volume_keys(&mirrors, change))
    };
    let classes = {
        let mirrors = Arc::clone(&mirrors);
        // A new class may be the one pending claims wait for.
        Source::new(&mirrors.classes.clone(), move |_| pending_claims(&mirrors))
    };
    let cancel = mirrors.cancel.clone();
    let reconcile = move |key: VolumeKey| {
        let volumes = Arc::clone(&volumes);
        async move {
            match key {
                VolumeKey::Claim(key) => volumes.reconcile_claim(&key).await,
                VolumeKey::Volume(key) => volumes.reconcile_volume(&key).await,
                VolumeKey::Pod(key) => volumes.reconcile_pod(&key).await,
            }
        }
    };
    controller.run(vec![claims, pvs, classes], WORKERS, cancel, reconcile).await;
}

/// Returns the claim and the volume it is or was bound to.
fn claim_keys(change: &Change) -> Vec<VolumeKey> {
    let states = [&change.before, &change.now].into_iter().flatten();
    let names = states.map(|claim| claim.str_at(&["spec", "volumeName"])).filter(|name| !name.is_empty());
    let mut keys: Vec<VolumeKey> = names.map(|name| VolumeKey::Volume(ObjectKey::new("", name))).collect();
    keys.dedup();
    keys.push(VolumeKey::Claim(change.key.clone()));
    keys
}

/// Returns the volume, the claim it refers to, and every pending claim if it is available.
fn volume_keys(mirrors: &ClusterMirrors, change: &Change) -> Vec<VolumeKey> {
    let mut keys = vec![VolumeKey::Volume(change.key.clone())];
    let states = [&change.before, &change.now].into_iter().flatten();
    for volume in states {
        let reference = |field: &str| volume.str_at(&["spec", "claimRef", field]);
        if !reference("name").is_empty() {
            keys.push(VolumeKey::Claim(ObjectKey::new(reference("namespace"), reference("name"))));
        }
    }
    let is_free = |volume: &Object| volume.str_at(&["spec", "claimRef", "name"]).is_empty();
    if change.now.as_ref().is_some_and(|now| is_free(now)) && !change.before.as_ref().is_some_and(|old| is_free(old)) {
        keys.extend(pending_claims(mirrors));
    }
    keys
}

fn pending_claims(mirrors: &ClusterMirrors) -> Vec<VolumeKey> {
    let is_pending = |claim: &Arc<Object>| claim.str_at(&["spec", "volumeName"]).is_empty();
    let claims = mirrors.claims.list().into_iter().filter(is_pending);
    claims.map(|claim| VolumeKey::Claim(ObjectKey::of(&claim))).collect()
}

/// Creates the default class: directories on this host, bound when the first pod is scheduled.
async fn ensure_class(mirrors: &ClusterMirrors) -> Result<(), Status> {
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": CLASS_NAME, "annotations": {IS_DEFAULT_CLASS: "true"}},
        "provisioner": PROVISIONER, "reclaimPolicy": "Delete", "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": true});
    if mirrors.classes.get(&ObjectKey::new("", CLASS_NAME)).is_some() {
        return Ok(());
    }
    let class = Object::from_value(class).unwrap_or_default();
    let options = WriteOptions::managed_by(FIELD_MANAGER);
    match mirrors.client.create(ResourceRef::all(&builtin::storage_classes()), class, options).await {
        Err(status) if !status.is_already_exists() => Err(status),
        _ => Ok(()),
    }
}

/// Returns the default class: the newest of several, then the first by name.
fn default_class(mirrors: &ClusterMirrors) -> Option<Arc<Object>> {
    let is_default = |class: &Arc<Object>| class.annotation(IS_DEFAULT_CLASS) == Some("true") && !class.is_deleting();
    let classes = mirrors.classes.list().into_iter().filter(is_default);
    classes.max_by(|a, b| a.creation_timestamp().cmp(b.creation_timestamp()).then_with(|| b.name().cmp(a.name())))
}
