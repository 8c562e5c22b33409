//! Listening ports of this host and their processes.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde::Serialize;

/// The kernel's code of the LISTEN state.
const LISTENING: &str = "0A";

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listener {
    pub address: SocketAddr,
    /// The process, if visible to this user.
    pub pid: Option<u32>,
    pub program: Option<String>,
}

/// Returns every listening TCP socket. Processes are only looked up for the given ports, since that reads all of
/// /proc.
pub fn listeners(ports: &[u16]) -> Vec<Listener> {
    let mut found = Vec::new();
    for (table, read) in [("/proc/net/tcp", parse_v4 as fn(&str) -> Option<IpAddr>), ("/proc/net/tcp6", parse_v6)] {
        let text = fs::read_to_string(table).unwrap_or_default();
        found.extend(parse_table(&text, read).into_iter().filter(|(address, _)| ports.contains(&address.port())));
    }
    let holders = if found.is_empty() { BTreeMap::new() } else { holders() };
    let named = |(address, inode): (SocketAddr, u64)| {
        let pid = holders.get(&inode).copied();
        Listener { address, pid, program: pid.and_then(program) }
    };
    found.into_iter().map(named).collect()
}

/// Parses the listening sockets of a kernel table: address and inode.
fn parse_table(text: &str, read: fn(&str) -> Option<IpAddr>) -> Vec<(SocketAddr, u64)> {
    let row = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let (address, port) = columns.get(1)?.split_once(':')?;
        if *columns.get(3)? != LISTENING {
            return None;
        }
        let port = u16::from_str_radix(port, 16).ok()?;
        Some((SocketAddr::new(read(address)?, port), columns.get(9)?.parse().ok()?))
    };
    text.lines().skip(1).filter_map(row).collect()
}

fn parse_v4(hex: &str) -> Option<IpAddr> {
    Some(Ipv4Addr::from(u32::from_str_radix(hex, 16).ok()?.to_ne_bytes()).into())
}

fn parse_v6(hex: &str) -> Option<IpAddr> {
    let mut bytes = [0_u8; 16];
    for (word, four) in bytes.chunks_mut(4).enumerate() {
        let number = u32::from_str_radix(hex.get(word * 8..word * 8 + 8)?, 16).ok()?;
        four.copy_from_slice(&number.to_ne_bytes());
    }
    let address = Ipv6Addr::from(bytes);
    Some(address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4))
}

/// Maps socket inodes to processes, as far as visible to this user. Of several processes the oldest is named: the
/// others inherited the socket, possibly only until they exec.
fn holders() -> BTreeMap<u64, u32> {
    let mut found = BTreeMap::new();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    for pid in pids {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        for target in files.filter_map(|file| fs::read_link(file.path()).ok()) {
            let text = target.to_string_lossy();
            let inode = text.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
            if let Some(inode) = inode.and_then(|inode| inode.parse().ok()) {
                let holder = found.entry(inode).or_insert(pid);
                if *holder != pid && started(pid) < started(*holder) {
                    *holder = pid;
                }
            }
        }
    }
    found
}

/// Returns the start time of the process in ticks since boot. An exited one counts as the youngest.
fn started(pid: u32) -> u64 {
    const START: usize = 19;
    let read = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, fields) = stat.rsplit_once(')')?;
        fields.split_whitespace().nth(START)?.parse().ok()
    };
    read().unwrap_or(u64::MAX)
}

fn program(pid: u32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_socket_of_this_process_is_found_with_its_name() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let found = listeners(&[address.port()]);
        let ours = found.iter().find(|listener| listener.address == address).unwrap();
        assert_eq!(ours.pid, Some(std::process::id()));
        assert!(ours.program.is_some());
        drop(socket);
        // Children started by other tests hold it until they exec.
        let deadline = Instant::now() + Duration::from_secs(10);
        while listeners(&[address.port()]).iter().any(|listener| listener.address == address) {
            assert!(Instant::now() < deadline, "{address} is still in use");
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_oldest_process_of_a_shared_socket_is_named() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        // As its stdin, a child holds the socket while it runs.
        let input = std::os::fd::OwnedFd::from(socket.try_clone().unwrap());
        let mut child = std::process::Command::new("sleep").arg("60").stdin(input).spawn().unwrap();
        let found = listeners(&[address.port()]);
        child.kill().unwrap();
        child.wait().unwrap();
        let ours = found.iter().find(|listener| listener.address == address).unwrap();
        assert_eq!(ours.pid, Some(std::process::id()));
        assert!(started(std::process::id()) < u64::MAX);
    }

    #[test]
    fn kernel_addresses_are_parsed() {
        assert_eq!(parse_v4("0100007F").unwrap().to_string(), "127.0.0.1");
        assert_eq!(parse_v6("00000000000000000000000001000000").unwrap().to_string(), "::1");
        assert_eq!(parse_v6("0000000000000000FFFF00000100007F").unwrap().to_string(), "127.0.0.1");
        let table = "header\n 0: 0100007F:4039 00000000:0000 0A 0:0 0:0 0 0 0 77 1\n 1: 0100007F:4039 0:0 01 0:0 0:0 0 0 0 78 1\n";
        let rows = parse_table(table, parse_v4);
        assert_eq!(rows, vec![("127.0.0.1:16441".parse().unwrap(), 77)]);
    }
}
