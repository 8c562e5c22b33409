//! Work: its manifests without what only this control plane needs, and with a record of what is Karmada's in them.

use api::work::LABEL_WORK_ID;
use object::Object;
use propagation::works::{prune, record_managed};
use serde_json::Value;

use super::Denial;

const WEBHOOK: &str = "work.karmada.io";

pub fn prepare_manifests(work: &mut Object) -> Result<(), Denial> {
    let id = work.label(LABEL_WORK_ID).map(str::to_owned);
    let spec = work.as_map_mut().get_mut("spec");
    let manifests = spec.and_then(|spec| spec.get_mut("workload")).and_then(|load| load.get_mut("manifests"));
    for manifest in manifests.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(message) = problem(manifest) {
            return Err(Denial { webhook: WEBHOOK, code: 500, reason: "", message });
        }
        let Some(mut object) = Object::from_value(manifest.take()) else { continue };
        prune(&mut object);
        record_managed(&mut object, id.as_deref());
        *manifest = object.into_value();
    }
    Ok(())
}

/// The message of Go's decoder for a manifest that is not an object.
fn problem(manifest: &Value) -> Option<String> {
    let found = match manifest {
        Value::Object(map) if map.get("kind").and_then(Value::as_str).is_some_and(|kind| !kind.is_empty()) => {
            return None;
        }
        Value::Object(_) | Value::Null => return Some(format!("Object 'Kind' is missing in '{manifest}'")),
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "bool",
        Value::Array(_) => "array",
    };
    Some(format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"))
}
