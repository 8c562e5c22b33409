//! Every script of kubectl commands prints the same against our server and a real kube-apiserver, with the newest and
//! the oldest supported kubectl.

use std::path::Path;
use std::time::{Duration, Instant};

use e2e::eventually::eventually;
use e2e::flotilla::{Flotilla, kubectl, programs};
use e2e::kube_apiserver::KubeApiServer;
use e2e::script::{Printed, Script, ScriptStep};

/// They share the servers, so each script deletes the objects it created.
const KUBECTLS: [&str; 2] = ["kubectl", "kubectl-1.32"];
/// Some writes take effect with a delay: discovery, OpenAPI, permissions. Read-only steps are repeated until both
/// servers agree, for this long in total.
const PATIENCE: Duration = Duration::from_secs(60);
const AGAIN_AFTER: Duration = Duration::from_millis(250);

#[test]
fn kubectl_output_matches_kube_apiserver() {
    let Some(theirs) = KubeApiServer::start() else { return };
    let ours = Flotilla::start();
    eventually("a real server has namespaces, which come after it is ready", PATIENCE, || {
        kubectl(&theirs.kubeconfig, &["get", "namespace", "default"]).status.success()
    });
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/parity");
    let mut patience = PATIENCE;
    let mut differences = Vec::new();
    for name in KUBECTLS {
        let program = programs().join(name);
        if !program.exists() {
            test_skip::skip(format_args!("{name} is not in {}; `make test` builds it", programs().display()));
            continue;
        }
        for script in Script::all(&folder) {
            let directory = tempfile::tempdir().expect("a temporary directory");
            script.prepare(directory.path());
            for step in &script.steps {
                let run = |kubeconfig: &Path| script.run_by(&program, step, kubeconfig, directory.path());
                let difference =
                    settled(step, &mut patience, || compare(step, [&theirs.kubeconfig, &ours.kubeconfig], run));
                let command = step.arguments.join(" ");
                let place = format!("{}:{}: {name} {command}", script.name, step.line);
                differences.extend(difference.map(|difference| format!("--- {place}\n{difference}")));
            }
        }
    }
    assert!(
        differences.is_empty(),
        "{} differences:\n{}\nserver log:\n{}",
        differences.len(),
        differences.join("\n"),
        ours.log()
    );
}

/// Returns the remaining difference; a step that changes something runs only once.
fn settled(step: &ScriptStep, patience: &mut Duration, compare: impl Fn() -> Option<String>) -> Option<String> {
    let mut difference = compare();
    while difference.is_some() && step.is_repeatable() && !patience.is_zero() {
        let start = Instant::now();
        std::thread::sleep(AGAIN_AFTER);
        difference = compare();
        *patience = patience.saturating_sub(start.elapsed());
    }
    difference
}

fn compare(step: &ScriptStep, servers: [&Path; 2], run: impl Fn(&Path) -> Printed + Sync) -> Option<String> {
    let [real, mut own] = std::thread::scope(|scope| {
        let run = &run;
        let both = servers.map(|server| scope.spawn(move || run(server)));
        both.map(|running| running.join().expect("kubectl runs"))
    });
    own.stdout = without_karmada(&own.stdout);
    if real.succeeded == step.fails {
        return Some(format!("the script expects otherwise of a real server: {real:#?}"));
    }
    let same = if step.compared { real == own } else { real.succeeded == own.succeeded };
    (!same).then(|| format!("real: {real:#?}\nours: {own:#?}"))
}

/// Removes the parts a control plane has beyond Kubernetes: Karmada's groups and its two namespaces, metrics of members.
fn without_karmada(stdout: &str) -> String {
    let is_ours = |line: &str| {
        line.contains(".karmada.io")
            || line.contains("multicluster.x-k8s.io")
            || line.contains("metrics.k8s.io")
            || line.starts_with("karmada-")
    };
    stdout.split('\n').filter(|line| !is_ours(line)).collect::<Vec<_>>().join("\n")
}
