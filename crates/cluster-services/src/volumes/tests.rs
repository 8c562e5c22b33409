//! Tests of volumes over an in-memory API, in virtual time.

use std::path::PathBuf;

use object::builtin::{persistent_volume_claims, persistent_volumes, pods, storage_classes};
use serde_json::{Value, json};

use crate::settings::ClusterServiceSettings;
use crate::testing::{ServicesTestbed, running};

fn claim(class: Value) -> Value {
    json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "resources": {"requests": {"storage": "1Gi"}}}})
}

fn class(name: &str, policy: &str) -> Value {
    json!({"metadata": {"name": name}, "provisioner": "flotilla.dev/hostpath", "reclaimPolicy": policy,
        "volumeBindingMode": "Immediate"})
}

async fn testbed() -> (ServicesTestbed, tempfile::TempDir) {
    let root = tempfile::tempdir().expect("a directory");
    let settings =
        ClusterServiceSettings { host_path_root: root.path().to_owned(), ..ClusterServiceSettings::default() };
    (ServicesTestbed::start_with(settings, |_| {}).await, root)
}

/// File system work runs on threads that virtual time does not cover.
async fn until(testbed: &ServicesTestbed, what: &str, mut holds: impl AsyncFnMut(&ServicesTestbed) -> bool) {
    for _ in 0..2000 {
        if holds(testbed).await {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
        testbed.settle().await;
    }
    panic!("never: {what}");
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_provisioned_and_deleted_with_its_claim() {
    let (testbed, root) = testbed().await;
    testbed.create(&storage_classes(), class("now", "Delete")).await;
    testbed.create(&persistent_volume_claims(), claim("now".into())).await;
    let bound = testbed.get(&persistent_volume_claims(), "data").await;
    assert_eq!(bound.str_at(&["status", "phase"]), "Bound");
    assert_eq!(bound.str_at(&["status", "capacity", "storage"]), "1Gi");
    let name = bound.str_at(&["spec", "volumeName"]).to_owned();
    assert_eq!(name, format!("pvc-{}", bound.uid()));
    let volume = testbed.get(&persistent_volumes(), &name).await;
    assert_eq!(volume.str_at(&["status", "phase"]), "Bound");
    let path = PathBuf::from(volume.str_at(&["spec", "hostPath", "path"]));
    assert_eq!(path.parent(), Some(root.path()));
    // The node creates the directory.
    std::fs::create_dir(&path).expect("made");
    std::fs::write(path.join("file"), "x").expect("written");
    testbed.delete(&persistent_volume_claims(), "data").await;
    until(&testbed, "the volume goes", async |testbed| testbed.find(&persistent_volumes(), &name).await.is_none())
        .await;
    assert!(!path.exists() && root.path().exists());
}

#[tokio::test(start_paused = true)]
async fn retained_volumes_are_kept() {
    let (testbed, _root) = testbed().await;
    testbed.create(&storage_classes(), class("keep", "Retain")).await;
    testbed.create(&persistent_volume_claims(), claim("keep".into())).await;
    let name = testbed.get(&persistent_volume_claims(), "data").await.str_at(&["spec", "volumeName"]).to_owned();
    let path = PathBuf::from(testbed.get(&persistent_volumes(), &name).await.str_at(&["spec", "hostPath", "path"]));
    std::fs::create_dir(&path).expect("made");
    testbed.delete(&persistent_volume_claims(), "data").await;
    testbed.settle().await;
    assert_eq!(testbed.get(&persistent_volumes(), &name).await.str_at(&["status", "phase"]), "Released");
    assert!(path.exists());
}

#[tokio::test(start_paused = true)]
async fn a_claim_in_use_stays_until_its_last_pod_ends() {
    let (testbed, _root) = testbed().await;
    testbed.create(&storage_classes(), class("now", "Retain")).await;
    testbed.create(&persistent_volume_claims(), claim("now".into())).await;
    let mut user = running("p", "n", true);
    user["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
    testbed.create(&pods(), user).await;
    testbed.delete(&persistent_volume_claims(), "data").await;
    assert!(testbed.get(&persistent_volume_claims(), "data").await.is_deleting());
    testbed.patch_status(&pods(), "p", json!({"phase": "Succeeded"})).await;
    assert!(testbed.find(&persistent_volume_claims(), "data").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_claim_without_a_class_gets_the_default_and_waits_for_a_pod() {
    let (testbed, _root) = testbed().await;
    testbed.create(&persistent_volume_claims(), claim(Value::Null)).await;
    let waiting = testbed.get(&persistent_volume_claims(), "data").await;
    assert_eq!(waiting.str_at(&["spec", "storageClassName"]), "hostpath");
    assert_eq!(waiting.str_at(&["status", "phase"]), "Pending");
    let reported = "WaitForFirstConsumer: waiting for first consumer to be created before binding";
    assert_eq!(testbed.events("data").await, [reported]);
}

#[tokio::test(start_paused = true)]
async fn existing_volumes_are_bound_and_the_rest_waits() {
    let (testbed, _root) = testbed().await;
    testbed.create(&persistent_volume_claims(), claim("".into())).await;
    let reported = "FailedBinding: no persistent volumes available for this claim and no storage class is set";
    assert_eq!(testbed.events("data").await, [reported]);
    let volume = json!({"metadata": {"name": "disk"}, "spec": {"capacity": {"storage": "2Gi"},
        "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/x"}}});
    testbed.create(&persistent_volumes(), volume).await;
    let bound = testbed.get(&persistent_volume_claims(), "data").await;
    assert_eq!((bound.str_at(&["spec", "volumeName"]), bound.str_at(&["status", "phase"])), ("disk", "Bound"));
    let volume = testbed.get(&persistent_volumes(), "disk").await;
    assert_eq!(volume.str_at(&["spec", "claimRef", "uid"]), bound.uid());
    // A bound claim whose volume is deleted becomes Lost.
    testbed.delete(&persistent_volumes(), "disk").await;
    assert_eq!(testbed.get(&persistent_volume_claims(), "data").await.str_at(&["status", "phase"]), "Lost");
}

#[tokio::test(start_paused = true)]
async fn a_foreign_volume_is_never_removed() {
    let (testbed, root) = testbed().await;
    let precious = root.path().join("precious");
    std::fs::create_dir(&precious).expect("made");
    let volume = json!({"metadata": {"name": "disk"}, "spec": {"capacity": {"storage": "2Gi"},
        "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Delete",
        "claimRef": {"namespace": "default", "name": "gone", "uid": "u"}, "hostPath": {"path": precious}}});
    testbed.create(&persistent_volumes(), volume).await;
    let volume = testbed.get(&persistent_volumes(), "disk").await;
    assert_eq!(volume.str_at(&["status", "phase"]), "Failed");
    assert!(precious.exists());
}

#[tokio::test(start_paused = true)]
async fn ephemeral_claims_are_created() {
    let (testbed, _root) = testbed().await;
    let mut pod = running("p", "n", true);
    pod["spec"]["volumes"] = json!([{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}}]);
    let pod = testbed.create(&pods(), pod).await;
    let claim = testbed.get(&persistent_volume_claims(), "p-scratch").await;
    assert_eq!(claim.owner_references()[0].uid, pod.uid());
}
