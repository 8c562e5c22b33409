//! A streaming writer of tar archives for images.

use std::io::{self, Read, Write};

const BLOCK: usize = 512;
const NAME_MAX: usize = 100;
const PREFIX_MAX: usize = 155;

/// Appends entries to a writer; owned by root with mtime zero, so that equal content gives an equal archive.
pub struct Tar<W: Write> {
    to: W,
}

impl<W: Write> Tar<W> {
    pub fn new(to: W) -> Self {
        Self { to }
    }

    pub fn folder(&mut self, path: &str) -> io::Result<()> {
        self.header(&format!("{path}/"), b'5', 0o755, 0, "")
    }

    pub fn link(&mut self, path: &str, target: &str) -> io::Result<()> {
        self.header(path, b'2', 0o777, 0, target)
    }

    pub fn text(&mut self, path: &str, mode: u32, content: &str) -> io::Result<()> {
        self.file(path, mode, content.len() as u64, content.as_bytes())
    }

    /// Fails if the reader does not have exactly `size` bytes: a wrong header makes the rest unreadable.
    pub fn file(&mut self, path: &str, mode: u32, size: u64, content: impl Read) -> io::Result<()> {
        self.header(path, b'0', mode, size, "")?;
        let copied = io::copy(&mut content.take(size), &mut self.to)?;
        if copied != size {
            return Err(io::Error::other(format!("{path} changed while it was being read")));
        }
        let padding = (BLOCK - (size as usize % BLOCK)) % BLOCK;
        self.to.write_all(&[0; BLOCK][..padding])
    }

    pub fn finish(mut self) -> io::Result<W> {
        self.to.write_all(&[0; 2 * BLOCK])?;
        self.to.flush()?;
        Ok(self.to)
    }

    fn header(&mut self, path: &str, kind: u8, mode: u32, size: u64, link: &str) -> io::Result<()> {
        let (prefix, name) =
            split(path).ok_or_else(|| io::Error::other(format!("{path} is too long for a tar archive")))?;
        if link.len() > NAME_MAX {
            return Err(io::Error::other(format!("{link} is too long for a tar archive")));
        }
        let mut block = [0_u8; BLOCK];
        let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, name.as_bytes());
        put(100, format!("{mode:07o}\0").as_bytes());
        put(108, b"0000000\0");
        put(116, b"0000000\0");
        put(124, format!("{size:011o}\0").as_bytes());
        put(136, b"00000000000\0");
        put(148, b"        ");
        put(156, &[kind]);
        put(157, link.as_bytes());
        put(257, b"ustar\x0000");
        put(265, b"root");
        put(297, b"root");
        put(345, prefix.as_bytes());
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.to.write_all(&block)
    }
}

/// Splits a path into the two header fields; `None` if it does not fit.
fn split(path: &str) -> Option<(&str, &str)> {
    if path.len() <= NAME_MAX {
        return Some(("", path));
    }
    let fits = |at: &usize| *at <= PREFIX_MAX && path.len() - at - 1 <= NAME_MAX && at + 1 < path.len();
    let at = path.match_indices('/').map(|(at, _)| at).find(fits)?;
    Some((&path[..at], &path[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tar_program_reads_the_archive() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.tar");
        let mut tar = Tar::new(std::fs::File::create(&path).unwrap());
        let deep = format!("rootfs/{}/{}/file", "a".repeat(60), "b".repeat(60));
        tar.folder("rootfs").unwrap();
        tar.text("rootfs/run", 0o755, "#!/bin/sh\n").unwrap();
        tar.link("rootfs/sh", "/bin/busybox").unwrap();
        tar.text(&deep, 0o600, &"x".repeat(1000)).unwrap();
        tar.finish().unwrap();
        let list = std::process::Command::new("tar").arg("-tvf").arg(&path).output().unwrap();
        let text = String::from_utf8(list.stdout).unwrap();
        assert!(list.status.success(), "{}", String::from_utf8_lossy(&list.stderr));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("drwxr-xr-x root/root") && lines[0].ends_with("rootfs/"), "{text}");
        assert!(lines[1].starts_with("-rwxr-xr-x") && lines[1].contains(" 10 "), "{text}");
        assert!(lines[2].ends_with("rootfs/sh -> /bin/busybox"), "{text}");
        assert!(lines[3].starts_with("-rw-------") && lines[3].ends_with(&deep), "{text}");
    }

    #[test]
    fn a_file_that_shrank_is_an_error() {
        let mut tar = Tar::new(Vec::new());
        let error = tar.file("f", 0o644, 10, &b"short"[..]).unwrap_err();
        assert!(error.to_string().contains("changed while it was being read"), "{error}");
    }

    #[test]
    fn names_that_do_not_fit_a_header_are_rejected() {
        let mut tar = Tar::new(Vec::new());
        assert!(tar.text(&"a".repeat(101), 0o644, "").is_err());
        assert!(tar.link("a", &"b".repeat(101)).is_err());
    }
}
