//! Supervises one program: restarts it with increasing backoff.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::Machine;
use crate::process::log::Log;

/// Set for every started program: the id of the process it must not outlive.
pub const TETHER: &str = "FLOTILLA_TETHER";

const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// After this run time the backoff is reset.
const WELL_AFTER: Duration = Duration::from_secs(10);
/// Grace period for a program to exit.
const GRACE: Duration = Duration::from_secs(20);
/// Consecutive exits after which a machine counts as failing.
const FAILING_AFTER: u32 = 3;

/// The state of a program.
#[derive(Clone, Debug, Default)]
pub struct ChildState {
    pub pid: Option<u32>,
    /// Seconds since 1970.
    pub started: Option<u64>,
    pub restarts: u32,
    pub ends_in_a_row: u32,
    pub last_end: Option<String>,
}

impl ChildState {
    pub fn is_failing(&self) -> bool {
        self.ends_in_a_row >= FAILING_AFTER
    }
}

/// The files of a program.
#[derive(Clone, Debug)]
pub struct ChildFiles {
    pub directory: PathBuf,
    pub log: PathBuf,
    pub pid_file: PathBuf,
}

pub struct Keeper {
    state: Arc<Mutex<ChildState>>,
    cancel: CancellationToken,
    is_forced: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Keeper {
    pub fn start(machine: Machine, place: ChildFiles) -> Self {
        let (state, cancel) = (Arc::new(Mutex::new(ChildState::default())), CancellationToken::new());
        let is_forced = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(keep(machine, place, Arc::clone(&state), cancel.clone(), Arc::clone(&is_forced)));
        Self { state, cancel, is_forced, task }
    }

    pub fn state(&self) -> ChildState {
        self.state.lock().clone()
    }

    /// Stops the program and returns when it has exited.
    pub async fn stop(self) {
        self.cancel.cancel();
        // The task does not panic; if it did, the program would be killed with its handle.
        let _ = self.task.await;
    }

    /// Kills it as in a crash.
    pub async fn kill(self) {
        self.is_forced.store(true, Ordering::Release);
        self.stop().await;
    }

    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = self.state.lock().pid {
            send(pid, signal);
        }
    }
}

async fn keep(
    machine: Machine,
    place: ChildFiles,
    state: Arc<Mutex<ChildState>>,
    cancel: CancellationToken,
    is_forced: Arc<AtomicBool>,
) {
    let mut pause = PAUSE_MIN;
    while !cancel.is_cancelled() {
        let started = tokio::time::Instant::now();
        let end = match spawn(&machine, &place) {
            Ok(child) => {
                note_start(&state, &place, child.id());
                watch_over(child, &cancel, &is_forced).await
            }
            Err(error) => format!("failed to start: {error}"),
        };
        let _ = std::fs::remove_file(&place.pid_file);
        let is_well = started.elapsed() >= WELL_AFTER;
        {
            let mut state = state.lock();
            state.pid = None;
            state.started = None;
            state.last_end = Some(end.clone());
            state.ends_in_a_row = if is_well { 1 } else { state.ends_in_a_row + 1 };
            state.restarts += u32::from(!cancel.is_cancelled());
        }
        if cancel.is_cancelled() {
            return;
        }
        if is_well {
            pause = PAUSE_MIN;
        }
        tracing::warn!(machine = %machine.name, %end, ?pause, "program exited, restarting");
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = cancel.cancelled() => {}
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

fn note_start(state: &Mutex<ChildState>, place: &ChildFiles, pid: Option<u32>) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut state = state.lock();
    state.pid = pid;
    state.started = Some(now.as_secs());
    if let Some(pid) = pid
        && let Err(error) = std::fs::write(&place.pid_file, pid.to_string())
    {
        tracing::warn!(%error, file = %place.pid_file.display(), "failed to write pid file");
    }
}

fn spawn(machine: &Machine, place: &ChildFiles) -> std::io::Result<Child> {
    let missing = || std::io::Error::new(std::io::ErrorKind::InvalidInput, "the command is empty");
    let (program, arguments) = machine.command.split_first().ok_or_else(missing)?;
    let (reader, writer) = std::io::pipe()?;
    let mut command = Command::new(program);
    command.args(arguments).envs(&machine.env).env(TETHER, std::process::id().to_string());
    // The output goes to a file, not a terminal.
    command.env("NO_COLOR", "1");
    command.current_dir(&place.directory).stdin(Stdio::null());
    command.stdout(writer.try_clone()?).stderr(writer).kill_on_drop(true);
    let child = command.spawn()?;
    // The command holds the other ends of the pipe open.
    drop(command);
    let reader = tokio::net::unix::pipe::Receiver::from_owned_fd(reader.into())?;
    tokio::spawn(keep_log(reader, Log::open(&place.log)?));
    Ok(child)
}

/// Ends when the last process with the pipe exits.
async fn keep_log(mut reader: tokio::net::unix::pipe::Receiver, mut log: Log) {
    let mut chunk = vec![0; 8 * 1024];
    while let Ok(length @ 1..) = reader.read(&mut chunk).await {
        // A full disk must not stop the program: output that cannot be stored is dropped.
        let _ = log.write(&chunk[..length]);
    }
}

/// Returns the exit reason.
async fn watch_over(mut child: Child, cancel: &CancellationToken, is_forced: &AtomicBool) -> String {
    tokio::select! {
        ended = child.wait() => return described(ended),
        () = cancel.cancelled() => {}
    }
    if !is_forced.load(Ordering::Acquire)
        && let Some(pid) = child.id()
    {
        send(pid, Signal::TERM);
        // A suspended process could not handle the signal.
        send(pid, Signal::CONT);
        if let Ok(ended) = tokio::time::timeout(GRACE, child.wait()).await {
            return described(ended);
        }
    }
    let _ = child.start_kill();
    described(child.wait().await)
}

fn described(ended: std::io::Result<std::process::ExitStatus>) -> String {
    match ended {
        Ok(status) => status.to_string(),
        Err(error) => format!("unknown exit status: {error}"),
    }
}

fn send(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // It may have exited a moment ago.
        let _ = kill_process(pid, signal);
    }
}

/// Stops a process left by a killed supervisor, if the recorded pid still runs that program.
pub async fn end_leftover(machine: &Machine, pid_file: &Path) {
    let Some(pid) = std::fs::read_to_string(pid_file).ok().and_then(|text| text.trim().parse::<u32>().ok()) else {
        return;
    };
    let is_it = || is_running(pid, &machine.command);
    if is_it() {
        send(pid, Signal::TERM);
        let deadline = tokio::time::Instant::now() + GRACE;
        while is_it() && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        if is_it() {
            send(pid, Signal::KILL);
        }
    }
    let _ = std::fs::remove_file(pid_file);
}

/// Pids are reused: the command line identifies the process.
fn is_running(pid: u32, command: &[String]) -> bool {
    let Ok(line) = std::fs::read(format!("/proc/{pid}/cmdline")) else { return false };
    let words: Vec<&[u8]> = line.split(|byte| *byte == 0).filter(|word| !word.is_empty()).collect();
    !words.is_empty() && words.iter().copied().eq(command.iter().map(String::as_bytes))
}

/// Returns the proportional set size of a process.
pub fn memory_bytes(pid: u32) -> Option<u64> {
    let read = |file: &str, field: &str| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(field))?;
        line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
    };
    read("smaps_rollup", "Pss:").or_else(|| read("status", "VmRSS:"))
}
