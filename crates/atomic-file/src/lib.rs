//! Writes whole files atomically: readers see the old content or the new, even after a power failure.

use std::fs::{File, Permissions};
use std::io::{ErrorKind, Result, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::NamedTempFile;

/// Creates or replaces the file. The mode is restricted by the process's umask.
pub fn replace(path: &Path, content: &[u8], mode: u32) -> Result<()> {
    let temporary = write_temporary(path, content, mode)?;
    temporary.persist(path).map_err(|failed| failed.error)?;
    sync(directory_of(path))
}

/// Creates the complete file; does nothing if it exists.
pub fn create(path: &Path, content: &[u8], mode: u32) -> Result<()> {
    let temporary = write_temporary(path, content, mode)?;
    match temporary.persist_noclobber(path) {
        Ok(_) => sync(directory_of(path)),
        Err(failed) if failed.error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(failed) => Err(failed.error),
    }
}

/// Writes a temporary file into the same directory, from which a rename is atomic. It is removed unless it is persisted.
fn write_temporary(path: &Path, content: &[u8], mode: u32) -> Result<NamedTempFile> {
    let stem = path.file_name().unwrap_or_default().to_string_lossy();
    let mut file = tempfile::Builder::new()
        .prefix(&format!(".{stem}."))
        .suffix(".tmp")
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(directory_of(path))?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    Ok(file)
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The new name is durable once its directory is.
fn sync(directory: &Path) -> Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).expect("readable");
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_file_is_replaced_with_its_mode_and_nothing_is_left_over() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("key");
        replace(&path, b"one", 0o600).expect("created");
        replace(&path, b"two", 0o600).expect("replaced");
        assert_eq!(std::fs::read(&path).expect("readable"), b"two");
        assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        assert_eq!(names(directory.path()), ["key"]);
    }

    #[test]
    fn an_existing_file_is_not_created_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("key");
        create(&path, b"one", 0o644).expect("created");
        create(&path, b"two", 0o644).expect("kept");
        assert_eq!(std::fs::read(&path).expect("readable"), b"one");
        assert_eq!(names(directory.path()), ["key"]);
    }

    #[test]
    fn a_missing_directory_is_an_error() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("missing/key");
        assert_eq!(replace(&path, b"", 0o600).map_err(|error| error.kind()), Err(ErrorKind::NotFound));
    }
}
