//! What a part leaves behind: its figures, and when, where and with what they were taken.

use std::path::Path;

use anyhow::Context;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// The same for all parts of one run.
#[derive(Clone, Serialize, Deserialize)]
pub struct Run {
    /// When it began, which is its name too: ratios are taken within a run only.
    pub started: String,
    pub machine: Machine,
    pub versions: Vec<String>,
    /// The flotilla that was measured.
    pub program: String,
    pub quick: bool,
}

impl Run {
    /// Figures of a debug build say nothing.
    pub fn is_debug(&self) -> bool {
        self.program.contains("/debug/")
    }
}

#[derive(Serialize, Deserialize)]
pub struct Outcome<T> {
    pub run: Run,
    pub took_seconds: f64,
    /// Why the part did not run, or not to its end; what it had found until then is still there.
    pub failed: Option<String>,
    /// What did not go as planned without stopping the part.
    pub notes: Vec<String>,
    pub results: T,
}

impl<T: Serialize + DeserializeOwned> Outcome<T> {
    pub fn save(&self, folder: &Path, part: &str) -> anyhow::Result<()> {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let text = serde_json::to_string_pretty(self).context("cannot write the figures as JSON")?;
        let file = folder.join(format!("{part}.json"));
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
    }

    /// Nothing when the part was never run here, or by a program of another time whose figures mean something else.
    pub fn load(folder: &Path, part: &str) -> Option<Self> {
        let text = std::fs::read_to_string(folder.join(format!("{part}.json"))).ok()?;
        match serde_json::from_str(&text) {
            Ok(outcome) => Some(outcome),
            Err(error) => {
                eprintln!("{part}.json is of another kind and left out: {error}");
                None
            }
        }
    }
}
