//! The provisioner trait: create, start, stop, delete, exec, push file, forward port.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// One machine: a directory with a process in it, or a system container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    pub name: String,
    /// Program and arguments; runs while the machine is started and is restarted when it exits.
    pub command: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// Copied before the first start: from a host path to an absolute path in the machine (or, for machines that
    /// share the host's files, a path below the machine's directory).
    pub files: Vec<(PathBuf, String)>,
    pub forwards: Vec<Forward>,
}

/// Forwards a host port to an address in the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forward {
    /// Unique within the machine: `api`, or the name given to `expose`.
    pub name: String,
    pub listen: SocketAddr,
    /// HOST:PORT inside.
    pub target: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Condition {
    Missing,
    Stopped,
    Running,
    /// Started, but its program keeps exiting.
    Failing,
}

/// The output of a command in a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("machine {0} not found")]
    NoMachine(String),
    /// A missing host requirement and the command that fixes it.
    #[error("{problem}; {remedy}")]
    Host { problem: String, remedy: String },
    #[error("{doing}: {why}")]
    Failed { doing: String, why: String },
}

/// All calls are idempotent.
#[async_trait]
pub trait Provisioner: Send + Sync {
    fn name(&self) -> &'static str;

    async fn create(&self, machine: &Machine) -> Result<(), Error>;
    async fn start(&self, machine: &str) -> Result<(), Error>;
    async fn stop(&self, machine: &str) -> Result<(), Error>;
    /// Leaves no process, mount, interface, rule or file behind.
    async fn delete(&self, machine: &str) -> Result<(), Error>;
    async fn condition(&self, machine: &str) -> Result<Condition, Error>;

    async fn exec(&self, machine: &str, command: &[String], stdin: Option<Vec<u8>>) -> Result<Output, Error>;
    async fn push_file(&self, machine: &str, from: &Path, to: &str) -> Result<(), Error>;
    async fn read_file(&self, machine: &str, path: &str) -> Result<Vec<u8>, Error>;

    /// Adds or replaces the forward of this name.
    async fn forward(&self, machine: &str, forward: &Forward) -> Result<(), Error>;
    async fn unforward(&self, machine: &str, forward: &str) -> Result<(), Error>;

    /// The reverse: forwards an address inside (`listen`) to one of this host (`target`). Not needed for machines
    /// that share the host's network.
    async fn reach_back(&self, machine: &str, back: &Forward) -> Result<(), Error> {
        let _ = (machine, back);
        Ok(())
    }
}
