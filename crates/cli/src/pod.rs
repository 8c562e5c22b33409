//! Flags of a server that runs as a pod: keys from a mounted Secret, and its kubeconfig in a Secret.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use tokio::task::JoinHandle;

use crate::kubeconfig_secret::{self, SecretName};

#[derive(Args, Clone)]
pub struct PodArgs {
    /// Publish the administrator's kubeconfig in this Secret of the cluster this runs in as a pod.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = SecretName::parse)]
    kubeconfig_secret: Option<SecretName>,
    /// Directory with CA and keys to copy into DATA_DIR/pki before the first start; existing files are kept.
    #[arg(long, value_name = "DIR")]
    import_keys: Option<PathBuf>,
}

impl PodArgs {
    /// Copies the keys before a server starts on this directory.
    pub fn import_keys(&self, data_dir: &Path) -> anyhow::Result<()> {
        self.import_keys.as_deref().map_or(Ok(()), |from| copy_keys(from, &data_dir.join("pki")))
    }

    /// Publishes the kubeconfig until the result is dropped.
    pub fn publish(&self, kubeconfig: PathBuf) -> anyhow::Result<Publishing> {
        let secret = self.kubeconfig_secret.clone();
        Ok(Publishing(secret.map(|secret| kubeconfig_secret::publish(secret, kubeconfig)).transpose()?))
    }
}

/// The task that publishes the kubeconfig, if there is one.
pub struct Publishing(Option<JoinHandle<()>>);

impl Drop for Publishing {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

/// Copies keys, such as those of a mounted Secret, to where they are private and can be added to.
fn copy_keys(from: &Path, to: &Path) -> anyhow::Result<()> {
    let cannot = || format!("--import-keys {}", from.display());
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(to);
    made.with_context(|| format!("cannot make {}", to.display()))?;
    for entry in std::fs::read_dir(from).with_context(cannot)? {
        let entry = entry.with_context(cannot)?;
        // A mounted Secret has links to files, and hidden directories.
        let is_file = std::fs::metadata(entry.path()).with_context(cannot)?.is_file();
        let target = to.join(entry.file_name());
        if is_file && !target.exists() {
            let content = std::fs::read(entry.path()).with_context(cannot)?;
            pki::key_dir::write_if_absent(&target, &content, 0o600)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn imported_keys_are_private_and_do_not_replace_existing_ones() {
        let directory = tempfile::tempdir().expect("a directory");
        let (from, to) = (directory.path().join("from"), directory.path().join("data/pki"));
        std::fs::create_dir_all(from.join("..data")).expect("made");
        for (name, text) in [("ca.crt", "new"), ("ca.key", "new")] {
            std::fs::write(from.join(name), text).expect("written");
        }
        std::fs::create_dir_all(&to).expect("made");
        std::fs::write(to.join("ca.crt"), "old").expect("written");
        copy_keys(&from, &to).expect("imported");
        assert_eq!(std::fs::read_to_string(to.join("ca.crt")).ok().as_deref(), Some("old"));
        assert_eq!(std::fs::read_to_string(to.join("ca.key")).ok().as_deref(), Some("new"));
        let mode = std::fs::metadata(to.join("ca.key")).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!to.join("..data").exists());
        assert!(copy_keys(&directory.path().join("missing"), &to).is_err());
    }
}
