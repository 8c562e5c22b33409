//! Requests to a supervisor and its responses, one line of JSON each.

use provisioners::process::ProcessReport;
use provisioners::process::forward::NetworkFault;
use provisioners::{Condition, Error, Forward, Machine};
use serde::{Deserialize, Serialize};

use crate::expose::{Exposure, ExposureReport};

/// Maximum length of a request or response.
pub const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "camelCase")]
pub enum Request {
    Hello,
    Reports,
    Create {
        machine: Machine,
    },
    Start {
        name: String,
    },
    Stop {
        name: String,
    },
    Delete {
        name: String,
    },
    Condition {
        name: String,
    },
    Kill {
        name: String,
    },
    Forward {
        name: String,
        forward: Forward,
    },
    Unforward {
        name: String,
        forward: String,
    },
    SetWire {
        name: String,
        forward: String,
        wire: NetworkFault,
    },
    /// Takes a consistent copy of the data of all machines.
    Snapshot {
        name: String,
    },
    Expose {
        exposure: Exposure,
    },
    Unexpose {
        name: String,
    },
    Exposures,
    /// Stops everything and exits.
    Shutdown,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "camelCase")]
pub enum Answer {
    Done,
    Hello { pid: u32, version: String },
    Reports { reports: Vec<ProcessReport> },
    Condition { condition: Condition },
    Exposures { exposures: Vec<ExposureReport> },
    NoMachine { name: String },
    Host { problem: String, remedy: String },
    Failed { doing: String, why: String },
}

impl From<Error> for Answer {
    fn from(error: Error) -> Self {
        match error {
            Error::NoMachine(name) => Self::NoMachine { name },
            Error::Host { problem, remedy } => Self::Host { problem, remedy },
            Error::Failed { doing, why } => Self::Failed { doing, why },
        }
    }
}

impl Answer {
    /// Returns the response, or the error it carries.
    pub fn good(self) -> Result<Self, Error> {
        match self {
            Self::NoMachine { name } => Err(Error::NoMachine(name)),
            Self::Host { problem, remedy } => Err(Error::Host { problem, remedy }),
            Self::Failed { doing, why } => Err(Error::Failed { doing, why }),
            good => Ok(good),
        }
    }
}
