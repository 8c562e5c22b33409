//! Checks SQLite's write-ahead log before SQLite reads it, to distinguish damage from a log truncated by a crash.
//!
//! SQLite stops at the first frame with a wrong checksum and drops the rest. That is right after a crash: the frames
//! of the last transaction may be missing. It is wrong if frames of a later transaction follow, because the store
//! begins a transaction only after the previous one is on disk. The file format is described at
//! sqlite.org/walformat.html.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use crate::error::{Error, Result};

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
const MAGIC: u32 = 0x377f_0682;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LogStatus {
    /// Nothing to recover.
    Empty,
    /// All frames up to here belong to finished transactions; the rest is old or was never finished.
    Sound {
        frames: u64,
    },
    /// This frame is damaged although its transaction was on disk.
    Damaged {
        frame: u64,
    },
    DamagedHeader,
}

/// Fails with [`Error::Corrupt`] when acknowledged data in the log at `path` is damaged.
pub(crate) fn verify(path: &Path) -> Result<()> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::Io(format!("{}: {error}", path.display()))),
    };
    let verdict = inspect(BufReader::with_capacity(1 << 20, file));
    match verdict.map_err(|error| Error::Io(format!("{}: {error}", path.display())))? {
        LogStatus::Empty | LogStatus::Sound { .. } => Ok(()),
        LogStatus::Damaged { frame } => Err(Error::Corrupt(format!(
            "{}: frame {frame} of the write-ahead log does not match its checksum, and transactions after it had been written: \
             acknowledged writes would be lost. Restore a backup, or remove the file to accept the loss",
            path.display()
        ))),
        LogStatus::DamagedHeader => Err(Error::Corrupt(format!(
            "{}: the header of the write-ahead log does not match its checksum: acknowledged writes would be lost. \
             Restore a backup, or remove the file to accept the loss",
            path.display()
        ))),
    }
}

pub(crate) fn inspect(mut log: impl Read) -> std::io::Result<LogStatus> {
    let mut bytes = [0; HEADER];
    if read_full(&mut log, &mut bytes)? < HEADER {
        return Ok(LogStatus::Empty);
    }
    let Some(header) = Header::parse(&bytes) else {
        // A file that was extended but never written contains only zeros.
        return Ok(if all_zero(&bytes) && rest_is_zero(log)? { LogStatus::Empty } else { LogStatus::DamagedHeader });
    };
    let mut scan = Scan::new(&header);
    let mut frame = vec![0; FRAME_HEADER + header.page_size];
    while read_full(&mut log, &mut frame)? == frame.len() {
        if let Some(verdict) = scan.frame(&header, &frame) {
            return Ok(verdict);
        }
    }
    Ok(LogStatus::Sound { frames: scan.committed })
}

struct Header {
    big_endian: bool,
    page_size: usize,
    salt: [u8; 8],
    sum: Sum,
}

impl Header {
    fn parse(bytes: &[u8; HEADER]) -> Option<Header> {
        let magic = word(bytes, 0);
        let big_endian = magic & 1 == 1;
        let page_size = word(bytes, 8) as usize;
        let sum = Sum(0, 0).add(big_endian, &bytes[..24]);
        let valid = magic & !1 == MAGIC
            && sum == Sum::stored(&bytes[24..])
            && (512..=65536).contains(&page_size)
            && page_size.is_power_of_two();
        valid.then(|| Header { big_endian, page_size, salt: eight(&bytes[16..]), sum })
    }
}

struct Scan {
    number: u64,
    /// The checksum of the last frame: computed while the log is sound, as read afterwards.
    previous: Sum,
    /// The first frame with a wrong checksum.
    broken: Option<u64>,
    committed: u64,
    /// The previous frame claims to end a transaction of this log.
    after_commit: bool,
}

impl Scan {
    fn new(header: &Header) -> Scan {
        Scan { number: 0, previous: header.sum, broken: None, committed: 0, after_commit: false }
    }

    fn frame(&mut self, header: &Header, frame: &[u8]) -> Option<LogStatus> {
        self.number += 1;
        let stored = Sum::stored(&frame[16..]);
        let same_log = frame[8..16] == header.salt;
        let is_commit = word(frame, 4) != 0;
        // Frames of an earlier log generation differ in their salt; no need to sum them.
        let fits = same_log && {
            let head = self.previous.add(header.big_endian, &frame[..8]);
            head.add(header.big_endian, &frame[FRAME_HEADER..]) == stored
        };
        match self.broken {
            None if fits => {
                if is_commit {
                    self.committed = self.number;
                }
            }
            None => self.broken = Some(self.number),
            // It matches its predecessor, which ended a transaction: that transaction was on disk but is now
            // unreachable.
            Some(broken) if fits && self.after_commit => return Some(LogStatus::Damaged { frame: broken }),
            Some(_) => {}
        }
        self.previous = stored;
        self.after_commit = is_commit && same_log;
        None
    }
}

/// SQLite's running checksum, a variant of Fletcher's over pairs of words.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Sum(u32, u32);

impl Sum {
    fn add(self, big_endian: bool, bytes: &[u8]) -> Sum {
        let read = |word: &[u8; 4]| if big_endian { u32::from_be_bytes(*word) } else { u32::from_le_bytes(*word) };
        let Sum(mut first, mut second) = self;
        let (pairs, rest) = bytes.as_chunks::<8>();
        debug_assert!(rest.is_empty(), "headers and pages are multiples of eight bytes");
        for pair in pairs {
            let [a, b, c, d, e, f, g, h] = *pair;
            first = first.wrapping_add(read(&[a, b, c, d])).wrapping_add(second);
            second = second.wrapping_add(read(&[e, f, g, h])).wrapping_add(first);
        }
        Sum(first, second)
    }

    fn stored(bytes: &[u8]) -> Sum {
        Sum(word(bytes, 0), word(bytes, 4))
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn eight(bytes: &[u8]) -> [u8; 8] {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[..8]);
    eight
}

fn all_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

fn rest_is_zero(mut log: impl Read) -> std::io::Result<bool> {
    let mut buffer = [0; 65536];
    loop {
        match read_full(&mut log, &mut buffer)? {
            0 => return Ok(true),
            read if all_zero(&buffer[..read]) => {}
            _ => return Ok(false),
        }
    }
}

/// Reads until the buffer is full or the input ends.
fn read_full(from: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        match from.read(&mut buffer[read..]) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}
