//! Programs of the previous release with those of this tree: server, agent and command line.
//!
//! Needs the previous program in the variable FLOTILLA_PREVIOUS (`tools/previous` builds it); if skipped, prints that.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use e2e::eventually::eventually;
use e2e::fleet::{CROSSING, READY, READY_REPLICAS, application, run, text};
use e2e::flotilla::{Flotilla, binary, kubectl};
use e2e::light_member::LightMember;

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

/// Data and clients of an old server work with a new one, and a new command line with the old server.
fn replace_server(previous: &Path, data: &Path) -> Flotilla {
    let port = e2e::etcd::steady_port();
    let kubeconfig = data.join("karmada-apiserver.config");
    let bind = format!("127.0.0.1:{port}");
    let old = Running::start(previous, &["server", "--bind", &bind, "--data-dir", &data.display().to_string()], None);
    eventually("the old server is ready", CROSSING, || {
        kubeconfig.exists() && kubectl(&kubeconfig, &["get", "--raw", "/readyz"]).stdout.starts_with(b"ok")
    });
    good(&kubectl(&kubeconfig, &["create", "configmap", "kept", "--from-literal=a=b"]));
    let said = good(&run(&binary(), &kubeconfig, &["get", "configmaps"]));
    assert!(said.contains("kept"), "{said}");
    drop(old);
    let server = Flotilla::start_at(data, port, &[]);
    let kept = server.kubectl(&["get", "configmap", "kept", "-o=jsonpath={.data.a}"]);
    assert_eq!(good(&kept).trim(), "b");
    server
}

#[test]
fn the_previous_release_works_with_this_one() {
    let previous = std::env::var_os("FLOTILLA_PREVIOUS").map(PathBuf::from);
    let Some(previous) = previous.filter(|program| program.exists()) else {
        test_skip::skip(format_args!("FLOTILLA_PREVIOUS does not name the program of the previous release"));
        return;
    };
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
