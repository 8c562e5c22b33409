//! Snapshots: the data of every machine at one moment, to come back to.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::Serialize;

use crate::place::Place;

/// Beside the data of machines: what registrations and kubeconfigs were at that moment.
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

pub fn folder(place: &Place, name: &str) -> anyhow::Result<PathBuf> {
    let problems = object::names::dns1123_label(name);
    if !problems.is_empty() {
        bail!("{name:?} is no name for a snapshot: {}", problems.join("; "));
    }
    Ok(place.snapshots().join(name))
}

pub fn list(place: &Place) -> anyhow::Result<Vec<Snapshot>> {
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

/// Nobody may write to the data meanwhile. Half a copy is never taken for a snapshot.
pub fn copy_out(place: &Place, name: &str) -> anyhow::Result<()> {
    let target = folder(place, name)?;
    let unfinished = place.snapshots().join(format!(".{name}"));
    remove(&unfinished)?;
    copy_testbed(place.directory(), &unfinished)?;
    remove(&target)?;
    std::fs::rename(&unfinished, &target).with_context(|| format!("cannot make {}", target.display()))
}

/// Puts the data back. Nothing may run meanwhile.
pub fn copy_in(place: &Place, name: &str) -> anyhow::Result<()> {
    let source = folder(place, name)?;
    if !source.is_dir() {
        let known: Vec<String> = list(place)?.into_iter().map(|snapshot| snapshot.name).collect();
        bail!("there is no snapshot {name}; there are: {}", known.join(", "));
    }
    // Copied in full before anything that is there goes.
    let fresh = place.directory().join(".restoring");
    remove(&fresh)?;
    copy_testbed(&source, &fresh)?;
    for part in FOLDERS.iter().chain(&FILES) {
        remove(&place.directory().join(part))?;
        if fresh.join(part).exists() {
            std::fs::rename(fresh.join(part), place.directory().join(part))
                .with_context(|| format!("cannot put {part} back"))?;
        }
    }
    remove(&fresh)
}

fn copy_testbed(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
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

/// Files, folders and links; sockets and process ids belong to processes and are left out.
fn copy_folder(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
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
    fn what_was_changed_after_a_snapshot_is_undone_by_restoring_it() {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::find(Some(directory.path().into()), "one").unwrap();
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
        assert_eq!(missing, "there is no snapshot bad; there are: good");
    }
}
