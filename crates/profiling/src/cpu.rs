//! Samples the stacks of all threads while they use CPU.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use pprof::{ProfilerGuard, ProfilerGuardBuilder};

use crate::format::{self, Capture, Line, Mapping, Stack};

/// Samples per second of CPU time, as in Go's profiles.
const FREQUENCY: i32 = 100;

/// Libraries from which the stack cannot be unwound safely in a signal handler.
const NOT_UNWOUND: [&str; 4] = ["libc", "libgcc", "pthread", "vdso"];

/// The function of the crate `pprof` that takes samples. Frames above it are not of the program.
const HANDLER: &str = "perf_signal_handler";

#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    #[error("another CPU profile of this process is being recorded; try again when it has ended")]
    Running,
    #[error("cannot start the CPU profile")]
    Start(#[source] pprof::Error),
    #[error("cannot read the samples of the CPU profile")]
    Samples(#[source] pprof::Error),
    #[error("cannot compress the CPU profile")]
    Compress(#[source] std::io::Error),
    #[error("the thread that writes the CPU profile failed")]
    Thread(#[source] tokio::task::JoinError),
}

/// Records for `duration` and returns a compressed profile. Dropping the future ends the recording.
pub async fn record(duration: Duration) -> Result<Vec<u8>, ProfileError> {
    // Starting and writing read the program file to look up names, which takes a while.
    let guard = tokio::task::spawn_blocking(start).await.map_err(ProfileError::Thread)??;
    let began = Timestamp::now();
    tokio::time::sleep(duration).await;
    tokio::task::spawn_blocking(move || write(&guard, began, duration)).await.map_err(ProfileError::Thread)?
}

fn start() -> Result<ProfilerGuard<'static>, ProfileError> {
    let builder = ProfilerGuardBuilder::default().frequency(FREQUENCY).blocklist(&NOT_UNWOUND);
    builder.build().map_err(|error| match error {
        pprof::Error::Running => ProfileError::Running,
        error => ProfileError::Start(error),
    })
}

fn write(guard: &ProfilerGuard<'_>, start: Timestamp, duration: Duration) -> Result<Vec<u8>, ProfileError> {
    let report = guard.report().build_unresolved().map_err(ProfileError::Samples)?;
    let mappings = std::fs::read_to_string("/proc/self/maps").map(|text| Mapping::parse(&text)).unwrap_or_default();
    let mut names = HashMap::new();
    let mut stacks = Vec::new();
    for (sample, count) in &report.data {
        let mut addresses = Vec::new();
        for (index, frame) in sample.frames.iter().enumerate() {
            // Other frames than the first have the address after the call.
            let address = (frame.ip() as u64).saturating_sub(u64::from(index > 0));
            names.entry(address).or_insert_with(|| lines(|found| backtrace::resolve_frame(frame, found)));
            addresses.push(address);
        }
        let own = frames_of_the_handler(&addresses, &names, &mappings);
        let name = &sample.thread_name[..sample.thread_name_length.min(sample.thread_name.len())];
        stacks.push(Stack {
            addresses: addresses.split_off(own),
            thread: String::from_utf8_lossy(name).into_owned(),
            samples: i64::try_from(*count).unwrap_or_default(),
        });
    }
    let period = Duration::from_secs(1) / FREQUENCY.unsigned_abs();
    let profile = format::encode(&Capture { start, duration, period, stacks, names, mappings });
    format::compress(&profile).map_err(ProfileError::Compress)
}

/// Collects the names at an address, innermost inlined function first.
fn lines(resolve: impl FnOnce(&mut dyn FnMut(&backtrace::Symbol))) -> Vec<Line> {
    let mut lines = Vec::new();
    resolve(&mut |symbol| {
        let Some(name) = symbol.name() else { return };
        lines.push(Line {
            // Without the hash that the compiler adds.
            function: format!("{name:#}"),
            file: symbol.filename().map(|file| file.display().to_string()).unwrap_or_default(),
            number: symbol.lineno().unwrap_or_default(),
        });
    });
    lines
}

/// The number of frames of the signal handler and of the function that the kernel returns to from it.
fn frames_of_the_handler(addresses: &[u64], names: &HashMap<u64, Vec<Line>>, mappings: &[Mapping]) -> usize {
    let is_handler = |address: &u64| {
        let lines = names.get(address).map(Vec::as_slice).unwrap_or_default();
        lines.iter().any(|line| line.function == HANDLER)
    };
    if let Some(index) = addresses.iter().position(is_handler) {
        return (index + 2).min(addresses.len());
    }
    // A program without symbols: the function to return to is the first one outside of the program.
    let mapping = |address: &u64| mappings.iter().find(|mapping| mapping.contains(*address)).map(|found| &found.file);
    let Some(program) = addresses.first().and_then(mapping) else { return 0 };
    addresses.iter().position(|address| mapping(address) != Some(program)).map_or(0, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_the_handler_are_found_by_name_or_by_the_first_foreign_mapping() {
        let mapping = |file: &str, start| Mapping { start, end: start + 0x1000, offset: 0, file: file.to_owned() };
        let mappings = vec![mapping("/bin/flotilla", 0x1000), mapping("/lib/libc.so.6", 0x8000)];
        let line = |function: &str| vec![Line { function: function.to_owned(), file: String::new(), number: 0 }];
        let named = HashMap::from([(0x1001, line("trace")), (0x1002, line(HANDLER)), (0x1003, line("work"))]);
        let check = |addresses: &[u64], names: &HashMap<u64, Vec<Line>>, expected: usize| {
            assert_eq!(frames_of_the_handler(addresses, names, &mappings), expected, "{addresses:x?}");
        };
        check(&[0x1001, 0x1002, 0x8001, 0x1003], &named, 3);
        check(&[0x1001, 0x1002], &named, 2);
        check(&[0x1001, 0x1002, 0x8001, 0x1003], &HashMap::new(), 3);
        check(&[0x1001, 0x1003], &HashMap::new(), 0);
        check(&[0x9999_0000], &HashMap::new(), 0);
        check(&[], &HashMap::new(), 0);
    }
}
