//! Every command the testbed prints as a hint is extracted from its output and run as it is.
//!
//! `e2e/testdata/hints.txt` lists all hints; each must have been printed and run here, except those in `NOT_RUN`.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use e2e::eventually::eventually;
use e2e::fleet::text;
use e2e::flotilla::{binary, programs};
use e2e::light_member::LightMember;
use e2e::testbed::{CROSSING, Testbed};

/// Hints that depend on the host, with the reason why they may not be seen or are not run as printed.
const NOT_RUN: [(&str, &str); 6] = [
    ("unjoin MEMBER --force", "fails: `down --delete` prints it when the Cluster is already gone"),
    ("prepare --provisioner lxd", "printed only where LXD does not run; would install packages"),
    ("prepare --runtime containerd", "printed only where containers cannot run; would install packages"),
    ("up --runtime containerd", "printed only where containers can run"),
    ("up --runtime simulated", "printed only where containers can run"),
    ("image distribute FILE -t IMAGE", "printed only where containers can run"),
];

/// Runs commands as a user would, and records which hints they were.
struct Shell {
    path: String,
    /// Without a testbed: a hint that does not name its testbed fails.
    home: PathBuf,
    seen: RefCell<BTreeSet<String>>,
    _directory: tempfile::TempDir,
}

impl Shell {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (home, bin) = (directory.path().join("home"), directory.path().join("bin"));
        std::fs::create_dir_all(&home).expect("a directory");
        std::fs::create_dir_all(&bin).expect("a directory");
        std::os::unix::fs::symlink(binary(), bin.join("flotilla")).expect("a link");
        std::os::unix::fs::symlink(programs().join("kubectl"), bin.join("kubectl")).expect("a link");
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        Self { path, home, seen: RefCell::default(), _directory: directory }
    }

    fn try_run(&self, line: &str) -> Output {
        let mut command = Command::new("sh");
        command.args(["-c", line]).env("PATH", &self.path).env("HOME", &self.home);
        command.env_remove("KUBECONFIG").env_remove("FLOTILLA_HOME").stdin(Stdio::null());
        command.output().expect("a shell runs")
    }

    /// Runs a hint, which must succeed and find its testbed. Returns its output.
    #[track_caller]
    fn run(&self, line: &str) -> String {
        let output = self.try_run(line);
        let said = text(&output);
        assert!(output.status.success(), "{line}: {said}");
        assert!(!said.contains("no testbed found"), "{line}: {said}");
        self.record(line);
        said
    }

    /// Retries, because the commands of a demo are printed without the waiting between them.
    fn run_soon(&self, line: &str) {
        let mut last = String::new();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually(line, CROSSING, || {
                let output = self.try_run(line);
                last = text(&output);
                output.status.success()
            });
        }));
        outcome.unwrap_or_else(|_| panic!("{line}: {last}"));
        self.record(line);
    }

    fn record(&self, line: &str) {
        let known = patterns().into_iter().find(|pattern| is_like(line, pattern));
        self.seen.borrow_mut().extend(known);
    }
}

fn patterns() -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/hints.txt");
    let listed = std::fs::read_to_string(file).expect("the list of hints");
    listed.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(str::to_owned).collect()
}

/// Compares a command line with a pattern whose words in capitals and numbers stand for any word.
fn is_like(line: &str, pattern: &str) -> bool {
    let Some(line) = line.strip_prefix("flotilla ") else { return false };
    let select = ["--home", "--name", "--kubeconfig"];
    let words: Vec<&str> = line.split(' ').collect();
    let end = words.iter().position(|word| select.contains(word)).unwrap_or(words.len());
    let pattern: Vec<&str> = pattern.split(' ').collect();
    let any = |word: &str| word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == ':');
    // Optional flags may follow.
    end >= pattern.len()
        && (end == pattern.len() || words[pattern.len()].starts_with("--"))
        && pattern.iter().zip(&words).all(|(wanted, word)| any(wanted) || wanted == word)
        && !(end > pattern.len() && ["up", "down"].contains(&words[0]))
}

/// Returns the commands in backquotes, and those on lines of their own.
fn hints(output: &str) -> Vec<String> {
    let is_command = |text: &&str| ["flotilla ", "kubectl ", "export "].iter().any(|start| text.starts_with(start));
    let quoted = output.split('`').skip(1).step_by(2).filter(is_command);
    let lines = output.lines().filter_map(|line| line.strip_prefix("  ")).filter(is_command);
    quoted.chain(lines).map(str::to_owned).collect()
}

/// Returns the commands a demo prints, with their here documents.
fn demo_commands(output: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let mut is_open = false;
    for line in output.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            commands.push(command.to_owned());
            is_open = command.ends_with("<<EOF");
        } else if is_open {
            let last = commands.last_mut().expect("a command");
            last.push('\n');
            last.push_str(line);
            is_open = line != "EOF";
        }
    }
    commands
}

#[track_caller]
fn hint(output: &str, start: &str) -> String {
    let found = hints(output).into_iter().find(|hint| hint.starts_with(start));
    found.unwrap_or_else(|| panic!("no hint {start:?} in: {output}"))
}

#[test]
fn hints_are_recognised() {
    let output =
        "ready.\n\n  export KUBECONFIG=/k\n  kubectl get clusters\n\n`flotilla status --name x` shows it, `a b` not.";
    let expected = ["flotilla status --name x", "export KUBECONFIG=/k", "kubectl get clusters"];
    assert_eq!(hints(output), expected);
    assert!(is_like("flotilla fault m1 heal --home /x --name y", "fault MEMBER FAULT"));
    assert!(is_like(
        "flotilla expose a -C b --pod c=d --port 8:9 --home /x",
        "expose FORWARD -C MEMBER --pod POD --port 1:2"
    ));
    assert!(!is_like("flotilla down --delete --name y", "down") && is_like("flotilla down --name y", "down"));
    assert!(!is_like("flotilla up --runtime simulated", "up"));
    let demo = "# x\n$ kubectl apply -f - <<EOF\nkind: A\nEOF\ncreated\n$ kubectl get a\n";
    assert_eq!(demo_commands(demo), ["kubectl apply -f - <<EOF\nkind: A\nEOF", "kubectl get a"]);
}

fn output_of(bed: &Testbed, words: &[&str]) -> String {
    text(&bed.flotilla(words))
}

#[test]
fn every_printed_command_runs_as_it_is() {
    let shell = Shell::new();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let bed = Testbed::at(directory.path(), "hints");
    let ready = bed.bring_up(&[]);
    let export = hint(&ready, "export KUBECONFIG=");
    for line in hints(&ready).iter().filter(|line| line.starts_with("kubectl ")) {
        shell.run(&format!("{export}; {line}"));
    }
    for start in ["flotilla demo", "flotilla status", "flotilla console"] {
        shell.run(&hint(&ready, start));
    }
    let stopped = shell.run(&hint(&ready, "flotilla down"));
    let status = output_of(&bed, &["status"]);
    assert_eq!(hint(&stopped, "flotilla up"), hint(&status, "flotilla up"));
    shell.run(&hint(&stopped, "flotilla up"));

    let status = output_of(&bed, &["status"]);
    shell.run(&hint(&status, "flotilla logs --part"));
    shell.run(&hint(&output_of(&bed, &["stop", "member1"]), "flotilla start"));
    shell.run(&hint(&output_of(&bed, &["fault", "member1", "slow", "--delay=1ms"]), "flotilla fault"));
    shell.run(&hint(&output_of(&bed, &["snapshot", "before"]), "flotilla restore"));

    let member = LightMember::start(&[]);
    let cluster = format!("--cluster=east={}", member.kubeconfig.display());
    shell.run(&hint(&output_of(&bed, &["up", &cluster]), "flotilla join"));
    shell.run(&hint(&output_of(&bed, &["up", "--members=2"]), "flotilla remove-member"));
    play_demos(&shell, &bed);
    switch_runtime(&shell, &bed);
    shell.run(&hint(&output_of(&bed, &["up", "--port=1"]), "flotilla down --delete"));
    assert!(!bed.directory().exists());

    let seen = shell.seen.borrow();
    let is_run = |pattern: &String| seen.contains(pattern) || NOT_RUN.iter().any(|(known, _)| known == pattern);
    let missing: Vec<String> = patterns().into_iter().filter(|pattern| !is_run(pattern)).collect();
    assert!(missing.is_empty(), "not printed and run: {missing:?}; seen: {seen:?}");
}

/// The commands of a demo lead to the same result when they are typed.
fn play_demos(shell: &Shell, bed: &Testbed) {
    for demo in ["overrides", "flask", "failover"] {
        let output = bed.flotilla(&["demo", demo]);
        assert!(output.status.success(), "demo {demo}: {}", text(&output));
        let commands = demo_commands(&String::from_utf8_lossy(&output.stdout));
        assert!(commands.len() >= 3, "demo {demo}: {commands:?}");
        for command in commands {
            shell.run_soon(&command);
        }
    }
    for member in ["member1", "member2"] {
        bed.wait_ready(member, "True");
    }
}

/// The hints that change the runtime, where the host can run containers.
fn switch_runtime(shell: &Shell, bed: &Testbed) {
    let status = output_of(bed, &["status"]);
    if !status.contains("up --runtime containerd") {
        assert!(hint(&status, "flotilla prepare").contains("--runtime containerd"), "{status}");
        test_skip::skip("containers cannot run here; the hint to switch to them is not run");
        return;
    }
    let switched = shell.run(&hint(&status, "flotilla up --runtime containerd"));
    let runtime = "-o=jsonpath={.items[*].status.nodeInfo.containerRuntimeVersion}";
    eventually("the node runs containers", CROSSING, || {
        bed.ask("member1", &["get", "nodes", runtime]).starts_with("containerd://")
    });
    let demo = bed.run_ok(&["demo", "flask"]);
    let distribute = demo_commands(&demo).into_iter().find(|line| line.contains("image distribute"));
    shell.run(&distribute.expect("the image is distributed"));
    shell.run(&hint(&switched, "flotilla up --runtime simulated"));
}
