//! Commands that the product prints: extracted from its output, and run as a user would paste them into a shell.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::fleet::text;
use crate::flotilla::{binary, programs};

/// Flags that select a testbed or a control plane.
const SELECT: [&str; 3] = ["--home", "--name", "--kubeconfig"];

/// A shell with `flotilla` and `kubectl`, in a home without a testbed: a command that does not name its testbed fails.
pub struct PasteShell {
    path: String,
    home: PathBuf,
    _directory: tempfile::TempDir,
}

impl Default for PasteShell {
    fn default() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (home, bin) = (directory.path().join("home"), directory.path().join("bin"));
        std::fs::create_dir_all(&home).expect("a directory");
        std::fs::create_dir_all(&bin).expect("a directory");
        std::os::unix::fs::symlink(binary(), bin.join("flotilla")).expect("a link");
        std::os::unix::fs::symlink(programs().join("kubectl"), bin.join("kubectl")).expect("a link");
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        Self { path, home, _directory: directory }
    }
}

impl PasteShell {
    /// The editor saves what it was given.
    pub fn try_run(&self, line: &str) -> Output {
        let mut command = Command::new("sh");
        command.args(["-c", line]).env("PATH", &self.path).env("HOME", &self.home).env("EDITOR", "true");
        command.env_remove("KUBECONFIG").env_remove("FLOTILLA_HOME").stdin(Stdio::null());
        command.output().expect("a shell runs")
    }

    /// Runs a command, which must succeed and find its testbed. Returns its output.
    #[track_caller]
    pub fn run(&self, line: &str) -> String {
        let output = self.try_run(line);
        let said = text(&output);
        assert!(output.status.success(), "{line}: {said}");
        assert!(!said.contains("no testbed found"), "{line}: {said}");
        said
    }
}

/// The commands that are to be printed and run, and those that were.
pub struct PrintedCommands {
    patterns: Vec<String>,
    seen: RefCell<BTreeSet<String>>,
}

impl PrintedCommands {
    /// Reads a list in `testdata`.
    pub fn listed(file: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(file);
        let listed = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let lines = listed.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        Self { patterns: lines.map(str::to_owned).collect(), seen: RefCell::default() }
    }

    /// Records that a command was run.
    pub fn record(&self, line: &str) {
        let known = self.patterns.iter().filter(|pattern| is_like(line, pattern)).cloned();
        self.seen.borrow_mut().extend(known);
    }

    /// Returns the commands that were not run.
    pub fn missing(&self) -> Vec<String> {
        let seen = self.seen.borrow();
        self.patterns.iter().filter(|pattern| !seen.contains(*pattern)).cloned().collect()
    }
}

/// Compares a command line, without the flags that select the testbed, with a pattern whose words in capitals and numbers
/// stand for any word. Flags that the pattern does not have may follow, but for `up` and `down` they make another command.
pub fn is_like(line: &str, pattern: &str) -> bool {
    let Some(line) = line.strip_prefix("flotilla ") else { return false };
    let mut words: Vec<&str> = Vec::new();
    let mut all = line.split(' ');
    while let Some(word) = all.next() {
        match SELECT.contains(&word) {
            true => drop(all.next()),
            false => words.push(word),
        }
    }
    let pattern: Vec<&str> = pattern.split(' ').collect();
    let rest = words.get(pattern.len()..);
    rest.is_some_and(|rest| rest.is_empty() || (rest[0].starts_with("--") && !["up", "down"].contains(&words[0])))
        && pattern.iter().zip(&words).all(|(wanted, word)| is_word_like(word, wanted))
}

fn is_word_like(word: &str, pattern: &str) -> bool {
    let (fixed, variable) = match pattern.rsplit_once('/') {
        Some((fixed, variable)) => (format!("{fixed}/"), variable),
        None => (String::new(), pattern),
    };
    let is_placeholder = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit();
    let is_any =
        variable.starts_with(is_placeholder) && variable.chars().all(|c| is_placeholder(c) || ":-".contains(c));
    if is_any { word.starts_with(&fixed) } else { word == pattern }
}

/// Returns the commands in backquotes, and those on lines of their own.
pub fn hints(output: &str) -> Vec<String> {
    let is_command = |text: &&str| ["flotilla ", "kubectl ", "export "].iter().any(|start| text.starts_with(start));
    let quoted = output.split('`').skip(1).step_by(2).filter(is_command);
    let lines = output.lines().filter_map(|line| line.strip_prefix("  ")).filter(is_command);
    quoted.chain(lines).map(str::to_owned).collect()
}

/// Returns the first command that starts like this.
#[track_caller]
pub fn hint(output: &str, start: &str) -> String {
    let found = hints(output).into_iter().find(|hint| hint.starts_with(start));
    found.unwrap_or_else(|| panic!("no hint {start:?} in: {output}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_in_output() {
        let output = "ready.\n\n  export KUBECONFIG=/k\n  kubectl get clusters\n\n`flotilla status --name x` shows it, `a b` not.";
        let expected = ["flotilla status --name x", "export KUBECONFIG=/k", "kubectl get clusters"];
        assert_eq!(hints(output), expected);
    }

    #[test]
    fn words_in_capitals_stand_for_any_word() {
        let check = |line: &str, pattern: &str, expected: bool| {
            assert_eq!(is_like(line, pattern), expected, "{line} / {pattern}");
        };
        check("flotilla fault m1 heal --home /x --name y", "fault MEMBER FAULT", true);
        let expose = "expose FORWARD -C MEMBER --pod POD --port 1:2";
        check("flotilla expose a -C b --pod c=d --port 8:9 --home /x", expose, true);
        check("flotilla down --delete --name y", "down", false);
        check("flotilla down --name y", "down", true);
        check("flotilla up --runtime simulated", "up", false);
        check("flotilla unjoin m1 --kubeconfig /k", "unjoin MEMBER", true);
        check("flotilla unjoin m1 --force --kubeconfig /k", "unjoin MEMBER --force", true);
        check("flotilla taint clusters m1 team:NoSchedule- --kubeconfig /k", "taint clusters MEMBER KEY:EFFECT-", true);
        check("flotilla why namespace/shop --kubeconfig /k", "why namespace/NAMESPACE", true);
        check("flotilla why deployment/shop", "why namespace/NAMESPACE", false);
        check("flotilla edit cluster m1", "edit clusteroverridepolicy NAME", false);
        check("kubectl get pods", "get pods", false);
    }
}
