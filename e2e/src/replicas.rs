//! Several `flotilla server` processes on one etcd cluster, each with its own port and directory.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::etcd::{EtcdCluster, steady_port};
use crate::flotilla::Flotilla;

pub struct Replicas {
    // Declared before etcd, so that servers stop first.
    servers: Vec<Replica>,
    flags: Vec<String>,
    pub etcd: EtcdCluster,
}

struct Replica {
    port: u16,
    directory: tempfile::TempDir,
    running: Option<Flotilla>,
}

impl Replicas {
    /// Starts all concurrently, as on several machines. `None` if etcd is not installed.
    pub fn start(count: usize, etcd_nodes: usize, arguments: &[&str]) -> Option<Self> {
        let etcd = EtcdCluster::start(etcd_nodes)?;
        let mut flags = etcd.flags();
        flags.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        let replica = || Replica {
            port: steady_port(),
            directory: tempfile::tempdir().expect("a temporary directory"),
            running: None,
        };
        let mut servers: Vec<Replica> = (0..count).map(|_| replica()).collect();
        std::thread::scope(|scope| {
            for replica in &mut servers {
                scope.spawn(|| replica.start(&flags));
            }
        });
        assert!(servers.iter().all(|replica| replica.running.is_some()), "a replica did not start");
        Some(Self { servers, flags, etcd })
    }

    pub fn count(&self) -> usize {
        self.servers.len()
    }

    #[track_caller]
    pub fn get(&self, number: usize) -> &Flotilla {
        self.servers[number].running.as_ref().expect("this replica runs")
    }

    /// Returns the running ones.
    pub fn running(&self) -> impl Iterator<Item = (usize, &Flotilla)> {
        self.servers.iter().enumerate().filter_map(|(number, replica)| Some((number, replica.running.as_ref()?)))
    }

    pub fn port(&self, number: usize) -> u16 {
        self.servers[number].port
    }

    pub fn ports(&self) -> Vec<u16> {
        self.servers.iter().map(|replica| replica.port).collect()
    }

    pub fn directory(&self, number: usize) -> &Path {
        self.servers[number].directory.path()
    }

    /// Kills one, as in a power failure.
    pub fn kill(&mut self, number: usize) {
        self.servers[number].running.take().expect("this replica runs").kill();
    }

    /// Stops one gracefully.
    pub fn stop(&mut self, number: usize) {
        let ended = self.servers[number].running.take().expect("this replica runs").stop();
        assert!(ended.success(), "replica {number} ended with {ended}");
    }

    /// Restarts a stopped one on its port and waits until it is ready.
    pub fn restart(&mut self, number: usize) {
        self.servers[number].start(&self.flags);
    }

    /// Restarts one with an empty directory, as on a new machine.
    pub fn restart_empty(&mut self, number: usize) {
        self.servers[number].directory = tempfile::tempdir().expect("a temporary directory");
        self.restart(number);
    }

    /// Returns the leader according to the lease, as read from replica `asked`.
    pub fn leader(&self, asked: usize) -> Option<usize> {
        let lease = ["get", "lease", "flotilla-controllers", "-n", "kube-system", "-o=jsonpath={.spec.holderIdentity}"];
        let answer = self.get(asked).kubectl(&lease);
        let holder = String::from_utf8_lossy(&answer.stdout).into_owned();
        self.servers.iter().position(|replica| holder.starts_with(&format!("127.0.0.1:{}_", replica.port)))
    }

    /// Waits for a leader other than `other`, and returns it.
    #[track_caller]
    pub fn wait_for_leader(&self, asked: usize, other: Option<usize>, limit: Duration) -> usize {
        let start = Instant::now();
        loop {
            match self.leader(asked) {
                Some(leader) if Some(leader) != other => return leader,
                seen => assert!(start.elapsed() < limit, "no new leader within {limit:?}: {seen:?}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Pauses (`STOP`) or continues (`CONT`) a replica.
    pub fn signal(&self, number: usize, signal: &str) {
        let pid = self.get(number).pid().to_string();
        let sent = std::process::Command::new("kill").args([&format!("-{signal}"), &pid]).status();
        assert!(sent.expect("kill runs").success(), "the replica could not be sent {signal}");
    }
}

impl Drop for Replicas {
    fn drop(&mut self) {
        const LINES: usize = 40;
        if !std::thread::panicking() {
            return;
        }
        for (number, replica) in self.running() {
            let log = replica.log();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("the log of replica {number}:\n{}", lines[lines.len().saturating_sub(LINES)..].join("\n"));
        }
    }
}

impl Replica {
    fn start(&mut self, flags: &[String]) {
        assert!(self.running.is_none(), "this replica runs");
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        self.running = Some(Flotilla::start_at(self.directory.path(), self.port, &flags));
    }
}
