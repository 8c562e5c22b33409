//! The parts of an answer, for people and for programs.

use serde::Serialize;
use serde_json::Value;

use crate::reason::Reason;

/// The object a question is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    pub api_version: String,
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{}/{}", self.kind, self.name),
            namespace => write!(f, "{}/{} in namespace {namespace}", self.kind, self.name),
        }
    }
}

/// The state of one stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum State {
    Done,
    /// In progress, or waiting for something that may happen by itself.
    Waiting,
    /// Blocked until someone changes something.
    Failed,
    /// Not reached.
    Ahead,
}

impl State {
    /// Returns the more severe of two states.
    pub fn worse(self, other: Self) -> Self {
        if other.severity() > self.severity() { other } else { self }
    }

    pub fn severity(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Ahead => 1,
            Self::Waiting => 2,
            Self::Failed => 3,
        }
    }
}

/// Lines with their severity and cause. The worst comes first and gives the stage its reason.
#[derive(Default)]
pub struct StageLines(Vec<(State, String, Option<Reason>)>);

impl StageLines {
    pub fn push(&mut self, state: State, line: String, reason: Option<Reason>) {
        self.0.push((state, line, reason));
    }

    /// The state of the stage: that of its worst line, `Ahead` without lines.
    pub fn state(&self) -> State {
        let states = self.0.iter().map(|(state, ..)| *state);
        states.reduce(State::worse).unwrap_or(State::Ahead)
    }

    pub fn into_stage(mut self, name: &'static str, summary: impl Into<String>) -> Stage {
        let state = self.state();
        self.0.sort_by_key(|(state, ..)| std::cmp::Reverse(state.severity()));
        let reason = self.0.iter().find_map(|(_, _, reason)| reason.clone());
        let details = self.0.into_iter().map(|(_, line, _)| line).collect();
        Stage::new(name, state, summary).details(details).because(reason)
    }
}

/// One stage between a template and its members.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stage {
    pub name: &'static str,
    pub state: State,
    /// Since when it is in this state, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    pub summary: String,
    /// Reasons, one line each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
    /// The cause, if the stage is not done or the user should know something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The recommended action, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_step: Option<String>,
    /// The reasons as data, if there are more details.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub data: Value,
}

impl Stage {
    pub fn new(name: &'static str, state: State, summary: impl Into<String>) -> Self {
        Self {
            name,
            state,
            since: None,
            summary: summary.into(),
            details: Vec::new(),
            reason: None,
            next_step: None,
            data: Value::Null,
        }
    }

    pub fn since(mut self, time: &str) -> Self {
        self.since = (!time.is_empty()).then(|| time.to_owned());
        self
    }

    pub fn because(mut self, reason: impl Into<Option<Reason>>) -> Self {
        self.reason = reason.into();
        self
    }

    pub fn details(mut self, details: Vec<String>) -> Self {
        self.details = details;
        self
    }
}
