//! Plays the guides this project replaces, command by command, on their own paths and ports.
//!
//! A script in `testdata/seeds` has one command per line:
//!
//! - `$ COMMAND` is a command of the guide, run as it is.
//! - `- COMMAND` is a command of the guide that is not run. `+ COMMAND` below it is run instead, `! TEXT` says why.
//! - `@ COMMAND` is not in the guide; `! TEXT` says why it is needed.
//! - `& COMMAND` is a command of the guide that keeps running.
//! - `? TEXT` must appear in the output of the command above. The command is repeated until it does, within a limit.
//!
//! All commands of a script run in one shell, in namespaces of their own: /root, /etc/karmada, the hosts file and all ports belong to
//! the script. This needs root; without it the test is skipped.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use e2e::flotilla::{binary, programs};

/// Failover takes a minute.
const LIMIT: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(500);
/// Printed after every command, with its exit code.
const MARK: &str = "::end of command::";

struct Step {
    line: usize,
    command: String,
    keeps_running: bool,
    expected: Vec<String>,
}

/// Reads a script, and checks that every change has a reason.
fn read(path: &Path) -> Vec<Step> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut steps: Vec<Step> = Vec::new();
    // A changed command waits for its replacement, and a change for its reason.
    let (mut replaced, mut unexplained) = (None, None);
    for (index, line) in text.lines().enumerate() {
        let place = format!("{}:{}", path.display(), index + 1);
        let Some((mark, rest)) = line.split_once(' ').filter(|_| !line.starts_with('#')) else { continue };
        if ["$", "&", "-", "@"].contains(&mark) {
            assert!(replaced.is_none() && unexplained.is_none(), "{place}: the change above is not complete");
        }
        match mark {
            "-" => replaced = Some(rest.to_owned()),
            "?" => steps.last_mut().unwrap_or_else(|| panic!("{place}: no command")).expected.push(rest.to_owned()),
            "!" => unexplained = None,
            "$" | "&" | "+" | "@" => {
                if mark == "+" {
                    assert!(replaced.take().is_some(), "{place}: replaces nothing");
                }
                if mark == "+" || mark == "@" {
                    unexplained = Some(rest.to_owned());
                }
                let (command, keeps_running) = (rest.to_owned(), mark == "&");
                steps.push(Step { line: index + 1, command, keeps_running, expected: Vec::new() });
            }
            other => panic!("{place}: unknown mark {other:?}"),
        }
    }
    assert!(replaced.is_none() && unexplained.is_none(), "{}: the last change is not complete", path.display());
    steps
}

/// A shell in namespaces of its own. Everything it started ends with it.
struct Shell {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    directory: tempfile::TempDir,
    had_folder: bool,
}

impl Shell {
    fn start() -> Self {
        let had_folder = Path::new("/etc/karmada").exists();
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut child = Command::new("unshare")
            .args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "bash"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare runs");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut shell = Self { child, input, output, directory, had_folder };
        shell.furnish();
        shell
    }

    /// Prepares paths and names as the guides expect them.
    fn furnish(&mut self) {
        let root = self.directory.path().display().to_string();
        let files = seeds().join("files");
        let (flotilla, tools) = (binary(), programs());
        let lines = [
            "exec 2>&1".to_owned(),
            "ip link set lo up".to_owned(),
            format!("mkdir -p {root}/bin {root}/tools {root}/etc {root}/work"),
            format!("mount --bind {} {root}/tools", tools.display()),
            format!("mount --bind {} {root}/work", binary().parent().expect("a folder").display()),
            format!("ln -s {root}/work/{} {root}/bin/flotilla", flotilla.file_name().expect("a name").display()),
            format!("ln -s flotilla {root}/bin/karmadactl; ln -s flotilla {root}/bin/kubectl-karmada"),
            format!("ln -s {root}/tools/kubectl {root}/bin/kubectl"),
            format!("cp -r {} {root}/files", files.display()),
            "mount -t tmpfs tmpfs /root; mkdir -p /etc/karmada; mount -t tmpfs tmpfs /etc/karmada".to_owned(),
            format!(
                "cp /etc/hosts {root}/etc/hosts; echo 127.0.0.1 karmada-apiserver.keiretsu.ts.net >> {root}/etc/hosts"
            ),
            format!("mount --bind {root}/etc/hosts /etc/hosts"),
            format!("export HOME=/root FILES={root}/files KARMADACTL={root}/tools/karmadactl PATH={root}/bin:$PATH"),
            "unset KUBECONFIG FLOTILLA_HOME; cd /".to_owned(),
        ];
        for line in lines {
            let (code, said) = self.run(&line);
            assert_eq!(code, 0, "{line}: {said}");
        }
    }

    /// Runs one line in the shell, and returns its exit code and output.
    fn run(&mut self, line: &str) -> (i32, String) {
        writeln!(self.input, "{line}\ncode=$?; echo; echo '{MARK}' $code").expect("the shell reads");
        let mut said = String::new();
        loop {
            let mut part = String::new();
            let count = self.output.read_line(&mut part).expect("the shell answers");
            assert!(count > 0, "the shell ended after {line}: {said}");
            if let Some(code) = part.strip_prefix(MARK) {
                return (code.trim().parse().unwrap_or(-1), said.trim_end().to_owned());
            }
            said.push_str(&part);
        }
    }

    /// Runs a step until its output is as expected.
    fn play(&mut self, step: &Step, place: &str) {
        if step.keeps_running {
            self.run(&format!("{} >/dev/null 2>&1 &", step.command));
            return;
        }
        let start = Instant::now();
        loop {
            let (code, said) = self.run(&step.command);
            let missing: Vec<&String> = step.expected.iter().filter(|text| !said.contains(text.as_str())).collect();
            if code == 0 && missing.is_empty() {
                return;
            }
            // Commands that create something are not repeated when they fail.
            let is_final = start.elapsed() > LIMIT || step.command.starts_with("flotilla up");
            assert!(!is_final, "{place}: {}\nexit code {code}, missing {missing:?} in:\n{said}", step.command);
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = writeln!(
            self.input,
            "for bed in /root/.flotilla/*/; do flotilla down --delete --name $(basename $bed); done; exit"
        );
        let start = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && start.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        if !self.had_folder {
            // The mount point had to be created outside of the namespace.
            let _ = std::fs::remove_dir("/etc/karmada");
        }
    }
}

fn seeds() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/seeds")
}

fn is_missing() -> bool {
    let can_unshare = Command::new("unshare").args(["--net", "--mount", "--pid", "--fork", "true"]).output();
    let reason = match can_unshare {
        Ok(output) if output.status.success() => None,
        Ok(_) => Some("namespaces need root"),
        Err(_) => Some("unshare is not installed"),
    };
    let tools = ["/usr/bin/curl", "/usr/bin/ss", "/usr/sbin/ip"];
    let lacking = tools.iter().find(|path| !Path::new(path).exists() && !Path::new(&path.replace("/usr", "")).exists());
    let reason = reason.map(str::to_owned).or(lacking.map(|path| format!("{path} is missing")));
    if let Some(reason) = &reason {
        test_skip::skip(format_args!("the guides cannot be played: {reason}"));
    }
    reason.is_some()
}

/// One at a time: the mount point /etc/karmada is shared with the host.
static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn play(name: &str) {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let steps = read(&seeds().join(name));
    if is_missing() {
        return;
    }
    let mut shell = Shell::start();
    for step in &steps {
        shell.play(step, &format!("{name}:{}", step.line));
    }
}

#[test]
fn the_architecture_is_as_described() {
    play("000-architecture.txt");
}

#[test]
fn the_troubleshooting_guide_works() {
    play("001-troubleshooting.txt");
}

#[test]
fn the_install_scripts_have_counterparts() {
    play("002-install.txt");
}

#[test]
fn pull_mode_and_failover_work() {
    play("004-pull-mode.txt");
}
