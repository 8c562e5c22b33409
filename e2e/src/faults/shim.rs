//! A preloaded library that injects disk and wall clock faults into a program, and its control file.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Unsupported;

const SOURCE: &str = include_str!("shim.c");
const CONTROL_LEN: usize = 64;

/// Offsets of settings in the control file, in units of eight bytes. The order is that of `struct control` in shim.c.
#[derive(Clone, Copy)]
enum Knob {
    ClockOffset = 0,
    SyncDelay = 1,
    WriteDelay = 2,
    WriteError = 3,
    SyncError = 4,
    WritesHit = 5,
    SyncsHit = 6,
    ClocksRead = 7,
}

/// Counters of injected faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hits {
    pub writes: i64,
    pub syncs: i64,
    pub clocks: i64,
}

/// The error of a disk operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskError {
    Full,
    Broken,
    /// Writes stay in the page cache: syncs fail.
    Unconfirmed,
}

pub struct Shim {
    library: PathBuf,
    control_path: PathBuf,
    control: File,
}

impl Shim {
    /// Builds the library into the directory and creates its control file.
    pub fn build(directory: &Path, name: &str) -> Result<Self, Unsupported> {
        let library = directory.join("faults.so");
        if !library.exists() {
            compile(directory, &library)?;
        }
        let control_path = directory.join(format!("{name}.faults"));
        let io = |error: std::io::Error| Unsupported(format!("{}: {error}", control_path.display()));
        let control =
            File::options().create(true).truncate(false).read(true).write(true).open(&control_path).map_err(io)?;
        control.write_all_at(&[0; CONTROL_LEN], 0).map_err(io)?;
        Ok(Self { library, control_path, control })
    }

    /// Preloads the shim into a command. Only programs that use libc are affected: ours are, Go programs are not.
    pub fn preload(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library).env("FLOTILLA_FAULTS", &self.control_path);
    }

    pub fn slow_disk(&self, delay: Duration) {
        let micros = i64::try_from(delay.as_micros()).unwrap_or(i64::MAX);
        self.set(Knob::SyncDelay, micros);
        // A write only reaches the page cache; it is slow when it must wait for the disk.
        self.set(Knob::WriteDelay, micros / 20);
    }

    pub fn failing_disk(&self, error: DiskError) {
        const ENOSPC: i64 = 28;
        const EIO: i64 = 5;
        match error {
            DiskError::Full => self.set(Knob::WriteError, ENOSPC),
            DiskError::Unconfirmed => self.set(Knob::SyncError, EIO),
            DiskError::Broken => {
                self.set(Knob::WriteError, EIO);
                self.set(Knob::SyncError, EIO);
            }
        }
    }

    /// Shifts only the wall clock, not the monotonic clock.
    pub fn move_clock(&self, seconds: i64) {
        self.set(Knob::ClockOffset, seconds.saturating_mul(1_000_000_000));
    }

    pub fn heal_disk(&self) {
        for knob in [Knob::SyncDelay, Knob::WriteDelay, Knob::WriteError, Knob::SyncError] {
            self.set(knob, 0);
        }
    }

    pub fn heal(&self) {
        self.heal_disk();
        self.move_clock(0);
    }

    pub fn hits(&self) -> Hits {
        Hits { writes: self.get(Knob::WritesHit), syncs: self.get(Knob::SyncsHit), clocks: self.get(Knob::ClocksRead) }
    }

    fn set(&self, knob: Knob, value: i64) {
        self.control.write_all_at(&value.to_ne_bytes(), knob as u64 * 8).expect("the control file is ours");
    }

    fn get(&self, knob: Knob) -> i64 {
        let mut bytes = [0; 8];
        self.control.read_exact_at(&mut bytes, knob as u64 * 8).expect("the control file is complete");
        i64::from_ne_bytes(bytes)
    }
}

fn compile(directory: &Path, library: &Path) -> Result<(), Unsupported> {
    // Several processes may build it concurrently; each moves a complete library into place.
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let (source, built) = (directory.join(format!("faults-{nanos}.c")), directory.join(format!("faults-{nanos}.so")));
    std::fs::write(&source, SOURCE).map_err(|error| Unsupported(format!("{}: {error}", source.display())))?;
    let mut command = Command::new("cc");
    command.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&built).arg(&source);
    let output = command
        .output()
        .map_err(|error| Unsupported(format!("no C compiler for disk and clock faults: cc: {error}")))?;
    if !output.status.success() {
        return Err(Unsupported(format!("failed to build the shim: {}", String::from_utf8_lossy(&output.stderr))));
    }
    std::fs::rename(&built, library).map_err(|error| Unsupported(format!("{}: {error}", library.display())))
}
