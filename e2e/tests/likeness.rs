//! Every script of kubectl commands prints the same against our server and against a real kube-apiserver.

use std::path::Path;

use e2e::flotilla::Flotilla;
use e2e::kube_apiserver::KubeApiServer;
use e2e::script::Script;

#[test]
fn kubectl_cannot_tell_us_from_kube_apiserver() {
    let Some(theirs) = KubeApiServer::start() else { return };
    let ours = Flotilla::start();
    let mut differences = Vec::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/likeness");
    for script in Script::all(&folder) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        script.prepare(directory.path());
        for step in &script.steps {
            let real = script.run(step, &theirs.kubeconfig, directory.path());
            let mut own = script.run(step, &ours.kubeconfig, directory.path());
            own.stdout = without_karmada(&own.stdout);
            let command = step.arguments.join(" ");
            let place = format!("{}:{}: kubectl {command}", script.name, step.line);
            if real.succeeded == step.fails {
                differences.push(format!("--- {place}: the script expects otherwise of a real server: {real:#?}"));
            }
            let same = if step.compared { real == own } else { real.succeeded == own.succeeded };
            if !same {
                differences.push(format!("--- {place}\nreal: {real:#?}\nours: {own:#?}"));
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

/// What a plane has beyond Kubernetes: Karmada's groups and the two namespaces it keeps its own objects in.
fn without_karmada(stdout: &str) -> String {
    let is_ours = |line: &str| {
        line.contains(".karmada.io") || line.contains("multicluster.x-k8s.io") || line.starts_with("karmada-")
    };
    stdout.split('\n').filter(|line| !is_ours(line)).collect::<Vec<_>>().join("\n")
}
