//! The volumes of a pod as host paths: created before its containers start, refreshed, and removed after them.

pub(crate) mod files;
pub(crate) mod folder;
pub(crate) mod tokens;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use cluster_client::{ClusterClient, ResourceRef};
use object::Object;
use object::builtin;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde_json::Value;

use crate::fields::DownwardFacts;
use crate::pod::{flag, number, text};
use crate::references::{References, gather_for_volumes};
use crate::volumes::files::{Origin, plan_files};
use crate::volumes::folder::{commit_files, give_to_group};
use crate::volumes::tokens::TokenKeeper;

/// The path of each volume by name, and whether it is read-only.
pub(crate) type Mounted = BTreeMap<String, MountedVolume>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MountedVolume {
    pub path: PathBuf,
    pub read_only: bool,
}

/// Returns the data directory of a pod.
pub(crate) fn pod_folder(root: &Path, uid: &str) -> PathBuf {
    root.join("pods").join(uid)
}

/// Creates or refreshes all volumes of a pod. The error is the message for users.
pub(crate) async fn commit_volumes(
    client: &ClusterClient,
    tokens: &TokenKeeper,
    root: &Path,
    pod: &Object,
    facts: &DownwardFacts,
) -> Result<Mounted, String> {
    let references = gather_for_volumes(client, pod).await.map_err(|e| e.to_string())?;
    let mut mounted = Mounted::new();
    for volume in pod.items(&["spec", "volumes"]) {
        let name = text(volume, "name");
        let volume = commit_volume(client, tokens, root, pod, volume, &references, facts).await;
        let volume = volume.map_err(|why| format!("MountVolume.SetUp failed for volume {name:?} : {why}"))?;
        mounted.insert(name.to_owned(), volume);
    }
    Ok(mounted)
}

async fn commit_volume(
    client: &ClusterClient,
    tokens: &TokenKeeper,
    root: &Path,
    pod: &Object,
    volume: &Value,
    references: &References,
    facts: &DownwardFacts,
) -> Result<MountedVolume, String> {
    let folder = |kind: &str| {
        pod_folder(root, pod.uid()).join("volumes").join(format!("kubernetes.io~{kind}")).join(text(volume, "name"))
    };
    let group = fs_group(pod);
    let failed = |e: io::Error| e.to_string();
    let made_tokens = tokens.tokens_of(client, pod, volume).await?;
    if let Some(files) = plan_files(&Origin { pod, references, facts }, volume, &made_tokens) {
        let path = folder("files");
        commit_files(&path, &files?, group).map_err(failed)?;
        return Ok(MountedVolume { path, read_only: true });
    }
    if let Some(source) = volume.get("emptyDir") {
        let path = folder("empty-dir");
        make_empty(&path, source, group).map_err(failed)?;
        return Ok(MountedVolume { path, read_only: false });
    }
    if let Some(source) = volume.get("hostPath") {
        let path = PathBuf::from(text(source, "path"));
        make_host_path(&path, text(source, "type"))?;
        return Ok(MountedVolume { path, read_only: false });
    }
    if let Some(source) = volume.get("persistentVolumeClaim") {
        return claimed(client, pod, source, group).await;
    }
    Err("unsupported volume type".to_owned())
}

fn fs_group(pod: &Object) -> Option<u32> {
    pod.i64_at(&["spec", "securityContext", "fsGroup"]).and_then(|group| u32::try_from(group).ok())
}

fn make_empty(path: &Path, source: &Value, group: Option<u32>) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    fs::create_dir_all(path)?;
    if text(source, "medium") == "Memory" {
        let size = Some(text(source, "sizeLimit")).filter(|size| !size.is_empty());
        let size = size.and_then(|size| object::quantity::Quantity::parse(size).ok()).map(|size| size.value());
        let options = size.map(|bytes| format!("size={bytes}")).unwrap_or_default();
        let options = std::ffi::CString::new(options)?;
        mount("tmpfs", path, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, Some(options.as_c_str()))?;
    }
    share(path, group)
}

/// Makes a directory accessible to every user; files belong to the pod's fsGroup, if any.
fn share(path: &Path, group: Option<u32>) -> io::Result<()> {
    let mode = if group.is_some() { 0o2777 } else { 0o777 };
    if let Some(group) = group {
        give_to_group(path, group)?;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// Checks the hostPath `type`, and creates the path if the type says so.
fn make_host_path(path: &Path, kind: &str) -> Result<(), String> {
    let failed = |e: io::Error| e.to_string();
    let metadata = fs::metadata(path);
    let is = |check: fn(&fs::FileType) -> bool| metadata.as_ref().is_ok_and(|m| check(&m.file_type()));
    let (holds, expected) = match kind {
        "DirectoryOrCreate" if metadata.is_err() => return fs::create_dir_all(path).map_err(failed),
        "FileOrCreate" if metadata.is_err() => return fs::File::create(path).map(drop).map_err(failed),
        "Directory" | "DirectoryOrCreate" => (is(fs::FileType::is_dir), "a directory"),
        "File" | "FileOrCreate" => (is(fs::FileType::is_file), "a file"),
        "Socket" => (is(FileTypeExt::is_socket), "a socket file"),
        "CharDevice" => (is(FileTypeExt::is_char_device), "a character device"),
        "BlockDevice" => (is(FileTypeExt::is_block_device), "a block device"),
        _ if metadata.is_err() => return fs::create_dir_all(path).map_err(failed),
        _ => return Ok(()),
    };
    if holds { Ok(()) } else { Err(format!("hostPath type check failed: {} is not {expected}", path.display())) }
}

/// Returns the host path of a bound claim.
async fn claimed(
    client: &ClusterClient,
    pod: &Object,
    source: &Value,
    group: Option<u32>,
) -> Result<MountedVolume, String> {
    let name = text(source, "claimName");
    let target = ResourceRef::namespaced(&builtin::persistent_volume_claims(), pod.namespace(), name);
    let claim = client.find(target).await.map_err(|e| e.to_string())?;
    let claim = claim.ok_or_else(|| format!("persistentvolumeclaim {name:?} not found"))?;
    let volume_name = claim.str_at(&["spec", "volumeName"]);
    if volume_name.is_empty() || claim.str_at(&["status", "phase"]) != "Bound" {
        return Err(format!("persistentvolumeclaim {name:?} is not bound"));
    }
    let volume = client.find(ResourceRef::cluster(&builtin::persistent_volumes(), volume_name)).await;
    let volume = volume.map_err(|e| e.to_string())?;
    let volume = volume.ok_or_else(|| format!("persistentvolume {volume_name:?} not found"))?;
    let path = [&["spec", "hostPath", "path"], &["spec", "local", "path"]]
        .into_iter()
        .map(|at| volume.str_at(at))
        .find(|path| !path.is_empty())
        .ok_or_else(|| format!("persistentvolume {volume_name:?} is not a hostPath volume"))?;
    let path = PathBuf::from(path);
    let kind = volume.str_at(&["spec", "hostPath", "type"]);
    let is_new = !path.exists();
    make_host_path(&path, if kind.is_empty() { "DirectoryOrCreate" } else { kind })?;
    if is_new || group.is_some() {
        share(&path, group).map_err(|e| e.to_string())?;
    }
    Ok(MountedVolume { path, read_only: flag(source, "readOnly") })
}

/// Removes the data directory of a pod, after unmounting below it.
pub(crate) fn remove_pod_folder(root: &Path, uid: &str) -> io::Result<()> {
    let folder = pod_folder(root, uid);
    unmount_below(&folder)?;
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Unmounts everything below a directory, deepest first.
pub(crate) fn unmount_below(folder: &Path) -> io::Result<()> {
    let table = fs::read_to_string("/proc/self/mounts")?;
    let mut points: Vec<PathBuf> = table
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .map(|point| PathBuf::from(point.replace("\\040", " ")))
        .filter(|point| point.starts_with(folder))
        .collect();
    points.sort_by_key(|point| std::cmp::Reverse(point.components().count()));
    for point in points {
        unmount(&point, UnmountFlags::DETACH)?;
    }
    Ok(())
}

/// Resolves the subPath of a mount. It must stay within the volume, including symlinks; a missing one is created.
pub(crate) fn part_of(volume: &MountedVolume, part: &str) -> Result<PathBuf, String> {
    if part.is_empty() {
        return Ok(volume.path.clone());
    }
    let is_plain = Path::new(part).components().all(|c| matches!(c, std::path::Component::Normal(_)));
    if !is_plain {
        return Err(format!("subPath {part:?} must be a relative path without '..'"));
    }
    let path = volume.path.join(part);
    if fs::symlink_metadata(&path).is_err() && !volume.read_only {
        fs::create_dir_all(&path).map_err(|e| format!("subPath {part:?}: {e}"))?;
    }
    let real = |path: &Path| fs::canonicalize(path).map_err(|e| format!("subPath {part:?}: {e}"));
    let (inside, real) = (real(&volume.path)?, real(&path)?);
    if real.starts_with(&inside) { Ok(real) } else { Err(format!("subPath {part:?} is outside of the volume")) }
}

/// Reports whether a volume of the pod may change while it runs.
pub(crate) fn changes(pod: &Object) -> bool {
    let from_objects = ["configMap", "secret", "projected", "downwardAPI"];
    pod.items(&["spec", "volumes"]).iter().any(|volume| from_objects.iter().any(|kind| volume.get(kind).is_some()))
}

/// Returns the lifetime in seconds of a projected token.
pub(crate) fn token_seconds(source: &Value) -> i64 {
    number(source, "expirationSeconds").unwrap_or(3600)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sub_path_stays_within_its_volume() {
        let directory = tempfile::tempdir().expect("a folder");
        let volume = MountedVolume { path: directory.path().join("v"), read_only: false };
        fs::create_dir(&volume.path).expect("made");
        let made = part_of(&volume, "a/b").expect("made");
        assert!(made.ends_with("v/a/b") && made.is_dir());
        std::os::unix::fs::symlink("/etc", volume.path.join("out")).expect("linked");
        for part in ["out", "../x", "/etc", "a/../../x"] {
            assert!(part_of(&volume, part).is_err(), "{part}");
        }
        assert_eq!(part_of(&volume, ""), Ok(volume.path.clone()));
    }

    #[test]
    fn host_path_types_are_checked() {
        let directory = tempfile::tempdir().expect("a folder");
        let path = |name: &str| directory.path().join(name);
        assert_eq!(make_host_path(&path("d"), "DirectoryOrCreate"), Ok(()));
        assert_eq!(make_host_path(&path("d"), "Directory"), Ok(()));
        assert_eq!(make_host_path(&path("f"), "FileOrCreate"), Ok(()));
        assert!(make_host_path(&path("f"), "Directory").is_err());
        assert!(make_host_path(&path("none"), "File").is_err());
        assert!(make_host_path(&path("d"), "Socket").is_err());
    }
}
