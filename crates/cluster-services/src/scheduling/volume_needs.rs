//! Node requirements of a pod's claims, read from the mirrors.

use object::Object;
use placement::{BoundVolume, Labels, NodeSelector, Pod, UnboundClaim, VolumeNeeds};
use reconcile::ObjectKey;

use crate::mirrors::ClusterMirrors;
use crate::volumes::matching;

pub fn gather_needs(mirrors: &ClusterMirrors, object: &Object) -> VolumeNeeds {
    let mut needs = VolumeNeeds::default();
    let has_claim =
        |volume: &serde_json::Value| volume.get("persistentVolumeClaim").is_some() || volume.get("ephemeral").is_some();
    if !object.items(&["spec", "volumes"]).iter().any(has_claim) {
        return needs;
    }
    for name in &Pod::read(object).claims {
        if let Err(refusal) = add_claim(mirrors, object, name, &mut needs) {
            needs.refusal = Some(refusal);
            return needs;
        }
    }
    needs
}

/// Adds the requirements of one claim; the error is the reason why no node fits.
fn add_claim(mirrors: &ClusterMirrors, pod: &Object, name: &str, needs: &mut VolumeNeeds) -> Result<(), String> {
    let Some(claim) = mirrors.claims.get(&ObjectKey::new(pod.namespace(), name)) else {
        let is_ephemeral =
            !pod.items(&["spec", "volumes"]).iter().any(|v| v["persistentVolumeClaim"]["claimName"] == name);
        return Err(match is_ephemeral {
            true => format!("waiting for ephemeral volume controller to create the persistentvolumeclaim {name:?}"),
            false => format!("persistentvolumeclaim {name:?} not found"),
        });
    };
    if claim.is_deleting() {
        return Err(format!("persistentvolumeclaim {name:?} is being deleted"));
    }
    if claim.items(&["spec", "accessModes"]).iter().any(|mode| mode == "ReadWriteOncePod") {
        needs.exclusive.push(name.to_owned());
    }
    let volume_name = claim.str_at(&["spec", "volumeName"]);
    if claim.str_at(&["status", "phase"]) == "Lost" {
        return Err(format!("persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume_name:?}"));
    }
    if !volume_name.is_empty() && claim.str_at(&["status", "phase"]) == "Bound" {
        let Some(volume) = mirrors.volumes.get(&ObjectKey::new("", volume_name)) else {
            return Err(format!("persistentvolume {volume_name:?} not found"));
        };
        needs.bound.push(BoundVolume { node_affinity: reach_of(&volume), labels: Labels::of(&volume) });
        return Ok(());
    }
    let class = matching::class_of(&claim).and_then(|class| mirrors.classes.get(&ObjectKey::new("", class)));
    let Some(class) = class.filter(|class| class.str_at(&["volumeBindingMode"]) == "WaitForFirstConsumer") else {
        return Err("pod has unbound immediate PersistentVolumeClaims".to_owned());
    };
    let fitting = mirrors.volumes.list().into_iter().filter(|volume| matching::fits(volume, &claim));
    let can_be_made = class.str_at(&["provisioner"]) != "kubernetes.io/no-provisioner";
    needs.unbound.push(UnboundClaim {
        candidates: fitting.map(|volume| reach_of(&volume)).collect(),
        can_be_made: can_be_made.then_some(None),
    });
    Ok(())
}

/// Returns the nodes a volume is accessible from.
pub fn reach_of(volume: &Object) -> Option<NodeSelector> {
    volume.get(&["spec", "nodeAffinity", "required"]).filter(|value| value.is_object()).map(NodeSelector::read)
}
