//! Runs commands in containers through containerd's task service.
//!
//! The WebSocket form of the CRI streaming server has no way to signal the end of the caller's input, so `exec -i
//! cat` would never finish. The task service has one, and also provides exit codes and terminal sizes.

use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pod_streams::{Exec, ExitStatus, Streams};
use rustix::fs::{CWD, Mode, mkfifoat};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::unix::pipe;
use tonic::metadata::MetadataValue;
use tonic::{Request, Status};

use crate::cri::messages::Empty;
use crate::cri::{CALL_TIMEOUT, Runtime, RuntimeError, unary};

/// The containerd namespace of CRI containers.
const NAMESPACE: &str = "k8s.io";
const PROCESS_TYPE: &str = "types.containerd.io/opencontainers/runtime-spec/1/Process";
/// A command may run for any time.
const EXEC_TIMEOUT: Duration = Duration::from_secs(30 * 24 * 3600);
/// Background children of a command may hold its output open; it is drained for this long only.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
const COPY_BYTES: usize = 32 << 10;
const SIGKILL: u32 = 9;

#[derive(Clone, PartialEq, prost::Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct GetContainerRequest {
    #[prost(string, tag = "1")]
    id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct GetContainerResponse {
    #[prost(message, optional, tag = "1")]
    container: Option<StoredContainer>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct StoredContainer {
    #[prost(message, optional, tag = "5")]
    spec: Option<Any>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ExecProcessRequest {
    #[prost(string, tag = "1")]
    container_id: String,
    #[prost(string, tag = "2")]
    stdin: String,
    #[prost(string, tag = "3")]
    stdout: String,
    #[prost(string, tag = "4")]
    stderr: String,
    #[prost(bool, tag = "5")]
    terminal: bool,
    #[prost(message, optional, tag = "6")]
    spec: Option<Any>,
    #[prost(string, tag = "7")]
    exec_id: String,
}

/// Identifies a process for start, wait and delete.
#[derive(Clone, PartialEq, prost::Message)]
struct ProcessRequest {
    #[prost(string, tag = "1")]
    container_id: String,
    #[prost(string, tag = "2")]
    exec_id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct KillRequest {
    #[prost(string, tag = "1")]
    container_id: String,
    #[prost(string, tag = "2")]
    exec_id: String,
    #[prost(uint32, tag = "3")]
    signal: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ResizeRequest {
    #[prost(string, tag = "1")]
    container_id: String,
    #[prost(string, tag = "2")]
    exec_id: String,
    #[prost(uint32, tag = "3")]
    width: u32,
    #[prost(uint32, tag = "4")]
    height: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct CloseRequest {
    #[prost(string, tag = "1")]
    container_id: String,
    #[prost(string, tag = "2")]
    exec_id: String,
    #[prost(bool, tag = "3")]
    stdin: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct WaitResponse {
    #[prost(uint32, tag = "1")]
    exit_status: u32,
}

/// A command that runs or is about to. Removes its pipes when dropped.
struct Process {
    runtime: Runtime,
    container_id: String,
    exec_id: String,
    folder: PathBuf,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
        // The caller may disconnect while the command runs: kill it and delete its record.
        let (runtime, request) = (self.runtime.clone(), self.request());
        if let Ok(handle) = tokio::runtime::Handle::try_current() {
            handle.spawn(async move {
                let kill = KillRequest {
                    container_id: request.container_id.clone(),
                    exec_id: request.exec_id.clone(),
                    signal: SIGKILL,
                };
                let path = "/containerd.services.tasks.v1.Tasks/Kill";
                let _: Result<Empty, _> = runtime.task_call(path, kill, CALL_TIMEOUT).await;
                let path = "/containerd.services.tasks.v1.Tasks/DeleteProcess";
                let _: Result<Empty, _> = runtime.task_call(path, request, CALL_TIMEOUT).await;
            });
        }
    }
}

/// Our ends of a command's pipes. While `held` is open, a reader does not see EOF before the first writer.
struct Pipes {
    stdin: Option<pipe::Sender>,
    stdout: pipe::Receiver,
    stderr: Option<pipe::Receiver>,
    held: Vec<OwnedFd>,
}

impl Runtime {
    async fn task_call<M, R>(&self, path: &'static str, message: M, timeout: Duration) -> Result<R, RuntimeError>
    where
        M: prost::Message + 'static,
        R: prost::Message + Default + 'static,
    {
        let mut request = Request::new(message);
        request.metadata_mut().insert("containerd-namespace", MetadataValue::from_static(NAMESPACE));
        unary(self.channel.clone(), path, request, timeout).await
    }

    /// Runs a command in a container with its streams until it exits. `exec_id` must be unique.
    pub async fn exec(
        &self,
        container_id: &str,
        exec_id: String,
        exec: Exec,
        streams: Streams,
        folder: &Path,
    ) -> Result<ExitStatus, RuntimeError> {
        let spec = self.process_spec(container_id, &exec).await?;
        let folder = folder.join(&exec_id);
        let process = Process { runtime: self.clone(), container_id: container_id.to_owned(), exec_id, folder };
        let io = |e: std::io::Error| internal(format!("failed to create the pipes of a command: {e}"));
        let pipes = Pipes::make(&process.folder, exec.tty, streams.stdin.is_some()).map_err(io)?;
        if let Err(error) = process.start(spec, exec.tty, streams.stdin.is_some()).await {
            // A command that cannot be run is a result, not an error of the call.
            return match error {
                RuntimeError::Answered(status) => Ok(ExitStatus::Failed(status.message().to_owned())),
                error => Err(error),
            };
        }
        process.run(pipes, streams, exec.tty).await
    }

    /// Returns the container's process spec with another command: the same user, environment and capabilities.
    async fn process_spec(&self, container_id: &str, exec: &Exec) -> Result<Any, RuntimeError> {
        let request = GetContainerRequest { id: container_id.to_owned() };
        let path = "/containerd.services.containers.v1.Containers/Get";
        let response: GetContainerResponse = self.task_call(path, request, CALL_TIMEOUT).await?;
        let spec =
            response.container.and_then(|c| c.spec).ok_or_else(|| internal("the container has no spec".into()))?;
        let spec: serde_json::Value =
            serde_json::from_slice(&spec.value).map_err(|e| internal(format!("invalid container spec: {e}")))?;
        let mut process = spec.get("process").cloned().unwrap_or_default();
        process["args"] = exec.command.clone().into();
        process["terminal"] = exec.tty.into();
        if let Some(map) = process.as_object_mut() {
            map.remove("consoleSize");
        }
        Ok(Any { type_url: PROCESS_TYPE.to_owned(), value: process.to_string().into_bytes() })
    }
}

fn internal(message: String) -> RuntimeError {
    RuntimeError::Answered(Box::new(Status::internal(message)))
}

impl Pipes {
    fn make(folder: &Path, tty: bool, has_stdin: bool) -> std::io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let make = |name: &str| -> std::io::Result<PathBuf> {
            let path = folder.join(name);
            mkfifoat(CWD, &path, Mode::from_raw_mode(0o600))?;
            Ok(path)
        };
        let mut held = Vec::new();
        let mut reader = |name: &str| -> std::io::Result<pipe::Receiver> {
            let path = make(name)?;
            let receiver = pipe::OpenOptions::new().open_receiver(&path)?;
            let writer = pipe::OpenOptions::new().open_sender(&path)?;
            held.push(writer.into_nonblocking_fd()?);
            Ok(receiver)
        };
        let stdout = reader("stdout")?;
        let stderr = if tty { None } else { Some(reader("stderr")?) };
        // Opened read-write, so that it can be opened before the other side. This hides EOF, so a call signals the
        // end.
        let stdin = has_stdin.then(|| pipe::OpenOptions::new().read_write(true).open_sender(make("stdin")?));
        Ok(Self { stdin: stdin.transpose()?, stdout, stderr, held })
    }
}

impl Process {
    fn request(&self) -> ProcessRequest {
        ProcessRequest { container_id: self.container_id.clone(), exec_id: self.exec_id.clone() }
    }

    async fn start(&self, spec: Any, tty: bool, has_stdin: bool) -> Result<(), RuntimeError> {
        let path_of = |name: &str| self.folder.join(name).display().to_string();
        let request = ExecProcessRequest {
            container_id: self.container_id.clone(),
            stdin: if has_stdin { path_of("stdin") } else { String::new() },
            stdout: path_of("stdout"),
            stderr: if tty { String::new() } else { path_of("stderr") },
            terminal: tty,
            spec: Some(spec),
            exec_id: self.exec_id.clone(),
        };
        let _: Empty =
            self.runtime.task_call("/containerd.services.tasks.v1.Tasks/Exec", request, CALL_TIMEOUT).await?;
        let path = "/containerd.services.tasks.v1.Tasks/Start";
        let _: Empty = self.runtime.task_call(path, self.request(), CALL_TIMEOUT).await?;
        Ok(())
    }

    async fn run(&self, pipes: Pipes, streams: Streams, tty: bool) -> Result<ExitStatus, RuntimeError> {
        let Pipes { stdin, stdout, stderr, held } = pipes;
        // The other side has opened its ends by now.
        drop(held);
        let Streams { stdin: caller_in, stdout: caller_out, stderr: caller_err, mut resize } = streams;
        let input = async {
            if let (Some(pipe), Some(caller)) = (stdin, caller_in) {
                self.feed(caller, pipe).await;
            }
            std::future::pending::<Infallible>().await
        };
        let sizes = async {
            while let Some(size) = resize.recv().await {
                if tty {
                    self.resize(size.width, size.height).await;
                }
            }
            std::future::pending::<Infallible>().await
        };
        let output = async {
            futures::join!(carry(stdout, caller_out), async {
                if let Some(stderr) = stderr {
                    carry(stderr, caller_err).await;
                }
            });
        };
        tokio::pin!(output);
        let path = "/containerd.services.tasks.v1.Tasks/Wait";
        let wait = self.runtime.task_call::<_, WaitResponse>(path, self.request(), EXEC_TIMEOUT);
        let watched = async {
            tokio::pin!(wait);
            let mut said_all = false;
            loop {
                tokio::select! {
                    ended = &mut wait => break (ended, said_all),
                    () = &mut output, if !said_all => said_all = true,
                }
            }
        };
        let (ended, said_all) = tokio::select! {
            watched = watched => watched,
            never = input => match never {},
            never = sizes => match never {},
        };
        if !said_all {
            let _ = tokio::time::timeout(DRAIN_TIMEOUT, &mut output).await;
        }
        Ok(match ended?.exit_status {
            0 => ExitStatus::Success,
            code => ExitStatus::Code(i32::try_from(code).unwrap_or(i32::MAX)),
        })
    }

    /// Copies the caller's input to the command and closes its stdin at the end.
    async fn feed(&self, mut caller: Box<dyn AsyncRead + Send + Unpin>, mut pipe: pipe::Sender) {
        let copied = tokio::io::copy(&mut caller, &mut pipe).await;
        if copied.is_err() {
            return;
        }
        drop(pipe);
        let request =
            CloseRequest { container_id: self.container_id.clone(), exec_id: self.exec_id.clone(), stdin: true };
        let path = "/containerd.services.tasks.v1.Tasks/CloseIO";
        if let Err(error) = self.runtime.task_call::<_, Empty>(path, request, CALL_TIMEOUT).await {
            tracing::debug!(%error, "failed to close the stdin of a command");
        }
    }

    async fn resize(&self, width: u16, height: u16) {
        let request = ResizeRequest {
            container_id: self.container_id.clone(),
            exec_id: self.exec_id.clone(),
            width: width.into(),
            height: height.into(),
        };
        let path = "/containerd.services.tasks.v1.Tasks/ResizePty";
        let _: Result<Empty, _> = self.runtime.task_call(path, request, CALL_TIMEOUT).await;
    }
}

/// Reads to the end even without a caller: a full pipe would block the command.
async fn carry(mut from: pipe::Receiver, mut to: Option<Box<dyn AsyncWrite + Send + Unpin>>) {
    let mut buffer = vec![0; COPY_BYTES];
    while let Ok(read) = from.read(&mut buffer).await {
        if read == 0 {
            break;
        }
        if let Some(writer) = &mut to {
            let written = async {
                writer.write_all(&buffer[..read]).await?;
                writer.flush().await
            };
            if written.await.is_err() {
                to = None;
            }
        }
    }
    if let Some(mut writer) = to {
        let _ = writer.shutdown().await;
    }
}
