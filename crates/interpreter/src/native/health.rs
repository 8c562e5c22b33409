//! Health of workloads in a member.

use object::{Object, conditions};
use serde_json::Value;

use super::Kind;
use super::read::{int, list, text};
use crate::operation::{InterpretResult, Operation};

pub fn is_healthy(kind: Kind, object: &Object) -> InterpretResult<bool> {
    let spec = object.get(&["spec"]).unwrap_or(&Value::Null);
    let status = object.get(&["status"]).unwrap_or(&Value::Null);
    let observed = || Ok(int(status, "observedGeneration")? == object.generation());
    // Without a desired number, any number is enough.
    let wanted = || match spec.get("replicas") {
        None | Some(Value::Null) => Ok(i64::MIN),
        Some(_) => int(spec, "replicas"),
    };
    Ok(match kind {
        Kind::Deployment | Kind::StatefulSet => {
            let updated = int(status, "updatedReplicas")?;
            observed()? && updated >= wanted()? && int(status, "availableReplicas")? >= updated
        }
        Kind::ReplicaSet => observed()? && int(status, "availableReplicas")? >= wanted()?,
        Kind::DaemonSet => {
            let updated = int(status, "updatedNumberScheduled")?;
            observed()?
                && updated >= int(status, "desiredNumberScheduled")?
                && int(status, "numberAvailable")? >= updated
        }
        Kind::Service => text(spec, "type")? != "LoadBalancer" || has_address(status)?,
        Kind::Ingress => has_address(status)?,
        Kind::PersistentVolumeClaim => text(status, "phase")? == "Bound",
        Kind::Pod => match text(status, "phase")? {
            "Succeeded" => true,
            "Running" => conditions::is_true_in(list(status, "conditions")?, "Ready"),
            _ => false,
        },
        Kind::PodDisruptionBudget => int(status, "currentHealthy")? >= int(status, "desiredHealthy")?,
        _ => return Err(super::no_rule(object, Operation::InterpretHealth)),
    })
}

fn has_address(status: &Value) -> InterpretResult<bool> {
    for ingress in list(&status["loadBalancer"], "ingress")? {
        if !text(ingress, "hostname")?.is_empty() || !text(ingress, "ip")?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}
