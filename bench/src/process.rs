//! CPU time and memory of processes from /proc.

use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// The unit of CPU time in /proc on every Linux machine.
const TICKS_PER_SECOND: u64 = 100;

/// User and system time of these processes together.
pub fn cpu(pids: &[u32]) -> anyhow::Result<Duration> {
    pids.iter().map(|pid| cpu_of(*pid)).sum()
}

fn cpu_of(pid: u32) -> anyhow::Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let ticks = cpu_ticks(&text).with_context(|| format!("{path} is not understood"))?;
    Ok(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

/// The name in parentheses may contain spaces, so fields are counted after it: utime and stime are the 12th and 13th.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub struct Memory {
    pub resident_mib: f64,
    /// Without file pages, which the kernel can reclaim at any time.
    pub anonymous_mib: f64,
}

impl Memory {
    /// The mean over this count.
    pub fn over(self, count: usize) -> Self {
        let count = count.max(1) as f64;
        Self { resident_mib: self.resident_mib / count, anonymous_mib: self.anonymous_mib / count }
    }
}

/// CPU usage over an interval, and memory at its end.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Sample {
    pub seconds: f64,
    pub cpu_percent: f64,
    pub memory: Memory,
}

pub async fn sample(pids: &[u32], time: Duration) -> anyhow::Result<Sample> {
    let cpu_percent = cpu_percent(pids, time).await?;
    Ok(Sample { seconds: time.as_secs_f64(), cpu_percent, memory: memory(pids)? })
}

/// Renders samples as a table, optionally with the share per agent.
pub fn samples_table(samples: &[Sample], share: Option<usize>) -> String {
    let mut text = "\n| over | memory | without file pages | processor time |".to_owned();
    text += if share.is_some() { " per agent |\n" } else { "\n" };
    text += if share.is_some() { "|---:|---:|---:|---:|---:|\n" } else { "|---:|---:|---:|---:|\n" };
    for sample in samples {
        let Sample { seconds, cpu_percent, memory } = sample;
        let (resident, anonymous) = (memory.resident_mib, memory.anonymous_mib);
        let each = share.map(|count| format!(" {:.3} % of a core |", cpu_percent / count.max(1) as f64));
        let each = each.unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {seconds:.0} s | {resident:.0} MiB | {anonymous:.0} MiB | {cpu_percent:.1} % of a core |{each}"
        );
    }
    text
}

pub fn memory(pids: &[u32]) -> anyhow::Result<Memory> {
    let mut sum = Memory::default();
    for pid in pids {
        let path = format!("/proc/{pid}/status");
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        sum.resident_mib += kib(&text, "VmRSS:") / 1024.0;
        sum.anonymous_mib += kib(&text, "RssAnon:") / 1024.0;
    }
    Ok(sum)
}

/// The command line of a process, program first.
pub fn command_line(pid: u32) -> anyhow::Result<Vec<String>> {
    let path = format!("/proc/{pid}/cmdline");
    let bytes = std::fs::read(&path).with_context(|| format!("cannot read {path}"))?;
    Ok(bytes.split(|byte| *byte == 0).filter(|part| !part.is_empty()).map(text).collect())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Kills a process that runs in this directory. The pid alone is not enough, since pids are reused.
pub fn end_in(pid: u32, directory: &Path) {
    let directory = directory.to_string_lossy();
    let is_ours = command_line(pid).is_ok_and(|line| line.iter().any(|part| part.contains(&*directory)));
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(number) = number.filter(|_| is_ours) {
        // It may have exited by itself.
        let _ = kill_process(number, Signal::KILL);
    }
}

/// Reports whether the process has exited; zombies count as exited.
pub fn has_ended(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('Z'))
}

/// CPU usage of these processes in percent of a core, over an interval in which the caller is idle.
pub async fn cpu_percent(pids: &[u32], time: Duration) -> anyhow::Result<f64> {
    let (before, start) = (cpu(pids)?, Instant::now());
    tokio::time::sleep(time).await;
    let used = cpu(pids)?.saturating_sub(before);
    Ok(used.as_secs_f64() / start.elapsed().as_secs_f64() * 100.0)
}

fn kib(status: &str, field: &str) -> f64 {
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|rest| rest.split_whitespace().next()).and_then(|n| n.parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::cpu_ticks;

    #[test]
    fn cpu_time_is_found_behind_a_name_with_spaces() {
        let stat = "17 (a ) name) S 1 17 17 0 -1 4194560 100 0 0 0 250 30 0 0 20 0 5 0 100 1000 50";
        assert_eq!(cpu_ticks(stat), Some(280));
    }
}
