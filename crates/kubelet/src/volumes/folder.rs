//! Writes the files of a volume atomically: readers see either all old or all new files.
//!
//! The files are in a directory of their own, `..data` is a symlink to it, and every visible name is a symlink
//! through `..data`: switching that one link changes everything at once. Programs that watch such volumes expect this
//! layout.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Gid, chownat};

use crate::volumes::files::Files;

const CURRENT: &str = "..data";

/// Writes these files to the directory, unless they are unchanged.
pub(crate) fn commit_files(folder: &Path, files: &Files, group: Option<u32>) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    let current = fs::read_link(folder.join(CURRENT)).ok().map(|name| folder.join(name));
    if current.as_ref().is_some_and(|current| holds(current, files)) {
        return Ok(());
    }
    let fresh = fresh_folder(folder)?;
    for (path, file) in files {
        let target = fresh.join(path);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&target, &file.content)?;
        let mode = if group.is_some() { file.mode | 0o040 } else { file.mode };
        fs::set_permissions(&target, fs::Permissions::from_mode(mode))?;
        if let Some(group) = group {
            give_to_group(&target, group)?;
        }
    }
    let next = folder.join("..data_tmp");
    let _ = fs::remove_file(&next);
    symlink(fresh.file_name().unwrap_or_default(), &next)?;
    fs::rename(&next, folder.join(CURRENT))?;
    let names: BTreeSet<&str> = files.keys().map(|path| path.split('/').next().unwrap_or(path)).collect();
    link_names(folder, &names)?;
    current.map_or(Ok(()), fs::remove_dir_all)
}

pub(crate) fn give_to_group(path: &Path, group: u32) -> io::Result<()> {
    Ok(chownat(CWD, path, None, Some(Gid::from_raw(group)), AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Creates a new directory, readable by all users of the volume.
fn fresh_folder(folder: &Path) -> io::Result<PathBuf> {
    for number in 0_u64.. {
        let path = folder.join(format!("..{number}"));
        match fs::create_dir(&path) {
            Ok(()) => {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
                return Ok(path);
            }
            // Left by an interrupted writer, or in use.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("no unused directory name found"))
}

fn holds(current: &Path, files: &Files) -> bool {
    let same = |(path, file): (&String, &crate::volumes::files::File)| {
        fs::read(current.join(path)).is_ok_and(|content| content == file.content)
    };
    files.iter().all(same) && count_files(current) == files.len()
}

fn count_files(folder: &Path) -> usize {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries.flatten().map(|e| if e.path().is_dir() { count_files(&e.path()) } else { 1 }).sum()
}

fn link_names(folder: &Path, names: &BTreeSet<&str>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with("..") && !names.contains(name.as_str()) {
            fs::remove_file(entry.path())?;
        }
    }
    for name in names {
        let link = folder.join(name);
        if fs::symlink_metadata(&link).is_err() {
            symlink(Path::new(CURRENT).join(name), &link)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volumes::files::File;

    fn files(pairs: &[(&str, &str)]) -> Files {
        let file = |content: &str| File { content: content.as_bytes().to_vec(), mode: 0o640 };
        pairs.iter().map(|(path, content)| ((*path).to_owned(), file(content))).collect()
    }

    fn seen(folder: &Path) -> Vec<(String, String)> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .expect("a folder")
            .map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned())
            .filter(|name| !name.starts_with(".."))
            .collect();
        names.sort();
        let read = |name: String| {
            let content = fs::read_to_string(folder.join(&name)).unwrap_or_else(|_| "folder".to_owned());
            (name, content)
        };
        names.into_iter().map(read).collect()
    }

    #[test]
    fn files_are_replaced_atomically() {
        let directory = tempfile::tempdir().expect("a folder");
        let folder = directory.path().join("volume");
        commit_files(&folder, &files(&[("a", "1"), ("b/c", "2")]), None).expect("written");
        assert_eq!(seen(&folder), [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "folder".to_owned())]);
        assert_eq!(fs::read_to_string(folder.join("b/c")).expect("there"), "2");
        let before = fs::read_link(folder.join(CURRENT)).expect("a link");
        commit_files(&folder, &files(&[("a", "1"), ("b/c", "2")]), None).expect("unchanged files");
        assert_eq!(fs::read_link(folder.join(CURRENT)).expect("a link"), before);

        commit_files(&folder, &files(&[("a", "3"), ("d", "4")]), None).expect("written");
        assert_eq!(seen(&folder), [("a".to_owned(), "3".to_owned()), ("d".to_owned(), "4".to_owned())]);
        let mode = fs::metadata(folder.join("a")).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert!(!folder.join(before).exists(), "the old directory is removed");
    }
}
