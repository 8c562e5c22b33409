//! Every command the testbed prints as a hint is extracted from its output and run as it is.
//!
//! `e2e/testdata/hints.txt` lists all hints; each must have been printed and run here. Exceptions: `prepare` is run with
//! `--dry-run`, because a test must not install packages, and the hints about containers and the console need a host and a
//! program that have them.

use std::path::Path;

use e2e::eventually::eventually;
use e2e::fleet::text;
use e2e::light_member::LightMember;
use e2e::pasted::{PasteShell, PrintedCommands, hint, hints};
use e2e::testbed::{CROSSING, Testbed};
use serde_json::Value;

/// Printed only where the host can run containers; elsewhere the test says that it skips them.
const OF_CONTAINERS: [&str; 3] =
    ["up --runtime containerd", "up --runtime simulated", "image distribute FILE -t IMAGE"];

/// Folders of the daemons that run system containers, and of the network plugins of containers.
const DAEMONS: [&str; 3] = ["/var/lib/lxd", "/var/snap/lxd", "/var/lib/incus"];
const NETWORK_PLUGINS: [&str; 4] = ["/opt/cni", "/usr/lib/cni", "/usr/libexec/cni", "/usr/local/lib/cni"];

const UNPLACED: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: unplaced, namespace: default}
spec:
  selector: {matchLabels: {app: unplaced}}
  template:
    metadata: {labels: {app: unplaced}}
    spec: {containers: [{name: web, image: nginx}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: unplaced, namespace: default}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: unplaced}]
  placement: {clusterAffinity: {clusterNames: [nowhere]}}
";

/// Runs hints and records which they were.
struct Hints {
    shell: PasteShell,
    printed: PrintedCommands,
}

impl Hints {
    #[track_caller]
    fn run(&self, line: &str) -> String {
        let said = self.shell.run(line);
        self.printed.record(line);
        said
    }

    /// Retries, because the commands of a demo are printed without the waiting between them.
    fn run_soon(&self, line: &str) {
        let mut last = String::new();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually(line, CROSSING, || {
                let output = self.shell.try_run(line);
                last = text(&output);
                output.status.success()
            });
        }));
        outcome.unwrap_or_else(|_| panic!("{line}: {last}"));
        self.printed.record(line);
    }

    /// Runs `flotilla COMMAND` on a host without these folders; it must fail. Returns its output.
    fn refused_without(&self, folders: &[&str], command: &str) -> String {
        let existing: Vec<&str> = folders.iter().copied().filter(|folder| Path::new(folder).exists()).collect();
        let line = match existing.is_empty() {
            true => format!("flotilla {command}"),
            false => {
                let hidden = existing.iter().map(|folder| format!("mount -t tmpfs tmpfs {folder} && "));
                format!("unshare --mount sh -c '{}flotilla {command}'", hidden.collect::<String>())
            }
        };
        let output = self.shell.try_run(&line);
        assert!(!output.status.success(), "{line}: {}", text(&output));
        text(&output)
    }

    /// Runs `why` on an object with a problem, which it reports by its exit code.
    fn explain(&self, line: &str) {
        let output = self.shell.try_run(line);
        assert_eq!(output.status.code(), Some(3), "{line}: {}", text(&output));
        self.printed.record(line);
    }

    /// Runs a hint to prepare the host without changing it: it lists what it would do.
    fn run_dry(&self, line: &str) {
        let output = self.shell.try_run(&format!("{line} --dry-run"));
        let said = text(&output);
        assert!(said.contains("This host is ") && !said.contains("could not fix"), "{line}: {said}");
        self.printed.record(line);
    }
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

#[test]
fn the_commands_of_a_demo_include_their_documents() {
    let demo = "# x\n$ kubectl apply -f - <<EOF\nkind: A\nEOF\ncreated\n$ kubectl get a\n";
    assert_eq!(demo_commands(demo), ["kubectl apply -f - <<EOF\nkind: A\nEOF", "kubectl get a"]);
}

fn output_of(bed: &Testbed, words: &[&str]) -> String {
    text(&bed.flotilla(words))
}

#[test]
fn every_printed_command_runs_as_it_is() {
    let shell = Hints { shell: PasteShell::default(), printed: PrintedCommands::listed("hints.txt") };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let bed = Testbed::at(directory.path(), "hints");
    let ready = bed.bring_up(&[]);
    let export = hint(&ready, "export KUBECONFIG=");
    for line in hints(&ready).iter().filter(|line| line.starts_with("kubectl ")) {
        shell.run(&format!("{export}; {line}"));
    }
    for start in ["flotilla demo", "flotilla status"] {
        shell.run(&hint(&ready, start));
    }
    let has_console = !ready.contains("built without the console");
    match has_console {
        true => drop(shell.run(&hint(&ready, "flotilla console"))),
        false => test_skip::skip("the program was built without the console; `flotilla console` is not run"),
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
    shell.run(&hint(&output_of(&bed, &["remove-member", "member2", "--timeout=0s"]), "flotilla unjoin"));
    bed.run_ok(&["up"]);
    shell.run(&hint(&output_of(&bed, &["up", "--members=2"]), "flotilla remove-member"));
    play_demos(&shell, &bed);
    repairs_of_doctor(&shell, &bed);
    let can_run_containers = switch_runtime(&shell, &bed);
    let managed = bed.run_ok(&["up", "--manager", "--manager-port=0"]);
    assert!(shell.run(&hint(&managed, "flotilla instance list")).contains("second"));
    shell.run(&hint(&output_of(&bed, &["up", "--port=1"]), "flotilla down --delete"));
    assert!(!bed.directory().exists());

    hosts_can_be_prepared(&shell, directory.path());

    let mut missing = shell.printed.missing();
    missing.retain(|pattern| can_run_containers || !OF_CONTAINERS.contains(&pattern.as_str()));
    missing.retain(|pattern| has_console || pattern != "console");
    assert!(missing.is_empty(), "not printed and run: {missing:?}");
}

/// Refusals on a host without the programs name the command that installs them.
fn hosts_can_be_prepared(shell: &Hints, home: &Path) {
    let up = |flags: &str| format!("up {flags} --name unprepared --home {} --port 0 --member-port 0", home.display());
    let refused = shell.refused_without(&DAEMONS, &up("--provisioner lxd"));
    shell.run_dry(&hint(&refused, "flotilla prepare --provisioner lxd"));
    let refused = shell.refused_without(&NETWORK_PLUGINS, &up("--runtime containerd"));
    shell.run_dry(&hint(&refused, "flotilla prepare --runtime containerd"));
    assert!(!home.join("unprepared").exists(), "a refused testbed left its directory");
}

/// The repairs that `doctor` prints, each for the problem it is for.
fn repairs_of_doctor(shell: &Hints, bed: &Testbed) {
    let plane = bed.config("karmada-apiserver").display().to_string();
    let kubectl = |words: &str| shell.shell.run(&format!("kubectl --kubeconfig {plane} {words}"));
    shell.shell.run(&format!("flotilla cordon member1 --kubeconfig {plane}"));
    repair(shell, bed, "", "member1 is cordoned");
    bed.run_ok(&["fault", "member1", "unschedulable"]);
    repair(shell, bed, "", "member1 has no schedulable node");
    bed.run_ok(&["fault", "member1", "heal"]);

    bed.apply(UNPLACED);
    repair(shell, bed, "", "Deployment default/unplaced is not scheduled to any cluster");
    kubectl("delete deployment,propagationpolicy unplaced");

    // A control plane that is examined by its kubeconfig is not known to be a testbed.
    kubectl("-n karmada-cluster delete secret member1");
    let file = bed.config("member1").display().to_string();
    let joined = repair(shell, bed, &plane, "member1 has no credentials").replace("FILE-OF-member1", &file);
    joined.split(" && ").for_each(|command| drop(shell.run(command)));

    // A member renews an expired certificate when it starts again.
    let certificate = bed.directory().join("data/member1/pki/apiserver.crt");
    std::fs::write(&certificate, expired_certificate()).expect("it can be written");
    let restart = repair(shell, bed, "", "has expired");
    restart.split(" && ").for_each(|command| shell.printed.record(command));
    bed.wait_ready("member1", "True");
    assert!(!text(&bed.flotilla(&["doctor"])).contains("has expired"), "the certificate was not renewed");
}

fn expired_certificate() -> String {
    let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("valid parameters");
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    let key = rcgen::KeyPair::generate().expect("a key");
    params.self_signed(&key).expect("a certificate").pem()
}

/// Waits for a finding, and runs its repair unless something has to be filled in. Returns the repair.
fn repair(shell: &Hints, bed: &Testbed, kubeconfig: &str, problem: &str) -> String {
    let mut command = None;
    eventually(&format!("doctor finds {problem:?}"), CROSSING, || {
        let output = match kubeconfig {
            "" => bed.flotilla(&["doctor", "-o", "json"]),
            file => shell.shell.try_run(&format!("flotilla doctor -o json --kubeconfig {file}")),
        };
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let findings = report["findings"].as_array().cloned().unwrap_or_default();
        let named = |finding: &Value| format!("{} {}", finding["subject"], finding["what"]).replace('"', "");
        let found = findings.into_iter().find(|finding| named(finding).contains(problem));
        command = found.and_then(|finding| finding["command"].as_str().map(str::to_owned));
        command.is_some()
    });
    let command = command.unwrap_or_default();
    if command.starts_with("flotilla why ") {
        shell.explain(&command);
    } else if !command.contains("FILE-OF-") {
        shell.run(&command);
    }
    command
}

/// The commands of a demo lead to the same result when they are typed.
fn play_demos(shell: &Hints, bed: &Testbed) {
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

/// The hints that change the runtime; false where the host cannot run containers.
fn switch_runtime(shell: &Hints, bed: &Testbed) -> bool {
    let status = output_of(bed, &["status"]);
    if !status.contains("up --runtime containerd") {
        assert!(hint(&status, "flotilla prepare").contains("--runtime containerd"), "{status}");
        test_skip::skip("containers cannot run here; the hint to switch to them is not run");
        return false;
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
    true
}
