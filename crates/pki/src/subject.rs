//! Distinguished names and alternative names: written in the given order, parsed from any certificate or request.

use std::net::IpAddr;

use x509_parser::extensions::{GeneralName, SubjectAlternativeName};
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

use crate::der;
use crate::error::PkiError;

const COMMON_NAME: &[u64] = &[2, 5, 4, 3];
const ORGANIZATION: &[u64] = &[2, 5, 4, 10];
/// The subject attribute from which Kubernetes reads a user's uid (apiserver 1.36, asn1util.X509UID).
const KUBERNETES_UID: &[u64] = &[1, 3, 6, 1, 4, 1, 57683, 2];

/// The subject attributes that Kubernetes uses: CN is the user, every O is a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CertificateSubject {
    pub common_name: String,
    pub organizations: Vec<String>,
    pub uids: Vec<String>,
}

impl CertificateSubject {
    pub fn new(common_name: &str, organizations: &[String]) -> Self {
        Self { common_name: common_name.to_owned(), organizations: organizations.to_vec(), uids: Vec::new() }
    }

    /// Every O gets its own relative name: inside one SET, DER would sort them and lose the order.
    pub fn to_der(&self) -> Vec<u8> {
        let mut content = Vec::new();
        for organization in &self.organizations {
            content.extend(relative_name(ORGANIZATION, organization));
        }
        if !self.common_name.is_empty() {
            content.extend(relative_name(COMMON_NAME, &self.common_name));
        }
        for uid in &self.uids {
            content.extend(relative_name(KUBERNETES_UID, uid));
        }
        der::tlv(der::tag::SEQUENCE, &content)
    }

    pub(crate) fn read(name: &X509Name<'_>) -> Result<Self, PkiError> {
        let (common, organization, uid) =
            (der::oid_content(COMMON_NAME), der::oid_content(ORGANIZATION), der::oid_content(KUBERNETES_UID));
        let mut subject = CertificateSubject::default();
        for attribute in name.iter_attributes() {
            let kind = attribute.attr_type().as_bytes();
            if kind == common {
                // Of several common names the last one counts, as in Go.
                subject.common_name = text_of(attribute)?;
            } else if kind == organization {
                subject.organizations.push(text_of(attribute)?);
            } else if kind == uid {
                subject.uids.push(text_of(attribute)?);
            }
        }
        Ok(subject)
    }
}

fn relative_name(kind: &[u64], value: &str) -> Vec<u8> {
    der::set(vec![der::sequence(&[&der::oid(kind), &der::utf8_string(value)])])
}

/// A name decides identity, so bytes that cannot be decoded exactly are rejected instead of replaced.
fn text_of(attribute: &AttributeTypeAndValue<'_>) -> Result<String, PkiError> {
    const TELETEX: u32 = 20;
    const BMP: u32 = 30;
    const TEXT: [u32; 4] = [12, 18, 19, 22];
    let value = attribute.attr_value();
    let unreadable = || PkiError::Malformed { what: "subject name" };
    match value.tag().0 {
        kind if TEXT.contains(&kind) => String::from_utf8(value.data.to_vec()).map_err(|_| unreadable()),
        TELETEX => Ok(value.data.iter().map(|byte| char::from(*byte)).collect()),
        BMP if value.data.len() % 2 == 0 => {
            let units: Vec<u16> =
                value.data.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
            String::from_utf16(&units).map_err(|_| unreadable())
        }
        _ => Err(unreadable()),
    }
}

/// Names of a certificate besides its subject.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AlternativeNames {
    pub dns_names: Vec<String>,
    pub ips: Vec<IpAddr>,
    pub emails: Vec<String>,
    pub uris: Vec<String>,
}

impl AlternativeNames {
    pub fn is_empty(&self) -> bool {
        self.dns_names.is_empty() && self.ips.is_empty() && self.emails.is_empty() && self.uris.is_empty()
    }

    /// The SubjectAlternativeName extension value; its strings are ASCII by definition.
    pub(crate) fn to_der(&self) -> Result<Vec<u8>, PkiError> {
        let mut content = Vec::new();
        for (number, names) in [(2, &self.dns_names), (1, &self.emails), (6, &self.uris)] {
            for name in names {
                if name.is_empty() || !name.is_ascii() || name.bytes().any(|byte| byte.is_ascii_control()) {
                    return Err(PkiError::InvalidName { name: name.clone(), reason: "must be printable ASCII" });
                }
                content.extend(der::implicit(number, name.as_bytes()));
            }
        }
        for ip in &self.ips {
            content.extend(match ip {
                IpAddr::V4(ip) => der::implicit(7, &ip.octets()),
                IpAddr::V6(ip) => der::implicit(7, &ip.octets()),
            });
        }
        Ok(der::tlv(der::tag::SEQUENCE, &content))
    }

    pub(crate) fn read(extension: &SubjectAlternativeName<'_>) -> Result<Self, PkiError> {
        let mut names = AlternativeNames::default();
        for name in &extension.general_names {
            match name {
                GeneralName::DNSName(name) => names.dns_names.push((*name).to_owned()),
                GeneralName::RFC822Name(name) => names.emails.push((*name).to_owned()),
                GeneralName::URI(name) => names.uris.push((*name).to_owned()),
                GeneralName::IPAddress(bytes) => names.ips.push(address(bytes)?),
                GeneralName::Invalid(..) => return Err(PkiError::Malformed { what: "subject alternative name" }),
                // Kinds of names that Kubernetes clients ignore (directory names, registered ids).
                _ => {}
            }
        }
        Ok(names)
    }
}

fn address(bytes: &[u8]) -> Result<IpAddr, PkiError> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Ok(IpAddr::from(v4));
    }
    let v6 = <[u8; 16]>::try_from(bytes).map_err(|_| PkiError::Malformed { what: "IP address in the certificate" })?;
    Ok(IpAddr::from(v6))
}
