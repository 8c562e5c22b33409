//! Fault injection for running programs: each fault is injected into a named target and healed when dropped.

pub mod disk;
pub mod process;
pub mod relay;
pub mod shim;

use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::netns::{Cut, Namespace};
use disk::SmallDisk;
use process::FaultSubject;
use relay::{Relay, RelayMode};
use shim::{DiskError, Shim};

/// The reason why this machine or target does not support a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsupported(pub String);

impl std::fmt::Display for Unsupported {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// `kill -9`, and a restart on the same data when healed.
    Kill,
    /// SIGSTOP, and SIGCONT when healed.
    Pause,
    /// Its network namespace is disconnected: packets are dropped.
    Partition,
    /// Its network namespace is disconnected: the link is down.
    Unplug,
    /// Its relay forwards nothing and keeps connections open.
    Silence,
    /// Its relay resets every connection.
    Reset,
    /// Its relay delays all data.
    SlowNetwork { ms: u64 },
    /// Delays every sync.
    SlowDisk { ms: u64 },
    /// Writes fail with ENOSPC; on a target with its own small disk, the disk is filled for real.
    FullDisk,
    /// Writes and syncs fail with EIO.
    BrokenDisk,
    /// Shifts the wall clock forward or back.
    Clock { seconds: i64 },
    /// Packet loss and delay in the kernel.
    Netem { delay_ms: u64, loss_percent: u64 },
}

/// A program that faults are injected into, with the available means.
#[derive(Clone)]
pub struct FaultTarget {
    pub name: String,
    subject: Arc<Mutex<dyn FaultSubject>>,
    namespace: Option<Arc<Namespace>>,
    relays: Vec<Arc<Relay>>,
    shim: Option<Arc<Shim>>,
    disk: Option<Arc<SmallDisk>>,
}

/// An active fault. Dropping it heals it.
pub struct Injected {
    heal: Option<Box<dyn FnOnce() + Send>>,
}

impl Injected {
    fn until(heal: impl FnOnce() + Send + 'static) -> Self {
        Self { heal: Some(Box::new(heal)) }
    }

    /// Drops it explicitly.
    pub fn heal(self) {}
}

impl Drop for Injected {
    fn drop(&mut self) {
        if let Some(heal) = self.heal.take() {
            heal();
        }
    }
}

impl FaultTarget {
    pub fn new(name: &str, subject: impl FaultSubject + 'static) -> Self {
        let subject: Arc<Mutex<dyn FaultSubject>> = Arc::new(Mutex::new(subject));
        Self { name: name.to_owned(), subject, namespace: None, relays: Vec::new(), shim: None, disk: None }
    }

    pub fn inside(mut self, namespace: Option<Arc<Namespace>>) -> Self {
        self.namespace = namespace;
        self
    }

    pub fn through(mut self, relays: Vec<Arc<Relay>>) -> Self {
        self.relays = relays;
        self
    }

    pub fn with_shim(mut self, shim: Option<Arc<Shim>>) -> Self {
        self.shim = shim;
        self
    }

    pub fn on_disk(mut self, disk: Arc<SmallDisk>) -> Self {
        self.disk = Some(disk);
        self
    }

    pub fn subject(&self) -> MutexGuard<'_, dyn FaultSubject + 'static> {
        self.subject.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the fault, or returns why it is not supported here. Leaves nothing half done.
    pub fn inject(&self, fault: Fault) -> Result<Injected, Unsupported> {
        match fault {
            Fault::Kill => Ok(self.kill()),
            Fault::Pause => self.pause(),
            Fault::Partition => self.cut(Cut::Silent),
            Fault::Unplug => self.cut(Cut::Link),
            Fault::Silence => self.steer(RelayMode::Silent),
            Fault::Reset => self.steer(RelayMode::Reset),
            Fault::SlowNetwork { ms } => self.steer(RelayMode::Slow(Duration::from_millis(ms))),
            Fault::SlowDisk { ms } => self.bend(|shim| shim.slow_disk(Duration::from_millis(ms)), Shim::heal_disk),
            Fault::FullDisk if self.disk.is_some() => Ok(self.fill()),
            Fault::FullDisk => self.bend(|shim| shim.failing_disk(DiskError::Full), Shim::heal_disk),
            Fault::BrokenDisk => self.bend(|shim| shim.failing_disk(DiskError::Broken), Shim::heal_disk),
            Fault::Clock { seconds } => self.bend(|shim| shim.move_clock(seconds), |shim| shim.move_clock(0)),
            Fault::Netem { delay_ms, loss_percent } => self.netem(delay_ms, loss_percent),
        }
    }

    fn kill(&self) -> Injected {
        self.subject().kill();
        let target = self.clone();
        Injected::until(move || target.subject().start())
    }

    fn pause(&self) -> Result<Injected, Unsupported> {
        let pid = self.subject().pid().ok_or_else(|| self.refused("does not run and cannot be paused"))?;
        signal(pid, "-STOP").map_err(|why| self.refused(&why))?;
        // The process may have been killed meanwhile, which also ends a pause.
        Ok(Injected::until(move || drop(signal(pid, "-CONT"))))
    }

    fn cut(&self, cut: Cut) -> Result<Injected, Unsupported> {
        let namespace = self.namespace.clone();
        let namespace = namespace.ok_or_else(|| self.refused("is in no network namespace that could be cut off"))?;
        namespace.cut(cut);
        Ok(Injected::until(move || namespace.restore()))
    }

    fn steer(&self, mode: RelayMode) -> Result<Injected, Unsupported> {
        if self.relays.is_empty() {
            return Err(self.refused("talks through no relay that could be steered"));
        }
        self.relays.iter().for_each(|relay| relay.set(mode));
        let relays = self.relays.clone();
        Ok(Injected::until(move || relays.iter().for_each(|relay| relay.set(RelayMode::Open))))
    }

    fn bend(&self, act: impl FnOnce(&Shim), heal: fn(&Shim)) -> Result<Injected, Unsupported> {
        let shim = self.shim.clone();
        let shim = shim.ok_or_else(|| {
            self.refused("runs without the shim for disk and clock (it is not ours, or there is no cc)")
        })?;
        act(&shim);
        Ok(Injected::until(move || heal(&shim)))
    }

    fn fill(&self) -> Injected {
        let disk = self.disk.clone().expect("asked before");
        disk.fill();
        Injected::until(move || disk.empty())
    }

    fn netem(&self, delay_ms: u64, loss_percent: u64) -> Result<Injected, Unsupported> {
        let namespace = self.namespace.clone();
        let namespace = namespace.ok_or_else(|| self.refused("is in no network namespace"))?;
        let link = first_link(&namespace).ok_or_else(|| self.refused("has no link in its namespace"))?;
        let (delay, loss) = (format!("{delay_ms}ms"), format!("{loss_percent}%"));
        let mut command = namespace.command("tc");
        command.args(["qdisc", "add", "dev", &link, "root", "netem", "delay", &delay, "loss", &loss]);
        let output = command.output().map_err(|error| self.refused(&format!("tc: {error}")))?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(self.refused(&format!("gets no delay or loss from this kernel (netem): {why}")));
        }
        Ok(Injected::until(move || {
            let _ = namespace.command("tc").args(["qdisc", "del", "dev", &link, "root"]).output();
        }))
    }

    fn refused(&self, why: &str) -> Unsupported {
        Unsupported(format!("{}: {why}", self.name))
    }
}

/// Returns the end of the link inside the namespace.
fn first_link(namespace: &Namespace) -> Option<String> {
    let output = namespace.command("ip").args(["-o", "link", "show", "type", "veth"]).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let name = text.lines().next()?.split(": ").nth(1)?;
    Some(name.split('@').next()?.to_owned())
}

pub fn signal(pid: u32, signal: &str) -> Result<(), String> {
    let output =
        Command::new("kill").args([signal, &pid.to_string()]).output().map_err(|error| format!("kill: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}
