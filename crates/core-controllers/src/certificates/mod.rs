//! Approves, signs and cleans up CertificateSigningRequests of the built-in signers.

mod approve;
mod clean;
mod recognize;
mod sign;
#[cfg(test)]
mod testing;

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::{ClusterClient, DeleteOptions, ResourceRef, WriteOptions};
use object::builtin;
use object::conditions;
use object::request::Subresource;
use object::{GroupVersionKind, Object};
use pki::authority::CertificateAuthority;
use pki::csr::Csr;
use reconcile::{Clock, Controller, Mirror, MirrorSpec, ObjectKey, Outcome, ReconcileError, Source};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::certificates::approve::ApprovalRule;
use crate::resources::target;

pub use crate::certificates::approve::AgentApproval;

struct CertificateController {
    client: ClusterClient,
    /// Used where the certificate controller of Kubernetes lacks permission.
    manager: ClusterClient,
    authority: Arc<CertificateAuthority>,
    agent_approval: AgentApproval,
    clock: Arc<dyn Clock>,
}

/// Configuration of the certificate controllers.
pub struct CertificateSettings {
    pub authority: Arc<CertificateAuthority>,
    pub agent_approval: AgentApproval,
}

pub async fn run(
    manager: ClusterClient,
    client: ClusterClient,
    rules: CertificateSettings,
    clock: Arc<dyn Clock>,
    cancel: CancellationToken,
) {
    let requests =
        Mirror::start(manager.clone(), MirrorSpec::new(&builtin::certificate_signing_requests()), cancel.clone());
    let CertificateSettings { authority, agent_approval } = rules;
    let controller = Arc::new(CertificateController { client, manager, authority, agent_approval, clock });
    let reconcile = move |key: ObjectKey| reconcile(Arc::clone(&controller), key);
    Controller::new("certificatesigningrequest").run(vec![Source::each(&requests)], 2, cancel, reconcile).await;
}

async fn reconcile(controller: Arc<CertificateController>, key: ObjectKey) -> Result<Outcome, ReconcileError> {
    let place = target(&builtin::certificate_signing_requests(), &key);
    let Some(request) = controller.client.find(place.clone()).await? else { return Ok(Outcome::Done) };
    let now = controller.clock.now();
    let Some(wait) = clean::wait(&request, now) else {
        return match controller.client.delete(place, DeleteOptions::default()).await {
            Err(status) if !status.is_not_found() => Err(status.into()),
            _ => Ok(Outcome::Done),
        };
    };
    let later = Outcome::After(wait);
    let Some(csr) = read(&request) else { return Ok(later) };
    if conditions::is_true(&request, "Failed")
        || !request.str_at(&["status", "certificate"]).is_empty()
        || conditions::is_true(&request, "Denied")
    {
        return Ok(later);
    }
    if conditions::is_true(&request, "Approved") {
        if let Some(answered) = sign::answer(&request, &csr, &controller.authority, now) {
            controller.client.update_status(place, answered, WriteOptions::default()).await?;
        }
        return Ok(later);
    }
    for rule in approve::rules_for(&request, &csr) {
        if is_granted(&controller, &request, &csr, rule).await? {
            let approved = approve::approved(&request, rule.message);
            let approver = if rule.needs_manager { &controller.manager } else { &controller.client };
            approver.update(place.subresource(Subresource::Approval), approved, WriteOptions::default()).await?;
            break;
        }
    }
    Ok(later)
}

/// Parses the PEM request; `None` if it is invalid, which only its author can fix.
fn read(request: &Object) -> Option<Csr> {
    let pem = STANDARD.decode(request.str_at(&["spec", "request"])).ok()?;
    Csr::from_pem(&pem).ok()
}

/// Reports whether the requester has the permission of a rule. A role with a resource name grants it for that cluster
/// only; a role without grants it for all clusters, which may be more than intended.
async fn is_granted(
    controller: &CertificateController,
    request: &Object,
    csr: &Csr,
    rule: ApprovalRule,
) -> Result<bool, ReconcileError> {
    if controller.agent_approval == AgentApproval::Off && rule.subresource.ends_with("clusteragent") {
        return Ok(false);
    }
    if !rule.is_named {
        return may(&controller.client, request, rule.subresource, "").await;
    }
    if controller.agent_approval == AgentApproval::Bound
        && may(&controller.client, request, rule.subresource, "").await?
    {
        return Ok(false);
    }
    may(&controller.client, request, rule.subresource, approve::cluster_named(csr)).await
}

/// Runs a SubjectAccessReview for the requester.
async fn may(client: &ClusterClient, request: &Object, subresource: &str, name: &str) -> Result<bool, ReconcileError> {
    let gvr = builtin::subject_access_reviews();
    let mut review = Object::default();
    review.set_gvk(&GroupVersionKind::new("authorization.k8s.io", "v1", "SubjectAccessReview"));
    let part = |name: &str| request.get(&["spec", name]).cloned();
    review.set(
        &["spec"],
        json!({
            "user": part("username").unwrap_or_default(),
            "uid": part("uid").unwrap_or_else(|| "".into()),
            "groups": part("groups").unwrap_or_else(|| json!([])),
            "extra": part("extra").unwrap_or_else(|| json!({})),
            "resourceAttributes": {"group": "certificates.k8s.io", "resource": "certificatesigningrequests",
                "verb": "create", "subresource": subresource, "version": "*", "name": name},
        }),
    );
    let answer = client.create(ResourceRef::all(&gvr), review, WriteOptions::default()).await?;
    Ok(answer.get(&["status", "allowed"]).and_then(Value::as_bool).unwrap_or(false))
}
