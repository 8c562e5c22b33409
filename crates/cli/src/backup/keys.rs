//! Encryption of a backup: values stay sealed as they are stored, key files are sealed, and a restore needs the configuration.

use std::path::Path;

use ::karmadactl::console::Console;
use anyhow::{Context, bail};
use api_host::{default_encryption_file, shared_keys};
use bytes::Bytes;
use encryption::config::EncryptionConfiguration;
use encryption::{Encryption, Sealing};
use pki::key_dir;
use store::snapshot::{SnapshotFile, StoreSnapshot};
use store::{KeyValue, ValueTransformer};

/// The configuration in a backup that was taken with `--include-encryption-key`, relative to the data directory.
const FILE: &str = "encryption/config.yaml";

/// The encryption configuration of a control plane.
pub struct EncryptionKeys {
    encryption: Encryption,
    text: String,
}

impl EncryptionKeys {
    fn new(text: String, source: &str) -> anyhow::Result<Self> {
        let parsed = EncryptionConfiguration::parse(&text).with_context(|| format!("{source} is invalid"))?;
        Ok(Self { encryption: Encryption::new(&parsed).map_err(anyhow::Error::msg)?, text })
    }

    /// Reads the given file, or the one of the data directory if it has one.
    pub async fn find(config: Option<&Path>, data_dir: Option<&Path>) -> anyhow::Result<Option<Self>> {
        let default = data_dir.map(default_encryption_file).filter(|path| path.exists());
        let Some(path) = config.map(Path::to_owned).or(default) else { return Ok(None) };
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let keys = Self::new(text, &path.display().to_string())?;
        keys.encryption.check_plugins().await.map_err(anyhow::Error::msg)?;
        Ok(Some(keys))
    }

    /// Takes the configuration out of a backup that contains it.
    pub async fn take_from(snapshot: &mut StoreSnapshot) -> anyhow::Result<Option<Self>> {
        let Some(at) = snapshot.files.iter().position(|file| file.path == FILE) else { return Ok(None) };
        let text = String::from_utf8(snapshot.files.remove(at).bytes).context("the keys in the backup are not text")?;
        let keys = Self::new(text, "the encryption configuration in the backup")?;
        keys.encryption.check_plugins().await.map_err(anyhow::Error::msg)?;
        Ok(Some(keys))
    }

    /// Seals the key files of a backup as Secrets are.
    pub fn seal_files(&self, snapshot: &mut StoreSnapshot) -> anyhow::Result<()> {
        for file in snapshot.files.iter_mut().filter(|file| file.path.ends_with(".key")) {
            file.bytes = self.encryption.seal(shared_keys::KEY, std::mem::take(&mut file.bytes).into())?.into();
        }
        Ok(())
    }

    /// Adds the configuration itself to a backup.
    pub fn include(&self, snapshot: &mut StoreSnapshot) {
        let bytes = self.text.clone().into_bytes();
        snapshot.files.push(SnapshotFile { path: FILE.to_owned(), mode: key_dir::PRIVATE, bytes });
    }

    /// Seals values that are not sealed yet, as a server with this configuration would.
    pub fn seal_values(&self, snapshot: &mut StoreSnapshot) -> anyhow::Result<()> {
        for kv in &mut snapshot.kvs {
            kv.value = self.encryption.seal(&kv.key, kv.value.clone())?;
        }
        Ok(())
    }

    /// Opens all values of a control plane.
    pub async fn open_values(&self, snapshot: &mut StoreSnapshot) -> anyhow::Result<()> {
        for kv in &mut snapshot.kvs {
            kv.value =
                self.open(&kv.key, kv.value.clone()).await.with_context(|| format!("cannot decrypt {}", kv.key))?;
        }
        Ok(())
    }

    /// Opens all values of a kube-apiserver, whose keys in etcd begin with `prefix`.
    pub async fn open_foreign_values(&self, snapshot: &mut StoreSnapshot, prefix: &str) -> anyhow::Result<()> {
        for kv in &mut snapshot.kvs {
            let path = format!("{}{}", prefix.trim_end_matches('/'), kv.key);
            let opened = self.encryption.open_foreign(&path, kv.value.clone()).await;
            kv.value = opened.with_context(|| format!("cannot decrypt {path}"))?;
        }
        Ok(())
    }

    /// Seals the shared keys again before they are written to etcd.
    pub fn seal_shared_keys(&self, snapshot: &mut StoreSnapshot) -> anyhow::Result<()> {
        for kv in snapshot.kvs.iter_mut().filter(|kv| &*kv.key == shared_keys::KEY) {
            kv.value = self.encryption.seal(&kv.key, kv.value.clone())?;
        }
        Ok(())
    }

    /// Puts the configuration where a server with this data directory finds it, unless it has one.
    pub fn install(&self, console: &Console, data_dir: &Path) -> anyhow::Result<()> {
        let path = default_encryption_file(data_dir);
        if let Some(parent) = path.parent().filter(|_| !path.exists()) {
            std::fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
            key_dir::write_if_absent(&path, self.text.as_bytes(), key_dir::PRIVATE)?;
            console.note(format_args!("the encryption configuration is in {}", path.display()));
        }
        Ok(())
    }

    async fn open(&self, key: &str, stored: Bytes) -> anyhow::Result<Bytes> {
        Ok(self.encryption.open(key, stored).await?)
    }
}

/// Opens the key files and shared keys of a backup, and checks that its values can be opened. Refuses a backup without its keys
/// before anything is written.
pub async fn unlock(snapshot: &mut StoreSnapshot, keys: Option<&EncryptionKeys>) -> anyhow::Result<()> {
    let Some(keys) = keys else { return refuse_sealed(snapshot) };
    let hint = "these are not the keys of this backup: use the EncryptionConfiguration of the server it was taken from";
    let mut tried: Vec<(String, Sealing)> = Vec::new();
    for KeyValue { key, value, .. } in &snapshot.kvs {
        let sealing = (resource_of(key), Sealing::of(value));
        if sealing.1 != Sealing::Plain && !tried.contains(&sealing) {
            keys.open(key, value.clone()).await.context(hint)?;
            tried.push(sealing);
        }
    }
    for file in snapshot.files.iter_mut().filter(|file| Sealing::of(&file.bytes) != Sealing::Plain) {
        file.bytes = keys.open(shared_keys::KEY, std::mem::take(&mut file.bytes).into()).await.context(hint)?.into();
    }
    for kv in snapshot.kvs.iter_mut().filter(|kv| &*kv.key == shared_keys::KEY) {
        kv.value = keys.open(&kv.key, kv.value.clone()).await.context(hint)?;
    }
    Ok(())
}

/// The group and resource of a key.
fn resource_of(key: &str) -> String {
    key.split('/').take(3).collect::<Vec<_>>().join("/")
}

fn refuse_sealed(snapshot: &StoreSnapshot) -> anyhow::Result<()> {
    let values = snapshot.kvs.iter().map(|kv| &kv.value[..]).chain(snapshot.files.iter().map(|file| &file.bytes[..]));
    let sealed: Vec<Sealing> = values.map(Sealing::of).filter(|sealing| *sealing != Sealing::Plain).collect();
    let Some(first) = sealed.first() else { return Ok(()) };
    bail!(
        "{} values are encrypted ({first}), and the keys are not given: use --encryption-provider-config FILE with the \
         encryption/config.yaml of the data directory, or the EncryptionConfiguration, of the original server",
        sealed.len()
    )
}
