//! Snapshots: consistent copies of the data of all machines.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::Serialize;

use crate::place::TestbedDir;

/// Files and directories of a testbed that are part of a snapshot.
const FILES: [&str; 2] = ["testbed.json", "faults.json"];
const FOLDERS: [&str; 2] = ["data", "agents"];

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    pub name: String,
    pub bytes: u64,
    /// Seconds since 1970.
    pub taken: u64,
}

pub fn folder(place: &TestbedDir, name: &str) -> anyhow::Result<PathBuf> {
    let problems = object::names::dns1123_label(name);
    if !problems.is_empty() {
        bail!("{name:?} is not a valid snapshot name: {}", problems.join("; "));
    }
    Ok(place.snapshots().join(name))
}

pub fn list(place: &TestbedDir) -> anyhow::Result<Vec<Snapshot>> {
    let Ok(entries) = std::fs::read_dir(place.snapshots()) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') {
            continue;
        }
        let modified = entry.metadata()?.modified()?.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        found.push(Snapshot { name, bytes: size(&entry.path())?, taken: modified.as_secs() });
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// Copies the data into a snapshot; nothing may write to it. A partial copy is not a snapshot.
pub fn copy_out(place: &TestbedDir, name: &str) -> anyhow::Result<()> {
    let target = folder(place, name)?;
    let unfinished = place.snapshots().join(format!(".{name}"));
    remove(&unfinished)?;
    copy_testbed(place.directory(), &unfinished)?;
    remove(&target)?;
    std::fs::rename(&unfinished, &target).with_context(|| format!("cannot create {}", target.display()))
}

/// Restores the data; nothing may be running.
pub fn copy_in(place: &TestbedDir, name: &str) -> anyhow::Result<()> {
    let source = folder(place, name)?;
    if !source.is_dir() {
        let known: Vec<String> = list(place)?.into_iter().map(|snapshot| snapshot.name).collect();
        bail!("snapshot {name} not found; existing snapshots: {}", known.join(", "));
    }
    // Copied completely before existing data is removed.
    let fresh = place.directory().join(".restoring");
    remove(&fresh)?;
    copy_testbed(&source, &fresh)?;
    for part in FOLDERS.iter().chain(&FILES) {
        remove(&place.directory().join(part))?;
        if fresh.join(part).exists() {
            std::fs::rename(fresh.join(part), place.directory().join(part))
                .with_context(|| format!("cannot restore {part}"))?;
        }
    }
    remove(&fresh)
}

fn copy_testbed(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    for folder in FOLDERS {
        if from.join(folder).is_dir() {
            copy_folder(&from.join(folder), &to.join(folder))?;
        }
    }
    for file in FILES.into_iter().filter(|file| from.join(file).is_file()) {
        std::fs::copy(from.join(file), to.join(file)).with_context(|| format!("cannot copy {file}"))?;
    }
    Ok(())
}

/// Copies files, directories and links; sockets and PID files are skipped.
fn copy_folder(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    std::fs::set_permissions(to, std::fs::metadata(from)?.permissions())?;
    for entry in std::fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        let (kind, path, target) = (entry.file_type()?, entry.path(), to.join(entry.file_name()));
        let copied = if kind.is_dir() {
            copy_folder(&path, &target)
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(std::fs::read_link(&path)?, &target).map_err(Into::into)
        } else if kind.is_file() && path.extension().is_none_or(|extension| extension != "pid") {
            std::fs::copy(&path, &target).map(drop).map_err(Into::into)
        } else {
            Ok(())
        };
        copied.with_context(|| format!("cannot copy {}", path.display()))?;
    }
    Ok(())
}

fn size(path: &Path) -> anyhow::Result<u64> {
    let metadata = std::fs::symlink_metadata(path)?;
    if !metadata.is_dir() {
        return Ok(metadata.len());
    }
    let mut total = 0;
    for entry in std::fs::read_dir(path)? {
        total += size(&entry?.path())?;
    }
    Ok(total)
}

/// Deletes a snapshot.
pub fn delete(place: &TestbedDir, name: &str) -> anyhow::Result<()> {
    let path = folder(place, name)?;
    if !path.is_dir() {
        let known: Vec<String> = list(place)?.into_iter().map(|snapshot| snapshot.name).collect();
        bail!("snapshot {name} not found; existing snapshots: {}", known.join(", "));
    }
    remove(&path)
}

pub fn remove(path: &Path) -> anyhow::Result<()> {
    let removed = match std::fs::symlink_metadata(path) {
        Err(_) => return Ok(()),
        Ok(metadata) if metadata.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
    };
    removed.with_context(|| format!("cannot remove {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restoring_a_snapshot_undoes_later_changes() {
        let directory = tempfile::tempdir().unwrap();
        let place = TestbedDir::find(Some(directory.path().into()), "one").unwrap();
        let write = |path: &str, text: &str| {
            let path = place.directory().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("data/member1/store/db", "before");
        write("data/member1.pid", "7");
        write("testbed.json", "{}");
        write("member1.config", "not part of it");
        std::os::unix::fs::symlink("db", place.directory().join("data/member1/store/link")).unwrap();
        copy_out(&place, "good").unwrap();
        copy_out(&place, "good").unwrap();
        write("data/member1/store/db", "after");
        write("data/member2/store/db", "new");
        copy_in(&place, "good").unwrap();
        let read = |path: &str| std::fs::read_to_string(place.directory().join(path)).ok();
        assert_eq!(read("data/member1/store/db").as_deref(), Some("before"));
        assert_eq!(read("data/member1/store/link").as_deref(), Some("before"));
        assert_eq!(read("data/member2/store/db"), None);
        assert_eq!(read("data/member1.pid"), None);
        assert_eq!(read("member1.config").as_deref(), Some("not part of it"));
        assert_eq!(list(&place).unwrap().len(), 1);
        let missing = copy_in(&place, "bad").unwrap_err().to_string();
        assert!(delete(&place, "bad").is_err());
        delete(&place, "good").unwrap();
        assert!(list(&place).unwrap().is_empty());
        assert_eq!(missing, "snapshot bad not found; existing snapshots: good");
    }
}
