//! The context of a request from the listener to the store: user, time, and warnings to return with the response.

use std::sync::Arc;

use jiff::Timestamp;
use kinds::WriteContext;
use object::request::User;
use parking_lot::Mutex;

/// One request's surroundings.
pub struct Context {
    pub user: Arc<User>,
    pub now: Timestamp,
    pub user_agent: String,
    /// In-process callers are trusted code but go through the same checks.
    warnings: Mutex<Vec<String>>,
    audit_annotations: Mutex<Vec<(String, String)>>,
}

/// Warnings beyond this many are dropped, as clients print each of them.
const WARNINGS_MAX: usize = 50;

impl Context {
    pub fn new(user: Arc<User>, user_agent: impl Into<String>) -> Self {
        Self {
            user,
            now: Timestamp::now(),
            user_agent: user_agent.into(),
            warnings: Mutex::default(),
            audit_annotations: Mutex::default(),
        }
    }

    pub fn warn(&self, text: impl Into<String>) {
        let mut warnings = self.warnings.lock();
        let text = text.into();
        if warnings.len() < WARNINGS_MAX && !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.warnings.lock())
    }

    /// Adds a note to the audit record of this request.
    pub fn annotate_audit(&self, key: impl Into<String>, value: impl Into<String>) {
        self.audit_annotations.lock().push((key.into(), value.into()));
    }

    pub fn take_audit_annotations(&self) -> Vec<(String, String)> {
        std::mem::take(&mut self.audit_annotations.lock())
    }

    pub fn write_context(&self) -> WriteContext {
        WriteContext {
            now: self.now,
            user: self.user.name.clone(),
            uid: self.user.uid.clone(),
            groups: self.user.groups.clone(),
            extra: self.user.extra.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
        }
    }

    /// The manager a change is attributed to when the client names none: the program's name from its user agent.
    pub fn default_manager(&self) -> String {
        let name = self.user_agent.split(['/', ' ']).next().unwrap_or_default();
        let name: String = name.chars().filter(|c| !c.is_control()).take(128).collect();
        if name.is_empty() { "unknown".to_owned() } else { name }
    }
}
