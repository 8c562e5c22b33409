//! Installs MicroK8s in a machine from snap, enables addons, and rewrites its kubeconfig for the forwarded port.

use crate::machine::{Error, Output, Provisioner};

const CHANNEL: &str = "1.30/stable";
const ADDONS: &[&str] = &["dns", "hostpath-storage"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstallStep {
    pub doing: String,
    pub command: Vec<String>,
}

/// The commands run in the machine, in order. Each is idempotent.
pub fn steps() -> Vec<InstallStep> {
    let step = |doing: &str, command: &[&str]| InstallStep {
        doing: doing.to_owned(),
        command: command.iter().map(|word| (*word).to_owned()).collect(),
    };
    let mut steps = vec![
        step("waiting for snapd", &["snap", "wait", "system", "seed.loaded"]),
        step("installing MicroK8s", &["snap", "install", "microk8s", "--classic", &format!("--channel={CHANNEL}")]),
        step("waiting for MicroK8s", &["microk8s", "status", "--wait-ready", "--timeout", "300"]),
    ];
    steps.extend(ADDONS.iter().map(|addon| step(&format!("enabling {addon}"), &["microk8s", "enable", addon])));
    steps
}

/// Installs MicroK8s in a running machine and returns its kubeconfig for this host, where `server` (such as
/// `https://127.0.0.1:16441`) forwards to its port 16443.
pub async fn install(provisioner: &dyn Provisioner, machine: &str, server: &str) -> Result<String, Error> {
    let snap = run(provisioner, machine, &["/bin/sh", "-c", "command -v snap"]).await?;
    if snap.code != 0 {
        return Err(Error::Host {
            problem: format!("MicroK8s is installed with snap, but the image of {machine} has no snap"),
            remedy: "use an image that has it (--image ubuntu:22.04), or our own member (without --microk8s)"
                .to_owned(),
        });
    }
    for step in steps() {
        let output = provisioner.exec(machine, &step.command, None).await?;
        if output.code != 0 {
            return Err(Error::Failed { doing: format!("{} in {machine}", step.doing), why: said(&output) });
        }
    }
    let config = run(provisioner, machine, &["microk8s", "config"]).await?;
    if config.code != 0 {
        return Err(Error::Failed { doing: format!("reading the kubeconfig of {machine}"), why: said(&config) });
    }
    point_at(&String::from_utf8_lossy(&config.stdout), server).ok_or_else(|| Error::Failed {
        doing: format!("reading the kubeconfig of {machine}"),
        why: "it has no server".to_owned(),
    })
}

async fn run(provisioner: &dyn Provisioner, machine: &str, words: &[&str]) -> Result<Output, Error> {
    let command: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    provisioner.exec(machine, &command, None).await
}

fn said(output: &Output) -> String {
    let text = [&output.stderr, &output.stdout].map(|bytes| String::from_utf8_lossy(bytes).trim().to_owned());
    let text = text.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
    format!("it exited with code {}: {text}", output.code)
}

/// Replaces every `server` in a kubeconfig; everything else, including comments, is kept. `None` if there is none.
pub fn point_at(kubeconfig: &str, server: &str) -> Option<String> {
    let mut found = false;
    let lines: Vec<String> = kubeconfig
        .lines()
        .map(|line| match line.split_once("server:") {
            Some((indent, _)) if indent.trim().trim_start_matches("- ").trim_matches('-').trim().is_empty() => {
                found = true;
                format!("{indent}server: {server}")
            }
            _ => line.to_owned(),
        })
        .collect();
    found.then(|| lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Mutex;

    use async_trait::async_trait;

    use super::*;
    use crate::machine::{Condition, Forward, Machine};

    const CONFIG: &str = "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: QUJD\n    \
        server: https://10.164.0.5:16443\n  name: microk8s-cluster\n# proxy-server: no\n";

    /// A machine that answers from a table of failing commands and outputs.
    struct Scripted {
        fails: &'static str,
        ran: Mutex<Vec<String>>,
    }

    #[async_trait]
    impl Provisioner for Scripted {
        fn name(&self) -> &'static str {
            "scripted"
        }
        async fn create(&self, _: &Machine) -> Result<(), Error> {
            Ok(())
        }
        async fn start(&self, _: &str) -> Result<(), Error> {
            Ok(())
        }
        async fn stop(&self, _: &str) -> Result<(), Error> {
            Ok(())
        }
        async fn delete(&self, _: &str) -> Result<(), Error> {
            Ok(())
        }
        async fn condition(&self, _: &str) -> Result<Condition, Error> {
            Ok(Condition::Running)
        }
        async fn exec(&self, _: &str, command: &[String], _: Option<Vec<u8>>) -> Result<Output, Error> {
            let line = command.join(" ");
            let code = i32::from(!self.fails.is_empty() && line.contains(self.fails));
            let stdout = if line == "microk8s config" { CONFIG.into() } else { Vec::new() };
            self.ran.lock().unwrap().push(line);
            Ok(Output { code, stdout, stderr: b"oops".to_vec() })
        }
        async fn push_file(&self, _: &str, _: &Path, _: &str) -> Result<(), Error> {
            Ok(())
        }
        async fn read_file(&self, _: &str, _: &str) -> Result<Vec<u8>, Error> {
            Ok(Vec::new())
        }
        async fn forward(&self, _: &str, _: &Forward) -> Result<(), Error> {
            Ok(())
        }
        async fn unforward(&self, _: &str, _: &str) -> Result<(), Error> {
            Ok(())
        }
    }

    async fn check(fails: &'static str) -> (Result<String, String>, Vec<String>) {
        let machine = Scripted { fails, ran: Mutex::default() };
        let result = install(&machine, "member1", "https://127.0.0.1:16441").await;
        (result.map_err(|error| error.to_string()), machine.ran.into_inner().unwrap())
    }

    #[tokio::test]
    async fn microk8s_is_installed_and_its_kubeconfig_uses_the_forwarded_port() {
        let (result, ran) = check("").await;
        let config = result.unwrap();
        assert!(config.contains("    server: https://127.0.0.1:16441\n"), "{config}");
        assert!(config.contains("# proxy-server: no"), "{config}");
        assert_eq!(ran[2], "snap install microk8s --classic --channel=1.30/stable");
        assert_eq!(ran[4..], ["microk8s enable dns", "microk8s enable hostpath-storage", "microk8s config"]);
    }

    #[tokio::test]
    async fn without_snap_nothing_is_run_and_the_remedy_is_named() {
        let (result, ran) = check("command -v snap").await;
        let error = result.unwrap_err();
        assert!(error.contains("has no snap") && error.contains("--image ubuntu:22.04"), "{error}");
        assert_eq!(ran.len(), 1);
    }

    #[tokio::test]
    async fn a_failed_step_is_named_with_its_output() {
        let (result, _) = check("enable dns").await;
        assert_eq!(result.unwrap_err(), "enabling dns in member1: it exited with code 1: oops");
    }

    #[test]
    fn a_file_without_a_server_is_rejected() {
        assert_eq!(point_at("kind: Config\n", "https://x"), None);
    }
}
