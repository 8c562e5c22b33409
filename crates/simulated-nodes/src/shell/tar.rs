//! Tar archives of files and directories.

use bytes::Bytes;

use crate::shell::Files;
use crate::shell::files::{FileEntry, FileError, resolve};
use crate::shell::interpret::{Flow, Shell};
use crate::shell::streams::Io;

const BLOCK: usize = 512;

#[derive(Debug, PartialEq, Eq)]
pub enum TarError {
    /// Not an archive, or truncated.
    Broken,
    File(String, FileError),
}

/// `tar cf - PATH…` and `tar xf - -C DIR`, as used by `kubectl cp`.
pub async fn run(shell: &mut Shell, arguments: &[&str], io: &Io) -> Flow {
    let (mut flags, mut dir, mut archive, mut paths) = (String::new(), shell.dir.clone(), "-".to_owned(), Vec::new());
    let mut words = arguments.iter().enumerate();
    while let Some((index, word)) = words.next() {
        let is_flags = !word.starts_with("--") && (word.starts_with('-') && word.len() > 1 || index == 0);
        if *word == "-C" {
            dir = resolve(&shell.dir, words.next().map_or(".", |(_, dir)| dir));
        } else if is_flags {
            flags.push_str(word.trim_start_matches('-'));
            if word.ends_with('f') {
                archive = words.next().map_or("-", |(_, file)| file).to_owned();
            }
        } else if !word.starts_with("--") {
            paths.push(*word);
        }
    }
    let file = resolve(&shell.dir, &archive);
    if flags.contains('z') || flags.contains('j') {
        return shell.complain(io, "tar: compression is not simulated".to_owned(), 1).await;
    }
    if flags.contains('c') {
        let packed = pack(&shell.files.lock(), &dir, &paths);
        return match packed {
            Ok(bytes) if archive == "-" => shell.write(&io.stdout, &bytes).await,
            Ok(bytes) => {
                let written = shell.files.lock().write(&file, bytes.into(), 0o644);
                finish(shell, io, written.map_err(|error| TarError::File(archive, error))).await
            }
            Err(error) => finish(shell, io, Err(error)).await,
        };
    }
    let bytes = match archive.as_str() {
        "-" => Ok(Bytes::from(io.stdin.read_all().await)),
        _ => shell.files.lock().read(&file),
    };
    let unpacked = match bytes {
        Ok(bytes) if flags.contains('x') => unpack(&mut shell.files.lock(), &dir, &bytes),
        Ok(bytes) => {
            let names = read(&bytes).map(|entries| entries.into_iter().map(|entry| entry.0 + "\n").collect::<String>());
            return match names {
                Ok(names) => shell.write(&io.stdout, names.as_bytes()).await,
                Err(error) => finish(shell, io, Err(error)).await,
            };
        }
        Err(error) => Err(TarError::File(archive, error)),
    };
    finish(shell, io, unpacked).await
}

async fn finish(shell: &mut Shell, io: &Io, done: Result<(), TarError>) -> Flow {
    match done {
        Ok(()) => Flow::Next,
        Err(TarError::Broken) => shell.complain(io, "tar: not an archive, or truncated".to_owned(), 1).await,
        Err(TarError::File(path, error)) => shell.complain(io, format!("tar: {path}: {error}"), 1).await,
    }
}

/// Packs everything at and below the paths; names are the given paths without a leading slash.
pub fn pack(files: &Files, dir: &str, paths: &[&str]) -> Result<Vec<u8>, TarError> {
    let mut out = Vec::new();
    for path in paths {
        let full = resolve(dir, path);
        let mut found = false;
        for (below, entry) in files.below(&full) {
            found = true;
            let given = path.trim_start_matches('/').trim_end_matches('/');
            let tail = if full == "/" { below } else { &below[full.len()..] };
            let name = format!("{given}{tail}");
            put(&mut out, name.trim_start_matches('/'), entry);
        }
        if !found {
            return Err(TarError::File((*path).to_owned(), FileError::NotFound));
        }
    }
    out.resize(out.len() + 2 * BLOCK, 0);
    Ok(out)
}

fn put(out: &mut Vec<u8>, name: &str, entry: &FileEntry) {
    let (name, kind, mode, bytes) = match entry {
        FileEntry::Dir => (format!("{}/", name.trim_end_matches('/')), b'5', 0o755, Bytes::new()),
        FileEntry::File { bytes, mode } => (name.to_owned(), b'0', *mode, bytes.clone()),
    };
    if name.len() > 100 {
        // A long name precedes the entry as a special entry.
        let mut long = name.clone().into_bytes();
        long.push(0);
        header(out, "././@LongLink", b'L', 0o644, long.len());
        data(out, &long);
    }
    let short = name.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= 100).last().unwrap_or(0);
    header(out, &name[..short], kind, mode, bytes.len());
    data(out, &bytes);
}

fn header(out: &mut Vec<u8>, name: &str, kind: u8, mode: u32, size: usize) {
    let mut block = [0u8; BLOCK];
    block[..name.len()].copy_from_slice(name.as_bytes());
    let mut octal = |at: usize, length: usize, value: u64| {
        let text = format!("{value:0width$o}", width = length - 1);
        block[at..at + length - 1].copy_from_slice(text.as_bytes());
    };
    octal(100, 8, u64::from(mode));
    octal(108, 8, 0);
    octal(116, 8, 0);
    octal(124, 12, size as u64);
    octal(136, 12, 0);
    block[148..156].fill(b' ');
    block[156] = kind;
    block[257..263].copy_from_slice(b"ustar\0");
    block[263..265].copy_from_slice(b"00");
    let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
    block[148..154].copy_from_slice(format!("{sum:06o}").as_bytes());
    block[154] = 0;
    out.extend_from_slice(&block);
}

fn data(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
    out.resize(out.len().next_multiple_of(BLOCK), 0);
}

/// Unpacks the archive below a directory.
pub fn unpack(files: &mut Files, dir: &str, archive: &Bytes) -> Result<(), TarError> {
    for (name, entry) in read(archive)? {
        let path = resolve(dir, name.trim_start_matches('/'));
        let done = match entry {
            FileEntry::Dir => files.make_dir(&path, true),
            FileEntry::File { bytes, mode } => {
                files.seed_dir(path.rsplit_once('/').map_or("/", |(dir, _)| if dir.is_empty() { "/" } else { dir }));
                files.write(&path, bytes, mode)
            }
        };
        done.map_err(|error| TarError::File(name, error))?;
    }
    Ok(())
}

/// Returns the files and directories of an archive; links and devices are omitted.
fn read(archive: &Bytes) -> Result<Vec<(String, FileEntry)>, TarError> {
    let mut entries = Vec::new();
    let mut long_name: Option<String> = None;
    let mut at = 0;
    while let Some(block) = archive.get(at..at + BLOCK) {
        if block.iter().all(|byte| *byte == 0) {
            break;
        }
        let size = number(&block[124..136]).ok_or(TarError::Broken)?;
        at += BLOCK;
        let end = at.checked_add(size).ok_or(TarError::Broken)?;
        if end > archive.len() {
            return Err(TarError::Broken);
        }
        let bytes = archive.slice(at..end);
        at = end.next_multiple_of(BLOCK);
        let text = |field: &[u8]| {
            let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
            String::from_utf8_lossy(&field[..end]).into_owned()
        };
        match block[156] {
            b'L' => long_name = Some(text(&bytes)),
            b'x' => long_name = pax_path(&bytes).or(long_name),
            kind => {
                let prefix = if &block[257..262] == b"ustar" { text(&block[345..500]) } else { String::new() };
                let short = text(&block[..100]);
                let plain = if prefix.is_empty() { short } else { format!("{prefix}/{short}") };
                let name = long_name.take().unwrap_or(plain);
                let mode = number(&block[100..108]).unwrap_or(0o644) as u32 & 0o7777;
                match kind {
                    b'5' => entries.push((name, FileEntry::Dir)),
                    b'0' | 0 if name.ends_with('/') => entries.push((name, FileEntry::Dir)),
                    b'0' | 0 => entries.push((name, FileEntry::File { bytes, mode })),
                    _ => {}
                }
            }
        }
    }
    if entries.is_empty() && !archive.is_empty() && archive.len() < BLOCK {
        return Err(TarError::Broken);
    }
    Ok(entries)
}

fn number(field: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(field).ok()?.trim_matches(['\0', ' ']);
    if text.is_empty() { Some(0) } else { usize::from_str_radix(text, 8).ok() }
}

/// Parses records such as `30 path=some/name
/// `.
fn pax_path(bytes: &[u8]) -> Option<String> {
    let mut rest = std::str::from_utf8(bytes).ok()?;
    while let Some((length, _)) = rest.split_once(' ') {
        let length: usize = length.parse().ok()?;
        let record = rest.get(length.to_string().len() + 1..length)?;
        if let Some(path) = record.strip_prefix("path=") {
            return Some(path.trim_end_matches('\n').to_owned());
        }
        rest = rest.get(length..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::shell::ShellEnvironment;

    proptest! {
        #[test]
        fn files_round_trip_through_an_archive(names in prop::collection::btree_set("[a-z]{1,120}(/[a-z]{1,80})?", 1..6), content in prop::collection::vec(any::<u8>(), 0..1500)) {
            let mut files = Files::new(&ShellEnvironment::default());
            for name in &names {
                files.seed(&format!("/data/{name}"), content.clone());
            }
            let archive = Bytes::from(pack(&files, "/", &["/data"]).expect("packed"));
            let mut copy = Files::new(&ShellEnvironment::default());
            unpack(&mut copy, "/", &archive).expect("unpacked");
            for name in &names {
                let path = format!("/data/{name}");
                prop_assert_eq!(copy.read(&path), files.read(&path), "{}", path);
            }
        }

        #[test]
        fn hostile_archives_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            let _ = unpack(&mut Files::new(&ShellEnvironment::default()), "/", &bytes.into());
        }
    }
}
