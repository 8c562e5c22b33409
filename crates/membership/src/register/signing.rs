//! Gets a certificate from the control plane: creates a key and a request, and waits for the certificate.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::{ClusterClient, DeleteOptions, ResourceRef, WriteOptions};
use object::conditions;
use pki::csr::create_csr;
use pki::key::PrivateKey;
use pki::subject::{AlternativeNames, CertificateSubject};
use tokio::time::Instant;

use crate::renewal::{GROUP, REQUESTS, signing_request};
use crate::{MembershipError, Progress};

const POLL: Duration = Duration::from_millis(500);
/// After this time the request probably needs manual approval.
const APPROVAL_USUAL: Duration = Duration::from_secs(5);

/// A certificate to request.
pub struct CertificateRequest {
    /// Name of the request.
    pub csr: String,
    pub user: String,
    pub seconds: i32,
    pub deadline: Instant,
}

/// A certificate and its key, in PEM.
pub struct IssuedCertificate {
    pub certificate: Vec<u8>,
    pub key: String,
}

pub async fn certificate(
    plane: &ClusterClient,
    requested: CertificateRequest,
    progress: &dyn Progress,
) -> Result<IssuedCertificate, MembershipError> {
    let CertificateRequest { csr, user, seconds, deadline } = requested;
    let key = PrivateKey::generate()?;
    let subject = CertificateSubject::new(&user, &[GROUP.to_owned()]);
    let text = create_csr(&key, &subject, &AlternativeNames::default())?;
    let request = signing_request(&csr, &text, seconds);
    if let Err(status) = plane.create(ResourceRef::all(&REQUESTS.gvr()), request, WriteOptions::default()).await {
        return Err(MembershipError::RequestCertificate { csr, status });
    }
    let hint_at = Instant::now() + APPROVAL_USUAL;
    let mut is_hinted = false;
    loop {
        let request = plane.get(ResourceRef::cluster(&REQUESTS.gvr(), &csr)).await?;
        let signed = request.str_at(&["status", "certificate"]);
        if !signed.is_empty() {
            let Ok(certificate) = STANDARD.decode(signed) else {
                return Err(MembershipError::UnreadableCertificate { csr });
            };
            return Ok(IssuedCertificate { certificate, key: key.to_pem() });
        }
        if let Some(end) = conditions::all(&request).find(|condition| condition.kind() != "Approved") {
            let reason = end.message().to_owned();
            return Err(MembershipError::DeniedCertificate { csr, reason });
        }
        let now = Instant::now();
        if now >= deadline {
            return Err(MembershipError::CertificateTimeout { csr });
        }
        if now >= hint_at && !is_hinted {
            progress.note(&format!(
                "waiting for {csr}: approve it with `kubectl certificate approve {csr}` on the control plane"
            ));
            is_hinted = true;
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Deletes a request that is no longer needed.
pub async fn delete_request(plane: &ClusterClient, csr: &str, progress: &dyn Progress) {
    if let Err(status) = plane.delete(ResourceRef::cluster(&REQUESTS.gvr(), csr), DeleteOptions::default()).await {
        progress.warn(&format!("the certificate request {csr} remains in the control plane: {status}"));
    }
}
