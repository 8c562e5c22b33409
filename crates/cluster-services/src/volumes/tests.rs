//! Tests of volumes over an in-memory API, in virtual time.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::resources::{claims, pods, storage_classes, volumes};
use crate::settings::Settings;
use crate::testing::{Stage, running};

fn claim(class: Value) -> Value {
    json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "resources": {"requests": {"storage": "1Gi"}}}})
}

fn class(name: &str, policy: &str) -> Value {
    json!({"metadata": {"name": name}, "provisioner": "flotilla.dev/hostpath", "reclaimPolicy": policy,
        "volumeBindingMode": "Immediate"})
}

async fn stage() -> (Stage, tempfile::TempDir) {
    let root = tempfile::tempdir().expect("a directory");
    let settings = Settings { host_path_root: root.path().to_owned(), ..Settings::default() };
    (Stage::start_with(settings, |_| {}).await, root)
}

/// File system work runs on threads that virtual time does not cover.
async fn until(stage: &Stage, what: &str, mut holds: impl AsyncFnMut(&Stage) -> bool) {
    for _ in 0..2000 {
        if holds(stage).await {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
        stage.settle().await;
    }
    panic!("never: {what}");
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_made_for_a_claim_and_goes_with_it() {
    let (stage, root) = stage().await;
    stage.create(&storage_classes(), class("now", "Delete")).await;
    stage.create(&claims(), claim("now".into())).await;
    let bound = stage.get(&claims(), "data").await;
    assert_eq!(bound.str_at(&["status", "phase"]), "Bound");
    assert_eq!(bound.str_at(&["status", "capacity", "storage"]), "1Gi");
    let name = bound.str_at(&["spec", "volumeName"]).to_owned();
    assert_eq!(name, format!("pvc-{}", bound.uid()));
    let volume = stage.get(&volumes(), &name).await;
    assert_eq!(volume.str_at(&["status", "phase"]), "Bound");
    let path = PathBuf::from(volume.str_at(&["spec", "hostPath", "path"]));
    assert_eq!(path.parent(), Some(root.path()));
    // The node creates the directory.
    std::fs::create_dir(&path).expect("made");
    std::fs::write(path.join("file"), "x").expect("written");
    stage.delete(&claims(), "data").await;
    until(&stage, "the volume goes", async |stage| stage.find(&volumes(), &name).await.is_none()).await;
    assert!(!path.exists() && root.path().exists());
}

#[tokio::test(start_paused = true)]
async fn what_is_to_be_kept_is_kept() {
    let (stage, _root) = stage().await;
    stage.create(&storage_classes(), class("keep", "Retain")).await;
    stage.create(&claims(), claim("keep".into())).await;
    let name = stage.get(&claims(), "data").await.str_at(&["spec", "volumeName"]).to_owned();
    let path = PathBuf::from(stage.get(&volumes(), &name).await.str_at(&["spec", "hostPath", "path"]));
    std::fs::create_dir(&path).expect("made");
    stage.delete(&claims(), "data").await;
    stage.settle().await;
    assert_eq!(stage.get(&volumes(), &name).await.str_at(&["status", "phase"]), "Released");
    assert!(path.exists());
}

#[tokio::test(start_paused = true)]
async fn a_claim_in_use_stays_until_its_last_pod_ends() {
    let (stage, _root) = stage().await;
    stage.create(&storage_classes(), class("now", "Retain")).await;
    stage.create(&claims(), claim("now".into())).await;
    let mut user = running("p", "n", true);
    user["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
    stage.create(&pods(), user).await;
    stage.delete(&claims(), "data").await;
    assert!(stage.get(&claims(), "data").await.is_deleting());
    stage.patch_status(&pods(), "p", json!({"phase": "Succeeded"})).await;
    assert!(stage.find(&claims(), "data").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_claim_without_a_class_gets_the_default_and_waits_for_a_pod() {
    let (stage, _root) = stage().await;
    stage.create(&claims(), claim(Value::Null)).await;
    let waiting = stage.get(&claims(), "data").await;
    assert_eq!(waiting.str_at(&["spec", "storageClassName"]), "hostpath");
    assert_eq!(waiting.str_at(&["status", "phase"]), "Pending");
    let told = "WaitForFirstConsumer: waiting for first consumer to be created before binding";
    assert_eq!(stage.events("data").await, [told]);
}

#[tokio::test(start_paused = true)]
async fn existing_volumes_are_bound_and_the_rest_waits() {
    let (stage, _root) = stage().await;
    stage.create(&claims(), claim("".into())).await;
    let told = "FailedBinding: no persistent volumes available for this claim and no storage class is set";
    assert_eq!(stage.events("data").await, [told]);
    let volume = json!({"metadata": {"name": "disk"}, "spec": {"capacity": {"storage": "2Gi"},
        "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/x"}}});
    stage.create(&volumes(), volume).await;
    let bound = stage.get(&claims(), "data").await;
    assert_eq!((bound.str_at(&["spec", "volumeName"]), bound.str_at(&["status", "phase"])), ("disk", "Bound"));
    let volume = stage.get(&volumes(), "disk").await;
    assert_eq!(volume.str_at(&["spec", "claimRef", "uid"]), bound.uid());
    // A bound claim whose volume is deleted becomes Lost.
    stage.delete(&volumes(), "disk").await;
    assert_eq!(stage.get(&claims(), "data").await.str_at(&["status", "phase"]), "Lost");
}

#[tokio::test(start_paused = true)]
async fn a_volume_of_others_is_never_removed() {
    let (stage, root) = stage().await;
    let precious = root.path().join("precious");
    std::fs::create_dir(&precious).expect("made");
    let volume = json!({"metadata": {"name": "disk"}, "spec": {"capacity": {"storage": "2Gi"},
        "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Delete",
        "claimRef": {"namespace": "default", "name": "gone", "uid": "u"}, "hostPath": {"path": precious}}});
    stage.create(&volumes(), volume).await;
    let volume = stage.get(&volumes(), "disk").await;
    assert_eq!(volume.str_at(&["status", "phase"]), "Failed");
    assert!(precious.exists());
}

#[tokio::test(start_paused = true)]
async fn pods_bring_claims_of_their_own() {
    let (stage, _root) = stage().await;
    let mut pod = running("p", "n", true);
    pod["spec"]["volumes"] = json!([{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}}]);
    let pod = stage.create(&pods(), pod).await;
    let claim = stage.get(&claims(), "p-scratch").await;
    assert_eq!(claim.owner_references()[0].uid, pod.uid());
}
