//! A directory of keys and certificates: created once, re-issued when due, written atomically.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use crate::authority::{BACKDATE, CertificateAuthority, CertificateRequest, LEAF_LIFETIME};
use crate::certificate::{Certificate, KeyedCertificate};
use crate::error::PkiError;
use crate::key::PrivateKey;
use crate::rotation::needs_renewal;

/// File name stems used by the control plane.
pub mod name {
    pub const AUTHORITY: &str = "ca";
    pub const FRONT_PROXY_AUTHORITY: &str = "front-proxy-ca";
    pub const SERVICE_ACCOUNT: &str = "sa";
    pub const SERVER: &str = "apiserver";
}

pub const PRIVATE: u32 = 0o600;
pub const PUBLIC: u32 = 0o644;

#[derive(Debug, thiserror::Error)]
pub enum KeyDirError {
    #[error("cannot {action} {path}")]
    Io {
        path: PathBuf,
        action: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("{path} is damaged: {advice}")]
    Damaged {
        path: PathBuf,
        advice: &'static str,
        #[source]
        source: PkiError,
    },
    #[error(
        "{certificate} exists but its key {key} does not: restore the key, or remove the certificate to start a new authority"
    )]
    KeyMissing { certificate: PathBuf, key: PathBuf },
    #[error(transparent)]
    Pki(#[from] PkiError),
}

const AUTHORITY_ADVICE: &str = "restore it from a backup, or remove the .crt and .key of this authority to create a new one, which no client trusts yet";
const LEAF_ADVICE: &str = "remove it to have a new one issued";
const SIGNING_KEY_ADVICE: &str =
    "restore it from a backup, or remove it to make a new key that voids all issued tokens";

#[derive(Debug, Clone)]
pub struct KeyDir {
    root: PathBuf,
}

impl KeyDir {
    /// Uses the directory, creating it with mode 0700 if missing.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, KeyDirError> {
        let root = root.into();
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&root);
        made.map_err(|source| KeyDirError::Io { path: root.clone(), action: "create directory", source })?;
        Ok(Self { root })
    }

    pub fn certificate_path(&self, name: &str) -> PathBuf {
        self.root.join(format!("{name}.crt"))
    }

    pub fn key_path(&self, name: &str) -> PathBuf {
        self.root.join(format!("{name}.key"))
    }

    /// The authority stored under `name`, created at first use and renewed (same key) before it expires.
    pub fn ensure_authority(
        &self,
        name: &str,
        common_name: &str,
        now: Timestamp,
    ) -> Result<CertificateAuthority, KeyDirError> {
        check_name(name)?;
        let (certificate_path, key_path) = (self.certificate_path(name), self.key_path(name));
        let has_certificate = read(&certificate_path)?.is_some();
        let key = match load_key(&key_path, AUTHORITY_ADVICE)? {
            Some(key) => key,
            None if has_certificate => {
                return Err(KeyDirError::KeyMissing { certificate: certificate_path, key: key_path });
            }
            None => create_key(&key_path, AUTHORITY_ADVICE)?,
        };
        if !has_certificate {
            // A crash between the two writes leaves only the key, which is as good as a new one.
            let authority = CertificateAuthority::self_signed_with_key(common_name, key.clone(), now)?;
            write_if_absent(&certificate_path, authority.certificate().to_pem().as_bytes(), PUBLIC)?;
        }
        let certificate = load_certificate(&certificate_path, AUTHORITY_ADVICE)?;
        let authority = CertificateAuthority::new(certificate, key).map_err(|source| KeyDirError::Damaged {
            path: certificate_path.clone(),
            advice: AUTHORITY_ADVICE,
            source,
        })?;
        // An authority that was provided from outside must be renewed by its owner.
        let certificate = authority.certificate();
        let is_ours = certificate.is_self_issued() && certificate.subject().common_name == common_name;
        if !is_ours || !needs_renewal(certificate, now) {
            return Ok(authority);
        }
        let renewed = authority.renewed(now)?;
        write_atomic(&certificate_path, renewed.certificate().to_pem().as_bytes(), PUBLIC)?;
        Ok(renewed)
    }

    /// The signing key stored under `name`, created at first use; its public key is in `name.pub`.
    pub fn ensure_signing_key(&self, name: &str) -> Result<PrivateKey, KeyDirError> {
        check_name(name)?;
        let path = self.key_path(name);
        let key = match load_key(&path, SIGNING_KEY_ADVICE)? {
            Some(key) => key,
            None => create_key(&path, SIGNING_KEY_ADVICE)?,
        };
        let public_path = self.root.join(format!("{name}.pub"));
        let public = key.public_key().to_pem();
        if read(&public_path)?.as_deref() != Some(public.as_bytes()) {
            write_atomic(&public_path, public.as_bytes(), PUBLIC)?;
        }
        Ok(key)
    }

    pub fn ensure_server_cert(
        &self,
        authority: &CertificateAuthority,
        name: &str,
        (dns_names, ips): (&[String], &[IpAddr]),
        now: Timestamp,
    ) -> Result<KeyedCertificate, KeyDirError> {
        self.ensure_cert(authority, name, &CertificateRequest::server(name, dns_names, ips), now)
    }

    pub fn ensure_client_cert(
        &self,
        authority: &CertificateAuthority,
        name: &str,
        (common_name, organizations): (&str, &[String]),
        now: Timestamp,
    ) -> Result<KeyedCertificate, KeyDirError> {
        self.ensure_cert(authority, name, &CertificateRequest::client(common_name, organizations), now)
    }

    /// The certificate stored under `name`, re-issued if it is missing, due, of another authority, or differs from
    /// the request.
    pub fn ensure_cert(
        &self,
        authority: &CertificateAuthority,
        name: &str,
        request: &CertificateRequest,
        now: Timestamp,
    ) -> Result<KeyedCertificate, KeyDirError> {
        check_name(name)?;
        if let Some(kept) = self.load_pair(name)?
            && still_fits(&kept, authority, request, now)
        {
            return Ok(kept);
        }
        let issued = authority.issue(request, now)?;
        // Key first: a crash before the certificate is written leaves a mismatched pair, which is re-issued.
        write_atomic(&self.key_path(name), issued.key.to_pem().as_bytes(), PRIVATE)?;
        write_atomic(&self.certificate_path(name), issued.certificate.to_pem().as_bytes(), PUBLIC)?;
        Ok(issued)
    }

    fn load_pair(&self, name: &str) -> Result<Option<KeyedCertificate>, KeyDirError> {
        let path = self.certificate_path(name);
        if read(&path)?.is_none() {
            return Ok(None);
        }
        let certificate = load_certificate(&path, LEAF_ADVICE)?;
        let key = load_key(&self.key_path(name), LEAF_ADVICE)?;
        Ok(key.map(|key| KeyedCertificate { certificate, key }))
    }

    /// Key files that other users of the machine can read; worth a warning at startup.
    pub fn loose_key_files(&self) -> Result<Vec<PathBuf>, KeyDirError> {
        let failed = |source| KeyDirError::Io { path: self.root.clone(), action: "list", source };
        let mut loose = Vec::new();
        for entry in fs::read_dir(&self.root).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let is_key = entry.path().extension().is_some_and(|extension| extension == "key");
            if is_key && entry.metadata().map_err(failed)?.permissions().mode() & 0o077 != 0 {
                loose.push(entry.path());
            }
        }
        loose.sort();
        Ok(loose)
    }
}

fn still_fits(
    kept: &KeyedCertificate,
    authority: &CertificateAuthority,
    request: &CertificateRequest,
    now: Timestamp,
) -> bool {
    let (subject, names) = (kept.certificate.subject(), kept.certificate.alternative_names());
    subject.common_name == request.common_name
        && subject.organizations == request.organizations
        && same_members(&names.dns_names, &request.dns_names)
        && same_members(&names.ips, &request.ips)
        && kept.certificate.belongs_to(&kept.key)
        && !needs_renewal(&kept.certificate, now)
        && fits_duration(&kept.certificate, authority, request.duration)
        && kept.certificate.is_signed_by(authority.certificate())
}

/// With the default duration any validity fits, such as that of a certificate from elsewhere.
fn fits_duration(kept: &Certificate, authority: &CertificateAuthority, duration: Duration) -> bool {
    let seconds = i64::try_from((duration + BACKDATE).as_secs()).unwrap_or(i64::MAX);
    let end = kept.not_before().as_second().saturating_add(seconds);
    duration == LEAF_LIFETIME
        || kept.not_after().as_second() == end.min(authority.certificate().not_after().as_second())
}

fn same_members<T: Ord>(one: &[T], other: &[T]) -> bool {
    one.iter().collect::<BTreeSet<_>>() == other.iter().collect::<BTreeSet<_>>()
}

fn check_name(name: &str) -> Result<(), PkiError> {
    let safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte);
    if name.is_empty() || name.starts_with('.') || !name.bytes().all(safe) {
        return Err(PkiError::InvalidName { name: name.to_owned(), reason: "cannot be part of a file name" });
    }
    Ok(())
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, KeyDirError> {
    match fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(KeyDirError::Io { path: path.to_owned(), action: "read", source }),
    }
}

fn load_key(path: &Path, advice: &'static str) -> Result<Option<PrivateKey>, KeyDirError> {
    let Some(content) = read(path)? else { return Ok(None) };
    let key = PrivateKey::from_pem(&content);
    key.map(Some).map_err(|source| KeyDirError::Damaged { path: path.to_owned(), advice, source })
}

fn load_certificate(path: &Path, advice: &'static str) -> Result<Certificate, KeyDirError> {
    let content = read(path)?.unwrap_or_default();
    Certificate::from_pem(&content).map_err(|source| KeyDirError::Damaged { path: path.to_owned(), advice, source })
}

/// Creates a key unless another process was faster, and returns the existing one.
fn create_key(path: &Path, advice: &'static str) -> Result<PrivateKey, KeyDirError> {
    let made = PrivateKey::generate()?;
    write_if_absent(path, made.to_pem().as_bytes(), PRIVATE)?;
    Ok(load_key(path, advice)?.unwrap_or(made))
}

/// Replaces the file atomically: readers see the old content or the new, even after a power failure.
pub fn write_atomic(path: &Path, content: &[u8], mode: u32) -> Result<(), KeyDirError> {
    atomic_file::replace(path, content, mode).map_err(|source| not_written(path, source))
}

/// Creates the complete file; does nothing if it exists.
pub fn write_if_absent(path: &Path, content: &[u8], mode: u32) -> Result<(), KeyDirError> {
    atomic_file::create(path, content, mode).map_err(|source| not_written(path, source))
}

fn not_written(path: &Path, source: io::Error) -> KeyDirError {
    KeyDirError::Io { path: path.to_owned(), action: "write", source }
}

#[cfg(test)]
mod tests;
