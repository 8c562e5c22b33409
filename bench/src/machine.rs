//! A description of the machine, for the report.

use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
pub struct Machine {
    pub processor: String,
    pub cores: usize,
    pub memory_gib: u64,
    pub kernel: String,
    /// The file system of the data directories.
    pub file_system: String,
    /// The load average before the run, over one minute.
    pub load_before: f64,
    pub time: String,
}

pub fn describe(data: &Path) -> Machine {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let processor =
        cpuinfo.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split(": ").nth(1));
    let meminfo = read("/proc/meminfo");
    let total = meminfo.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0);
    Machine {
        processor: processor.unwrap_or("unknown").to_owned(),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        memory_gib: total / (1024 * 1024),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        file_system: file_system(data),
        load_before: read("/proc/loadavg").split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0.0),
        time: jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string(),
    }
}

fn file_system(data: &Path) -> String {
    let output = Command::new("stat").args(["--file-system", "--format=%T"]).arg(data).output();
    output.map_or("unknown".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The first line of a program's version output, or the version itself if that is a Go structure.
pub fn version(program: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let line = text.lines().next().unwrap_or("unknown");
    match line.split_once("GitVersion:\"").and_then(|(_, rest)| rest.split_once('"')) {
        Some((version, _)) => version.to_owned(),
        None => line.to_owned(),
    }
}

/// Memory available for new programs.
pub fn available_mib() -> f64 {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib: Option<f64> = line.and_then(|rest| rest.split_whitespace().next()).and_then(|kib| kib.parse().ok());
    kib.unwrap_or(0.0) / 1024.0
}
