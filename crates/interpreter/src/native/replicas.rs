//! Replicas of a workload, their requirements, and how to change the number.

use api::work::ReplicaRequirements;
use object::Object;
use serde_json::Value;

use super::Kind;
use super::read::int;
use crate::operation::{InterpretError, InterpretResult, Operation};
use crate::pod;

pub fn replicas(
    kind: Kind,
    object: &Object,
    options: pod::PodOptions,
) -> InterpretResult<(i32, Option<ReplicaRequirements>)> {
    let spec = object.get(&["spec"]).unwrap_or(&Value::Null);
    let template = &spec["template"]["spec"];
    match kind {
        Kind::Pod => Ok((1, pod::requirements(spec, options)?)),
        Kind::Job => {
            let parallelism = int(spec, "parallelism")?;
            // A job with fixed completions never runs more pods than the remaining completions.
            let wanted = match spec.get("completions") {
                None | Some(Value::Null) => parallelism,
                Some(_) => parallelism.min(int(spec, "completions")?),
            };
            Ok((narrow(wanted)?, pod::requirements(template, options)?))
        }
        Kind::Deployment | Kind::ReplicaSet | Kind::StatefulSet => {
            Ok((narrow(int(spec, "replicas")?)?, pod::requirements(template, options)?))
        }
        _ => Err(super::no_rule(object, Operation::InterpretReplica)),
    }
}

fn narrow(replicas: i64) -> InterpretResult<i32> {
    i32::try_from(replicas).map_err(|_| InterpretError(format!("{replicas} replicas are more than can be counted")))
}

/// Changes an existing number: without one, another controller manages it.
pub fn revise(object: &mut Object, field: &str, replicas: i64) -> InterpretResult<()> {
    let spec = object.get(&["spec"]).unwrap_or(&Value::Null);
    if matches!(spec.get(field), None | Some(Value::Null)) {
        return Ok(());
    }
    int(spec, field)?;
    object.set(&["spec", field], replicas);
    Ok(())
}
