//! Archives: an OCI layout in a tar file that also answers to `docker load`, and reading what others saved.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read};
use std::path::Path;

use serde::Deserialize;
use serde_json::json;

use super::layout::{IMAGE_NAME, Index, Layout, REF_NAME};
use super::tar::{Entry, EntryKind, TarIndex, TarWriter, is_gzip, part};
use crate::digest::{Algorithm, Digest};
use crate::manifest::{
    Descriptor, Kind, MANIFEST_LEN_MAX, Manifest, OCI_CONFIG, OCI_LAYER, OCI_LAYER_GZIP, OCI_MANIFEST, Platform,
};
use crate::name::Reference;

const DOCUMENT_LEN_MAX: u64 = 16 * 1024 * 1024;

/// Limits of a gzipped archive. Images shrink to a third or so; a small file that grows a thousandfold is made to fill the disk.
struct UnpackLimits {
    /// Every archive may take this much.
    len_free: u64,
    /// A larger one may be this many times the size of its file.
    growth_max: u64,
}

const UNPACK_LIMITS: UnpackLimits = UnpackLimits { len_free: 1 << 30, growth_max: 32 };

/// Packs a layout into a file, with the `manifest.json` that Docker reads.
pub fn pack(layout: &Layout, to: &Path) -> io::Result<()> {
    let index = layout.index()?;
    let tmp = to.with_file_name(format!(".{}.{}", file_name(to), uuid::Uuid::new_v4()));
    let packed = (|| {
        let mut tar = TarWriter::new(BufWriter::with_capacity(1024 * 1024, File::create(&tmp)?));
        tar.append_bytes("oci-layout", Layout::MARK.as_bytes())?;
        tar.append_bytes("index.json", &serde_json::to_vec(&index)?)?;
        let entries =
            index.manifests.iter().map(|image| docker_entry(layout, image)).collect::<io::Result<Vec<_>>>()?;
        let entries: Vec<_> = entries.into_iter().flatten().collect();
        if !entries.is_empty() {
            tar.append_bytes("manifest.json", &serde_json::to_vec(&entries)?)?;
        }
        for directory in ["blobs", "blobs/sha256"] {
            let kind = EntryKind::Directory;
            tar.append(&Entry { path: directory, kind, mode: 0o755, owner: (0, 0) }, io::empty())?;
        }
        for digest in reachable(layout, &index.manifests)? {
            let file = File::open(layout.blob_path(&digest))?;
            let path = format!("blobs/{}/{}", digest.algorithm().name(), digest.hex());
            let kind = EntryKind::File { len: file.metadata()?.len() };
            tar.append(&Entry { path: &path, kind, mode: 0o644, owner: (0, 0) }, file)?;
        }
        let file = tar.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        fs::rename(&tmp, to)
    })();
    if packed.is_err() {
        let _ = fs::remove_file(&tmp);
    }
    packed
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The entry of an image in Docker's list; none for an index, which older readers do not know.
fn docker_entry(layout: &Layout, image: &Descriptor) -> io::Result<Option<serde_json::Value>> {
    let bytes = fs::read(layout.blob_path(&image.digest))?;
    let Ok(Manifest { kind: Kind::Image { config, layers }, .. }) = Manifest::parse(None, &bytes) else {
        return Ok(None);
    };
    let path = |digest: &Digest| format!("blobs/{}/{}", digest.algorithm().name(), digest.hex());
    let layers: Vec<String> = layers.iter().map(|layer| path(&layer.digest)).collect();
    let names: Vec<&String> = image.annotations.get(IMAGE_NAME).into_iter().collect();
    Ok(Some(json!({"Config": path(&config.digest), "RepoTags": names, "Layers": layers})))
}

/// Everything the images are made of, each once, sorted.
fn reachable(layout: &Layout, images: &[Descriptor]) -> io::Result<Vec<Digest>> {
    let mut found = std::collections::BTreeSet::new();
    let mut open: Vec<Digest> = images.iter().map(|image| image.digest.clone()).collect();
    while let Some(digest) = open.pop() {
        if !found.insert(digest.clone()) {
            continue;
        }
        let manifest = fs::read(layout.blob_path(&digest))?;
        let manifest = Manifest::parse(None, &manifest).map_err(|error| invalid(&error.to_string()))?;
        match &manifest.kind {
            Kind::Index { manifests } => open.extend(manifests.iter().map(|part| part.digest.clone())),
            Kind::Image { .. } => {
                found.extend(manifest.references().filter(|r| !r.is_foreign()).map(|r| r.digest.clone()));
            }
        }
    }
    Ok(found.into_iter().collect())
}

/// An archive of images, read where it lies.
pub struct Archive {
    file: File,
    tar: TarIndex,
    index: Index,
    /// Made from Docker's list, which has configs and layers but no manifests: by digest, the document or the place.
    made: Vec<(Digest, Content)>,
}

enum Content {
    Bytes(Vec<u8>),
    Part { offset: u64, len: u64 },
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerEntry {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

impl Archive {
    /// Opens an archive by `docker save`, `skopeo`, `podman`, `ctr` or us; a gzipped one is unpacked in `scratch`.
    pub fn open(path: &Path, scratch: &Path) -> io::Result<Self> {
        let file = if is_gzip(path)? { unpack(path, scratch, &UNPACK_LIMITS)? } else { File::open(path)? };
        let tar = TarIndex::read(&file)?;
        let read = |name: &str| tar.read_small(&file, name, DOCUMENT_LEN_MAX);
        let docker = read("manifest.json")?.map(|bytes| serde_json::from_slice::<Vec<DockerEntry>>(&bytes)).transpose();
        let docker = docker.map_err(|error| invalid(&format!("its manifest.json: {error}")))?.unwrap_or_default();
        if let Some(bytes) = read("index.json")? {
            let mut index: Index =
                serde_json::from_slice(&bytes).map_err(|error| invalid(&format!("its index.json: {error}")))?;
            name_from_docker(&mut index, &docker);
            return Ok(Self { file, tar, index, made: Vec::new() });
        }
        if docker.is_empty() {
            return Err(invalid("it holds no image: neither index.json nor manifest.json is in it"));
        }
        let index = Index {
            schema_version: 2,
            media_type: crate::manifest::OCI_INDEX.to_owned(),
            manifests: Vec::new(),
            annotations: Default::default(),
        };
        let mut archive = Self { file, tar, index, made: Vec::new() };
        docker.iter().try_for_each(|entry| archive.take_docker(entry))?;
        Ok(archive)
    }

    pub fn index(&self) -> &Index {
        &self.index
    }

    /// A blob's bytes from an offset on.
    pub fn blob(&self, digest: &Digest, from: u64) -> io::Result<Box<dyn Read + Send>> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, format!("the archive lacks {digest}"));
        let found = self.made.iter().find(|(made, _)| made == digest).map(|(_, content)| content);
        let (offset, len) = match found {
            Some(Content::Bytes(bytes)) => {
                let rest = bytes.get(usize::try_from(from).unwrap_or(usize::MAX)..).unwrap_or_default();
                return Ok(Box::new(io::Cursor::new(rest.to_vec())));
            }
            Some(Content::Part { offset, len }) => (*offset, *len),
            None => {
                let path = format!("blobs/{}/{}", digest.algorithm().name(), digest.hex());
                self.tar.find(&path).ok_or_else(missing)?
            }
        };
        let from = from.min(len);
        Ok(Box::new(part(&self.file, offset + from, len - from)?))
    }

    /// Makes a manifest of what Docker saved: a config and layers, which lie in the archive as they are.
    fn take_docker(&mut self, entry: &DockerEntry) -> io::Result<()> {
        let missing = |path: &str| invalid(&format!("{path} is not in it"));
        let config = self.tar.read_small(&self.file, &entry.config, MANIFEST_LEN_MAX as u64)?;
        let config = config.ok_or_else(|| missing(&entry.config))?;
        let mut layers = Vec::new();
        for path in &entry.layers {
            let (offset, len) = self.tar.find(path).ok_or_else(|| missing(path))?;
            let mut magic = [0; 2];
            let is_gzip = part(&self.file, offset, len)?.read(&mut magic)? == 2 && magic == [0x1f, 0x8b];
            let digest = Digest::of_reader(Algorithm::Sha256, part(&self.file, offset, len)?)?;
            let media_type = if is_gzip { OCI_LAYER_GZIP } else { OCI_LAYER };
            layers.push(Descriptor::new(media_type, digest.clone(), len));
            self.made.push((digest, Content::Part { offset, len }));
        }
        let platform: Option<Platform> = serde_json::from_slice(&config).ok();
        let config_descriptor = Descriptor::new(OCI_CONFIG, Digest::of(&config), config.len() as u64);
        self.made.push((config_descriptor.digest.clone(), Content::Bytes(config)));
        let manifest =
            json!({"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": config_descriptor, "layers": layers});
        let manifest = serde_json::to_vec(&manifest)?;
        let mut image = Descriptor::new(OCI_MANIFEST, Digest::of(&manifest), manifest.len() as u64);
        image.platform = platform;
        self.made.push((image.digest.clone(), Content::Bytes(manifest)));
        let names = entry.repo_tags.clone().unwrap_or_default();
        self.index.manifests.extend(named(&image, &names));
        Ok(())
    }
}

/// Unpacks a gzipped file to one in `scratch` that has no name and goes with the handle.
fn unpack(path: &Path, scratch: &Path, limits: &UnpackLimits) -> io::Result<File> {
    let plain = scratch.join(format!("{}.tar", uuid::Uuid::new_v4()));
    let mut out = File::options().create_new(true).read(true).write(true).open(&plain)?;
    // Only this archive needs its name.
    fs::remove_file(&plain)?;
    let packed = File::open(path)?;
    let len_max = packed.metadata()?.len().saturating_mul(limits.growth_max).max(limits.len_free);
    let mut unpacked = flate2::read::MultiGzDecoder::new(packed).take(len_max);
    io::copy(&mut unpacked, &mut out)?;
    if unpacked.limit() == 0 && unpacked.into_inner().read(&mut [0])? > 0 {
        return Err(invalid(&format!(
            "it is compressed and has more than {len_max} bytes when unpacked, {} times its size; unpack it with gunzip if you trust it",
            limits.growth_max
        )));
    }
    Ok(out)
}

/// One descriptor per name; one without when there is no name.
fn named(image: &Descriptor, names: &[String]) -> Vec<Descriptor> {
    let with_name = |name: &String| {
        let mut image = image.clone();
        let name = name.parse::<Reference>().map_or_else(|_| name.clone(), |name| name.to_string());
        image.annotations.insert(IMAGE_NAME.to_owned(), name);
        image
    };
    if names.is_empty() { vec![image.clone()] } else { names.iter().map(with_name).collect() }
}

/// Images without a full name get the one Docker's list has for them, when there is one image only.
fn name_from_docker(index: &mut Index, docker: &[DockerEntry]) {
    let ([image], [entry]) = (&index.manifests[..], docker) else { return };
    let has_name = image.annotations.contains_key(IMAGE_NAME)
        || image.annotations.get(REF_NAME).is_some_and(|name| name.contains('/'));
    let names = entry.repo_tags.clone().unwrap_or_default();
    if !has_name && !names.is_empty() {
        index.manifests = named(&image.clone(), &names);
    }
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_size_of_an_unpacked_archive_is_limited() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("bomb.tar.gz");
        let mut packed =
            flate2::write::GzEncoder::new(File::create(&path).expect("created"), flate2::Compression::best());
        packed.write_all(&vec![0; 1 << 20]).expect("written");
        packed.finish().expect("written");
        let packed_len = fs::metadata(&path).expect("a file").len();
        assert!(packed_len * 100 < 1 << 20, "{packed_len} bytes are no bomb");

        let strict = UnpackLimits { len_free: 1024, growth_max: 32 };
        let error = unpack(&path, folder.path(), &strict).expect_err("it grows too much").to_string();
        assert!(error.contains(&format!("more than {} bytes", packed_len * 32)), "{error}");
        let exact = UnpackLimits { len_free: 1 << 20, growth_max: 1 };
        let plain = unpack(&path, folder.path(), &exact).expect("it has just the permitted size");
        assert_eq!(plain.metadata().expect("a file").len(), 1 << 20);
        assert_eq!(fs::read_dir(folder.path()).expect("a directory").count(), 1, "nothing is left behind");
    }
}
