//! FederatedResourceQuotas: parts of them to members, what members say of those parts, and what bindings use of the whole.

pub mod assign;
pub mod enforce;
pub mod status;

use api::policy::{LABEL_QUOTA_NAME, LABEL_QUOTA_NAMESPACE};
use api::work::WORKS;
use object::Object;
use propagation::quota::Amounts;
use reconcile::{Mirror, MirrorSpec, ObjectKey};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::plane::Plane;

/// Works by the quota whose parts they carry.
const BY_QUOTA: &str = "quota";

/// The works that carry parts of quotas.
fn mirror_parts(plane: &Plane, cancel: &CancellationToken) -> Mirror {
    plane.mirror(MirrorSpec::new(&WORKS.gvr()).labels(LABEL_QUOTA_NAME).index(BY_QUOTA, quota_text), cancel)
}

/// The quota of a work.
fn quota_of(work: &Object) -> Option<ObjectKey> {
    Some(ObjectKey::new(work.label(LABEL_QUOTA_NAMESPACE)?, work.label(LABEL_QUOTA_NAME)?))
}

fn quota_text(work: &Object) -> Vec<String> {
    quota_of(work).map(|quota| quota.to_string()).into_iter().collect()
}

/// Amounts as they are written.
fn to_value(amounts: &Amounts) -> Value {
    let written = amounts.iter().map(|(name, amount)| (name.clone(), amount.to_string().into()));
    Value::Object(written.collect::<Map<String, Value>>())
}
