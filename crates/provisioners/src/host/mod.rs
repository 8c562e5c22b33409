//! What a host must have for a testbed: gathered as facts, judged purely, repaired by commands that can be shown first.

mod facts;
mod firewall;
mod judge;
pub mod ports;
mod repair;

use std::path::PathBuf;

use serde::Serialize;

pub use self::facts::{Facts, gather};
pub use self::judge::judge;
pub use self::repair::apply;

/// The ports of a testbed of three members, as the documents name them: plane, members, registry.
pub const PORTS: &[u16] = &[5443, 16441, 16442, 16444, 32000];

/// What the host is wanted for.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Machines as system containers.
    pub lxd: bool,
    /// Pods as real containers.
    pub containerd: bool,
    /// The bridge of the machines; by default the one that is there.
    pub bridge: Option<String>,
    pub ports: Vec<u16>,
    /// Where testbeds are kept: its disk is looked at.
    pub home: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// As it should be.
    Good,
    /// Worth knowing; nothing fails for it.
    Note,
    /// Something will not work.
    Broken,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    pub area: &'static str,
    pub name: String,
    pub standing: Standing,
    /// What is the case.
    pub detail: String,
    /// What it is for, or what fails without it.
    pub why: String,
    #[serde(serialize_with = "repair::as_text", skip_serializing_if = "Option::is_none")]
    pub repair: Option<Repair>,
}

/// What makes it right. Every repair may be repeated, and none takes anything away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repair {
    Run(Vec<String>),
    /// A setting of the running kernel.
    Set {
        path: String,
        value: String,
    },
    /// Only the user can do this.
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
