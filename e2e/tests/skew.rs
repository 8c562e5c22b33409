//! Programs of the previous release with those of this tree: server, neighbouring servers on etcd, agent and command line.
//!
//! Needs the previous program in the variable FLOTILLA_PREVIOUS (`tools/previous` builds it); if skipped, prints that.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use e2e::etcd::{EtcdCluster, steady_port};
use e2e::eventually::eventually;
use e2e::fleet::{CROSSING, READY, READY_REPLICAS, application, run, text};
use e2e::flotilla::{Flotilla, binary, kubectl};
use e2e::light_member::LightMember;
use serde_json::Value;

/// A process that is stopped with the test.
struct Running(Child);

impl Running {
    fn start(program: &Path, arguments: &[&str], kubeconfig: Option<&Path>) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(kubeconfig) = kubeconfig {
            command.env("KUBECONFIG", kubeconfig);
        }
        Self(command.spawn().expect("the program starts"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

#[track_caller]
fn good(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(output));
    text(output)
}

/// The program of the previous release.
fn previous_program() -> Option<PathBuf> {
    let previous = std::env::var_os("FLOTILLA_PREVIOUS").map(PathBuf::from).filter(|program| program.exists());
    if previous.is_none() {
        test_skip::skip(format_args!("FLOTILLA_PREVIOUS does not name the program of the previous release"));
    }
    previous
}

/// A server of the previous release, on a directory and a port that outlive it.
struct OldServer<'a> {
    program: &'a Path,
    directory: &'a Path,
    flags: Vec<String>,
    port: u16,
    running: Option<Running>,
}

impl<'a> OldServer<'a> {
    fn start(program: &'a Path, directory: &'a Path, flags: &[String]) -> Self {
        let mut server = Self { program, directory, flags: flags.to_vec(), port: steady_port(), running: None };
        server.restart();
        server
    }

    fn restart(&mut self) {
        let bind = format!("--bind=127.0.0.1:{}", self.port);
        let data = format!("--data-dir={}", self.directory.display());
        let mut arguments = vec!["server", &bind, &data];
        arguments.extend(self.flags.iter().map(String::as_str));
        self.running = Some(Running::start(self.program, &arguments, None));
        let kubeconfig = self.kubeconfig();
        let server = format!("--server=https://127.0.0.1:{}", self.port);
        eventually("the old server is ready", CROSSING, || {
            let ready = ["get", "--raw", "/readyz", &server];
            kubeconfig.exists() && kubectl(&kubeconfig, &ready).stdout.starts_with(b"ok")
        });
    }

    fn kubeconfig(&self) -> PathBuf {
        self.directory.join("karmada-apiserver.config")
    }

    fn kubectl(&self, arguments: &[&str]) -> Output {
        kubectl(&self.kubeconfig(), arguments)
    }
}

/// Data and clients of an old server work with a new one, and a new command line with the old server.
fn replace_server(previous: &Path, data: &Path) -> Flotilla {
    let old = OldServer::start(previous, data, &[]);
    good(&old.kubectl(&["create", "configmap", "kept", "--from-literal=a=b"]));
    let said = good(&run(&binary(), &old.kubeconfig(), &["get", "configmaps"]));
    assert!(said.contains("kept"), "{said}");
    let port = old.port;
    drop(old);
    let server = Flotilla::start_at(data, port, &[]);
    let kept = server.kubectl(&["get", "configmap", "kept", "-o=jsonpath={.data.a}"]);
    assert_eq!(good(&kept).trim(), "b");
    server
}

/// The port of the server that runs the controllers, as read from this one.
fn leader(kubeconfig: &Path) -> String {
    let lease = ["get", "lease", "flotilla-controllers", "-n", "kube-system", "-o=jsonpath={.spec.holderIdentity}"];
    let holder = text(&kubectl(kubeconfig, &lease));
    holder.split([':', '_']).nth(1).unwrap_or_default().to_owned()
}

fn scale(kubeconfig: &Path, member: &LightMember, replicas: &str) {
    good(&kubectl(kubeconfig, &["scale", "deployment/shared", "--replicas", replicas]));
    eventually(&format!("{replicas} replicas are ready"), CROSSING, || {
        member.ask(&["get", "deploy", "shared", READY_REPLICAS]) == replicas
            && text(&kubectl(kubeconfig, &["get", "deploy", "shared", READY_REPLICAS])).trim() == replicas
    });
}

/// Servers are replaced one by one, and back: neighbours of two versions serve the same objects and hand over the controllers.
#[test]
fn neighbouring_servers_of_two_versions_share_an_etcd() {
    let Some(previous) = previous_program() else { return };
    let Some(etcd) = EtcdCluster::start(1) else { return };
    let old_directory = tempfile::tempdir().expect("a directory");
    let mut old = OldServer::start(&previous, old_directory.path(), &etcd.flags());
    let member = LightMember::start(&[]);
    let config = member.kubeconfig.display().to_string();
    good(&run(&previous, &old.kubeconfig(), &["join", "member", "--cluster-kubeconfig", &config]));
    good(&old.kubectl(&["create", "secret", "generic", "first", "--from-literal=a=old"]));

    let (directory, port) = (tempfile::tempdir().expect("a directory"), steady_port());
    let flags = etcd.flags();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let new = Flotilla::start_at(directory.path(), port, &flags);
    assert_eq!(leader(&new.kubeconfig), old.port.to_string(), "the old one keeps the controllers");
    // Each reads what the other wrote, and accepts the credentials of the other.
    let data = "-o=jsonpath={.data.a}";
    assert_eq!(good(&new.kubectl(&["get", "secret", "first", data])).trim(), "b2xk");
    good(&new.kubectl(&["create", "secret", "generic", "second", "--from-literal=a=new"]));
    eventually("the old server has it", CROSSING, || {
        text(&old.kubectl(&["get", "secret", "second", data])).trim() == "bmV3"
    });
    let (to_new, to_old) =
        (format!("--server=https://127.0.0.1:{port}"), format!("--server=https://127.0.0.1:{}", old.port));
    good(&old.kubectl(&["get", "secrets", &to_new]));
    good(&new.kubectl(&["get", "secrets", &to_old]));
    good(&e2e::member::apply(&new.kubeconfig, &["apply", "-f", "-"], &application("shared", "member")));
    scale(&old.kubeconfig(), &member, "3");

    // Forwards: the new server takes the controllers over. Back: the old one does.
    old.running = None;
    eventually("the new server has the controllers", CROSSING, || leader(&new.kubeconfig) == port.to_string());
    scale(&new.kubeconfig, &member, "4");
    old.restart();
    scale(&old.kubeconfig(), &member, "1");
    assert!(new.stop().success());
    eventually("the old server has the controllers", CROSSING, || leader(&old.kubeconfig()) == old.port.to_string());
    scale(&old.kubeconfig(), &member, "2");
    let why = run(&binary(), &old.kubeconfig(), &["get", "deployments", "--operation-scope", "all"]);
    assert!(good(&why).contains("member"), "{}", text(&why));
}

/// As docs/upgrade.md says: the previous release cannot read what this one has encrypted.
#[test]
fn a_data_directory_goes_back_after_its_values_are_in_clear() {
    let Some(previous) = previous_program() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let server = Flotilla::start_in(directory.path(), &[]);
    good(&server.kubectl(&["create", "secret", "generic", "sealed", "--from-literal=a=b"]));
    let file = directory.path().join("encryption/config.yaml");
    let mut config: Value = serde_saphyr::from_str(&std::fs::read_to_string(&file).expect("a file")).expect("YAML");
    config["resources"][0]["providers"].as_array_mut().expect("providers").reverse();
    assert!(config["resources"][0]["providers"][0]["identity"].is_object(), "{config}");
    std::fs::write(&file, config.to_string()).expect("written");
    eventually("all values are in clear", CROSSING, || {
        let report = run(&binary(), &server.kubeconfig, &["encryption", "status", "--json"]);
        let report: Value = serde_json::from_slice(&report.stdout).unwrap_or_default();
        let values = report["values"].as_object();
        report["resources"][0]["provider"] == "identity"
            && report["rewriting"]["rewritten"].as_u64() > Some(0)
            && report["rewriting"]["running"] == false
            && values.is_some_and(|values| values.keys().all(|provider| provider == "identity"))
    });
    assert!(server.stop().success());
    let old = OldServer::start(&previous, directory.path(), &[]);
    assert_eq!(good(&old.kubectl(&["get", "secret", "sealed", "-o=jsonpath={.data.a}"])).trim(), "Yg==");
}

#[test]
fn the_previous_release_works_with_this_one() {
    let Some(previous) = previous_program() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let server = replace_server(&previous, directory.path());
    let (pulled, pushed) = (LightMember::start(&[]), LightMember::start(&[]));

    // An old agent pulls, an old command line joins and asks.
    let plane = server.kubeconfig.display().to_string();
    let flags = ["agent", "--cluster-name=pulled", "--karmada-kubeconfig", &plane];
    let _agent = Running::start(&previous, &flags, Some(&pulled.kubeconfig));
    let member = pushed.kubeconfig.display().to_string();
    good(&run(&previous, &server.kubeconfig, &["join", "pushed", "--cluster-kubeconfig", &member]));
    for cluster in ["pulled", "pushed"] {
        eventually(&format!("{cluster} is ready"), CROSSING, || {
            text(&server.kubectl(&["get", "cluster", cluster, READY])).trim() == "True"
        });
    }
    let applied =
        e2e::member::apply(&server.kubeconfig, &["apply", "-f", "-"], &application("skewed", "pulled, pushed"));
    good(&applied);
    eventually("the workload runs in both members", CROSSING, || {
        text(&server.kubectl(&["get", "deploy", "skewed", READY_REPLICAS])).trim() == "4"
    });
    eventually("the old command line explains it", CROSSING, || {
        run(&previous, &server.kubeconfig, &["why", "deployment/skewed"]).status.success()
    });
    let said = good(&run(&previous, &server.kubeconfig, &["get", "deployments", "--operation-scope", "all"]));
    assert!(said.contains("pulled") && said.contains("pushed"), "{said}");
}
