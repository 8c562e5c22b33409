//! Manifests of a repository by tag and digest, and what refers to them.

use serde::{Deserialize, Serialize};

use super::{Result, Store, StoreError, disk};
use crate::digest::Digest;
use crate::manifest::{Descriptor, Kind, Manifest};
use crate::name::{Repository, Selector, Tag};

/// A manifest to keep.
pub struct PutManifest<'a> {
    pub repository: &'a Repository,
    pub tags: &'a [Tag],
    pub digest: &'a Digest,
    pub bytes: &'a [u8],
    pub manifest: &'a Manifest,
}

pub struct StoredManifest {
    pub digest: Digest,
    pub media_type: String,
    pub bytes: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Revision {
    media_type: String,
}

impl Store {
    /// Keeps a manifest whose digest was verified, once all it is made of is here.
    pub fn put_manifest(&self, put: &PutManifest<'_>) -> Result<()> {
        let _gate = self.gate.read();
        let missing = self.missing_references(put.repository, put.manifest);
        if !missing.is_empty() {
            return Err(StoreError::ReferencesUnknown(missing));
        }
        self.want(put.digest);
        put.manifest.references().for_each(|reference| self.want(&reference.digest));
        self.write(&self.blob_path(put.digest), put.bytes)?;
        // Written before the revision, without which it has no effect: no crash leaves a referrer that is not listed.
        if let Some(subject) = &put.manifest.subject {
            let descriptor = referrer(put);
            let path = self.referrers_dir(put.repository, &subject.digest).join(flat(put.digest));
            self.write(&path, &json(&descriptor))?;
        }
        let revision = Revision { media_type: put.manifest.media_type.clone() };
        self.write(&self.revision_link(put.repository, put.digest), &json(&revision))?;
        let digest = put.digest.to_string();
        put.tags.iter().try_for_each(|tag| self.write(&self.tag_path(put.repository, tag), digest.as_bytes()))
    }

    fn missing_references(&self, repository: &Repository, manifest: &Manifest) -> Vec<Descriptor> {
        let is_here = |reference: &Descriptor| match &manifest.kind {
            Kind::Image { .. } => reference.is_foreign() || self.has_blob(repository, &reference.digest),
            Kind::Index { .. } => disk::is_file(&self.revision_link(repository, &reference.digest)),
        };
        manifest.references().filter(|reference| !is_here(reference)).cloned().collect()
    }

    pub fn manifest(&self, repository: &Repository, selector: &Selector) -> Result<StoredManifest> {
        let unknown = || StoreError::ManifestUnknown(selector.to_string());
        let digest = self.resolve(repository, selector)?.ok_or_else(unknown)?;
        let revision = disk::read(&self.revision_link(repository, &digest))?.ok_or_else(unknown)?;
        let bytes = disk::read(&self.blob_path(&digest))?.ok_or_else(unknown)?;
        let revision: Option<Revision> = serde_json::from_slice(&revision).ok();
        match revision {
            // Small enough to look at each time: a damaged manifest is never served.
            Some(revision) if digest.like(&bytes) == digest => {
                Ok(StoredManifest { digest, media_type: revision.media_type, bytes })
            }
            _ => Err(StoreError::Damaged { repository: repository.clone(), digest }),
        }
    }

    fn resolve(&self, repository: &Repository, selector: &Selector) -> Result<Option<Digest>> {
        match selector {
            Selector::Digest(digest) => Ok(Some(digest.clone())),
            Selector::Tag(tag) => self.tagged(repository, tag),
        }
    }

    pub(super) fn tagged(&self, repository: &Repository, tag: &Tag) -> Result<Option<Digest>> {
        let text = disk::read(&self.tag_path(repository, tag))?;
        Ok(text.and_then(|text| String::from_utf8(text).ok()).and_then(|text| text.parse().ok()))
    }

    /// By tag: that tag. By digest: the manifest and every tag of it.
    pub fn delete_manifest(&self, repository: &Repository, selector: &Selector) -> Result<()> {
        let _gate = self.gate.write();
        let was_there = match selector {
            Selector::Tag(tag) => disk::remove(&self.tag_path(repository, tag))?,
            Selector::Digest(digest) => self.remove_revision(repository, digest)?,
        };
        if was_there { Ok(()) } else { Err(StoreError::ManifestUnknown(selector.to_string())) }
    }

    /// The caller holds the gate, for writing.
    pub(super) fn remove_revision(&self, repository: &Repository, digest: &Digest) -> Result<bool> {
        for tag in self.tags(repository)? {
            if self.tagged(repository, &tag)?.as_ref() == Some(digest) {
                disk::remove(&self.tag_path(repository, &tag))?;
            }
        }
        let subject = disk::read(&self.blob_path(digest))?
            .and_then(|bytes| Manifest::parse(None, &bytes).ok())
            .and_then(|manifest| manifest.subject);
        let was_there = disk::remove(&self.revision_link(repository, digest))?;
        if let Some(subject) = subject {
            disk::remove(&self.referrers_dir(repository, &subject.digest).join(flat(digest)))?;
        }
        Ok(was_there)
    }

    /// The referrers of a manifest, which itself need not be present.
    pub fn referrers(&self, repository: &Repository, subject: &Digest) -> Result<Vec<Descriptor>> {
        let mut found = Vec::new();
        for path in disk::entries(&self.referrers_dir(repository, subject))? {
            let Some(bytes) = disk::read(&path)? else { continue };
            let Ok(descriptor) = serde_json::from_slice::<Descriptor>(&bytes) else { continue };
            if disk::is_file(&self.revision_link(repository, &descriptor.digest)) {
                found.push(descriptor);
            }
        }
        found.sort_by(|a, b| a.digest.cmp(&b.digest));
        Ok(found)
    }

    fn tag_path(&self, repository: &Repository, tag: &Tag) -> std::path::PathBuf {
        self.tags_dir(repository).join(tag.as_str())
    }

    fn referrers_dir(&self, repository: &Repository, subject: &Digest) -> std::path::PathBuf {
        self.repository_dir(repository).join("_manifests/referrers").join(flat(subject))
    }
}

fn referrer(put: &PutManifest<'_>) -> Descriptor {
    Descriptor {
        artifact_type: put.manifest.effective_artifact_type(),
        annotations: put.manifest.annotations.clone(),
        ..Descriptor::new(&put.manifest.media_type, put.digest.clone(), put.bytes.len() as u64)
    }
}

/// A digest as the name of a file.
fn flat(digest: &Digest) -> String {
    format!("{}-{}", digest.algorithm().name(), digest.hex())
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("names, numbers and text can be written as JSON")
}
