//! The identity in a client certificate. Whether to trust it is decided by `tls::client_trust`.

use jiff::Timestamp;

use crate::certificate::Certificate;
use crate::error::PkiError;

/// The user in a client certificate, as Kubernetes reads it: CN is the name, every O a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientIdentity {
    /// Empty if the certificate has no CN; such a certificate does not authenticate a user.
    pub common_name: String,
    pub organizations: Vec<String>,
    pub uid: Option<String>,
    pub not_after: Timestamp,
    /// Lower-case hex; Kubernetes shows it as `X509SHA256=…` in the user's credential id.
    pub fingerprint_sha256: String,
}

pub fn parse_client_identity(der: &[u8]) -> Result<ClientIdentity, PkiError> {
    let certificate = Certificate::from_der(der)?;
    let subject = certificate.subject();
    let uid = match subject.uids.as_slice() {
        [] => None,
        [uid] if !uid.is_empty() => Some(uid.clone()),
        _ => return Err(PkiError::Unreadable { what: "subject", reason: "expected exactly one non-empty UID".into() }),
    };
    Ok(ClientIdentity {
        common_name: subject.common_name.clone(),
        organizations: subject.organizations.clone(),
        uid,
        not_after: certificate.not_after(),
        fingerprint_sha256: certificate.fingerprint_sha256(),
    })
}
