//! The file of an `EncryptionConfiguration`: created with a random key, and rotated step by step.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use data_encoding::HEXLOWER;
use thiserror::Error;

use crate::ciphers::random;
use crate::config::{
    ConfigError, EncryptionConfiguration, IdentityConfiguration, Key, KeyList, ProviderConfiguration,
    ResourceConfiguration,
};

const KEY_BYTES: usize = 32;
/// The first lines of files written by this program.
const HEADER: &str = "\
# Keys that encrypt stored Secrets. Backups do not contain this file and cannot be restored without it: keep a copy of it,
# apart from them.
";

#[derive(Debug, Error)]
pub enum FileError {
    #[error("cannot read the encryption configuration {}", .0.display())]
    Read(PathBuf, #[source] std::io::Error),
    #[error("the encryption configuration {} is invalid", .0.display())]
    Invalid(PathBuf, #[source] ConfigError),
    #[error("no random numbers are available")]
    NoRandomness,
    #[error("{} has no aescbc, aesgcm or secretbox provider whose keys could be rotated", .0.display())]
    NoLocalKeys(PathBuf),
    #[error("{} has one key only: add one with `flotilla encryption rotate --add-only`", .0.display())]
    OneKey(PathBuf),
}

/// A configuration for Secrets with a new key, which reads plain values too.
pub fn new_config() -> Result<EncryptionConfiguration, FileError> {
    let keys = KeyList { keys: vec![new_key(&[])?] };
    let secretbox = ProviderConfiguration { secretbox: Some(keys), ..ProviderConfiguration::default() };
    let identity =
        ProviderConfiguration { identity: Some(IdentityConfiguration {}), ..ProviderConfiguration::default() };
    Ok(EncryptionConfiguration {
        api_version: "apiserver.config.k8s.io/v1".to_owned(),
        kind: "EncryptionConfiguration".to_owned(),
        resources: vec![ResourceConfiguration {
            resources: vec!["secrets".to_owned()],
            providers: vec![secretbox, identity],
        }],
    })
}

/// The text of a file.
pub fn render(config: &EncryptionConfiguration) -> Result<String, ConfigError> {
    Ok(format!("{HEADER}{}", config.to_yaml()?))
}

pub fn read(path: &Path) -> Result<EncryptionConfiguration, FileError> {
    let text = std::fs::read_to_string(path).map_err(|error| FileError::Read(path.to_owned(), error))?;
    EncryptionConfiguration::parse(&text).map_err(|error| FileError::Invalid(path.to_owned(), error))
}

/// Adds a new key as the last of every local provider: servers with this file read values of the key, and do not use it yet.
/// Returns its name.
pub fn add_key(path: &Path, config: &mut EncryptionConfiguration) -> Result<String, FileError> {
    let known: Vec<String> = local_keys(config).flat_map(|list| &list.keys).map(|key| key.name.clone()).collect();
    if known.is_empty() {
        return Err(FileError::NoLocalKeys(path.to_owned()));
    }
    let key = new_key(&known)?;
    local_keys(config).for_each(|list| list.keys.push(key.clone()));
    Ok(key.name)
}

/// Makes the last key of every local provider the first, which seals new values. Returns its name.
pub fn use_last_key(path: &Path, config: &mut EncryptionConfiguration) -> Result<String, FileError> {
    let mut used = None;
    for list in local_keys(config) {
        if list.keys.len() < 2 {
            return Err(FileError::OneKey(path.to_owned()));
        }
        list.keys.rotate_right(1);
        used = list.keys.first().map(|key| key.name.clone());
    }
    used.ok_or_else(|| FileError::NoLocalKeys(path.to_owned()))
}

/// Removes all keys but the first of every local provider. Returns the names of those removed.
pub fn remove_old_keys(config: &mut EncryptionConfiguration) -> Vec<String> {
    let mut removed: Vec<String> =
        local_keys(config).flat_map(|list| list.keys.drain(1..)).map(|key| key.name).collect();
    removed.sort();
    removed.dedup();
    removed
}

/// The providers as they begin stored values (`secretbox:v1:NAME`) of all keys but the first of each provider.
pub fn old_sealings(config: &EncryptionConfiguration) -> Vec<String> {
    let providers = config.resources.iter().flat_map(|entry| &entry.providers);
    let mut found: Vec<String> = providers
        .flat_map(|provider| {
            let lists =
                [("aescbc", &provider.aescbc), ("aesgcm", &provider.aesgcm), ("secretbox", &provider.secretbox)];
            lists.into_iter().flat_map(|(name, list)| {
                let keys = list.iter().flat_map(|list| list.keys.iter().skip(1));
                keys.map(move |key| format!("{name}:v1:{}", key.name))
            })
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

fn local_keys(config: &mut EncryptionConfiguration) -> impl Iterator<Item = &mut KeyList> {
    let providers = config.resources.iter_mut().flat_map(|entry| &mut entry.providers);
    providers.flat_map(|provider| {
        [&mut provider.aescbc, &mut provider.aesgcm, &mut provider.secretbox].into_iter().flatten()
    })
}

/// A random key. Its name follows the highest number among `known`, so that values of removed keys are never mixed up.
fn new_key(known: &[String]) -> Result<Key, FileError> {
    let number = |name: &String| name.strip_prefix("key").and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
    let next = known.iter().filter_map(number).max().unwrap_or(0).saturating_add(1);
    let suffix: [u8; 2] = random().map_err(|_| FileError::NoRandomness)?;
    let secret: [u8; KEY_BYTES] = random().map_err(|_| FileError::NoRandomness)?;
    Ok(Key { name: format!("key{next}-{}", HEXLOWER.encode(&suffix)), secret: STANDARD.encode(secret) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rotation_reads_the_old_key_until_it_is_removed() {
        let path = Path::new("config.yaml");
        let mut config = new_config().expect("made");
        assert_eq!(EncryptionConfiguration::parse(&render(&config).expect("text")).expect("valid"), config);
        let keys = |config: &mut EncryptionConfiguration| -> Vec<String> {
            local_keys(config).flat_map(|list| &list.keys).map(|key| key.name.clone()).collect()
        };
        let first = keys(&mut config)[0].clone();
        assert!(matches!(use_last_key(path, &mut config), Err(FileError::OneKey(_))));
        let second = add_key(path, &mut config).expect("added");
        assert!(first.starts_with("key1-") && second.starts_with("key2-"), "{first} {second}");
        assert_eq!(keys(&mut config), [first.clone(), second.clone()]);
        assert_eq!(use_last_key(path, &mut config).expect("used"), second);
        assert_eq!(keys(&mut config), [second.clone(), first.clone()]);
        assert_eq!(old_sealings(&config), [format!("secretbox:v1:{first}")]);
        assert_eq!(remove_old_keys(&mut config), [first]);
        assert_eq!(keys(&mut config), [second]);
    }
}
