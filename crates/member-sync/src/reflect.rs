//! Reflects an object in the member into the status of its Work: the collected status and the health.

use api::work::{ManifestStatus, ResourceIdentifier, STATUS_UNSCHEDULABLE};
use interpreter::question::{Health, ReflectStatus};
use interpreter::{InterpretError, Operation};
use object::Object;
use object::depth::{self, EMBEDDED_DEPTH_MAX};
use reconcile::{ObjectKey, Regarding};
use serde_json::Value;

use crate::manifest::Manifest;
use crate::member::Member;

pub const HEALTHY: &str = "Healthy";
pub const UNHEALTHY: &str = "Unhealthy";
pub const UNKNOWN: &str = "Unknown";

/// Returns the status and health of the object in the member, as the Work shows them.
pub async fn reflect(
    member: &Member,
    work: &Object,
    manifest: Manifest<'_>,
    observed: &Object,
) -> Result<ManifestStatus, InterpretError> {
    let interpreter = member.plane.interpreter.load();
    let status = interpreter.ask(ReflectStatus(observed)).await.inspect_err(|error| {
        let text = format!("Reflect status for object({}) failed, err: {error}.", name(manifest));
        member.plane.recorders.work_status.warning(Regarding::from(work), "ReflectStatusFailed", text);
    })?;
    let health = if !interpreter.has_hook(&observed.gvk(), Operation::InterpretHealth) {
        // A kind without a notion of health is healthy by being there.
        HEALTHY
    } else {
        match interpreter.ask(Health(observed)).await {
            Ok(true) => HEALTHY,
            Ok(false) => UNHEALTHY,
            Err(error) => {
                let text = format!("Interpret health of object({}) failed, err: {error}.", name(manifest));
                member.plane.recorders.work_status.warning(Regarding::from(work), "InterpretHealthFailed", text);
                UNKNOWN
            }
        }
    };
    let status = with_unschedulable(member, observed, status).filter(|status| {
        let depth = depth::of(status);
        if depth > EMBEDDED_DEPTH_MAX {
            let text = format!(
                "Status of object({}) is nested {depth} levels deep and is left out; at most {EMBEDDED_DEPTH_MAX} can be reflected.",
                name(manifest)
            );
            member.plane.recorders.work_status.warning(Regarding::from(work), "ReflectStatusFailed", text);
        }
        depth <= EMBEDDED_DEPTH_MAX
    });
    Ok(ManifestStatus { identifier: identifier(manifest), status, health: health.to_owned() })
}

/// Karmada asks an estimator in each member for this; here it comes with the status, from push and pull members alike.
fn with_unschedulable(member: &Member, observed: &Object, status: Option<Value>) -> Option<Value> {
    if observed.kind() != "Deployment" || observed.api_version() != "apps/v1" {
        return status;
    }
    let Some(waiting) = member.waiting.lock().of(&ObjectKey::of(observed)) else { return status };
    let mut status = status?;
    if let (Some(fields), Ok(waiting)) = (status.as_object_mut(), serde_json::to_value(waiting)) {
        fields.insert(STATUS_UNSCHEDULABLE.to_owned(), waiting);
    }
    Some(status)
}

/// Records events for the first status of an object and for changes of its health. Karmada records every status, also one
/// that the Work has already.
pub fn record_health(member: &Member, work: &Object, manifest: Manifest<'_>, before: Option<&str>, is: &str) {
    let recorder = &member.plane.recorders.work_status;
    if before.is_none() {
        let text = format!("Reflect status for object({}) succeed.", name(manifest));
        recorder.normal(Regarding::from(work), "ReflectStatusSucceed", text);
    }
    let is_judged = || {
        let gvk = manifest.gvk().unwrap_or_default();
        member.plane.interpreter.load().has_hook(&gvk, Operation::InterpretHealth)
    };
    if before == Some(is) || !is_judged() {
        return;
    }
    let text = match is {
        HEALTHY => "as healthy",
        UNHEALTHY => "as unhealthy",
        _ => return,
    };
    let text = format!("Interpret health of object({}) {text}.", name(manifest));
    recorder.normal(Regarding::from(work), "InterpretHealthSucceed", text);
}

pub fn identifier(manifest: Manifest<'_>) -> ResourceIdentifier {
    let gvk = manifest.gvk().unwrap_or_default();
    ResourceIdentifier {
        ordinal: i64::try_from(manifest.ordinal).unwrap_or(i64::MAX),
        group: gvk.group,
        version: gvk.version,
        kind: gvk.kind,
        resource: String::new(),
        namespace: manifest.namespace().to_owned(),
        name: manifest.name().to_owned(),
    }
}

fn name(manifest: Manifest<'_>) -> String {
    format!("{}/{}/{}", manifest.kind(), manifest.namespace(), manifest.name())
}
