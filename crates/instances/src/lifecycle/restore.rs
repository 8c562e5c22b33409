//! Replaces the data of an instance with a backup, once for each value of its annotation.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use jiff::Timestamp;

use super::gather::Gathered;
use super::start::PORT_FILE;
use super::{Lifecycle, end_stray_process};
use crate::backups::{backup_file, is_restored_from, mark_restored};

impl Lifecycle {
    /// Restores next to the present data first: a backup that cannot be read changes nothing. The present data is then moved to
    /// the trash. Can be repeated at every point.
    pub(super) async fn restore(&self, gathered: &Gathered, directory: &Path) -> Result<(), String> {
        let Some(id) = &gathered.settings.restore else { return Ok(()) };
        if is_restored_from(directory, id) {
            return Ok(());
        }
        if gathered.spec.etcd.is_some() {
            return Err("a backup cannot be restored into an instance with an external etcd".to_owned());
        }
        let format = self.deps.factory.backups().ok_or("this manager cannot restore backups")?;
        let (uid, name) = (gathered.instance.uid(), gathered.instance.name());
        let backups = self.deps.dirs.backups(uid);
        let file = backup_file(&backups, id);
        if !file.is_file() {
            return Err(format!("there is no backup {id} of this instance"));
        }
        end_stray_process(&self.deps.dirs, uid).await;
        let failed = |error: io::Error| format!("cannot restore into {}: {error}", directory.display());
        let new = directory.with_extension("restoring");
        remove(&new).map_err(failed)?;
        std::fs::create_dir_all(&new).map_err(failed)?;
        std::fs::set_permissions(&new, Permissions::from_mode(0o700)).map_err(failed)?;
        format.restore(&file, &new, &[directory.to_owned(), backups]).await?;
        if let Ok(port) = std::fs::read(directory.join(PORT_FILE)) {
            std::fs::write(new.join(PORT_FILE), port).map_err(failed)?;
        }
        mark_restored(&new, id).map_err(failed)?;
        self.deps.dirs.discard(uid, name, Timestamp::now()).map_err(failed)?;
        std::fs::rename(&new, directory).map_err(failed)
    }
}

fn remove(directory: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
