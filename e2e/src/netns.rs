//! A network namespace connected to this machine by one link, which a test can cut and restore.

use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::process::{Command, Output};

/// Prefix of namespace names; followed by the pid of the creator, its start time, and the number of the link.
const PREFIX: &str = "flotilla";
/// Each link has four addresses of 198.18.0.0/15, the range reserved for network tests.
const LINKS_MAX: u32 = 4096;

/// Programs inside reach this machine at `host` and are reached at `inside`; there is no other route.
pub struct Namespace {
    name: String,
    /// Our end of the link; the other end has the same name with an `n`.
    link: String,
    pub host: Ipv4Addr,
    pub inside: Ipv4Addr,
}

/// The failure mode of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Packets are dropped silently, as by a firewall: connections hang.
    Silent,
    /// The link is down: senders get an error.
    Link,
}

impl Namespace {
    /// `None` if namespaces cannot be created.
    pub fn make() -> Option<Self> {
        sweep();
        let owner = format!("{PREFIX}-{}-{}", std::process::id(), started(std::process::id()).unwrap_or_default());
        for number in 0..LINKS_MAX {
            let base = u32::from(Ipv4Addr::new(198, 18, 0, 0)) + number * 4;
            let namespace = Self {
                name: format!("{owner}-{number}"),
                link: format!("fle{number}h"),
                host: (base + 1).into(),
                inside: (base + 2).into(),
            };
            match namespace.claim() {
                Ok(true) => return Some(namespace),
                // The link belongs to another running test, so it must not be removed by dropping this value.
                Ok(false) => std::mem::forget(namespace),
                Err(why) => {
                    test_skip::skip(format_args!("cannot create a network namespace (requires root): {why}"));
                    return None;
                }
            }
        }
        panic!("all {LINKS_MAX} links are in use");
    }

    /// Reports whether the link of that number was free. The kernel arbitrates between concurrent tests.
    fn claim(&self) -> Result<bool, String> {
        match succeeded(&ip(&["netns", "add", &self.name])) {
            // Another one of this process.
            Err(why) if why.contains("File exists") => return Ok(false),
            other => other?,
        }
        let inner = self.inner_link();
        let made = ip(&["link", "add", &self.link, "type", "veth", "peer", "name", &inner, "netns", &self.name]);
        if let Err(why) = succeeded(&made) {
            let _ = ip(&["netns", "del", &self.name]);
            return if why.contains("File exists") { Ok(false) } else { Err(why) };
        }
        let steps: [&[&str]; 5] = [
            &["addr", "add", &format!("{}/30", self.host), "dev", &self.link],
            &["link", "set", &self.link, "up"],
            &["-n", &self.name, "addr", "add", &format!("{}/30", self.inside), "dev", &inner],
            &["-n", &self.name, "link", "set", &inner, "up"],
            &["-n", &self.name, "link", "set", "lo", "up"],
        ];
        steps.iter().try_for_each(|step| succeeded(&ip(step)))?;
        Ok(true)
    }

    fn inner_link(&self) -> String {
        self.link.replace('h', "n")
    }

    /// Returns a command that runs inside. The program is executed directly, so its process is the one to kill.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.name)).arg("--").arg(program);
        command
    }

    /// Disconnects the namespace from this machine; its own loopback keeps working.
    pub fn cut(&self, cut: Cut) {
        match cut {
            Cut::Link => must(&ip(&["link", "set", &self.link, "down"])),
            Cut::Silent => {
                let inner = self.inner_link();
                let chain = |hook: &str, side: &str| {
                    format!("chain {hook} {{ type filter hook {hook} priority 0; {side} \"{inner}\" drop; }}")
                };
                let rules =
                    format!("table inet cut {{ {}; {}; }}", chain("input", "iifname"), chain("output", "oifname"));
                must(&self.command("nft").arg(rules).output().expect("nft runs"));
            }
        }
    }

    /// Reconnects it after either kind of cut.
    pub fn restore(&self) {
        must(&ip(&["link", "set", &self.link, "up"]));
        // The table does not exist after the other kind of cut.
        let _ = self.command("nft").args(["delete", "table", "inet", "cut"]).output();
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        remove(&self.name, &self.link);
    }
}

/// Removes the remains of tests that were killed.
fn sweep() {
    let listed = ip(&["netns", "list"]);
    for name in String::from_utf8_lossy(&listed.stdout).lines().filter_map(|line| line.split_whitespace().next()) {
        let parts: Vec<&str> = name.split('-').collect();
        let [PREFIX, pid, start, number] = parts[..] else { continue };
        let Ok(pid) = pid.parse() else { continue };
        if started(pid).as_deref() != Some(start) {
            remove(name, &format!("fle{number}h"));
        }
    }
}

/// Kills all processes inside, which only a test can have started.
fn remove(name: &str, link: &str) {
    let inside = ip(&["netns", "pids", name]);
    let pids = String::from_utf8_lossy(&inside.stdout).into_owned();
    for pid in pids.split_whitespace() {
        let _ = Command::new("kill").args(["-KILL", pid]).output();
    }
    // A link without a peer in its namespace was never ours.
    let peer = ip(&["-n", name, "link", "show", &link.replace('h', "n")]);
    if peer.status.success() {
        let _ = ip(&["link", "del", link]);
    }
    let _ = ip(&["netns", "del", name]);
}

/// Returns the start time of a process in ticks, since pids are reused.
fn started(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is a name in parentheses that may contain anything.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19).map(str::to_owned)
}

fn ip(arguments: &[&str]) -> Output {
    Command::new("ip").args(arguments).output().unwrap_or_else(|error| Output {
        status: std::os::unix::process::ExitStatusExt::from_raw(1),
        stdout: Vec::new(),
        stderr: format!("ip: {error}").into_bytes(),
    })
}

fn succeeded(output: &Output) -> Result<(), String> {
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

#[track_caller]
fn must(output: &Output) {
    succeeded(output).expect("the network obeys");
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::process::Stdio;
    use std::time::Duration;

    use super::*;

    fn connects(address: SocketAddr) -> bool {
        TcpStream::connect_timeout(&address, Duration::from_millis(300)).is_ok()
    }

    #[test]
    fn a_namespace_is_reachable_except_while_its_link_is_cut() {
        let (Some(one), Some(two)) = (Namespace::make(), Namespace::make()) else { return };
        assert_ne!(one.inside, two.inside);
        let script = format!(
            "import socket,sys\ns=socket.create_server(('{}',0))\nprint(s.getsockname()[1],flush=True)\nwhile True: s.accept()",
            one.inside
        );
        let child = one.command("python3").args(["-c", &script]).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("nsenter runs");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        let Ok(port) = line.trim().parse::<u16>() else {
            child.wait().expect("it exited without output");
            test_skip::skip("python3 is not installed");
            return;
        };
        let address = SocketAddr::from((one.inside, port));
        assert!(connects(address));
        for cut in [Cut::Silent, Cut::Link] {
            one.cut(cut);
            assert!(!connects(address), "{cut:?}");
            one.restore();
            assert!(connects(address), "{cut:?} restored");
        }
        let listener = TcpListener::bind((one.host, 0)).expect("our end has an address");
        drop(listener);
        let name = one.name.clone();
        drop(one);
        assert!(!String::from_utf8_lossy(&ip(&["netns", "list"]).stdout).contains(&name));
        child.wait().expect("it was killed with its namespace");
    }
}
