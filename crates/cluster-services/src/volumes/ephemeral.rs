//! Creates the claims of generic ephemeral volumes.

use cluster_client::{ResourceRef, WriteOptions};
use object::builtin;
use object::{GroupVersionKind, Object};
use reconcile::{ObjectKey, Outcome, ReconcileError};
use serde_json::{Value, json};

use crate::mirrors::FIELD_MANAGER;
use crate::volumes::{Volumes, has_ended};

impl Volumes {
    pub(super) async fn reconcile_pod(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let Some(pod) = self.mirrors.pods.get(key).filter(|pod| !pod.is_deleting() && !has_ended(pod)) else {
            return Ok(Outcome::Done);
        };
        for claim in plan_claims(&pod) {
            if let Some(there) = self.mirrors.claims.get(&ObjectKey::of(&claim)) {
                if !there.owner_references().iter().any(|owner| owner.uid == pod.uid()) {
                    let message =
                        format!("PVC \"{}/{}\" was not created for this pod", claim.namespace(), claim.name());
                    self.recorder.warning(&*pod, "FailedBinding", message);
                }
                continue;
            }
            let target = ResourceRef::within(&builtin::persistent_volume_claims(), pod.namespace());
            match self.mirrors.client.create(target, claim, WriteOptions::managed_by(FIELD_MANAGER)).await {
                Err(status) if !status.is_already_exists() => return Err(status.into()),
                _ => {}
            }
        }
        Ok(Outcome::Done)
    }
}

fn plan_claims(pod: &Object) -> Vec<Object> {
    let volumes = pod.items(&["spec", "volumes"]).iter();
    let claims = volumes.filter_map(|volume| {
        let template = volume["ephemeral"]["volumeClaimTemplate"].as_object()?;
        let name = format!("{}-{}", pod.name(), volume["name"].as_str()?);
        let gvk = GroupVersionKind::new("", "v1", "PersistentVolumeClaim");
        let mut claim = Object::new(&gvk, Some(pod.namespace()), &name);
        for field in ["labels", "annotations"] {
            if let Some(value) = template.get("metadata").and_then(|metadata| metadata.get(field)) {
                claim.set(&["metadata", field], value.clone());
            }
        }
        claim.set(
            &["metadata", "ownerReferences"],
            json!([{"apiVersion": "v1", "kind": "Pod", "name": pod.name(), "uid": pod.uid(), "controller": true,
                "blockOwnerDeletion": true}]),
        );
        claim.set(&["spec"], template.get("spec").cloned().unwrap_or(Value::Null));
        Some(claim)
    });
    claims.collect()
}
