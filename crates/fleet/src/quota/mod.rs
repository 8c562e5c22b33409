//! FederatedResourceQuotas: parts of them to members, what members say of those parts, and what bindings use of the whole.

pub mod assign;
pub mod enforce;
pub mod status;

use api::policy::{LABEL_QUOTA_NAME, LABEL_QUOTA_NAMESPACE};
use api::work::WORKS;
use object::Object;
use propagation::quota::Amounts;
use reconcile::{Index, MirrorSpec, ObjectKey};
use serde_json::{Map, Value};

use crate::plane::Plane;

/// The works that carry parts of quotas, by the quota.
fn parts_by_quota(plane: &Plane) -> Index<ObjectKey> {
    let parts = plane.mirror(MirrorSpec::new(&WORKS.gvr()).labels(LABEL_QUOTA_NAME));
    parts.index(|work| quota_of(work).into_iter().collect())
}

/// The quota of a work.
fn quota_of(work: &Object) -> Option<ObjectKey> {
    Some(ObjectKey::new(work.label(LABEL_QUOTA_NAMESPACE)?, work.label(LABEL_QUOTA_NAME)?))
}

/// Amounts as they are written.
fn to_value(amounts: &Amounts) -> Value {
    let written = amounts.iter().map(|(name, amount)| (name.clone(), amount.to_string().into()));
    Value::Object(written.collect::<Map<String, Value>>())
}
