//! Inputs and outputs of a command: the client, a file, a pipe, or the record of a prediction.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::shell::files::Files;
use crate::shell::terminal::Terminal;

/// Capacity of a pipe between two commands, which run one after the other.
pub const PIPE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Maximum recorded output of a prediction.
const PREDICTED_BYTES_MAX: usize = 4 * 1024 * 1024;
const READ_BYTES: usize = 32 * 1024;

/// Output with its time since the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedOutput {
    pub after: Duration,
    pub bytes: Bytes,
}

/// The output of a command.
#[derive(Clone)]
pub enum OutputSink {
    Null,
    Pipe(Arc<Mutex<Vec<u8>>>),
    Client(Arc<tokio::sync::Mutex<Box<dyn AsyncWrite + Send + Unpin>>>),
    Terminal(Arc<Terminal>),
    File { files: Arc<Mutex<Files>>, path: String },
    Timed(Arc<Mutex<Vec<TimedOutput>>>),
}

/// The reader is gone.
#[derive(Debug)]
pub struct Closed;

impl OutputSink {
    pub async fn write(&self, bytes: &[u8], after: Duration) -> Result<(), Closed> {
        match self {
            Self::Null => Ok(()),
            Self::Pipe(pipe) => {
                let mut pipe = pipe.lock();
                if pipe.len() + bytes.len() > PIPE_BYTES_MAX {
                    return Err(Closed);
                }
                pipe.extend_from_slice(bytes);
                Ok(())
            }
            Self::Client(client) => {
                let mut client = client.lock().await;
                client.write_all(bytes).await.map_err(|_| Closed)?;
                client.flush().await.map_err(|_| Closed)
            }
            Self::Terminal(terminal) => terminal.show(bytes).await,
            Self::File { files, path } => files.lock().append(path, bytes).map_err(|_| Closed),
            Self::Timed(record) => {
                let mut record = record.lock();
                let kept: usize = record.iter().map(|output| output.bytes.len()).sum();
                if kept + bytes.len() > PREDICTED_BYTES_MAX {
                    // The oldest output is dropped, as by log rotation.
                    let half = record.len() / 2;
                    record.drain(..half);
                }
                record.push(TimedOutput { after, bytes: Bytes::copy_from_slice(bytes) });
                Ok(())
            }
        }
    }
}

/// The input of a command.
#[derive(Clone)]
pub enum InputSource {
    Empty,
    Bytes(Arc<Mutex<Bytes>>),
    Client(Arc<tokio::sync::Mutex<Box<dyn AsyncRead + Send + Unpin>>>),
    Terminal(Arc<Terminal>),
}

impl InputSource {
    pub fn of(bytes: impl Into<Bytes>) -> Self {
        Self::Bytes(Arc::new(Mutex::new(bytes.into())))
    }

    /// Returns the next chunk; `None` at the end.
    pub async fn read(&self) -> Option<Bytes> {
        match self {
            Self::Empty => None,
            Self::Bytes(bytes) => Some(std::mem::take(&mut *bytes.lock())).filter(|bytes| !bytes.is_empty()),
            Self::Client(client) => {
                let mut buffer = vec![0; READ_BYTES];
                let count = client.lock().await.read(&mut buffer).await.ok().filter(|count| *count > 0)?;
                buffer.truncate(count);
                Some(buffer.into())
            }
            Self::Terminal(terminal) => terminal.read_line().await.map(|line| Bytes::from(line + "\n")),
        }
    }

    /// Reads everything, up to the capacity of a pipe.
    pub async fn read_all(&self) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(piece) = self.read().await {
            if all.len() + piece.len() > PIPE_BYTES_MAX {
                break;
            }
            all.extend_from_slice(&piece);
        }
        all
    }

    /// Reads one line without its end; the rest stays for the next reader. `None` at the end.
    pub async fn read_line(&self) -> Option<String> {
        match self {
            Self::Empty => None,
            Self::Terminal(terminal) => terminal.read_line().await,
            Self::Bytes(bytes) => {
                let mut bytes = bytes.lock();
                if bytes.is_empty() {
                    return None;
                }
                let end = bytes.iter().position(|byte| *byte == b'\n');
                let length = end.unwrap_or(bytes.len());
                let line = bytes.split_to(length);
                if end.is_some() {
                    let _ = bytes.split_to(1);
                }
                Some(String::from_utf8_lossy(&line).into_owned())
            }
            Self::Client(client) => {
                let mut client = client.lock().await;
                let mut line = Vec::new();
                loop {
                    let mut byte = [0];
                    match client.read(&mut byte).await {
                        Ok(1) if byte[0] == b'\n' => break,
                        Ok(1) if line.len() < PIPE_BYTES_MAX => line.push(byte[0]),
                        _ if line.is_empty() => return None,
                        _ => break,
                    }
                }
                Some(String::from_utf8_lossy(&line).into_owned())
            }
        }
    }
}

/// The streams of one command.
#[derive(Clone)]
pub struct Io {
    pub stdin: InputSource,
    pub stdout: OutputSink,
    pub stderr: OutputSink,
}
