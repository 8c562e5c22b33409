//! Directories of instances in the manager's data directory. They are named by UID, so that no name reaches a path and a new
//! instance never gets the data of an old one.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

/// Time for which the data of deleted instances is kept.
pub const TRASH_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// The embedded store in the data directory of a server.
const STORE: &str = "store";

/// The directories below the manager's data directory.
#[derive(Clone, Debug)]
pub struct InstanceDirs {
    root: PathBuf,
}

impl InstanceDirs {
    pub fn new(data_dir: &Path) -> Self {
        Self { root: data_dir.to_owned() }
    }

    /// Returns the directory of an instance. Panics if the UID could leave it: UIDs are made by the server.
    pub fn of(&self, uid: &str) -> PathBuf {
        assert!(is_uid(uid), "{uid:?} is not a UID");
        self.root.join("instances").join(uid)
    }

    /// Returns true if the directory of an instance has the data and the keys of a control plane.
    pub fn has_plane(&self, uid: &str) -> bool {
        let directory = self.of(uid);
        directory.join(STORE).exists() && directory.join("pki/ca.key").exists()
    }

    /// Returns the directory of the backups of an instance.
    pub fn backups(&self, uid: &str) -> PathBuf {
        assert!(is_uid(uid), "{uid:?} is not a UID");
        self.root.join("backups").join(uid)
    }

    /// Moves the backups of a deleted instance to the trash. Does nothing if there are none.
    pub fn discard_backups(&self, uid: &str, name: &str, now: Timestamp) -> io::Result<()> {
        move_directory(&self.backups(uid), &self.trash(), &format!("{}_{name}_{uid}_backups", now.as_second()))
            .map(drop)
    }

    fn trash(&self) -> PathBuf {
        self.root.join("trash")
    }

    /// Moves the data of a deleted instance to the trash. Does nothing if there is none.
    pub fn discard(&self, uid: &str, name: &str, now: Timestamp) -> io::Result<Option<PathBuf>> {
        self.move_to(uid, &self.trash(), &format!("{}_{name}_{uid}", now.as_second()))
    }

    /// Sets the data of an instance aside that is deleted without its control plane.
    pub fn release(&self, uid: &str, name: &str) -> io::Result<Option<PathBuf>> {
        self.move_to(uid, &self.root.join("released"), &format!("{name}_{uid}"))
    }

    fn move_to(&self, uid: &str, parent: &Path, name: &str) -> io::Result<Option<PathBuf>> {
        move_directory(&self.of(uid), parent, name)
    }

    /// Removes trash that is older than [`TRASH_KEPT`]; returns what it removed.
    pub fn empty_trash(&self, now: Timestamp) -> io::Result<Vec<PathBuf>> {
        let mut removed = Vec::new();
        let entries = match std::fs::read_dir(self.trash()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(removed),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let since = name.to_str().and_then(|name| name.split('_').next()).and_then(|text| text.parse::<i64>().ok());
            let is_old = since.is_some_and(|since| now.as_second() - since > TRASH_KEPT.as_secs() as i64);
            if is_old {
                std::fs::remove_dir_all(entry.path())?;
                removed.push(entry.path());
            }
        }
        Ok(removed)
    }
}

fn move_directory(from: &Path, parent: &Path, name: &str) -> io::Result<Option<PathBuf>> {
    if !from.exists() {
        return Ok(None);
    }
    let to = parent.join(name);
    std::fs::create_dir_all(parent)?;
    match std::fs::rename(from, &to) {
        Ok(()) => Ok(Some(to)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns true for text that can be part of a path.
pub(crate) fn is_uid(text: &str) -> bool {
    (16..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "0a1b2c3d-0000-4000-8000-000000000001";

    #[test]
    fn deleted_data_is_kept_for_a_week() {
        let root = tempfile::tempdir().expect("a directory");
        let dirs = InstanceDirs::new(root.path());
        std::fs::create_dir_all(dirs.of(UID)).expect("created");
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
        let kept = dirs.discard(UID, "east", now).expect("moved").expect("it was there");
        assert!(kept.is_dir() && !dirs.of(UID).exists());
        assert_eq!(dirs.discard(UID, "east", now).expect("nothing to do"), None);
        let day = |days: i64| Timestamp::from_second(now.as_second() + days * 86_400 + 1).expect("a time");
        assert!(dirs.empty_trash(day(6)).expect("read").is_empty());
        assert_eq!(dirs.empty_trash(day(7)).expect("read"), vec![kept.clone()]);
        assert!(!kept.exists());
    }

    #[test]
    fn a_directory_without_store_or_keys_has_no_plane() {
        let root = tempfile::tempdir().expect("a directory");
        let dirs = InstanceDirs::new(root.path());
        assert!(!dirs.has_plane(UID));
        std::fs::create_dir_all(dirs.of(UID).join("store")).expect("created");
        assert!(!dirs.has_plane(UID), "without keys");
        std::fs::create_dir_all(dirs.of(UID).join("pki")).expect("created");
        std::fs::write(dirs.of(UID).join("pki/ca.key"), "").expect("written");
        assert!(dirs.has_plane(UID));
        std::fs::remove_dir(dirs.of(UID).join("store")).expect("removed");
        assert!(!dirs.has_plane(UID), "without a store");
    }

    #[test]
    #[should_panic(expected = "is not a UID")]
    fn no_name_reaches_a_path() {
        InstanceDirs::new(Path::new("/data")).of("../../etc/passwd/x");
    }
}
