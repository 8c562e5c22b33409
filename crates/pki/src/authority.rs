//! The certificate authority: self-signs, issues certificates and signs requests.

use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use ring::rand::{SecureRandom, SystemRandom};

use crate::certificate::{Certificate, KeyedCertificate};
use crate::csr::Csr;
use crate::der;
use crate::error::PkiError;
use crate::key::{PrivateKey, PublicKey};
use crate::subject::{AlternativeNames, CertificateSubject};
use crate::usage::{self, CertificateUsage};

pub const DAY: Duration = Duration::from_secs(24 * 3600);
/// Lifetime of a self-signed authority.
pub const AUTHORITY_LIFETIME: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// Lifetime of certificates the control plane issues to itself.
pub const LEAF_LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);
/// Certificates are valid from a little before now, for peers whose clocks are behind.
pub const BACKDATE: Duration = Duration::from_secs(5 * 60);

const SUBJECT_KEY_IDENTIFIER: &[u64] = &[2, 5, 29, 14];
const KEY_USAGE: &[u64] = &[2, 5, 29, 15];
pub(crate) const SUBJECT_ALTERNATIVE_NAME: &[u64] = &[2, 5, 29, 17];
const BASIC_CONSTRAINTS: &[u64] = &[2, 5, 29, 19];
const AUTHORITY_KEY_IDENTIFIER: &[u64] = &[2, 5, 29, 35];
const EXTENDED_KEY_USAGE: &[u64] = &[2, 5, 29, 37];

/// The contents of a certificate to issue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateRequest {
    pub common_name: String,
    /// Written in this order, each as its own O: the groups of the user.
    pub organizations: Vec<String>,
    pub dns_names: Vec<String>,
    pub ips: Vec<IpAddr>,
    pub usages: Vec<CertificateUsage>,
    /// Counted from now; the start is backdated by [`BACKDATE`], the end never exceeds the authority's.
    pub duration: Duration,
}

impl CertificateRequest {
    pub fn server(common_name: &str, dns_names: &[String], ips: &[IpAddr]) -> Self {
        Self {
            common_name: common_name.to_owned(),
            organizations: Vec::new(),
            dns_names: dns_names.to_vec(),
            ips: ips.to_vec(),
            usages: CertificateUsage::SERVER.to_vec(),
            duration: LEAF_LIFETIME,
        }
    }

    pub fn client(common_name: &str, organizations: &[String]) -> Self {
        Self {
            common_name: common_name.to_owned(),
            organizations: organizations.to_vec(),
            dns_names: Vec::new(),
            ips: Vec::new(),
            usages: CertificateUsage::CLIENT.to_vec(),
            duration: LEAF_LIFETIME,
        }
    }
}

#[derive(Debug, Clone)]
pub struct CertificateAuthority {
    certificate: Certificate,
    key: PrivateKey,
}

impl CertificateAuthority {
    /// A new authority with a new key.
    pub fn self_signed(common_name: &str, now: Timestamp) -> Result<Self, PkiError> {
        Self::self_signed_with_key(common_name, PrivateKey::generate()?, now)
    }

    pub fn self_signed_with_key(common_name: &str, key: PrivateKey, now: Timestamp) -> Result<Self, PkiError> {
        let subject = CertificateSubject::new(common_name, &[]).to_der();
        let identifier = key.public_key().subject_key_identifier();
        let extensions = [
            extension(KEY_USAGE, true, &der::named_bits([0, 2, 5, 6])),
            extension(BASIC_CONSTRAINTS, true, &der::sequence(&[&der::boolean(true)])),
            extension(SUBJECT_KEY_IDENTIFIER, false, &der::octet_string(&identifier)),
            extension(AUTHORITY_KEY_IDENTIFIER, false, &der::sequence(&[&der::implicit(0, &identifier)])),
        ];
        let body = Body {
            issuer_der: &subject,
            subject_der: &subject,
            public_key: key.public_key(),
            validity: Validity::starting(now, AUTHORITY_LIFETIME),
            extensions: &extensions,
        };
        Ok(Self { certificate: body.sign(&key)?, key })
    }

    /// The same name and key with a new validity: certificates issued before still verify, with the old root and the
    /// new.
    pub fn renewed(&self, now: Timestamp) -> Result<Self, PkiError> {
        Self::self_signed_with_key(&self.certificate.subject().common_name, self.key.clone(), now)
    }

    pub fn new(certificate: Certificate, key: PrivateKey) -> Result<Self, PkiError> {
        if !certificate.is_ca() {
            return Err(PkiError::NotAnAuthority);
        }
        if !certificate.belongs_to(&key) {
            return Err(PkiError::KeyMismatch);
        }
        Ok(Self { certificate, key })
    }

    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, PkiError> {
        Self::new(Certificate::from_pem(certificate)?, PrivateKey::from_pem(key)?)
    }

    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    pub fn key(&self) -> &PrivateKey {
        &self.key
    }

    /// Issues a certificate for a new key.
    pub fn issue(&self, request: &CertificateRequest, now: Timestamp) -> Result<KeyedCertificate, PkiError> {
        let key = PrivateKey::generate()?;
        let certificate = self.issue_for_key(request, key.public_key(), now)?;
        Ok(KeyedCertificate { certificate, key })
    }

    /// Issues a certificate for an existing key.
    pub fn issue_for_key(
        &self,
        request: &CertificateRequest,
        key: &PublicKey,
        now: Timestamp,
    ) -> Result<Certificate, PkiError> {
        let names = AlternativeNames {
            dns_names: request.dns_names.clone(),
            ips: request.ips.clone(),
            ..AlternativeNames::default()
        };
        let subject = CertificateSubject::new(&request.common_name, &request.organizations).to_der();
        self.sign_leaf(&subject, &names, key, &request.usages, request.duration, now)
    }

    /// Grants a verified request: subject and names are kept, the signer decides usages and duration.
    pub fn sign_csr(
        &self,
        csr: &Csr,
        usages: &[CertificateUsage],
        duration: Duration,
        now: Timestamp,
    ) -> Result<Certificate, PkiError> {
        self.sign_leaf(csr.subject_der(), csr.alternative_names(), csr.public_key(), usages, duration, now)
    }

    fn sign_leaf(
        &self,
        subject_der: &[u8],
        names: &AlternativeNames,
        key: &PublicKey,
        usages: &[CertificateUsage],
        duration: Duration,
        now: Timestamp,
    ) -> Result<Certificate, PkiError> {
        if now >= self.certificate.not_after() {
            return Err(PkiError::AuthorityExpired { at: self.certificate.not_after() });
        }
        let authority_identifier = match self.certificate.subject_key_identifier() {
            Some(identifier) => identifier.to_vec(),
            None => self.key.public_key().subject_key_identifier(),
        };
        let mut extensions = Vec::new();
        if let Some(value) = usage::key_usage_value(usages) {
            extensions.push(extension(KEY_USAGE, true, &value));
        }
        if let Some(value) = usage::extended_usage_value(usages) {
            extensions.push(extension(EXTENDED_KEY_USAGE, false, &value));
        }
        extensions.push(extension(BASIC_CONSTRAINTS, true, &der::sequence(&[])));
        let identifier = key.subject_key_identifier();
        extensions.push(extension(SUBJECT_KEY_IDENTIFIER, false, &der::octet_string(&identifier)));
        let authority_value = der::sequence(&[&der::implicit(0, &authority_identifier)]);
        extensions.push(extension(AUTHORITY_KEY_IDENTIFIER, false, &authority_value));
        if !names.is_empty() {
            // Without a subject the alternative names are the only identity, which RFC 5280 requires to be marked
            // critical.
            let subject_is_empty = subject_der == der::sequence(&[]);
            extensions.push(extension(SUBJECT_ALTERNATIVE_NAME, subject_is_empty, &names.to_der()?));
        }
        let body = Body {
            issuer_der: self.certificate.subject_der(),
            subject_der,
            public_key: key,
            validity: Validity::starting(now, duration).ending_by(self.certificate.not_after()),
            extensions: &extensions,
        };
        body.sign(&self.key)
    }
}

struct Validity {
    not_before: Timestamp,
    not_after: Timestamp,
}

impl Validity {
    fn starting(now: Timestamp, duration: Duration) -> Self {
        let shifted = |seconds: i64| Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
        let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
        let now = now.as_second();
        Self { not_before: shifted(now - BACKDATE.as_secs() as i64), not_after: shifted(now.saturating_add(seconds)) }
    }

    fn ending_by(self, limit: Timestamp) -> Self {
        Self { not_after: self.not_after.min(limit), ..self }
    }
}

struct Body<'a> {
    issuer_der: &'a [u8],
    subject_der: &'a [u8],
    public_key: &'a PublicKey,
    validity: Validity,
    extensions: &'a [Vec<u8>],
}

impl Body<'_> {
    fn sign(&self, key: &PrivateKey) -> Result<Certificate, PkiError> {
        const VERSION_3: u8 = 2;
        let algorithm = key.signature_algorithm_der();
        let validity = der::sequence(&[&der::time(self.validity.not_before), &der::time(self.validity.not_after)]);
        let extensions = der::tlv(der::tag::SEQUENCE, &self.extensions.concat());
        let body = der::sequence(&[
            &der::explicit(0, &der::unsigned_integer(&[VERSION_3])),
            &der::unsigned_integer(&random_serial()?),
            &algorithm,
            self.issuer_der,
            &validity,
            self.subject_der,
            self.public_key.spki(),
            &der::explicit(3, &extensions),
        ]);
        let signature = key.sign(&body)?;
        Certificate::from_der(&der::sequence(&[&body, &algorithm, &der::bit_string(&signature)]))
    }
}

pub(crate) fn extension(id: &[u64], critical: bool, value: &[u8]) -> Vec<u8> {
    let critical = if critical { der::boolean(true) } else { Vec::new() };
    der::sequence(&[&der::oid(id), &critical, &der::octet_string(value)])
}

/// 128 random bits; one bit is dropped to stay positive without a leading zero byte.
fn random_serial() -> Result<[u8; 16], PkiError> {
    let mut serial = [0; 16];
    SystemRandom::new().fill(&mut serial).map_err(|_| PkiError::Randomness)?;
    serial[0] = serial[0] & 0x7f | 0x40;
    Ok(serial)
}

#[cfg(test)]
mod tests;
