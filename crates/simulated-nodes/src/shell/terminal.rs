//! Interactive sessions: reads lines from a terminal or pipe, echoes and runs them.

use std::sync::Arc;

use parking_lot::Mutex;
use pod_streams::Streams;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::shell::interpret::{Flow, Shell, ShellClock};
use crate::shell::parse::{ParseError, parse};
use crate::shell::programs::is_known;
use crate::shell::streams::{Closed, InputSource, Io, OutputSink};
use crate::shell::{Files, ShellEnvironment};

/// Maximum line length; longer ones are cut.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// The terminal side of a session: input is raw and must be echoed.
pub struct Terminal {
    input: tokio::sync::Mutex<Option<Box<dyn AsyncRead + Send + Unpin>>>,
    output: tokio::sync::Mutex<Box<dyn AsyncWrite + Send + Unpin>>,
}

impl Terminal {
    /// Lines on a terminal end with a carriage return.
    pub async fn show(&self, bytes: &[u8]) -> Result<(), Closed> {
        let mut shown = Vec::with_capacity(bytes.len() + 16);
        for byte in bytes {
            if *byte == b'\n' {
                shown.push(b'\r');
            }
            shown.push(*byte);
        }
        let mut output = self.output.lock().await;
        output.write_all(&shown).await.map_err(|_| Closed)?;
        output.flush().await.map_err(|_| Closed)
    }

    /// Reads an edited line; `None` at the end of the input.
    pub async fn read_line(&self) -> Option<String> {
        let mut guard = self.input.lock().await;
        let input = guard.as_mut()?;
        let mut line = Vec::new();
        loop {
            let mut byte = [0];
            if input.read(&mut byte).await.ok()? == 0 {
                return None;
            }
            let echo: &[u8] = match byte[0] {
                b'\r' | b'\n' => {
                    self.show(b"\n").await.ok()?;
                    return Some(String::from_utf8_lossy(&line).into_owned());
                }
                0x04 if line.is_empty() => return None,
                0x03 => {
                    self.show(b"^C\n").await.ok()?;
                    return Some(String::new());
                }
                0x7f | 0x08 => match line.pop() {
                    Some(_) => b"\x08 \x08",
                    None => b"",
                },
                byte if (byte >= 0x20 || byte == b'\t') && line.len() < LINE_BYTES_MAX => {
                    line.push(byte);
                    &[byte]
                }
                _ => b"",
            };
            self.show(echo).await.ok()?;
        }
    }
}

/// The result of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    Exit(i32),
    /// There is no such program.
    NotFound(String),
}

/// Runs a command for a client, with the client's streams.
pub async fn run_session(
    environment: Arc<ShellEnvironment>,
    files: Arc<Mutex<Files>>,
    command: &[String],
    tty: bool,
    streams: Streams,
) -> Ended {
    let name = command.first().map_or("", String::as_str);
    if !is_known(name) {
        return Ended::NotFound(name.to_owned());
    }
    let Streams { stdin, stdout, stderr, .. } = streams;
    let client = |stream: Option<Box<dyn AsyncWrite + Send + Unpin>>| match stream {
        Some(stream) => OutputSink::Client(Arc::new(tokio::sync::Mutex::new(stream))),
        None => OutputSink::Null,
    };
    let io = match stdout {
        Some(output) if tty => {
            let terminal =
                Arc::new(Terminal { input: tokio::sync::Mutex::new(stdin), output: tokio::sync::Mutex::new(output) });
            Io {
                stdin: InputSource::Terminal(Arc::clone(&terminal)),
                stdout: OutputSink::Terminal(Arc::clone(&terminal)),
                stderr: OutputSink::Terminal(terminal),
            }
        }
        stdout => Io {
            stdin: stdin
                .map_or(InputSource::Empty, |stream| InputSource::Client(Arc::new(tokio::sync::Mutex::new(stream)))),
            stdout: client(stdout),
            stderr: client(stderr),
        },
    };
    let mut shell = Shell::new(environment, files, ShellClock::Real);
    match shell.run_command(command, &io).await {
        Flow::Exit(code) => Ended::Exit(code),
        Flow::OutOfTime => Ended::Exit(141),
        Flow::Next | Flow::Break | Flow::Continue => Ended::Exit(shell.status),
    }
}

/// Reads and runs commands line by line until the end of the input.
pub async fn interact(shell: &mut Shell, io: &Io) -> Flow {
    if shell.is_prediction() {
        return Flow::Next;
    }
    let is_terminal = matches!(io.stdin, InputSource::Terminal(_));
    let mut pending = String::new();
    loop {
        if is_terminal {
            let prompt = if pending.is_empty() { format!("{} # ", shell.dir) } else { "> ".to_owned() };
            let flow = shell.write(&io.stdout, prompt.as_bytes()).await;
            if flow != Flow::Next {
                return flow;
            }
        }
        let Some(line) = io.stdin.read_line().await else {
            return Flow::Exit(shell.status);
        };
        pending.push_str(&line);
        pending.push('\n');
        if pending.len() < LINE_BYTES_MAX && parse(&pending) == Err(ParseError::Incomplete) {
            continue;
        }
        let script = std::mem::take(&mut pending);
        match shell.run_script(&script, io).await {
            Flow::Next | Flow::Break | Flow::Continue => {}
            // A syntax error does not end the session.
            Flow::Exit(2) if parse(&script).is_err() => shell.status = 2,
            flow => return flow,
        }
    }
}
