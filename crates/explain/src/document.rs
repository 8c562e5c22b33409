//! The parts of an answer, for people and for programs.

use serde::Serialize;
use serde_json::Value;

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
            next_step: None,
            data: Value::Null,
        }
    }

    pub fn since(mut self, time: &str) -> Self {
        self.since = (!time.is_empty()).then(|| time.to_owned());
        self
    }

    pub fn next_step(mut self, next: Option<String>) -> Self {
        self.next_step = next;
        self
    }

    pub fn details(mut self, details: Vec<String>) -> Self {
        self.details = details;
        self
    }
}
