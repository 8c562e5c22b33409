//! Machines as processes of this host: a directory, a supervised program, and forwarded ports.

mod child;
pub mod forward;
mod log;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use async_trait::async_trait;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::process::child::{ChildFiles, Keeper};
use crate::process::forward::{Address, ForwardedPort, NetworkFault};
use crate::{Condition, Error, Forward, Machine, Output, Provisioner};

/// Time to wait for a port that is still in use.
const REOPEN_TIMEOUT: std::time::Duration = std::time::Duration::from_millis(500);
const REOPEN_POLL: std::time::Duration = std::time::Duration::from_millis(10);

pub use child::{TETHER, memory_bytes};

/// The process of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessReport {
    pub name: String,
    pub condition: Condition,
    pub pid: Option<u32>,
    pub memory_bytes: Option<u64>,
    /// Seconds since 1970.
    pub started: Option<u64>,
    pub restarts: u32,
    pub last_end: Option<String>,
    pub forwards: Vec<ForwardReport>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForwardReport {
    #[serde(flatten)]
    pub forward: Forward,
    pub wire: NetworkFault,
}

/// All machines of one testbed. They run as long as this value lives.
pub struct Processes {
    /// Contains one directory per machine.
    directory: PathBuf,
    logs: PathBuf,
    entries: Mutex<BTreeMap<String, ProcessMachine>>,
}

struct ProcessMachine {
    machine: Machine,
    keeper: Option<Keeper>,
    /// Open while the machine is started.
    ports: BTreeMap<String, ForwardedPort>,
    wires: BTreeMap<String, NetworkFault>,
}

impl Processes {
    pub fn new(directory: impl Into<PathBuf>, logs: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), logs: logs.into(), entries: Mutex::default() }
    }

    pub async fn reports(&self) -> Vec<ProcessReport> {
        let entries = self.entries.lock().await;
        entries.values().map(ProcessMachine::report).collect()
    }

    /// Kills a machine's program as in a crash, and leaves it stopped until it is started. Its ports stay open.
    pub async fn kill(&self, machine: &str) -> Result<(), Error> {
        let keeper = self.entry(&mut *self.entries.lock().await, machine)?.keeper.take();
        if let Some(keeper) = keeper {
            keeper.kill().await;
        }
        Ok(())
    }

    /// Sets the network fault of a forwarded port; it survives restarts of the machine.
    pub async fn set_wire(&self, machine: &str, forward: &str, wire: NetworkFault) -> Result<(), Error> {
        let mut entries = self.entries.lock().await;
        let entry = self.entry(&mut entries, machine)?;
        if !entry.machine.forwards.iter().any(|known| known.name == forward) {
            return Err(failed("set a network fault", format!("{machine} has no forward {forward}")));
        }
        if let Some(port) = entry.ports.get(forward) {
            port.set_wire(wire);
        }
        entry.wires.insert(forward.to_owned(), wire);
        Ok(())
    }

    /// Suspends every program, so that files can be copied consistently.
    pub async fn freeze(&self) {
        self.signal_all(Signal::STOP).await;
    }

    pub async fn thaw(&self) {
        self.signal_all(Signal::CONT).await;
    }

    async fn signal_all(&self, signal: Signal) {
        let entries = self.entries.lock().await;
        for keeper in entries.values().filter_map(|entry| entry.keeper.as_ref()) {
            keeper.signal(signal);
        }
    }

    /// Stops all machines concurrently.
    pub async fn stop_all(&self) {
        let mut stopping = JoinSet::new();
        for entry in self.entries.lock().await.values_mut() {
            let (keeper, ports) = (entry.keeper.take(), std::mem::take(&mut entry.ports));
            stopping.spawn(end(keeper, ports));
        }
        stopping.join_all().await;
    }

    fn entry<'a>(
        &self,
        entries: &'a mut BTreeMap<String, ProcessMachine>,
        machine: &str,
    ) -> Result<&'a mut ProcessMachine, Error> {
        entries.get_mut(machine).ok_or_else(|| Error::NoMachine(machine.to_owned()))
    }

    fn place(&self, machine: &str) -> ChildFiles {
        ChildFiles {
            directory: self.directory.join(machine),
            log: self.logs.join(format!("{machine}.log")),
            pid_file: self.directory.join(format!("{machine}.pid")),
        }
    }

    /// Resolves a path in the machine below its directory.
    fn inside(&self, machine: &str, path: &str) -> Result<PathBuf, Error> {
        let relative = Path::new(path.trim_start_matches('/'));
        let is_inside = relative.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        if !is_inside {
            return Err(failed(format!("use {path}"), "the path is outside of the machine's directory"));
        }
        Ok(self.directory.join(machine).join(relative))
    }
}

impl ProcessMachine {
    fn report(&self) -> ProcessReport {
        let state = self.keeper.as_ref().map(Keeper::state).unwrap_or_default();
        let condition = match &self.keeper {
            None => Condition::Stopped,
            Some(_) if state.is_failing() => Condition::Failing,
            Some(_) => Condition::Running,
        };
        let wire = |forward: &Forward| self.wires.get(&forward.name).copied().unwrap_or_default();
        let forwards = self.machine.forwards.iter();
        ProcessReport {
            name: self.machine.name.clone(),
            condition,
            memory_bytes: state.pid.and_then(memory_bytes),
            pid: state.pid,
            started: state.started,
            restarts: state.restarts,
            last_end: state.last_end,
            forwards: forwards.map(|f| ForwardReport { forward: f.clone(), wire: wire(f) }).collect(),
        }
    }

    async fn open(&mut self, forward: &Forward) -> Result<(), Error> {
        if let Some(old) = self.ports.remove(&forward.name) {
            old.close().await;
        }
        let opened = open_port(forward).await;
        let port = opened.map_err(|error| match error.kind() {
            std::io::ErrorKind::AddrInUse => Error::Host {
                problem: format!("another program is listening on {}", forward.listen),
                remedy: format!("find it with `ss -tlpn | grep :{}`, or choose another port", forward.listen.port()),
            },
            _ => failed(format!("listen on {}", forward.listen), error),
        })?;
        port.set_wire(self.wires.get(&forward.name).copied().unwrap_or_default());
        self.ports.insert(forward.name.clone(), port);
        Ok(())
    }
}

/// Opens the port, and retries for a moment while it is in use: a process started at the same time may hold a copy of the
/// closed listener until it has replaced its program.
async fn open_port(forward: &Forward) -> std::io::Result<ForwardedPort> {
    let deadline = tokio::time::Instant::now() + REOPEN_TIMEOUT;
    loop {
        match ForwardedPort::open(forward.listen, Arc::new(Address(forward.target.clone()))).await {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && tokio::time::Instant::now() < deadline => {
                tokio::time::sleep(REOPEN_POLL).await;
            }
            opened => return opened,
        }
    }
}

async fn end(keeper: Option<Keeper>, ports: BTreeMap<String, ForwardedPort>) {
    if let Some(keeper) = keeper {
        keeper.stop().await;
    }
    for port in ports.into_values() {
        port.close().await;
    }
}

fn failed(doing: impl Into<String>, why: impl ToString) -> Error {
    Error::Failed { doing: doing.into(), why: why.to_string() }
}

#[async_trait]
impl Provisioner for Processes {
    fn name(&self) -> &'static str {
        "process"
    }

    /// A changed machine is stopped, to be restarted with its new spec.
    async fn create(&self, machine: &Machine) -> Result<(), Error> {
        let place = self.place(&machine.name);
        let doing = |path: &Path| format!("make {}", path.display());
        std::fs::create_dir_all(&place.directory).map_err(|error| failed(doing(&place.directory), error))?;
        for (from, to) in &machine.files {
            let to_path = self.inside(&machine.name, to)?;
            if !to_path.exists() {
                self.push_file(&machine.name, from, to).await?;
            }
        }
        let changed = {
            let mut entries = self.entries.lock().await;
            match entries.get_mut(&machine.name) {
                None => {
                    child::end_leftover(machine, &place.pid_file).await;
                    let machine_entry = ProcessMachine {
                        machine: machine.clone(),
                        keeper: None,
                        ports: BTreeMap::new(),
                        wires: BTreeMap::new(),
                    };
                    entries.insert(machine.name.clone(), machine_entry);
                    None
                }
                Some(entry) if entry.machine == *machine => None,
                Some(entry) => {
                    entry.machine = machine.clone();
                    Some((entry.keeper.take(), std::mem::take(&mut entry.ports)))
                }
            }
        };
        if let Some((keeper, ports)) = changed {
            end(keeper, ports).await;
        }
        Ok(())
    }

    async fn start(&self, machine: &str) -> Result<(), Error> {
        let mut entries = self.entries.lock().await;
        let entry = self.entry(&mut entries, machine)?;
        for forward in entry.machine.forwards.clone() {
            if !entry.ports.contains_key(&forward.name) {
                entry.open(&forward).await?;
            }
        }
        if entry.keeper.is_none() {
            entry.keeper = Some(Keeper::start(entry.machine.clone(), self.place(machine)));
        }
        Ok(())
    }

    async fn stop(&self, machine: &str) -> Result<(), Error> {
        let (keeper, ports) = {
            let mut entries = self.entries.lock().await;
            let entry = self.entry(&mut entries, machine)?;
            (entry.keeper.take(), std::mem::take(&mut entry.ports))
        };
        end(keeper, ports).await;
        Ok(())
    }

    async fn delete(&self, machine: &str) -> Result<(), Error> {
        let entry = self.entries.lock().await.remove(machine);
        if let Some(entry) = entry {
            end(entry.keeper, entry.ports).await;
        }
        let place = self.place(machine);
        let _ = std::fs::remove_file(log::rotated(&place.log));
        for file in [&place.log, &place.pid_file] {
            let _ = std::fs::remove_file(file);
        }
        match std::fs::remove_dir_all(&place.directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(failed(format!("remove {}", place.directory.display()), error))
            }
            _ => Ok(()),
        }
    }

    async fn condition(&self, machine: &str) -> Result<Condition, Error> {
        Ok(self.entries.lock().await.get(machine).map_or(Condition::Missing, |entry| entry.report().condition))
    }

    async fn exec(&self, machine: &str, command: &[String], stdin: Option<Vec<u8>>) -> Result<Output, Error> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(failed("run a command", "the command is empty"));
        };
        let doing = || format!("run {program} in {machine}");
        let mut process = tokio::process::Command::new(program);
        process.args(arguments).current_dir(self.place(machine).directory).kill_on_drop(true);
        process.stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        let mut running =
            process.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(|error| failed(doing(), error))?;
        let input = running.stdin.take();
        let feeding = async {
            if let (Some(mut input), Some(bytes)) = (input, stdin) {
                // A program may exit without having read all.
                let _ = input.write_all(&bytes).await;
            }
        };
        let ((), output) = tokio::join!(feeding, running.wait_with_output());
        let output = output.map_err(|error| failed(doing(), error))?;
        Ok(Output { code: output.status.code().unwrap_or(-1), stdout: output.stdout, stderr: output.stderr })
    }

    async fn push_file(&self, machine: &str, from: &Path, to: &str) -> Result<(), Error> {
        let to = self.inside(machine, to)?;
        let copied = match to.parent().map(std::fs::create_dir_all) {
            Some(Err(error)) => Err(error),
            _ => tokio::fs::copy(from, &to).await,
        };
        copied.map(drop).map_err(|error| failed(format!("copy {} to {}", from.display(), to.display()), error))
    }

    async fn read_file(&self, machine: &str, path: &str) -> Result<Vec<u8>, Error> {
        let path = self.inside(machine, path)?;
        tokio::fs::read(&path).await.map_err(|error| failed(format!("read {}", path.display()), error))
    }

    async fn forward(&self, machine: &str, forward: &Forward) -> Result<(), Error> {
        let mut entries = self.entries.lock().await;
        let entry = self.entry(&mut entries, machine)?;
        let known = entry.machine.forwards.iter().any(|known| known == forward);
        if !known {
            entry.machine.forwards.retain(|known| known.name != forward.name);
            entry.machine.forwards.push(forward.clone());
        }
        let is_started = entry.keeper.is_some();
        if is_started && !(known && entry.ports.contains_key(&forward.name)) {
            entry.open(forward).await?;
        }
        Ok(())
    }

    async fn unforward(&self, machine: &str, forward: &str) -> Result<(), Error> {
        let port = {
            let mut entries = self.entries.lock().await;
            let entry = self.entry(&mut entries, machine)?;
            entry.machine.forwards.retain(|known| known.name != forward);
            entry.ports.remove(forward)
        };
        if let Some(port) = port {
            port.close().await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
