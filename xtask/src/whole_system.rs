//! The whole-system tests, several programs of them at once: they wait for servers far more than they compute.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// Programs of tests that run at the same time.
const AT_ONCE: usize = 3;

/// These take longest: whoever starts them last waits for them alone.
const FIRST: [&str; 7] = ["propagation_faults", "failover", "replicas", "testbed", "likeness", "interop", "faults"];

struct Program {
    name: String,
    path: PathBuf,
}

struct Run {
    name: String,
    output: std::io::Result<Output>,
    took: Duration,
}

/// Builds and runs them all, prints what each printed when it ends, and fails at the end if one failed.
pub fn run(root: &Path) -> anyhow::Result<()> {
    let folder = root.join("e2e");
    let mut programs = build(root)?;
    programs.sort_by_key(|program| (rank(&program.name), program.name.clone()));
    let count = programs.len();
    let waiting = Mutex::new(programs.into_iter());
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(program) = next else { break };
                    let run = run_one(&program, &folder);
                    // Held while printing, so that two outputs never mix.
                    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                    if !report(&run) {
                        failed.push(run.name);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if !failed.is_empty() {
        bail!("of {count} programs of whole-system tests these failed: {}", failed.join(", "));
    }
    Ok(())
}

fn rank(name: &str) -> usize {
    FIRST.iter().position(|first| name == *first).unwrap_or(FIRST.len())
}

fn build(root: &Path) -> anyhow::Result<Vec<Program>> {
    let output = Command::new("cargo")
        .args(["test", "--locked", "-p", "e2e", "--no-run", "--message-format=json-render-diagnostics"])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .context("running cargo")?;
    if !output.status.success() {
        bail!("the whole-system tests do not compile");
    }
    let programs: Vec<Program> = String::from_utf8_lossy(&output.stdout).lines().filter_map(program_of).collect();
    if programs.is_empty() {
        bail!("cargo named no program of whole-system tests");
    }
    Ok(programs)
}

/// The program of tests that a line of cargo's output tells of.
fn program_of(line: &str) -> Option<Program> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    let is_test = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
    let name = message["target"]["name"].as_str()?.to_owned();
    let path = message["executable"].as_str()?.into();
    is_test.then_some(Program { name, path })
}

fn run_one(program: &Program, folder: &Path) -> Run {
    let started = Instant::now();
    let output = Command::new(&program.path).current_dir(folder).stdin(Stdio::null()).output();
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
                r#"{{"reason":"compiler-artifact","target":{{"name":"pull"}},"profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let found = |line: &str| program_of(line).map(|program| (program.name, program.path));
        assert_eq!(found(&line(true, r#""/t/pull""#)), Some(("pull".to_owned(), PathBuf::from("/t/pull"))));
        assert_eq!(found(&line(false, r#""/t/pull""#)), None);
        assert_eq!(found(&line(true, "null")), None);
        assert_eq!(found("   Compiling e2e"), None);
    }
}
