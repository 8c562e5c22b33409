//! Runs every test program: those of the crates one after the other, system tests three at once.
//!
//! Cargo could run them too, but rebuilds for every other choice of packages: here all are built together.
//! A failed program can be run again, alone: one that passes then is reported as flaky, which is a defect of its own.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// System test programs that run concurrently: they mostly wait for servers, and two leave half of two cores idle.
const AT_ONCE: usize = 3;

/// System test programs that run alone, because they measure frames or start many containers.
const ALONE: [&str; 2] = ["console", "testbed_containers"];

/// The number of times failed programs run again.
const RETRIES_VARIABLE: &str = "FLOTILLA_TEST_RETRIES";

/// The slowest programs start first, so that none of them runs alone at the end.
const FIRST: [&str; 14] = [
    "karmada_suite",
    "karmada_controllers",
    "hints",
    "lxd",
    "migration",
    "propagation_faults",
    "encryption",
    "failover",
    "replicas",
    "testbed",
    "testbed_failover",
    "parity",
    "interop",
    "faults",
];

#[derive(Debug, PartialEq)]
struct TestProgram {
    name: String,
    path: PathBuf,
    /// The directory of its package, which is where cargo starts tests.
    folder: PathBuf,
}

struct ProgramRun {
    name: String,
    output: std::io::Result<Output>,
    took: Duration,
}

#[derive(Debug, PartialEq)]
enum ProgramResult {
    Passed,
    Failed,
    /// It failed, and passed when it ran again.
    Flaky,
    /// It passed, but skipped some or all of its tests, for these reasons.
    Skipped(Vec<String>),
}

/// Builds and runs all programs and prints the output of each. Returns whether none failed.
///
/// The last line is `N passed, N failed, N skipped`, counting programs, also when some failed.
pub fn run(root: &Path) -> anyhow::Result<bool> {
    let (mut system, own): (Vec<_>, Vec<_>) =
        build(root)?.into_iter().partition(|program| program.folder.ends_with("e2e"));
    system.sort_by_key(|program| (rank(&program.name), program.name.clone()));
    let (alone, system): (Vec<_>, Vec<_>) = system.into_iter().partition(|p| ALONE.contains(&p.name.as_str()));
    let mut results = run_all(own, 1);
    results.extend(run_all(alone, 1));
    results.extend(run_all(system, AT_ONCE));
    for _ in 0..retries()? {
        results = run_failed_again(results);
    }
    // A closed stdout does not change the result.
    let _ = std::io::stdout().lock().write_all(summary(&results).as_bytes());
    Ok(results.iter().all(|(_, result)| *result != ProgramResult::Failed))
}

fn retries() -> anyhow::Result<usize> {
    match std::env::var(RETRIES_VARIABLE) {
        Ok(text) => text.parse().with_context(|| format!("{RETRIES_VARIABLE} is not a number: {text}")),
        Err(_) => Ok(0),
    }
}

fn run_failed_again(results: Vec<(TestProgram, ProgramResult)>) -> Vec<(TestProgram, ProgramResult)> {
    let (failed, mut results): (Vec<_>, Vec<_>) =
        results.into_iter().partition(|(_, result)| *result == ProgramResult::Failed);
    let failed = failed.into_iter().map(|(program, _)| program).collect();
    let again = run_all(failed, 1).into_iter();
    results.extend(again.map(|(program, result)| match result {
        ProgramResult::Failed => (program, ProgramResult::Failed),
        _ => (program, ProgramResult::Flaky),
    }));
    results
}

/// Names failed, flaky and skipped programs, then the counts.
fn summary(results: &[(TestProgram, ProgramResult)]) -> String {
    let mut text = String::new();
    let (mut failed, mut skipped) = (0, 0);
    for (TestProgram { name, .. }, result) in results {
        match result {
            ProgramResult::Passed => {}
            ProgramResult::Flaky => text.push_str(&format!("FLAKY: {name}: failed, then passed when run alone\n")),
            ProgramResult::Failed => {
                failed += 1;
                text.push_str(&format!("failed: {name}\n"));
            }
            ProgramResult::Skipped(reasons) => {
                skipped += 1;
                reasons.iter().for_each(|reason| text.push_str(&format!("skipped: {name}: {reason}\n")));
            }
        }
    }
    let passed = results.len() - failed - skipped;
    text.push_str(&format!("{passed} passed, {failed} failed, {skipped} skipped\n"));
    text
}

fn run_all(programs: Vec<TestProgram>, at_once: usize) -> Vec<(TestProgram, ProgramResult)> {
    let waiting = Mutex::new(programs.into_iter());
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(program) = next else { break };
                    let run = run_one(&program);
                    // Held while printing, so that outputs are not interleaved.
                    let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                    let result = report(&run);
                    results.push((program, result));
                }
            });
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn rank(name: &str) -> usize {
    FIRST.iter().position(|first| name == *first).unwrap_or(FIRST.len())
}

fn build(root: &Path) -> anyhow::Result<Vec<TestProgram>> {
    let mut cargo = Command::new("cargo");
    // Variables that cargo sets for this program would make build scripts that depend on them run again.
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
        .context("failed to run cargo")?;
    if !output.status.success() {
        bail!("the tests do not compile");
    }
    let programs: Vec<TestProgram> = String::from_utf8_lossy(&output.stdout).lines().filter_map(program_of).collect();
    if programs.is_empty() {
        bail!("cargo built no test program");
    }
    Ok(programs)
}

/// Parses a test program from a line of cargo's output.
fn program_of(line: &str) -> Option<TestProgram> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    let is_test = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let path = message["executable"].as_str()?.into();
    let name = message["target"]["name"].as_str()?.to_owned();
    is_test.then_some(TestProgram { name, path, folder })
}

fn run_one(program: &TestProgram) -> ProgramRun {
    let started = Instant::now();
    let output = Command::new(&program.path)
        .current_dir(&program.folder)
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .stdin(Stdio::null())
        .output();
    ProgramRun { name: program.name.clone(), output, took: started.elapsed() }
}

/// Prints the output of a program.
fn report(run: &ProgramRun) -> ProgramResult {
    let mut text = format!("     Running {} ({:.0} s)\n", run.name, run.took.as_secs_f64()).into_bytes();
    let result = match &run.output {
        Ok(output) => {
            text.extend([output.stdout.as_slice(), &output.stderr].concat());
            result_of(output.status.success(), &String::from_utf8_lossy(&output.stderr))
        }
        Err(error) => {
            text.extend(format!("failed to start {}: {error}\n", run.name).into_bytes());
            ProgramResult::Failed
        }
    };
    // A closed stdout does not change the result.
    let _ = std::io::stdout().lock().write_all(&text);
    result
}

fn result_of(success: bool, stderr: &str) -> ProgramResult {
    let skipped: Vec<String> =
        stderr.lines().filter_map(|line| line.strip_prefix(test_skip::PREFIX)).map(str::to_owned).collect();
    match (success, skipped.is_empty()) {
        (false, _) => ProgramResult::Failed,
        (true, true) => ProgramResult::Passed,
        (true, false) => ProgramResult::Skipped(skipped),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_test_programs_are_run() {
        let line = |test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/e2e/Cargo.toml","target":{{"name":"pull"}},
                "profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let pull = TestProgram { name: "pull".into(), path: "/t/pull".into(), folder: "/w/e2e".into() };
        assert_eq!(program_of(&line(true, r#""/t/pull""#)), Some(pull));
        assert_eq!(program_of(&line(false, r#""/t/pull""#)), None);
        assert_eq!(program_of(&line(true, "null")), None);
        assert_eq!(program_of("   Compiling e2e"), None);
    }

    #[test]
    fn a_program_with_a_skipped_test_is_not_counted_as_passed() {
        let program = |name: &str| TestProgram { name: name.into(), path: "/t".into(), folder: "/w".into() };
        let results = [
            (program("a"), result_of(true, "running\n")),
            (program("b"), result_of(true, "SKIPPED: t: etcd is missing\nSKIPPED: u: requires root\n")),
            (program("c"), result_of(false, "SKIPPED: t: etcd is missing\n")),
        ];
        let expected =
            "skipped: b: t: etcd is missing\nskipped: b: u: requires root\nfailed: c\n1 passed, 1 failed, 1 skipped\n";
        assert_eq!(summary(&results), expected);
    }

    #[test]
    fn a_program_that_passes_only_the_second_time_is_reported() {
        let directory = tempfile::tempdir().expect("a directory");
        let marker = directory.path().join("ran");
        let script = format!("#!/bin/sh\n[ -e {0} ] || {{ touch {0}; exit 1; }}\n", marker.display());
        let path = directory.path().join("program");
        std::fs::write(&path, script).expect("written");
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("executable");
        let program = TestProgram { name: "sometimes".into(), path, folder: directory.path().into() };
        let first = run_all(vec![program], 1);
        assert_eq!(summary(&first), "failed: sometimes\n0 passed, 1 failed, 0 skipped\n");
        let again = run_failed_again(first);
        let expected = "FLAKY: sometimes: failed, then passed when run alone\n1 passed, 0 failed, 0 skipped\n";
        assert_eq!(summary(&again), expected);
    }
}
