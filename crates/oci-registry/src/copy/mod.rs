//! Copies images between registries, layouts and archives: blobs side by side, every byte verified, broken transfers resumed.

pub mod endpoints;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};

use crate::client::ClientError;
use crate::digest::{Digest, Hasher};
use crate::manifest::{Descriptor, Kind, MANIFEST_LEN_MAX, Manifest, ManifestError, Platform};
use crate::name::Repository;

/// Indexes may contain indexes, but many levels are not needed.
const DEPTH_MAX: usize = 4;
/// Maximum number of times an interrupted blob is requested again, from where it was interrupted.
const READ_RETRIES_MAX: u32 = 5;
const RETRY_AFTER: Duration = Duration::from_millis(200);

pub type ByteStream = BoxStream<'static, std::io::Result<Bytes>>;

#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error("{place}")]
    Io { place: String, source: std::io::Error },
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the manifest {0} cannot be read")]
    Manifest(Digest, #[source] ManifestError),
    #[error("{expected} was asked for, {actual} came: the source is damaged or not to be trusted")]
    DigestDiffers { expected: Digest, actual: Digest },
    #[error("{digest} has {actual} bytes, not {expected}: the source is damaged or not to be trusted")]
    SizeDiffers { digest: Digest, expected: u64, actual: u64 },
    #[error("the image is for {there}, not for {wanted}; say --platform or --all-platforms")]
    NoPlatform { wanted: Platform, there: String },
    #[error("the indexes are nested more than {DEPTH_MAX} deep")]
    TooDeep,
    #[error("{place} has several images: name one of {names}")]
    Ambiguous { place: String, names: String },
    #[error("{place} has no image {name:?}; it has {names}")]
    NoImage { place: String, name: String, names: String },
    #[error("the archive was to hold {0}, but it arrived incomplete")]
    Incomplete(Digest),
}

/// A manifest as it is, byte for byte.
#[derive(Clone, Debug)]
pub struct RawManifest {
    pub digest: Digest,
    pub media_type: String,
    pub bytes: Bytes,
}

impl RawManifest {
    pub fn parse(&self) -> Result<Manifest, CopyError> {
        let parsed = Manifest::parse(Some(&self.media_type).filter(|t| !t.is_empty()).map(String::as_str), &self.bytes);
        parsed.map_err(|error| CopyError::Manifest(self.digest.clone(), error))
    }

    pub fn descriptor(&self) -> Descriptor {
        Descriptor::new(&self.media_type, self.digest.clone(), self.bytes.len() as u64)
    }
}

/// The source of an image.
#[async_trait]
pub trait Source: Send + Sync {
    /// The image itself, or one of its parts.
    async fn manifest(&self, part: Option<&Descriptor>) -> Result<RawManifest, CopyError>;

    /// A blob's bytes from an offset on.
    async fn blob(&self, blob: &Descriptor, from: u64) -> Result<ByteStream, CopyError>;

    /// The registry and repository it is in, from which the same registry can take blobs over.
    fn repository(&self) -> Option<(&str, &Repository)> {
        None
    }
}

/// The destination of an image.
#[async_trait]
pub trait Destination: Send + Sync {
    async fn has(&self, blob: &Descriptor) -> Result<bool, CopyError>;

    /// Takes a blob over without sending it, where that can be.
    async fn take_over(&self, _blob: &Descriptor, _from: (&str, &Repository)) -> Result<bool, CopyError> {
        Ok(false)
    }

    async fn put(&self, blob: &Descriptor, content: &mut Content<'_>) -> Result<(), CopyError>;

    /// In dependency order; the last one is the image.
    async fn put_manifest(&self, manifest: &RawManifest, is_image: bool) -> Result<(), CopyError>;
}

/// Progress of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Started { blob: Digest, len: u64 },
    Advanced { blob: Digest, bytes: u64 },
    Done { blob: Digest, how: CopyMethod },
    Manifest { digest: Digest },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyMethod {
    Copied,
    TakenOver,
    WasThere,
}

pub trait CopyProgress: Send + Sync {
    fn event(&self, event: Event);
}

/// Discards progress.
pub struct NoProgress;

impl CopyProgress for NoProgress {
    fn event(&self, _: Event) {}
}

#[derive(Clone, Debug)]
pub struct CopyOptions {
    /// Of an index, the image for this platform; all of them when none is named.
    pub platform: Option<Platform>,
    /// Blobs under way at once.
    pub parallel: usize,
}

impl Default for CopyOptions {
    fn default() -> Self {
        Self { platform: None, parallel: 4 }
    }
}

/// Copies an image; returns the manifest it now has.
pub async fn copy(
    source: &dyn Source,
    destination: &dyn Destination,
    options: &CopyOptions,
    progress: &dyn CopyProgress,
) -> Result<RawManifest, CopyError> {
    let mut top = source.manifest(None).await?;
    if let Some(platform) = &options.platform {
        top = for_platform(source, top, platform).await?;
    }
    Job { source, destination, options, progress }.image(&top, true, 0).await?;
    Ok(top)
}

/// Of an index, the image for a platform. An image that says nothing of platforms is taken as it is.
pub async fn for_platform(
    source: &dyn Source,
    mut top: RawManifest,
    platform: &Platform,
) -> Result<RawManifest, CopyError> {
    for _ in 0..DEPTH_MAX {
        let Kind::Index { manifests } = top.parse()?.kind else { return Ok(top) };
        let fits = |part: &&Descriptor| part.platform.as_ref().is_some_and(|there| platform.takes(there));
        let part = match manifests.iter().find(fits) {
            Some(part) => part,
            None if manifests.len() == 1 && manifests[0].platform.is_none() => &manifests[0],
            None => {
                let there = manifests.iter().filter_map(|part| part.platform.as_ref().map(ToString::to_string));
                let there = there.filter(|name| name != "unknown/unknown").collect::<Vec<_>>().join(", ");
                return Err(CopyError::NoPlatform { wanted: platform.clone(), there });
            }
        };
        top = source.manifest(Some(part)).await?;
    }
    Err(CopyError::TooDeep)
}

struct Job<'a> {
    source: &'a dyn Source,
    destination: &'a dyn Destination,
    options: &'a CopyOptions,
    progress: &'a dyn CopyProgress,
}

impl Job<'_> {
    async fn image(&self, raw: &RawManifest, is_image: bool, depth: usize) -> Result<(), CopyError> {
        if depth > DEPTH_MAX {
            return Err(CopyError::TooDeep);
        }
        let manifest = raw.parse()?;
        match &manifest.kind {
            Kind::Index { manifests } => {
                for part in manifests {
                    let part = self.source.manifest(Some(part)).await?;
                    Box::pin(self.image(&part, false, depth + 1)).await?;
                }
            }
            Kind::Image { .. } => {
                let mut seen = HashSet::new();
                let blobs = manifest.references().filter(|blob| !blob.is_foreign() && seen.insert(&blob.digest));
                let copies: Vec<_> = blobs.map(|blob| self.blob(blob)).collect();
                let mut copies = futures::stream::iter(copies).buffer_unordered(self.options.parallel.max(1));
                while copies.try_next().await?.is_some() {}
            }
        }
        self.destination.put_manifest(raw, is_image).await?;
        self.progress.event(Event::Manifest { digest: raw.digest.clone() });
        Ok(())
    }

    async fn blob(&self, blob: &Descriptor) -> Result<(), CopyError> {
        let done = |how| self.progress.event(Event::Done { blob: blob.digest.clone(), how });
        if self.destination.has(blob).await? {
            done(CopyMethod::WasThere);
            return Ok(());
        }
        if let Some(from) = self.source.repository()
            && self.destination.take_over(blob, from).await?
        {
            done(CopyMethod::TakenOver);
            return Ok(());
        }
        self.progress.event(Event::Started { blob: blob.digest.clone(), len: blob.size });
        let mut content = Content::new(self.source, blob, self.progress);
        self.destination.put(blob, &mut content).await?;
        done(CopyMethod::Copied);
        Ok(())
    }
}

/// A blob being copied: read once from start to end, resumed after interruptions, verified before its end is reported.
pub struct Content<'a> {
    source: &'a dyn Source,
    blob: &'a Descriptor,
    progress: &'a dyn CopyProgress,
    stream: Option<ByteStream>,
    hasher: Option<Hasher>,
    read: u64,
    retries: u32,
}

impl<'a> Content<'a> {
    fn new(source: &'a dyn Source, blob: &'a Descriptor, progress: &'a dyn CopyProgress) -> Self {
        let hasher = Some(Hasher::new(blob.digest.algorithm()));
        Self { source, blob, progress, stream: None, hasher, read: 0, retries: 0 }
    }

    /// Resumes from the part an earlier attempt left at the destination.
    pub fn begin_at(&mut self, hashed: Hasher, offset: u64) {
        self.hasher = Some(hashed);
        self.read = offset;
        self.progress.event(Event::Advanced { blob: self.blob.digest.clone(), bytes: offset });
    }

    /// The next bytes; none once all came and are what they were said to be.
    pub async fn next(&mut self) -> Result<Option<Bytes>, CopyError> {
        loop {
            let stream = match &mut self.stream {
                Some(stream) => stream,
                None => self.stream.insert(self.source.blob(self.blob, self.read).await?),
            };
            match stream.next().await {
                Some(Ok(bytes)) => {
                    self.take(&bytes)?;
                    return Ok(Some(bytes));
                }
                None if self.read < self.blob.size => {
                    self.retry_after(std::io::ErrorKind::UnexpectedEof.into()).await?;
                }
                None => return self.verify().map(|()| None),
                // The content is complete, so a late error does not matter.
                Some(Err(_)) if self.read == self.blob.size => return self.verify().map(|()| None),
                Some(Err(error)) => self.retry_after(error).await?,
            }
        }
    }

    fn take(&mut self, bytes: &Bytes) -> Result<(), CopyError> {
        self.read += bytes.len() as u64;
        if self.read > self.blob.size {
            return Err(self.size_differs());
        }
        if let Some(hasher) = &mut self.hasher {
            hasher.update(bytes);
        }
        self.progress.event(Event::Advanced { blob: self.blob.digest.clone(), bytes: bytes.len() as u64 });
        Ok(())
    }

    async fn retry_after(&mut self, error: std::io::Error) -> Result<(), CopyError> {
        self.stream = None;
        self.retries += 1;
        if self.retries > READ_RETRIES_MAX {
            return Err(CopyError::Io { place: format!("cannot read {}", self.blob.digest), source: error });
        }
        tokio::time::sleep(RETRY_AFTER * 2_u32.pow(self.retries - 1)).await;
        Ok(())
    }

    fn verify(&mut self) -> Result<(), CopyError> {
        // Asked again after the end: it was verified then.
        let Some(hasher) = self.hasher.take() else { return Ok(()) };
        let actual = hasher.finish();
        if actual == self.blob.digest {
            return Ok(());
        }
        Err(CopyError::DigestDiffers { expected: self.blob.digest.clone(), actual })
    }

    fn size_differs(&self) -> CopyError {
        CopyError::SizeDiffers { digest: self.blob.digest.clone(), expected: self.blob.size, actual: self.read }
    }
}

/// Refuses a manifest that is not the one that was asked for.
pub fn check_manifest(part: &Descriptor, bytes: &[u8]) -> Result<(), CopyError> {
    let actual = part.digest.like(bytes);
    if actual == part.digest && bytes.len() <= MANIFEST_LEN_MAX {
        return Ok(());
    }
    Err(CopyError::DigestDiffers { expected: part.digest.clone(), actual })
}
