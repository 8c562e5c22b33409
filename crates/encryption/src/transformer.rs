//! The transformer of a store: seals what the rules name, opens what any provider has sealed. Its rules can be replaced.

use std::sync::Arc;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use bytes::Bytes;
use store::{Error, Result, ValueTransformer};
use thiserror::Error as ThisError;

use crate::chain::{Chain, MARK, Sealing};
use crate::ciphers::CipherError;
use crate::config::EncryptionConfiguration;
use crate::kms::Kms;
use crate::rules::{self, Rules};

/// The reason why a value cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
pub enum OpenError {
    #[error("it is sealed with {0}, which the encryption configuration does not have")]
    NoProvider(Sealing),
    #[error("it is not encrypted, and its providers do not include identity")]
    Plain,
    #[error("{0}")]
    Cipher(#[from] CipherError),
    #[error("its header is damaged: {0}")]
    Damaged(String),
    #[error("the KMS plugin did not decrypt its key: {0}")]
    Unavailable(String),
}

/// Encryption at rest by an `EncryptionConfiguration`.
pub struct Encryption {
    rules: ArcSwap<Rules>,
}

impl Encryption {
    pub fn new(config: &EncryptionConfiguration) -> Result<Self, String> {
        Ok(Self { rules: ArcSwap::from_pointee(Rules::new(config)?) })
    }

    /// Replaces the rules. Values are sealed and opened with the new ones from now on.
    pub fn replace(&self, other: Encryption) {
        self.rules.store(other.rules.into_inner());
    }

    pub(crate) fn rules(&self) -> Arc<Rules> {
        self.rules.load_full()
    }

    pub(crate) fn plugins(&self) -> Vec<Arc<Kms>> {
        self.rules.load().plugins.clone()
    }

    /// Calls every KMS plugin once.
    pub async fn check_plugins(&self) -> Result<(), String> {
        for plugin in self.plugins() {
            plugin.check().await?;
        }
        Ok(())
    }

    /// The health of the KMS plugins; `None` if there are none.
    pub fn health(&self) -> Option<Result<(), String>> {
        let plugins = self.plugins();
        let problems: Vec<String> = plugins.iter().filter_map(|plugin| plugin.health().err()).collect();
        match (plugins.is_empty(), problems.is_empty()) {
            (true, _) => None,
            (false, true) => Some(Ok(())),
            (false, false) => Some(Err(problems.join("; "))),
        }
    }

    /// Opens a value that kube-apiserver has stored. `path` is its whole key in etcd, which some providers authenticate. Keys of
    /// kube-apiserver do not name a resource in a uniform way, so every provider of the configuration is tried; plain values stay
    /// as they are.
    pub async fn open_foreign(&self, path: &str, stored: Bytes) -> Result<Bytes, OpenError> {
        if !stored.starts_with(MARK) {
            return Ok(stored);
        }
        let mut failed = OpenError::NoProvider(Sealing::of(&stored));
        for (_, chain) in &self.rules().patterns {
            match chain.open(path.as_bytes(), &stored).await {
                Ok(plain) => return Ok(plain.into()),
                Err(OpenError::NoProvider(_)) => {}
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Reports whether the value is stored differently from how it would be written now.
    pub fn is_stale(&self, key: &str, stored: &Bytes) -> bool {
        let rules = self.rules.load();
        match rules.to_open(key) {
            None => false,
            // The content of a plain value decides if it has to be sealed.
            Some(chain) if !stored.starts_with(MARK) => rules.to_seal(key, stored).is_some() && chain.is_stale(stored),
            Some(chain) => chain.is_stale(stored),
        }
    }

    /// Each resource pattern with the provider that seals its values.
    pub fn providers(&self) -> Vec<(String, Sealing)> {
        let rules = self.rules.load();
        rules.patterns.iter().map(|(pattern, chain)| (pattern.to_string(), chain.primary())).collect()
    }

    fn open_error(key: &str, error: OpenError) -> Error {
        match error {
            OpenError::Unavailable(_) => Error::Unavailable(format!("the value of {key} cannot be decrypted: {error}")),
            error => Error::Sealed(format!("the value of {key} cannot be decrypted: {error}")),
        }
    }
}

/// Opens one value with the providers of its key.
fn chain_for<'a>(rules: &'a Rules, key: &str, stored: &[u8]) -> Result<&'a Arc<Chain>, OpenError> {
    if !stored.starts_with(MARK) {
        return Err(OpenError::Plain);
    }
    rules.to_open(key).ok_or_else(|| OpenError::NoProvider(Sealing::of(stored)))
}

#[async_trait]
impl ValueTransformer for Encryption {
    fn seal(&self, key: &str, value: Bytes) -> Result<Bytes> {
        let rules = self.rules.load();
        let Some(chain) = rules.to_seal(key, &value) else { return Ok(value) };
        let sealed = chain.seal(&rules::context(key), &value);
        sealed.map(Bytes::from).map_err(|error| Error::Unavailable(format!("{key} cannot be encrypted: {error}")))
    }

    fn is_plain(&self, key: &str, stored: &Bytes) -> bool {
        !stored.starts_with(MARK) && self.rules.load().reads_plain(key)
    }

    fn open_now(&self, key: &str, stored: &Bytes) -> Option<Result<Bytes>> {
        if self.is_plain(key, stored) {
            return Some(Ok(stored.clone()));
        }
        let rules = self.rules.load();
        let opened = match chain_for(&rules, key, stored) {
            Ok(chain) => chain.open_now(&rules::context(key), stored)?,
            Err(error) => Err(error),
        };
        Some(opened.map(Bytes::from).map_err(|error| Self::open_error(key, error)))
    }

    async fn open(&self, key: &str, stored: Bytes) -> Result<Bytes> {
        if self.is_plain(key, &stored) {
            return Ok(stored);
        }
        let rules = self.rules();
        let opened = match chain_for(&rules, key, &stored) {
            Ok(chain) => chain.open(&rules::context(key), &stored).await,
            Err(error) => Err(error),
        };
        opened.map(Bytes::from).map_err(|error| Self::open_error(key, error))
    }
}

#[cfg(test)]
mod tests;
