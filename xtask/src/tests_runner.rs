//! Runs every program of tests: the crates' own one after the other, whole-system ones several at once.
//!
//! Cargo could run them too, but builds once more for every other choice of packages: here all are built in one go.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// Whole-system programs that run at the same time: they wait for servers far more than they compute.
const AT_ONCE: usize = 3;

/// These take longest: whoever starts them last waits for them alone.
const FIRST: [&str; 8] =
    ["propagation_faults", "failover", "replicas", "testbed", "testbed_failover", "likeness", "interop", "faults"];

#[derive(Debug, PartialEq)]
struct Program {
    name: String,
    path: PathBuf,
    /// Where its package is, which is where cargo starts tests.
    folder: PathBuf,
}

struct Run {
    name: String,
    output: std::io::Result<Output>,
    took: Duration,
}

/// Builds and runs them all, prints what each printed when it ends, and fails at the end if one failed.
pub fn run(root: &Path) -> anyhow::Result<()> {
    let (mut whole_system, own): (Vec<_>, Vec<_>) =
        build(root)?.into_iter().partition(|program| program.folder.ends_with("e2e"));
    whole_system.sort_by_key(|program| (rank(&program.name), program.name.clone()));
    let count = own.len() + whole_system.len();
    let mut failed = run_all(own, 1);
    failed.extend(run_all(whole_system, AT_ONCE));
    if !failed.is_empty() {
        bail!("of {count} programs of tests these failed: {}", failed.join(", "));
    }
    Ok(())
}

/// The names of those that failed.
fn run_all(programs: Vec<Program>, at_once: usize) -> Vec<String> {
    let waiting = Mutex::new(programs.into_iter());
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(program) = next else { break };
                    let run = run_one(&program);
                    // Held while printing, so that two outputs never mix.
                    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                    if !report(&run) {
                        failed.push(run.name);
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn rank(name: &str) -> usize {
    FIRST.iter().position(|first| name == *first).unwrap_or(FIRST.len())
}

fn build(root: &Path) -> anyhow::Result<Vec<Program>> {
    let mut cargo = Command::new("cargo");
    // What cargo says of this program to it would make build scripts that look at it run again, and half the tree with them.
    for (name, _) in std::env::vars_os() {
        let is_of_a_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        if name.to_str().is_some_and(is_of_a_package) {
            cargo.env_remove(name);
        }
    }
    let output = cargo
        .args(["test", "--locked", "--workspace", "--no-run", "--message-format=json-render-diagnostics"])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .context("running cargo")?;
    if !output.status.success() {
        bail!("the tests do not compile");
    }
    let programs: Vec<Program> = String::from_utf8_lossy(&output.stdout).lines().filter_map(program_of).collect();
    if programs.is_empty() {
        bail!("cargo named no program of tests");
    }
    Ok(programs)
}

/// The program of tests that a line of cargo's output tells of.
fn program_of(line: &str) -> Option<Program> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    let is_test = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let path = message["executable"].as_str()?.into();
    let name = message["target"]["name"].as_str()?.to_owned();
    is_test.then_some(Program { name, path, folder })
}

fn run_one(program: &Program) -> Run {
    let started = Instant::now();
    let output = Command::new(&program.path)
        .current_dir(&program.folder)
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .stdin(Stdio::null())
        .output();
    Run { name: program.name.clone(), output, took: started.elapsed() }
}

/// Whether it passed.
fn report(run: &Run) -> bool {
    let mut text = format!("     Running {} ({:.0} s)\n", run.name, run.took.as_secs_f64()).into_bytes();
    let passed = match &run.output {
        Ok(output) => {
            text.extend([output.stdout.as_slice(), &output.stderr].concat());
            output.status.success()
        }
        Err(error) => {
            text.extend(format!("{} could not be started: {error}\n", run.name).into_bytes());
            false
        }
    };
    // Who closed our output wants no report; the verdict stands all the same.
    let _ = std::io::stdout().lock().write_all(&text);
    passed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_programs_of_tests_are_run() {
        let line = |test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/e2e/Cargo.toml","target":{{"name":"pull"}},
                "profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let pull = Program { name: "pull".into(), path: "/t/pull".into(), folder: "/w/e2e".into() };
        assert_eq!(program_of(&line(true, r#""/t/pull""#)), Some(pull));
        assert_eq!(program_of(&line(false, r#""/t/pull""#)), None);
        assert_eq!(program_of(&line(true, "null")), None);
        assert_eq!(program_of("   Compiling e2e"), None);
    }
}
