//! Registers the node and maintains its status: capacity, conditions, lease.

use std::time::Duration;

use cluster_client::{Patch, ResourceRef, WriteOptions};
use jiff::Timestamp;
use object::builtin;
use object::conditions::{self, NewCondition};
use object::time::{format_micros, format_seconds};
use object::{GroupVersionKind, Object, Status};
use reconcile::commit_status;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::cri::image_messages::Image;
use crate::machine::architecture;
use crate::node::KubeletNode;
use crate::pod::COMPONENT;

/// Heartbeat interval: lease renewal and status check.
const BEAT: Duration = Duration::from_secs(10);
const LEASE_SECONDS: i64 = 40;
/// An unchanged status is written at this interval.
const STATUS_AT_LEAST_EVERY: Duration = Duration::from_secs(300);
const LEASE_NAMESPACE: &str = "kube-node-lease";
/// Maximum number of images in the status.
const IMAGES_MAX: usize = 50;

/// The status reported by the runtime.
#[derive(Clone, Debug, Default)]
struct RuntimeReport {
    name_and_version: String,
    failure: Option<String>,
    images: Vec<Image>,
}

/// Registers the node and sends heartbeats until cancelled.
pub(crate) async fn run(node: &KubeletNode, cancel: CancellationToken) {
    let mut last_status: Option<tokio::time::Instant> = None;
    loop {
        let is_due = last_status.is_none_or(|last_status| last_status.elapsed() >= STATUS_AT_LEAST_EVERY);
        match beat(node, is_due).await {
            Ok(()) if is_due => last_status = Some(tokio::time::Instant::now()),
            Ok(()) => {}
            // Changed concurrently; the next heartbeat sees it.
            Err(error) if error.is_conflict() => {}
            Err(error) => tracing::warn!(%error, node = node.settings.node_name, "failed to update node status"),
        }
        // Retries sooner until it is registered.
        let wait = if last_status.is_some() { BEAT } else { Duration::from_secs(1) };
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

async fn beat(node: &KubeletNode, is_due: bool) -> Result<(), Status> {
    let target = ResourceRef::cluster(&builtin::nodes(), &node.settings.node_name);
    let current = match node.client.find(target.clone()).await? {
        Some(current) => current,
        None => node.client.create(ResourceRef::all(&builtin::nodes()), registration(node), written_by()).await?,
    };
    renew_lease(node, &current).await?;
    let now = node.clock.now();
    let report = ask_runtime(node).await;
    let mut desired = Object::clone(&current);
    desired.set(&["status"], node_status(node, &current, &report, now, is_due));
    commit_status(&node.client, target, &current, &desired, COMPONENT).await.map(drop)
}

fn written_by() -> WriteOptions {
    WriteOptions::managed_by(COMPONENT)
}

fn registration(node: &KubeletNode) -> Object {
    let settings = &node.settings;
    let mut object = Object::new(&GroupVersionKind::new("", "v1", "Node"), None, &settings.node_name);
    for (key, value) in [
        ("kubernetes.io/hostname", settings.node_name.as_str()),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", architecture()),
        ("beta.kubernetes.io/os", "linux"),
        ("beta.kubernetes.io/arch", architecture()),
    ] {
        object.set_label(key, value);
    }
    for (key, value) in &settings.labels {
        object.set_label(key, value);
    }
    object.set(&["spec", "podCIDR"], settings.pod_cidr.as_str());
    object.set(&["spec", "podCIDRs"], json!([settings.pod_cidr]));
    if !settings.taints.is_empty() {
        object.set(&["spec", "taints"], settings.taints.clone());
    }
    object
}

async fn ask_runtime(node: &KubeletNode) -> RuntimeReport {
    let version = node.runtime.version().await;
    let status = node.runtime.status().await;
    let failure = match (&version, &status) {
        (Err(error), _) | (_, Err(error)) => Some(format!("container runtime is down: {error}")),
        (Ok(_), Ok(status)) => {
            let conditions = status.status.as_ref().map(|s| s.conditions.as_slice()).unwrap_or_default();
            let bad = conditions.iter().find(|condition| !condition.status);
            bad.map(|bad| {
                format!("container runtime {} is false, reason:{} message:{}", bad.r#type, bad.reason, bad.message)
            })
        }
    };
    let version = version.unwrap_or_default();
    RuntimeReport {
        name_and_version: format!("{}://{}", version.runtime_name, version.runtime_version),
        failure,
        images: node.runtime.images().await.unwrap_or_default(),
    }
}

fn node_status(node: &KubeletNode, current: &Object, report: &RuntimeReport, now: Timestamp, is_due: bool) -> Value {
    let (machine, settings) = (&node.machine, &node.settings);
    let mut status = current.get(&["status"]).cloned().unwrap_or_else(|| json!({}));
    let amounts = json!({
        "cpu": machine.cpus.to_string(),
        "memory": format!("{}Ki", machine.memory_bytes / 1024),
        "ephemeral-storage": format!("{}Ki", machine.disk_bytes / 1024),
        "pods": settings.pods_max.to_string(),
    });
    status["capacity"] = amounts.clone();
    status["allocatable"] = amounts;
    status["addresses"] = json!([{"type": "InternalIP", "address": node.address.to_string()},
        {"type": "Hostname", "address": settings.node_name}]);
    status["nodeInfo"] = json!({
        "machineID": machine.machine_id, "systemUUID": machine.machine_id, "bootID": machine.boot_id,
        "kernelVersion": machine.kernel, "osImage": machine.os_image,
        "containerRuntimeVersion": report.name_and_version, "kubeletVersion": settings.kubernetes_version,
        "kubeProxyVersion": settings.kubernetes_version, "operatingSystem": "linux", "architecture": architecture(),
    });
    let mut images: Vec<&Image> = report.images.iter().collect();
    images.sort_by_key(|image| (std::cmp::Reverse(image.size), &image.id));
    let images = images.into_iter().take(IMAGES_MAX).map(|image| {
        let names: Vec<&String> = image.repo_digests.iter().chain(&image.repo_tags).collect();
        json!({"names": names, "sizeBytes": image.size})
    });
    status["images"] = images.collect();
    let mut conditions: Vec<Value> = current.items(&["status", "conditions"]).to_vec();
    let ready = report.failure.is_none();
    let message = report.failure.as_deref().unwrap_or("kubelet is posting ready status");
    for (kind, holds, reason, message) in [
        ("MemoryPressure", false, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", false, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", false, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", ready, if ready { "KubeletReady" } else { "KubeletNotReady" }, message),
    ] {
        set_condition(&mut conditions, kind, holds, reason, message, now, is_due);
    }
    status["conditions"] = conditions.into();
    status
}

/// The heartbeat time changes only with a due status or a changed condition; alone it is not worth a write.
fn set_condition(
    list: &mut Vec<Value>,
    kind: &str,
    holds: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
    is_due: bool,
) {
    let status = if holds { "True" } else { "False" };
    conditions::edit_in(list, kind, |condition| {
        if is_due || condition.view().status() != status || condition.view().text("lastHeartbeatTime").is_empty() {
            condition.set("lastHeartbeatTime", format_seconds(now));
        }
        condition.set_status(status, now);
        condition.write(&NewCondition { kind, status, reason, message });
    });
}

async fn renew_lease(node: &KubeletNode, owner: &Object) -> Result<(), Status> {
    let gvr = builtin::leases();
    let name = &node.settings.node_name;
    let now = format_micros(node.clock.now());
    let target = ResourceRef::namespaced(&gvr, LEASE_NAMESPACE, name);
    let patch = Patch::merge(json!({"spec": {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS,
        "renewTime": now}}));
    match node.client.patch(target, patch, written_by()).await {
        Err(status) if status.is_not_found() => {}
        result => return result.map(drop),
    }
    make_lease_namespace(node).await?;
    let mut lease =
        Object::new(&GroupVersionKind::new("coordination.k8s.io", "v1", "Lease"), Some(LEASE_NAMESPACE), name);
    lease.set(
        &["metadata", "ownerReferences"],
        json!([{"apiVersion": "v1", "kind": "Node", "name": name, "uid": owner.uid()}]),
    );
    lease.set(&["spec"], json!({"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now}));
    node.client.create(ResourceRef::within(&gvr, LEASE_NAMESPACE), lease, written_by()).await.map(drop)
}

async fn make_lease_namespace(node: &KubeletNode) -> Result<(), Status> {
    let namespace = Object::new(&GroupVersionKind::new("", "v1", "Namespace"), None, LEASE_NAMESPACE);
    match node.client.create(ResourceRef::all(&builtin::namespaces()), namespace, written_by()).await {
        Err(status) if !status.is_already_exists() => Err(status),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unchanged_condition_is_kept() {
        let time = |second: i64| Timestamp::from_second(second).expect("a time");
        let mut list = Vec::new();
        set_condition(&mut list, "Ready", true, "r", "m", time(0), true);
        let first = list.clone();
        set_condition(&mut list, "Ready", true, "r", "m", time(10), false);
        assert_eq!(list, first);
        set_condition(&mut list, "Ready", true, "r", "m", time(20), true);
        assert_eq!(list[0]["lastHeartbeatTime"], "1970-01-01T00:00:20Z");
        assert_eq!(list[0]["lastTransitionTime"], "1970-01-01T00:00:00Z");
        set_condition(&mut list, "Ready", false, "r", "m", time(30), false);
        assert_eq!(list[0]["lastTransitionTime"], "1970-01-01T00:00:30Z");
        assert_eq!(list.len(), 1);
    }
}
