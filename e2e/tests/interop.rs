//! Who works with whom: our plane and a real Karmada, both agents, both command lines, kubectl old and new.

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

/// What a pair has to do together.
struct Cell<'a> {
    plane: &'static str,
    other: &'static str,
    works: Box<dyn Fn() + Sync + 'a>,
}

#[test]
fn every_pair_that_has_to_work_together_does() {
    for program in ["karmadactl", "karmada-agent", "kubectl-1.32"] {
        if !programs().join(program).exists() {
            eprintln!("SKIPPED: {program} is not in {}; `make test` builds it", programs().display());
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
        cell(OURS, "kubectl 1.32", || kubectl_travels("kubectl-1.32")),
        cell(OURS, "kubectl 1.36", || kubectl_travels("kubectl")),
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
    // Clients have servers of their own; the rest share members and take turns.
    let (clients, fleets) = cells.split_at(2);
    let results: Vec<(&str, &str, bool)> = std::thread::scope(|scope| {
        let lanes = [clients, fleets].map(|lane| scope.spawn(|| lane.iter().map(outcome).collect::<Vec<_>>()));
        lanes.into_iter().flat_map(|lane| lane.join().expect("failures are caught")).collect()
    });
    let table = table(&results);
    eprintln!("{table}");
    assert!(results.iter().all(|(_, _, works)| *works), "{table}\nthe plane's log:\n{}", ours.log());
    let told = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/interop.md"));
    assert!(told.expect("docs/interop.md").contains(&table), "docs/interop.md has not this table:\n{table}");
}

fn cell<'a>(plane: &'static str, other: &'static str, works: impl Fn() + Sync + 'a) -> Cell<'a> {
    Cell { plane, other, works: Box::new(works) }
}

fn outcome(cell: &Cell<'_>) -> (&'static str, &'static str, bool) {
    (cell.plane, cell.other, catch_unwind(AssertUnwindSafe(|| (cell.works)())).is_ok())
}

fn table(results: &[(&str, &str, bool)]) -> String {
    let rows = results.iter().map(|(plane, other, works)| {
        let works = if *works { "works" } else { "FAILS" };
        format!("| {plane} | {other} | {works} |\n")
    });
    format!("| Plane | Other side | |\n|---|---|---|\n{}", rows.collect::<String>())
}

/// The journeys and a tour of the commands, on a server of its own.
fn kubectl_travels(program: &str) {
    let server = Flotilla::start();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let scripts = Script::all(&data.join("journeys")).into_iter().chain(Script::all(&data.join("tour")));
    let complaints: Vec<String> =
        scripts.flat_map(|script| script.complaints_of(&programs().join(program), &server.kubeconfig)).collect();
    assert!(complaints.is_empty(), "{program}:\n{}", complaints.join("\n"));
}

fn ask(plane: &Path, arguments: &[&str]) -> String {
    String::from_utf8_lossy(&kubectl(plane, arguments).stdout).trim().to_owned()
}

#[track_caller]
fn tell(program: &Path, plane: &Path, arguments: &[&str], expected: &str) {
    let output = run(program, plane, arguments);
    let said = text(&output);
    assert!(output.status.success() && said.contains(expected), "{} {arguments:?}: {said}", program.display());
}

/// A command line brings a cluster into a plane, looks around, and takes it out again.
fn pushes(program: &Path, plane: &Path, member: &Member) {
    let kubeconfig = member.kubeconfig().to_str().expect("a path in UTF-8");
    let name = member.name.as_str();
    tell(program, plane, &["join", name, "--cluster-kubeconfig", kubeconfig], "is joined successfully");
    runs(plane, member, "pushed");
    // A plane of Karmada takes a moment until members know who may look into them.
    for (looks, expected) in [
        (["get", "deploy", "--operation-scope", "all"], name),
        (["get", "pods", "--operation-scope", "members"], "Running"),
    ] {
        eventually(&format!("{looks:?} says {expected}"), LIMIT, || {
            text(&run(program, plane, &looks)).contains(expected)
        });
    }
    tell(program, plane, &["cordon", name], "cordoned");
    tell(program, plane, &["uncordon", name], "uncordoned");
    tell(program, plane, &["taint", "clusters", name, "dedicated=me:NoSchedule"], "tainted");
    tell(program, plane, &["taint", "clusters", name, "dedicated:NoSchedule-"], "untainted");
    goes(plane, member, "pushed");
    tell(program, plane, &["unjoin", name, "--cluster-kubeconfig", kubeconfig, "--cluster-context", "test"], "");
    is_gone(plane, member);
}

fn runs(plane: &Path, member: &Member, name: &str) {
    eventually("the cluster is ready", LIMIT, || ask(plane, &["get", "cluster", &member.name, READY]) == "True");
    let output = member::apply(plane, &["apply", "-f", "-"], &application(name, &member.name));
    assert!(output.status.success(), "{}", text(&output));
    eventually("it runs in the member", LIMIT, || member.ask(&["get", "deploy", name, READY_REPLICAS]) == "2");
    eventually("its status comes back", LIMIT, || ask(plane, &["get", "deploy", name, READY_REPLICAS]) == "2");
}

fn goes(plane: &Path, member: &Member, name: &str) {
    assert!(kubectl(plane, &["delete", "deploy,propagationpolicy", name]).status.success());
    eventually("it goes from the member", LIMIT, || {
        member.ask(&["get", "deploy", name, "--ignore-not-found", "-o=name"]).is_empty()
    });
}

fn pulls(plane: &Path, member: &Member) {
    runs(plane, member, "pulled");
    let mode = ask(plane, &["get", "cluster", &member.name, "-o=jsonpath={.spec.syncMode}"]);
    assert_eq!(mode, "Pull");
    goes(plane, member, "pulled");
}

/// Registers a member by a token and returns the kubeconfig its agent is to use.
fn register(program: &Path, plane: &Flotilla, member: &Member) -> PathBuf {
    let config = plane.kubeconfig.to_str().expect("a path in UTF-8");
    let printed =
        run(program, &plane.kubeconfig, &["token", "create", "--print-register-command", "--kubeconfig", config]);
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

/// Our command line makes, lists and deletes tokens of a real Karmada.
fn tokens(plane: &Path) {
    let made = run(&binary(), plane, &["token", "create"]);
    assert!(made.status.success(), "{}", text(&made));
    let token = String::from_utf8_lossy(&made.stdout).trim().to_owned();
    let id = token.split('.').next().unwrap_or_default().to_owned();
    tell(&binary(), plane, &["token", "list"], &id);
    tell(&binary(), plane, &["token", "delete", &id], "");
    let secret = ask(
        plane,
        &["-n=kube-system", "get", "secret", &format!("bootstrap-token-{id}"), "--ignore-not-found", "-o=name"],
    );
    assert_eq!(secret, "");
}

/// Our command line takes a pull member out of a real Karmada, with its agent still at work.
fn unregisters(plane: &Path, member: &Member) {
    let kubeconfig = member.kubeconfig().to_str().expect("a path in UTF-8");
    let config = plane.to_str().expect("a path in UTF-8");
    let arguments = ["unregister", &member.name, "--cluster-kubeconfig", kubeconfig, "--karmada-config", config];
    tell(&binary(), plane, &arguments, "");
    is_gone(plane, member);
}

fn is_gone(plane: &Path, member: &Member) {
    eventually("the cluster is gone, and the member is as it was", LIMIT, || {
        ask(plane, &["get", "cluster", &member.name, "--ignore-not-found", "-o=name"]).is_empty()
            && member.ask(&["get", "ns", "karmada-cluster", "--ignore-not-found", "-o=name"]).is_empty()
    });
}
