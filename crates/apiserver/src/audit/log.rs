//! The audit log file: lines are appended at once, so that a crash loses none, and full files are rotated.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

/// Rotation of the log file; zero means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    pub size_max_bytes: u64,
    pub backups_max: usize,
    pub age_max: Duration,
}

pub struct LogFile {
    path: PathBuf,
    rotation: Rotation,
    open: Mutex<OpenLog>,
}

struct OpenLog {
    file: File,
    size: u64,
    has_failed: bool,
}

impl LogFile {
    /// Appends to `path`, which only its owner can read.
    pub fn open(path: &Path, rotation: Rotation) -> io::Result<Self> {
        let mut file = open_file(path)?;
        if !ends_with_a_line(path)? {
            file.write_all(b"\n")?;
        }
        let size = file.metadata()?.len();
        let log = Self { path: path.to_owned(), rotation, open: Mutex::new(OpenLog { file, size, has_failed: false }) };
        log.prune(SystemTime::now());
        Ok(log)
    }

    /// Appends a line. A failure is logged once, until a line can be written again.
    pub fn append(&self, line: &[u8]) {
        let mut open = self.open.lock();
        let is_full = self.rotation.size_max_bytes > 0 && open.size > 0;
        if is_full
            && open.size + line.len() as u64 > self.rotation.size_max_bytes
            && let Err(error) = self.rotate(&mut open)
        {
            tracing::error!(%error, path = %self.path.display(), "cannot rotate the audit log");
        }
        match open.file.write_all(line) {
            Ok(()) => {
                open.size += line.len() as u64;
                open.has_failed = false;
            }
            Err(error) => {
                if !std::mem::replace(&mut open.has_failed, true) {
                    tracing::error!(%error, path = %self.path.display(), "cannot write the audit log");
                }
            }
        }
    }

    /// The last line could not be written.
    pub fn has_failed(&self) -> bool {
        self.open.lock().has_failed
    }

    fn rotate(&self, open: &mut OpenLog) -> io::Result<()> {
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H-%M-%S.%6f").to_string();
        let (stem, extension) = self.name_parts();
        std::fs::rename(&self.path, self.path.with_file_name(format!("{stem}-{now}{extension}")))?;
        open.file = open_file(&self.path)?;
        open.size = 0;
        self.prune(SystemTime::now());
        Ok(())
    }

    /// Removes rotated files that are too many or too old.
    fn prune(&self, now: SystemTime) {
        let mut backups = self.backups();
        backups.sort();
        let excess = match self.rotation.backups_max {
            0 => 0,
            max => backups.len().saturating_sub(max),
        };
        let is_old = |path: &PathBuf| {
            let modified = std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
            let age = modified.and_then(|modified| now.duration_since(modified).ok());
            !self.rotation.age_max.is_zero() && age.is_some_and(|age| age > self.rotation.age_max)
        };
        for (index, path) in backups.iter().enumerate() {
            if (index < excess || is_old(path))
                && let Err(error) = std::fs::remove_file(path)
            {
                tracing::warn!(%error, path = %path.display(), "cannot remove an old audit log");
            }
        }
    }

    fn backups(&self) -> Vec<PathBuf> {
        let (stem, extension) = self.name_parts();
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let Ok(entries) = std::fs::read_dir(directory.unwrap_or(Path::new("."))) else { return Vec::new() };
        let is_backup = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let time = name.strip_prefix(&format!("{stem}-")).and_then(|rest| rest.strip_suffix(&extension));
            time.is_some_and(|time| time.len() == "2026-01-01T00-00-00.000000".len() && time.contains('T'))
        };
        entries.flatten().map(|entry| entry.path()).filter(is_backup).collect()
    }

    fn name_parts(&self) -> (String, String) {
        let part = |text: Option<&std::ffi::OsStr>| text.map(|text| text.to_string_lossy().into_owned());
        let extension = part(self.path.extension()).map_or_else(String::new, |extension| format!(".{extension}"));
        (part(self.path.file_stem()).unwrap_or_default(), extension)
    }
}

fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// A process that was killed may have left a part of a line, which must not make the next one unreadable.
fn ends_with_a_line(path: &Path) -> io::Result<bool> {
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() || metadata.len() == 0 {
        return Ok(true);
    }
    let (mut file, mut last) = (File::open(path)?, [0]);
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Directory(PathBuf);

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_torn_line_does_not_swallow_the_next() {
        let directory = Directory(std::env::temp_dir().join(format!("audit-{}", uuid::Uuid::new_v4())));
        std::fs::create_dir(&directory.0).expect("a directory");
        let path = directory.0.join("audit.log");
        for (before, expected) in [("", "b\n"), ("a\n", "a\nb\n"), ("a\n{to", "a\n{to\nb\n")] {
            std::fs::write(&path, before).expect("written");
            LogFile::open(&path, Rotation::default()).expect("a log").append(b"b\n");
            assert_eq!(std::fs::read_to_string(&path).expect("the log"), expected);
        }
    }

    #[test]
    fn full_files_are_rotated_and_old_ones_removed() {
        let directory = Directory(std::env::temp_dir().join(format!("audit-{}", uuid::Uuid::new_v4())));
        std::fs::create_dir(&directory.0).expect("a directory");
        let path = directory.0.join("audit.log");
        std::fs::write(directory.0.join("audit-other.log"), "not a backup").expect("written");
        let rotation = Rotation { size_max_bytes: 100, backups_max: 2, age_max: Duration::from_secs(3600) };
        let log = LogFile::open(&path, rotation).expect("a log");
        for index in 0..10 {
            log.append(format!("{index} {}\n", "x".repeat(50)).as_bytes());
        }
        assert_eq!(log.backups().len(), 2, "older ones are removed");
        let last = std::fs::read_to_string(&path).expect("the log");
        assert!(last.starts_with('9') && last.lines().count() == 1, "{last}");
        log.prune(SystemTime::now() + Duration::from_secs(7200));
        assert_eq!(log.backups().len(), 0, "and those above the age");
        assert!(path.exists() && directory.0.join("audit-other.log").exists());
    }
}
