//! Reads the resources of this machine: processors, memory, disk, names.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::Path;

/// Read once at node start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MachineInfo {
    pub cpus: i64,
    pub memory_bytes: i64,
    pub disk_bytes: i64,
    pub machine_id: String,
    pub boot_id: String,
    pub kernel: String,
    pub os_image: String,
}

impl MachineInfo {
    /// `root` is the data directory of pods.
    pub fn read(root: &Path) -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let disk = rustix::fs::statvfs(root).map(|fs| fs.f_blocks.saturating_mul(fs.f_frsize)).unwrap_or_default();
        Self {
            cpus: i64::try_from(cpus).unwrap_or(1),
            memory_bytes: meminfo(&read("/proc/meminfo"), "MemTotal"),
            disk_bytes: i64::try_from(disk).unwrap_or_default(),
            machine_id: read("/etc/machine-id").trim().to_owned(),
            boot_id: read("/proc/sys/kernel/random/boot_id").trim().to_owned(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            os_image: os_image(&read("/etc/os-release")),
        }
    }
}

/// Returns the bytes of a line of /proc/meminfo, or 0 if it is missing.
pub(crate) fn meminfo(text: &str, name: &str) -> i64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<i64>().ok());
    kibibytes.unwrap_or_default() * 1024
}

fn os_image(text: &str) -> String {
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or("Linux", |name| name.trim_matches('"')).to_owned()
}

/// Returns the used cpu time since boot in nanoseconds over all processors: user, nice, system and interrupts.
pub(crate) fn cpu_nanoseconds(stat: &str) -> u64 {
    const NANOS_PER_TICK: u64 = 10_000_000;
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<u64> = line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal
    let used: u64 = [0, 1, 2, 5, 6, 7].iter().filter_map(|at| ticks.get(*at)).sum();
    used * NANOS_PER_TICK
}

/// Returns the address of this machine. Sends nothing: only asks the socket for its local address.
pub(crate) fn own_address() -> IpAddr {
    let ask = || {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
        // An address reserved for documentation, routed through the default route.
        socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    ask().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

pub(crate) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_files_are_parsed() {
        assert_eq!(meminfo("MemTotal:       2048 kB\nMemFree: 1 kB\n", "MemTotal"), 2048 * 1024);
        assert_eq!(meminfo("", "MemTotal"), 0);
        assert_eq!(os_image("NAME=x\nPRETTY_NAME=\"Debian 12\"\n"), "Debian 12");
        assert_eq!(cpu_nanoseconds("cpu  100 0 50 900 10 1 2 0 0 0\ncpu0 1"), 153 * 10_000_000);
    }

    #[test]
    fn this_machine_has_resources() {
        let machine = MachineInfo::read(Path::new("/"));
        assert!(machine.cpus > 0 && machine.memory_bytes > 0 && machine.disk_bytes > 0, "{machine:?}");
    }
}
