//! Runs a private containerd for each node, with its own images, network and containers.

mod config;
pub mod pause;
mod sweep;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::Signal;
use tokio::process::{Child, Command};
use tokio::time::Instant;

use crate::containerd::config::{ContainerdPaths, PAUSE_IMAGE};
use crate::containerd::pause::{ImageFile, image_archive};
use crate::cri::Runtime;

const READY_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_EVERY: Duration = Duration::from_millis(20);
/// Grace period before it is killed.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// CNI plugin directories of common distributions.
const NETWORK_PROGRAMS: [&str; 3] = ["/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"];
const NETWORK_NEEDED: [&str; 3] = ["bridge", "host-local", "loopback"];

/// Settings of a private containerd.
#[derive(Clone, Debug)]
pub struct ContainerdSettings {
    /// The data directory, created if missing. Images in it survive restarts.
    pub directory: PathBuf,
    pub pod_cidr: String,
    /// Registry mirrors by host and port with their URL: `localhost:32000`, `http://127.0.0.1:32000`.
    pub registries: Vec<(String, String)>,
}

#[derive(Debug, thiserror::Error)]
pub enum ContainerdError {
    #[error("running containers requires root")]
    NotRoot,
    #[error("not installed: {}; on Debian: apt-get install containerd runc containernetworking-plugins", .0.join(", "))]
    Missing(Vec<String>),
    #[error("pod sandboxes are not supported on {0}")]
    Architecture(&'static str),
    #[error("failed to write {0}")]
    Write(PathBuf, #[source] io::Error),
    #[error("failed to start containerd")]
    Spawn(#[source] io::Error),
    #[error("containerd is not ready: {0}")]
    NotReady(String),
    #[error("failed to import image: {0}")]
    Import(String),
}

/// A running containerd. `stop` ends it and everything in it; if only dropped, it keeps running and the next `start`
/// in the same directory takes over.
pub struct Containerd {
    paths: ContainerdPaths,
    child: Child,
}

struct Programs {
    containerd: PathBuf,
    ctr: PathBuf,
    network: PathBuf,
}

/// Returns the reason why containers cannot run on this machine, if any.
pub fn unmet() -> Option<ContainerdError> {
    if !rustix::process::geteuid().is_root() {
        return Some(ContainerdError::NotRoot);
    }
    if pause::program().is_none() {
        return Some(ContainerdError::Architecture(std::env::consts::ARCH));
    }
    Programs::find().err()
}

impl Programs {
    fn find() -> Result<Self, ContainerdError> {
        let mut missing = Vec::new();
        let mut program = |name: &str| {
            let found = find_program(name);
            if found.is_none() {
                missing.push(name.to_owned());
            }
            found.unwrap_or_default()
        };
        let (containerd, ctr) = (program("containerd"), program("ctr"));
        program("runc");
        let network = NETWORK_PROGRAMS.iter().map(Path::new);
        let network = network.into_iter().find(|folder| NETWORK_NEEDED.iter().all(|name| folder.join(name).exists()));
        if network.is_none() {
            missing.push("network plugins (bridge, host-local, loopback)".to_owned());
        }
        match network {
            Some(network) if missing.is_empty() => Ok(Self { containerd, ctr, network: network.to_owned() }),
            _ => Err(ContainerdError::Missing(missing)),
        }
    }
}

fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders =
        std::env::split_paths(&path).chain(["/usr/sbin", "/usr/bin", "/usr/local/bin", "/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}

impl Containerd {
    /// Starts containerd in its directory, after stopping processes left by an earlier one.
    pub async fn start(settings: &ContainerdSettings) -> Result<Self, ContainerdError> {
        if let Some(unmet) = unmet() {
            return Err(unmet);
        }
        let programs = Programs::find()?;
        let made = fs::create_dir_all(&settings.directory).and_then(|()| fs::canonicalize(&settings.directory));
        let directory = made.map_err(|e| ContainerdError::Write(settings.directory.clone(), e))?;
        let paths = ContainerdPaths::of(&directory);
        end_leftovers(&paths).await;
        write_files(&paths, settings, &programs)?;
        let log = fs::File::create(&paths.log).map_err(|e| ContainerdError::Write(paths.log.clone(), e))?;
        let child = Command::new(&programs.containerd)
            .arg("--config")
            .arg(&paths.config)
            // A process group of its own: an interrupt at the terminal reaches only us, and we stop containers in
            // order.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(ContainerdError::Spawn)?;
        let mut containerd = Self { paths, child };
        containerd.note_pid()?;
        containerd.wait_until_ready().await?;
        containerd.import_pause(&programs).await?;
        Ok(containerd)
    }

    pub fn socket(&self) -> &Path {
        &self.paths.socket
    }

    /// The parent cgroup of its pods, for `Settings::cgroup`.
    pub fn cgroup(&self) -> &str {
        &self.paths.cgroup
    }

    /// For operators; not read by this program.
    fn note_pid(&self) -> Result<(), ContainerdError> {
        let pid = self.child.id().map(|pid| pid.to_string()).unwrap_or_default();
        fs::write(&self.paths.pid, pid).map_err(|e| ContainerdError::Write(self.paths.pid.clone(), e))
    }

    async fn wait_until_ready(&mut self) -> Result<(), ContainerdError> {
        let not_ready = |why: String| ContainerdError::NotReady(why);
        let start = Instant::now();
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(not_ready(format!("it exited with {status}: {}", self.termination_message())));
            }
            // A new connection each time, since the socket appears only after a while.
            if let Ok(runtime) = Runtime::connect(&self.paths.socket)
                && runtime.version().await.is_ok()
            {
                return Ok(());
            }
            if start.elapsed() > READY_TIMEOUT {
                return Err(not_ready(format!("no answer within {READY_TIMEOUT:?}: {}", self.termination_message())));
            }
            tokio::time::sleep(POLL_EVERY).await;
        }
    }

    fn termination_message(&self) -> String {
        let log = fs::read_to_string(&self.paths.log).unwrap_or_default();
        log.lines()
            .rev()
            .find(|line| line.contains("level=error") || line.contains("containerd:"))
            .unwrap_or_default()
            .to_owned()
    }

    async fn import_pause(&self, programs: &Programs) -> Result<(), ContainerdError> {
        let program = pause::program().ok_or(ContainerdError::Architecture(std::env::consts::ARCH))?;
        let files = BTreeMap::from([("pause".to_owned(), ImageFile::File { content: program, mode: 0o755 })]);
        let archive = self.paths.directory.join("pause.tar");
        image_archive(PAUSE_IMAGE, &files, &["/pause"])
            .and_then(|image| fs::write(&archive, image))
            .map_err(|e| ContainerdError::Write(archive.clone(), e))?;
        let imported = import(programs, &self.paths.socket, &archive).await;
        let _ = fs::remove_file(&archive);
        imported
    }

    /// Imports the images of an archive (Docker or OCI) for pods of this node.
    pub async fn import(&self, archive: &Path) -> Result<(), ContainerdError> {
        import(&Programs::find()?, &self.paths.socket, archive).await
    }

    /// Stops it, its containers, and everything it created outside its directory. Images are kept.
    pub async fn stop(mut self) {
        if let Some(pid) = self.child.id().and_then(|pid| i32::try_from(pid).ok()) {
            sweep::end_process(pid, Signal::TERM);
            if tokio::time::timeout(END_TIMEOUT, self.child.wait()).await.is_err() {
                let _ = self.child.kill().await;
            }
        }
        end_leftovers(&self.paths).await;
    }
}

/// Cleans up after a member that was killed.
pub async fn clean_up(directory: &Path) {
    if let Ok(directory) = fs::canonicalize(directory) {
        end_leftovers(&ContainerdPaths::of(&directory)).await;
    }
}

async fn import(programs: &Programs, socket: &Path, archive: &Path) -> Result<(), ContainerdError> {
    let output = Command::new(&programs.ctr)
        .arg("--address")
        .arg(socket)
        .args(["--namespace", "k8s.io", "images", "import"])
        .arg(archive)
        .stdin(Stdio::null())
        .output()
        .await
        .map_err(|e| ContainerdError::Import(e.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(ContainerdError::Import(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

async fn end_leftovers(paths: &ContainerdPaths) {
    let paths = paths.clone();
    if let Err(error) = tokio::task::spawn_blocking(move || sweep::sweep(&paths)).await {
        tracing::warn!(%error, "cleanup task failed");
    }
}

fn write_files(
    paths: &ContainerdPaths,
    settings: &ContainerdSettings,
    programs: &Programs,
) -> Result<(), ContainerdError> {
    let write = |path: PathBuf, content: String| {
        let folder = path.parent().map(Path::to_owned).unwrap_or_default();
        let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, content));
        written.map_err(|e| ContainerdError::Write(path, e))
    };
    let snapshotter = if overlays_work(&paths.directory) { "overlayfs" } else { "native" };
    write(paths.config.clone(), config::config(paths, snapshotter, &programs.network))?;
    write(paths.directory.join("network/10-pods.conflist"), config::network(paths, &settings.pod_cidr))?;
    for (host, url) in &settings.registries {
        write(paths.directory.join("registries").join(host).join("hosts.toml"), config::registry(url))?;
    }
    Ok(())
}

/// Tests whether overlay mounts work below a directory; there is no other way to find out.
fn overlays_work(directory: &Path) -> bool {
    let trial = directory.join("overlay-trial");
    let attempt = || -> io::Result<()> {
        for name in ["lower", "upper", "work", "merged"] {
            fs::create_dir_all(trial.join(name))?;
        }
        let options =
            ["lower", "upper", "work"].map(|name| format!("{name}dir={}", trial.join(name).display())).join(",");
        let options = std::ffi::CString::new(options)?;
        mount("overlay", trial.join("merged"), "overlay", MountFlags::empty(), Some(options.as_c_str()))?;
        unmount(trial.join("merged"), UnmountFlags::DETACH)?;
        Ok(())
    };
    let works = attempt().is_ok();
    let _ = fs::remove_dir_all(&trial);
    works
}

/// Returns the bridge name of the containerd in a directory.
pub fn bridge_of(directory: &Path) -> String {
    ContainerdPaths::of(&fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned())).bridge
}
