//! Measures the server during a flood: its memory, and the response times of another client.
//!
//! Every request of the other client must be answered. Its times are only limited on request, because debug builds on
//! busy machines are slow: `FLOTILLA_FLOOD_P99_MS=100` with `FLOTILLA_BIN` of an optimised build on an idle machine.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::flotilla::Flotilla;
use crate::raw_client::RawClient;

/// A flood is observed for this long after it has been set up.
const OBSERVED_DEFAULT: Duration = Duration::from_secs(2);
const SAMPLE_EVERY: Duration = Duration::from_millis(20);
/// Fewer requests have no 99th percentile worth the name, so observation continues until there are as many.
const REQUESTS_MIN: usize = 40;
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The figures of one flood.
#[derive(Clone, Debug)]
pub struct FloodFigures {
    pub before_mib: u64,
    pub peak_mib: u64,
    pub requests: usize,
    pub p50: Duration,
    pub p99: Duration,
    pub worst: Duration,
}

impl FloodFigures {
    /// Growth of the server's resident memory.
    pub fn grown_mib(&self) -> u64 {
        self.peak_mib.saturating_sub(self.before_mib)
    }
}

/// Runs a flood while `other` reads and writes; prints the figures as a row of a table. What the flood returns, its
/// connections, is held until the observation ends.
pub fn observe<T>(server: &Flotilla, other: &RawClient, title: &str, flood: impl FnOnce() -> T) -> (T, FloodFigures) {
    let before = resident_mib(server.pid());
    let (is_over, is_set_up) = (AtomicBool::new(false), AtomicBool::new(false));
    let name = title.split_whitespace().collect::<Vec<_>>().join("-").to_lowercase();
    let name: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    std::thread::scope(|scope| {
        let memory = scope.spawn(|| {
            let mut peak = before;
            while !is_over.load(Ordering::Relaxed) {
                peak = peak.max(resident_mib(server.pid()));
                std::thread::sleep(SAMPLE_EVERY);
            }
            peak
        });
        let requests = scope.spawn(|| ask_until(other, &name, &is_set_up));
        let held = flood();
        is_set_up.store(true, Ordering::Relaxed);
        let mut took = requests.join().expect("the other client is served");
        is_over.store(true, Ordering::Relaxed);
        let peak_mib = memory.join().expect("the server runs");
        took.sort();
        let figures = FloodFigures {
            before_mib: before,
            peak_mib,
            requests: took.len(),
            p50: took[took.len() / 2],
            p99: took[took.len() * 99 / 100],
            worst: *took.last().expect("at least one request"),
        };
        report(title, &figures);
        if let Some(p99_max) = milliseconds("FLOTILLA_FLOOD_P99_MS") {
            assert!(figures.p99 < p99_max, "{title}: the other client has a p99 of {:?}", figures.p99);
        }
        (held, figures)
    })
}

/// Resident memory of a process.
pub fn resident_mib(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).expect("a line");
    line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok()).expect("a number") / 1024
}

/// Reads and writes, each over a connection of its own, until some time after the flood was set up.
fn ask_until(client: &RawClient, name: &str, is_set_up: &AtomicBool) -> Vec<Duration> {
    let observed = milliseconds("FLOTILLA_FLOOD_OBSERVED_MS").unwrap_or(OBSERVED_DEFAULT);
    let (mut took, mut set_up_at) = (Vec::new(), None);
    for number in 0.. {
        if set_up_at.is_none() && is_set_up.load(Ordering::Relaxed) {
            set_up_at = Some(Instant::now());
        }
        if took.len() >= REQUESTS_MIN && set_up_at.is_some_and(|at: Instant| at.elapsed() >= observed) {
            break;
        }
        let start = Instant::now();
        let (answer, expected) = if number % 4 == 0 {
            (client.post(CONFIGMAPS, &json!({"metadata": {"name": format!("{name}-{number}")}})), 201)
        } else {
            (client.get("/api/v1/namespaces/default"), 200)
        };
        let answer = answer.expect("the other client gets an answer");
        took.push(start.elapsed());
        assert_eq!(answer.code, expected, "{}", answer.body);
    }
    took
}

fn milliseconds(name: &str) -> Option<Duration> {
    std::env::var(name).ok()?.parse().ok().map(Duration::from_millis)
}

/// Figures go to the test's output, where a person reads them.
fn report(title: &str, figures: &FloodFigures) {
    let FloodFigures { before_mib, peak_mib, requests, p50, p99, worst } = figures;
    let milliseconds = |time: &Duration| time.as_millis();
    let [p50, p99, worst] = [p50, p99, worst].map(milliseconds);
    let row = format!("| {title} | {before_mib} | {peak_mib} | {requests} | {p50} | {p99} | {worst} |");
    let _ = writeln!(std::io::stderr(), "{row}");
}
