//! Programs under test as seen by fault injection: processes that can be killed and restarted.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use crate::etcd::EtcdCluster;
use crate::member::Member;

/// A process that faults are injected into.
pub trait FaultSubject: Send {
    /// The process id while it runs.
    fn pid(&self) -> Option<u32>;
    /// Kills it, as in a power failure.
    fn kill(&mut self);
    /// Starts it with the same data and address, without waiting until it is ready.
    fn start(&mut self);
    /// All its output over all restarts.
    fn log(&self) -> String;
    /// Restarts it if it has exited by itself, and returns how it exited.
    fn revive(&mut self) -> Option<String> {
        None
    }
}

/// A program that can be started repeatedly.
pub struct Process {
    recipe: Box<dyn Fn() -> Command + Send>,
    log: PathBuf,
    child: Option<Child>,
}

impl Process {
    /// Starts it; its output is appended to the log.
    pub fn start(log: &Path, recipe: impl Fn() -> Command + Send + 'static) -> Self {
        let mut process = Self { recipe: Box::new(recipe), log: log.to_owned(), child: None };
        FaultSubject::start(&mut process);
        process
    }
}

impl FaultSubject for Process {
    fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have exited by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn start(&mut self) {
        self.kill();
        let log = File::options().create(true).append(true).open(&self.log).expect("a log file");
        let mut command = (self.recipe)();
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a second handle")).stderr(log);
        self.child = Some(command.spawn().expect("the program starts"));
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn revive(&mut self) -> Option<String> {
        let status = self.child.as_mut()?.try_wait().ok().flatten()?;
        let log = self.log();
        let last = log.lines().next_back().unwrap_or_default().to_owned();
        self.start();
        Some(format!("{status}: {last}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// One node of an etcd cluster.
pub struct EtcdNode {
    pub cluster: Arc<Mutex<EtcdCluster>>,
    pub number: usize,
}

impl EtcdNode {
    fn with<T>(&self, act: impl FnOnce(&mut EtcdCluster) -> T) -> T {
        act(&mut self.cluster.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl FaultSubject for EtcdNode {
    fn pid(&self) -> Option<u32> {
        self.with(|cluster| cluster.pid(self.number))
    }

    fn kill(&mut self) {
        self.with(|cluster| cluster.kill(self.number));
    }

    fn start(&mut self) {
        self.with(|cluster| {
            if cluster.pid(self.number).is_none() {
                cluster.launch(self.number);
            }
        });
    }

    fn log(&self) -> String {
        self.with(|cluster| cluster.log(self.number))
    }
}

/// The API server of a real Kubernetes member.
pub struct RealApi {
    pub member: Arc<Mutex<Member>>,
    pub is_down: bool,
}

impl RealApi {
    fn with<T>(&self, act: impl FnOnce(&mut Member) -> T) -> T {
        act(&mut self.member.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl FaultSubject for RealApi {
    fn pid(&self) -> Option<u32> {
        (!self.is_down).then(|| self.with(|member| member.api.api_pid()))
    }

    fn kill(&mut self) {
        if !self.is_down {
            self.with(|member| member.api.end_api());
            self.is_down = true;
        }
    }

    fn start(&mut self) {
        if self.is_down {
            self.with(|member| member.api.start_api_again());
            self.is_down = false;
        }
    }

    fn log(&self) -> String {
        self.with(|member| std::fs::read_to_string(member.api.directory().join("api.log")).unwrap_or_default())
    }
}
