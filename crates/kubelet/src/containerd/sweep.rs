//! Cleans up after a private containerd that exited or was killed: processes, mounts, its bridge.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::cgroups;
use crate::containerd::config::ContainerdPaths;
use crate::netns::remove_link;
use crate::volumes::unmount_below;

/// Grace period for a process to exit.
const END_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_EVERY: Duration = Duration::from_millis(20);
/// The directory where CNI plugins store their results.
const NETWORK_RECORDS: &str = "/var/lib/cni/results";

/// Stops everything that belongs to a directory and removes its artifacts. Blocks.
pub(crate) fn sweep(paths: &ContainerdPaths) {
    end_daemons(paths);
    // Containers in creation may still appear after the daemon exited, and killed ones take a moment to disappear.
    wait_until("containers to exit", || {
        end_shims(paths);
        cgroups::kill(&paths.cgroup);
        cgroups::remove(&paths.cgroup);
        !cgroups::exists(&paths.cgroup)
    });
    if let Err(error) = unmount_below(&paths.directory) {
        tracing::warn!(%error, directory = %paths.directory.display(), "failed to unmount");
    }
    if let Err(error) = remove_interface(&paths.bridge) {
        tracing::warn!(%error, bridge = paths.bridge, "failed to remove bridge");
    }
    remove_shim_sockets(paths);
    remove_network_records(paths);
    for name in ["state", "addresses", "network"] {
        let _ = fs::remove_dir_all(paths.directory.join(name));
    }
    for path in [&paths.socket, &paths.pid, &paths.socket.with_extension("sock.ttrpc")] {
        let _ = fs::remove_file(path);
    }
}

/// Daemons are found by their configuration path. There is at most one, unless its directory was replaced.
fn end_daemons(paths: &ContainerdPaths) {
    let is_daemon = |pid: &i32| {
        let line = command_line(*pid);
        let is_containerd = line.first().is_some_and(|program| program.ends_with("containerd"));
        is_containerd && line.iter().any(|word| Path::new(word) == paths.config)
    };
    let daemons: Vec<i32> = processes().filter(is_daemon).collect();
    for signal in [Signal::TERM, Signal::KILL] {
        daemons.iter().filter(|pid| is_daemon(pid)).for_each(|pid| end_process(*pid, signal));
        if wait_until("containerd to exit", || !daemons.iter().any(is_daemon)) {
            return;
        }
    }
}

/// Shims are found by the socket of their daemon.
fn end_shims(paths: &ContainerdPaths) {
    let socket = paths.socket.display().to_string();
    let shims = processes().filter(|pid| {
        let line = command_line(*pid);
        line.first().is_some_and(|program| program.contains("containerd-shim")) && line.contains(&socket)
    });
    let shims: Vec<i32> = shims.collect();
    for pid in &shims {
        end_process(*pid, Signal::KILL);
    }
    wait_until("shims to exit", || shims.iter().all(|pid| command_line(*pid).is_empty()));
}

/// Shim sockets are outside the directory; their addresses are stored inside it.
fn remove_shim_sockets(paths: &ContainerdPaths) {
    let tasks = paths.directory.join("state/io.containerd.runtime.v2.task/k8s.io");
    for entry in fs::read_dir(tasks).into_iter().flatten().flatten() {
        let address = fs::read_to_string(entry.path().join("address")).unwrap_or_default();
        if let Some(path) = address.trim().strip_prefix("unix://") {
            let _ = fs::remove_file(path);
        }
    }
}

/// Removes CNI results of pods that were never detached: `NETWORK-POD-INTERFACE`.
fn remove_network_records(paths: &ContainerdPaths) {
    let records = |prefix: &str| {
        let entries = fs::read_dir(NETWORK_RECORDS).into_iter().flatten().flatten();
        let prefix = prefix.to_owned();
        entries
            .map(|entry| entry.path())
            .filter(move |path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix)))
    };
    let prefix = format!("{}-", paths.bridge);
    for record in records(&prefix).collect::<Vec<_>>() {
        let name = record.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let pod = name.strip_prefix(&prefix).and_then(|rest| rest.split('-').next()).unwrap_or_default();
        for loopback in records(&format!("cni-loopback-{pod}-")) {
            let _ = fs::remove_file(loopback);
        }
        let _ = fs::remove_file(record);
    }
}

fn processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Empty for a process that has exited, including zombies.
fn command_line(pid: i32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

pub(crate) fn end_process(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, signal);
    }
}

fn wait_until(what: &str, holds: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !holds() {
        if start.elapsed() > END_TIMEOUT {
            tracing::warn!(what, "timed out waiting");
            return false;
        }
        std::thread::sleep(POLL_EVERY);
    }
    true
}

/// Removes a network interface by name; a missing one is fine.
pub(crate) fn remove_interface(name: &str) -> io::Result<()> {
    let index = match fs::read_to_string(PathBuf::from("/sys/class/net").join(name).join("ifindex")) {
        Ok(index) => index.trim().parse::<i32>().map_err(io::Error::other)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    remove_link(index)
}
