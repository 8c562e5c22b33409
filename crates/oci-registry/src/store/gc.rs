//! Collection of garbage while the registry works: marks what manifests are made of, sweeps the rest once it is old enough.
//!
//! Between the HEAD by which a client learns that a blob exists and the manifest that uses it, a blob has no owner.
//! Three things protect it: asking for it makes it young again, young things are not swept, and what comes into use after
//! marking began is remembered and looked up, under the gate, before each removal.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::{Result, Store, StoreError, disk};
use crate::digest::Digest;
use crate::manifest::{Kind, Manifest};
use crate::name::Repository;

/// Removed under one closing of the gate, so that pushes never wait long.
const SWEEP_BATCH: usize = 64;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GcOptions {
    /// Content pushed or requested within this time is kept.
    pub grace: Duration,
    /// Also manifests without a tag that no tagged index and no subject needs.
    pub untagged: bool,
    /// Count, remove nothing.
    pub dry_run: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GcReport {
    pub manifests_removed: u64,
    pub blobs_removed: u64,
    pub bytes_freed: u64,
    pub blobs_kept: u64,
    pub uploads_expired: u64,
}

impl Store {
    pub fn collect(&self, options: &GcOptions, now: SystemTime) -> Result<GcReport> {
        {
            // Writers inside the gate are done before marking; later ones are recorded.
            let _gate = self.gate.write();
            let mut wanted = self.wanted.lock();
            if wanted.is_some() {
                return Err(StoreError::Collecting);
            }
            *wanted = Some(HashSet::new());
        }
        let collected =
            Collection { store: self, options, now, marked: HashSet::new(), report: GcReport::default() }.run();
        *self.wanted.lock() = None;
        collected
    }
}

struct Collection<'a> {
    store: &'a Store,
    options: &'a GcOptions,
    now: SystemTime,
    marked: HashSet<Digest>,
    report: GcReport,
}

impl Collection<'_> {
    fn run(mut self) -> Result<GcReport> {
        if !self.options.dry_run {
            self.report.uploads_expired = self.store.expire_uploads(self.now)? as u64;
        }
        for repository in self.store.repositories()? {
            let doomed = if self.options.untagged { self.drop_untagged(&repository)? } else { HashSet::new() };
            let used = self.mark(&repository, &doomed)?;
            self.sweep_links(&repository, &used)?;
        }
        self.sweep_blobs()?;
        Ok(self.report)
    }

    /// Removes untagged manifests, and their parts if no other manifest uses them. Returns the removed ones.
    fn drop_untagged(&mut self, repository: &Repository) -> Result<HashSet<Digest>> {
        // Closed, so that no tag is put on what was just found without one.
        let _gate = self.store.gate.write();
        let mut kept = HashSet::new();
        for tag in self.store.tags(repository)? {
            kept.extend(self.store.tagged(repository, &tag)?);
        }
        let mut rest = Vec::new();
        for digest in self.store.revisions(repository)? {
            let manifest = self.read(repository, &digest)?;
            if self.is_young(&self.store.revision_link(repository, &digest))? {
                kept.insert(digest.clone());
            }
            rest.push((digest, manifest));
        }
        // Kept manifests keep their parts and referrers; repeated until nothing is added.
        loop {
            let before = kept.len();
            for (digest, manifest) in &rest {
                let is_attached = manifest.subject.as_ref().is_some_and(|subject| kept.contains(&subject.digest));
                if is_attached {
                    kept.insert(digest.clone());
                }
                if let (true, Kind::Index { manifests }) = (kept.contains(digest), &manifest.kind) {
                    kept.extend(manifests.iter().map(|part| part.digest.clone()));
                }
            }
            if kept.len() == before {
                break;
            }
        }
        let doomed: HashSet<Digest> =
            rest.into_iter().map(|(digest, _)| digest).filter(|d| !kept.contains(d)).collect();
        for digest in &doomed {
            self.report.manifests_removed += 1;
            if !self.options.dry_run {
                self.store.remove_revision(repository, digest)?;
            }
        }
        Ok(doomed)
    }

    /// The blobs that the manifests of a repository refer to.
    fn mark(&mut self, repository: &Repository, doomed: &HashSet<Digest>) -> Result<HashSet<Digest>> {
        let mut used = HashSet::new();
        for digest in self.store.revisions(repository)? {
            if doomed.contains(&digest) {
                continue;
            }
            let manifest = match self.read(repository, &digest) {
                // Deleted since it was listed.
                Err(StoreError::Damaged { .. }) if !disk::is_file(&self.store.revision_link(repository, &digest)) => {
                    continue;
                }
                manifest => manifest?,
            };
            used.extend(manifest.references().map(|reference| reference.digest.clone()));
            used.insert(digest);
        }
        self.marked.extend(used.iter().cloned());
        Ok(used)
    }

    /// A manifest that cannot be read may need anything: then nothing is removed.
    fn read(&self, repository: &Repository, digest: &Digest) -> Result<Manifest> {
        let damaged = || StoreError::Damaged { repository: repository.clone(), digest: digest.clone() };
        let bytes = disk::read(&self.store.blob_path(digest))?.ok_or_else(damaged)?;
        if digest.like(&bytes) != *digest {
            return Err(damaged());
        }
        // Its type was judged when it was put; inside it may be silent about it.
        Manifest::parse(None, &bytes).map_err(|_| damaged())
    }

    /// Blobs a repository was given and never used.
    fn sweep_links(&mut self, repository: &Repository, used: &HashSet<Digest>) -> Result<()> {
        let linked = self.store.linked_blobs(repository)?;
        for batch in linked.chunks(SWEEP_BATCH) {
            let _gate = self.store.gate.write();
            for digest in batch {
                let link = self.store.layer_link(repository, digest);
                if used.contains(digest) || self.is_wanted(digest) || self.is_young(&link)? {
                    self.marked.insert(digest.clone());
                } else if !self.options.dry_run {
                    disk::remove(&link)?;
                }
            }
        }
        Ok(())
    }

    fn sweep_blobs(&mut self) -> Result<()> {
        let blobs = self.store.all_blobs()?;
        let (marked, unmarked): (Vec<_>, Vec<_>) = blobs.into_iter().partition(|blob| self.marked.contains(blob));
        self.report.blobs_kept += marked.len() as u64;
        for batch in unmarked.chunks(SWEEP_BATCH) {
            let _gate = self.store.gate.write();
            for digest in batch {
                let path = self.store.blob_path(digest);
                if self.is_wanted(digest) || self.is_young(&path)? {
                    self.report.blobs_kept += 1;
                    continue;
                }
                let len = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
                if self.options.dry_run || disk::remove(&path)? {
                    self.report.blobs_removed += 1;
                    self.report.bytes_freed += len;
                }
            }
        }
        Ok(())
    }

    fn is_wanted(&self, digest: &Digest) -> bool {
        self.store.wanted.lock().as_ref().is_some_and(|wanted| wanted.contains(digest))
    }

    /// A clock that was set back makes things young, which only keeps them longer.
    fn is_young(&self, path: &std::path::Path) -> Result<bool> {
        let Some(modified) = disk::modified(path)? else { return Ok(false) };
        Ok(self.now.duration_since(modified).map_or(true, |age| age < self.options.grace))
    }
}
