//! Reads the state of a host: programs, bridge, firewall, kernel settings, ports, memory, disk.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::HostUse;
use super::firewall::Firewall;
use super::judge::{PROGRAMS, SETTINGS};
use super::ports::{Listener, listeners};
use crate::lxd::{self, DaemonError};

/// Known bridges, in order of preference.
const BRIDGES: &[&str] = &["lxdbr0", "incusbr0", "flotillabr0"];

#[derive(Clone, Debug, Default)]
pub struct HostFacts {
    pub root: bool,
    /// The paths of the programs that were found.
    pub programs: BTreeMap<&'static str, PathBuf>,
    /// The problem if no LXD or Incus daemon answers.
    pub daemon: Option<DaemonError>,
    pub bridge: Bridge,
    pub firewall: Option<(Firewall, Listing)>,
    /// Kernel settings by path; unreadable ones are missing.
    pub settings: BTreeMap<&'static str, u64>,
    pub open_files: Option<u64>,
    pub listeners: Vec<Listener>,
    pub memory_available: Option<u64>,
    pub disk_available: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bridge {
    pub name: String,
    pub exists: bool,
    pub up: bool,
}

/// The rules as printed by the program, or the error.
pub type Listing = Result<String, String>;

/// Read-only; runs `iptables -S` or `nft list ruleset` if the bridge matters.
pub fn gather(wanted: &HostUse) -> HostFacts {
    let programs: BTreeMap<&'static str, PathBuf> =
        PROGRAMS.iter().filter_map(|program| Some((program.name, find_program(program.name)?))).collect();
    let firewall = wanted.lxd.then(|| gather_firewall(&programs)).flatten();
    HostFacts {
        root: rustix::process::geteuid().is_root(),
        daemon: if wanted.lxd { lxd::missing_daemon() } else { None },
        bridge: gather_bridge(wanted.bridge.as_deref()),
        firewall,
        settings: SETTINGS.iter().filter_map(|setting| Some((setting.path, read_number(setting.path)?))).collect(),
        open_files: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
        listeners: listeners(&wanted.ports),
        memory_available: fs::read_to_string("/proc/meminfo").ok().and_then(|text| memory_available(&text)),
        disk_available: disk_available(&wanted.home),
        programs,
    }
}

/// Directories of programs that may not be in PATH: sbin, snaps, and CNI plugins.
const MORE_FOLDERS: [&str; 7] =
    ["/usr/sbin", "/sbin", "/usr/local/sbin", "/snap/bin", "/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"];

/// Searches PATH and further directories.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(MORE_FOLDERS.map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
}

fn gather_bridge(named: Option<&str>) -> Bridge {
    let exists = |name: &str| Path::new("/sys/class/net").join(name).exists();
    let found = BRIDGES.iter().copied().find(|name| exists(name));
    let name = named.or(found).unwrap_or("flotillabr0");
    let flags = fs::read_to_string(format!("/sys/class/net/{name}/flags")).unwrap_or_default();
    let flags = u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).unwrap_or(0);
    Bridge { name: name.to_owned(), exists: exists(name), up: flags & 1 == 1 }
}

fn gather_firewall(programs: &BTreeMap<&'static str, PathBuf>) -> Option<(Firewall, Listing)> {
    if let Some(iptables) = programs.get("iptables") {
        return Some((Firewall::Iptables, run(iptables, &["-w", "-S"])));
    }
    let nft = programs.get("nft")?;
    Some((Firewall::Nftables, run(nft, &["list", "ruleset"])))
}

fn run(program: &Path, arguments: &[&str]) -> Listing {
    let output =
        Command::new(program).args(arguments).stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

fn read_number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.split_whitespace().next()?.parse().ok()
}

fn memory_available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Returns the free space of the file system the path is on or would be created on.
pub fn disk_available(path: &Path) -> Option<u64> {
    let existing = path.ancestors().find(|folder| folder.exists())?;
    let status = rustix::fs::statvfs(existing).ok()?;
    Some(status.f_bavail * status.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_read() {
        assert_eq!(memory_available("MemTotal: 5 kB\nMemAvailable:   2048 kB\n"), Some(2048 * 1024));
        assert_eq!(memory_available("MemTotal: 5 kB\n"), None);
    }

    #[test]
    fn a_host_can_be_read_without_root_and_without_a_testbed() {
        let wanted = HostUse {
            lxd: false,
            containerd: false,
            bridge: None,
            ports: vec![1],
            needs_ports: true,
            home: "/nonexistent/home".into(),
        };
        let facts = gather(&wanted);
        assert!(facts.disk_available.is_some_and(|bytes| bytes > 0));
        assert!(facts.memory_available.is_some_and(|bytes| bytes > 0));
    }
}
