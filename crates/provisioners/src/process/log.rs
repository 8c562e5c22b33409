//! The log file of a process, with a maximum size.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A full file is rotated to `NAME.log.1`, replacing the previous one.
pub const LOG_BYTES_MAX: u64 = 8 * 1024 * 1024;

pub struct Log {
    path: PathBuf,
    file: File,
    written: u64,
    bytes_max: u64,
}

impl Log {
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::bounded(path, LOG_BYTES_MAX)
    }

    fn bounded(path: &Path, bytes_max: u64) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let written = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, written, bytes_max })
    }

    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.written > 0 && self.written + bytes.len() as u64 > self.bytes_max {
            std::fs::rename(&self.path, rotated(&self.path))?;
            self.file = OpenOptions::new().create(true).append(true).open(&self.path)?;
            self.written = 0;
        }
        self.file.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }
}

/// Returns the path of the rotated log.
pub fn rotated(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_stays_within_its_limit_and_keeps_the_newest() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("logs/a.log");
        for round in 0..10 {
            // Reopened each time, as after a restart.
            let mut log = Log::bounded(&path, 100).unwrap();
            for line in 0..10 {
                log.write(format!("{round} {line} 0123456789\n").as_bytes()).unwrap();
            }
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.ends_with("9 9 0123456789\n"), "{text}");
        assert!(text.len() <= 100 && std::fs::metadata(rotated(&path)).unwrap().len() <= 100);
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 2);
    }
}
