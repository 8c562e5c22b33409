//! What a certificate may be used for, under the names Kubernetes gives the usages.

use crate::der;
use crate::error::PkiError;

/// One entry of a certificate's key usage or extended key usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Usage {
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

/// Where a usage is written in the certificate.
enum Place {
    KeyUsageBit(u8),
    Extended(&'static [u64]),
}

impl Usage {
    /// A certificate for a TLS server.
    pub const SERVER: &[Usage] = &[Usage::DigitalSignature, Usage::KeyEncipherment, Usage::ServerAuth];
    /// A certificate for a user or component calling a server.
    pub const CLIENT: &[Usage] = &[Usage::DigitalSignature, Usage::KeyEncipherment, Usage::ClientAuth];

    /// The usages of `spec.usages` in a CertificateSigningRequest.
    pub fn from_kubernetes(name: &str) -> Result<Usage, PkiError> {
        Ok(match name {
            "signing" | "digital signature" => Usage::DigitalSignature,
            "content commitment" => Usage::ContentCommitment,
            "key encipherment" => Usage::KeyEncipherment,
            "data encipherment" => Usage::DataEncipherment,
            "key agreement" => Usage::KeyAgreement,
            "cert sign" => Usage::CertSign,
            "crl sign" => Usage::CrlSign,
            "encipher only" => Usage::EncipherOnly,
            "decipher only" => Usage::DecipherOnly,
            "any" => Usage::Any,
            "server auth" => Usage::ServerAuth,
            "client auth" => Usage::ClientAuth,
            "code signing" => Usage::CodeSigning,
            "email protection" | "s/mime" => Usage::EmailProtection,
            "ipsec end system" => Usage::IpsecEndSystem,
            "ipsec tunnel" => Usage::IpsecTunnel,
            "ipsec user" => Usage::IpsecUser,
            "timestamping" => Usage::Timestamping,
            "ocsp signing" => Usage::OcspSigning,
            "microsoft sgc" => Usage::MicrosoftSgc,
            "netscape sgc" => Usage::NetscapeSgc,
            _ => return Err(PkiError::UnknownUsage { name: name.to_owned() }),
        })
    }

    fn place(self) -> Place {
        match self {
            Usage::DigitalSignature => Place::KeyUsageBit(0),
            Usage::ContentCommitment => Place::KeyUsageBit(1),
            Usage::KeyEncipherment => Place::KeyUsageBit(2),
            Usage::DataEncipherment => Place::KeyUsageBit(3),
            Usage::KeyAgreement => Place::KeyUsageBit(4),
            Usage::CertSign => Place::KeyUsageBit(5),
            Usage::CrlSign => Place::KeyUsageBit(6),
            Usage::EncipherOnly => Place::KeyUsageBit(7),
            Usage::DecipherOnly => Place::KeyUsageBit(8),
            Usage::Any => Place::Extended(&[2, 5, 29, 37, 0]),
            Usage::ServerAuth => Place::Extended(&[1, 3, 6, 1, 5, 5, 7, 3, 1]),
            Usage::ClientAuth => Place::Extended(&[1, 3, 6, 1, 5, 5, 7, 3, 2]),
            Usage::CodeSigning => Place::Extended(&[1, 3, 6, 1, 5, 5, 7, 3, 3]),
            Usage::EmailProtection => Place::Extended(&[1, 3, 6, 1, 5, 5, 7, 3, 4]),
            Usage::IpsecEndSystem => Place::Extended(&[1, 3, 6, 1, 5, 5, 7, 3, 5]),
            Usage::IpsecTunnel => Place::Extended(&[1, 3, 6, 1, 5, 5, 7, 3, 6]),
            Usage::IpsecUser => Place::Extended(&[1, 3, 6, 1, 5, 5, 7, 3, 7]),
            Usage::Timestamping => Place::Extended(&[1, 3, 6, 1, 5, 5, 7, 3, 8]),
            Usage::OcspSigning => Place::Extended(&[1, 3, 6, 1, 5, 5, 7, 3, 9]),
            Usage::MicrosoftSgc => Place::Extended(&[1, 3, 6, 1, 4, 1, 311, 10, 3, 3]),
            Usage::NetscapeSgc => Place::Extended(&[2, 16, 840, 1, 113730, 4, 1]),
        }
    }
}

/// The KeyUsage extension value, if any of the usages belongs there.
pub(crate) fn key_usage_value(usages: &[Usage]) -> Option<Vec<u8>> {
    let bits: Vec<u8> = usages
        .iter()
        .filter_map(|usage| match usage.place() {
            Place::KeyUsageBit(bit) => Some(bit),
            Place::Extended(_) => None,
        })
        .collect();
    (!bits.is_empty()).then(|| der::named_bits(bits))
}

/// The ExtendedKeyUsage extension value, if any of the usages belongs there; repeated usages are written once.
pub(crate) fn extended_usage_value(usages: &[Usage]) -> Option<Vec<u8>> {
    let mut members: Vec<Vec<u8>> = Vec::new();
    for usage in usages {
        if let Place::Extended(arcs) = usage.place() {
            let member = der::oid(arcs);
            if !members.contains(&member) {
                members.push(member);
            }
        }
    }
    (!members.is_empty()).then(|| der::tlv(der::tag::SEQUENCE, &members.concat()))
}
