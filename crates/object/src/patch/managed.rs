//! `metadata.managedFields`: field ownership by manager, decoded and encoded as in Kubernetes.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::fieldset::Set;
use crate::field::go_quote;

/// The kind of write: server-side apply, or any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ManagedOperation {
    Apply,
    Update,
}

/// One manager's claim.
#[derive(Clone, Debug, PartialEq)]
pub struct ManagedEntry {
    pub manager: String,
    pub operation: ManagedOperation,
    pub api_version: String,
    pub subresource: String,
    /// RFC 3339 in seconds; `None` for an applier that changed nothing.
    pub time: Option<String>,
    pub fields: Set,
}

/// All claims on an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ManagedFields {
    pub entries: Vec<ManagedEntry>,
}

impl ManagedOperation {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

impl ManagedEntry {
    /// Reports whether two entries belong to the same manager. An applier is one manager regardless of version.
    pub fn is_same_manager(&self, other: &Self) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == ManagedOperation::Apply || self.api_version == other.api_version)
    }

    /// The manager as named in conflict messages.
    pub fn describe(&self) -> String {
        let mut text = go_quote(&self.manager);
        if !self.subresource.is_empty() {
            text.push_str(&format!(" with subresource {}", go_quote(&self.subresource)));
        }
        if self.operation == ManagedOperation::Update {
            text.push_str(&format!(" using {}", self.api_version));
        }
        text
    }

    /// The text Kubernetes sorts managers by in messages.
    pub(super) fn identifier(&self) -> String {
        let mut parts = Vec::new();
        let version = if self.operation == ManagedOperation::Apply { "" } else { &self.api_version };
        let fields = [
            ("manager", self.manager.as_str()),
            ("operation", self.operation.as_str()),
            ("apiVersion", version),
            ("subresource", &self.subresource),
        ];
        for (name, value) in fields.into_iter().filter(|(_, value)| !value.is_empty()) {
            parts.push(format!("{name:?}:{}", Value::from(value)));
        }
        format!("{{{}}}", parts.join(","))
    }

    fn decode(index: usize, value: &Value) -> Result<Self, String> {
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let operation = match value["operation"].as_str() {
            Some("Apply") => ManagedOperation::Apply,
            Some("Update") => ManagedOperation::Update,
            _ => return Err("operation must be `Apply` or `Update`".to_owned()),
        };
        if text("apiVersion").is_empty() {
            return Err("apiVersion must not be empty".to_owned());
        }
        match text("fieldsType").as_str() {
            "FieldsV1" => {}
            "" => return Err(format!("missing fieldsType in managed fields entry {index}")),
            other => return Err(format!("invalid fieldsType {} in managed fields entry {index}", go_quote(other))),
        }
        let fields = match value.get("fieldsV1") {
            Some(fields) => Set::from_json(fields).map_err(|error| format!("error decoding set: {error}"))?,
            None => Set::default(),
        };
        Ok(Self {
            manager: text("manager"),
            operation,
            api_version: text("apiVersion"),
            subresource: text("subresource"),
            time: value["time"].as_str().map(canonical_time),
            fields,
        })
    }

    fn encode(&self) -> Value {
        let mut map = Map::new();
        let mut put = |key: &str, value: Value| map.insert(key.to_owned(), value);
        put("apiVersion", self.api_version.as_str().into());
        put("fieldsType", "FieldsV1".into());
        put("fieldsV1", self.fields.to_json());
        put("operation", self.operation.as_str().into());
        if !self.manager.is_empty() {
            put("manager", self.manager.as_str().into());
        }
        if !self.subresource.is_empty() {
            put("subresource", self.subresource.as_str().into());
        }
        if let Some(time) = &self.time {
            put("time", time.as_str().into());
        }
        Value::Object(map)
    }

    /// Earlier first, missing times before all. Times have one format, in which text order is time order.
    pub(super) fn compare_times(&self, other: &Self) -> Ordering {
        self.time.cmp(&other.time)
    }
}

impl ManagedFields {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Reads `metadata.managedFields`; absent and null are empty.
    pub fn decode(value: Option<&Value>) -> Result<Self, String> {
        let items = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut managed = Self { entries: Vec::with_capacity(items.len()) };
        for (index, item) in items.iter().enumerate() {
            let entry = ManagedEntry::decode(index, item)?;
            match managed.entries.iter_mut().find(|known| known.is_same_manager(&entry)) {
                Some(known) => *known = entry,
                None => managed.entries.push(entry),
            }
        }
        Ok(managed)
    }

    /// The value of `metadata.managedFields`, in Kubernetes' order; `None` if there are no managers.
    pub fn encode(mut self) -> Option<Value> {
        if self.entries.is_empty() {
            return None;
        }
        self.entries.sort_by(|a, b| {
            let order = a.operation.cmp(&b.operation).then_with(|| a.compare_times(b));
            let order = order.then_with(|| a.manager.cmp(&b.manager)).then_with(|| a.api_version.cmp(&b.api_version));
            order.then_with(|| a.subresource.cmp(&b.subresource))
        });
        Some(Value::Array(self.entries.iter().map(ManagedEntry::encode).collect()))
    }

    pub(super) fn find(&self, manager: &ManagedEntry) -> Option<usize> {
        self.entries.iter().position(|entry| entry.is_same_manager(manager))
    }
}

/// A time in the server's format; an invalid time is returned unchanged.
fn canonical_time(text: &str) -> String {
    if text.len() == 20 && text.ends_with('Z') {
        return text.to_owned();
    }
    crate::time::parse(text).map_or_else(|| text.to_owned(), crate::time::format_seconds)
}

/// Reports whether a write resets all ownership: with an empty list, or a list of one empty entry.
pub(super) fn is_reset(value: Option<&Value>) -> bool {
    match value.and_then(Value::as_array).map(Vec::as_slice) {
        Some([]) => true,
        Some([only]) => only.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}
