//! Reads and follows the runtime's log files of containers.
//!
//! A line of the file is `TIME STREAM TAG TEXT`; the tag `P` marks a partial line that continues in the next.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use futures::SinkExt as _;
use futures::channel::mpsc;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use pod_streams::{LogOptions, LogStream};

/// Poll interval of a followed log.
const FOLLOW_EVERY: Duration = Duration::from_millis(200);
/// A log larger than this is rotated; one old log is kept, so that a container uses at most twice this size.
pub(crate) const LOG_BYTES_MAX: u64 = 10 << 20;
/// Chunks buffered for a slow reader.
const PIECES_WAITING_MAX: usize = 16;
const PIECE_BYTES: usize = 32 << 10;
/// Bytes read to find the last lines.
const END_BYTES: u64 = 64 << 10;

/// Reports whether the writer of a log has exited.
pub(crate) type IsOver = Box<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>;

/// Returns the path of the rotated log.
pub(crate) fn rotated(path: &Path) -> PathBuf {
    path.with_extension("log.1")
}

/// Returns the attempt numbers of a container that have a log, ascending.
pub(crate) fn runs(directory: &Path) -> Vec<u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let number = |name: &str| name.strip_suffix(".log")?.parse().ok();
    let mut runs: Vec<u32> = entries.filter_map(|entry| number(entry.file_name().to_str()?)).collect();
    runs.sort_unstable();
    runs
}

/// Selects the output of each line.
struct Filter {
    since: Option<Timestamp>,
    timestamps: bool,
    bytes_left: Option<u64>,
    /// The previous text was a partial line.
    is_within_line: bool,
}

impl Filter {
    fn new(options: &LogOptions, now: Timestamp) -> Self {
        let ago = options.since_seconds.and_then(|seconds| now.checked_sub(SignedDuration::from_secs(seconds)).ok());
        let since = options.since_time.as_deref().and_then(object::time::parse).or(ago);
        Self { since, timestamps: options.timestamps, bytes_left: options.limit_bytes, is_within_line: false }
    }

    /// Adds one line of the file to the output; returns false at the limit.
    fn add(&mut self, line: &[u8], out: &mut Vec<u8>) -> bool {
        let Some(record) = Record::parse(line) else { return true };
        if self.since.is_some_and(|since| record.time.is_some_and(|time| time < since)) {
            return true;
        }
        let before = out.len();
        if self.timestamps && !self.is_within_line {
            out.extend_from_slice(record.stamp);
            out.push(b' ');
        }
        out.extend_from_slice(record.text);
        self.is_within_line = record.is_partial;
        if !record.is_partial {
            out.push(b'\n');
        }
        let Some(left) = &mut self.bytes_left else { return true };
        let added = u64::try_from(out.len() - before).unwrap_or(u64::MAX);
        if added >= *left {
            out.truncate(before + usize::try_from(*left).unwrap_or(usize::MAX));
            *left = 0;
            return false;
        }
        *left -= added;
        true
    }
}

struct Record<'a> {
    stamp: &'a [u8],
    time: Option<Timestamp>,
    is_partial: bool,
    text: &'a [u8],
}

impl<'a> Record<'a> {
    fn parse(line: &'a [u8]) -> Option<Self> {
        let mut parts = line.splitn(4, |byte| *byte == b' ');
        let (stamp, _stream, tag) = (parts.next()?, parts.next()?, parts.next()?);
        let time = std::str::from_utf8(stamp).ok().and_then(object::time::parse);
        Some(Self { stamp, time, is_partial: tag.starts_with(b"P"), text: parts.next().unwrap_or_default() })
    }
}

/// Reads a log. When following, `is_over` reports whether the writer has exited.
pub(crate) fn read(path: PathBuf, options: &LogOptions, now: Timestamp, is_over: IsOver) -> LogStream {
    let (sender, receiver) = mpsc::channel(PIECES_WAITING_MAX);
    let reader = Reader { path, filter: Filter::new(options, now), sender };
    let (tail, follow) = (options.tail_lines, options.follow);
    tokio::spawn(reader.go(tail, follow, is_over));
    Box::pin(receiver)
}

struct Reader {
    path: PathBuf,
    filter: Filter,
    sender: mpsc::Sender<io::Result<Bytes>>,
}

impl Reader {
    async fn go(mut self, tail: Option<u64>, follow: bool, is_over: IsOver) {
        let result = self.run(tail, follow, is_over).await;
        if let Err(error) = result {
            let _ = self.sender.send(Err(error)).await;
        }
    }

    async fn run(&mut self, tail: Option<u64>, follow: bool, is_over: IsOver) -> io::Result<()> {
        let mut text = fs::read(rotated(&self.path)).unwrap_or_default();
        let mut file = File::open(&self.path)?;
        file.read_to_end(&mut text)?;
        let rest = last_complete(&text);
        let (complete, partial) = text.split_at(rest);
        let from = tail.map_or(0, |lines| start_of_last(complete, lines));
        if !self.send_lines(&complete[from..]).await {
            return Ok(());
        }
        if !follow {
            return Ok(());
        }
        let mut pending = partial.to_vec();
        loop {
            let ended = is_over().await;
            let (grown, is_reopened) = self.grow(&mut file)?;
            let has_grown = !grown.is_empty();
            pending.extend(grown);
            let complete: Vec<u8> = pending.drain(..last_complete(&pending)).collect();
            if !self.send_lines(&complete).await {
                return Ok(());
            }
            // Output written before the exit is read after it.
            if ended && !has_grown && !is_reopened {
                return Ok(());
            }
            if !has_grown {
                tokio::time::sleep(FOLLOW_EVERY).await;
            }
        }
    }

    /// Returns the appended bytes, and whether the file was rotated and a new one opened.
    fn grow(&self, file: &mut File) -> io::Result<(Vec<u8>, bool)> {
        let mut grown = Vec::new();
        file.read_to_end(&mut grown)?;
        let is_moved = match (fs::metadata(&self.path), file.metadata()) {
            (Ok(new), Ok(old)) => new.ino() != old.ino(),
            _ => false,
        };
        if is_moved && grown.is_empty() {
            *file = File::open(&self.path)?;
            return Ok((grown, true));
        }
        Ok((grown, false))
    }

    /// Returns false if the reader is gone or has reached its limit.
    async fn send_lines(&mut self, text: &[u8]) -> bool {
        let mut out = Vec::new();
        let mut more = true;
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            more = self.filter.add(line, &mut out);
            if !more {
                break;
            }
            if out.len() >= PIECE_BYTES && self.sender.send(Ok(std::mem::take(&mut out).into())).await.is_err() {
                return false;
            }
        }
        let is_sent = out.is_empty() || self.sender.send(Ok(out.into())).await.is_ok();
        // Also detects a reader that disconnected while there was no output.
        more && is_sent && !self.sender.is_closed()
    }
}

/// Returns the length up to the last complete line.
fn last_complete(text: &[u8]) -> usize {
    text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
}

/// Returns the start of the last lines. A line in parts counts once.
fn start_of_last(text: &[u8], lines: u64) -> usize {
    let mut starts = Vec::new();
    let (mut at, mut is_within) = (0, false);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        if !is_within {
            starts.push(at);
        }
        is_within = Record::parse(line).is_some_and(|record| record.is_partial);
        at += line.len();
    }
    let skipped = starts.len().saturating_sub(usize::try_from(lines).unwrap_or(usize::MAX));
    starts.get(skipped).copied().unwrap_or(text.len())
}

/// Returns the end of a log as text, used as a fallback termination message.
pub(crate) fn last_lines(path: &Path, lines_max: usize, bytes_max: usize) -> String {
    let Ok(mut file) = File::open(path) else { return String::new() };
    let length = file.metadata().map(|m| m.len()).unwrap_or_default();
    let skip = length.saturating_sub(END_BYTES);
    let mut text = Vec::new();
    if file.seek(SeekFrom::Start(skip)).is_err() || file.read_to_end(&mut text).is_err() {
        return String::new();
    }
    // The first line may be cut; an incomplete prefix does not parse as a line.
    if skip > 0 {
        text.drain(..text.iter().position(|byte| *byte == b'\n').map_or(text.len(), |at| at + 1));
    }
    let from = start_of_last(&text, u64::try_from(lines_max).unwrap_or(u64::MAX));
    let mut filter = Filter { since: None, timestamps: false, bytes_left: None, is_within_line: false };
    let mut out = Vec::new();
    for line in text[from..].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        filter.add(line, &mut out);
    }
    let cut = out.len().saturating_sub(bytes_max);
    String::from_utf8_lossy(&out[cut..]).into_owned()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use futures::StreamExt as _;

    use super::*;

    const LOG: &str = "2026-01-01T00:00:01Z stdout F one\n2026-01-01T00:00:02Z stderr P tw\n\
        2026-01-01T00:00:02Z stderr F o\n2026-01-01T00:00:03Z stdout F three\n";

    fn log() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().expect("a folder");
        let path = directory.path().join("0.log");
        fs::write(&path, LOG).expect("written");
        (directory, path)
    }

    async fn text(mut stream: LogStream) -> String {
        let mut text = Vec::new();
        while let Some(piece) = stream.next().await {
            text.extend(piece.expect("readable"));
        }
        String::from_utf8(text).expect("text")
    }

    async fn check(options: LogOptions, expected: &str) {
        let (_directory, path) = log();
        let now = "2026-01-01T00:00:04Z".parse().expect("a time");
        assert_eq!(
            text(read(path, &options, now, Box::new(|| Box::pin(async { true })))).await,
            expected,
            "{options:?}"
        );
    }

    #[tokio::test]
    async fn log_options_are_applied() {
        let all = LogOptions::default();
        check(all.clone(), "one\ntwo\nthree\n").await;
        check(LogOptions { tail_lines: Some(2), ..all.clone() }, "two\nthree\n").await;
        check(LogOptions { tail_lines: Some(0), ..all.clone() }, "").await;
        check(LogOptions { tail_lines: Some(9), ..all.clone() }, "one\ntwo\nthree\n").await;
        check(LogOptions { limit_bytes: Some(5), ..all.clone() }, "one\nt").await;
        check(LogOptions { since_seconds: Some(2), ..all.clone() }, "two\nthree\n").await;
        check(LogOptions { since_time: Some("2026-01-01T00:00:03Z".into()), ..all.clone() }, "three\n").await;
        let stamped = LogOptions { timestamps: true, tail_lines: Some(1), ..all };
        check(stamped, "2026-01-01T00:00:03Z three\n").await;
    }

    #[tokio::test]
    async fn a_log_is_followed_across_rotation_until_its_writer_exits() {
        let (_directory, path) = log();
        let over = Arc::new(AtomicBool::new(false));
        let options = LogOptions { follow: true, tail_lines: Some(1), ..Default::default() };
        let ended = Arc::clone(&over);
        let is_over: IsOver = Box::new(move || {
            let ended = ended.load(Ordering::SeqCst);
            Box::pin(async move { ended })
        });
        let mut stream = read(path.clone(), &options, Timestamp::UNIX_EPOCH, is_over);
        assert_eq!(stream.next().await.expect("more").expect("read"), "three\n");
        let mut file = fs::OpenOptions::new().append(true).open(&path).expect("there");
        file.write_all(b"2026-01-01T00:00:05Z stdout F four\n").expect("written");
        assert_eq!(stream.next().await.expect("more").expect("read"), "four\n");
        fs::rename(&path, rotated(&path)).expect("moved");
        fs::write(&path, "2026-01-01T00:00:06Z stdout F five\n").expect("written");
        assert_eq!(stream.next().await.expect("more").expect("read"), "five\n");
        over.store(true, Ordering::SeqCst);
        assert!(stream.next().await.is_none());
    }

    #[test]
    fn the_last_lines_have_no_prefixes() {
        let (_directory, path) = log();
        assert_eq!(last_lines(&path, 2, 100), "two\nthree\n");
        assert_eq!(last_lines(&path, 2, 3), "ee\n");
        assert_eq!(runs(path.parent().expect("a folder")), [0]);
    }
}
