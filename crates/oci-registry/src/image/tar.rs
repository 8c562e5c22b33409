//! Tar, as much of it as images need: written so that the same content gives the same bytes, read without unpacking.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

const BLOCK: u64 = 512;
/// Longest name, and longest list of extended attributes, that is read.
const EXTENSION_LEN_MAX: u64 = 1024 * 1024;
const ENTRIES_MAX: usize = 1_000_000;
/// Links followed from one name to the file it means.
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
    out: W,
}

impl<W: Write> TarWriter<W> {
    pub fn new(out: W) -> Self {
        Self { out }
    }

    pub fn append(&mut self, entry: &Entry<'_>, content: impl Read) -> io::Result<()> {
        let (kind, len, target) = match entry.kind {
            EntryKind::File { len } => (b'0', len, ""),
            EntryKind::Directory => (b'5', 0, ""),
            EntryKind::Symlink { target } => (b'2', 0, target),
        };
        let path = match entry.kind {
            EntryKind::Directory => format!("{}/", entry.path.trim_end_matches('/')),
            _ => entry.path.to_owned(),
        };
        self.extend_where_needed(&path, target, len)?;
        self.out.write_all(&header(&path, target, kind, len, entry))?;
        let copied = io::copy(&mut content.take(len), &mut self.out)?;
        if copied != len {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("{path} became shorter while it was read"),
            ));
        }
        self.pad(len)
    }

    pub fn append_bytes(&mut self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let kind = EntryKind::File { len: bytes.len() as u64 };
        self.append(&Entry { path, kind, mode: 0o644, owner: (0, 0) }, bytes)
    }

    pub fn finish(mut self) -> io::Result<W> {
        self.out.write_all(&[0; 2 * BLOCK as usize])?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// Names and sizes that do not fit a header go into one before it.
    fn extend_where_needed(&mut self, path: &str, target: &str, len: u64) -> io::Result<()> {
        let mut records = String::new();
        if path.len() > 100 || !path.is_ascii() {
            records.push_str(&record("path", path));
        }
        if target.len() > 100 || !target.is_ascii() {
            records.push_str(&record("linkpath", target));
        }
        if len >= 1 << 33 {
            records.push_str(&record("size", &len.to_string()));
        }
        if records.is_empty() {
            return Ok(());
        }
        let len = records.len() as u64;
        let entry = Entry { path: "", kind: EntryKind::File { len }, mode: 0o644, owner: (0, 0) };
        self.out.write_all(&header("pax", "", b'x', len, &entry))?;
        self.out.write_all(records.as_bytes())?;
        self.pad(len)
    }

    fn pad(&mut self, len: u64) -> io::Result<()> {
        let rest = padding(len);
        io::copy(&mut io::repeat(0).take(rest), &mut self.out).map(|_| ())
    }
}

fn padding(len: u64) -> u64 {
    (BLOCK - len % BLOCK) % BLOCK
}

/// `LEN KEY=VALUE\n`, where LEN counts itself.
fn record(key: &str, value: &str) -> String {
    let rest = key.len() + value.len() + 3;
    let mut len = rest + 1;
    while len != rest + len.to_string().len() {
        len = rest + len.to_string().len();
    }
    format!("{len} {key}={value}\n")
}

fn header(path: &str, target: &str, kind: u8, len: u64, entry: &Entry<'_>) -> [u8; 512] {
    let mut block = [0_u8; 512];
    let mut put = |at: usize, max: usize, bytes: &[u8]| {
        let n = bytes.len().min(max);
        block[at..at + n].copy_from_slice(&bytes[..n]);
    };
    put(0, 100, path.as_bytes());
    put(100, 8, format!("{:07o}\0", entry.mode & 0o7777).as_bytes());
    put(108, 8, format!("{:07o}\0", entry.owner.0 & 0o7_777_777).as_bytes());
    put(116, 8, format!("{:07o}\0", entry.owner.1 & 0o7_777_777).as_bytes());
    put(124, 12, format!("{:011o}\0", len & ((1 << 33) - 1)).as_bytes());
    put(136, 12, b"00000000000\0");
    put(148, 8, b"        ");
    put(156, 1, &[kind]);
    put(157, 100, target.as_bytes());
    put(257, 8, b"ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

/// Where the files of an archive are in it.
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
        let mut block = [0_u8; BLOCK as usize];
        while offset + BLOCK <= total {
            file.read_exact(&mut block)?;
            offset += BLOCK;
            if block.iter().all(|byte| *byte == 0) {
                break;
            }
            let header = Header::parse(&block)?;
            let len = extension.len.unwrap_or(header.len);
            let end = offset.checked_add(len).and_then(|end| end.checked_add(padding(len)));
            // The padding of the last file may be missing; its content may not.
            if offset.checked_add(len).is_none_or(|content_end| content_end > total) {
                return Err(bad("it ends in the middle of a file"));
            }
            if matches!(header.kind, b'x' | b'L' | b'K') {
                extension.read(header.kind, &mut file, len)?;
            } else {
                let path = extension.path.take().unwrap_or(header.path);
                let target = extension.target.take().unwrap_or(header.target);
                extension = Extension::default();
                if spans.len() >= ENTRIES_MAX {
                    return Err(bad("it has too many files"));
                }
                let name = clean("", &path);
                match header.kind {
                    b'0' | 0 | b'7' => drop(spans.insert(name, Span::File { offset, len })),
                    b'1' => drop(spans.insert(name, Span::Link(clean("", &target)))),
                    b'2' => {
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
    fn read(&mut self, kind: u8, file: &mut impl Read, len: u64) -> io::Result<()> {
        if len > EXTENSION_LEN_MAX {
            return Err(bad("a name in it is too long"));
        }
        let mut bytes = Vec::new();
        file.take(len).read_to_end(&mut bytes)?;
        match kind {
            b'L' => self.path = Some(until_nul(&bytes)),
            b'K' => self.target = Some(until_nul(&bytes)),
            _ => self.read_records(&bytes),
        }
        Ok(())
    }

    fn read_records(&mut self, mut bytes: &[u8]) {
        while let Some(space) = bytes.iter().position(|byte| *byte == b' ') {
            let len = std::str::from_utf8(&bytes[..space]).ok().and_then(|len| len.parse::<usize>().ok());
            let Some(len) = len.filter(|len| *len > space + 1 && *len <= bytes.len()) else { return };
            let record = String::from_utf8_lossy(&bytes[space + 1..len - 1]);
            match record.split_once('=') {
                Some(("path", path)) => self.path = Some(path.to_owned()),
                Some(("linkpath", target)) => self.target = Some(target.to_owned()),
                Some(("size", len)) => self.len = len.parse().ok(),
                _ => {}
            }
            bytes = &bytes[len..];
        }
    }
}

struct Header {
    path: String,
    target: String,
    kind: u8,
    len: u64,
}

impl Header {
    fn parse(block: &[u8; 512]) -> io::Result<Self> {
        let sum: u32 = block
            .iter()
            .enumerate()
            .map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u32::from(*byte) })
            .sum();
        if octal(&block[148..156]) != Some(u64::from(sum)) {
            return Err(bad("it is no tar archive, or damaged"));
        }
        let prefix = if &block[257..263] == b"ustar\0" { until_nul(&block[345..500]) } else { String::new() };
        let name = until_nul(&block[..100]);
        Ok(Self {
            path: if prefix.is_empty() { name } else { format!("{prefix}/{name}") },
            target: until_nul(&block[157..257]),
            kind: block[156],
            len: number(&block[124..136]).ok_or_else(|| bad("a size in it cannot be read"))?,
        })
    }
}

/// Octal text, or a large number in binary with the first bit set, as GNU writes it.
fn number(field: &[u8]) -> Option<u64> {
    if field[0] & 0x80 == 0 {
        return octal(field);
    }
    let mut value = u64::from(field[0] & 0x7f);
    for byte in &field[1..] {
        value = value.checked_mul(256)?.checked_add(u64::from(*byte))?;
    }
    Some(value)
}

fn octal(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok()?.trim_matches(['\0', ' ']);
    if text.is_empty() { Some(0) } else { u64::from_str_radix(text, 8).ok() }
}

fn until_nul(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// A name without `.`, `..` and slashes at its ends; what points outside ends at the root.
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
    fn what_is_written_can_be_found_again() {
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
    fn the_system_tar_reads_what_we_write_and_we_read_what_it_writes() {
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
