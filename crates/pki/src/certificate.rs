//! A certificate and the fields the control plane reads from it.

use data_encoding::HEXLOWER;
use jiff::Timestamp;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::FromDer;

use crate::error::PkiError;
use crate::key::{PrivateKey, PublicKey};
use crate::pem;
use crate::subject::{AlternativeNames, CertificateSubject};

/// One certificate, with its DER as signed.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificate {
    der: Vec<u8>,
    facts: CertificateFields,
}

#[derive(Clone, PartialEq, Eq)]
struct CertificateFields {
    subject: CertificateSubject,
    names: AlternativeNames,
    not_before: Timestamp,
    not_after: Timestamp,
    is_ca: bool,
    subject_der: Vec<u8>,
    issuer_der: Vec<u8>,
    spki: Vec<u8>,
    subject_key_identifier: Option<Vec<u8>>,
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (subject, not_after) = (&self.facts.subject, self.facts.not_after);
        write!(out, "Certificate(CN={:?}, O={:?}, until {not_after})", subject.common_name, subject.organizations)
    }
}

impl Certificate {
    pub fn from_der(der: &[u8]) -> Result<Self, PkiError> {
        let parsed = parse(der)?;
        let mut names = AlternativeNames::default();
        let mut subject_key_identifier = None;
        for extension in parsed.extensions() {
            match extension.parsed_extension() {
                ParsedExtension::SubjectAlternativeName(found) => names = AlternativeNames::read(found)?,
                ParsedExtension::SubjectKeyIdentifier(found) => subject_key_identifier = Some(found.0.to_vec()),
                _ => {}
            }
        }
        let facts = CertificateFields {
            subject: CertificateSubject::read(parsed.subject())?,
            names,
            not_before: timestamp(parsed.validity().not_before.timestamp()),
            not_after: timestamp(parsed.validity().not_after.timestamp()),
            is_ca: parsed.is_ca(),
            subject_der: parsed.subject().as_raw().to_vec(),
            issuer_der: parsed.issuer().as_raw().to_vec(),
            spki: parsed.public_key().raw.to_vec(),
            subject_key_identifier,
        };
        Ok(Self { der: der.to_vec(), facts })
    }

    /// The first certificate of a PEM file.
    pub fn from_pem(text: &[u8]) -> Result<Self, PkiError> {
        Self::from_der(&pem::decode_one(text, pem::CERTIFICATE)?)
    }

    /// Every certificate of a PEM file, in order.
    pub fn bundle_from_pem(text: &[u8]) -> Result<Vec<Self>, PkiError> {
        let blocks = pem::decode(text)?;
        let certificates = blocks.iter().filter(|block| block.label == pem::CERTIFICATE);
        certificates.map(|block| Self::from_der(&block.der)).collect()
    }

    pub fn der(&self) -> &[u8] {
        &self.der
    }

    pub fn to_pem(&self) -> String {
        pem::encode(pem::CERTIFICATE, &self.der)
    }

    pub fn subject(&self) -> &CertificateSubject {
        &self.facts.subject
    }

    pub fn alternative_names(&self) -> &AlternativeNames {
        &self.facts.names
    }

    pub fn not_before(&self) -> Timestamp {
        self.facts.not_before
    }

    pub fn not_after(&self) -> Timestamp {
        self.facts.not_after
    }

    pub fn is_ca(&self) -> bool {
        self.facts.is_ca
    }

    /// The subject as encoded; issued certificates repeat it as their issuer.
    pub fn subject_der(&self) -> &[u8] {
        &self.facts.subject_der
    }

    pub fn is_self_issued(&self) -> bool {
        self.facts.subject_der == self.facts.issuer_der
    }

    pub fn public_key(&self) -> Result<PublicKey, PkiError> {
        PublicKey::from_spki(&self.facts.spki)
    }

    pub fn belongs_to(&self, key: &PrivateKey) -> bool {
        self.facts.spki == key.public_key().spki()
    }

    pub(crate) fn subject_key_identifier(&self) -> Option<&[u8]> {
        self.facts.subject_key_identifier.as_deref()
    }

    /// Reports whether `authority` signed this certificate; does not check dates or revocation.
    pub fn is_signed_by(&self, authority: &Certificate) -> bool {
        if self.facts.issuer_der != authority.facts.subject_der {
            return false;
        }
        match (parse(&self.der), parse(&authority.der)) {
            (Ok(leaf), Ok(authority)) => leaf.verify_signature(Some(authority.public_key())).is_ok(),
            _ => false,
        }
    }

    /// SHA-256 of the whole certificate, in lower-case hex.
    pub fn fingerprint_sha256(&self) -> String {
        HEXLOWER.encode(ring::digest::digest(&ring::digest::SHA256, &self.der).as_ref())
    }
}

/// A certificate with the key it was issued for.
#[derive(Debug, Clone)]
pub struct KeyedCertificate {
    pub certificate: Certificate,
    pub key: PrivateKey,
}

impl KeyedCertificate {
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, PkiError> {
        let pair = Self { certificate: Certificate::from_pem(certificate)?, key: PrivateKey::from_pem(key)? };
        if pair.certificate.belongs_to(&pair.key) { Ok(pair) } else { Err(PkiError::KeyMismatch) }
    }
}

fn parse(der: &[u8]) -> Result<X509Certificate<'_>, PkiError> {
    match X509Certificate::from_der(der) {
        Ok(([], parsed)) => Ok(parsed),
        Ok(_) => Err(PkiError::Unreadable { what: "certificate", reason: "bytes after its end".into() }),
        Err(reason) => Err(PkiError::Unreadable { what: "certificate", reason: reason.to_string() }),
    }
}

/// "Never expires" is written as the end of the year 9999, beyond the range of a timestamp.
fn timestamp(seconds: i64) -> Timestamp {
    let limit = if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::from_second(seconds).unwrap_or(limit)
}
