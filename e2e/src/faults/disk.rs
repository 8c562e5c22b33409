//! A small disk for a program under test that can be filled for real.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Unsupported;

/// A tmpfs that is unmounted when dropped; its users must have exited by then.
pub struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    pub fn mount(path: &Path, mebibytes: u32) -> Result<Self, Unsupported> {
        std::fs::create_dir_all(path).map_err(|error| Unsupported(format!("{}: {error}", path.display())))?;
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={mebibytes}m,mode=0700"), "flotilla-faults"]).arg(path);
        let output = command.output().map_err(|error| Unsupported(format!("mount: {error}")))?;
        match output.status.success() {
            true => Ok(Self { path: path.to_owned() }),
            false => {
                let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                Err(Unsupported(format!("a disk that can be filled needs root and tmpfs: {why}")))
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Fills the disk.
    pub fn fill(&self) {
        let mut ballast = std::fs::File::create(self.ballast()).expect("a file on the disk");
        let mut block = vec![0xA5_u8; 1 << 20];
        while !block.is_empty() {
            // The rest is filled in smaller pieces.
            if ballast.write_all(&block).is_err() {
                block.truncate(block.len() / 2);
            }
        }
    }

    pub fn empty(&self) {
        // It may never have been filled.
        let _ = std::fs::remove_file(self.ballast());
    }

    fn ballast(&self) -> PathBuf {
        self.path.join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A process that has just exited may still hold it.
        let _ = Command::new("umount").arg("-l").arg(&self.path).output();
    }
}
