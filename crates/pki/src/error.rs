//! Errors of keys, certificates and signing requests.

#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    #[error("no PEM block of type {expected} found")]
    MissingPemBlock { expected: &'static str },
    #[error("PEM block {label:?}: {reason}")]
    MalformedPem { label: String, reason: &'static str },
    #[error("malformed {what}")]
    Malformed { what: &'static str },
    #[error("malformed {what}: {reason}")]
    Unreadable { what: &'static str, reason: String },
    #[error("unsupported key: {reason}")]
    UnsupportedKey { reason: String },
    #[error("the signature of the certificate request does not verify with the key in it")]
    CsrSignature,
    #[error("the private key does not belong to the certificate")]
    KeyMismatch,
    #[error("the certificate is not a certificate authority")]
    NotAnAuthority,
    #[error("the certificate authority expired at {at}")]
    AuthorityExpired { at: jiff::Timestamp },
    #[error("unknown key usage {name:?}")]
    UnknownUsage { name: String },
    #[error("invalid name {name:?}: {reason}")]
    InvalidName { name: String, reason: &'static str },
    #[error("signing failed")]
    Signing,
    #[error("the system's random number generator failed")]
    Randomness,
    #[error("TLS configuration")]
    Tls(#[source] rustls::Error),
    #[error("no usable certificate in the bundle")]
    EmptyBundle,
    #[error("cannot read the certificates to trust from {path}")]
    SystemBundle {
        path: String,
        #[source]
        error: std::io::Error,
    },
}
