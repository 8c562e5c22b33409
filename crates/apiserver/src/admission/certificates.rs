//! Admission of CertificateSigningRequests: kube-apiserver's `CertificateApproval`, `CertificateSigning` and
//! `CertificateSubjectRestriction`.

use access::{Action, ResourceAction};
use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use object::field::go_quote;
use object::request::Subresource;
use object::{Object, Status};
use pki::csr::Csr;

use super::{Admission, Attributes, Operation};
use crate::admission::AdmissionScope;
use crate::context::Context;

const GROUP: &str = "certificates.k8s.io";
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const MASTERS: &str = "system:masters";

/// Requires the right to `approve` for the signer of a request that is approved or denied.
pub struct CertificateApproval;

/// Requires the right to `sign` for the signer of a request whose certificate or conditions are written.
pub struct CertificateSigning;

/// Refuses requests to the API server's client signer that ask for the group `system:masters`.
pub struct CertificateSubjectRestriction;

#[async_trait]
impl Admission for CertificateApproval {
    fn name(&self) -> &'static str {
        "CertificateApproval"
    }

    async fn validate(
        &self,
        scope: AdmissionScope<'_>,
        ctx: &Context,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        let Some(request) = object.filter(|_| is_about(attributes, Operation::Update, Some(&Subresource::Approval)))
        else {
            return Ok(());
        };
        require_signer(scope, ctx, attributes, "approve", request.str_at(&["spec", "signerName"])).await
    }
}

#[async_trait]
impl Admission for CertificateSigning {
    fn name(&self) -> &'static str {
        "CertificateSigning"
    }

    async fn validate(
        &self,
        scope: AdmissionScope<'_>,
        ctx: &Context,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        let request = object.filter(|_| is_about(attributes, Operation::Update, Some(&Subresource::Status)));
        let (Some(request), Some(old)) = (request, attributes.old) else { return Ok(()) };
        let is_same = |path: &[&str]| request.get(path) == old.get(path);
        if is_same(&["status", "certificate"]) && is_same(&["status", "conditions"]) {
            return Ok(());
        }
        require_signer(scope, ctx, attributes, "sign", old.str_at(&["spec", "signerName"])).await
    }
}

#[async_trait]
impl Admission for CertificateSubjectRestriction {
    fn name(&self) -> &'static str {
        "CertificateSubjectRestriction"
    }

    async fn validate(
        &self,
        _scope: AdmissionScope<'_>,
        _ctx: &Context,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        let Some(request) = object.filter(|_| is_about(attributes, Operation::Create, None)) else { return Ok(()) };
        if request.str_at(&["spec", "signerName"]) != CLIENT_SIGNER {
            return Ok(());
        }
        let pem = STANDARD.decode(request.str_at(&["spec", "request"])).unwrap_or_default();
        let csr =
            Csr::from_pem(&pem).map_err(|error| refuse(attributes, object, format!("failed to parse CSR: {error}")))?;
        if csr.subject().organizations.iter().any(|organization| organization == MASTERS) {
            let text = format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed");
            return Err(refuse(attributes, object, text));
        }
        Ok(())
    }
}

fn is_about(attributes: &Attributes<'_>, operation: Operation, subresource: Option<&Subresource>) -> bool {
    let kind = &attributes.resource.kind;
    attributes.operation == operation
        && attributes.subresource == subresource
        && kind.gvk.group == GROUP
        && kind.gvk.kind == "CertificateSigningRequest"
}

/// Rights are given for one signer by its name, or for all signers of a domain as `domain/*`.
async fn require_signer(
    scope: AdmissionScope<'_>,
    ctx: &Context,
    attributes: &Attributes<'_>,
    verb: &'static str,
    signer: &str,
) -> Result<(), Status> {
    let domain = format!("{}/*", signer.split('/').next().unwrap_or_default());
    for name in [signer, &domain] {
        let action =
            ResourceAction { verb, group: GROUP, version: "*", resource: "signers", name, ..ResourceAction::default() };
        if scope.auth.decide(scope.resources, &ctx.user, &Action::Resource(action)).await?.allowed {
            return Ok(());
        }
    }
    let text = format!("user not permitted to {verb} requests with signerName {}", go_quote(signer));
    Err(refuse(attributes, None, text))
}

fn refuse(attributes: &Attributes<'_>, object: Option<&Object>, text: String) -> Status {
    Status::forbidden(&attributes.resource.kind.group_resource(), attributes.name_in_refusals(object), text)
}
