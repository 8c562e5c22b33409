//! Writes the tar archive of a machine image as a stream.

use std::io::{self, Read, Write};

use tar::{Builder, EntryType, Header};

/// Appends entries to a writer; owned by root with mtime zero, so that equal content gives an equal archive.
pub struct Tar<W: Write> {
    builder: Builder<W>,
}

impl<W: Write> Tar<W> {
    pub fn new(to: W) -> Self {
        Self { builder: Builder::new(to) }
    }

    pub fn folder(&mut self, path: &str) -> io::Result<()> {
        let header = header(&format!("{path}/"), EntryType::Directory, 0o755, 0)?;
        self.append(header, io::empty())
    }

    pub fn link(&mut self, path: &str, target: &str) -> io::Result<()> {
        let mut header = header(path, EntryType::Symlink, 0o777, 0)?;
        header.set_link_name(target)?;
        self.append(header, io::empty())
    }

    pub fn text(&mut self, path: &str, mode: u32, content: &str) -> io::Result<()> {
        self.file(path, mode, content.len() as u64, content.as_bytes())
    }

    /// Fails when the reader has fewer than `size` bytes: the rest of the archive would be unreadable.
    pub fn file(&mut self, path: &str, mode: u32, size: u64, content: impl Read) -> io::Result<()> {
        let mut content = content.take(size);
        self.append(header(path, EntryType::Regular, mode, size)?, &mut content)?;
        if content.limit() > 0 {
            return Err(io::Error::other(format!("{path} changed while it was being read")));
        }
        Ok(())
    }

    pub fn finish(self) -> io::Result<W> {
        let mut to = self.builder.into_inner()?;
        to.flush()?;
        Ok(to)
    }

    fn append(&mut self, mut header: Header, content: impl Read) -> io::Result<()> {
        header.set_cksum();
        self.builder.append(&header, content)
    }
}

/// Fails for names that do not fit into a ustar header.
fn header(path: &str, kind: EntryType, mode: u32, size: u64) -> io::Result<Header> {
    let mut header = Header::new_ustar();
    header.set_path(path)?;
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_uid(0);
    header.set_gid(0);
    header.set_username("root")?;
    header.set_groupname("root")?;
    header.set_mtime(0);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tar_program_reads_our_archives() {
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
    fn names_that_fit_no_header_are_refused() {
        let mut tar = Tar::new(Vec::new());
        assert!(tar.text(&"a".repeat(101), 0o644, "").is_err());
        assert!(tar.link("a", &"b".repeat(101)).is_err());
    }
}
