//! Keys that servers on one storage share through the storage, so that each accepts the clients of the others.
//!
//! The first server publishes its keys in one guarded write, and they are never overwritten. Existing keys in its directory are
//! published. A directory with other keys than the storage belongs to another control plane and is refused.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;

use anyhow::{Context, bail};
use jiff::Timestamp;
use pki::authority::CertificateAuthority;
use pki::certificate::Certificate;
use pki::key::PrivateKey;
use pki::key_dir::{self, KeyDir, name};
use store::{Error, Revision, Store};

/// Store key of the bundle. No API group begins with a dash, so no object has this key.
pub const KEY: &str = encryption::SHARED_KEYS;
/// Attempts against servers that publish at the same time; each failed attempt means that another succeeded.
const ATTEMPTS_MAX: usize = 8;

const AUTHORITIES: [(&str, &str); 2] = [(name::AUTHORITY, "flotilla"), (name::FRONT_PROXY_AUTHORITY, "front-proxy-ca")];

/// Shared files: names and contents.
type Bundle = BTreeMap<String, String>;

/// Copies the keys of the storage to `directory`, or those of `directory` to the storage, or creates them in both.
pub(crate) async fn settle(store: &dyn Store, directory: &Path, now: Timestamp) -> anyhow::Result<()> {
    let keys = KeyDir::open(directory).context("cannot use the key directory")?;
    for _ in 0..ATTEMPTS_MAX {
        let found = store.get(KEY).await.context("the shared keys cannot be read from the storage")?.0;
        let Some(found) = found else {
            let mine = complete(read(&keys, directory)?, now)?;
            match store.create(KEY, encode(&mine)?.into(), None).await {
                Ok(_) => {
                    tracing::info!(directory = %directory.display(), "published the keys for all servers on this storage")
                }
                Err(Error::Exists { .. }) => {}
                Err(error) => return Err(error).context("the keys could not be shared through the storage"),
            }
            continue;
        };
        let shared: Bundle =
            serde_json::from_slice(&found.value).context("the shared keys in the storage are damaged")?;
        let mine = read(&keys, directory)?;
        refuse_others(&shared, &mine, directory)?;
        if publish_new_terms(store, &shared, &mine, found.mod_revision).await? {
            return install(&shared, &mine, directory);
        }
    }
    bail!("the shared keys keep changing: another server overwrites them")
}

/// Returns the names of the shared files; all others belong to one server.
pub fn file_names() -> impl Iterator<Item = String> {
    let authorities = AUTHORITIES.iter().flat_map(|(stem, _)| [format!("{stem}.crt"), format!("{stem}.key")]);
    authorities.chain([format!("{}.key", name::SERVICE_ACCOUNT)])
}

/// Reads the shared files that exist in the directory.
fn read(keys: &KeyDir, directory: &Path) -> anyhow::Result<Bundle> {
    let mut found = Bundle::new();
    for file in file_names() {
        match std::fs::read_to_string(directory.join(&file)) {
            Ok(content) => drop(found.insert(file, content)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", directory.join(&file).display()));
            }
        }
    }
    for (stem, _) in AUTHORITIES {
        if found.contains_key(&format!("{stem}.crt")) && !found.contains_key(&format!("{stem}.key")) {
            let (certificate, key) = (keys.certificate_path(stem), keys.key_path(stem));
            return Err(key_dir::KeyDirError::KeyMissing { certificate, key }.into());
        }
    }
    Ok(found)
}

/// Adds missing keys. Does not write to the directory, because another server may publish first.
fn complete(mut bundle: Bundle, now: Timestamp) -> anyhow::Result<Bundle> {
    for (stem, common_name) in AUTHORITIES {
        let (certificate, key) = (format!("{stem}.crt"), format!("{stem}.key"));
        if bundle.contains_key(&certificate) {
            continue;
        }
        let own = match bundle.get(&key) {
            Some(pem) => PrivateKey::from_pem(pem.as_bytes()).with_context(|| format!("{key} is damaged"))?,
            None => PrivateKey::generate()?,
        };
        let authority = CertificateAuthority::self_signed_with_key(common_name, own, now)?;
        bundle.insert(certificate, authority.certificate().to_pem());
        bundle.insert(key, authority.key().to_pem());
    }
    if let Entry::Vacant(signing) = bundle.entry(format!("{}.key", name::SERVICE_ACCOUNT)) {
        signing.insert(PrivateKey::generate()?.to_pem());
    }
    Ok(bundle)
}

/// Compares keys by their public keys, because one key has several encodings.
fn refuse_others(shared: &Bundle, mine: &Bundle, directory: &Path) -> anyhow::Result<()> {
    for (file, content) in mine.iter().filter(|(file, _)| file.ends_with(".key")) {
        let path = directory.join(file);
        let own = PrivateKey::from_pem(content.as_bytes()).with_context(|| format!("{} is damaged", path.display()))?;
        let theirs = shared.get(file).with_context(|| format!("the shared keys in the storage lack {file}"))?;
        let theirs = PrivateKey::from_pem(theirs.as_bytes()).context("the shared keys in the storage are damaged")?;
        if own.public_key().to_pem() != theirs.public_key().to_pem() {
            bail!(
                "{} is not the key that the servers on this storage share. To join them, move {} away and start again: \
                 this server then gets their keys. To make the keys in {} the shared ones instead, stop all servers, \
                 delete the key PREFIX{KEY} (PREFIX as in --etcd-prefix) from the storage and start this one first; \
                 every credential the others have issued is then void",
                path.display(),
                directory.display(),
                directory.display(),
            );
        }
    }
    Ok(())
}

fn expires(bundle: &Bundle, file: &str) -> Option<Timestamp> {
    Certificate::from_pem(bundle.get(file)?.as_bytes()).ok().map(|certificate| certificate.not_after())
}

/// Publishes CA certificates that were renewed here (the same key, a later expiry). False when another server wrote in between.
async fn publish_new_terms(
    store: &dyn Store,
    shared: &Bundle,
    mine: &Bundle,
    revision: Revision,
) -> anyhow::Result<bool> {
    let is_newer = |file: &String| expires(mine, file) > expires(shared, file);
    let newer: Vec<&String> = mine.keys().filter(|file| file.ends_with(".crt") && is_newer(file)).collect();
    if newer.is_empty() {
        return Ok(true);
    }
    let mut renewed = shared.clone();
    renewed.extend(newer.into_iter().map(|file| (file.clone(), mine[file].clone())));
    match store.update(KEY, encode(&renewed)?.into(), revision, None).await {
        Ok(_) => Ok(true),
        Err(Error::Conflict { .. }) => Ok(false),
        Err(error) => Err(error).context("the renewed certificates could not be shared through the storage"),
    }
}

/// Writes missing files and certificates that expire later in the storage.
fn install(shared: &Bundle, mine: &Bundle, directory: &Path) -> anyhow::Result<()> {
    // Keys first: a certificate alone would look like a lost key.
    for file in file_names().filter(|file| file.ends_with(".key") && !mine.contains_key(file)) {
        key_dir::write_if_absent(&directory.join(&file), shared[&file].as_bytes(), key_dir::PRIVATE)?;
    }
    for file in file_names().filter(|file| file.ends_with(".crt")) {
        if expires(shared, &file) > expires(mine, &file) {
            key_dir::write_atomic(&directory.join(&file), shared[&file].as_bytes(), key_dir::PUBLIC)?;
        }
    }
    Ok(())
}

fn encode(bundle: &Bundle) -> anyhow::Result<Vec<u8>> {
    Ok(serde_json::to_vec(bundle)?)
}

#[cfg(test)]
mod tests {
    use store::memory::Memory;

    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().expect("a time")
    }

    fn files(directory: &Path) -> Bundle {
        read(&KeyDir::open(directory).expect("a directory"), directory).expect("readable")
    }

    #[tokio::test]
    async fn the_first_server_makes_the_keys_and_all_others_have_the_same() {
        let (store, [a, b]) = (Memory::new(), [(); 2].map(|()| tempfile::tempdir().expect("a directory")));
        settle(&store, a.path(), now()).await.expect("made");
        settle(&store, b.path(), now()).await.expect("taken over");
        assert_eq!(files(a.path()), files(b.path()));
        assert_eq!(files(a.path()).len(), 5);
        settle(&store, a.path(), now()).await.expect("nothing to do");
        let keys = KeyDir::open(b.path()).expect("a directory");
        keys.ensure_authority("ca", "flotilla", now()).expect("a CA that belongs to its key");
        assert!(keys.loose_key_files().expect("listed").is_empty(), "keys are for their owner only");
    }

    #[tokio::test]
    async fn servers_started_at_once_agree_on_the_keys() {
        let store = Memory::new();
        let directories: Vec<_> = (0..8).map(|_| tempfile::tempdir().expect("a directory")).collect();
        let all = futures::future::join_all(directories.iter().map(|d| settle(&store, d.path(), now()))).await;
        assert!(all.iter().all(Result::is_ok), "{all:?}");
        assert!(directories.iter().all(|d| files(d.path()) == files(directories[0].path())));
    }

    #[tokio::test]
    async fn existing_keys_are_published_and_missing_keys_added() {
        let (store, [a, b]) = (Memory::new(), [(); 2].map(|()| tempfile::tempdir().expect("a directory")));
        let before = KeyDir::open(a.path()).expect("opened").ensure_authority("ca", "flotilla", now()).expect("a CA");
        settle(&store, a.path(), now()).await.expect("published");
        settle(&store, b.path(), now()).await.expect("taken over");
        assert_eq!(files(b.path())["ca.crt"], before.certificate().to_pem());
        assert_eq!(files(a.path()), files(b.path()));
    }

    #[tokio::test]
    async fn keys_of_another_control_plane_are_refused_and_left_alone() {
        let (store, [a, b]) = (Memory::new(), [(); 2].map(|()| tempfile::tempdir().expect("a directory")));
        settle(&store, a.path(), now()).await.expect("published");
        KeyDir::open(b.path()).expect("opened").ensure_signing_key("sa").expect("a key");
        let before = files(b.path());
        let error = settle(&store, b.path(), now()).await.expect_err("another plane's").to_string();
        assert!(error.contains("sa.key is not the key") && error.contains("To join them, move"), "{error}");
        assert_eq!(files(b.path()), before);
    }

    #[tokio::test]
    async fn a_renewed_authority_reaches_all_servers() {
        let (store, [a, b]) = (Memory::new(), [(); 2].map(|()| tempfile::tempdir().expect("a directory")));
        settle(&store, a.path(), now()).await.expect("made");
        settle(&store, b.path(), now()).await.expect("taken over");
        let later: Timestamp = "2035-06-01T00:00:00Z".parse().expect("a time");
        let renewed = KeyDir::open(a.path()).expect("opened").ensure_authority("ca", "flotilla", later).expect("a CA");
        assert_ne!(files(a.path())["ca.crt"], files(b.path())["ca.crt"], "it was due");
        settle(&store, a.path(), later).await.expect("published");
        settle(&store, b.path(), later).await.expect("taken over");
        assert_eq!(files(b.path())["ca.crt"], renewed.certificate().to_pem());
    }
}
