//! Automatic approval of requests by kubelets and Karmada agents that have the permission.

use std::str::FromStr;

use object::Object;
use object::conditions::{self, NewCondition};
use pki::csr::Csr;

use super::recognize;

const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const ANY_CLIENT: &str = "kubernetes.io/kube-apiserver-client";

/// The certificates that are approved automatically for agents of pull-mode clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AgentApproval {
    /// As in Karmada: a token may obtain the certificate of any agent, and of the group that has all agent
    /// permissions.
    Any,
    /// Only certificates for the cluster the token was created for.
    #[default]
    Bound,
    /// None: the controller `agentcsrapproving` is off.
    Off,
}

impl FromStr for AgentApproval {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "any" => Ok(Self::Any),
            "bound" => Ok(Self::Bound),
            other => Err(format!("{other:?} is neither any nor bound")),
        }
    }
}

/// A permission that implies approval, and the message of the approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApprovalRule {
    pub subresource: &'static str,
    pub message: &'static str,
    /// Kubernetes' own controller may approve for kubelets only; in Karmada a cluster-admin component approves
    /// agents.
    pub needs_manager: bool,
    /// The permission may be limited to the certificate of a single, named cluster.
    pub is_named: bool,
}

const RENEWS_OWN: ApprovalRule = ApprovalRule {
    subresource: "selfnodeclient",
    message: "Auto approving self kubelet client certificate after SubjectAccessReview.",
    needs_manager: false,
    is_named: false,
};
const ANY_NODE: ApprovalRule = ApprovalRule {
    subresource: "nodeclient",
    message: "Auto approving kubelet client certificate after SubjectAccessReview.",
    needs_manager: false,
    is_named: false,
};
const AGENT_RENEWS_OWN: ApprovalRule = ApprovalRule {
    subresource: "selfclusteragent",
    message: "Auto approving self karmada agent certificate after SubjectAccessReview.",
    needs_manager: true,
    is_named: false,
};
const ANY_AGENT: ApprovalRule = ApprovalRule {
    subresource: "clusteragent",
    message: "Auto approving karmada agent certificate after SubjectAccessReview.",
    needs_manager: true,
    is_named: true,
};

/// Returns the permissions any of which is sufficient, in the order they are checked.
pub fn rules_for(request: &Object, csr: &Csr) -> Vec<ApprovalRule> {
    let usages = recognize::usages(request);
    let (renews_own, any) = match request.str_at(&["spec", "signerName"]) {
        KUBELET_CLIENT if recognize::kubelet_client(csr, &usages).is_ok() => (RENEWS_OWN, ANY_NODE),
        ANY_CLIENT if recognize::agent_client(csr, &usages).is_ok() => (AGENT_RENEWS_OWN, ANY_AGENT),
        _ => return Vec::new(),
    };
    match request.str_at(&["spec", "username"]) == csr.subject().common_name {
        true => vec![renews_own, any],
        false => vec![any],
    }
}

/// Returns the cluster whose agent the certificate is for.
pub fn cluster_named(csr: &Csr) -> &str {
    csr.subject().common_name.strip_prefix(recognize::AGENT_PREFIX).unwrap_or_default()
}

pub fn approved(request: &Object, message: &str) -> Object {
    let mut approved = request.clone();
    let new = NewCondition { kind: "Approved", status: "True", reason: "AutoApproved", message };
    conditions::edit(&mut approved, new.kind, |condition| condition.write(&new));
    approved
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificates::testing::{RequestFixture, csr, request};

    #[track_caller]
    fn check(asked: &RequestFixture, username: &str, expected: &[&str]) {
        let mut request = request(asked);
        request.set(&["spec", "username"], username);
        let rules = rules_for(&request, &csr(asked));
        let rights: Vec<&str> = rules.iter().map(|rule| rule.subresource).collect();
        assert_eq!(rights, expected, "{} as {username}", asked.common_name);
    }

    #[test]
    fn kubelet_and_agent_requests_are_recognized() {
        let usages: &[&str] = &["digital signature", "client auth"];
        let agent = RequestFixture {
            signer: ANY_CLIENT,
            common_name: "system:karmada:agent:m1",
            organization: "system:karmada:agents",
            usages,
            ..RequestFixture::default()
        };
        check(&agent, "system:bootstrap:abcdef", &["clusteragent"]);
        check(&agent, "system:karmada:agent:m1", &["selfclusteragent", "clusteragent"]);
        check(
            &RequestFixture { usages: &["digital signature", "key encipherment", "client auth"], ..agent },
            "x",
            &["clusteragent"],
        );
        check(&RequestFixture { signer: KUBELET_CLIENT, ..agent }, "x", &[]);
        check(&RequestFixture { common_name: "system:node:m1", ..agent }, "x", &[]);
        check(&RequestFixture { organization: "system:masters", ..agent }, "x", &[]);
        check(&RequestFixture { dns_name: "a.b", ..agent }, "x", &[]);
        check(&RequestFixture { usages: &["client auth"], ..agent }, "x", &[]);
        let node = RequestFixture {
            signer: KUBELET_CLIENT,
            common_name: "system:node:a",
            organization: "system:nodes",
            usages,
            ..RequestFixture::default()
        };
        check(&node, "system:bootstrap:abcdef", &["nodeclient"]);
        check(&node, "system:node:a", &["selfnodeclient", "nodeclient"]);
        check(&RequestFixture { signer: ANY_CLIENT, ..node }, "x", &[]);
    }
}
