//! The audit log: one JSON line per request, as much of it as the level asks for, and never a secret.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use access::User;
use http::{HeaderMap, HeaderValue, Uri, header};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::http::Peer;
use crate::request::RequestInfo;

/// How much of each request is written down. Names as in Kubernetes' audit policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    #[default]
    None,
    Metadata,
    Request,
}

impl std::str::FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "None" | "none" => Ok(Self::None),
            "Metadata" | "metadata" => Ok(Self::Metadata),
            "Request" | "request" => Ok(Self::Request),
            other => Err(format!("{other:?} is not an audit level; use None, Metadata or Request")),
        }
    }
}

/// Writes lines behind a bounded queue, so that a slow disk slows requests down rather than filling memory.
pub struct Audit {
    level: Level,
    lines: Option<std::sync::mpsc::SyncSender<Vec<u8>>>,
}

const QUEUE_MAX: usize = 10_000;

/// One request's entry, filled in as the request goes along.
pub struct Record {
    id: String,
    level: Level,
    event: Mutex<Value>,
}

impl Audit {
    pub fn off() -> Self {
        Self { level: Level::None, lines: None }
    }

    /// Appends to `path`, which is made readable by its owner only.
    pub fn to_file(path: &Path, level: Level) -> std::io::Result<Self> {
        use std::os::unix::fs::OpenOptionsExt;
        if level == Level::None {
            return Ok(Self::off());
        }
        let mut file = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        let (sender, receiver) = std::sync::mpsc::sync_channel::<Vec<u8>>(QUEUE_MAX);
        std::thread::Builder::new().name("audit".into()).spawn(move || {
            while let Ok(mut lines) = receiver.recv() {
                lines.extend(receiver.try_iter().take(100).flatten());
                if let Err(error) = file.write_all(&lines) {
                    tracing::error!(%error, "the audit log cannot be written");
                }
            }
        })?;
        Ok(Self { level, lines: Some(sender) })
    }

    pub fn begin(&self, info: &RequestInfo, uri: &Uri, headers: &HeaderMap, peer: &Arc<Peer>) -> Record {
        let text = |name: header::HeaderName| headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let asked = headers.get("audit-id").and_then(|v| v.to_str().ok()).filter(|id| !id.is_empty() && id.len() <= 64);
        let id = asked.map_or_else(|| uuid::Uuid::new_v4().to_string(), str::to_owned);
        if self.level == Level::None {
            return Record { id, level: Level::None, event: Mutex::new(Value::Null) };
        }
        let mut event = json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "stage": "ResponseComplete",
            "level": if self.level == Level::Request { "Request" } else { "Metadata" },
            "auditID": id, "requestURI": uri.to_string(), "verb": info.verb,
            "sourceIPs": [peer.address.ip().to_string()], "userAgent": text(header::USER_AGENT),
            "requestReceivedTimestamp": object::time::format_micros(jiff::Timestamp::now()),
        });
        if info.is_resource {
            event["objectRef"] = json!({
                "resource": info.resource, "namespace": info.namespace, "name": info.name,
                "apiGroup": info.group, "apiVersion": info.version, "subresource": info.subresource,
            });
        }
        Record { id, level: self.level, event: Mutex::new(event) }
    }

    pub fn finish(&self, record: Record, code: u16) {
        let Some(lines) = &self.lines else { return };
        let mut event = record.event.into_inner();
        event["responseStatus"] = json!({"metadata": {}, "code": code});
        event["stageTimestamp"] = object::time::format_micros(jiff::Timestamp::now()).into();
        let mut line = event.to_string().into_bytes();
        line.push(b'\n');
        // Only fails when the writer is gone, which it said itself.
        let _ = lines.send(line);
    }
}

impl Record {
    pub fn id_header(&self) -> HeaderValue {
        HeaderValue::from_str(&self.id).unwrap_or_else(|_| HeaderValue::from_static("unknown"))
    }

    pub fn caller(&self, caller: &User, user: &User) {
        self.note(|event| {
            event["user"] = user_value(caller);
            if caller != user {
                event["impersonatedUser"] = user_value(user);
            }
        });
    }

    pub fn allowed(&self) {
        self.note(|event| event["annotations"]["authorization.k8s.io/decision"] = "allow".into());
    }

    pub fn annotations(&self, annotations: Vec<(String, String)>) {
        self.note(|event| {
            for (key, value) in annotations {
                event["annotations"][key] = value.into();
            }
        });
    }

    /// Keeps the body at level Request, except for kinds that hold credentials.
    pub fn request_object(&self, object: &Value) {
        let secret = matches!(object["kind"].as_str(), Some("Secret" | "TokenRequest" | "TokenReview"));
        if self.level == Level::Request && !secret {
            self.note(|event| event["requestObject"] = object.clone());
        }
    }

    fn note(&self, change: impl FnOnce(&mut Value)) {
        if self.level != Level::None {
            change(&mut self.event.lock());
        }
    }
}

fn user_value(user: &User) -> Value {
    json!({"username": user.name, "uid": user.uid, "groups": user.groups, "extra": user.extra})
}
