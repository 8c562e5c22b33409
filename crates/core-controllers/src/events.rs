//! Records Events about objects.

use cluster_client::{ClusterClient, ResourceRef, WriteOptions};
use jiff::Timestamp;
use object::Object;
use object::builtin;
use object::time::format_seconds;
use serde_json::json;

use crate::resources::core_object;

/// The contents of an event.
pub struct EventContent<'a> {
    pub component: &'a str,
    pub about: &'a Object,
    pub reason: &'a str,
    pub message: String,
}

/// Writes a warning event. A failure is only logged.
pub async fn warn(client: &ClusterClient, notice: EventContent<'_>, now: Timestamp) {
    let about = notice.about;
    // Events of cluster-scoped objects are in the default namespace, where clients look for them.
    let namespace = if about.namespace().is_empty() { "default" } else { about.namespace() };
    let mut event = core_object("Event", namespace, &format!("{}.{:016x}", about.name(), rand::random::<u64>()));
    event.set(
        &["involvedObject"],
        json!({"apiVersion": about.api_version(), "kind": about.kind(), "namespace": about.namespace(),
            "name": about.name(), "uid": about.uid()}),
    );
    event.set(&["reason"], notice.reason);
    event.set(&["message"], notice.message);
    event.set(&["type"], "Warning");
    event.set(&["count"], 1);
    event.set(&["source"], json!({"component": notice.component}));
    event.set(&["reportingComponent"], notice.component);
    event.set(&["firstTimestamp"], format_seconds(now));
    event.set(&["lastTimestamp"], format_seconds(now));
    let target = ResourceRef::within(&builtin::events(), namespace);
    if let Err(error) = client.create(target, event, WriteOptions::default()).await {
        tracing::debug!(%error, reason = notice.reason, "failed to write event");
    }
}
