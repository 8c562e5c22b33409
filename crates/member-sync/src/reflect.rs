//! From an object in the member to what its work says of it: the status that matters, and health.

use api::work::{ManifestStatus, ResourceIdentifier};
use interpreter::{InterpretError, Operation};
use object::Object;
use reconcile::Regarding;

use crate::manifest::Manifest;
use crate::member::Member;

pub const HEALTHY: &str = "Healthy";
pub const UNHEALTHY: &str = "Unhealthy";
pub const UNKNOWN: &str = "Unknown";

/// What the object in the member says, as the work shows it.
pub async fn reflect(
    member: &Member,
    work: &Object,
    manifest: Manifest<'_>,
    observed: &Object,
) -> Result<ManifestStatus, InterpretError> {
    let interpreter = member.plane.interpreter.load();
    let status = interpreter.reflect_status(observed).await.inspect_err(|error| {
        let text = format!("Reflect status for object({}) failed, err: {error}.", name(manifest));
        member.plane.recorders.work_status.warning(Regarding::from(work), "ReflectStatusFailed", text);
    })?;
    let health = if !interpreter.has_hook(&observed.gvk(), Operation::InterpretHealth) {
        // A kind without a notion of health is healthy by being there.
        HEALTHY
    } else {
        match interpreter.is_healthy(observed).await {
            Ok(true) => HEALTHY,
            Ok(false) => UNHEALTHY,
            Err(error) => {
                let text = format!("Interpret health of object({}) failed, err: {error}.", name(manifest));
                member.plane.recorders.work_status.warning(Regarding::from(work), "InterpretHealthFailed", text);
                UNKNOWN
            }
        }
    };
    Ok(ManifestStatus { identifier: identifier(manifest), status, health: health.to_owned() })
}

/// Tells of a health that is not what it was. Karmada tells of every look; only a change is news.
pub fn tell_health(member: &Member, work: &Object, manifest: Manifest<'_>, was: &str, is: &str) {
    let text = match (was, is) {
        (was, is) if was == is || was.is_empty() => return,
        (_, HEALTHY) => "as healthy",
        (_, UNHEALTHY) => "as unhealthy",
        _ => return,
    };
    let text = format!("Interpret health of object({}) {text}.", name(manifest));
    member.plane.recorders.work_status.normal(Regarding::from(work), "InterpretHealthSucceed", text);
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
