//! Builds an image from a directory: by ourselves when its Dockerfile only copies and sets, else by the tool that is installed.

pub mod dockerfile;
pub mod ignore;
#[cfg(test)]
mod tests;
mod tools;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::client::{Client, ClientError};
use crate::copy::endpoints::{LayoutEndpoint, RegistryEndpoint};
use crate::copy::{CopyError, CopyOptions, CopyProgress, Destination, RawManifest, Source, copy};
use crate::image::builder::{Base, Builder, Layer};
use crate::image::layout::Layout;
use crate::manifest::{Descriptor, Kind, Platform};
use crate::name::Reference;
use dockerfile::{Copy, Dockerfile, DockerfileError};
use ignore::Ignore;

const CONFIG_LEN_MAX: u64 = 8 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("{path}")]
    Io { path: String, source: io::Error },
    #[error("{path}: {error}")]
    Dockerfile { path: String, error: DockerfileError },
    #[error(
        "{path}:{line}: {instruction} needs a builder, and none is here: install buildah (`apt-get install buildah`) or \
         Docker; or do without it: FROM, COPY, ENV, CMD, ENTRYPOINT, EXPOSE, WORKDIR, LABEL and USER need none"
    )]
    NeedsTool { path: String, line: usize, instruction: String },
    #[error("{tool} failed with {status}:\n{said}")]
    Tool { tool: &'static str, status: String, said: String },
    #[error("{path}:{line}: COPY {pattern}: {why}")]
    Copy { path: String, line: usize, pattern: String, why: String },
    #[error("cannot use {image} to build on")]
    Base { image: String, source: Box<CopyError> },
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Taken(#[from] CopyError),
}

/// Options of a build.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    pub context: PathBuf,
    /// The context's `Dockerfile` when none is named.
    pub dockerfile: Option<PathBuf>,
    pub name: Reference,
    pub arguments: Vec<(String, String)>,
    pub platform: Platform,
    /// A registry that is asked for images to build on before their own is.
    pub mirror: Option<String>,
    /// Compresses layers.
    pub compresses: bool,
}

impl BuildOptions {
    pub fn dockerfile(&self) -> PathBuf {
        self.dockerfile.clone().unwrap_or_else(|| self.context.join("Dockerfile"))
    }
}

/// Builds into a layout; the image has its name there.
pub async fn build(
    options: &BuildOptions,
    client: &Arc<Client>,
    layout: &Layout,
    progress: &dyn CopyProgress,
) -> Result<Descriptor, BuildError> {
    let path = options.dockerfile();
    let failed = |source| BuildError::Io { path: path.display().to_string(), source };
    let text = std::fs::read_to_string(&path).map_err(failed)?;
    match Dockerfile::parse(&text, &options.arguments) {
        Ok(parsed) => build_ourselves(options, &parsed, client, layout, progress).await,
        Err(DockerfileError::NeedsTool { line, instruction }) => match tools::find().await {
            Some(tool) => tools::build(tool, options, layout, progress).await,
            None => Err(BuildError::NeedsTool { path: path.display().to_string(), line, instruction }),
        },
        Err(error) => Err(BuildError::Dockerfile { path: path.display().to_string(), error }),
    }
}

async fn build_ourselves(
    options: &BuildOptions,
    parsed: &Dockerfile,
    client: &Arc<Client>,
    layout: &Layout,
    progress: &dyn CopyProgress,
) -> Result<Descriptor, BuildError> {
    let mut builder = match &parsed.from {
        None => Builder::new(options.platform.clone()),
        Some(from) => {
            let base = fetch_base(from, options, client, layout, progress).await;
            Builder::on(base?, options.platform.clone())
        }
    };
    let path = options.dockerfile().display().to_string();
    let (options, parsed, layout) = (options.clone(), parsed.clone(), layout.clone());
    let written = tokio::task::spawn_blocking(move || {
        let ignore = Ignore::of(&options.context, &options.dockerfile())?;
        for step in &parsed.copies {
            builder.layer(layer_of(step, &options, &ignore)?);
        }
        builder.config = parsed.config;
        builder.compresses = options.compresses;
        let failed = |source| BuildError::Io { path: options.context.display().to_string(), source };
        let image = builder.write(&layout).map_err(failed)?;
        layout.add(&image, Some(&options.name)).map_err(failed)?;
        Ok(image)
    });
    written.await.unwrap_or_else(|broken| Err(BuildError::Io { path, source: io::Error::other(broken) }))
}

/// Brings the image another is built on into the layout.
async fn fetch_base(
    from: &Reference,
    options: &BuildOptions,
    client: &Arc<Client>,
    layout: &Layout,
    progress: &dyn CopyProgress,
) -> Result<Base, BuildError> {
    let failed = |source: CopyError| BuildError::Base { image: from.to_string(), source: Box::new(source) };
    let mirrored = options.mirror.iter().flat_map(|mirror| from.retagged(mirror));
    let mut found = None;
    for name in mirrored.chain([from.clone()]) {
        let remote = client.remote(&name).await.map_err(CopyError::from);
        let source = remote.map(|remote| RegistryEndpoint { remote, selector: name.selector() });
        match source {
            Ok(source) if source.manifest(None).await.is_ok() => {
                found = Some(source);
                break;
            }
            // The last word is the registry's own.
            Ok(source) if name == *from => source.manifest(None).await.map(|_| ()).map_err(failed)?,
            Err(error) if name == *from => return Err(failed(error)),
            _ => {}
        }
    }
    let source = found.ok_or_else(|| failed(CopyError::Client(ClientError::NotFound { what: from.to_string() })))?;
    let wanted = CopyOptions { platform: Some(options.platform.clone()), ..CopyOptions::default() };
    let target = Unnamed(LayoutEndpoint::new(layout.clone(), None));
    let manifest = copy(&source, &target, &wanted, progress).await.map_err(failed)?;
    let Kind::Image { config, layers } = manifest.parse().map_err(failed)?.kind else {
        return Err(failed(CopyError::TooDeep));
    };
    let path = layout.blob_path(&config.digest);
    let read = |path: &Path| {
        if std::fs::metadata(path)?.len() > CONFIG_LEN_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the config is too large"));
        }
        serde_json::from_slice(&std::fs::read(path)?).map_err(io::Error::from)
    };
    let config = read(&path).map_err(|source| BuildError::Io { path: path.display().to_string(), source })?;
    Ok(Base { config, layers })
}

/// Copies the blobs of an image without listing the image.
struct Unnamed(LayoutEndpoint);

#[async_trait::async_trait]
impl Destination for Unnamed {
    async fn has(&self, blob: &Descriptor) -> Result<bool, CopyError> {
        self.0.has(blob).await
    }

    async fn put(&self, blob: &Descriptor, content: &mut crate::copy::Content<'_>) -> Result<(), CopyError> {
        self.0.put(blob, content).await
    }

    async fn put_manifest(&self, manifest: &RawManifest, _is_image: bool) -> Result<(), CopyError> {
        self.0.put_manifest(manifest, false).await
    }
}

/// The files one instruction adds.
fn layer_of(step: &Copy, options: &BuildOptions, ignore: &Ignore) -> Result<Layer, BuildError> {
    let path = options.dockerfile().display().to_string();
    let mut layer = Layer::new(&step.text);
    if step.sources.is_empty() {
        layer.directory(&step.target, 0o755);
        return Ok(layer);
    }
    let mut found = Vec::new();
    for pattern in &step.sources {
        let refused =
            |why: String| BuildError::Copy { path: path.clone(), line: step.line, pattern: pattern.clone(), why };
        let matches = ignore::matches(&options.context, pattern, ignore);
        let matches = matches.map_err(|error| refused(error.to_string()))?;
        if matches.is_empty() {
            return Err(refused(
                "there is no such file in the build context, or .dockerignore leaves it out".to_owned(),
            ));
        }
        found.extend(matches.into_iter().map(|matched| (pattern.clone(), matched)));
    }
    let is_directory = step.target.ends_with('/') || found.len() > 1;
    for (pattern, matched) in found {
        let refused =
            |why: String| BuildError::Copy { path: path.clone(), line: step.line, pattern: pattern.clone(), why };
        let host = inside(&options.context, &matched).map_err(refused)?;
        let failed = |source| BuildError::Io { path: host.display().to_string(), source };
        if host.is_dir() {
            let keep = |below: &Path| !ignore.leaves_out(&matched.join(below));
            layer.directory(&step.target, 0o755).tree(&step.target, &host, &keep).map_err(failed)?;
        } else {
            let name = matched.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let target = if is_directory { format!("{}/{name}", step.target) } else { step.target.clone() };
            layer.file(&target, &host).map_err(failed)?;
        }
    }
    if let Some((user, group)) = step.owner {
        layer.owned_by(user, group);
    }
    if let Some(mode) = step.mode {
        layer.with_mode(mode);
    }
    Ok(layer)
}

/// A file of the context, wherever links lead; never one outside.
fn inside(context: &Path, matched: &Path) -> Result<PathBuf, String> {
    let root = context.canonicalize().map_err(|error| error.to_string())?;
    let host = root.join(matched).canonicalize().map_err(|error| error.to_string())?;
    if host.starts_with(&root) { Ok(host) } else { Err("it leads out of the build context".to_owned()) }
}
