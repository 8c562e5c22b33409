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
use object::{Object, Status};
use reconcile::{Change, Controller, ObjectKey, Priority, Recorder, Source};
use serde_json::json;

use crate::resources;
use crate::room::{FIELD_MANAGER, Room};
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
enum Key {
    Claim(ObjectKey),
    Volume(ObjectKey),
    /// A pod with ephemeral volumes.
    Pod(ObjectKey),
}

struct Volumes {
    room: Arc<Room>,
    recorder: Recorder,
}

pub fn start(room: &Arc<Room>) -> Service {
    let controller = Controller::new("persistentvolume-binder");
    let listener = controller.clone();
    let tell = move |change: &Change| pod_changed(&listener, change);
    Service::new(run(Arc::clone(room), controller)).hearing_of_pods(tell)
}

/// A finished pod may be the last user of a claim; a new one may need ephemeral claims.
fn pod_changed(controller: &Controller<Key>, change: &Change) {
    let priority = if change.is_initial { Priority::LOW } else { Priority::NORMAL };
    if let Some(pod) = &change.now
        && change.before.is_none()
        && pod.items(&["spec", "volumes"]).iter().any(|volume| volume["ephemeral"].is_object())
    {
        controller.queue().add_now(Key::Pod(change.key.clone()), priority);
    }
    let is_using = |pod: &Object| !has_ended(pod);
    if let Some(before) = &change.before
        && is_using(before)
        && !change.now.as_ref().is_some_and(|now| is_using(now))
    {
        for claim in &placement::Pod::read(before).claims {
            controller.queue().add_now(Key::Claim(ObjectKey::new(before.namespace(), claim)), priority);
        }
    }
}

fn has_ended(pod: &Object) -> bool {
    matches!(pod.str_at(&["status", "phase"]), "Succeeded" | "Failed")
}

async fn run(room: Arc<Room>, controller: Controller<Key>) {
    if let Err(error) = ensure_class(&room).await {
        tracing::warn!(%error, "failed to create the default storage class");
    }
    let volumes = Arc::new(Volumes { recorder: room.recorder("persistentvolume-controller"), room: Arc::clone(&room) });
    let claims = Source::new(&room.claims, claim_keys);
    let pvs = {
        let room = Arc::clone(&room);
        Source::new(&room.volumes.clone(), move |change| volume_keys(&room, change))
    };
    let classes = {
        let room = Arc::clone(&room);
        // A new class may be the one pending claims wait for.
        Source::new(&room.classes.clone(), move |_| pending_claims(&room))
    };
    let cancel = room.cancel.clone();
    let reconcile = move |key: Key| {
        let volumes = Arc::clone(&volumes);
        async move {
            match key {
                Key::Claim(key) => volumes.reconcile_claim(&key).await,
                Key::Volume(key) => volumes.reconcile_volume(&key).await,
                Key::Pod(key) => volumes.reconcile_pod(&key).await,
            }
        }
    };
    controller.run(vec![claims, pvs, classes], WORKERS, cancel, reconcile).await;
}

/// Returns the claim and the volume it is or was bound to.
fn claim_keys(change: &Change) -> Vec<Key> {
    let states = [&change.before, &change.now].into_iter().flatten();
    let names = states.map(|claim| claim.str_at(&["spec", "volumeName"])).filter(|name| !name.is_empty());
    let mut keys: Vec<Key> = names.map(|name| Key::Volume(ObjectKey::new("", name))).collect();
    keys.dedup();
    keys.push(Key::Claim(change.key.clone()));
    keys
}

/// Returns the volume, the claim it refers to, and every pending claim if it is available.
fn volume_keys(room: &Room, change: &Change) -> Vec<Key> {
    let mut keys = vec![Key::Volume(change.key.clone())];
    let states = [&change.before, &change.now].into_iter().flatten();
    for volume in states {
        let reference = |field: &str| volume.str_at(&["spec", "claimRef", field]);
        if !reference("name").is_empty() {
            keys.push(Key::Claim(ObjectKey::new(reference("namespace"), reference("name"))));
        }
    }
    let is_free = |volume: &Object| volume.str_at(&["spec", "claimRef", "name"]).is_empty();
    if change.now.as_ref().is_some_and(|now| is_free(now)) && !change.before.as_ref().is_some_and(|old| is_free(old)) {
        keys.extend(pending_claims(room));
    }
    keys
}

fn pending_claims(room: &Room) -> Vec<Key> {
    let is_pending = |claim: &Arc<Object>| claim.str_at(&["spec", "volumeName"]).is_empty();
    let claims = room.claims.list().into_iter().filter(is_pending);
    claims.map(|claim| Key::Claim(ObjectKey::of(&claim))).collect()
}

/// Creates the default class: directories on this host, bound when the first pod is scheduled.
async fn ensure_class(room: &Room) -> Result<(), Status> {
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": CLASS_NAME, "annotations": {IS_DEFAULT_CLASS: "true"}},
        "provisioner": PROVISIONER, "reclaimPolicy": "Delete", "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": true});
    if room.classes.get(&ObjectKey::new("", CLASS_NAME)).is_some() {
        return Ok(());
    }
    let class = Object::from_value(class).unwrap_or_default();
    let options = WriteOptions::managed_by(FIELD_MANAGER);
    match room.client.create(ResourceRef::all(&resources::storage_classes()), class, options).await {
        Err(status) if !status.is_already_exists() => Err(status),
        _ => Ok(()),
    }
}

/// Returns the default class: the newest of several, then the first by name.
fn default_class(room: &Room) -> Option<Arc<Object>> {
    let is_default = |class: &Arc<Object>| class.annotation(IS_DEFAULT_CLASS) == Some("true") && !class.is_deleting();
    let classes = room.classes.list().into_iter().filter(is_default);
    classes.max_by(|a, b| a.creation_timestamp().cmp(b.creation_timestamp()).then_with(|| b.name().cmp(a.name())))
}
