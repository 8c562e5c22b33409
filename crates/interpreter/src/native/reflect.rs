//! The part of a member object's status that is reported.

use api::work::ANNOTATION_TEMPLATE_GENERATION;
use object::Object;
use serde_json::{Map, Value};

use super::Kind;
use super::counters::{AUTOSCALER, BUDGET, Counter, DAEMON_SET, DEPLOYMENT, REPLICA_SET, STATEFUL_SET};
use super::read::Zero::{Omitted, Written};
use super::read::int;
use crate::operation::{InterpretError, InterpretResult};

const JOB: &[Counter] = &[("active", Omitted), ("succeeded", Omitted), ("failed", Omitted)];
const OBSERVED_GENERATION: &[Counter] = &[("observedGeneration", Omitted)];

/// `None` if there is nothing to report (yet).
pub fn reflect(kind: Option<Kind>, object: &Object) -> InterpretResult<Option<Value>> {
    let Some(status) = object.get(&["status"]) else { return Ok(None) };
    if !status.is_object() {
        return Err(InterpretError(format!(".status is {status}, which is not an object")));
    }
    let mut out = Map::new();
    match kind {
        Some(Kind::Deployment) => {
            generations(object, &mut out)?;
            numbers(status, DEPLOYMENT, &mut out)?;
            numbers(status, OBSERVED_GENERATION, &mut out)?;
            // An empty status has not been collected yet.
            return Ok((!out.is_empty()).then_some(Value::Object(out)));
        }
        Some(Kind::ReplicaSet) => {
            generations(object, &mut out)?;
            numbers(status, REPLICA_SET, &mut out)?;
            numbers(status, OBSERVED_GENERATION, &mut out)?;
        }
        Some(Kind::DaemonSet) => {
            generations(object, &mut out)?;
            numbers(status, DAEMON_SET, &mut out)?;
            numbers(status, OBSERVED_GENERATION, &mut out)?;
        }
        Some(Kind::StatefulSet) => {
            generations(object, &mut out)?;
            numbers(status, STATEFUL_SET, &mut out)?;
        }
        Some(Kind::Service) => {
            if object.str_at(&["spec", "type"]) != "LoadBalancer" {
                return Ok(None);
            }
            let load_balancer = status.get("loadBalancer").filter(|value| value.is_object());
            out.insert("loadBalancer".to_owned(), load_balancer.cloned().unwrap_or_else(|| Value::Object(Map::new())));
        }
        Some(Kind::Job) => {
            numbers(status, JOB, &mut out)?;
            copies(status, &["conditions", "startTime", "completionTime"], &mut out);
        }
        Some(Kind::PodDisruptionBudget) => {
            numbers(status, BUDGET, &mut out)?;
            copies(status, &["disruptedPods"], &mut out);
        }
        Some(Kind::HorizontalPodAutoscaler) => numbers(status, AUTOSCALER, &mut out)?,
        _ => return Ok(Some(status.clone())),
    }
    Ok(Some(Value::Object(out)))
}

/// The member's own generation and that of its template, so that aggregation can detect outdated statuses.
fn generations(object: &Object, out: &mut Map<String, Value>) -> InterpretResult<()> {
    let text = object.annotation(ANNOTATION_TEMPLATE_GENERATION).unwrap_or_default();
    let template: i64 = match text {
        "" => 0,
        text => text.parse().map_err(|_| {
            let (kind, namespace, name) = (object.kind(), object.namespace(), object.name());
            let key = ANNOTATION_TEMPLATE_GENERATION;
            InterpretError(format!("annotation {key} of {kind} {namespace}/{name} is {text:?}, which is no generation"))
        })?,
    };
    for (key, number) in [("generation", object.generation()), ("resourceTemplateGeneration", template)] {
        if number != 0 {
            out.insert(key.to_owned(), number.into());
        }
    }
    Ok(())
}

fn numbers(status: &Value, counters: &[Counter], out: &mut Map<String, Value>) -> InterpretResult<()> {
    for (key, zero) in counters {
        let number = int(status, key)?;
        if number != 0 || *zero == Written {
            out.insert((*key).to_owned(), number.into());
        }
    }
    Ok(())
}

/// Lists, maps and times are copied; empty ones are skipped.
fn copies(status: &Value, keys: &[&str], out: &mut Map<String, Value>) {
    for key in keys {
        let Some(value) = status.get(*key) else { continue };
        let empty = match value {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(map) => map.is_empty(),
            _ => false,
        };
        if !empty {
            out.insert((*key).to_owned(), value.clone());
        }
    }
}
