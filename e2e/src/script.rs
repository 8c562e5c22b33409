//! Scripts of kubectl commands with their files, run against any server.
//!
//! A script is plain text. `$ ARGS` runs kubectl; `$! ARGS` runs it and expects failure; `$~ ARGS` runs it without
//! comparing its output (progress messages, waits). `> NAME` starts a file that ends at the next line with a command
//! or a file; the arguments refer to files as `NAME`. `= TEXT` below a command expects a line of its output to
//! contain TEXT. Lines starting with `#` are comments.

use std::path::{Path, PathBuf};
use std::process::Output;

use crate::flotilla::{kubectl_of, programs};
use crate::normalize::normalize;

pub struct ScriptStep {
    pub line: usize,
    pub arguments: Vec<String>,
    pub fails: bool,
    pub compared: bool,
    /// Texts that must each appear in a line of the output.
    pub expected: Vec<String>,
}

impl ScriptStep {
    /// Reports whether it changes nothing, so that it may be repeated.
    pub fn is_repeatable(&self) -> bool {
        let reads = ["get", "describe", "explain", "diff", "wait", "api-resources", "api-versions"];
        let words: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        self.fails || words.first().is_some_and(|verb| reads.contains(verb)) || words.starts_with(&["auth", "can-i"])
    }
}

pub struct Script {
    pub name: String,
    pub steps: Vec<ScriptStep>,
    files: Vec<(String, String)>,
}

/// The normalized output of a step.
#[derive(Debug, PartialEq, Eq)]
pub struct Printed {
    pub succeeded: bool,
    pub stdout: String,
    pub stderr: String,
}

impl Script {
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let name = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default().to_owned();
        let mut script = Self { name, steps: Vec::new(), files: Vec::new() };
        let mut in_file = false;
        for (index, line) in text.lines().enumerate() {
            let command = ["$! ", "$~ ", "$ "].iter().find_map(|mark| Some((*mark, line.strip_prefix(mark)?)));
            if let Some((mark, command)) = command {
                in_file = false;
                let (fails, compared) = (mark == "$! ", mark != "$~ ");
                script.steps.push(ScriptStep {
                    line: index + 1,
                    arguments: split(command),
                    fails,
                    compared,
                    expected: Vec::new(),
                });
            } else if let (Some(text), false) = (line.strip_prefix("= "), in_file) {
                script.steps.last_mut().expect("a command precedes it").expected.push(text.to_owned());
            } else if let Some(name) = line.strip_prefix("> ") {
                in_file = true;
                script.files.push((name.to_owned(), String::new()));
            } else if in_file {
                let (_, content) = script.files.last_mut().expect("a file was started");
                content.push_str(line);
                content.push('\n');
            }
        }
        assert!(!script.steps.is_empty(), "{} has no commands", path.display());
        script
    }

    /// Returns all scripts of a directory, or the one named by `SCRIPT`.
    pub fn all(folder: &Path) -> Vec<Self> {
        let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        let chosen = std::env::var("SCRIPT").ok();
        let scripts = paths.iter().map(|path| Self::read(path));
        scripts.filter(|script| chosen.as_ref().is_none_or(|name| *name == script.name)).collect()
    }

    /// Writes the script's files into `directory`.
    pub fn prepare(&self, directory: &Path) {
        for (name, content) in &self.files {
            let path = directory.join(name);
            std::fs::create_dir_all(path.parent().expect("a file has a folder")).expect("a folder");
            std::fs::write(path, content).expect("written");
        }
    }

    pub fn run_by(&self, program: &Path, step: &ScriptStep, kubeconfig: &Path, directory: &Path) -> Printed {
        let arguments: Vec<String> = step.arguments.iter().map(|a| self.place(a, directory)).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        printed(&kubectl_of(program, kubeconfig, &arguments), directory)
    }

    /// Runs every step and returns the ones that did not match the script.
    pub fn complaints(&self, kubeconfig: &Path) -> Vec<String> {
        self.complaints_of(&programs().join("kubectl"), kubeconfig)
    }

    /// The same with another kubectl.
    pub fn complaints_of(&self, program: &Path, kubeconfig: &Path) -> Vec<String> {
        let directory = tempfile::tempdir().expect("a temporary directory");
        self.prepare(directory.path());
        let mut complaints = Vec::new();
        for step in &self.steps {
            let printed = self.run_by(program, step, kubeconfig, directory.path());
            let place = format!("{}:{}: kubectl {}", self.name, step.line, step.arguments.join(" "));
            if printed.succeeded == step.fails {
                complaints.push(format!("{place}: {printed:#?}"));
            }
            let all = format!("{}\n{}", printed.stdout, printed.stderr);
            for text in step.expected.iter().filter(|text| !all.lines().any(|line| line.contains(text.as_str()))) {
                complaints.push(format!("{place}: no line contains {text:?}: {printed:#?}"));
            }
        }
        complaints
    }

    /// Replaces names of files by paths.
    fn place(&self, argument: &str, directory: &Path) -> String {
        let known = self.files.iter().any(|(name, _)| name == argument || name.starts_with(&format!("{argument}/")));
        if known { directory.join(argument).display().to_string() } else { argument.to_owned() }
    }
}

fn printed(output: &Output, directory: &Path) -> Printed {
    let folder = directory.display().to_string();
    let text = |bytes: &[u8]| normalize(&String::from_utf8_lossy(bytes).replace(&folder, "DIR"));
    Printed { succeeded: output.status.success(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

/// Splits like a shell, with single and double quotes.
fn split(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let (mut quote, mut started) = (None, false);
    for c in command.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                started = true;
            }
            (None, c) if c.is_whitespace() => {
                if started || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                started = false;
            }
            (None, c) => word.push(c),
        }
    }
    if started || !word.is_empty() {
        words.push(word);
    }
    words
}
