//! The real Karmada as started by `tools/kube/karmada/up`: its processes, and restarts of two of them.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::options::BenchOptions;
use crate::server::{Children, data_directory, target_of_kubeconfig};
use crate::wire::ServerTarget;
use crate::{process, programs};

const POLL: Duration = Duration::from_millis(5);
const END_WAIT: Duration = Duration::from_secs(10);

/// The processes restarted to measure a restart while the API stays up.
pub const WORKERS: [&str; 2] = ["karmada-controller-manager", "karmada-scheduler"];

/// Settings beyond the defaults that raise Karmada's client rate limits.
pub const RAISED: [(&str, &[&str]); 2] = [
    (
        WORKERS[0],
        &[
            "--kube-api-qps=2000",
            "--kube-api-burst=4000",
            "--cluster-api-qps=2000",
            "--cluster-api-burst=4000",
            "--rate-limiter-qps=2000",
            "--rate-limiter-bucket-size=4000",
            "--concurrent-work-syncs=20",
            "--concurrent-resourcebinding-syncs=20",
            "--concurrent-resource-template-syncs=20",
        ],
    ),
    (
        WORKERS[1],
        &["--kube-api-qps=2000", "--kube-api-burst=4000", "--rate-limiter-qps=2000", "--rate-limiter-bucket-size=4000"],
    ),
];

pub struct Karmada {
    pub target: ServerTarget,
    pub kubeconfig: PathBuf,
    /// From the start of its etcd until the controller manager is healthy, including the installation of its CRDs.
    pub ready_after: Duration,
    running: Running,
    /// The workers started by this program.
    own: Children,
    bin: PathBuf,
}

/// Stops the processes started by the script, even if it failed.
struct Running {
    directory: tempfile::TempDir,
}

impl Running {
    /// Names and process ids in start order.
    fn processes(&self) -> Vec<(String, u32)> {
        let text = std::fs::read_to_string(self.directory.path().join("pids")).unwrap_or_default();
        text.lines()
            .filter_map(|line| line.split_once(' '))
            .filter_map(|(name, pid)| Some((name.to_owned(), pid.parse().ok()?)))
            .collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for (_, pid) in self.processes().into_iter().rev() {
            process::end_in(pid, self.directory.path());
        }
    }
}

impl Karmada {
    pub async fn start(options: &BenchOptions) -> anyhow::Result<Self> {
        let running = Running { directory: data_directory(options)? };
        let directory = running.directory.path();
        let mut script = tokio::process::Command::new(programs::root().join("tools/kube/karmada/up"));
        script.arg(directory).env("FLOTILLA_KUBE_BIN", options.kube_bin()).kill_on_drop(true);
        let script = script.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let script = script.context("cannot run tools/kube/karmada/up")?;
        let ended = script.wait_with_output();
        // Keys are created before etcd starts, as by any installer, and do not count.
        let (start, ended) = tokio::join!(first_process(directory), ended);
        let ended = ended.context("tools/kube/karmada/up")?;
        if !ended.status.success() {
            bail!("failed to start karmada: {}", String::from_utf8_lossy(&ended.stderr).trim());
        }
        let kubeconfig = directory.join("kubeconfig");
        let target = target_of_kubeconfig(&kubeconfig, options.protocol)?;
        let ready_after = start.map(|start| start.elapsed()).unwrap_or_default();
        let bin = options.kube_bin();
        Ok(Self { target, kubeconfig, ready_after, running, own: Children::default(), bin })
    }

    /// Names and process ids of the running processes.
    pub fn processes(&self) -> Vec<(String, u32)> {
        let all = self.running.processes().into_iter().chain(self.own.pids().into_iter().filter_map(|pid| {
            let program = process::command_line(pid).ok()?.into_iter().next()?;
            Some((Path::new(&program).file_name()?.to_string_lossy().into_owned(), pid))
        }));
        all.filter(|(_, pid)| !process::has_ended(*pid)).collect()
    }

    /// Stops the controller manager and the scheduler.
    pub async fn stop_workers(&mut self) -> anyhow::Result<Vec<Vec<String>>> {
        let mut commands = Vec::new();
        for (name, pid) in self.processes().into_iter().filter(|(name, _)| WORKERS.contains(&name.as_str())) {
            commands.push(process::command_line(pid)?);
            process::end_in(pid, self.running.directory.path());
            let start = Instant::now();
            // Our own children are reaped below, and count as exited before that.
            while !process::has_ended(pid) {
                if start.elapsed() > END_WAIT {
                    bail!("{name} does not exit");
                }
                tokio::time::sleep(POLL).await;
            }
        }
        self.own.end();
        Ok(commands)
    }

    /// Starts them with their previous arguments, with or without the raised settings, and waits until they are
    /// healthy.
    pub async fn start_workers(&mut self, commands: &[Vec<String>], raised: bool) -> anyhow::Result<Duration> {
        let begin = Instant::now();
        let mut health = Vec::new();
        for command in commands {
            let (program, arguments) = command.split_first().context("a worker has a program")?;
            let name = Path::new(program).file_name().map(|name| name.to_string_lossy().into_owned());
            let name = name.context("a program has a name")?;
            let of_name = RAISED.iter().find(|(of, _)| *of == name).map(|(_, settings)| *settings).unwrap_or_default();
            let is_raised = |argument: &&String| of_name.iter().any(|setting| setting == argument);
            let mut again = std::process::Command::new(self.bin.join(&name));
            again.args(arguments.iter().filter(|argument| !is_raised(argument)));
            if raised {
                again.args(of_name);
            }
            self.own.spawn(again, &self.running.directory.path().join(format!("{name}-again.log")))?;
            health.extend(health_address(arguments));
        }
        for address in health {
            wait_until_healthy(&address).await?;
        }
        Ok(begin.elapsed())
    }
}

/// When the script started its first process; `None` if it exited before.
async fn first_process(directory: &Path) -> Option<Instant> {
    let limit = Instant::now() + Duration::from_secs(60);
    while Instant::now() < limit {
        if std::fs::metadata(directory.join("pids")).is_ok_and(|pids| pids.len() > 0) {
            return Some(Instant::now());
        }
        tokio::time::sleep(POLL).await;
    }
    None
}

fn health_address(arguments: &[String]) -> Option<String> {
    let at = arguments.iter().position(|argument| argument == "--health-probe-bind-address")?;
    arguments.get(at + 1).cloned()
}

async fn wait_until_healthy(address: &str) -> anyhow::Result<()> {
    let start = Instant::now();
    while !crate::server::answers_ok(address, "/healthz").await {
        if start.elapsed() > Duration::from_secs(60) {
            bail!("no healthy server at {address}");
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::health_address;

    #[test]
    fn the_health_address_is_parsed_from_its_option() {
        let arguments = ["--kubeconfig", "x", "--health-probe-bind-address", "127.0.0.1:1"].map(str::to_owned);
        assert_eq!(health_address(&arguments).as_deref(), Some("127.0.0.1:1"));
        assert_eq!(health_address(&arguments[..3]), None);
    }
}
