//! The places images are copied between: a repository of a registry, an image in a layout, an image in an archive.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::io::{AsyncSeekExt, AsyncWriteExt};
use tokio_util::io::ReaderStream;

use super::{ByteStream, Content, CopyError, Destination, RawManifest, Source, check_manifest};
use crate::client::Remote;
use crate::digest::Hasher;
use crate::image::archive::Archive;
use crate::image::layout::{IMAGE_NAME, Layout, REF_NAME};
use crate::manifest::{Descriptor, MANIFEST_LEN_MAX};
use crate::name::{Reference, Repository, Selector};

const READ_BUFFER: usize = 256 * 1024;
/// Blocks an archive's reader may be ahead.
const READ_AHEAD: usize = 4;

/// An image in a registry, by the name it is read by or will have.
pub struct RegistryEndpoint {
    pub remote: Remote,
    pub selector: Selector,
}

#[async_trait]
impl Source for RegistryEndpoint {
    async fn manifest(&self, part: Option<&Descriptor>) -> Result<RawManifest, CopyError> {
        let selector = part.map_or_else(|| self.selector.clone(), |part| Selector::Digest(part.digest.clone()));
        let found = self.remote.manifest(&selector).await?;
        if let Some(part) = part {
            check_manifest(part, &found.bytes)?;
        }
        Ok(found)
    }

    async fn blob(&self, blob: &Descriptor, from: u64) -> Result<ByteStream, CopyError> {
        Ok(self.remote.blob(&blob.digest, from).await?)
    }

    fn repository(&self) -> Option<(&str, &Repository)> {
        Some((self.remote.host(), self.remote.repository()))
    }
}

#[async_trait]
impl Destination for RegistryEndpoint {
    async fn has(&self, blob: &Descriptor) -> Result<bool, CopyError> {
        Ok(self.remote.has_blob(&blob.digest).await?)
    }

    async fn take_over(&self, blob: &Descriptor, from: (&str, &Repository)) -> Result<bool, CopyError> {
        let is_elsewhere = from.0 != self.remote.host() || from.1 == self.remote.repository();
        if is_elsewhere {
            return Ok(false);
        }
        Ok(self.remote.mount(&blob.digest, from.1).await?)
    }

    async fn put(&self, blob: &Descriptor, content: &mut Content<'_>) -> Result<(), CopyError> {
        let mut upload = self.remote.begin_upload().await?;
        let put = async {
            while let Some(bytes) = content.next().await? {
                upload.write(bytes).await?;
            }
            Ok::<_, CopyError>(())
        };
        match put.await {
            Ok(()) => Ok(upload.finish(&blob.digest).await?),
            Err(error) => {
                upload.cancel().await;
                Err(error)
            }
        }
    }

    async fn put_manifest(&self, manifest: &RawManifest, is_image: bool) -> Result<(), CopyError> {
        let selector = if is_image { self.selector.clone() } else { Selector::Digest(manifest.digest.clone()) };
        Ok(self.remote.put_manifest(&selector, manifest).await?)
    }
}

/// An image in a layout: the only one, or the one of a name.
pub struct LayoutEndpoint {
    pub layout: Layout,
    image: Option<Descriptor>,
    name: Option<Reference>,
}

impl LayoutEndpoint {
    /// An image that is there.
    pub fn open(layout: Layout, name: Option<&str>) -> Result<Self, CopyError> {
        let place = layout.dir().display().to_string();
        let index = layout.index().map_err(failed(&place))?;
        let image = pick(&place, &index.manifests, name)?;
        Ok(Self { layout, name: full_name(&image), image: Some(image) })
    }

    /// One for each image that is there.
    pub fn open_all(layout: &Layout) -> Result<Vec<Self>, CopyError> {
        let place = layout.dir().display().to_string();
        let images = layout.index().map_err(failed(&place))?.manifests;
        if images.is_empty() {
            return Err(no_image(&place, "", &[]));
        }
        let image = |image: Descriptor| Self { layout: layout.clone(), name: full_name(&image), image: Some(image) };
        Ok(images.into_iter().map(image).collect())
    }

    /// An image to come.
    pub fn new(layout: Layout, name: Option<Reference>) -> Self {
        Self { layout, image: None, name }
    }

    pub fn name(&self) -> Option<&Reference> {
        self.name.as_ref()
    }

    fn place(&self) -> String {
        self.layout.dir().display().to_string()
    }
}

#[async_trait]
impl Source for LayoutEndpoint {
    async fn manifest(&self, part: Option<&Descriptor>) -> Result<RawManifest, CopyError> {
        let part = part.or(self.image.as_ref()).ok_or_else(|| no_image(&self.place(), "", &[]))?;
        let path = self.layout.blob_path(&part.digest);
        let place = path.display().to_string();
        let len = tokio::fs::metadata(&path).await.map_err(failed(&place))?.len();
        if len > MANIFEST_LEN_MAX as u64 {
            let digest = part.digest.clone();
            return Err(CopyError::SizeDiffers { digest, expected: part.size, actual: len });
        }
        let bytes = tokio::fs::read(&path).await.map_err(failed(&place))?;
        checked(part, bytes)
    }

    async fn blob(&self, blob: &Descriptor, from: u64) -> Result<ByteStream, CopyError> {
        let path = self.layout.blob_path(&blob.digest);
        let place = path.display().to_string();
        let mut file = tokio::fs::File::open(&path).await.map_err(failed(&place))?;
        file.seek(std::io::SeekFrom::Start(from)).await.map_err(failed(&place))?;
        Ok(Box::pin(ReaderStream::with_capacity(file, READ_BUFFER)))
    }
}

#[async_trait]
impl Destination for LayoutEndpoint {
    async fn has(&self, blob: &Descriptor) -> Result<bool, CopyError> {
        let found = tokio::fs::metadata(self.layout.blob_path(&blob.digest)).await;
        // Content stored under its digest was verified when it was written.
        Ok(found.is_ok_and(|found| found.len() == blob.size))
    }

    async fn put(&self, blob: &Descriptor, content: &mut Content<'_>) -> Result<(), CopyError> {
        let path = self.layout.blob_path(&blob.digest);
        let place = path.display().to_string();
        let partial = path.with_file_name(format!(".{}.partial", blob.digest.hex()));
        if let Some(parent) = path.parent() {
            tokio::fs::create_dir_all(parent).await.map_err(failed(&place))?;
        }
        if let Some((hashed, len)) = hash_partial(&partial, blob).await {
            content.begin_at(hashed, len);
        }
        let file = tokio::fs::File::options().create(true).append(true).open(&partial).await;
        let mut file = file.map_err(failed(&place))?;
        loop {
            match content.next().await {
                Ok(Some(bytes)) => file.write_all(&bytes).await.map_err(failed(&place))?,
                Ok(None) => break,
                Err(error) => {
                    let _ = file.flush().await;
                    // Wrong bytes are of no use to go on from; few bytes are.
                    if matches!(error, CopyError::DigestDiffers { .. } | CopyError::SizeDiffers { .. }) {
                        let _ = tokio::fs::remove_file(&partial).await;
                    }
                    return Err(error);
                }
            }
        }
        file.flush().await.map_err(failed(&place))?;
        file.sync_all().await.map_err(failed(&place))?;
        tokio::fs::rename(&partial, &path).await.map_err(failed(&place))
    }

    async fn put_manifest(&self, manifest: &RawManifest, is_image: bool) -> Result<(), CopyError> {
        let (layout, manifest, name) = (self.layout.clone(), manifest.clone(), self.name.clone());
        let place = self.place();
        let write = move || {
            let path = layout.blob_path(&manifest.digest);
            std::fs::create_dir_all(path.parent().unwrap_or(layout.dir()))?;
            atomic_file::replace(&path, &manifest.bytes, 0o644)?;
            if is_image { layout.add(&manifest.descriptor(), name.as_ref()) } else { Ok(()) }
        };
        let written = tokio::task::spawn_blocking(write).await.map_err(std::io::Error::other);
        written.and_then(|written| written).map_err(failed(&place))
    }
}

/// The part of a blob an earlier attempt left.
async fn hash_partial(partial: &Path, blob: &Descriptor) -> Option<(Hasher, u64)> {
    let (partial, blob) = (partial.to_owned(), blob.clone());
    let hash = move || {
        let mut file = std::fs::File::open(&partial).ok()?;
        let len = file.metadata().ok()?.len();
        if len > blob.size {
            std::fs::remove_file(&partial).ok()?;
            return None;
        }
        let mut hasher = Hasher::new(blob.digest.algorithm());
        let mut buffer = vec![0; READ_BUFFER];
        loop {
            match file.read(&mut buffer).ok()? {
                0 => return Some((hasher, len)),
                n => hasher.update(&buffer[..n]),
            }
        }
    };
    tokio::task::spawn_blocking(hash).await.ok().flatten()
}

/// An image in an archive: the only one, or the one of a name.
pub struct ArchiveEndpoint {
    archive: Arc<Archive>,
    image: Descriptor,
    place: String,
}

impl ArchiveEndpoint {
    pub fn open(path: &Path, scratch: &Path, name: Option<&str>) -> Result<Self, CopyError> {
        let place = path.display().to_string();
        let archive = Archive::open(path, scratch).map_err(failed(&place))?;
        let image = pick(&place, &archive.index().manifests, name)?;
        Ok(Self { archive: Arc::new(archive), image, place })
    }

    /// One for each image with a name of its own, or the only one there is.
    pub fn open_all(path: &Path, scratch: &Path) -> Result<Vec<Self>, CopyError> {
        let place = path.display().to_string();
        let archive = Arc::new(Archive::open(path, scratch).map_err(failed(&place))?);
        let images = archive.index().manifests.clone();
        if images.is_empty() {
            return Err(no_image(&place, "", &[]));
        }
        Ok(images.into_iter().map(|image| Self { archive: archive.clone(), image, place: place.clone() }).collect())
    }

    pub fn name(&self) -> Option<Reference> {
        full_name(&self.image)
    }
}

#[async_trait]
impl Source for ArchiveEndpoint {
    async fn manifest(&self, part: Option<&Descriptor>) -> Result<RawManifest, CopyError> {
        let part = part.unwrap_or(&self.image).clone();
        let (archive, digest) = (self.archive.clone(), part.digest.clone());
        let read = move || {
            let mut bytes = Vec::new();
            archive.blob(&digest, 0)?.take(MANIFEST_LEN_MAX as u64 + 1).read_to_end(&mut bytes).map(|_| bytes)
        };
        let bytes = tokio::task::spawn_blocking(read).await.map_err(std::io::Error::other);
        checked(&part, bytes.and_then(|bytes| bytes).map_err(failed(&self.place))?)
    }

    async fn blob(&self, blob: &Descriptor, from: u64) -> Result<ByteStream, CopyError> {
        let mut reader = self.archive.blob(&blob.digest, from).map_err(failed(&self.place))?;
        let (sender, receiver) = tokio::sync::mpsc::channel(READ_AHEAD);
        tokio::task::spawn_blocking(move || {
            loop {
                let mut block = vec![0; READ_BUFFER];
                let read = reader.read(&mut block).map(|n| {
                    block.truncate(n);
                    Bytes::from(block)
                });
                let goes_on = read.as_ref().is_ok_and(|block| !block.is_empty());
                let must_send = goes_on || read.is_err();
                let is_received = must_send && sender.blocking_send(read).is_ok();
                if !goes_on || !is_received {
                    return;
                }
            }
        });
        Ok(Box::pin(futures::stream::unfold(receiver, |mut receiver| async move {
            receiver.recv().await.map(|block| (block, receiver))
        })))
    }
}

fn checked(part: &Descriptor, bytes: Vec<u8>) -> Result<RawManifest, CopyError> {
    check_manifest(part, &bytes)?;
    Ok(RawManifest { digest: part.digest.clone(), media_type: part.media_type.clone(), bytes: bytes.into() })
}

/// The image of a name among those of a place.
fn pick(place: &str, images: &[Descriptor], name: Option<&str>) -> Result<Descriptor, CopyError> {
    match (name, images) {
        (None, [image]) => Ok(image.clone()),
        (None, []) => Err(no_image(place, "", images)),
        // Names of one and the same image.
        (None, [first, rest @ ..]) if rest.iter().all(|image| image.digest == first.digest) => Ok(first.clone()),
        (None, _) => Err(CopyError::Ambiguous { place: place.to_owned(), names: names_of(images) }),
        (Some(name), _) => {
            let full = name.parse::<Reference>().ok();
            let is_it = |image: &&Descriptor| {
                let said = |key| image.annotations.get(key).is_some_and(|said: &String| said == name);
                said(REF_NAME) || said(IMAGE_NAME) || (full.is_some() && full_name(image) == full)
            };
            images.iter().find(is_it).cloned().ok_or_else(|| no_image(place, name, images))
        }
    }
}

fn full_name(image: &Descriptor) -> Option<Reference> {
    let full = image.annotations.get(IMAGE_NAME);
    // Some writers put the whole name where the tag belongs.
    let full = full.or_else(|| image.annotations.get(REF_NAME).filter(|name| name.contains(['/', ':'])));
    full.and_then(|name| name.parse().ok())
}

fn names_of(images: &[Descriptor]) -> String {
    let name = |image: &Descriptor| {
        let said = image.annotations.get(IMAGE_NAME).or_else(|| image.annotations.get(REF_NAME));
        said.cloned().unwrap_or_else(|| image.digest.to_string())
    };
    if images.is_empty() { "none".to_owned() } else { images.iter().map(name).collect::<Vec<_>>().join(", ") }
}

fn no_image(place: &str, name: &str, images: &[Descriptor]) -> CopyError {
    CopyError::NoImage { place: place.to_owned(), name: name.to_owned(), names: names_of(images) }
}

fn failed(place: &str) -> impl FnOnce(std::io::Error) -> CopyError + use<> {
    let place = place.to_owned();
    move |source| CopyError::Io { place, source }
}
