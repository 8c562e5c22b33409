//! The streams and the terminal of an interactive command; raw mode and size with the `stty` of the system.

use std::io::{self, IsTerminal, Read, Write};
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::task::{Context, Poll};
use std::time::Duration;

use pod_streams::TerminalSize;
use tokio::io::{AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;

/// Bytes read from the standard input at once.
const CHUNK_BYTES: usize = 8 * 1024;

/// Interval for checking the size of the terminal.
const SIZE_INTERVAL: Duration = Duration::from_millis(500);

/// A standard stream whose writes do not wait long: a terminal, a file or a pipe that is read.
pub struct StandardStream<W>(pub W);

impl<W: Write + Unpin> AsyncWrite for StandardStream<W> {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(self.0.write(bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.flush())
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.flush())
    }
}

/// Reads the standard input in a thread of its own, which does not keep the process from ending.
pub fn stdin() -> DuplexStream {
    let (mut writer, reader) = tokio::io::duplex(CHUNK_BYTES);
    let runtime = tokio::runtime::Handle::current();
    std::thread::spawn(move || {
        let mut buffer = [0; CHUNK_BYTES];
        while let Ok(count) = io::stdin().read(&mut buffer) {
            if count == 0 || runtime.block_on(writer.write_all(&buffer[..count])).is_err() {
                break;
            }
        }
    });
    reader
}

/// Restores the terminal when dropped.
pub struct RawMode {
    saved: String,
}

impl RawMode {
    /// Passes every key to the command. `None` if the standard input is no terminal.
    pub fn enter() -> Option<Self> {
        if !std::io::stdin().is_terminal() {
            return None;
        }
        let saved = stty(&["-g"])?.trim().to_owned();
        stty(&["raw", "-echo"])?;
        Some(Self { saved })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        let _ = stty(&[&self.saved]);
    }
}

/// Sends the size of the terminal now and when it changes.
pub async fn watch_size(sizes: mpsc::Sender<TerminalSize>) {
    let mut last = None;
    loop {
        let size = tokio::task::spawn_blocking(size).await.ok().flatten();
        if let Some(size) = size.filter(|size| Some(*size) != last) {
            last = Some(size);
            if sizes.send(size).await.is_err() {
                return;
            }
        }
        tokio::time::sleep(SIZE_INTERVAL).await;
    }
}

fn size() -> Option<TerminalSize> {
    parse_size(&stty(&["size"])?)
}

/// Reads `ROWS COLUMNS`.
fn parse_size(text: &str) -> Option<TerminalSize> {
    let (rows, columns) = text.trim().split_once(' ')?;
    Some(TerminalSize { width: columns.parse().ok()?, height: rows.parse().ok()? })
}

fn stty(arguments: &[&str]) -> Option<String> {
    let output = Command::new("stty").args(arguments).stdin(Stdio::inherit()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_rows_and_columns() {
        assert_eq!(parse_size("24 80\n"), Some(TerminalSize { width: 80, height: 24 }));
        assert_eq!(parse_size(""), None);
    }
}
