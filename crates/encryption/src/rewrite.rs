//! Brings stored values to the current provider: seals plain values of existing stores, and follows rotated keys.
//!
//! A pass can be interrupted at any point: what it has written stays valid, and the next pass finds the rest. Writes are guarded
//! by the revision, so that a value written meanwhile is never replaced.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use store::{Error, KeyValue, RangeRequest, Result, Store, ValueTransformer, prefix_end, reserved};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::chain::Sealing;
use crate::transformer::Encryption;

/// Values read at a time.
const PAGE: usize = 500;
/// Pause after each written value, so that a pass leaves the store to its users.
const PAUSE: Duration = Duration::from_millis(2);
/// Delay before a failed pass is repeated.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// The state of the current or last pass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RewriteProgress {
    pub running: bool,
    pub passes: u64,
    /// Values written since the process started.
    pub rewritten: u64,
    /// Values that the pass still has to write.
    pub remaining: u64,
    /// Values that cannot be decrypted.
    pub failed: u64,
    /// The error that ended the last pass.
    pub error: Option<String>,
}

/// Rewrites values of a store in the background.
pub struct Rewriter {
    raw: Arc<dyn Store>,
    encryption: Arc<Encryption>,
    progress: Mutex<RewriteProgress>,
    wake: Notify,
}

impl Rewriter {
    /// `raw` is the store below the transformer.
    pub fn new(raw: Arc<dyn Store>, encryption: Arc<Encryption>) -> Arc<Self> {
        Arc::new(Self { raw, encryption, progress: Mutex::default(), wake: Notify::new() })
    }

    /// Starts a pass soon, after the running one if there is one.
    pub fn request(&self) {
        self.wake.notify_one();
    }

    pub fn progress(&self) -> RewriteProgress {
        self.progress.lock().clone()
    }

    /// Runs a pass now and one after each request, until stopped.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        loop {
            let failed = tokio::select! {
                () = stop.cancelled() => return,
                passed = self.pass() => passed.is_err(),
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.wake.notified() => {}
                () = tokio::time::sleep(RETRY_AFTER), if failed => {}
            }
        }
    }

    /// Rewrites every value that is not sealed as it would be now.
    pub async fn pass(&self) -> Result<()> {
        self.progress.lock().running = true;
        let outcome = self.pass_once().await;
        let mut progress = self.progress.lock();
        progress.running = false;
        progress.passes += 1;
        progress.error = outcome.as_ref().err().map(ToString::to_string);
        if outcome.is_ok() {
            // Values that others wrote meanwhile were counted too.
            progress.remaining = 0;
        }
        if let Err(error) = &outcome {
            tracing::warn!(%error, "rewriting stored values failed; will retry");
        }
        outcome
    }

    async fn pass_once(&self) -> Result<()> {
        let mut stale = 0;
        self.scan(|kv| stale += u64::from(self.encryption.is_stale(&kv.key, &kv.value))).await?;
        {
            let mut progress = self.progress.lock();
            progress.remaining = stale;
            progress.failed = 0;
        }
        if stale > 0 {
            tracing::info!(values = stale, "rewriting stored values with the current encryption provider");
            if self.raw.engine() == "embedded" {
                reserved::begin_scrub(&*self.raw).await?;
            }
            for prefix in self.encryption.rules().prefixes() {
                self.rewrite(&prefix).await?;
            }
        }
        if reserved::needs_scrub(&*self.raw).await? {
            self.remove_traces().await?;
        }
        if stale > 0 {
            let RewriteProgress { rewritten, failed, .. } = self.progress();
            tracing::info!(rewritten, failed, "stored values are rewritten");
        }
        Ok(())
    }

    /// Drops the history that still contains the old values, and their bytes in the files.
    async fn remove_traces(&self) -> Result<()> {
        let revision = self.raw.revision().await?;
        match self.raw.compact(revision).await {
            Ok(()) | Err(Error::Compacted { .. }) => {}
            Err(error) => return Err(error),
        }
        self.raw.scrub().await?;
        reserved::end_scrub(&*self.raw).await
    }

    async fn rewrite(&self, prefix: &str) -> Result<()> {
        let mut stale = Vec::new();
        let mut from = prefix.to_owned();
        let end = prefix_end(prefix).unwrap_or_default();
        loop {
            let page = self.raw.range(RangeRequest::between(&from, &end).limit(PAGE)).await?;
            stale.extend(page.kvs.iter().filter(|kv| self.encryption.is_stale(&kv.key, &kv.value)).cloned());
            for kv in stale.drain(..) {
                self.rewrite_one(kv).await?;
            }
            match page.kvs.last().filter(|_| page.more) {
                Some(last) => from = format!("{}\0", last.key),
                None => return Ok(()),
            }
        }
    }

    async fn rewrite_one(&self, kv: KeyValue) -> Result<()> {
        let plain = match self.encryption.open(&kv.key, kv.value).await {
            Ok(plain) => plain,
            Err(Error::Sealed(problem)) => {
                tracing::error!(problem, "a stored value is left as it is");
                self.progress.lock().failed += 1;
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let sealed = self.encryption.seal(&kv.key, plain)?;
        match self.raw.update(&kv.key, sealed, kv.mod_revision, kv.lease).await {
            Ok(_) => self.progress.lock().rewritten += 1,
            // Written or deleted meanwhile, and then with the current provider.
            Err(Error::Conflict { .. } | Error::NotFound | Error::LeaseNotFound(_)) => {}
            Err(error) => return Err(error),
        }
        self.count_one_less();
        tokio::time::sleep(PAUSE).await;
        Ok(())
    }

    fn count_one_less(&self) {
        let mut progress = self.progress.lock();
        progress.remaining = progress.remaining.saturating_sub(1);
    }

    /// Counts stored values by the provider that sealed them.
    pub async fn survey(&self) -> Result<BTreeMap<String, u64>> {
        let mut found: BTreeMap<String, u64> = BTreeMap::new();
        self.scan(|kv| {
            let sealing = Sealing::of(&kv.value);
            // Plain values that belong so, such as Works without a Secret, are not worth a report.
            if sealing != Sealing::Plain || self.encryption.is_stale(&kv.key, &kv.value) {
                *found.entry(sealing.to_string()).or_default() += 1;
            }
        })
        .await?;
        Ok(found)
    }

    async fn scan(&self, mut visit: impl FnMut(&KeyValue)) -> Result<()> {
        for prefix in self.encryption.rules().prefixes() {
            let mut from = prefix.clone();
            let end = prefix_end(&prefix).unwrap_or_default();
            loop {
                let page = self.raw.range(RangeRequest::between(&from, &end).limit(PAGE)).await?;
                page.kvs.iter().for_each(&mut visit);
                match page.kvs.last().filter(|_| page.more) {
                    Some(last) => from = format!("{}\0", last.key),
                    None => break,
                }
            }
        }
        Ok(())
    }
}

/// Fails if the store has values that the configuration cannot open: one value of each provider and resource is tried.
pub async fn verify(raw: &dyn Store, encryption: &Encryption) -> Result<()> {
    let mut tried = std::collections::BTreeSet::new();
    for prefix in encryption.rules().prefixes() {
        let page = raw.range(RangeRequest::prefix(&prefix).limit(PAGE)).await?;
        for kv in page.kvs {
            if tried.insert((prefix.clone(), Sealing::of(&kv.value))) && !reserved::is_reserved(&kv.key) {
                encryption.open(&kv.key, kv.value).await?;
            }
        }
    }
    Ok(())
}

/// Fails if the store has sealed values, for a server without a configuration.
pub async fn refuse_sealed(raw: &dyn Store) -> Result<()> {
    for prefix in ["/core/secrets/", "/-flotilla/keys"] {
        let page = raw.range(RangeRequest::prefix(prefix).limit(PAGE)).await?;
        let sealed = page.kvs.iter().find(|kv| Sealing::of(&kv.value) != Sealing::Plain);
        if let Some(kv) = sealed {
            return Err(Error::Sealed(format!("{} is sealed with {}", kv.key, Sealing::of(&kv.value))));
        }
    }
    Ok(())
}
