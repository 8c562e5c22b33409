//! Encryption at rest of an API server: its configuration, its key file, and the store that seals values with it.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use apiserver::metrics::Metrics;
use encryption::rewrite::{self, Rewriter};
use encryption::{Encryption, file, reload};
use pki::key_dir;
use store::{Store, Transformed};
use tokio_util::sync::CancellationToken;

use crate::options::{EncryptionOptions, Options, Storage};

/// The configuration that a server creates for itself, apart from the store and from what backups contain.
pub const DEFAULT_FILE: &str = "encryption/config.yaml";

/// Encryption of a running server.
pub struct AtRest {
    pub encryption: Arc<Encryption>,
    pub rewriter: Arc<Rewriter>,
    pub file: PathBuf,
    follows_file: bool,
}

/// Returns the path of the configuration that a data directory has by default.
pub fn default_file(data_dir: &Path) -> PathBuf {
    data_dir.join(DEFAULT_FILE)
}

/// Creates a configuration with a new key, unless the file exists.
pub fn create_file(path: &Path) -> anyhow::Result<()> {
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent);
        made.with_context(|| format!("cannot make {}", parent.display()))?;
    }
    let text = file::render(&file::new_config()?)?;
    Ok(key_dir::write_if_absent(path, text.as_bytes(), key_dir::PRIVATE)?)
}

/// Returns the store that API servers use, and its encryption; `None` if values are stored as they are.
pub(crate) async fn seal(options: &Options, raw: Arc<dyn Store>) -> anyhow::Result<(Arc<dyn Store>, Option<AtRest>)> {
    let Some((file, follows_file)) = config_file(options, &*raw).await? else { return Ok((raw, None)) };
    let config = file::read(&file)?;
    let encryption = Arc::new(Encryption::new(&config).map_err(anyhow::Error::msg)?);
    if let Err(problem) = encryption.check_plugins().await {
        tracing::error!(problem, "a KMS plugin does not work; values cannot be encrypted until it does");
    }
    match rewrite::verify(&*raw, &encryption).await {
        Ok(()) => {}
        // Reads fail until the plugin answers; readiness reports it.
        Err(error @ store::Error::Unavailable(_)) => tracing::error!(%error, "stored values cannot be decrypted"),
        Err(error) => return Err(error).with_context(|| wrong_keys(&file)),
    }
    let rewriter = Rewriter::new(Arc::clone(&raw), Arc::clone(&encryption));
    let store = Arc::new(Transformed::new(raw, Arc::clone(&encryption) as _));
    Ok((store, Some(AtRest { encryption, rewriter, file, follows_file })))
}

fn wrong_keys(file: &Path) -> String {
    format!(
        "the keys in {} do not open this store: use the file of the server that wrote it (--encryption-provider-config)",
        file.display()
    )
}

/// Returns the configuration and whether changes of it apply without a restart.
async fn config_file(options: &Options, raw: &dyn Store) -> anyhow::Result<Option<(PathBuf, bool)>> {
    let EncryptionOptions { provider_config, automatic_reload } = &options.encryption;
    if let Some(file) = provider_config {
        return Ok(Some((file.clone(), *automatic_reload)));
    }
    let file = default_file(&options.data_dir);
    if file.exists() {
        return Ok(Some((file, true)));
    }
    if matches!(options.storage, Storage::Memory) {
        return Ok(None);
    }
    // A new key would not open what a lost one has sealed.
    match rewrite::refuse_sealed(raw).await {
        Ok(()) => {}
        // Without an answer it is not known to be encrypted.
        Err(error @ store::Error::Unavailable(_)) => return Err(error).context("the store does not answer"),
        Err(error) => {
            let missing = format!("the store is encrypted and {} is missing: {}", file.display(), how_to_get(options));
            return Err(error).context(missing);
        }
    }
    match options.storage {
        Storage::Embedded => {
            create_file(&file)?;
            tracing::info!(file = %file.display(), "created the key that encrypts Secrets; keep a copy apart from backups");
            Ok(Some((file, true)))
        }
        _ => {
            tracing::warn!(
                "Secrets are stored in etcd without encryption: give all servers the same --encryption-provider-config \
                 (`flotilla encryption init` creates one)"
            );
            Ok(None)
        }
    }
}

fn how_to_get(options: &Options) -> &'static str {
    match options.storage {
        Storage::Etcd(_) => "copy the configuration of another server, or name it with --encryption-provider-config",
        _ => "put it back from where its copy is kept",
    }
}

impl AtRest {
    /// Starts to follow the file and the KMS plugins, and rewrites values that are not sealed with the current provider.
    pub(crate) fn start(&self, metrics: &Metrics, stop: &CancellationToken) {
        tokio::spawn(Arc::clone(&self.rewriter).run(stop.clone()));
        if self.follows_file {
            let (encryption, rewriter) = (Arc::clone(&self.encryption), Arc::clone(&self.rewriter));
            tokio::spawn(reload::follow_file(self.file.clone(), encryption, rewriter, stop.clone()));
        } else {
            reload::follow_plugins(&self.encryption, stop);
        }
        let registry = &metrics.components;
        let remaining = registry.gauge(
            "flotilla_encryption_values_remaining",
            &[],
            "Stored values that are not sealed with the current encryption provider yet.",
        );
        let failed = registry.gauge(
            "flotilla_encryption_values_failed",
            &[],
            "Stored values that the last rewriting could not decrypt.",
        );
        let rewritten = registry.gauge(
            "flotilla_encryption_values_rewritten",
            &[],
            "Stored values sealed again with the current encryption provider since the start.",
        );
        let rewriter = Arc::clone(&self.rewriter);
        registry.before_render(move || {
            let progress = rewriter.progress();
            remaining.set(&[], progress.remaining as f64);
            failed.set(&[], progress.failed as f64);
            rewritten.set(&[], progress.rewritten as f64);
        });
    }
}
