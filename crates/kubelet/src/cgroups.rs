//! Removes empty cgroups that the runtime left behind.

use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = "/sys/fs/cgroup";

/// Removes a cgroup and its children in every hierarchy, unless it is in use.
pub(crate) fn remove(group: &str) {
    for hierarchy in hierarchies(Path::new(ROOT)) {
        remove_below(&hierarchy.join(group.trim_start_matches('/')));
    }
}

/// Returns the unified hierarchy of version 2, or those of version 1, one per controller.
fn hierarchies(root: &Path) -> Vec<PathBuf> {
    let mut all = vec![root.to_owned()];
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    all.extend(
        entries
            .map(|entry| entry.path())
            .filter(|path| path.join("cgroup.procs").exists() && !root.join("cgroup.procs").exists()),
    );
    all
}

fn remove_below(group: &Path) {
    let Ok(entries) = fs::read_dir(group) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove_below(&entry.path());
    }
    let _ = fs::remove_dir(group);
}

/// Kills every process in a cgroup and its children.
pub(crate) fn kill(group: &str) {
    for pid in members(group) {
        if let Some(pid) = rustix::process::Pid::from_raw(pid) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

pub(crate) fn exists(group: &str) -> bool {
    hierarchies(Path::new(ROOT)).iter().any(|hierarchy| hierarchy.join(group.trim_start_matches('/')).exists())
}

fn members(group: &str) -> Vec<i32> {
    let mut pids = Vec::new();
    for hierarchy in hierarchies(Path::new(ROOT)) {
        collect_members(&hierarchy.join(group.trim_start_matches('/')), &mut pids);
    }
    pids
}

fn collect_members(group: &Path, pids: &mut Vec<i32>) {
    let procs = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    pids.extend(procs.lines().filter_map(|line| line.parse::<i32>().ok()));
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        collect_members(&entry.path(), pids);
    }
}
