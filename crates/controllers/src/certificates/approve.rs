//! Which requests are approved without a person: those of kubelets that were given the right to.

use object::Object;
use pki::csr::Csr;
use serde_json::{Value, json};

use super::recognize;

const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";

/// A right that stands for approval, and what the approval says.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    pub subresource: &'static str,
    pub message: &'static str,
}

const RENEWS_OWN: Rule = Rule {
    subresource: "selfnodeclient",
    message: "Auto approving self kubelet client certificate after SubjectAccessReview.",
};
const ANY_NODE: Rule =
    Rule { subresource: "nodeclient", message: "Auto approving kubelet client certificate after SubjectAccessReview." };

/// The rights any of which is enough, in the order they are asked for.
pub fn rules_for(request: &Object, csr: &Csr) -> Vec<Rule> {
    let is_kubelet = request.str_at(&["spec", "signerName"]) == KUBELET_CLIENT
        && recognize::kubelet_client(csr, &recognize::usages(request)).is_ok();
    if !is_kubelet {
        return Vec::new();
    }
    match request.str_at(&["spec", "username"]) == csr.subject().common_name {
        true => vec![RENEWS_OWN, ANY_NODE],
        false => vec![ANY_NODE],
    }
}

pub fn approved(request: &Object, message: &str) -> Object {
    let mut approved = request.clone();
    let mut conditions = request.items(&["status", "conditions"]).to_vec();
    conditions.push(json!({"type": "Approved", "status": "True", "reason": "AutoApproved", "message": message}));
    approved.set(&["status", "conditions"], Value::Array(conditions));
    approved
}
