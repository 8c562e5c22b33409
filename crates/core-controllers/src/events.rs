//! Tells users what a controller noticed, as an Event beside the object it is about.

use cluster_client::{ClusterClient, ResourceRef, WriteOptions};
use jiff::Timestamp;
use object::Object;
use object::time::format_seconds;
use serde_json::json;

use crate::resources::{core, core_object};

/// What happened to which object.
pub struct Notice<'a> {
    pub component: &'a str,
    pub about: &'a Object,
    pub reason: &'a str,
    pub message: String,
}

/// Writes a warning. That it could not be written is logged and no reason to fail.
pub async fn warn(client: &ClusterClient, notice: Notice<'_>, now: Timestamp) {
    let about = notice.about;
    // Events on cluster-wide objects live in the default namespace, as clients look for them there.
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
    let target = ResourceRef::within(&core("events"), namespace);
    if let Err(error) = client.create(target, event, WriteOptions::default()).await {
        tracing::debug!(%error, reason = notice.reason, "an event could not be written");
    }
}
