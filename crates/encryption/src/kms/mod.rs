//! KMS v2: values are sealed with keys derived from a local seed, which a plugin on this machine encrypts.
//!
//! The plugin is called when the seed changes and when a value with an unknown seed is read, not for each value.

mod messages;
mod plugin;
mod seeds;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use prost::Message;
use tokio_util::sync::CancellationToken;

use crate::ciphers::{Cipher, SEED_BYTES, random};
use crate::config::KmsConfiguration;
use crate::transformer::OpenError;
use messages::{EncryptedObject, SOURCE_KEY, SOURCE_SEED};
use plugin::Plugin;
use seeds::Seeds;

/// Interval of status calls, as in kube-apiserver.
const CHECK_EVERY_HEALTHY: Duration = Duration::from_secs(60);
const CHECK_EVERY_UNHEALTHY: Duration = Duration::from_secs(10);
/// Time a seed may be used for writes after the last successful status call.
const SEED_WRITES_MAX: Duration = Duration::from_secs(180);
/// Limits of what a plugin may return.
const KEY_ID_BYTES_MAX: usize = 1024;
const SOURCE_BYTES_MAX: usize = 1024;
const ANNOTATIONS_BYTES_MAX: usize = 32 << 10;

/// A KMS plugin with its current seed.
pub struct Kms {
    pub name: String,
    plugin: Plugin,
    current: ArcSwapOption<Seed>,
    seeds: Seeds,
    health: Mutex<Health>,
    /// Serializes status calls, so that one change of the key makes one new seed.
    checking: tokio::sync::Mutex<()>,
}

struct Health {
    problem: Option<String>,
    /// The API version of the first answer, which must not change.
    version: Option<String>,
    /// Writes with the current seed are refused from then on.
    writes_until: Instant,
}

struct Seed {
    cipher: Arc<Cipher>,
    key_id: String,
    /// The encrypted seed and its annotations, as they precede each value.
    header: EncryptedObject,
}

impl Kms {
    pub fn new(config: &KmsConfiguration) -> Result<Self, String> {
        let problem = Some("the plugin was not called yet".to_owned());
        Ok(Self {
            name: config.name.clone(),
            plugin: Plugin::new(&config.endpoint, config.timeout())?,
            current: ArcSwapOption::empty(),
            seeds: Seeds::default(),
            health: Mutex::new(Health { problem, version: None, writes_until: Instant::now() }),
            checking: tokio::sync::Mutex::new(()),
        })
    }

    /// Calls the plugin until stopped.
    pub async fn follow(self: Arc<Self>, stop: CancellationToken) {
        loop {
            let every = if self.health().is_ok() { CHECK_EVERY_HEALTHY } else { CHECK_EVERY_UNHEALTHY };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(every) => {}
            }
            if let Err(problem) = self.check().await {
                tracing::warn!(provider = self.name, problem, "the KMS plugin is not healthy");
            }
        }
    }

    /// The result of the last status call.
    pub fn health(&self) -> Result<(), String> {
        match &self.health.lock().problem {
            None => Ok(()),
            Some(problem) => Err(format!("kms provider {}: {problem}", self.name)),
        }
    }

    /// Calls the status of the plugin, and makes a new seed when the plugin's key has changed.
    pub async fn check(&self) -> Result<(), String> {
        let _one = self.checking.lock().await;
        // Before the call: the limit counts from the last moment at which the plugin may have been healthy.
        let writes_until = Instant::now() + SEED_WRITES_MAX;
        let outcome = self.check_once().await;
        let mut health = self.health.lock();
        match &outcome {
            Ok(version) => {
                health.problem = None;
                health.writes_until = writes_until;
                health.version.get_or_insert_with(|| version.clone());
            }
            Err(problem) => health.problem = Some(problem.clone()),
        }
        outcome.map(drop)
    }

    async fn check_once(&self) -> Result<String, String> {
        let status = self.plugin.status().await?;
        if status.healthz != "ok" {
            return Err(format!("got unexpected healthz status: {}", status.healthz));
        }
        if !matches!(status.version.as_str(), "v2" | "v2beta1") {
            return Err(format!("expected KMSv2 API version v2, got {}", status.version));
        }
        let first = self.health.lock().version.clone();
        if let Some(first) = first.filter(|first| *first != status.version) {
            return Err(format!(
                "KMSv2 API version should not change after the initial {first}, got {}",
                status.version
            ));
        }
        check_key_id(&status.key_id)?;
        if self.current.load().as_ref().is_none_or(|seed| seed.key_id != status.key_id) {
            let seed = self.new_seed(&status.key_id).await?;
            tracing::info!(provider = self.name, "sealing with a new seed of the KMS key");
            self.current.store(Some(Arc::new(seed)));
        }
        Ok(status.version)
    }

    async fn new_seed(&self, key_id: &str) -> Result<Seed, String> {
        let seed: [u8; SEED_BYTES] = random().map_err(|error| error.to_string())?;
        let encrypted = self.plugin.encrypt(seed.to_vec()).await?;
        if encrypted.key_id != key_id {
            return Err("the plugin encrypts with another key than its status names".to_owned());
        }
        let header = EncryptedObject {
            encrypted_data: Vec::new(),
            key_id: encrypted.key_id,
            encrypted_dek_source: encrypted.ciphertext,
            annotations: encrypted.annotations,
            encrypted_dek_source_type: SOURCE_SEED,
        };
        check_header(&header)?;
        let cipher = Arc::new(Cipher::seed(&seed).map_err(|error| error.to_string())?);
        self.seeds.insert(&header, Arc::clone(&cipher));
        Ok(Seed { cipher, key_id: key_id.to_owned(), header })
    }

    /// Appends the sealed value to `out`.
    pub fn seal(&self, context: &[u8], plain: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        let current = self.current.load_full();
        let Some(seed) = current else { return Err(self.health().err().unwrap_or_default()) };
        let health = self.health.lock();
        if Instant::now() > health.writes_until {
            let problem = health.problem.as_deref().unwrap_or("no answer");
            return Err(format!("kms provider {}: no writes since its plugin failed: {problem}", self.name));
        }
        drop(health);
        let mut sealed = Vec::with_capacity(plain.len() + 64);
        seed.cipher.seal(context, plain, &mut sealed).map_err(|error| error.to_string())?;
        let object = EncryptedObject { encrypted_data: sealed, ..seed.header.clone() };
        object.encode(out).map_err(|error| error.to_string())
    }

    /// Opens a value whose seed is known; `None` when the plugin has to be called.
    pub fn open_now(&self, context: &[u8], sealed: &[u8]) -> Option<Result<Vec<u8>, OpenError>> {
        let object = match decode(sealed) {
            Ok(object) => object,
            Err(error) => return Some(Err(error)),
        };
        let cipher = self.seeds.find(&object)?;
        Some(cipher.open(context, &object.encrypted_data).map_err(OpenError::from))
    }

    pub async fn open(&self, context: &[u8], sealed: &[u8]) -> Result<Vec<u8>, OpenError> {
        let object = decode(sealed)?;
        let cipher = match self.seeds.find(&object) {
            Some(cipher) => cipher,
            None => {
                let key = self.plugin.decrypt(&object).await.map_err(OpenError::Unavailable)?;
                let made = if object.encrypted_dek_source_type == SOURCE_SEED {
                    Cipher::seed(&key)
                } else {
                    Cipher::aes_gcm(&key)
                };
                let cipher = Arc::new(made?);
                self.seeds.insert(&object, Arc::clone(&cipher));
                cipher
            }
        };
        Ok(cipher.open(context, &object.encrypted_data)?)
    }

    /// Reports whether the value was sealed with another key of the KMS than the current one.
    pub fn is_stale(&self, sealed: &[u8]) -> bool {
        let current = self.current.load();
        match (decode(sealed), current.as_ref()) {
            (Ok(object), Some(seed)) => object.key_id != seed.key_id || object.encrypted_dek_source_type != SOURCE_SEED,
            _ => false,
        }
    }
}

fn decode(sealed: &[u8]) -> Result<EncryptedObject, OpenError> {
    let object = EncryptedObject::decode(sealed).map_err(|error| OpenError::Damaged(error.to_string()))?;
    check_header(&object).map_err(OpenError::Damaged)?;
    if object.encrypted_data.is_empty() {
        return Err(OpenError::Damaged("encrypted data is empty".to_owned()));
    }
    Ok(object)
}

fn check_header(object: &EncryptedObject) -> Result<(), String> {
    if !matches!(object.encrypted_dek_source_type, SOURCE_KEY | SOURCE_SEED) {
        return Err(format!("unknown encryptedDEKSourceType: {}", object.encrypted_dek_source_type));
    }
    match object.encrypted_dek_source.len() {
        0 => return Err("encrypted DEK source is empty".to_owned()),
        length if length > SOURCE_BYTES_MAX => {
            return Err(format!(
                "encrypted DEK source is {length} bytes, which exceeds the max size of {SOURCE_BYTES_MAX}"
            ));
        }
        _ => {}
    }
    check_key_id(&object.key_id)?;
    for name in object.annotations.keys() {
        // A domain name of at least two labels.
        let is_label = |label: &str| {
            !label.is_empty() && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        };
        if !name.contains('.') || !name.split('.').all(is_label) {
            return Err(format!(
                "annotations: Invalid value: {name:?}: should be a domain with at least two segments separated by dots"
            ));
        }
    }
    let total: usize = object.annotations.iter().map(|(name, value)| name.len() + value.len()).sum();
    if total > ANNOTATIONS_BYTES_MAX {
        return Err(format!(
            "total size of annotations is {total}, which exceeds the max size of {ANNOTATIONS_BYTES_MAX}"
        ));
    }
    Ok(())
}

fn check_key_id(key_id: &str) -> Result<(), String> {
    match key_id.len() {
        0 => Err("keyID is empty".to_owned()),
        length if length > KEY_ID_BYTES_MAX => {
            Err(format!("keyID is {length} bytes, which exceeds the max size of {KEY_ID_BYTES_MAX}"))
        }
        _ => Ok(()),
    }
}
