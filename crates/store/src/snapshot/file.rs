//! Snapshot files: compressed and checksummed, rejected unless complete.
//!
//! `magic | format u32 | length u32 | About as JSON | records, deflated | SHA-256 of all before | end mark`, numbers
//! in little endian. Every record is a tag and fields; texts and bytes are preceded by their length.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use ring::digest::{Context, SHA256};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::error::{Error, Result};
use crate::kv::KeyValue;
use crate::snapshot::{About, SnapshotFile, SnapshotLease, StoreSnapshot};

const MAGIC: &[u8; 8] = b"FLOTBAK\n";
const END_MARK: &[u8; 8] = b"FLOTEND\n";
/// Incremented when older programs can no longer read the file.
pub const FORMAT: i64 = 1;
const SUM_BYTES: u64 = 32;
const TRAILER_BYTES: u64 = SUM_BYTES + END_MARK.len() as u64;
/// A larger length is treated as damage instead of being allocated.
const LENGTH_MAX: u64 = 1 << 30;
/// Keys between two progress reports.
const PROGRESS_EVERY: usize = 1000;

const TAG_END: u8 = 0;
const TAG_KEY: u8 = 1;
const TAG_LEASE: u8 = 2;
const TAG_FILE: u8 = 3;

/// Writes the file so that it appears under its name only when complete and on disk, readable by its owner alone.
pub fn write(path: &Path, snapshot: &StoreSnapshot, replace: bool, progress: &dyn Fn(u64)) -> Result<u64> {
    if !replace && path.exists() {
        return Err(exists(path));
    }
    let partial = Partial::create(path)?;
    let bytes = encode(&partial.file, snapshot, progress).map_err(|error| failed(path, &error))?;
    partial.file.sync_all().map_err(|error| failed(path, &error))?;
    partial.put_in_place(path, replace)?;
    Ok(bytes)
}

/// The file while it is written. Dropping it before completion removes it.
struct Partial {
    file: File,
    path: PathBuf,
}

impl Partial {
    fn create(path: &Path) -> Result<Partial> {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".partial-{}", std::process::id()));
        let partial = PathBuf::from(name);
        let mut options = OpenOptions::new();
        // A leftover of an earlier process with the same pid.
        std::fs::remove_file(&partial).ok();
        let file = options.write(true).create_new(true).mode(0o600).open(&partial);
        Ok(Partial { file: file.map_err(|error| failed(path, &error))?, path: partial })
    }

    fn put_in_place(&self, path: &Path, replace: bool) -> Result<()> {
        let renamed = match replace {
            true => std::fs::rename(&self.path, path),
            false => rename_new(&self.path, path),
        };
        match renamed {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return Err(exists(path)),
            renamed => renamed.map_err(|error| failed(path, &error))?,
        }
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(directory).and_then(|directory| directory.sync_all()).map_err(|error| failed(path, &error))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // Already gone if it was moved into place.
        std::fs::remove_file(&self.path).ok();
    }
}

fn rename_new(from: &Path, to: &Path) -> std::io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Not every file system supports this; the name was free a moment ago.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) if !to.exists() => std::fs::rename(from, to),
        result => result.map_err(Into::into),
    }
}

fn exists(path: &Path) -> Error {
    Error::Invalid(format!("{} exists already: choose another name, or --force", path.display()))
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            Error::NoSpace(format!("{}: {error}", path.display()))
        }
        _ => Error::Io(format!("{}: {error}", path.display())),
    }
}

fn encode(file: &File, snapshot: &StoreSnapshot, progress: &dyn Fn(u64)) -> std::io::Result<u64> {
    let mut out = Summed { inner: BufWriter::with_capacity(1 << 20, file), context: Context::new(&SHA256), bytes: 0 };
    let about = serde_json::to_vec(&snapshot.about)?;
    out.write_all(MAGIC)?;
    out.write_all(&(FORMAT as u32).to_le_bytes())?;
    out.write_all(&(about.len() as u32).to_le_bytes())?;
    out.write_all(&about)?;
    let mut records = ZlibEncoder::new(out, Compression::fast());
    for lease in &snapshot.leases {
        records.write_all(&[TAG_LEASE])?;
        records.write_all(&lease.id.to_le_bytes())?;
        records.write_all(&lease.ttl_seconds.to_le_bytes())?;
    }
    for (number, kv) in snapshot.kvs.iter().enumerate() {
        records.write_all(&[TAG_KEY])?;
        records.write_all(&kv.create_revision.to_le_bytes())?;
        records.write_all(&kv.mod_revision.to_le_bytes())?;
        records.write_all(&[u8::from(kv.lease.is_some())])?;
        records.write_all(&kv.lease.unwrap_or_default().to_le_bytes())?;
        write_bytes(&mut records, kv.key.as_bytes())?;
        write_bytes(&mut records, &kv.value)?;
        if number % PROGRESS_EVERY == 0 {
            progress(number as u64);
        }
    }
    for file in &snapshot.files {
        records.write_all(&[TAG_FILE])?;
        records.write_all(&file.mode.to_le_bytes())?;
        write_bytes(&mut records, file.path.as_bytes())?;
        write_bytes(&mut records, &file.bytes)?;
    }
    records.write_all(&[TAG_END])?;
    for count in [snapshot.kvs.len(), snapshot.leases.len(), snapshot.files.len()] {
        records.write_all(&(count as u64).to_le_bytes())?;
    }
    let Summed { mut inner, context, bytes } = records.finish()?;
    inner.write_all(context.finish().as_ref())?;
    inner.write_all(END_MARK)?;
    inner.flush()?;
    progress(snapshot.kvs.len() as u64);
    Ok(bytes + TRAILER_BYTES)
}

fn write_bytes(to: &mut impl Write, bytes: &[u8]) -> std::io::Result<()> {
    to.write_all(&(bytes.len() as u64).to_le_bytes())?;
    to.write_all(bytes)
}

/// Hashes the data that passes through.
struct Summed<W> {
    inner: W,
    context: Context,
    bytes: u64,
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.context.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}

/// Reads a whole file; a damaged, truncated or newer file is rejected entirely.
pub fn read(path: &Path) -> Result<StoreSnapshot> {
    let mut file = File::open(path).map_err(|error| failed(path, &error))?;
    let length = file.metadata().map_err(|error| failed(path, &error))?.len();
    let damaged = |why: &str| Error::Corrupt(format!("backup {} cannot be used: {why}", path.display()));
    let head = read_head(&mut file).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => damaged("it is cut short"),
        _ => failed(path, &error),
    })?;
    let Some(format) = head else { return Err(damaged("it does not begin like a backup of this program")) };
    // Before the checksum: a later format may compute it differently.
    if format > FORMAT {
        return Err(Error::NewerFormat { path: path.display().to_string(), found: format, supported: FORMAT });
    }
    if format < 1 {
        return Err(damaged(&format!("unknown format {format}")));
    }
    check_sum(&mut file, length).map_err(|error| failed(path, &error))?.map_err(|why| damaged(&why))?;
    decode(&mut file, length).map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidData | std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::InvalidInput => {
            damaged(&error.to_string())
        }
        _ => failed(path, &error),
    })
}

fn read_head(file: &mut File) -> std::io::Result<Option<i64>> {
    let mut head = [0; 12];
    file.read_exact(&mut head)?;
    let format = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
    Ok((head[..8] == MAGIC[..]).then_some(i64::from(format)))
}

/// `Ok(Err)` describes the damage.
fn check_sum(file: &mut File, length: u64) -> std::io::Result<Result<(), String>> {
    let Some(body) = length.checked_sub(TRAILER_BYTES) else { return Ok(Err("it is cut short".into())) };
    file.rewind()?;
    let mut reader = BufReader::with_capacity(1 << 20, &*file);
    let mut context = Context::new(&SHA256);
    let mut left = body;
    let mut buffer = vec![0; 1 << 20];
    while left > 0 {
        let wanted = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        reader.read_exact(&mut buffer[..wanted])?;
        context.update(&buffer[..wanted]);
        left -= wanted as u64;
    }
    let mut trailer = [0; TRAILER_BYTES as usize];
    reader.read_exact(&mut trailer)?;
    let (sum, end) = trailer.split_at(SUM_BYTES as usize);
    if end != END_MARK {
        return Ok(Err("its end is missing: it is cut short, or was still being copied".into()));
    }
    if sum != context.finish().as_ref() {
        return Ok(Err("its checksum does not match: it is damaged".into()));
    }
    Ok(Ok(()))
}

fn decode(file: &mut File, length: u64) -> std::io::Result<StoreSnapshot> {
    file.rewind()?;
    let mut body = BufReader::with_capacity(1 << 20, &*file).take(length - TRAILER_BYTES);
    read_array::<12>(&mut body)?;
    let about_length = u64::from(u32::from_le_bytes(read_array(&mut body)?));
    let about: About = serde_json::from_slice(&read_exactly(&mut body, about_length)?)?;
    let mut snapshot = StoreSnapshot { about, ..StoreSnapshot::default() };
    let mut records = BufReader::new(ZlibDecoder::new(body));
    loop {
        let [tag] = read_array(&mut records)?;
        match tag {
            TAG_END => break,
            TAG_KEY => snapshot.kvs.push(read_key(&mut records)?),
            TAG_LEASE => snapshot.leases.push(SnapshotLease {
                id: i64::from_le_bytes(read_array(&mut records)?),
                ttl_seconds: i64::from_le_bytes(read_array(&mut records)?),
            }),
            TAG_FILE => snapshot.files.push(SnapshotFile {
                mode: u32::from_le_bytes(read_array(&mut records)?),
                path: read_text(&mut records)?,
                bytes: read_bytes(&mut records)?,
            }),
            other => return Err(invalid(format!("unknown record {other}"))),
        }
    }
    for found in [snapshot.kvs.len(), snapshot.leases.len(), snapshot.files.len()] {
        if u64::from_le_bytes(read_array(&mut records)?) != found as u64 {
            return Err(invalid("its counts do not add up".to_owned()));
        }
    }
    Ok(snapshot)
}

fn read_key(records: &mut impl Read) -> std::io::Result<KeyValue> {
    let create_revision = u64::from_le_bytes(read_array(records)?);
    let mod_revision = u64::from_le_bytes(read_array(records)?);
    let [has_lease] = read_array(records)?;
    let lease = i64::from_le_bytes(read_array(records)?);
    let key = read_text(records)?;
    let value = read_bytes(records)?.into();
    Ok(KeyValue { key: key.into(), value, create_revision, mod_revision, lease: (has_lease != 0).then_some(lease) })
}

fn read_array<const N: usize>(from: &mut impl Read) -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn read_bytes(from: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let length = u64::from_le_bytes(read_array(from)?);
    if length > LENGTH_MAX {
        return Err(invalid("a length is out of bounds".to_owned()));
    }
    read_exactly(from, length)
}

/// Allocates by the actual data, not by the claimed length.
fn read_exactly(from: &mut impl Read, length: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == length { Ok(bytes) } else { Err(std::io::ErrorKind::UnexpectedEof.into()) }
}

fn read_text(from: &mut impl Read) -> std::io::Result<String> {
    String::from_utf8(read_bytes(from)?).map_err(|_| invalid("a name is not text".to_owned()))
}

fn invalid(why: String) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, why)
}
