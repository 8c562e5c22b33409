//! Keeps the RBAC of the manager's own API in step with the platform roles of its Binding objects.

use std::collections::BTreeSet;

use cluster_client::{ClusterClient, ResourceRef};
use jiff::Timestamp;
use object::{GroupVersionResource, Object, Status};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::access::Rights;

const GROUP: &str = "rbac.authorization.k8s.io";
const FIELD_MANAGER: &str = "flotilla-manager";
/// Roles of the platform, and the ClusterRole of each in the manager's API.
const ROLES: &[(&str, &str)] = &[
    ("platform-admin", "cluster-admin"),
    ("instance-owner", "flotilla:platform:instance-owner"),
    ("iam-owner", "flotilla:platform:iam-owner"),
    ("auditor", "flotilla:platform:auditor"),
];

/// Writes one ClusterRoleBinding for each platform role when its subjects change, until cancelled.
pub async fn run(client: ClusterClient, rights: Rights, cancel: CancellationToken) {
    rights.synced().await;
    let mut written: Vec<Option<BTreeSet<(String, String)>>> = vec![None; ROLES.len()];
    let mut changes = rights.changes();
    loop {
        for (at, (role, cluster_role)) in ROLES.iter().enumerate() {
            let subjects = rights.subjects_of(role, Timestamp::now());
            if written[at].as_ref() == Some(&subjects) {
                continue;
            }
            match write(&client, role, cluster_role, &subjects).await {
                Ok(()) => written[at] = Some(subjects),
                Err(status) => tracing::warn!(role, %status, "cannot update the rights of a platform role; will retry"),
            }
        }
        tokio::select! {
            () = cancel.cancelled() => return,
            () = changes.next() => {}
        }
    }
}

async fn write(
    client: &ClusterClient,
    role: &str,
    cluster_role: &str,
    subjects: &BTreeSet<(String, String)>,
) -> Result<(), Status> {
    let name = format!("flotilla:platform:{role}");
    let subjects: Vec<Value> =
        subjects.iter().map(|(kind, name)| json!({"apiGroup": GROUP, "kind": kind, "name": name})).collect();
    let binding = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": cluster_role},
        "subjects": subjects,
    });
    let object = Object::from_value(binding).ok_or_else(|| Status::internal("not an object"))?;
    let gvr = GroupVersionResource::new(GROUP, "v1", "clusterrolebindings");
    client.apply(ResourceRef::cluster(&gvr, &name), object, FIELD_MANAGER).await.map(drop)
}
