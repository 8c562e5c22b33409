//! The supervisor process of a testbed: runs the machines, owns the forwarded ports, and outlives the terminal.

pub mod client;
pub mod protocol;
mod socket;
mod tether;

use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use provisioners::process::Processes;
use provisioners::{Error, Provisioner};
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::expose::Exposures;
use crate::place::TestbedDir;
use crate::snapshot;
use crate::supervisor::protocol::{Answer, Request};

pub use tether::tether;

/// An exclusive lock on a file, released on drop.
pub struct FileLock {
    _file: File,
}

impl FileLock {
    /// Returns `None` if another process holds the lock.
    pub fn try_hold(path: &Path) -> anyhow::Result<Option<Self>> {
        let file = Self::open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("cannot lock {}", path.display())),
        }
    }

    fn open(path: &Path) -> anyhow::Result<File> {
        let opened = File::options().create(true).truncate(false).write(true).open(path);
        opened.with_context(|| format!("cannot open {}", path.display()))
    }
}

/// The state of a running supervisor.
struct SupervisorProcess {
    place: TestbedDir,
    processes: Processes,
    exposures: Exposures,
    /// Cancelled by a shutdown request.
    end: CancellationToken,
}

/// Runs until it is terminated. A second supervisor of the same testbed fails at once.
pub async fn run(place: TestbedDir) -> anyhow::Result<()> {
    // A new session is not affected by the terminal's hangup. This fails, harmlessly, for a process group leader.
    let _ = rustix::process::setsid();
    let Some(_held) = FileLock::try_hold(&place.lock_file())? else {
        bail!("another supervisor is running for this testbed");
    };
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for signals")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for signals")?;
    let mut hang_up = signal(SignalKind::hangup()).context("cannot listen for signals")?;
    let listener =
        socket::listen(&place.socket()).with_context(|| format!("cannot listen on {}", place.socket().display()))?;
    let supervisor = Arc::new(SupervisorProcess {
        processes: Processes::new(place.data(), place.logs()),
        exposures: Exposures::load(&place).await,
        end: CancellationToken::new(),
        place,
    });
    let serving = tokio::spawn(serve(listener, Arc::clone(&supervisor)));
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hang_up.recv() => {}
            () = supervisor.end.cancelled() => break,
        }
    }
    supervisor.exposures.close().await;
    supervisor.processes.stop_all().await;
    serving.abort();
    let _ = std::fs::remove_file(supervisor.place.socket());
    Ok(())
}

async fn serve(listener: UnixListener, supervisor: Arc<SupervisorProcess>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(converse(stream, Arc::clone(&supervisor)));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
    }
}

async fn converse(mut stream: UnixStream, supervisor: Arc<SupervisorProcess>) {
    while let Ok(Some(request)) = socket::receive::<Request>(&mut stream).await {
        let is_end = matches!(request, Request::Shutdown);
        let answer = supervisor.answer(request).await.unwrap_or_else(Answer::from);
        let sent = socket::send(&mut stream, &answer).await;
        if is_end {
            supervisor.end.cancel();
        }
        if sent.is_err() {
            return;
        }
    }
}

impl SupervisorProcess {
    async fn answer(&self, request: Request) -> Result<Answer, Error> {
        let processes = &self.processes;
        match request {
            Request::Hello => {
                let version = env!("CARGO_PKG_VERSION").to_owned();
                return Ok(Answer::Hello { pid: std::process::id(), version });
            }
            Request::Reports => return Ok(Answer::Reports { reports: processes.reports().await }),
            Request::Condition { name } => {
                return Ok(Answer::Condition { condition: processes.condition(&name).await? });
            }
            Request::Exposures => return Ok(Answer::Exposures { exposures: self.exposures.reports().await }),
            Request::Create { machine } => processes.create(&machine).await?,
            Request::Start { name } => processes.start(&name).await?,
            Request::Stop { name } => processes.stop(&name).await?,
            Request::Delete { name } => processes.delete(&name).await?,
            Request::Kill { name } => processes.kill(&name).await?,
            Request::Forward { name, forward } => processes.forward(&name, &forward).await?,
            Request::Unforward { name, forward } => processes.unforward(&name, &forward).await?,
            Request::SetWire { name, forward, wire } => processes.set_wire(&name, &forward, wire).await?,
            Request::Snapshot { name } => self.snapshot(&name).await.map_err(refused("take a snapshot"))?,
            Request::Expose { exposure } => self.exposures.add(exposure).await.map_err(refused("expose a pod"))?,
            Request::Unexpose { name } => self.exposures.remove(&name).await.map_err(refused("close a port"))?,
            Request::Shutdown => {
                // Answered after everything has stopped, so that the caller may delete the files.
                self.exposures.close().await;
                processes.stop_all().await;
            }
        }
        Ok(Answer::Done)
    }

    /// Copies the data while the processes are paused; they recover from such a copy as from a power failure.
    async fn snapshot(&self, name: &str) -> anyhow::Result<()> {
        self.processes.freeze().await;
        let (place, name) = (self.place.clone(), name.to_owned());
        let copied = tokio::task::spawn_blocking(move || snapshot::copy_out(&place, &name)).await;
        self.processes.thaw().await;
        copied.context("the copy failed")?
    }
}

fn refused(doing: &'static str) -> impl FnOnce(anyhow::Error) -> Error {
    move |error| Error::Failed { doing: doing.to_owned(), why: format!("{error:#}") }
}
