//! Reads and writes the tar archives of images: the same content gives the same bytes, and nothing is unpacked.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use tar::{Builder, EntryType, Header, PaxExtensions};

const BLOCK: u64 = 512;
/// Longest name, and longest list of extended attributes, that is read.
const EXTENSION_LEN_MAX: u64 = 1024 * 1024;
const ENTRIES_MAX: usize = 1_000_000;
/// Links followed from one name to a file.
const LINKS_MAX: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind<'a> {
    File { len: u64 },
    Directory,
    Symlink { target: &'a str },
}

/// A file's header. Owner and time are zero, so that the same content gives the same bytes.
pub struct Entry<'a> {
    /// Without a slash at its start.
    pub path: &'a str,
    pub kind: EntryKind<'a>,
    pub mode: u32,
    pub owner: (u32, u32),
}

pub struct TarWriter<W: Write> {
    builder: Builder<W>,
}

impl<W: Write> TarWriter<W> {
    pub fn new(out: W) -> Self {
        Self { builder: Builder::new(out) }
    }

    /// Appends an entry; fails when `content` is shorter than the entry promises, which would break the rest of the archive.
    pub fn append(&mut self, entry: &Entry<'_>, content: impl Read) -> io::Result<()> {
        let mut header = Header::new_ustar();
        header.set_mode(entry.mode & 0o7777);
        header.set_uid(u64::from(entry.owner.0));
        header.set_gid(u64::from(entry.owner.1));
        header.set_mtime(0);
        header.set_size(0);
        match entry.kind {
            EntryKind::File { len } => {
                header.set_entry_type(EntryType::Regular);
                header.set_size(len);
                let mut content = content.take(len);
                self.builder.append_data(&mut header, entry.path, &mut content)?;
                if content.limit() > 0 {
                    let text = format!("{} became shorter while it was read", entry.path);
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
                }
                Ok(())
            }
            EntryKind::Directory => {
                header.set_entry_type(EntryType::Directory);
                let path = format!("{}/", entry.path.trim_end_matches('/'));
                self.builder.append_data(&mut header, path, io::empty())
            }
            EntryKind::Symlink { target } => {
                header.set_entry_type(EntryType::Symlink);
                self.builder.append_link(&mut header, entry.path, target)
            }
        }
    }

    pub fn append_bytes(&mut self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let kind = EntryKind::File { len: bytes.len() as u64 };
        self.append(&Entry { path, kind, mode: 0o644, owner: (0, 0) }, bytes)
    }

    pub fn finish(self) -> io::Result<W> {
        let mut out = self.builder.into_inner()?;
        out.flush()?;
        Ok(out)
    }
}

fn padding(len: u64) -> u64 {
    (BLOCK - len % BLOCK) % BLOCK
}

/// The offsets of the files in an archive.
#[derive(Debug)]
pub struct TarIndex {
    spans: HashMap<String, Span>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Span {
    File { offset: u64, len: u64 },
    Link(String),
}

impl TarIndex {
    pub fn read(file: &File) -> io::Result<Self> {
        let total = file.metadata()?.len();
        let mut file = io::BufReader::with_capacity(64 * 1024, file);
        file.seek(SeekFrom::Start(0))?;
        let (mut spans, mut offset) = (HashMap::new(), 0);
        let mut extension = Extension::default();
        let mut header = Header::new_old();
        while offset + BLOCK <= total {
            file.read_exact(header.as_mut_bytes())?;
            offset += BLOCK;
            if header.as_bytes().iter().all(|byte| *byte == 0) {
                break;
            }
            check_sum(&header)?;
            let len = match extension.len {
                Some(len) => len,
                None => header.entry_size().map_err(|_| bad("a size in it cannot be read"))?,
            };
            let end = offset.checked_add(len).and_then(|end| end.checked_add(padding(len)));
            // The padding of the last file may be missing; its content may not.
            if offset.checked_add(len).is_none_or(|content_end| content_end > total) {
                return Err(bad("it ends in the middle of a file"));
            }
            let kind = header.entry_type();
            if kind.is_pax_local_extensions() || kind.is_gnu_longname() || kind.is_gnu_longlink() {
                extension.read(kind, &mut file, len)?;
            } else {
                if spans.len() >= ENTRIES_MAX {
                    return Err(bad("it has too many files"));
                }
                let Extension { path, target, .. } = std::mem::take(&mut extension);
                let name = clean("", &path.unwrap_or_else(|| text(&header.path_bytes())));
                let target =
                    target.or_else(|| header.link_name_bytes().map(|target| text(&target))).unwrap_or_default();
                match kind {
                    EntryType::Regular | EntryType::Continuous => drop(spans.insert(name, Span::File { offset, len })),
                    EntryType::Link => drop(spans.insert(name, Span::Link(clean("", &target)))),
                    EntryType::Symlink => {
                        let dir = name.rsplit_once('/').map_or("", |(dir, _)| dir).to_owned();
                        spans.insert(name, Span::Link(clean(&dir, &target)));
                    }
                    _ => {}
                }
            }
            offset = end.ok_or_else(|| bad("a size in it is too large"))?;
            file.seek(SeekFrom::Start(offset))?;
        }
        Ok(Self { spans })
    }

    /// Offset and length of a file; links are followed.
    pub fn find(&self, path: &str) -> Option<(u64, u64)> {
        let mut path = clean("", path);
        for _ in 0..LINKS_MAX {
            match self.spans.get(&path)? {
                Span::File { offset, len } => return Some((*offset, *len)),
                Span::Link(target) => path.clone_from(target),
            }
        }
        None
    }

    /// The content of a small file.
    pub fn read_small(&self, file: &File, path: &str, len_max: u64) -> io::Result<Option<Vec<u8>>> {
        let Some((offset, len)) = self.find(path) else { return Ok(None) };
        if len > len_max {
            return Err(bad(&format!("{path} in it is too large")));
        }
        let mut bytes = Vec::new();
        part(file, offset, len)?.read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }
}

/// A part of a file, to read; the file's own position is left alone.
pub fn part(file: &File, offset: u64, len: u64) -> io::Result<impl Read + use<>> {
    Ok(Positioned { file: file.try_clone()?, at: offset }.take(len))
}

struct Positioned {
    file: File,
    at: u64,
}

impl Read for Positioned {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = std::os::unix::fs::FileExt::read_at(&self.file, buffer, self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

/// Extended attributes from the headers before a header.
#[derive(Default)]
struct Extension {
    path: Option<String>,
    target: Option<String>,
    len: Option<u64>,
}

impl Extension {
    fn read(&mut self, kind: EntryType, file: &mut impl Read, len: u64) -> io::Result<()> {
        if len > EXTENSION_LEN_MAX {
            return Err(bad("a name in it is too long"));
        }
        let mut bytes = Vec::new();
        file.take(len).read_to_end(&mut bytes)?;
        match kind {
            EntryType::GNULongName => self.path = Some(until_nul(&bytes)),
            EntryType::GNULongLink => self.target = Some(until_nul(&bytes)),
            _ => {
                for record in PaxExtensions::new(&bytes) {
                    let record = record.map_err(|_| bad("an extended header in it cannot be read"))?;
                    match record.key_bytes() {
                        b"path" => self.path = Some(text(record.value_bytes())),
                        b"linkpath" => self.target = Some(text(record.value_bytes())),
                        b"size" => self.len = record.value().ok().and_then(|len| len.parse().ok()),
                        _ => {}
                    }
                }
            }
        }
        Ok(())
    }
}

/// Fails when a header is no header: its checksum counts its own field as blanks.
fn check_sum(header: &Header) -> io::Result<()> {
    let bytes = header.as_bytes().iter().enumerate();
    let sum: u32 = bytes.map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u32::from(*byte) }).sum();
    match header.cksum() {
        Ok(found) if found == sum => Ok(()),
        _ => Err(bad("it is no tar archive, or damaged")),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn until_nul(bytes: &[u8]) -> String {
    text(bytes.split(|byte| *byte == 0).next().unwrap_or_default())
}

/// A name without `.`, `..` and slashes at its ends; one that points outside ends at the root.
fn clean(dir: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in dir.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn bad(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}

/// Returns true when a file starts with the magic bytes of gzip.
pub fn is_gzip(path: &Path) -> io::Result<bool> {
    let mut magic = [0; 2];
    let mut file = File::open(path)?;
    Ok(file.read(&mut magic)? == 2 && magic == [0x1f, 0x8b])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(entries: &[(&str, EntryKind<'_>, &[u8])]) -> File {
        let mut writer = TarWriter::new(tempfile::tempfile().unwrap());
        for (path, kind, content) in entries {
            writer.append(&Entry { path, kind: *kind, mode: 0o755, owner: (0, 0) }, *content).unwrap();
        }
        writer.finish().unwrap()
    }

    #[test]
    fn written_entries_can_be_read() {
        let long = "d/".repeat(120) + "ä";
        let file = archive(&[
            ("a/b", EntryKind::File { len: 5 }, b"hello"),
            ("a", EntryKind::Directory, b""),
            (&long, EntryKind::File { len: 3 }, b"far"),
            ("a/link", EntryKind::Symlink { target: "../a/b" }, b""),
            ("loop", EntryKind::Symlink { target: "loop" }, b""),
        ]);
        let index = TarIndex::read(&file).unwrap();
        let read = |path: &str| index.read_small(&file, path, 100).unwrap().map(|b| String::from_utf8(b).unwrap());
        assert_eq!(read("a/b").as_deref(), Some("hello"));
        assert_eq!(read("./a//b").as_deref(), Some("hello"));
        assert_eq!(read(&long).as_deref(), Some("far"));
        assert_eq!(read("a/link").as_deref(), Some("hello"));
        assert_eq!(read("loop"), None);
        assert!(index.read_small(&file, "a/b", 4).is_err());
    }

    #[test]
    fn archives_are_exchanged_with_the_tar_program() {
        let directory = tempfile::tempdir().unwrap();
        let long = format!("{}/{}", "n".repeat(120), "m".repeat(90));
        let mut writer = TarWriter::new(File::create(directory.path().join("ours.tar")).unwrap());
        let kind = EntryKind::File { len: 4 };
        writer.append(&Entry { path: &long, kind, mode: 0o640, owner: (0, 0) }, &b"text"[..]).unwrap();
        writer.finish().unwrap();
        let tar = |arguments: &[&str]| {
            let done =
                std::process::Command::new("tar").args(arguments).current_dir(directory.path()).output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        };
        tar(&["-xf", "ours.tar"]);
        assert_eq!(std::fs::read(directory.path().join(&long)).unwrap(), b"text");
        for format in ["gnu", "pax", "ustar"] {
            tar(&["--format", format, "-cf", "theirs.tar", &long]);
            let file = File::open(directory.path().join("theirs.tar")).unwrap();
            let found = TarIndex::read(&file).unwrap().read_small(&file, &long, 10).unwrap();
            assert_eq!(found.as_deref(), Some(&b"text"[..]), "{format}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(0_u8.., 0..3000), flip in 0_usize..2048, to in 0_u8..) {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&bytes).unwrap();
            let _ = TarIndex::read(&file);
            let good = archive(&[("a", EntryKind::File { len: 5 }, b"hello")]);
            std::os::unix::fs::FileExt::write_at(&good, &[to], flip as u64).unwrap();
            let _ = TarIndex::read(&good);
        }
    }
}
