//! OCI layouts: a directory with blobs by digest and an index of the images in it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::digest::{Digest, HashingWriter};
use crate::manifest::{Descriptor, OCI_INDEX};
use crate::name::Reference;

/// The full name of an image, which containerd and Docker write in addition to the tag.
pub const IMAGE_NAME: &str = "io.containerd.image.name";
pub const REF_NAME: &str = "org.opencontainers.image.ref.name";
const INDEX_LEN_MAX: u64 = 16 * 1024 * 1024;

#[derive(Clone, Debug)]
pub struct Layout {
    dir: PathBuf,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    pub schema_version: u32,
    #[serde(default = "index_type")]
    pub media_type: String,
    pub manifests: Vec<Descriptor>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

fn index_type() -> String {
    OCI_INDEX.to_owned()
}

impl Layout {
    pub const MARK: &'static str = r#"{"imageLayoutVersion":"1.0.0"}"#;

    pub fn is_one(dir: &Path) -> bool {
        dir.join("oci-layout").is_file() && dir.join("index.json").is_file()
    }

    /// Makes an empty layout, or opens the one that is there.
    pub fn create(dir: &Path) -> io::Result<Self> {
        fs::create_dir_all(dir.join("blobs/sha256"))?;
        let layout = Self { dir: dir.to_owned() };
        if !dir.join("index.json").exists() {
            layout.write_index(&Index {
                schema_version: 2,
                media_type: index_type(),
                manifests: Vec::new(),
                annotations: BTreeMap::new(),
            })?;
        }
        atomic_file::replace(&dir.join("oci-layout"), Self::MARK.as_bytes(), 0o644)?;
        Ok(layout)
    }

    pub fn open(dir: &Path) -> io::Result<Self> {
        if Self::is_one(dir) {
            return Ok(Self { dir: dir.to_owned() });
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, format!("{} is no OCI layout", dir.display())))
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn blob_path(&self, digest: &Digest) -> PathBuf {
        self.dir.join("blobs").join(digest.algorithm().name()).join(digest.hex())
    }

    pub fn index(&self) -> io::Result<Index> {
        let path = self.dir.join("index.json");
        if fs::metadata(&path)?.len() > INDEX_LEN_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "index.json is too large"));
        }
        serde_json::from_slice(&fs::read(path)?).map_err(io::Error::from)
    }

    /// Names an image; a name leads to one image only.
    pub fn add(&self, image: &Descriptor, name: Option<&Reference>) -> io::Result<()> {
        let mut image = image.clone();
        if let Some(name) = name {
            image.annotations.insert(IMAGE_NAME.to_owned(), name.to_string());
            let tag = name.tag.as_ref().map_or_else(|| "latest".to_owned(), ToString::to_string);
            image.annotations.insert(REF_NAME.to_owned(), tag);
        }
        let mut index = self.index()?;
        let full_name = |descriptor: &Descriptor| descriptor.annotations.get(IMAGE_NAME).cloned();
        index.manifests.retain(|other| match (full_name(other), full_name(&image)) {
            (Some(other), Some(new)) => other != new,
            (None, None) => other.digest != image.digest,
            _ => true,
        });
        index.manifests.push(image);
        self.write_index(&index)
    }

    fn write_index(&self, index: &Index) -> io::Result<()> {
        atomic_file::replace(&self.dir.join("index.json"), &serde_json::to_vec(index)?, 0o644)
    }

    pub fn put_bytes(&self, media_type: &str, bytes: &[u8]) -> io::Result<Descriptor> {
        let digest = Digest::of(bytes);
        atomic_file::replace(&self.blob_path(&digest), bytes, 0o644)?;
        Ok(Descriptor::new(media_type, digest, bytes.len() as u64))
    }

    /// Stores the output of `write` under its digest.
    pub fn put_with<T>(
        &self,
        media_type: &str,
        write: impl FnOnce(&mut dyn Write) -> io::Result<T>,
    ) -> io::Result<(Descriptor, T)> {
        let tmp = self.dir.join("blobs").join(format!(".{}", uuid::Uuid::new_v4()));
        let mut out = HashingWriter::new(io::BufWriter::new(File::create(&tmp)?));
        let written = write(&mut out).and_then(|result| out.flush().map(|()| result));
        let result = match written {
            Ok(result) => result,
            Err(error) => {
                let _ = fs::remove_file(&tmp);
                return Err(error);
            }
        };
        let descriptor = Descriptor::new(media_type, out.hasher.finish(), out.written);
        fs::rename(&tmp, self.blob_path(&descriptor.digest))?;
        Ok((descriptor, result))
    }
}
