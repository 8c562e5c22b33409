//! A network namespace joined to this machine by one link, which a test can cut and mend: a network that partitions.

use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::process::{Command, Output};

/// Names of namespaces: prefix, process that made it, when that process started, number of the link.
const PREFIX: &str = "flotilla";
/// Each link has four addresses of 198.18.0.0/15, the range that is set aside for tests of networks.
const LINKS_MAX: u32 = 4096;

/// Programs inside reach this machine at `host` and are reached at `inside`; nothing else is there to reach.
pub struct Namespace {
    name: String,
    /// Our end of the link; the other end has the same name with an `n`.
    link: String,
    pub host: Ipv4Addr,
    pub inside: Ipv4Addr,
}

/// How a link fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Packets vanish without a word, as behind a firewall or a lost router: connections hang.
    Silent,
    /// The cable is pulled: whoever sends is told that there is no way.
    Link,
}

impl Namespace {
    /// `None`, and a line on stderr, where namespaces cannot be made.
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
                // The link of another test that runs now: nothing of it may be taken away by dropping this.
                Ok(false) => std::mem::forget(namespace),
                Err(why) => {
                    eprintln!("SKIPPED: no network namespace can be made here (are you root?): {why}");
                    return None;
                }
            }
        }
        panic!("all {LINKS_MAX} links are taken");
    }

    /// Whether the link of that number was free. The kernel decides between tests that want the same one.
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

    /// A command that runs inside. What is started is the program itself, so its process is the one to end.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.name)).arg("--").arg(program);
        command
    }

    /// Separates the namespace from this machine; its own loopback works on.
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

    /// Joins it again, whichever way it was cut.
    pub fn mend(&self) {
        must(&ip(&["link", "set", &self.link, "up"]));
        // There is no such table after the other kind of cut.
        let _ = self.command("nft").args(["delete", "table", "inet", "cut"]).output();
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        remove(&self.name, &self.link);
    }
}

/// Takes away what tests left that were killed before they could clean up.
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

/// Ends whatever runs inside: only what a test started there can.
fn remove(name: &str, link: &str) {
    let inside = ip(&["netns", "pids", name]);
    let pids = String::from_utf8_lossy(&inside.stdout).into_owned();
    for pid in pids.split_whitespace() {
        let _ = Command::new("kill").args(["-KILL", pid]).output();
    }
    // A link whose namespace never got its end was never ours.
    let peer = ip(&["-n", name, "link", "show", &link.replace('h', "n")]);
    if peer.status.success() {
        let _ = ip(&["link", "del", link]);
    }
    let _ = ip(&["netns", "del", name]);
}

/// When a process started, in the kernel's ticks: pids are used again.
fn started(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is a name in brackets that may hold anything.
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
    fn a_namespace_is_reached_until_its_link_is_cut_and_again_when_it_is_mended() {
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
            child.wait().expect("it ended without a word");
            eprintln!("SKIPPED: python3 is not here");
            return;
        };
        let address = SocketAddr::from((one.inside, port));
        assert!(connects(address));
        for cut in [Cut::Silent, Cut::Link] {
            one.cut(cut);
            assert!(!connects(address), "{cut:?}");
            one.mend();
            assert!(connects(address), "{cut:?} mended");
        }
        let listener = TcpListener::bind((one.host, 0)).expect("our end has an address");
        drop(listener);
        let name = one.name.clone();
        drop(one);
        assert!(!String::from_utf8_lossy(&ip(&["netns", "list"]).stdout).contains(&name));
        child.wait().expect("it was ended with its namespace");
    }
}
