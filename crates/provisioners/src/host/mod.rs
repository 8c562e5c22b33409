//! Host requirements of a testbed: gathered as facts, checked purely, repaired by commands that can be shown first.

mod facts;
mod firewall;
mod judge;
pub mod ports;
mod repair;

use std::path::PathBuf;

use serde::Serialize;

pub use self::facts::{HostFacts, gather};
pub use self::judge::judge;
pub use self::repair::apply;

/// The documented ports of a testbed with three members: control plane, members, registry.
pub const PORTS: &[u16] = &[5443, 16441, 16442, 16444, 32000];

/// The intended use of the host.
#[derive(Clone, Debug)]
pub struct HostUse {
    /// Machines as system containers.
    pub lxd: bool,
    /// Pods as real containers.
    pub containerd: bool,
    /// The bridge of the machines; by default the existing one.
    pub bridge: Option<String>,
    pub ports: Vec<u16>,
    /// The ports were requested; otherwise a testbed takes others.
    pub needs_ports: bool,
    /// The directory of testbeds, whose disk space is checked.
    pub home: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckStatus {
    /// The requirement is met.
    Good,
    /// A hint; nothing fails.
    Note,
    /// Something will not work.
    Broken,
}

/// A checked requirement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    pub area: &'static str,
    pub name: String,
    pub standing: CheckStatus,
    /// The observed state.
    pub detail: String,
    /// The purpose, or the consequence if unmet.
    pub why: String,
    #[serde(serialize_with = "repair::as_text", skip_serializing_if = "Option::is_none")]
    pub repair: Option<Repair>,
}

/// A fix. Every repair is idempotent, and none removes anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repair {
    Run(Vec<String>),
    /// A setting of the running kernel.
    Set {
        path: String,
        value: String,
    },
    /// A manual step.
    Advice(String),
}

impl std::fmt::Display for Repair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Run(words) => f.write_str(&words.join(" ")),
            Self::Set { path, value } => write!(f, "echo {value} > {path}"),
            Self::Advice(text) => f.write_str(text),
        }
    }
}
