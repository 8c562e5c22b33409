//! Preloading: images are pulled, given names in a registry of ours, pushed, and looked for there part by part.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::client::{Client, ClientError};
use crate::copy::endpoints::{ArchiveEndpoint, LayoutEndpoint, RegistryEndpoint};
use crate::copy::{CopyError, CopyOptions, CopyProgress, Source, copy};
use crate::digest::Digest;
use crate::image::layout::Layout;
use crate::name::{NameError, Reference};

#[derive(Debug, thiserror::Error)]
pub enum PreloadError {
    #[error(transparent)]
    Copy(#[from] CopyError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("{0} has an image without a name: say --tag NAME")]
    Nameless(String),
}

/// The source an image is loaded from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageSource {
    Archive(PathBuf),
    Layout(PathBuf),
    Image(Reference),
}

impl ImageSource {
    /// A file or a directory when there is one of this name, else an image.
    pub fn find(text: &str) -> Result<Self, NameError> {
        let path = Path::new(text);
        match (path.is_file(), path.is_dir()) {
            (true, _) => Ok(Self::Archive(path.to_owned())),
            (_, true) if Layout::is_one(path) => Ok(Self::Layout(path.to_owned())),
            _ => text.parse().map(Self::Image),
        }
    }
}

impl std::fmt::Display for ImageSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Archive(path) | Self::Layout(path) => path.display().fmt(f),
            Self::Image(name) => name.fmt(f),
        }
    }
}

/// An image that is there now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedImage {
    pub name: Reference,
    pub digest: Digest,
}

/// A loaded image, with its name where it has one.
type Named = (Box<dyn Source>, Option<Reference>);

/// Opens the images of a source. `scratch` holds files that must be unpacked first.
pub async fn open(client: &Arc<Client>, from: &ImageSource, scratch: &Path) -> Result<Vec<Named>, PreloadError> {
    match from {
        ImageSource::Image(name) => {
            let source = RegistryEndpoint { remote: client.remote(name).await?, selector: name.selector() };
            Ok(vec![(Box::new(source), Some(name.clone()))])
        }
        ImageSource::Archive(path) => {
            let (path, scratch) = (path.clone(), scratch.to_owned());
            let place = path.display().to_string();
            let opened = tokio::task::spawn_blocking(move || ArchiveEndpoint::open_all(&path, &scratch)).await;
            let broken = |error| CopyError::Io { place, source: std::io::Error::other(error) };
            let images = opened.map_err(broken)??;
            Ok(images
                .into_iter()
                .map(|image| (image.name(), image))
                .map(|(name, image)| (boxed(image), name))
                .collect())
        }
        ImageSource::Layout(path) => {
            let failed = |source| CopyError::Io { place: path.display().to_string(), source };
            let layout = Layout::open(path).map_err(failed)?;
            let images = LayoutEndpoint::open_all(&layout)?;
            Ok(images
                .into_iter()
                .map(|image| (image.name().cloned(), image))
                .map(|(name, image)| (boxed(image), name))
                .collect())
        }
    }
}

fn boxed(source: impl Source + 'static) -> Box<dyn Source> {
    Box::new(source)
}

/// Brings every image of a place into a registry.
pub async fn preload(
    client: &Arc<Client>,
    from: &ImageSource,
    name: Option<&Reference>,
    to: &str,
    options: &CopyOptions,
    scratch: &Path,
    progress: &dyn CopyProgress,
) -> Result<Vec<LoadedImage>, PreloadError> {
    let mut loaded = Vec::new();
    for (source, own_name) in open(client, from, scratch).await? {
        let name = name.cloned().or(own_name);
        let name = name.ok_or_else(|| PreloadError::Nameless(from.to_string()))?;
        loaded.extend(push(client, source.as_ref(), &name, to, options, progress).await?);
    }
    Ok(loaded)
}

/// Pushes an image under the names it gets in a registry, and looks whether all of it arrived.
pub async fn push(
    client: &Arc<Client>,
    source: &dyn Source,
    name: &Reference,
    to: &str,
    options: &CopyOptions,
    progress: &dyn CopyProgress,
) -> Result<Vec<LoadedImage>, PreloadError> {
    let mut loaded: Vec<LoadedImage> = Vec::new();
    for name in name.retagged(to) {
        let target = RegistryEndpoint { remote: client.remote(&name).await?, selector: name.selector() };
        // Further names take over what the first brought.
        let manifest = match loaded.first() {
            None => copy(source, &target, options, progress).await?,
            Some(first) => {
                let selector = crate::name::Selector::Digest(first.digest.clone());
                let near = RegistryEndpoint { remote: client.remote(&first.name).await?, selector };
                copy(&near, &target, &CopyOptions { platform: None, ..options.clone() }, progress).await?
            }
        };
        target.remote.verify(&target.selector, &manifest.digest).await?;
        loaded.push(LoadedImage { name, digest: manifest.digest });
    }
    Ok(loaded)
}
