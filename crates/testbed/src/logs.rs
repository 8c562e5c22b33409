//! `logs --part`: the logs of the processes of a testbed.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use karmadactl::console::Console;

use crate::host_cluster::HOST;
use crate::place::{INSTANCE_MEMBER, MANAGER, PLANE, REGISTRY, TestbedDir, agent_of};
use crate::spec::{Kind, Mode, Spec};

const POLL: Duration = Duration::from_millis(200);
/// Bytes read at once.
const CHUNK: u64 = 64 * 1024;
const SUPERVISOR: &str = "supervisor";

/// The printed part of a log.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogOptions {
    /// Number of lines from the end; all by default.
    pub tail: Option<usize>,
    /// Continue until interrupted.
    pub follow: bool,
}

/// Returns the parts of a testbed that have a log, in the order of `status`.
pub fn parts(spec: &Spec) -> Vec<String> {
    // Pods have their logs in their clusters.
    let plane = if spec.host.is_some() { HOST } else { PLANE };
    let mut parts = vec![SUPERVISOR.to_owned(), plane.to_owned()];
    parts.extend(spec.registry_port.map(|_| REGISTRY.to_owned()));
    for member in &spec.members {
        // Members of other provisioners write their logs elsewhere.
        if spec.provisioner == Kind::Process {
            parts.push(member.name.clone());
        }
        if member.mode == Mode::Pull && spec.host.is_none() {
            parts.push(agent_of(&member.name));
        }
    }
    if spec.manager.is_some() {
        parts.extend([MANAGER, INSTANCE_MEMBER].map(str::to_owned));
    }
    parts
}

pub async fn print(console: &Console, place: &TestbedDir, part: &str, options: LogOptions) -> anyhow::Result<()> {
    let parts = parts(&Spec::existing(place)?);
    if !parts.iter().any(|known| known == part) {
        bail!("the testbed {} has no part {part:?}; it has {}", place.name(), parts.join(", "));
    }
    let path = place.log_of(part);
    let text = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let shown = last_lines(&text, options.tail);
    console.print(&String::from_utf8_lossy(shown))?;
    if !options.follow {
        return Ok(());
    }
    follow(console, &path, text.len() as u64).await
}

/// Prints what is added to the file, and continues with the next file when it is rotated.
async fn follow(console: &Console, path: &Path, mut position: u64) -> anyhow::Result<()> {
    let mut file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    loop {
        file.seek(SeekFrom::Start(position))?;
        let mut bytes = Vec::new();
        file.by_ref().take(CHUNK).read_to_end(&mut bytes)?;
        position += bytes.len() as u64;
        if !bytes.is_empty() {
            console.print(&String::from_utf8_lossy(&bytes))?;
            continue;
        }
        let is_rotated =
            std::fs::metadata(path).is_ok_and(|now| file.metadata().is_ok_and(|old| old.ino() != now.ino()));
        if is_rotated {
            (file, position) = (File::open(path)?, 0);
            continue;
        }
        tokio::time::sleep(POLL).await;
    }
}

fn last_lines(text: &[u8], count: Option<usize>) -> &[u8] {
    let Some(count) = count else { return text };
    let body = text.strip_suffix(b"\n").unwrap_or(text);
    let mut ends = body.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at);
    match count.checked_sub(1) {
        None => &[],
        Some(skipped) => ends.nth(skipped).map_or(text, |at| &text[at + 1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{UpOptions, plan};
    use crate::ports::Ports;

    #[test]
    fn the_last_lines_are_whole_lines() {
        let text = b"one\ntwo\nthree\n";
        for (count, expected) in
            [(0, ""), (1, "three\n"), (2, "two\nthree\n"), (3, "one\ntwo\nthree\n"), (9, "one\ntwo\nthree\n")]
        {
            assert_eq!(last_lines(text, Some(count)), expected.as_bytes(), "{count}");
        }
        assert_eq!(last_lines(text, None), text);
        assert_eq!(last_lines(b"a\nb", Some(1)), b"b");
    }

    #[test]
    fn agents_are_parts_too() {
        let place = TestbedDir::find(Some("/beds".into()), "x").unwrap();
        let spec = plan(None, &UpOptions::default(), &mut Ports::pretending(|_| true), false, &place).unwrap();
        let expected = ["supervisor", "karmada", "registry", "member1", "member2", "member3", "member3-agent"];
        assert_eq!(parts(&spec), expected);
    }
}
