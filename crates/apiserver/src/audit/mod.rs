//! The audit log: JSON lines of `audit.k8s.io/v1 Event`, as many and as detailed as the policy asks for, without secrets.

mod body;
mod log;
mod mask;
mod policy;
mod webhook;

use std::path::Path;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Uri, header};
use object::request::Subresource;
use object::request::User;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::http::Peer;
use crate::request::RequestInfo;

pub use log::{LogFile, Rotation};
pub use policy::{Decision, Level, Policy, PolicyError, Stage};
pub use webhook::{AuditWebhook, BatchSettings};

/// The end of a request whose client went away before the response.
const CLIENT_CLOSED_REQUEST: u16 = 499;

/// The audit log of a server, or none.
pub struct Audit {
    log: Option<Arc<AuditLog>>,
}

struct AuditLog {
    policy: Policy,
    file: Option<LogFile>,
    webhook: Option<Arc<AuditWebhook>>,
}

/// The entries of one request. Clones are of the same request; when the last is dropped, the request has ended.
#[derive(Clone)]
pub struct Record {
    id: HeaderValue,
    active: Option<Arc<Active>>,
}

struct Active {
    log: Arc<AuditLog>,
    info: RequestInfo,
    entry: Mutex<Entry>,
}

struct Entry {
    /// `None` until the caller is known.
    decision: Option<Decision>,
    event: Value,
    is_complete: bool,
}

impl Audit {
    pub fn off() -> Self {
        Self { log: None }
    }

    /// Records what `policy` asks for in the file at `path`.
    pub fn to_file(path: &Path, policy: Policy, rotation: Rotation) -> std::io::Result<Self> {
        Ok(Self::to(policy, Some(LogFile::open(path, rotation)?), None))
    }

    /// Records what `policy` asks for in a file, at a webhook, or both.
    pub fn to(policy: Policy, file: Option<LogFile>, webhook: Option<Arc<AuditWebhook>>) -> Self {
        Self { log: Some(Arc::new(AuditLog { policy, file, webhook })) }
    }

    /// Reports whether the log takes entries, for health checks.
    pub fn health(&self) -> Result<(), String> {
        match self.log.as_ref().and_then(|log| log.file.as_ref()).is_some_and(LogFile::has_failed) {
            true => Err("the audit log cannot be written".to_owned()),
            false => Ok(()),
        }
    }

    pub fn begin(&self, info: &RequestInfo, uri: &Uri, headers: &HeaderMap, peer: &Arc<Peer>) -> Record {
        let text = |name: header::HeaderName| headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let id = headers.get("audit-id").filter(|id| !id.is_empty() && id.len() <= 64 && id.to_str().is_ok());
        let id = id.cloned().unwrap_or_else(new_id);
        let active = self.log.as_ref().map(|log| {
            let uri = uri.path_and_query().map_or("/", |path| path.as_str());
            let mut event = first_event(info, &id, &mask::mask_uri(info, uri));
            event["sourceIPs"] = json!([peer.address.ip().to_string()]);
            event["userAgent"] = text(header::USER_AGENT).into();
            log.begin(info.clone(), event)
        });
        Record { id, active }
    }

    /// A write of a controller in this process; `None` without an audit log.
    pub fn begin_in_process(&self, caller: &User, info: impl FnOnce() -> RequestInfo) -> Option<Record> {
        let log = self.log.as_ref()?;
        let (info, id) = (info(), new_id());
        let mut event = first_event(&info, &id, &path_of(&info));
        event["userAgent"] = "in-process".into();
        let record = Record { id, active: Some(log.begin(info, event)) };
        record.authenticated(caller);
        Some(record)
    }
}

impl AuditLog {
    fn begin(self: &Arc<Self>, info: RequestInfo, event: Value) -> Arc<Active> {
        let entry = Mutex::new(Entry { decision: None, event, is_complete: false });
        Arc::new(Active { log: self.clone(), info, entry })
    }
}

fn new_id() -> HeaderValue {
    HeaderValue::from_str(&uuid::Uuid::new_v4().to_string()).expect("a UUID is a valid header value")
}

fn first_event(info: &RequestInfo, id: &HeaderValue, uri: &str) -> Value {
    let mut event = json!({
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "auditID": id.to_str().unwrap_or_default(),
        "requestURI": uri, "verb": info.verb, "requestReceivedTimestamp": now(),
    });
    if info.is_resource {
        event["objectRef"] = json!({
            "resource": info.resource, "namespace": info.namespace, "name": info.name,
            "apiGroup": info.group, "apiVersion": info.version, "subresource": Subresource::name_of(info.subresource.as_ref()),
        });
    }
    event
}

fn now() -> String {
    object::time::format_micros(jiff::Timestamp::now())
}

/// The path of a request that was not sent over HTTP.
fn path_of(info: &RequestInfo) -> String {
    let mut path = if info.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", info.group) };
    let namespace = if info.namespace.is_empty() { String::new() } else { format!("namespaces/{}", info.namespace) };
    let subresource = Subresource::name_of(info.subresource.as_ref());
    for part in [info.version.as_str(), &namespace, &info.resource, &info.name, subresource] {
        if !part.is_empty() {
            path.push('/');
            path.push_str(part);
        }
    }
    path
}

impl Record {
    pub fn id_header(&self) -> HeaderValue {
        self.id.clone()
    }

    pub fn id(&self) -> &str {
        self.id.to_str().unwrap_or_default()
    }

    /// The caller is known: the policy decides, and the request counts as received.
    pub fn authenticated(&self, caller: &User) {
        let Some(active) = &self.active else { return };
        let mut entry = active.entry.lock();
        entry.event["user"] = user_value(caller);
        entry.decision = Some(active.log.policy.decide(Some(caller), &active.info));
        active.write(&mut entry, Stage::RequestReceived, None);
    }

    pub fn impersonated(&self, caller: &User, user: &User) {
        if caller != user {
            self.note(Level::Metadata, |event, _| event["impersonatedUser"] = user_value(user));
        }
    }

    pub fn allowed(&self) {
        self.note(Level::Metadata, |event, _| event["annotations"]["authorization.k8s.io/decision"] = "allow".into());
    }

    pub fn annotations(&self, annotations: Vec<(String, String)>) {
        if annotations.is_empty() {
            return;
        }
        self.note(Level::Metadata, |event, _| {
            for (key, value) in annotations {
                event["annotations"][key] = value.into();
            }
        });
    }

    /// A long-running request has sent its response header.
    pub fn response_started(&self, code: u16) {
        let Some(active) = &self.active else { return };
        active.write(&mut active.entry.lock(), Stage::ResponseStarted, Some(code));
    }

    pub fn response_complete(&self, code: u16) {
        self.end(Stage::ResponseComplete, code);
    }

    pub fn panicked(&self) {
        self.end(Stage::Panic, 500);
    }

    fn end(&self, stage: Stage, code: u16) {
        let Some(active) = &self.active else { return };
        active.end(stage, code);
    }

    /// Changes the event when the request is recorded at this level or above.
    fn note(&self, level: Level, change: impl FnOnce(&mut Value, &Decision)) {
        let Some(active) = &self.active else { return };
        let entry = &mut *active.entry.lock();
        if let Some(decision) = entry.decision.as_ref().filter(|decision| decision.level >= level) {
            change(&mut entry.event, decision);
        }
    }

    fn records(&self, level: Level) -> bool {
        self.active
            .as_ref()
            .is_some_and(|active| active.entry.lock().decision.as_ref().is_some_and(|decision| decision.level >= level))
    }
}

impl Active {
    fn end(&self, stage: Stage, code: u16) {
        let mut entry = self.entry.lock();
        if !std::mem::replace(&mut entry.is_complete, true) {
            self.write(&mut entry, stage, Some(code));
        }
    }

    fn write(&self, entry: &mut Entry, stage: Stage, code: Option<u16>) {
        let Entry { decision, event, .. } = entry;
        let decision = decision.get_or_insert_with(|| self.log.policy.decide(None, &self.info));
        if !decision.records(stage) {
            return;
        }
        event["stage"] = stage.name().into();
        event["level"] = decision.level.name().into();
        event["stageTimestamp"] = now().into();
        if let Some(code) = code {
            event["responseStatus"] = json!({"metadata": {}, "code": code});
        }
        let mut line = event.to_string().into_bytes();
        if let Some(webhook) = &self.log.webhook {
            webhook.send(&line);
        }
        if let Some(file) = &self.log.file {
            line.push(b'\n');
            file.append(&line);
        }
    }
}

/// Requests end without a response when their client goes away or their handler panics.
impl Drop for Active {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.end(Stage::Panic, 500);
        } else {
            self.end(Stage::ResponseComplete, CLIENT_CLOSED_REQUEST);
        }
    }
}

fn user_value(user: &User) -> Value {
    json!({"username": user.name, "uid": user.uid, "groups": user.groups, "extra": user.extra})
}
