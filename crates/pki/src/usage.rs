//! Key usages of a certificate, under Kubernetes' names.

use crate::der;
use crate::error::PkiError;

/// One entry of a certificate's key usage or extended key usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CertificateUsage {
    DigitalSignature,
    ContentCommitment,
    KeyEncipherment,
    DataEncipherment,
    KeyAgreement,
    CertSign,
    CrlSign,
    EncipherOnly,
    DecipherOnly,
    Any,
    ServerAuth,
    ClientAuth,
    CodeSigning,
    EmailProtection,
    IpsecEndSystem,
    IpsecTunnel,
    IpsecUser,
    Timestamping,
    OcspSigning,
    MicrosoftSgc,
    NetscapeSgc,
}

/// The extension that contains a usage.
enum UsageExtension {
    KeyUsageBit(u8),
    Extended(&'static [u64]),
}

impl CertificateUsage {
    /// A certificate for a TLS server.
    pub const SERVER: &[CertificateUsage] =
        &[CertificateUsage::DigitalSignature, CertificateUsage::KeyEncipherment, CertificateUsage::ServerAuth];
    /// A certificate for a user or component that calls a server.
    pub const CLIENT: &[CertificateUsage] =
        &[CertificateUsage::DigitalSignature, CertificateUsage::KeyEncipherment, CertificateUsage::ClientAuth];

    /// The usages of `spec.usages` in a CertificateSigningRequest.
    pub fn from_kubernetes(name: &str) -> Result<CertificateUsage, PkiError> {
        Ok(match name {
            "signing" | "digital signature" => CertificateUsage::DigitalSignature,
            "content commitment" => CertificateUsage::ContentCommitment,
            "key encipherment" => CertificateUsage::KeyEncipherment,
            "data encipherment" => CertificateUsage::DataEncipherment,
            "key agreement" => CertificateUsage::KeyAgreement,
            "cert sign" => CertificateUsage::CertSign,
            "crl sign" => CertificateUsage::CrlSign,
            "encipher only" => CertificateUsage::EncipherOnly,
            "decipher only" => CertificateUsage::DecipherOnly,
            "any" => CertificateUsage::Any,
            "server auth" => CertificateUsage::ServerAuth,
            "client auth" => CertificateUsage::ClientAuth,
            "code signing" => CertificateUsage::CodeSigning,
            "email protection" | "s/mime" => CertificateUsage::EmailProtection,
            "ipsec end system" => CertificateUsage::IpsecEndSystem,
            "ipsec tunnel" => CertificateUsage::IpsecTunnel,
            "ipsec user" => CertificateUsage::IpsecUser,
            "timestamping" => CertificateUsage::Timestamping,
            "ocsp signing" => CertificateUsage::OcspSigning,
            "microsoft sgc" => CertificateUsage::MicrosoftSgc,
            "netscape sgc" => CertificateUsage::NetscapeSgc,
            _ => return Err(PkiError::UnknownUsage { name: name.to_owned() }),
        })
    }

    fn place(self) -> UsageExtension {
        match self {
            CertificateUsage::DigitalSignature => UsageExtension::KeyUsageBit(0),
            CertificateUsage::ContentCommitment => UsageExtension::KeyUsageBit(1),
            CertificateUsage::KeyEncipherment => UsageExtension::KeyUsageBit(2),
            CertificateUsage::DataEncipherment => UsageExtension::KeyUsageBit(3),
            CertificateUsage::KeyAgreement => UsageExtension::KeyUsageBit(4),
            CertificateUsage::CertSign => UsageExtension::KeyUsageBit(5),
            CertificateUsage::CrlSign => UsageExtension::KeyUsageBit(6),
            CertificateUsage::EncipherOnly => UsageExtension::KeyUsageBit(7),
            CertificateUsage::DecipherOnly => UsageExtension::KeyUsageBit(8),
            CertificateUsage::Any => UsageExtension::Extended(&[2, 5, 29, 37, 0]),
            CertificateUsage::ServerAuth => UsageExtension::Extended(&[1, 3, 6, 1, 5, 5, 7, 3, 1]),
            CertificateUsage::ClientAuth => UsageExtension::Extended(&[1, 3, 6, 1, 5, 5, 7, 3, 2]),
            CertificateUsage::CodeSigning => UsageExtension::Extended(&[1, 3, 6, 1, 5, 5, 7, 3, 3]),
            CertificateUsage::EmailProtection => UsageExtension::Extended(&[1, 3, 6, 1, 5, 5, 7, 3, 4]),
            CertificateUsage::IpsecEndSystem => UsageExtension::Extended(&[1, 3, 6, 1, 5, 5, 7, 3, 5]),
            CertificateUsage::IpsecTunnel => UsageExtension::Extended(&[1, 3, 6, 1, 5, 5, 7, 3, 6]),
            CertificateUsage::IpsecUser => UsageExtension::Extended(&[1, 3, 6, 1, 5, 5, 7, 3, 7]),
            CertificateUsage::Timestamping => UsageExtension::Extended(&[1, 3, 6, 1, 5, 5, 7, 3, 8]),
            CertificateUsage::OcspSigning => UsageExtension::Extended(&[1, 3, 6, 1, 5, 5, 7, 3, 9]),
            CertificateUsage::MicrosoftSgc => UsageExtension::Extended(&[1, 3, 6, 1, 4, 1, 311, 10, 3, 3]),
            CertificateUsage::NetscapeSgc => UsageExtension::Extended(&[2, 16, 840, 1, 113730, 4, 1]),
        }
    }
}

/// The KeyUsage extension value, if any of the usages belongs there.
pub(crate) fn key_usage_value(usages: &[CertificateUsage]) -> Option<Vec<u8>> {
    let bits: Vec<u8> = usages
        .iter()
        .filter_map(|usage| match usage.place() {
            UsageExtension::KeyUsageBit(bit) => Some(bit),
            UsageExtension::Extended(_) => None,
        })
        .collect();
    (!bits.is_empty()).then(|| der::named_bits(bits))
}

/// The ExtendedKeyUsage extension value, if any of the usages belongs there; duplicates are written once.
pub(crate) fn extended_usage_value(usages: &[CertificateUsage]) -> Option<Vec<u8>> {
    let mut members: Vec<Vec<u8>> = Vec::new();
    for usage in usages {
        if let UsageExtension::Extended(arcs) = usage.place() {
            let member = der::oid(arcs);
            if !members.contains(&member) {
                members.push(member);
            }
        }
    }
    (!members.is_empty()).then(|| der::tlv(der::tag::SEQUENCE, &members.concat()))
}
