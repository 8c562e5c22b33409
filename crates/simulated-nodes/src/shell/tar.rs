//! The `tar` program of simulated containers: files and directories, without compression.

use std::io;

use bytes::Bytes;
use tar::{Archive, Builder, EntryType, Header};

use crate::shell::Files;
use crate::shell::files::{FileEntry, FileError, resolve};
use crate::shell::interpret::{Flow, Shell};
use crate::shell::streams::Io;

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

/// Everything at and below the paths; names are as the paths were given, without a leading slash or `..`.
pub fn pack(files: &Files, dir: &str, paths: &[&str]) -> Result<Vec<u8>, TarError> {
    let mut builder = Builder::new(Vec::new());
    for path in paths {
        let full = resolve(dir, path);
        let mut found = false;
        for (below, entry) in files.below(&full) {
            found = true;
            let given = path.trim_start_matches('/').trim_end_matches('/');
            let tail = if full == "/" { below } else { &below[full.len()..] };
            append(&mut builder, &member_name(&format!("{given}{tail}")), entry).map_err(|_| TarError::Broken)?;
        }
        if !found {
            return Err(TarError::File((*path).to_owned(), FileError::NotFound));
        }
    }
    builder.into_inner().map_err(|_| TarError::Broken)
}

/// The name of a member as tar stores it: relative, and inside the folder it is unpacked into.
fn member_name(path: &str) -> String {
    path.split('/').filter(|part| !matches!(*part, "" | "." | "..")).collect::<Vec<_>>().join("/")
}

fn append(builder: &mut Builder<Vec<u8>>, name: &str, entry: &FileEntry) -> io::Result<()> {
    if name.is_empty() {
        // The folder the archive is unpacked into exists already.
        return Ok(());
    }
    let mut header = Header::new_gnu();
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    match entry {
        FileEntry::Dir => {
            header.set_entry_type(EntryType::Directory);
            header.set_mode(0o755);
            header.set_size(0);
            builder.append_data(&mut header, format!("{name}/"), io::empty())
        }
        FileEntry::File { bytes, mode } => {
            header.set_entry_type(EntryType::Regular);
            header.set_mode(*mode);
            header.set_size(bytes.len() as u64);
            builder.append_data(&mut header, name, &bytes[..])
        }
    }
}

/// Writes the files of the archive below a directory.
pub fn unpack(files: &mut Files, dir: &str, archive: &Bytes) -> Result<(), TarError> {
    for (name, entry) in read(archive)? {
        let path = resolve(dir, &member_name(&name));
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
    let mut found = Vec::new();
    let mut reader = Archive::new(&archive[..]);
    for entry in reader.entries().map_err(|_| TarError::Broken)? {
        let entry = entry.map_err(|_| TarError::Broken)?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let kind = entry.header().entry_type();
        if kind.is_dir() || kind.is_file() && name.ends_with('/') {
            found.push((name, FileEntry::Dir));
        } else if kind.is_file() {
            let bytes = content(archive, entry.raw_file_position(), entry.size()).ok_or(TarError::Broken)?;
            let mode = entry.header().mode().unwrap_or(0o644) & 0o7777;
            found.push((name, FileEntry::File { bytes, mode }));
        }
    }
    Ok(found)
}

/// The bytes of a file, shared with the archive; `None` when the archive ends before them.
fn content(archive: &Bytes, position: u64, size: u64) -> Option<Bytes> {
    let start = usize::try_from(position).ok()?;
    let end = start.checked_add(usize::try_from(size).ok()?)?;
    (end <= archive.len()).then(|| archive.slice(start..end))
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

    #[test]
    fn members_stay_inside_the_folder_they_are_unpacked_into() {
        for name in ["../../etc/passwd", "/etc/passwd", "a/../../etc/passwd"] {
            let mut header = Header::new_old();
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_size(0);
            header.set_mode(0o644);
            header.set_cksum();
            let mut builder = Builder::new(Vec::new());
            builder.append(&header, io::empty()).expect("written");
            let archive = Bytes::from(builder.into_inner().expect("finished"));
            let mut files = Files::new(&ShellEnvironment::default());
            unpack(&mut files, "/data", &archive).expect("unpacked");
            assert_eq!(files.read("/etc/passwd"), Err(FileError::NotFound), "{name}");
            assert!(files.below("/data").any(|(path, _)| path.ends_with("etc/passwd")), "{name}");
        }
    }

    #[test]
    fn truncated_archives_are_refused() {
        let mut files = Files::new(&ShellEnvironment::default());
        files.seed("/data/file", vec![b'x'; 1500]);
        let archive = Bytes::from(pack(&files, "/", &["/data"]).expect("packed"));
        for length in [100, 512 + 100, 1024 + 1000] {
            let cut = unpack(&mut Files::new(&ShellEnvironment::default()), "/", &archive.slice(..length));
            assert_eq!(cut, Err(TarError::Broken), "{length}");
        }
    }
}
