//! What the kernel says about processes: processor time and memory.

use std::time::Duration;

use anyhow::Context;
use serde::Serialize;

/// The kernel counts processor time in /proc in these steps on every Linux machine.
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

/// The name in parentheses may hold spaces, so fields are counted from behind it: utime and stime are the 12th and 13th.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[derive(Clone, Copy, Default, Serialize)]
pub struct Memory {
    pub resident_mib: f64,
    /// Without the pages of files, which the kernel can take back at any time.
    pub anonymous_mib: f64,
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
