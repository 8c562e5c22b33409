//! Backups of instances as files in the manager's data directory, one directory per instance.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jiff::Timestamp;
use manager_kinds::annotations::is_backup_id;

const EXTENSION: &str = "flotilla";
/// The encryption configuration of the control plane that a copied backup comes from.
const KEYS: &str = "encryption/config.yaml";

/// A backup in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupFile {
    pub id: String,
    pub bytes: u64,
    pub created: Timestamp,
}

/// Returns the file of a backup. Panics if the id could leave the directory: callers check it.
pub fn backup_file(directory: &Path, id: &str) -> PathBuf {
    assert!(is_backup_id(id), "{id:?} is not the id of a backup");
    directory.join(format!("{id}.{EXTENSION}"))
}

/// File in a data directory with the id of the backup that it comes from.
const MARKER: &str = "restored-from";

/// Returns true if the data comes from a backup.
pub fn is_restored_from(data: &Path, id: &str) -> bool {
    std::fs::read_to_string(data.join(MARKER)).is_ok_and(|from| from == id)
}

/// Marks data as restored.
pub fn mark_restored(data: &Path, id: &str) -> io::Result<()> {
    std::fs::write(data.join(MARKER), id)
}

/// Returns an id that sorts by time.
pub fn new_id(now: Timestamp, suffix: &str) -> String {
    format!("{}-{suffix}", now.strftime("%Y%m%d-%H%M%S"))
}

/// Creates the directory of the backups of an instance, for its owner only.
pub fn prepare(directory: &Path) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    std::fs::set_permissions(directory, Permissions::from_mode(0o700))
}

/// Lists the backups in a directory, the newest first.
pub fn list(directory: &Path) -> io::Result<Vec<BackupFile>> {
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let is_backup = path.extension().is_some_and(|extension| extension == EXTENSION);
        let id = path.file_stem().and_then(|stem| stem.to_str()).filter(|id| is_backup && is_backup_id(id));
        if let Some(id) = id {
            let about = std::fs::metadata(&path)?;
            let created = Timestamp::try_from(about.modified().unwrap_or(SystemTime::UNIX_EPOCH));
            let created = created.unwrap_or(Timestamp::UNIX_EPOCH);
            found.push(BackupFile { id: id.to_owned(), bytes: about.len(), created });
        }
    }
    found.sort_by(|a, b| b.id.cmp(&a.id));
    Ok(found)
}

/// Gives another instance a backup, and the encryption keys of the control plane it comes from, if there are any.
pub fn copy(id: &str, from: &Path, former_data: &Path, to: &Path) -> io::Result<()> {
    prepare(to)?;
    for keys in [former_data.join(KEYS), from.join(KEYS)] {
        if keys.is_file() {
            prepare(&to.join("encryption"))?;
            std::fs::copy(keys, to.join(KEYS))?;
            break;
        }
    }
    std::fs::copy(backup_file(from, id), backup_file(to, id)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backups_are_listed_and_copied_with_their_keys() {
        let root = tempfile::tempdir().expect("a directory");
        let (from, data, to) = (root.path().join("a"), root.path().join("data"), root.path().join("b"));
        assert!(list(&from).expect("nothing yet").is_empty());
        prepare(&from).expect("prepared");
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().expect("a time");
        assert_eq!(new_id(now, "ab1"), "20260102-030405-ab1");
        for (name, content) in
            [("20260102-030405-ab1.flotilla", "one"), ("20260103-1.flotilla", "three"), ("x.tmp", "")]
        {
            std::fs::write(from.join(name), content).expect("written");
        }
        let found = list(&from).expect("listed");
        let found: Vec<(&str, u64)> = found.iter().map(|file| (file.id.as_str(), file.bytes)).collect();
        assert_eq!(found, [("20260103-1", 5), ("20260102-030405-ab1", 3)]);
        prepare(&data.join("encryption")).expect("prepared");
        std::fs::write(data.join(KEYS), "keys").expect("written");
        copy("20260103-1", &from, &data, &to).expect("copied");
        assert_eq!(std::fs::read(backup_file(&to, "20260103-1")).expect("read"), b"three");
        assert_eq!(std::fs::read(to.join(KEYS)).expect("read"), b"keys");
    }

    #[test]
    #[should_panic(expected = "is not the id of a backup")]
    fn no_path_is_an_id() {
        backup_file(Path::new("/data"), "../../etc/passwd");
    }
}
