//! The trait every place for clusters implements: create, start, stop, delete, exec, push file, forward port.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// One machine: a directory with a process in it, or a system container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    pub name: String,
    /// Program and arguments that run in it for as long as it is started; restarted when they end.
    pub command: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// Copied in before the first start: from a path of this host to an absolute path in the machine (or, for machines
    /// that share the host's files, a path below the machine's directory).
    pub files: Vec<(PathBuf, String)>,
    pub forwards: Vec<Forward>,
}

/// A port of this host that leads to an address as the machine sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forward {
    /// Unique within the machine: `api`, or what `expose` was told.
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
    /// Started, but its program keeps ending.
    Failing,
}

/// What a command in a machine said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}: there is no machine of this name")]
    NoMachine(String),
    /// What is missing on the host and the command that would repair it.
    #[error("{problem}; {remedy}")]
    Host { problem: String, remedy: String },
    #[error("{doing}: {why}")]
    Failed { doing: String, why: String },
}

/// Every call may be repeated: what is already so is left alone.
#[async_trait]
pub trait Provisioner: Send + Sync {
    fn name(&self) -> &'static str;

    async fn create(&self, machine: &Machine) -> Result<(), Error>;
    async fn start(&self, machine: &str) -> Result<(), Error>;
    async fn stop(&self, machine: &str) -> Result<(), Error>;
    /// Leaves nothing behind: process, mount, interface, rule or file.
    async fn delete(&self, machine: &str) -> Result<(), Error>;
    async fn condition(&self, machine: &str) -> Result<Condition, Error>;

    async fn exec(&self, machine: &str, command: &[String], stdin: Option<Vec<u8>>) -> Result<Output, Error>;
    async fn push_file(&self, machine: &str, from: &Path, to: &str) -> Result<(), Error>;
    async fn read_file(&self, machine: &str, path: &str) -> Result<Vec<u8>, Error>;

    /// Adds or replaces the forward of this name.
    async fn forward(&self, machine: &str, forward: &Forward) -> Result<(), Error>;
    async fn unforward(&self, machine: &str, forward: &str) -> Result<(), Error>;

    /// The other way around: an address inside (`listen`) leads to one of this host (`target`). Machines that share the
    /// host's network need nothing for it.
    async fn reach_back(&self, machine: &str, back: &Forward) -> Result<(), Error> {
        let _ = (machine, back);
        Ok(())
    }
}
