//! The keys of a control plane in a backup: files of a data directory, or shared keys in the storage.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path};

use anyhow::{Context, bail};
use api_host::shared_keys;
use cluster_client::Kubeconfig;
use pki::key_dir;
use store::KeyValue;
use store::snapshot::{SnapshotFile, StoreSnapshot};

/// The directory of keys and certificates in a data directory.
const KEYS: &str = "pki";
const KUBECONFIG: &str = "karmada-apiserver.config";
/// Maximum size of a key file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Records when and by which program a snapshot was taken.
pub fn describe(snapshot: &mut StoreSnapshot) {
    snapshot.about.taken_at = now();
    snapshot.about.program = format!("flotilla {}", env!("CARGO_PKG_VERSION"));
}

pub fn now() -> String {
    jiff::Timestamp::from_second(jiff::Timestamp::now().as_second()).unwrap_or_default().to_string()
}

/// Adds the key files of a data directory, and the address of its server.
pub fn add_files(snapshot: &mut StoreSnapshot, directory: &Path) -> anyhow::Result<()> {
    let kubeconfig = Kubeconfig::load(&[directory.join(KUBECONFIG)]);
    snapshot.about.url = kubeconfig.ok().and_then(|config| config.remote(None).ok()).map(|remote| remote.server);
    let keys = directory.join(KEYS);
    let entries = match std::fs::read_dir(&keys) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", keys.display())),
    };
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read {}", keys.display()))?;
        let metadata = entry.metadata().with_context(|| format!("cannot read {}", entry.path().display()))?;
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|_| metadata.is_file() && metadata.len() <= FILE_BYTES_MAX) else {
            continue;
        };
        let bytes = std::fs::read(entry.path()).with_context(|| format!("cannot read {}", entry.path().display()))?;
        let mode = metadata.permissions().mode() & 0o777;
        snapshot.files.push(SnapshotFile { path: format!("{KEYS}/{name}"), mode, bytes });
    }
    snapshot.files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(())
}

/// For a data directory: turns shared keys into files.
pub fn for_key_files(mut snapshot: StoreSnapshot) -> anyhow::Result<StoreSnapshot> {
    let Some(at) = snapshot.kvs.iter().position(|kv| &*kv.key == shared_keys::KEY) else { return Ok(snapshot) };
    let shared = snapshot.kvs.remove(at);
    let shared: BTreeMap<String, String> =
        serde_json::from_slice(&shared.value).context("the shared keys in the backup are not valid")?;
    for (name, content) in shared {
        let path = format!("{KEYS}/{name}");
        // The shared keys are authoritative; a file of the same name can only be older.
        snapshot.files.retain(|file| file.path != path);
        let mode = if name.ends_with(".key") { 0o600 } else { 0o644 };
        snapshot.files.push(SnapshotFile { path, mode, bytes: content.into_bytes() });
    }
    Ok(snapshot)
}

/// For shared storage: turns key files into shared keys.
pub fn for_shared_keys(mut snapshot: StoreSnapshot) -> anyhow::Result<StoreSnapshot> {
    let place = snapshot.kvs.binary_search_by(|kv| (*kv.key).cmp(shared_keys::KEY));
    let Err(place) = place else { return Ok(snapshot) };
    let mut shared = BTreeMap::new();
    for name in shared_keys::file_names() {
        let file = snapshot.files.iter().find(|file| file.path == format!("{KEYS}/{name}"));
        if let Some(file) = file {
            let text = String::from_utf8(file.bytes.clone()).with_context(|| format!("{} is not text", file.path))?;
            shared.insert(name, text);
        }
    }
    if shared.is_empty() {
        return Ok(snapshot);
    }
    let revision = snapshot.about.revision;
    let kv = KeyValue {
        key: shared_keys::KEY.into(),
        value: serde_json::to_vec(&shared)?.into(),
        create_revision: revision,
        mod_revision: revision,
        lease: None,
    };
    snapshot.kvs.insert(place, kv);
    Ok(snapshot)
}

/// Refuses a directory with keys of another control plane, whose clients would lose access.
pub fn refuse_foreign_keys(snapshot: &StoreSnapshot, directory: &Path, replace: bool) -> anyhow::Result<()> {
    if replace {
        return Ok(());
    }
    for file in snapshot.files.iter().filter(|file| file.path == "pki/ca.key") {
        let there = std::fs::read(directory.join(&file.path)).unwrap_or_default();
        if !there.is_empty() && there != file.bytes {
            bail!("{} has the keys of another control plane: use an empty directory, or --force", directory.display());
        }
    }
    Ok(())
}

pub fn write_files(snapshot: &StoreSnapshot, directory: &Path) -> anyhow::Result<()> {
    for file in &snapshot.files {
        let relative = Path::new(&file.path);
        // A file name in a backup must not escape the data directory.
        if relative.components().any(|part| !matches!(part, Component::Normal(_))) {
            bail!("the backup has a file {:?}, which is outside the data directory", file.path);
        }
        let path = directory.join(relative);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
            std::fs::set_permissions(parent, std::fs::Permissions::from_mode(0o700)).ok();
        }
        key_dir::write_atomic(&path, &file.bytes, file.mode)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, bytes: &str) -> SnapshotFile {
        SnapshotFile { path: path.into(), mode: 0o600, bytes: bytes.into() }
    }

    #[test]
    fn keys_round_trip_through_shared_storage() {
        let mut snapshot = StoreSnapshot::default();
        snapshot.about.revision = 7;
        for name in shared_keys::file_names() {
            snapshot.files.push(file(&format!("pki/{name}"), &name));
        }
        snapshot.files.push(file("pki/apiserver.key", "own"));
        let shared = for_shared_keys(snapshot.clone()).unwrap();
        assert_eq!(shared.kvs.len(), 1);
        let mut alone = shared;
        alone.files.clear();
        let back = for_key_files(alone).unwrap();
        assert!(back.kvs.is_empty());
        let names: Vec<&str> = back.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(
            names,
            ["pki/ca.crt", "pki/ca.key", "pki/front-proxy-ca.crt", "pki/front-proxy-ca.key", "pki/sa.key"]
        );
        assert_eq!(back.files[1].bytes, b"ca.key");
    }

    #[test]
    fn names_outside_the_directory_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["../evil", "/etc/evil", "pki/../../evil"] {
            let snapshot = StoreSnapshot { files: vec![file(name, "x")], ..StoreSnapshot::default() };
            assert!(write_files(&snapshot, directory.path()).is_err(), "{name}");
        }
    }
}
