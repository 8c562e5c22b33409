//! Finds the programs to measure, or builds them before the measurement.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, bail, ensure};
use tokio::process::Command;

use crate::machine;
use crate::options::BenchOptions;

pub const API: &[&str] = &["etcd", "kube-apiserver"];
pub const MEMBERS: &[&str] = &["etcd", "kube-apiserver", "kube-controller-manager", "karmadactl"];
pub const KARMADA: &[&str] = &[
    "etcd",
    "kube-apiserver",
    "kubectl",
    "kube-controller-manager",
    "karmadactl",
    "karmada-aggregated-apiserver",
    "karmada-controller-manager",
    "karmada-scheduler",
    "karmada-webhook",
];

/// Builds flotilla with the dist profile unless a program was given.
pub async fn with_flotilla(options: &BenchOptions) -> anyhow::Result<BenchOptions> {
    let mut options = options.clone();
    std::fs::create_dir_all(&options.data).with_context(|| format!("cannot create {}", options.data.display()))?;
    if options.flotilla.is_none() {
        eprintln!("building flotilla (dist profile) ...");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built =
            Command::new(cargo).args(["build", "--profile", "dist", "-p", "cli"]).current_dir(root()).status().await;
        ensure!(built.context("cannot run cargo")?.success(), "failed to build flotilla");
        let own = std::env::current_exe().context("this program has no path")?;
        let target = own.ancestors().nth(2).context("this program is not in a target directory")?;
        options.flotilla = Some(target.join("dist/flotilla"));
    }
    let program = flotilla(&options)?;
    let program = program.canonicalize().with_context(|| format!("{} does not exist", program.display()))?;
    options.flotilla = Some(program);
    Ok(options)
}

pub fn flotilla(options: &BenchOptions) -> anyhow::Result<&Path> {
    options.flotilla.as_deref().context("no flotilla program was built")
}

/// Builds the missing programs.
pub async fn ensure_present(options: &BenchOptions, names: &[&str]) -> anyhow::Result<()> {
    let missing = |names: &[&str]| -> Vec<String> {
        let is_missing = |name: &&&str| !options.kube_bin().join(name).exists();
        names.iter().filter(is_missing).map(|name| (*name).to_owned()).collect()
    };
    let wanted = missing(names);
    if wanted.is_empty() {
        return Ok(());
    }
    eprintln!("building {} ...", wanted.join(", "));
    let built = Command::new(root().join("tools/kube/build"))
        .args(&wanted)
        .env("FLOTILLA_KUBE_BIN", options.kube_bin())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .context("cannot run tools/kube/build")?;
    let still = missing(names);
    if !still.is_empty() {
        bail!("failed to build {}: {}", still.join(", "), String::from_utf8_lossy(&built.stderr).trim());
    }
    Ok(())
}

pub fn versions(options: &BenchOptions) -> anyhow::Result<Vec<String>> {
    let mut versions = vec![machine::version(flotilla(options)?, &["--version"])];
    for (program, argument) in
        [("kube-apiserver", "--version"), ("etcd", "--version"), ("karmada-controller-manager", "version")]
    {
        let file = options.kube_bin().join(program);
        if file.exists() && !options.alone {
            let version = machine::version(&file, &[argument]);
            versions.push(if version.contains(program) { version } else { format!("{program} {version}") });
        }
    }
    Ok(versions)
}

/// The root of the source tree of this program.
pub fn root() -> PathBuf {
    let crate_folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    crate_folder.parent().map_or(crate_folder.clone(), PathBuf::from)
}
