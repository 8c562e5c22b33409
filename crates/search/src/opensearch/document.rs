//! The documents and requests that OpenSearch gets.

use object::Object;
use serde_json::{Value, json};

/// A write of one document.
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentWrite {
    pub index: String,
    id: String,
    /// The object's version where it is a number, as in every Kubernetes API.
    version: Option<u64>,
    /// `None` deletes the document.
    document: Option<Value>,
}

impl DocumentWrite {
    pub fn put(object: &Object) -> Self {
        Self { document: Some(document(object)), ..Self::delete(object) }
    }

    pub fn delete(object: &Object) -> Self {
        Self {
            index: index_of(object),
            id: object.uid().to_owned(),
            version: object.resource_version().parse().ok(),
            document: None,
        }
    }

    /// Appends the lines of a bulk request.
    pub fn append_to(&self, body: &mut String) {
        let mut target = json!({"_index": self.index, "_id": self.id});
        if let Some(version) = self.version {
            target["version"] = version.into();
            target["version_type"] = "external_gte".into();
        }
        let action = if self.document.is_some() { "index" } else { "delete" };
        body.push_str(&json!({action: target}).to_string());
        body.push('\n');
        if let Some(document) = &self.document {
            body.push_str(&document.to_string());
            body.push('\n');
        }
    }
}

fn index_of(object: &Object) -> String {
    format!("kubernetes-{}", object.kind().to_lowercase())
}

/// `spec` and `status` are text, so that fields of different kinds and versions do not conflict in the mapping.
fn document(object: &Object) -> Value {
    let text = |field: &str| object.get(&[field]).map_or_else(|| "null".to_owned(), Value::to_string);
    let metadata = |field: &str| object.get(&["metadata", field]).cloned().unwrap_or_default();
    json!({
        "apiVersion": object.api_version(),
        "kind": object.kind(),
        "metadata": {
            "name": object.name(),
            "namespace": object.namespace(),
            "creationTimestamp": metadata("creationTimestamp"),
            "deletionTimestamp": metadata("deletionTimestamp"),
            "labels": metadata("labels"),
            "annotations": metadata("annotations"),
        },
        "spec": text("spec"),
        "status": text("status"),
    })
}

/// Settings and mapping of a new index: names can be searched and sorted, labels and contents are only stored.
pub fn index_settings() -> Value {
    let text = json!({"type": "text"});
    let name = json!({"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 256}}});
    let stored = json!({"type": "object", "enabled": false});
    json!({
        "settings": {"index": {"number_of_shards": 1, "number_of_replicas": 0}},
        "mappings": {"properties": {
            "apiVersion": text,
            "kind": text,
            "metadata": {"properties": {
                "name": name, "namespace": name, "resourceVersion": name,
                "creationTimestamp": text, "deletionTimestamp": text, "ownerReferences": text,
                "labels": stored, "annotations": stored,
            }},
            "spec": stored,
            "status": stored,
        }},
    })
}

/// The result of one write of a bulk request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    Done,
    /// The server is busy or failed.
    Again,
    Refused(u64),
}

/// The outcomes of a bulk answer, in the order of the writes; `None` if it is not one for `count` writes.
pub fn outcomes(answer: &Value, count: usize) -> Option<Vec<WriteOutcome>> {
    let items = answer["items"].as_array().filter(|items| items.len() == count)?;
    let outcome = |item: &Value| {
        let result = item.get("index").or_else(|| item.get("delete"))?;
        Some(match result["status"].as_u64()? {
            // A newer version is there already, or the document is gone.
            200..300 | 404 | 409 => WriteOutcome::Done,
            429 | 500.. => WriteOutcome::Again,
            status => WriteOutcome::Refused(status),
        })
    };
    items.iter().map(outcome).collect()
}
