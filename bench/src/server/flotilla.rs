//! `flotilla server`, with its default settings unless a measurement needs others, and what its kubeconfig says.

use std::path::Path;
use std::process::{Child, Command};
use std::time::Instant;

use anyhow::Context;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use crate::options::{Options, Protocol};
use crate::server::{POLL, Server, Side, check_alive, data_directory, end, spawn, wait_until_ready};
use crate::wire::{Identity, Target};

pub async fn start(options: &Options, arguments: &[String]) -> anyhow::Result<Server> {
    let directory = data_directory(options)?;
    let program = options.flotilla.as_ref().context("no flotilla program was built")?;
    let mut command = Command::new(program);
    command.args(["server", "--bind", "127.0.0.1:0", "--data-dir"]).arg(directory.path().join("data"));
    command.args(arguments);
    let log = directory.path().join("server.log");
    let start = Instant::now();
    let mut children = vec![spawn(command, &log)?];
    let kubeconfig = directory.path().join("data/karmada-apiserver.config");
    let ready = async {
        let target = wait_for_kubeconfig(&kubeconfig, options.protocol, &mut children, &log).await?;
        wait_until_ready(&target, &mut children, &log).await?;
        anyhow::Ok(target)
    };
    match ready.await {
        Ok(target) => {
            let ready_after = start.elapsed();
            Ok(Server { side: Side::Flotilla, target, ready_after, children, directory })
        }
        Err(error) => {
            end(&mut children);
            Err(error.context("flotilla server"))
        }
    }
}

async fn wait_for_kubeconfig(
    path: &Path,
    protocol: Protocol,
    children: &mut [Child],
    log: &Path,
) -> anyhow::Result<Target> {
    let start = Instant::now();
    loop {
        // Half a file is not an error yet: the server may still be writing.
        if let Ok(text) = std::fs::read_to_string(path)
            && let Ok(target) = read_kubeconfig(&text, protocol)
        {
            return Ok(target);
        }
        check_alive(children, start, log)?;
        tokio::time::sleep(POLL).await;
    }
}

/// Where a kubeconfig leads, with certificates inside it or in files it names.
pub fn target_of_kubeconfig(path: &Path, protocol: Protocol) -> anyhow::Result<Target> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    read_kubeconfig(&text, protocol)
}

fn read_kubeconfig(text: &str, protocol: Protocol) -> anyhow::Result<Target> {
    let config: Value = serde_saphyr::from_str(text).context("the kubeconfig is not YAML")?;
    let cluster = &config["clusters"][0]["cluster"];
    let user = &config["users"][0]["user"];
    let url = cluster["server"].as_str().context("the kubeconfig names no server")?;
    let authority = url.strip_prefix("https://").context("the server is not reached by https")?.trim_end_matches('/');
    let identity = Identity {
        ca: &decode(cluster, "certificate-authority-data")?,
        certificate: &decode(user, "client-certificate-data")?,
        key: &decode(user, "client-key-data")?,
    };
    Target::new(authority.to_owned(), &identity, protocol)
}

fn decode(part: &Value, field: &str) -> anyhow::Result<Vec<u8>> {
    if let Some(file) = part[field.trim_end_matches("-data")].as_str() {
        return std::fs::read(file).with_context(|| format!("cannot read {file}"));
    }
    let text = part[field].as_str().with_context(|| format!("the kubeconfig has no {field}"))?;
    BASE64_STANDARD.decode(text).with_context(|| format!("{field} is not base64"))
}
