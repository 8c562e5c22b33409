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
        let taken = Object::from_value(manifest.take()).filter(|object| !object.kind().is_empty());
        let Some(mut object) = taken else {
            let message = "Object 'Kind' is missing in a manifest of the work".to_owned();
            return Err(Denial { webhook: WEBHOOK, code: 500, reason: "InternalError", message });
        };
        prune(&mut object);
        record_managed(&mut object, id.as_deref());
        *manifest = object.into_value();
    }
    Ok(())
}
