//! Durable creates by 64 concurrent writers on the embedded engine: rate and latency, then the time to reopen.
//!
//! `cargo run --release -p store --example bench_writes [creates] [writers] [bytes] [directory]`
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints and may stop")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use store::Store;
use store::embedded::{Embedded, EmbeddedOptions};

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: usize| arguments.get(at).map_or(default, |text| text.parse().unwrap());
    let (creates, writers, bytes) = (number(0, 200_000), number(1, 64), number(2, 1024));
    let parent = arguments.get(3).map_or_else(std::env::temp_dir, Into::into);
    let directory = parent.join(format!("flotilla-bench-{}", std::process::id()));

    let store = Arc::new(Embedded::open(&EmbeddedOptions::new(&directory)).unwrap());
    let next = Arc::new(AtomicUsize::new(0));
    let start = Instant::now();
    let tasks: Vec<_> = (0..writers)
        .map(|_| {
            let (store, next) = (store.clone(), next.clone());
            tokio::spawn(async move { write(&store, &next, creates, bytes).await })
        })
        .collect();
    let mut waits = Vec::with_capacity(creates);
    for task in tasks {
        waits.extend(task.await.unwrap());
    }
    let took = start.elapsed();
    waits.sort();
    let at = |part: f64| waits[((waits.len() - 1) as f64 * part) as usize];
    println!(
        "{creates} durable creates of {bytes} bytes by {writers} writers: {:.0}/s",
        creates as f64 / took.as_secs_f64()
    );
    println!("p50 {:?}  p99 {:?}  p99.9 {:?}  max {:?}", at(0.5), at(0.99), at(0.999), at(1.0));

    let start = Instant::now();
    let reads = 1_000_000;
    let local = store.local().unwrap();
    let found = (0..reads).filter(|read| local.get(&key(read % creates)).0.is_some()).count();
    assert_eq!(found, reads);
    println!("get: {:?} each", start.elapsed() / reads as u32);
    println!("size on disk: {} MiB", store.size_bytes().await.unwrap() >> 20);
    drop(Arc::into_inner(store).unwrap());
    let start = Instant::now();
    let store = Embedded::open(&EmbeddedOptions::new(&directory)).unwrap();
    println!("opened with {} keys in {:?}", store.count("").await.unwrap(), start.elapsed());
    drop(store);
    std::fs::remove_dir_all(&directory).unwrap();
}

fn key(number: usize) -> String {
    format!("/configmaps/default/object-{number:08}")
}

async fn write(store: &Embedded, next: &AtomicUsize, creates: usize, bytes: usize) -> Vec<Duration> {
    let value = Bytes::from(vec![b'x'; bytes]);
    let mut waits = Vec::new();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= creates {
            return waits;
        }
        let start = Instant::now();
        store.create(&key(number), value.clone(), None).await.unwrap();
        waits.push(start.elapsed());
    }
}
