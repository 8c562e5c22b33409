//! Every fuzz target on some thousand seeded inputs made from its corpus: fast, repeatable, and without libFuzzer. None of them may take
//! longer than its length allows.
//!
//! `FUZZ_ONLY=quantity,jsonpath FUZZ_SEED=1 FUZZ_ROUNDS=10000000 cargo test --release -p fuzz` runs more of some targets.

use std::io::Write;
use std::panic::catch_unwind;
use std::path::Path;
use std::time::{Duration, Instant};

use fuzz::{TARGETS, Target};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// A debug build needs up to 3 MiB for an expression of the allowed depth, an optimised one less than half a MiB. Threads of the server
/// have 2 MiB.
const STACK_BYTES: usize = 8 << 20;
/// Inputs per target; small enough for every test run.
const ROUNDS: u64 = 2000;
/// One of so many inputs repeats a part of itself until it is long: what grows with the square of the length takes minutes then.
const STRETCHED_EVERY: u64 = 20;
const STRETCHED_BYTES: std::ops::Range<usize> = 16_384..65_536;
/// Limit of the time for one input in a debug build: of a script or a pattern with its own limits, and of each byte.
const TIME_BASE: Duration = Duration::from_secs(2);
const TIME_PER_BYTE: Duration = Duration::from_micros(50);
/// An input counts as slow when it is slow this many times.
const TIME_TRIES: usize = 3;

#[test]
fn every_input_is_read_or_rejected() {
    let only = std::env::var("FUZZ_ONLY").unwrap_or_default();
    let unknown = only.split(',').find(|name| !name.is_empty() && !TARGETS.iter().any(|target| target.name == *name));
    assert_eq!(unknown, None, "FUZZ_ONLY names no target");
    let targets: Vec<&Target> =
        TARGETS.iter().filter(|target| only.is_empty() || only.split(',').any(|name| name == target.name)).collect();
    std::thread::scope(|scope| {
        let (first, second) = targets.split_at(targets.len() / 2);
        for targets in [first, second] {
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
            let run_all = move || targets.iter().for_each(|target| run(target));
            thread.spawn_scoped(scope, run_all).expect("a thread");
        }
    });
}

#[test]
fn every_target_has_a_corpus() {
    for target in TARGETS {
        let seeds = corpus(target.name);
        assert!(seeds.len() >= 10, "fuzz/corpus/{} has {} inputs, which is too few", target.name, seeds.len());
        assert!(seeds.iter().all(|seed| seed.len() <= 65_536), "an input of {} is too long", target.name);
    }
}

#[test]
fn every_corpus_belongs_to_a_target() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for entry in std::fs::read_dir(root).expect("the corpus").map(|entry| entry.expect("a directory")) {
        let name = entry.file_name().into_string().expect("a name");
        assert!(TARGETS.iter().any(|target| target.name == name), "corpus/{name} has no target");
    }
}

fn run(target: &Target) {
    let start = Instant::now();
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("FUZZ_SEED").unwrap_or(20_261_115);
    let seeds = corpus(target.name);
    let mut slowest = Duration::ZERO;
    for seed in &seeds {
        slowest = slowest.max(check(target, seed, || "an input of the corpus".to_owned()));
    }
    let rounds = number("FUZZ_ROUNDS").unwrap_or(ROUNDS / target.cost);
    for round in 0..rounds {
        let number = seed.wrapping_add(round);
        let mut random = StdRng::seed_from_u64(number);
        let mut input = mutated(&mut random, &seeds);
        // Some targets choose a kind by the first two bytes.
        if random.random_range(0..4) == 0 && input.len() > 2 {
            input[..2].copy_from_slice(&random.random::<u16>().to_le_bytes());
        }
        if number.is_multiple_of(STRETCHED_EVERY) {
            input = stretched(&mut random, &input);
        }
        slowest = slowest.max(check(target, &input, || format!("FUZZ_SEED={number} FUZZ_ROUNDS=1")));
    }
    let (name, time) = (target.name, start.elapsed());
    let _ = writeln!(std::io::stderr(), "{name}: {rounds} inputs in {time:.1?}, the slowest in {slowest:.1?}");
}

/// Runs a target and returns how long it took.
fn check(target: &Target, input: &[u8], origin: impl Fn() -> String) -> Duration {
    let limit = TIME_BASE + TIME_PER_BYTE * u32::try_from(input.len()).unwrap_or(u32::MAX);
    let mut fastest = Duration::MAX;
    // Other programs may have slowed it down.
    for _ in 0..TIME_TRIES {
        let start = Instant::now();
        let outcome = catch_unwind(|| (target.run)(input));
        assert!(outcome.is_ok(), "{} fails on {}: {:?}", target.name, origin(), String::from_utf8_lossy(input));
        fastest = fastest.min(start.elapsed());
        if fastest <= limit {
            return fastest;
        }
    }
    let (name, length, start) = (target.name, input.len(), String::from_utf8_lossy(&input[..input.len().min(200)]));
    panic!("{name} takes {fastest:.1?} for {length} bytes, at most {limit:.1?}, on {}: {start:?}…", origin());
}

/// Repeats a part of an input.
fn stretched(random: &mut StdRng, input: &[u8]) -> Vec<u8> {
    let from = random.random_range(0..=input.len());
    let to = random.random_range(from..=input.len());
    let part = if from < to { &input[from..to] } else { b"a" };
    let length = random.random_range(STRETCHED_BYTES);
    let repeated = part.iter().copied().cycle().take(length - length % part.len());
    input[..from].iter().copied().chain(repeated).chain(input[to..].iter().copied()).collect()
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let entries = std::fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a file").path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("a seed")).collect()
}

/// Returns a seed with a few values, words or bytes changed; sometimes unchanged.
fn mutated(random: &mut StdRng, seeds: &[Vec<u8>]) -> Vec<u8> {
    let pick = |random: &mut StdRng| seeds[random.random_range(0..seeds.len())].as_slice();
    let mut bytes = pick(random).to_vec();
    for _ in 0..random.random_range(0..4) {
        let at = random.random_range(0..=bytes.len());
        match random.random_range(0..6) {
            0 if at < bytes.len() => bytes[at] = random.random(),
            1 if at < bytes.len() => bytes[at] ^= 1 << random.random_range(0..8),
            2 => bytes.truncate(at),
            3 => {
                let word = WORDS[random.random_range(0..WORDS.len())];
                bytes.splice(at..at, word.bytes());
            }
            4 => replace_value(random, &mut bytes),
            _ => {
                let other = pick(random);
                let from = random.random_range(0..=other.len());
                bytes.splice(at.., other[from..].iter().copied());
            }
        }
    }
    bytes
}

/// Replaces the value after a colon, so that the JSON stays valid and reaches the code behind the parser.
fn replace_value(random: &mut StdRng, bytes: &mut Vec<u8>) {
    let colons: Vec<usize> = bytes.iter().enumerate().filter(|(_, b)| **b == b':').map(|(at, _)| at).collect();
    if colons.is_empty() {
        return;
    }
    let start = colons[random.random_range(0..colons.len())] + 1;
    let mut values = serde_json::Deserializer::from_slice(&bytes[start..]).into_iter::<serde_json::Value>();
    if matches!(values.next(), Some(Ok(_))) {
        let end = start + values.byte_offset();
        let word = WORDS[random.random_range(0..WORDS.len())];
        bytes.splice(start..end, word.bytes());
    }
}

const WORDS: &[&str] = &[
    "null",
    "true",
    "[]",
    "{}",
    "\"\"",
    "-1",
    "0",
    "9223372036854775807",
    "-9223372036854775808",
    "1e308",
    "1.5",
    "18446744073709551616",
    "\"x\"",
    "[null]",
    "[[]]",
    "{\"\":null}",
    "\"9999-12-31T23:59:59Z\"",
    "\"25%\"",
    "\"1Gi\"",
    "\"1e-400\"",
    "\"-5\"",
    "\"\\u0000\"",
    "\"$patch\"",
    "{\"$patch\":\"delete\"}",
    "[{}]",
    "\"0.0.0.0/0\"",
    "\"::1\"",
    "((((((((",
    "[[[[[[[[",
    "in (a,b)",
    "!=",
    "\"*/5 * * * *\"",
    "\"\u{1f600}\"",
    "\"2001:db8::/129\"",
];
