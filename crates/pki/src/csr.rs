//! Certificate signing requests: parsing and verifying received ones, writing our own.

use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::ParsedExtension;
use x509_parser::oid_registry::{OID_PKCS1_SHA1WITHRSA, OID_SHA1_WITH_RSA};
use x509_parser::prelude::FromDer;

use crate::authority::{SUBJECT_ALTERNATIVE_NAME, extension};
use crate::der;
use crate::error::PkiError;
use crate::key::{PrivateKey, PublicKey};
use crate::pem;
use crate::subject::{AlternativeNames, CertificateSubject};

const EXTENSION_REQUEST: &[u64] = &[1, 2, 840, 113549, 1, 9, 14];

/// A request whose sender has proved possession of the private key.
#[derive(Debug, Clone)]
pub struct Csr {
    subject: CertificateSubject,
    subject_der: Vec<u8>,
    names: AlternativeNames,
    public_key: PublicKey,
}

impl Csr {
    /// Parses the first block of the text, which must be a CERTIFICATE REQUEST, and verifies its signature.
    pub fn from_pem(text: &[u8]) -> Result<Self, PkiError> {
        match pem::decode(text)?.into_iter().next() {
            Some(block) if block.label == pem::CERTIFICATE_REQUEST => Self::from_der(&block.der),
            _ => Err(PkiError::MissingPemBlock { expected: pem::CERTIFICATE_REQUEST }),
        }
    }

    pub fn from_der(der: &[u8]) -> Result<Self, PkiError> {
        let (rest, parsed) = X509CertificationRequest::from_der(der)
            .map_err(|reason| PkiError::Unreadable { what: "certificate request", reason: reason.to_string() })?;
        if !rest.is_empty() {
            return Err(PkiError::Malformed { what: "certificate request" });
        }
        let algorithm = &parsed.signature_algorithm.algorithm;
        if *algorithm == OID_PKCS1_SHA1WITHRSA || *algorithm == OID_SHA1_WITH_RSA {
            return Err(PkiError::CsrSignature);
        }
        parsed.verify_signature().map_err(|_| PkiError::CsrSignature)?;
        let info = &parsed.certification_request_info;
        let mut names = AlternativeNames::default();
        for requested in parsed.requested_extensions().into_iter().flatten() {
            if let ParsedExtension::SubjectAlternativeName(found) = requested {
                names = AlternativeNames::read(found)?;
            }
        }
        Ok(Self {
            subject: CertificateSubject::read(&info.subject)?,
            subject_der: info.subject.as_raw().to_vec(),
            names,
            public_key: PublicKey::from_spki(info.subject_pki.raw)?,
        })
    }

    pub fn subject(&self) -> &CertificateSubject {
        &self.subject
    }

    /// The subject exactly as requested, including attributes we do not interpret.
    pub fn subject_der(&self) -> &[u8] {
        &self.subject_der
    }

    pub fn alternative_names(&self) -> &AlternativeNames {
        &self.names
    }

    pub fn public_key(&self) -> &PublicKey {
        &self.public_key
    }
}

/// A signing request for `key`, in PEM.
pub fn create_csr(
    key: &PrivateKey,
    subject: &CertificateSubject,
    names: &AlternativeNames,
) -> Result<String, PkiError> {
    let mut attributes = Vec::new();
    if !names.is_empty() {
        let requested = extension(SUBJECT_ALTERNATIVE_NAME, false, &names.to_der()?);
        attributes = der::sequence(&[&der::oid(EXTENSION_REQUEST), &der::set(vec![der::sequence(&[&requested])])]);
    }
    let info = der::sequence(&[
        &der::unsigned_integer(&[0]),
        &subject.to_der(),
        key.public_key().spki(),
        &der::explicit(0, &attributes),
    ]);
    let signature = key.sign(&info)?;
    let request = der::sequence(&[&info, &key.signature_algorithm_der(), &der::bit_string(&signature)]);
    Ok(pem::encode(pem::CERTIFICATE_REQUEST, &request))
}
