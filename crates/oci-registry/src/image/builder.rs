//! Builds an image without any tool: layers from files and directories, a config, a manifest. Same input, same digest.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Map, Value, json};

use super::layout::Layout;
use super::tar::{Entry, EntryKind, TarWriter};
use crate::digest::{Digest, HashingWriter};
use crate::manifest::{Descriptor, OCI_CONFIG, OCI_LAYER, OCI_LAYER_GZIP, OCI_MANIFEST, Platform};

/// Files in one layer.
const ENTRIES_MAX: usize = 500_000;
const EPOCH: &str = "1970-01-01T00:00:00Z";

/// The files one step adds.
#[derive(Clone, Debug, Default)]
pub struct Layer {
    /// By path in the image, so that directories come before what is in them.
    entries: BTreeMap<String, Node>,
    created_by: String,
}

#[derive(Clone, Debug)]
struct Node {
    what: What,
    mode: u32,
    owner: (u32, u32),
}

#[derive(Clone, Debug)]
enum What {
    Directory,
    File(PathBuf),
    Bytes(Vec<u8>),
    Symlink(String),
}

impl Layer {
    pub fn new(created_by: &str) -> Self {
        Self { entries: BTreeMap::new(), created_by: created_by.to_owned() }
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn directory(&mut self, path: &str, mode: u32) -> &mut Self {
        self.put(path, Node { what: What::Directory, mode, owner: (0, 0) })
    }

    pub fn bytes(&mut self, path: &str, bytes: &[u8], mode: u32) -> &mut Self {
        self.put(path, Node { what: What::Bytes(bytes.to_vec()), mode, owner: (0, 0) })
    }

    pub fn symlink(&mut self, path: &str, target: &str) -> &mut Self {
        self.put(path, Node { what: What::Symlink(target.to_owned()), mode: 0o777, owner: (0, 0) })
    }

    /// A file of this machine, with its mode.
    pub fn file(&mut self, path: &str, from: &Path) -> io::Result<&mut Self> {
        let mode = fs::metadata(from)?.permissions().mode() & 0o7777;
        Ok(self.put(path, Node { what: What::File(from.to_owned()), mode, owner: (0, 0) }))
    }

    /// Everything below a directory of this machine, as it is: links stay links. `keep` says of each path below it
    /// whether to take it.
    pub fn tree(&mut self, path: &str, from: &Path, keep: &dyn Fn(&Path) -> bool) -> io::Result<&mut Self> {
        let mut open = vec![from.to_owned()];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(&dir)? {
                let entry = entry?;
                let host = entry.path();
                let below = host.strip_prefix(from).unwrap_or(&host).to_owned();
                let kind = entry.file_type()?;
                if kind.is_dir() {
                    open.push(host.clone());
                }
                if !keep(&below) {
                    continue;
                }
                let below = below.to_str().ok_or_else(|| invalid(format!("{} is not UTF-8", host.display())))?;
                let inside = format!("{path}/{below}");
                if kind.is_symlink() {
                    let target = fs::read_link(&host)?;
                    let target = target.to_str().ok_or_else(|| invalid(format!("{} is not UTF-8", host.display())))?;
                    self.symlink(&inside, target);
                } else if kind.is_dir() {
                    self.directory(&inside, entry.metadata()?.permissions().mode() & 0o7777);
                } else if kind.is_file() {
                    self.file(&inside, &host)?;
                } else {
                    return Err(invalid(format!("{} is no file, directory or link", host.display())));
                }
                if self.entries.len() > ENTRIES_MAX {
                    return Err(invalid(format!("{} holds more than {ENTRIES_MAX} files", from.display())));
                }
            }
        }
        Ok(self)
    }

    /// The owner of all files in it.
    pub fn owned_by(&mut self, user: u32, group: u32) -> &mut Self {
        self.entries.values_mut().for_each(|node| node.owner = (user, group));
        self
    }

    /// The mode of every file in it.
    pub fn with_mode(&mut self, mode: u32) -> &mut Self {
        let files = self.entries.values_mut().filter(|node| matches!(node.what, What::File(_) | What::Bytes(_)));
        files.for_each(|node| node.mode = mode);
        self
    }

    fn put(&mut self, path: &str, node: Node) -> &mut Self {
        let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
        for n in 1..parts.len() {
            let parent = Node { what: What::Directory, mode: 0o755, owner: node.owner };
            self.entries.entry(parts[..n].join("/")).or_insert(parent);
        }
        if !parts.is_empty() {
            self.entries.insert(parts.join("/"), node);
        }
        self
    }

    fn write(&self, out: impl io::Write) -> io::Result<()> {
        let mut tar = TarWriter::new(out);
        for (path, Node { what, mode, owner }) in &self.entries {
            let mut entry = Entry { path, kind: EntryKind::Directory, mode: *mode, owner: *owner };
            match what {
                What::Directory => tar.append(&entry, io::empty())?,
                What::Symlink(target) => {
                    entry.kind = EntryKind::Symlink { target };
                    tar.append(&entry, io::empty())?;
                }
                What::Bytes(bytes) => {
                    entry.kind = EntryKind::File { len: bytes.len() as u64 };
                    tar.append(&entry, bytes.as_slice())?;
                }
                What::File(host) => {
                    let file = fs::File::open(host)?;
                    entry.kind = EntryKind::File { len: file.metadata()?.len() };
                    tar.append(&entry, file)?;
                }
            }
        }
        tar.finish().map(|_| ())
    }
}

/// The run configuration of containers of the image; unset fields keep the value of the base image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunConfig {
    pub env: Vec<(String, String)>,
    pub entrypoint: Option<Vec<String>>,
    pub cmd: Option<Vec<String>>,
    pub working_dir: Option<String>,
    pub user: Option<String>,
    pub labels: BTreeMap<String, String>,
    /// `8080/tcp`.
    pub exposed_ports: Vec<String>,
    pub volumes: Vec<String>,
    pub stop_signal: Option<String>,
}

/// An image another one is built on; its layers are in the layout the new one is written to.
#[derive(Clone, Debug)]
pub struct Base {
    pub config: Value,
    pub layers: Vec<Descriptor>,
}

#[derive(Clone, Debug)]
pub struct Builder {
    platform: Platform,
    base: Option<Base>,
    layers: Vec<Layer>,
    pub config: RunConfig,
    /// Compresses layers: slower and smaller.
    pub compresses: bool,
}

impl Builder {
    pub fn new(platform: Platform) -> Self {
        Self { platform, base: None, layers: Vec::new(), config: RunConfig::default(), compresses: true }
    }

    pub fn on(base: Base, platform: Platform) -> Self {
        Self { base: Some(base), ..Self::new(platform) }
    }

    pub fn layer(&mut self, layer: Layer) -> &mut Self {
        self.layers.push(layer);
        self
    }

    /// Writes the image into a layout; it has no name there yet.
    pub fn write(&self, layout: &Layout) -> io::Result<Descriptor> {
        let mut layers = self.base.as_ref().map(|base| base.layers.clone()).unwrap_or_default();
        let mut config = self.base.as_ref().map_or_else(|| json!({}), |base| base.config.clone());
        let (mut diff_ids, mut history) = (Vec::new(), Vec::new());
        for layer in self.layers.iter().filter(|layer| !layer.is_empty()) {
            let (descriptor, diff_id) =
                if self.compresses { write_gzip(layout, layer)? } else { write_plain(layout, layer)? };
            layers.push(descriptor);
            diff_ids.push(json!(diff_id));
            history.push(json!({"created": EPOCH, "created_by": layer.created_by}));
        }
        let root = config.as_object_mut().ok_or_else(|| invalid("the base's config is no object".to_owned()))?;
        self.fill(root, diff_ids, history)?;
        let config = layout.put_bytes(OCI_CONFIG, &serde_json::to_vec(&config)?)?;
        let manifest = json!({"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": config, "layers": layers});
        let image = layout.put_bytes(OCI_MANIFEST, &serde_json::to_vec(&manifest)?)?;
        Ok(Descriptor { platform: Some(self.platform.clone()), ..image })
    }

    fn fill(&self, root: &mut Map<String, Value>, diff_ids: Vec<Value>, history: Vec<Value>) -> io::Result<()> {
        root.insert("architecture".to_owned(), json!(self.platform.architecture));
        root.insert("os".to_owned(), json!(self.platform.os));
        if let Some(variant) = &self.platform.variant {
            root.insert("variant".to_owned(), json!(variant));
        }
        root.insert("created".to_owned(), json!(EPOCH));
        let rootfs = root.entry("rootfs").or_insert_with(|| json!({"type": "layers", "diff_ids": []}));
        let broken = |what: &str| invalid(format!("the base's config has no {what}"));
        rootfs["diff_ids"].as_array_mut().ok_or_else(|| broken("rootfs.diff_ids"))?.extend(diff_ids);
        let past = root.entry("history").or_insert_with(|| json!([]));
        past.as_array_mut().ok_or_else(|| broken("history"))?.extend(history);
        let run = root.entry("config").or_insert_with(|| json!({}));
        if run.is_null() {
            *run = json!({});
        }
        self.fill_run(run.as_object_mut().ok_or_else(|| broken("config"))?);
        Ok(())
    }

    fn fill_run(&self, run: &mut Map<String, Value>) {
        let config = &self.config;
        let mut set = |key: &str, value: Option<Value>| value.map(|value| run.insert(key.to_owned(), value));
        set("Entrypoint", config.entrypoint.as_ref().map(|words| json!(words)));
        set("Cmd", config.cmd.as_ref().map(|words| json!(words)));
        set("WorkingDir", config.working_dir.as_ref().map(|dir| json!(dir)));
        set("User", config.user.as_ref().map(|user| json!(user)));
        set("StopSignal", config.stop_signal.as_ref().map(|signal| json!(signal)));
        // As Docker does: the words of the base are meant for the base's entrypoint.
        if config.entrypoint.is_some() && config.cmd.is_none() {
            run.remove("Cmd");
        }
        let mut env: Vec<String> =
            serde_json::from_value(run.get("Env").cloned().unwrap_or_default()).unwrap_or_default();
        for (key, value) in &config.env {
            env.retain(|line| line.split('=').next() != Some(key.as_str()));
            env.push(format!("{key}={value}"));
        }
        if !env.is_empty() {
            run.insert("Env".to_owned(), json!(env));
        }
        let mut merge = |key: &str, add: Vec<(String, Value)>| {
            if !add.is_empty() {
                let map = run.entry(key).or_insert_with(|| json!({}));
                add.into_iter().for_each(|(key, value)| map[key] = value);
            }
        };
        merge("Labels", config.labels.iter().map(|(key, value)| (key.clone(), json!(value))).collect());
        merge("ExposedPorts", config.exposed_ports.iter().map(|port| (port.clone(), json!({}))).collect());
        merge("Volumes", config.volumes.iter().map(|volume| (volume.clone(), json!({}))).collect());
    }
}

/// Returns the layer's descriptor, and the digest of its uncompressed content.
fn write_gzip(layout: &Layout, layer: &Layer) -> io::Result<(Descriptor, Digest)> {
    layout.put_with(OCI_LAYER_GZIP, |out| {
        let gzip = GzEncoder::new(out, Compression::new(6));
        let mut plain = HashingWriter::new(gzip);
        layer.write(&mut plain)?;
        plain.inner.finish()?;
        Ok(plain.hasher.finish())
    })
}

fn write_plain(layout: &Layout, layer: &Layer) -> io::Result<(Descriptor, Digest)> {
    let (descriptor, ()) = layout.put_with(OCI_LAYER, |out| layer.write(out))?;
    let digest = descriptor.digest.clone();
    Ok((descriptor, digest))
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Builder {
        let mut layer = Layer::new("files");
        layer.bytes("/etc/motd", b"hello\n", 0o644).symlink("/bin/sh", "busybox");
        let mut builder = Builder::new(Platform::parse("linux/amd64").unwrap());
        builder.layer(layer);
        builder.config.env = vec![("A".into(), "1".into())];
        builder.config.cmd = Some(vec!["/bin/sh".into()]);
        builder.config.exposed_ports = vec!["80/tcp".into()];
        builder
    }

    #[test]
    fn the_same_input_gives_the_same_image() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let first = sample().write(&Layout::create(one.path()).unwrap()).unwrap();
        assert_eq!(first, sample().write(&Layout::create(two.path()).unwrap()).unwrap());
        let mut other = sample();
        other.config.env.clear();
        assert_ne!(first, other.write(&Layout::create(two.path()).unwrap()).unwrap());
    }

    #[test]
    fn uncompressed_layers_have_the_digest_of_their_content() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::create(directory.path()).unwrap();
        let read = |digest: &str| -> Value {
            serde_json::from_slice(&fs::read(layout.blob_path(&digest.parse().unwrap())).unwrap()).unwrap()
        };
        let mut builder = sample();
        builder.compresses = false;
        let manifest = read(&builder.write(&layout).unwrap().digest.to_string());
        let config = read(manifest["config"]["digest"].as_str().unwrap());
        assert_eq!(manifest["layers"][0]["mediaType"], OCI_LAYER);
        assert_eq!(manifest["layers"][0]["digest"], config["rootfs"]["diff_ids"][0]);
    }

    #[test]
    fn an_image_inherits_the_configuration_of_its_base() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::create(directory.path()).unwrap();
        let read = |descriptor: &Descriptor| -> Value {
            serde_json::from_slice(&fs::read(layout.blob_path(&descriptor.digest)).unwrap()).unwrap()
        };
        let config_of = |manifest: &Value| read(&serde_json::from_value(manifest["config"].clone()).unwrap());
        let base = read(&sample().write(&layout).unwrap());
        let layers = serde_json::from_value(base["layers"].clone()).unwrap();
        let mut builder = Builder::on(Base { config: config_of(&base), layers }, Platform::host());
        let mut more = Layer::new("more");
        more.bytes("/x", b"x", 0o600);
        builder.layer(more);
        builder.config.env = vec![("A".into(), "2".into()), ("B".into(), "3".into())];
        builder.config.entrypoint = Some(vec!["/x".into()]);
        let image = read(&builder.write(&layout).unwrap());
        let config = config_of(&image);
        assert_eq!(image["layers"].as_array().unwrap().len(), 2);
        assert_eq!(image["layers"][0], base["layers"][0]);
        assert_eq!(config["rootfs"]["diff_ids"].as_array().unwrap().len(), 2);
        assert_eq!(config["config"]["Env"], json!(["A=2", "B=3"]));
        assert_eq!(config["config"]["ExposedPorts"], json!({"80/tcp": {}}));
        assert_eq!(config["config"].get("Cmd"), None);
    }
}
