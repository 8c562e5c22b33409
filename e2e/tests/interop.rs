//! Interoperability: our control plane and a real Karmada, both agents, both CLIs, kubectl old and new.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use e2e::agent::Agent;
use e2e::eventually::eventually;
use e2e::fleet::{READY, READY_REPLICAS, application, run, text};
use e2e::flotilla::{Flotilla, binary, kubectl, programs};
use e2e::karmada_plane::KarmadaPlane;
use e2e::member::{self, Member};
use e2e::script::Script;

const LIMIT: Duration = Duration::from_secs(90);
const OURS: &str = "our plane";
const KARMADAS: &str = "Karmada's plane";

/// A combination and its scenario.
struct Cell<'a> {
    plane: &'static str,
    other: &'static str,
    works: Box<dyn Fn() + Sync + 'a>,
}

struct CellResult {
    plane: &'static str,
    other: &'static str,
    /// The message of the failed assertion.
    failure: Option<String>,
}

#[test]
fn all_supported_combinations_interoperate() {
    for program in ["karmadactl", "karmada-agent", "kubectl-1.32"] {
        if !programs().join(program).exists() {
            test_skip::skip(format_args!("{program} is not in {}; `make test` builds it", programs().display()));
            return;
        }
    }
    let Some((members, karmada)) = std::thread::scope(|scope| {
        let members = scope.spawn(|| Member::start_all(&["first", "second"], 1));
        let karmada = KarmadaPlane::start();
        members.join().expect("members start").zip(karmada)
    }) else {
        return;
    };
    let ours = Flotilla::start_with(&["--compat", "karmada-1.18"]);
    let (first, second) = (&members[0], &members[1]);
    let theirs = karmada.kubeconfig();
    let cells = [
        cell(OURS, "kubectl 1.32", || run_kubectl_scripts("kubectl-1.32")),
        cell(OURS, "kubectl 1.36", || run_kubectl_scripts("kubectl")),
        cell(OURS, "karmadactl 1.18", || pushes(&programs().join("karmadactl"), &ours.kubeconfig, first)),
        cell(OURS, "our command line", || pushes(&binary(), &ours.kubeconfig, first)),
        cell(OURS, "karmada-agent 1.18", || {
            let config = register(&programs().join("karmadactl"), &ours, first);
            let agent = Agent::karmadas(&config, first, &[]).expect("it is there");
            pulls(&ours.kubeconfig, first);
            drop(agent);
        }),
        cell(OURS, "our agent", || {
            let config = register(&binary(), &ours, second);
            let agent = Agent::ours(&config, second, &[]);
            pulls(&ours.kubeconfig, second);
            drop(agent);
        }),
        cell(KARMADAS, "our command line", || {
            tokens(&theirs);
            pushes(&binary(), &theirs, first);
        }),
        cell(KARMADAS, "our agent", || {
            let agent = Agent::ours(&theirs, second, &[]);
            pulls(&theirs, second);
            unregisters(&theirs, second);
            drop(agent);
        }),
    ];
    // Clients have their own servers; the others share members and run one after the other.
    let (clients, fleets) = cells.split_at(2);
    let results: Vec<CellResult> = std::thread::scope(|scope| {
        let lanes = [clients, fleets].map(|lane| scope.spawn(|| lane.iter().map(outcome).collect::<Vec<_>>()));
        lanes.into_iter().flat_map(|lane| lane.join().expect("failures are caught")).collect()
    });
    let table = table(&results);
    eprintln!("{table}");
    let failures: Vec<String> = results
        .iter()
        .filter_map(|cell| Some(format!("{} with {}: {}", cell.plane, cell.other, cell.failure.as_ref()?)))
        .collect();
    assert!(failures.is_empty(), "the plane's log:\n{}\n{table}\n{}", ours.log(), failures.join("\n"));
    let documented = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/interop.md"));
    assert!(
        documented.expect("docs/interop.md").contains(&table),
        "docs/interop.md does not have this table:\n{table}"
    );
}

fn cell<'a>(plane: &'static str, other: &'static str, works: impl Fn() + Sync + 'a) -> Cell<'a> {
    Cell { plane, other, works: Box::new(works) }
}

fn outcome(cell: &Cell<'_>) -> CellResult {
    let failure = catch_unwind(AssertUnwindSafe(|| (cell.works)())).err().map(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panicked without a message").to_owned()
    });
    CellResult { plane: cell.plane, other: cell.other, failure }
}

fn table(results: &[CellResult]) -> String {
    let rows = results.iter().map(|cell| {
        let works = if cell.failure.is_none() { "works" } else { "FAILS" };
        format!("| {} | {} | {works} |\n", cell.plane, cell.other)
    });
    format!("| Plane | Other side | |\n|---|---|---|\n{}", rows.collect::<String>())
}

/// Runs the journeys and parity scripts on a separate server.
fn run_kubectl_scripts(program: &str) {
    let server = Flotilla::start();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let scripts = Script::all(&data.join("journeys")).into_iter().chain(Script::all(&data.join("commands")));
    let complaints: Vec<String> =
        scripts.flat_map(|script| script.complaints_of(&programs().join(program), &server.kubeconfig)).collect();
    assert!(complaints.is_empty(), "{program}:\n{}", complaints.join("\n"));
}

fn ask(plane: &Path, arguments: &[&str]) -> String {
    String::from_utf8_lossy(&kubectl(plane, arguments).stdout).trim().to_owned()
}

#[track_caller]
fn expect_kubectl(program: &Path, plane: &Path, arguments: &[&str], expected: &str) {
    let output = run(program, plane, arguments);
    let said = text(&output);
    assert!(output.status.success() && said.contains(expected), "{} {arguments:?}: {said}", program.display());
}

/// Joins a cluster with a CLI, reads from it, and unjoins it.
fn pushes(program: &Path, plane: &Path, member: &Member) {
    let kubeconfig = member.kubeconfig().to_str().expect("a path in UTF-8");
    let name = member.name.as_str();
    expect_kubectl(program, plane, &["join", name, "--cluster-kubeconfig", kubeconfig], "is joined successfully");
    runs(plane, member, "pushed");
    // In Karmada, members learn the proxy permissions with a delay.
    for (arguments, expected) in [
        (["get", "deploy", "--operation-scope", "all"], name),
        (["get", "pods", "--operation-scope", "members"], "Running"),
    ] {
        eventually(&format!("{arguments:?} says {expected}"), LIMIT, || {
            text(&run(program, plane, &arguments)).contains(expected)
        });
    }
    expect_kubectl(program, plane, &["cordon", name], "cordoned");
    expect_kubectl(program, plane, &["uncordon", name], "uncordoned");
    expect_kubectl(program, plane, &["taint", "clusters", name, "dedicated=me:NoSchedule"], "tainted");
    expect_kubectl(program, plane, &["taint", "clusters", name, "dedicated:NoSchedule-"], "untainted");
    goes(plane, member, "pushed");
    expect_kubectl(
        program,
        plane,
        &["unjoin", name, "--cluster-kubeconfig", kubeconfig, "--cluster-context", "test"],
        "",
    );
    is_gone(plane, member);
}

fn runs(plane: &Path, member: &Member, name: &str) {
    eventually("the cluster is ready", LIMIT, || ask(plane, &["get", "cluster", &member.name, READY]) == "True");
    let output = member::apply(plane, &["apply", "-f", "-"], &application(name, &member.name));
    assert!(output.status.success(), "{}", text(&output));
    eventually("it runs in the member", LIMIT, || member.ask(&["get", "deploy", name, READY_REPLICAS]) == "2");
    eventually("its status is collected", LIMIT, || ask(plane, &["get", "deploy", name, READY_REPLICAS]) == "2");
}

fn goes(plane: &Path, member: &Member, name: &str) {
    assert!(kubectl(plane, &["delete", "deploy,propagationpolicy", name]).status.success());
    eventually("it is deleted from the member", LIMIT, || {
        member.ask(&["get", "deploy", name, "--ignore-not-found", "-o=name"]).is_empty()
    });
}

fn pulls(plane: &Path, member: &Member) {
    runs(plane, member, "pulled");
    let mode = ask(plane, &["get", "cluster", &member.name, "-o=jsonpath={.spec.syncMode}"]);
    assert_eq!(mode, "Pull");
    goes(plane, member, "pulled");
}

/// Registers a member with a token and returns the kubeconfig of its agent.
fn register(program: &Path, plane: &Flotilla, member: &Member) -> PathBuf {
    let config = plane.kubeconfig.to_str().expect("a path in UTF-8");
    let scope = if program == binary().as_path() { Some("--any-cluster") } else { None };
    let words = ["token", "create", "--print-register-command", "--kubeconfig", config].into_iter().chain(scope);
    let printed = run(program, &plane.kubeconfig, &words.collect::<Vec<_>>());
    assert!(printed.status.success(), "{}", text(&printed));
    let words = String::from_utf8_lossy(&printed.stdout).into_owned();
    let mut command = Command::new(program);
    command.args(words.split_whitespace().skip(1)).args(["--cluster-name", &member.name]);
    command.arg("--kubeconfig").arg(member.kubeconfig());
    let output: Output = command.stdin(Stdio::null()).output().expect("the program runs");
    assert!(output.status.success(), "{}", text(&output));
    let path = r#"-o=go-template={{index .data "karmada-kubeconfig" | base64decode}}"#;
    let config = member.ask(&["-n=karmada-system", "get", "secret", "karmada-kubeconfig", path]);
    let file = plane.data_dir.join(format!("{}.config", member.name));
    std::fs::write(&file, config).expect("written");
    file
}

/// Creates, lists and deletes tokens of a real Karmada with our CLI.
fn tokens(plane: &Path) {
    let made = run(&binary(), plane, &["token", "create", "--any-cluster"]);
    assert!(made.status.success(), "{}", text(&made));
    let token = String::from_utf8_lossy(&made.stdout).trim().to_owned();
    let id = token.split('.').next().unwrap_or_default().to_owned();
    expect_kubectl(&binary(), plane, &["token", "list"], &id);
    expect_kubectl(&binary(), plane, &["token", "delete", &id], "");
    let secret = ask(
        plane,
        &["-n=kube-system", "get", "secret", &format!("bootstrap-token-{id}"), "--ignore-not-found", "-o=name"],
    );
    assert_eq!(secret, "");
}

/// Unregisters a pull-mode member of a real Karmada with our CLI while its agent runs.
fn unregisters(plane: &Path, member: &Member) {
    let kubeconfig = member.kubeconfig().to_str().expect("a path in UTF-8");
    let config = plane.to_str().expect("a path in UTF-8");
    let arguments = ["unregister", &member.name, "--cluster-kubeconfig", kubeconfig, "--karmada-config", config];
    expect_kubectl(&binary(), plane, &arguments, "");
    is_gone(plane, member);
}

fn is_gone(plane: &Path, member: &Member) {
    eventually("the cluster is removed, and the member is unchanged", LIMIT, || {
        ask(plane, &["get", "cluster", &member.name, "--ignore-not-found", "-o=name"]).is_empty()
            && member.ask(&["get", "ns", "karmada-cluster", "--ignore-not-found", "-o=name"]).is_empty()
    });
}
