//! The results of a part: its figures, and the time, machine and programs.

use std::path::Path;

use anyhow::Context;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// Common to all parts of one run.
#[derive(Clone, Serialize, Deserialize)]
pub struct Run {
    /// The start time, which identifies the run: ratios are computed within a run only.
    pub started: String,
    pub machine: Machine,
    pub versions: Vec<String>,
    /// The measured flotilla program.
    pub program: String,
    pub quick: bool,
}

impl Run {
    /// Figures of a debug build are meaningless.
    pub fn is_debug(&self) -> bool {
        self.program.contains("/debug/")
    }
}

#[derive(Serialize, Deserialize)]
pub struct PartOutcome<T> {
    pub run: Run,
    pub took_seconds: f64,
    /// Why the part did not run or did not complete; figures collected until then are kept.
    pub failed: Option<String>,
    /// Problems that did not stop the part.
    pub notes: Vec<String>,
    pub results: T,
}

impl<T: Serialize + DeserializeOwned> PartOutcome<T> {
    pub fn save(&self, folder: &Path, part: &str) -> anyhow::Result<()> {
        std::fs::create_dir_all(folder).with_context(|| format!("failed to create {}", folder.display()))?;
        let text = serde_json::to_string_pretty(self).context("failed to serialize the figures")?;
        let file = folder.join(format!("{part}.json"));
        std::fs::write(&file, text).with_context(|| format!("failed to write {}", file.display()))
    }

    /// `None` if the part was never run here, or its figures have another format.
    pub fn load(folder: &Path, part: &str) -> Option<Self> {
        let text = std::fs::read_to_string(folder.join(format!("{part}.json"))).ok()?;
        match serde_json::from_str(&text) {
            Ok(outcome) => Some(outcome),
            Err(error) => {
                eprintln!("ignoring {part}.json, which has another format: {error}");
                None
            }
        }
    }
}
