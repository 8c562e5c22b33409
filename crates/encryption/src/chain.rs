//! The providers of a resource in order: the first seals, every one opens what it has sealed.

use std::sync::Arc;

use crate::ciphers::Cipher;
use crate::config::{KeyList, ProviderConfiguration};
use crate::kms::Kms;
use crate::transformer::OpenError;

/// The beginning of every sealed value.
pub const MARK: &[u8] = b"k8s:enc:";

/// Providers in order.
pub struct Chain {
    providers: Vec<Provider>,
}

struct Provider {
    /// `k8s:enc:aescbc:v1:NAME:`; empty for identity.
    prefix: String,
    means: Means,
}

enum Means {
    Identity,
    Local(Cipher),
    Kms(Arc<Kms>),
}

/// The seal of a stored value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sealing {
    Plain,
    /// The provider and the name of its key, such as `secretbox:v1:key1`.
    With(String),
}

impl Sealing {
    /// Reads the prefix of a stored value.
    pub fn of(stored: &[u8]) -> Self {
        let Some(rest) = stored.strip_prefix(MARK) else { return Self::Plain };
        let name: Vec<u8> = rest.split(|byte| *byte == b':').take(3).collect::<Vec<_>>().join(&b':');
        Self::With(String::from_utf8_lossy(&name[..name.len().min(300)]).into_owned())
    }
}

impl std::fmt::Display for Sealing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Plain => f.write_str("identity"),
            Self::With(name) => f.write_str(name),
        }
    }
}

impl Chain {
    /// `kms` returns the plugin of a configuration, so that several resources share one.
    pub fn new(
        providers: &[ProviderConfiguration],
        kms: &mut dyn FnMut(&crate::config::KmsConfiguration) -> Result<Arc<Kms>, String>,
    ) -> Result<Self, String> {
        let mut chain = Self { providers: Vec::new() };
        for provider in providers {
            match provider {
                ProviderConfiguration { kms: Some(config), .. } => {
                    let prefix = format!("k8s:enc:kms:v2:{}:", config.name);
                    chain.providers.push(Provider { prefix, means: Means::Kms(kms(config)?) });
                }
                ProviderConfiguration { aescbc: Some(keys), .. } => chain.add_keys("aescbc", keys, Cipher::aes_cbc)?,
                ProviderConfiguration { aesgcm: Some(keys), .. } => chain.add_keys("aesgcm", keys, Cipher::aes_gcm)?,
                ProviderConfiguration { secretbox: Some(keys), .. } => {
                    chain.add_keys("secretbox", keys, Cipher::secretbox)?;
                }
                _ => chain.providers.push(Provider { prefix: String::new(), means: Means::Identity }),
            }
        }
        Ok(chain)
    }

    fn add_keys(
        &mut self,
        provider: &str,
        list: &KeyList,
        cipher: fn(&[u8]) -> Result<Cipher, crate::ciphers::CipherError>,
    ) -> Result<(), String> {
        for key in &list.keys {
            let means = Means::Local(cipher(&key.bytes()).map_err(|error| format!("key {:?}: {error}", key.name))?);
            self.providers.push(Provider { prefix: format!("k8s:enc:{provider}:v1:{}:", key.name), means });
        }
        Ok(())
    }

    /// Appends the providers of a later rule for the same resource.
    pub fn extend(&mut self, other: Chain) {
        self.providers.extend(other.providers);
    }

    /// Reports whether a plain value may be read.
    pub fn reads_plain(&self) -> bool {
        self.providers.iter().any(|provider| matches!(provider.means, Means::Identity))
    }

    /// Reports whether new values are stored as they are.
    pub fn writes_plain(&self) -> bool {
        matches!(self.providers.first(), Some(Provider { means: Means::Identity, .. }) | None)
    }

    /// The provider that seals new values.
    pub fn primary(&self) -> Sealing {
        self.providers.first().map_or(Sealing::Plain, |provider| Sealing::of(provider.prefix.as_bytes()))
    }

    pub fn seal(&self, context: &[u8], plain: &[u8]) -> Result<Vec<u8>, String> {
        let Some(provider) = self.providers.first() else { return Ok(plain.to_vec()) };
        let mut out = Vec::with_capacity(provider.prefix.len() + plain.len() + 96);
        out.extend_from_slice(provider.prefix.as_bytes());
        match &provider.means {
            Means::Identity => out.extend_from_slice(plain),
            Means::Local(cipher) => cipher.seal(context, plain, &mut out).map_err(|error| error.to_string())?,
            Means::Kms(kms) => kms.seal(context, plain, &mut out)?,
        }
        Ok(out)
    }

    /// Opens a sealed value; `None` when a plugin has to be called.
    pub fn open_now(&self, context: &[u8], stored: &[u8]) -> Option<Result<Vec<u8>, OpenError>> {
        let mut failed = OpenError::NoProvider(Sealing::of(stored));
        for (provider, sealed) in self.fitting(stored) {
            let opened = match &provider.means {
                Means::Identity => continue,
                Means::Local(cipher) => cipher.open(context, sealed).map_err(OpenError::from),
                Means::Kms(kms) => kms.open_now(context, sealed)?,
            };
            match opened {
                Ok(plain) => return Some(Ok(plain)),
                Err(error) => failed = error,
            }
        }
        Some(Err(failed))
    }

    pub async fn open(&self, context: &[u8], stored: &[u8]) -> Result<Vec<u8>, OpenError> {
        let mut failed = OpenError::NoProvider(Sealing::of(stored));
        for (provider, sealed) in self.fitting(stored) {
            let opened = match &provider.means {
                Means::Identity => continue,
                Means::Local(cipher) => cipher.open(context, sealed).map_err(OpenError::from),
                Means::Kms(kms) => kms.open(context, sealed).await,
            };
            match opened {
                Ok(plain) => return Ok(plain),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Reports whether the first provider would store the value differently. Nonces do not count.
    pub fn is_stale(&self, stored: &[u8]) -> bool {
        let Some(first) = self.providers.first() else { return false };
        match &first.means {
            Means::Identity => stored.starts_with(MARK),
            Means::Local(_) => !stored.starts_with(first.prefix.as_bytes()),
            Means::Kms(kms) => match stored.strip_prefix(first.prefix.as_bytes()) {
                Some(sealed) => kms.is_stale(sealed),
                None => true,
            },
        }
    }

    fn fitting<'a>(&'a self, stored: &'a [u8]) -> impl Iterator<Item = (&'a Provider, &'a [u8])> {
        self.providers.iter().filter_map(|provider| Some((provider, stored.strip_prefix(provider.prefix.as_bytes())?)))
    }
}
