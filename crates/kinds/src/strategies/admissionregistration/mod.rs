//! Dynamic admission: webhooks, and policies written in CEL.

pub mod expressions;
mod policies;
mod rules;
mod webhooks;

use std::sync::Arc;

use crate::strategy::Strategy;

pub(super) fn for_kind(kind: &str) -> Option<Arc<dyn Strategy>> {
    Some(match kind {
        "ValidatingWebhookConfiguration" => Arc::new(webhooks::Webhooks { mutating: false }),
        "MutatingWebhookConfiguration" => Arc::new(webhooks::Webhooks { mutating: true }),
        "ValidatingAdmissionPolicy" => Arc::new(policies::Policy { mutating: false }),
        "MutatingAdmissionPolicy" => Arc::new(policies::Policy { mutating: true }),
        "ValidatingAdmissionPolicyBinding" => Arc::new(policies::Binding { mutating: false }),
        "MutatingAdmissionPolicyBinding" => Arc::new(policies::Binding { mutating: true }),
        _ => return None,
    })
}
