//! Killed repeatedly during concurrent writes, the embedded engine loses nothing it acknowledged.
//!
//! The test starts itself as a child that writes, and prints each write it begins and each acknowledgement; the
//! parent kills it with SIGKILL, opens the store and compares.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "all of this is test code")]

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use store::embedded::{Embedded, EmbeddedOptions};
use store::{RangeRequest, Store};

const DIRECTORY: &str = "FLOTILLA_CRASH_TEST_DIRECTORY";
const ROUND: &str = "FLOTILLA_CRASH_TEST_ROUND";
const WRITERS: usize = 16;
const TIME: Duration = Duration::from_secs(9);

/// A value that reveals truncation.
fn value(key: &str, number: u64) -> Bytes {
    let mut text = format!("{key} {number} ");
    let length = 100 + (number as usize * 7919) % 6000;
    while text.len() < length {
        text.push((b'a' + (text.len() % 26) as u8) as char);
    }
    let sum = crc32fast::hash(text.as_bytes());
    Bytes::from(format!("{text} {sum:08x}"))
}

/// The number a value was written with.
fn number(key: &str, found: &[u8]) -> u64 {
    let text = std::str::from_utf8(found).expect("a value is text");
    let number = text.split(' ').nth(1).and_then(|number| number.parse().ok()).expect("a value has a number");
    assert!(value(key, number) == found, "half a value under {key}");
    number
}

fn options(directory: &Path) -> EmbeddedOptions {
    let mut options = EmbeddedOptions::new(directory);
    // So small that compaction and sweeping are always running.
    options.retention.events = 500;
    options
}

#[test]
#[ignore = "the child of the test below"]
fn child() {
    let (Some(directory), Ok(round)) = (std::env::var_os(DIRECTORY), std::env::var(ROUND)) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = std::sync::Arc::new(Embedded::open(&options(Path::new(&directory))).unwrap());
        let tasks: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (store, round) = (store.clone(), round.clone());
                tokio::spawn(async move { write_until_killed(&store, &round, writer).await })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

/// Each writer has its own keys: put, put again, delete occasionally.
async fn write_until_killed(store: &Embedded, round: &str, writer: usize) {
    for step in 0_u64.. {
        let key = format!("/{round}/{writer}/{}", step % 5);
        let current = store.get(&key).await.unwrap().0;
        println!("\nbegin {writer} {key} {step}");
        let revision = match current {
            Some(_) if step % 7 == 3 => store.delete(&key, None).await.unwrap().0,
            Some(current) => store.update(&key, value(&key, step), current.mod_revision, None).await.unwrap(),
            None => store.create(&key, value(&key, step), None).await.unwrap(),
        };
        let deleted = store.get(&key).await.unwrap().0.is_none();
        println!("\ndone {writer} {key} {} {revision}", if deleted { "gone".to_string() } else { step.to_string() });
    }
}

/// The parent's knowledge of a key: the last acknowledged number, and a write that was begun but not acknowledged.
#[derive(Default, Clone, Debug)]
struct Known {
    acknowledged: Option<u64>,
    begun: Option<u64>,
}

#[test]
fn repeated_sigkill_loses_no_acknowledged_write_and_leaves_no_partial_write() {
    let directory = tempfile::tempdir().unwrap();
    let start = Instant::now();
    let (mut rounds, mut acknowledged) = (0_u64, 0_u64);
    let mut known: HashMap<String, Known> = HashMap::new();
    while start.elapsed() < TIME {
        // From just after opening until well into a batch; spread but deterministic.
        let life = Duration::from_millis(30 + (rounds * 137) % 600);
        acknowledged += run_child(directory.path(), rounds, life, &mut known);
        verify(directory.path(), &mut known);
        rounds += 1;
    }
    println!("{rounds} kills, {acknowledged} acknowledged writes checked");
    assert!(rounds >= 5 && acknowledged > 1000, "{rounds} rounds with {acknowledged} writes prove little");
}

fn run_child(directory: &Path, round: u64, life: Duration, known: &mut HashMap<String, Known>) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let output = child.stdout.take().unwrap();
    let reader =
        std::thread::spawn(move || BufReader::new(output).lines().map_while(Result::ok).collect::<Vec<String>>());
    std::thread::sleep(life);
    child.kill().unwrap();
    child.wait().unwrap();
    let mut count = 0;
    for line in reader.join().unwrap() {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["begin", _, key, step] => {
                let Ok(step) = step.parse() else { continue };
                known.entry(key.to_string()).or_default().begun = Some(step);
            }
            // A line cut off by the kill is not an acknowledgement.
            ["done", _, key, outcome, revision] if revision.parse::<u64>().is_ok() => {
                *known.entry(key.to_string()).or_default() = Known { acknowledged: outcome.parse().ok(), begun: None };
                count += 1;
            }
            _ => {}
        }
    }
    count
}

fn verify(directory: &Path, known: &mut HashMap<String, Known>) {
    let store = Embedded::open(&options(directory)).expect("the store opens after a kill");
    let local = store.local().unwrap();
    let everything = local.range(RangeRequest::prefix("")).unwrap();
    let mut found: HashMap<String, u64> =
        everything.kvs.iter().map(|kv| (kv.key.to_string(), number(&kv.key, &kv.value))).collect();
    for (key, known) in known.iter_mut() {
        let now = found.remove(key);
        let as_acknowledged = now == known.acknowledged;
        // The pending write may have happened, as a put of its number or as a delete.
        let as_begun = known.begun.is_some() && (now == known.begun || now.is_none());
        assert!(as_acknowledged || as_begun, "{key}: found {now:?}, known {known:?}");
        *known = Known { acknowledged: now, begun: None };
    }
    assert!(found.is_empty(), "unexpected keys: {found:?}");
}
