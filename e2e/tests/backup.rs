//! A control plane is lost and restored from its backup: objects in members stay until the operator confirms.

use std::path::{Path, PathBuf};
use std::process::Output;

use e2e::agent::Agent;
use e2e::eventually::eventually;
use e2e::fleet::{CROSSING, run, text};
use e2e::flotilla::{Flotilla, binary};
use e2e::light_member::LightMember;
use e2e::member;

const REPLICAS: &str = "-o=jsonpath={.spec.replicas}";

struct BackupSite {
    /// A push-mode and a pull-mode member.
    members: [LightMember; 2],
    directory: tempfile::TempDir,
    kubeconfig: PathBuf,
    port: u16,
}

impl BackupSite {
    fn flotilla(&self, arguments: &[&str]) -> Output {
        run(&binary(), &self.kubeconfig, arguments)
    }

    fn expect_kubectl(&self, arguments: &[&str]) -> String {
        let output = self.flotilla(arguments);
        assert!(output.status.success(), "{}: {}", arguments.join(" "), text(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().expect("a path in UTF-8").to_owned()
    }

    /// Starts a server on the port of the first one, with this data directory.
    fn start(&self, data_dir: &str) -> Flotilla {
        std::fs::create_dir_all(self.path(data_dir)).expect("a directory");
        Flotilla::start_at(Path::new(&self.path(data_dir)), self.port, &[])
    }

    fn apply(&self, documents: &str) {
        let output = member::apply(&self.kubeconfig, &["apply", "-f", "-"], documents);
        assert!(output.status.success(), "{}", text(&output));
    }

    /// Waits until kubectl in both members returns this output.
    fn in_members(&self, server: &Flotilla, arguments: &[&str], expected: &str) {
        for (number, member) in self.members.iter().enumerate() {
            let what = format!("member {}: kubectl {} says {expected:?}", number + 1, arguments.join(" "));
            let holds = || member.ask(arguments) == expected;
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| eventually(&what, CROSSING, holds)));
            if let Err(panic) = result {
                eprintln!("works:\n{}", text(&server.kubectl(&["get", "works", "-A", "-o", "yaml"])));
                eprintln!("the plane's log:\n{}", server.log());
                std::panic::resume_unwind(panic);
            }
        }
    }

    /// Waits until the control plane reports this action as held back in both members.
    fn held_back(&self, action: &str, object: &str) {
        for cluster in ["m1", "m2"] {
            let line = |report: &str| {
                report.lines().any(|line| {
                    let mut words = line.split_whitespace();
                    words.next() == Some(cluster) && line.contains(action) && line.trim_end().ends_with(object)
                })
            };
            eventually(&format!("{action} {object} in {cluster} is shown"), CROSSING, || {
                line(&String::from_utf8_lossy(&self.flotilla(&["restore", "status"]).stdout))
            });
        }
    }
}

fn configmap(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: default, labels: {{site: all}}}}\ndata: {{a: b}}\n---\n"
    )
}

fn deployment(replicas: u32) -> String {
    format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, namespace: default}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      containers: [{{name: main, image: 'nginx:1.27'}}]
---
"
    )
}

const POLICY: &str = "
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: all, namespace: default}
spec:
  resourceSelectors:
    - {apiVersion: apps/v1, kind: Deployment}
    - {apiVersion: v1, kind: ConfigMap, labelSelector: {matchLabels: {site: all}}}
  placement: {clusterAffinity: {clusterNames: [m1, m2]}}
---
";

#[test]
fn a_restored_plane_deletes_nothing_until_confirmed() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let members = [LightMember::start(&[]), LightMember::start(&[])];
    std::fs::create_dir(directory.path().join("first")).expect("a directory");
    let first = Flotilla::start_in(&directory.path().join("first"), &[]);
    // The client's kubeconfig outlives the server.
    let kubeconfig = directory.path().join("client.config");
    std::fs::copy(&first.kubeconfig, &kubeconfig).expect("a copy");
    let site = BackupSite { members, directory, kubeconfig, port: first.port() };
    let pushed = site.members[0].kubeconfig.to_str().expect("a path in UTF-8");
    site.expect_kubectl(&["join", "m1", "--cluster-kubeconfig", pushed]);
    let _agent = Agent::ours_outside(&site.kubeconfig, ("m2", &site.members[1].kubeconfig), &[]);
    site.apply(&[POLICY, &deployment(1), &configmap("gone"), &configmap("unwanted")].concat());
    site.in_members(&first, &["get", "deploy", "web", REPLICAS], "1");
    for name in ["gone", "unwanted"] {
        site.in_members(&first, &["get", "cm", name, "-o=name"], &format!("configmap/{name}"));
    }
    // Waits until the status is in the control plane, so that the backup has it.
    eventually("works are applied", CROSSING, || {
        let path = r#"-o=jsonpath={.items[*].status.conditions[?(@.type=="Applied")].status}"#;
        let applied = first.kubectl(&["get", "works", "-A", path]);
        let applied = String::from_utf8_lossy(&applied.stdout).into_owned();
        applied.split_whitespace().count() >= 6 && applied.split_whitespace().all(|status| status == "True")
    });

    let file = site.path("plane.flotilla");
    site.expect_kubectl(&["backup", "--data-dir", &site.path("first"), &file]);
    let about: serde_json::Value =
        serde_json::from_str(&site.expect_kubectl(&["backup", "inspect", &file, "-o", "json"])).expect("JSON");
    assert_eq!((&about["resources"]["deployments.apps"], &about["engine"]), (&1.into(), &"embedded".into()), "{about}");
    assert!(!site.flotilla(&["backup", "--data-dir", &site.path("first"), &file]).status.success(), "it exists");

    // Changes after the backup.
    site.apply(&[deployment(2), configmap("late")].concat());
    assert!(first.kubectl(&["delete", "cm", "gone"]).status.success());
    site.in_members(&first, &["get", "deploy", "web", REPLICAS], "2");
    site.in_members(&first, &["get", "cm", "late", "-o=name"], "configmap/late");
    site.in_members(&first, &["get", "cm", "gone", "-o=name"], "");

    let keys = site.path("keys.yaml");
    site.expect_kubectl(&["encryption", "export", "--data-dir", &site.path("first"), &keys, "--yes"]);
    first.kill();
    std::fs::remove_dir_all(site.path("first")).expect("the plane is lost");
    refuse_damaged(&site, &file);
    let locked = site.flotilla(&["restore", &file, "--data-dir", &site.path("second")]);
    assert!(text(&locked).contains("--encryption-provider-config FILE"), "the keys are missing: {}", text(&locked));
    let with_keys = ["--encryption-provider-config", &keys];
    site.expect_kubectl(&[&["restore", &file, "--data-dir", &site.path("second")][..], &with_keys].concat());
    let second = site.start("second");
    in_safe_mode(&site, &second);
    confirmed(&site, &second);
}

fn refuse_damaged(site: &BackupSite, file: &str) {
    let bytes = std::fs::read(file).expect("the backup");
    let cut = site.path("cut.flotilla");
    std::fs::write(&cut, &bytes[..bytes.len() - 100]).expect("a file");
    let refused = site.flotilla(&["restore", &cut, "--data-dir", &site.path("second")]);
    assert!(!refused.status.success() && text(&refused).contains("cut short"), "{}", text(&refused));
    assert!(!Path::new(&site.path("second")).exists(), "nothing was touched");
}

fn in_safe_mode(site: &BackupSite, second: &Flotilla) {
    assert!(second.log().contains("safe mode"), "{}", second.log());
    site.held_back("change", "Deployment default/web");
    site.held_back("bring back", "ConfigMap default/gone");
    site.held_back("keep", "ConfigMap default/late");
    let why = text(&site.flotilla(&["why", "deployment/web"]));
    assert!(why.contains("held back by safe mode"), "{why}");

    // A user deletes an object and creates another.
    site.apply(&configmap("fresh"));
    site.in_members(second, &["get", "cm", "fresh", "-o=name"], "configmap/fresh");
    assert!(second.kubectl(&["delete", "cm", "unwanted", "--wait=false"]).status.success());
    site.held_back("delete", "ConfigMap default/unwanted");
    let refused = second.kubectl(&["delete", "cluster", "m1"]);
    assert!(text(&refused).contains("held back by safe mode"), "{}", text(&refused));
    site.in_members(second, &["get", "deploy", "web", REPLICAS], "2");
    for (name, expected) in [("unwanted", "configmap/unwanted"), ("late", "configmap/late"), ("gone", "")] {
        site.in_members(second, &["get", "cm", name, "-o=name"], expected);
    }
}

fn confirmed(site: &BackupSite, second: &Flotilla) {
    let plan = site.expect_kubectl(&["restore", "confirm", "--dry-run"]);
    assert!(plan.contains("ConfigMap default/unwanted"), "{plan}");
    let state: serde_json::Value =
        serde_json::from_str(&site.expect_kubectl(&["restore", "status", "-o", "json"])).expect("JSON");
    assert_eq!(state["on"], true, "a look changes nothing");
    site.expect_kubectl(&["restore", "confirm"]);
    site.in_members(second, &["get", "deploy", "web", REPLICAS], "1");
    for (name, expected) in [("unwanted", ""), ("late", "configmap/late"), ("gone", "configmap/gone")] {
        site.in_members(second, &["get", "cm", name, "-o=name"], expected);
    }
    let over = site.expect_kubectl(&["restore", "status"]);
    assert!(over.contains("not in safe mode"), "{over}");
}
