//! Control planes in processes of their own. They survive the manager, which adopts them when it starts again.

use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use cluster_client::{ClusterClient, Endpoint, Kubeconfig};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::decide::StartedWith;
use crate::plane::{Connection, Ended, PlaneRequest, PlaneTask, RemoteAccess, StartedPlane};

const RECORD: &str = "process.json";
const KUBECONFIG: &str = "karmada-apiserver.config";
const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// A process that was started, kept in its directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProcessRecord {
    pub pid: i32,
    pub address: SocketAddr,
    #[serde(flatten)]
    pub started_with: StartedWith,
}

impl ProcessRecord {
    fn read(directory: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(directory.join(RECORD)).ok()?).ok()
    }

    /// Returns true if the process still runs and is the one of this directory: process ids are reused.
    fn is_alive(&self, directory: &Path) -> bool {
        let line = std::fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let path = directory.as_os_str().as_encoded_bytes();
        !path.is_empty() && line.split(|byte| *byte == 0).any(|argument| argument == path)
    }
}

/// Starts a process for a control plane and returns when its API is ready.
pub async fn start(
    command: &[String],
    request: &PlaneRequest,
    started_with: &StartedWith,
) -> Result<StartedPlane, String> {
    let directory = &request.directory;
    let kubeconfig = directory.join(KUBECONFIG);
    // The address in an old one may be another server's by now.
    let _ = std::fs::remove_file(&kubeconfig);
    let (program, first) = command.split_first().ok_or("no program to start")?;
    let log = std::fs::File::create(directory.join("server.log")).map_err(|error| error.to_string())?;
    let mut starting = std::process::Command::new(program);
    starting.args(first).arg("--data-dir").arg(directory).args(["--bind", &request.bind.to_string()]);
    if let Some(url) = &request.advertise {
        starting.args(["--advertise-url", url]);
    }
    starting.args(&request.flags).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    // A group of its own: Ctrl-C at the manager's terminal does not stop it.
    starting.process_group(0).env_remove("FLOTILLA_HOME");
    let mut starting = tokio::process::Command::from(starting);
    let mut child = starting.spawn().map_err(|error| format!("cannot start {program}: {error}"))?;
    let pid = child.id().ok_or("the process exited at once")? as i32;
    let record = ProcessRecord { pid, address: request.bind, started_with: started_with.clone() };
    let written = serde_json::to_vec(&record).map_err(|error| error.to_string())?;
    std::fs::write(directory.join(RECORD), written).map_err(|error| error.to_string())?;
    let deadline = Instant::now() + START_TIMEOUT;
    let admin = loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Err(format!("the process exited with {status}: {}", last_line(directory)));
        }
        if let Some(client) = ready_client(&kubeconfig).await {
            break client;
        }
        if Instant::now() > deadline {
            end(pid, directory).await;
            return Err(format!("the process was not ready within {START_TIMEOUT:?}: {}", last_line(directory)));
        }
        tokio::time::sleep(POLL).await;
    };
    let own = directory.clone();
    let task = PlaneTask::spawn(move |stop| async move {
        tokio::select! {
            () = stop.cancelled() => {
                signal(pid, Signal::TERM);
                if tokio::time::timeout(STOP_TIMEOUT, child.wait()).await.is_err() {
                    signal(pid, Signal::KILL);
                    let _ = child.wait().await;
                }
                let _ = std::fs::remove_file(own.join(RECORD));
                Ended::Stopped
            }
            status = child.wait() => Ended::Broken(match status {
                Ok(status) => format!("its process exited with {status}"),
                Err(error) => format!("its process cannot be watched: {error}"),
            }),
        }
    });
    started(&kubeconfig, admin, request.bind, task)
}

/// Takes over a process that an earlier manager started; `None` when there is none.
pub async fn adopt(directory: &Path) -> Option<(ProcessRecord, StartedPlane)> {
    let record = ProcessRecord::read(directory).filter(|record| record.is_alive(directory))?;
    let kubeconfig = directory.join(KUBECONFIG);
    let Some(admin) = ready_client(&kubeconfig).await else {
        // It runs but does not answer: a new one could not open the store next to it.
        end(record.pid, directory).await;
        return None;
    };
    let (watched, own) = (record.clone(), directory.to_owned());
    let task = PlaneTask::spawn(move |stop| async move {
        loop {
            tokio::select! {
                () = stop.cancelled() => {
                    end(watched.pid, &own).await;
                    let _ = std::fs::remove_file(own.join(RECORD));
                    return Ended::Stopped;
                }
                () = tokio::time::sleep(WATCH_INTERVAL) => {}
            }
            if !watched.is_alive(&own) {
                return Ended::Broken("its process exited".to_owned());
            }
        }
    });
    let plane = started(&kubeconfig, admin, record.address, task).ok()?;
    Some((record, plane))
}

/// Stops the process of a directory that this manager did not adopt.
pub async fn end_stray(directory: &Path) {
    if let Some(record) = ProcessRecord::read(directory).filter(|record| record.is_alive(directory)) {
        end(record.pid, directory).await;
    }
}

fn started(
    kubeconfig: &Path,
    admin: ClusterClient,
    address: SocketAddr,
    task: PlaneTask,
) -> Result<StartedPlane, String> {
    let parsed = Kubeconfig::load(&[kubeconfig.to_owned()]).map_err(|error| error.to_string())?;
    let config = parsed.remote(None).map_err(|error| error.to_string())?;
    Ok(StartedPlane {
        connection: Connection::Remote(Arc::new(RemoteAccess { config, can_impersonate: true })),
        admin,
        kubeconfig: Some(kubeconfig.to_owned()),
        address: Some(address),
        task,
    })
}

async fn ready_client(kubeconfig: &PathBuf) -> Option<ClusterClient> {
    let config = Kubeconfig::load(std::slice::from_ref(kubeconfig)).ok()?.remote(None).ok()?;
    let client = ClusterClient::connect(Endpoint::Remote(config)).ok()?;
    let request = http::Request::get("/readyz").body(bytes::Bytes::new()).ok()?;
    let answer = tokio::time::timeout(Duration::from_secs(5), client.raw(request)).await.ok()?.ok()?;
    answer.status().is_success().then_some(client)
}

fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, signal);
    }
}

/// Ends a process that is no child of this one.
async fn end(pid: i32, directory: &Path) {
    let record = ProcessRecord { pid, address: ([127, 0, 0, 1], 0).into(), started_with: StartedWith::default() };
    for (sent, wait) in [(Signal::TERM, STOP_TIMEOUT), (Signal::KILL, Duration::from_secs(5))] {
        signal(pid, sent);
        let deadline = Instant::now() + wait;
        while Instant::now() < deadline {
            if !record.is_alive(directory) {
                return;
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

fn last_line(directory: &Path) -> String {
    let text = std::fs::read_to_string(directory.join("server.log")).unwrap_or_default();
    text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no output").chars().take(500).collect()
}
