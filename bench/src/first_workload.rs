//! Size of the program and its image, and the time from an empty directory to the first workload in a testbed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::options::BenchOptions;
use crate::programs;
use crate::report::rows::{Better, Row, RowTarget};
use crate::server::data_directory;

const READY_WITHIN: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(20);
const MANIFESTS: [&str; 2] = ["examples/nginx/deployment.yaml", "examples/nginx/policy.yaml"];
/// Ready and wanted replicas of the template: the policy gives two members all of its two replicas.
const ALL_READY: &str = "4/2";

#[derive(Serialize, Deserialize)]
pub struct FirstWorkload {
    program_mib: f64,
    /// Present if `make image` has built one next to the program.
    image_mib: Option<f64>,
    /// From the start of `flotilla up` until its three members are ready.
    testbed_seconds: f64,
    /// From the start of `flotilla up` until the replicas in both members are ready in the template.
    workload_seconds: f64,
}

pub async fn measure(options: &BenchOptions) -> anyhow::Result<FirstWorkload> {
    let program = programs::flotilla(options)?;
    let directory = data_directory(options)?;
    let image = program.with_file_name("flotilla-image.tar");
    let begun = Instant::now();
    let testbed = Testbed { program: program.to_owned(), home: directory.path().to_owned() };
    testbed.start()?;
    let testbed_seconds = begun.elapsed().as_secs_f64();
    testbed.apply()?;
    while testbed.replicas()? != ALL_READY {
        anyhow::ensure!(begun.elapsed() < READY_WITHIN, "the first workload was not ready within {READY_WITHIN:?}");
        tokio::time::sleep(POLL).await;
    }
    let workload_seconds = begun.elapsed().as_secs_f64();
    Ok(FirstWorkload { program_mib: mib(program)?, image_mib: mib(&image).ok(), testbed_seconds, workload_seconds })
}

pub fn rows(first: &FirstWorkload) -> Vec<Row> {
    let row = |what: &str, unit, value, target| Row::new(what, unit, Better::Lower, value, None, target);
    let mut rows = vec![
        row("testbed with three members, ready from an empty directory", "s", first.testbed_seconds, None),
        row(
            "first workload ready, from the start of `flotilla up`",
            "s",
            first.workload_seconds,
            Some(RowTarget::Below(10.0)),
        ),
        row("size of the program", "MiB", first.program_mib, None),
    ];
    rows.extend(first.image_mib.map(|size| row("size of the container image", "MiB", size, None)));
    rows
}

/// Deleted when dropped, also when the benchmark is interrupted.
struct Testbed {
    program: PathBuf,
    home: PathBuf,
}

impl Testbed {
    fn start(&self) -> anyhow::Result<()> {
        let up = ["up", "--port=0", "--registry-port=0", "--member-port=0", "--no-links", "--runtime=simulated"];
        run(self.command(&up)).map(drop)
    }

    fn apply(&self) -> anyhow::Result<()> {
        let mut command = self.client("apply");
        MANIFESTS.iter().for_each(|file| {
            command.args(["-f", file]);
        });
        run(command).map(drop)
    }

    fn replicas(&self) -> anyhow::Result<String> {
        let mut command = self.client("get");
        command.args(["deployment", "nginx", "-o", "jsonpath={.status.readyReplicas}/{.spec.replicas}"]);
        run(command)
    }

    /// A command about the testbed itself.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).arg("--home").arg(&self.home);
        command
    }

    /// A command that calls its control plane.
    fn client(&self, name: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(name).arg("--kubeconfig").arg(self.home.join("default/karmada-apiserver.config"));
        command
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        if let Err(error) = run(self.command(&["down", "--delete"])) {
            eprintln!("the testbed was not deleted: {error:#}");
        }
    }
}

/// Returns what it prints, without white space around it.
fn run(mut command: Command) -> anyhow::Result<String> {
    command.env_remove("KUBECONFIG").env_remove("FLOTILLA_HOME").stdin(Stdio::null());
    let output = command.output().with_context(|| format!("failed to start {command:?}"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{command:?} failed: {error}");
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn mib(file: &Path) -> anyhow::Result<f64> {
    let size = std::fs::metadata(file).with_context(|| format!("cannot read {}", file.display()))?.len();
    Ok(size as f64 / (1024.0 * 1024.0))
}
