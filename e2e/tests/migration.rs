//! A loaded Karmada moves to Flotilla and back: objects in members keep their uids and generations, pods keep running.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use e2e::agent::Agent;
use e2e::eventually::eventually;
use e2e::fleet::{READY, run, text};
use e2e::flotilla::{Flotilla, binary, kubectl, programs};
use e2e::karmada_plane::KarmadaPlane;
use e2e::light_member::LightMember;
use e2e::member::apply;

/// Karmada's agent repeats what failed after longer and longer pauses, up to as long as a control plane was away.
const LIMIT: Duration = Duration::from_secs(240);
const CLUSTERS: [&str; 3] = ["m1", "m2", "m3"];
/// Pull members run karmada-agent.
const PULL: &str = "m3";
const DEPLOYMENTS: usize = 12;

/// Lines `KIND NAME UID GENERATION;` of all objects in a member that a workload consists of.
const IDENTITY: &str =
    r#"-o=jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.uid} {.metadata.generation};{"\n"}{end}"#;

type Identities = BTreeMap<&'static str, Vec<String>>;

#[test]
fn a_loaded_karmada_moves_to_flotilla_and_back() {
    if !programs().join("karmada-agent").exists() {
        test_skip::skip(format_args!("karmada-agent is not in {}; `make test` builds it", programs().display()));
        return;
    }
    let (members, karmada) = std::thread::scope(|scope| {
        let members = CLUSTERS.map(|name| scope.spawn(move || (name, LightMember::start(&[]))));
        let karmada = KarmadaPlane::start();
        (members.map(|member| member.join().expect("a member starts")), karmada)
    });
    let Some(karmada) = karmada else { return };
    let members = Members(members.into());
    let kubeconfig = karmada.kubeconfig();
    let agent = members.join(&kubeconfig);
    load(&kubeconfig);
    members.wait_until_loaded();
    let uid = ask(&kubeconfig, &["-n=shop", "get", "deploy", "app-01", "-o=jsonpath={.metadata.uid}"]);
    let token = token(&kubeconfig);
    let before = members.identities();

    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = import(&karmada, directory.path());
    karmada.stop(&[""]);

    // The kubeconfig of the Karmada and the running agent keep working: address and CA are the same.
    let port = port_of(&kubeconfig);
    let flotilla = Flotilla::start_at(&data_dir, port, &["--compat", "karmada-1.18"]);
    wait_until_ready(&kubeconfig, &flotilla.log());
    safe_mode_ends(&kubeconfig);
    assert_eq!(ask(&kubeconfig, &["-n=shop", "get", "deploy", "app-01", "-o=jsonpath={.metadata.uid}"]), uid);
    assert_eq!(ask(&kubeconfig, &["-n=shop", "get", "foos", "-o=jsonpath={.items[*].spec.size}"]), "3");
    accepts_token(&kubeconfig, karmada.directory(), port, &token);
    changes_reach_members(&members, &kubeconfig, "app-00");
    members.assert_kept(&before, &["app-00"]);

    let exported = export(&data_dir, directory.path());
    drop(flotilla);
    let [keys, objects] = ["pki", "objects"].map(|name| exported.join(name).to_str().expect("UTF-8").to_owned());
    let arguments = ["--port", &port.to_string(), "--keys", &keys, "--objects", &objects];
    let karmada = KarmadaPlane::start_with(&arguments).expect("the programs are there");
    // As the guide says: the versions of the new Karmada begin from one again, which a running agent can take long to notice.
    drop(agent);
    let agent = members.start_agent(&karmada.kubeconfig());
    wait_until_ready(&karmada.kubeconfig(), "");
    changes_reach_members(&members, &karmada.kubeconfig(), "app-01");
    members.assert_kept(&without_generations_of_deployments(before), &["app-00", "app-01"]);
    drop(agent);
}

/// Members of the fleet by name.
struct Members(Vec<(&'static str, LightMember)>);

impl Members {
    /// Joins all members, the pull member by its agent.
    fn join(&self, plane: &Path) -> Agent {
        for (name, member) in self.0.iter().filter(|(name, _)| *name != PULL) {
            let kubeconfig = member.kubeconfig.to_str().expect("a path in UTF-8");
            let output =
                run(&programs().join("karmadactl"), plane, &["join", name, "--cluster-kubeconfig", kubeconfig]);
            assert!(output.status.success(), "{}", text(&output));
        }
        let agent = self.start_agent(plane);
        wait_until_ready(plane, "");
        agent
    }

    fn start_agent(&self, plane: &Path) -> Agent {
        let (name, member) = self.0.iter().find(|(name, _)| *name == PULL).expect("a pull member");
        Agent::karmadas_outside(plane, (name, &member.kubeconfig), &[]).expect("it is there")
    }

    fn wait_until_loaded(&self) {
        for (name, member) in &self.0 {
            eventually(&format!("all Deployments are ready in {name}"), LIMIT, || {
                let ready = member.ask(&["-n=shop", "get", "deploy", "-o=jsonpath={.items[*].status.readyReplicas}"]);
                ready.split_whitespace().count() == DEPLOYMENTS
                    && member.ask(&["-n=shop", "get", "svc,cm", "-l=karmada.io/managed", "-o=name"]).lines().count()
                        == 2
            });
        }
    }

    fn identities(&self) -> Identities {
        let of = |member: &LightMember| {
            let listed = member.expect_kubectl(&["-n=shop", "get", "deploy,rs,svc,cm,pods", IDENTITY]);
            listed.lines().map(str::to_owned).collect()
        };
        self.0.iter().map(|(name, member)| (*name, of(member))).collect()
    }

    /// All objects are the same, except those of the named Deployments, whose pods are the same and perhaps more.
    #[track_caller]
    fn assert_kept(&self, before: &Identities, changed: &[&str]) {
        let after = self.identities();
        for (member, expected) in before {
            assert!(expected.len() > 3 * DEPLOYMENTS, "{member} is loaded: {expected:?}");
            let is_changed = |line: &str| changed.iter().any(|name| line.contains(name));
            for line in expected.iter().filter(|line| line.starts_with("Pod ") || !is_changed(line)) {
                let is_kept = after[member].iter().any(|found| found.starts_with(line));
                assert!(is_kept, "{member} had {line:?}, and now:\n{}", after[member].join("\n"));
            }
        }
    }
}

/// Karmada writes the new uid of a template into an annotation, and an annotation counts for the generation of a Deployment.
fn without_generations_of_deployments(mut identities: Identities) -> Identities {
    for line in identities.values_mut().flatten().filter(|line| line.starts_with("Deployment ")) {
        let (identity, _) = line.rsplit_once(' ').expect("a generation");
        *line = format!("{identity} ");
    }
    identities
}

fn ask(plane: &Path, arguments: &[&str]) -> String {
    String::from_utf8_lossy(&kubectl(plane, arguments).stdout).trim().to_owned()
}

fn wait_until_ready(plane: &Path, log: &str) {
    for name in CLUSTERS {
        eventually(&format!("cluster {name} is ready {log}"), LIMIT, || {
            ask(plane, &["get", "cluster", name, READY]) == "True"
        });
    }
}

/// Deployments under two policies and an override, a Service, a ConfigMap, a custom kind, and an account with a token.
fn load(plane: &Path) {
    let mut documents = String::from(include_str!("../testdata/migration/load.yaml"));
    for number in 0..DEPLOYMENTS {
        let (name, policy) = (format!("app-{number:02}"), if number % 2 == 0 { "duplicated" } else { "divided" });
        documents.push_str(&format!(
            "---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: shop, labels: {{policy: {policy}}}}}
spec:
  replicas: 6
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec: {{containers: [{{name: main, image: 'nginx:1.27'}}]}}
"
        ));
    }
    let (first, rest) = documents.split_once("# Custom objects\n").expect("a mark");
    let output = apply(plane, &["apply", "-f", "-"], first);
    assert!(output.status.success(), "{}", text(&output));
    eventually("the custom kind is served", LIMIT, || apply(plane, &["apply", "-f", "-"], rest).status.success());
}

fn token(plane: &Path) -> String {
    let token = ask(plane, &["-n=shop", "create", "token", "shopper", "--duration=1h"]);
    assert!(!token.is_empty());
    token
}

/// A token of the Karmada authenticates its account.
fn accepts_token(plane: &Path, keys: &Path, port: u16, token: &str) {
    let empty = plane.with_extension("empty");
    std::fs::write(&empty, "").expect("written");
    let server = format!("--server=https://127.0.0.1:{port}");
    let ca = format!("--certificate-authority={}", keys.join("ca.crt").display());
    let output = kubectl(&empty, &[&server, &ca, &format!("--token={token}"), "auth", "whoami"]);
    assert!(text(&output).contains("system:serviceaccount:shop:shopper"), "{}", text(&output));
}

/// Imports from etcd and from the API, which must find the same. Returns the data directory of the former.
fn import(karmada: &KarmadaPlane, directory: &Path) -> std::path::PathBuf {
    karmada.stop(&["karmada-controller-manager", "karmada-scheduler"]);
    let path = |path: &Path| path.to_str().expect("a path in UTF-8").to_owned();
    let keys = ["ca.crt", "ca.key", "sa.key"].map(|name| path(&karmada.directory().join(name)));
    let kubeconfig = path(&karmada.kubeconfig());
    let etcd = karmada.etcd();
    let import = |source: [&str; 2], target: &Path, flag: &str| {
        let flags = ["--ca-file", &keys[0], "--ca-key-file", &keys[1], "--service-account-key-file", &keys[2], flag];
        let place = path(target);
        let words: Vec<&str> = [&["import"], &source[..], &["--data-dir", &place], &flags[..]].concat();
        run(&binary(), &karmada.kubeconfig(), &words)
    };
    let (by_etcd, by_api) = (directory.join("etcd"), directory.join("api"));
    let dry = import(["--from-kubeconfig", &kubeconfig], &by_api, "--dry-run");
    assert!(dry.status.success() && !by_api.exists(), "{}", text(&dry));
    for part in [
        "m1  Push  https://127.0.0.1:",
        "m3  Pull  its agent connects",
        "agents stay valid",
        "APIService.apiregistration.k8s.io",
        "Flotilla serves this group without an aggregated server",
        "its rules are part of the API server of Flotilla",
        "Flotilla serves this kind without a definition",
    ] {
        assert!(text(&dry).contains(part), "{part:?} is not in\n{}", text(&dry));
    }
    assert!(!text(&dry).contains("DOES NOT ANSWER") && !text(&dry).contains("Not supported"), "{}", text(&dry));
    let refused = import(["--from-etcd", &etcd], &by_etcd, "--log=info");
    assert!(!refused.status.success() && text(&refused).contains("--yes") && !by_etcd.join("store").exists());
    let [read_etcd, read_api] =
        [(["--from-etcd", etcd.as_str()], &by_etcd), (["--from-kubeconfig", kubeconfig.as_str()], &by_api)].map(
            |(source, target)| {
                let output = import(source, target, "--yes");
                let said = text(&output);
                assert!(output.status.success() && !said.contains("Not supported"), "{said}");
                let (from, to) =
                    (said.find("Objects to take over").expect("a plan"), said.find("\nLeft out:").expect("a list"));
                said[from..to].to_owned()
            },
        );
    assert_eq!(read_etcd, read_api);
    let again = import(["--from-etcd", &etcd], &by_etcd, "--yes");
    assert!(!again.status.success() && text(&again).contains("already has the data"), "{}", text(&again));
    by_etcd
}

fn port_of(kubeconfig: &Path) -> u16 {
    let url = ask(kubeconfig, &["config", "view", "--minify", "-o=jsonpath={.clusters[0].cluster.server}"]);
    url.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
}

/// No change of a workload is on hold.
fn safe_mode_ends(plane: &Path) {
    // Both are written without an effect on a workload: the role gets a user of Flotilla's own agents, and the list of addresses
    // of a Service is left to the member.
    let expected = |line: &str| {
        line.contains(" change  ClusterRole karmada-impersonator") || line.contains(" change  Service shop/web")
    };
    let mut status = String::new();
    eventually("push members were compared with the control plane", LIMIT, || {
        status = text(&run(&binary(), plane, &["restore", "status"]));
        status.lines().filter(|line| expected(line)).count() == 4
    });
    assert!(status.contains("from the etcd of a Karmada at"), "{status}");
    let (_, held) = status.split_once("CLUSTER  ACTION  OBJECT\n").expect("a list");
    let unexpected = held.lines().take_while(|line| !line.is_empty()).find(|line| !expected(line));
    assert_eq!(unexpected, None, "{status}");
    assert!(status.contains("never deleted): none."), "{status}");
    let confirmed = run(&binary(), plane, &["restore", "confirm"]);
    assert!(confirmed.status.success(), "{}", text(&confirmed));
}

/// One more replica in every member, push and pull.
fn changes_reach_members(members: &Members, plane: &Path, name: &str) {
    let replicas = "-o=jsonpath={.spec.replicas}";
    let in_members = || -> Vec<i64> {
        let of = |member: &LightMember| {
            member.ask(&["-n=shop", "get", "deploy", name, replicas]).parse().unwrap_or_default()
        };
        members.0.iter().map(|(_, member)| of(member)).collect()
    };
    let wanted: Vec<i64> = in_members().iter().map(|replicas| replicas + 1).collect();
    let is_divided =
        ask(plane, &["-n=shop", "get", "deploy", name, "-o=jsonpath={.metadata.labels.policy}"]) == "divided";
    let total: i64 = if is_divided { wanted.iter().sum() } else { wanted[0] };
    let scaled = kubectl(plane, &["-n=shop", "scale", "deploy", name, &format!("--replicas={total}")]);
    assert!(scaled.status.success(), "{}", text(&scaled));
    let mut seen = Vec::new();
    let reached = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        eventually(&format!("{name} has {wanted:?} replicas in the members"), LIMIT, || {
            seen = in_members();
            seen == wanted
        });
    }));
    if let Err(panic) = reached {
        eprintln!("{name} has {seen:?} replicas; bindings:\n{}", ask(plane, &["-n=shop", "get", "rb", "-o=yaml"]));
        std::panic::resume_unwind(panic);
    }
}

fn export(data_dir: &Path, directory: &Path) -> std::path::PathBuf {
    let exported = directory.join("karmada");
    let words = ["export", "--to=karmada", "--data-dir", data_dir.to_str().expect("UTF-8"), "-o"];
    let output = run(&binary(), data_dir, &[&words[..], &[exported.to_str().expect("UTF-8")]].concat());
    assert!(output.status.success(), "{}", text(&output));
    for part in ["60-works.yaml", "Without a counterpart in Karmada", "bound to the uid of its account"] {
        assert!(text(&output).contains(part), "{part:?} is not in\n{}", text(&output));
    }
    exported
}
