//! Rows of the core group: namespaces, nodes, configuration, volumes, quotas and events.

use std::collections::BTreeSet;

use jiff::Timestamp;
use object::Object;
use object::conditions::{all_in, find_in};
use serde_json::{Map, Value};

use super::cells::{age_of, optional_text, quantity, str_of, text_or};
use super::{AGE, Col, NAME, PrinterTable, age, apps, pod, text};

pub(super) fn table(kind: &str) -> Option<PrinterTable> {
    Some(match kind {
        "Pod" => pod::TABLE,
        "PodTemplate" => pod::POD_TEMPLATE,
        "ComponentStatus" => pod::COMPONENT_STATUS,
        "ReplicationController" => apps::REPLICATION_CONTROLLER,
        "Namespace" => NAMESPACE,
        "Node" => NODE,
        "ConfigMap" => CONFIG_MAP,
        "Secret" => SECRET,
        "ServiceAccount" => SERVICE_ACCOUNT,
        "PersistentVolume" => PERSISTENT_VOLUME,
        "PersistentVolumeClaim" => PERSISTENT_VOLUME_CLAIM,
        "ResourceQuota" => RESOURCE_QUOTA,
        "Event" => EVENT,
        _ => return None,
    })
}

const NAMESPACE: PrinterTable = PrinterTable::new(
    &[NAME, text("Status", "Whether the namespace is in use or being emptied."), AGE],
    |namespace, now| {
        vec![namespace.name().into(), namespace.str_at(&["status", "phase"]).into(), age_of(namespace, now)]
    },
);

fn entry_count(object: &Object, field: &str) -> usize {
    object.get(&[field]).and_then(Value::as_object).map_or(0, Map::len)
}

const CONFIG_MAP: PrinterTable =
    PrinterTable::new(&[NAME, text("Data", "How many entries it holds."), AGE], |map, now| {
        let entries = entry_count(map, "data") + entry_count(map, "binaryData");
        vec![map.name().into(), entries.into(), age_of(map, now)]
    });

const SECRET: PrinterTable = PrinterTable::new(
    &[NAME, text("Type", "What the secret is for."), text("Data", "How many entries it holds."), AGE],
    |secret, now| {
        vec![
            secret.name().into(),
            secret.str_at(&["type"]).into(),
            entry_count(secret, "data").into(),
            age_of(secret, now),
        ]
    },
);

const SERVICE_ACCOUNT: PrinterTable =
    PrinterTable::new(&[NAME, AGE], |account, now| vec![account.name().into(), age_of(account, now)]);

const NODE: PrinterTable = PrinterTable::new(
    &[
        NAME,
        text("Status", "Whether the node is ready, and whether it takes new pods."),
        text("Roles", "What the node is labelled to be for."),
        AGE,
        text("Version", "The version of the node's agent."),
        text("Internal-IP", "The node's address inside the cluster.").wide(),
        text("External-IP", "The node's address outside the cluster.").wide(),
        text("OS-Image", "The operating system of the node.").wide(),
        text("Kernel-Version", "The kernel of the node and its architecture.").wide(),
        text("Container-Runtime", "What runs containers on the node.").wide(),
    ],
    node_row,
);

fn node_row(node: &Object, now: Timestamp) -> Vec<Value> {
    let info = |key: &str| node.str_at(&["status", "nodeInfo", key]);
    let address = |ty: &str| {
        let found = node.items(&["status", "addresses"]).iter().find(|a| str_of(a, "type") == ty);
        Value::from(found.map_or("<none>", |a| str_of(a, "address")))
    };
    let mut kernel = text_or(info("kernelVersion"), "<unknown>");
    if !info("architecture").is_empty() {
        kernel.push_str(&format!(" ({})", info("architecture")));
    }
    vec![
        node.name().into(),
        node_status(node).into(),
        node_roles(node).into(),
        age_of(node, now),
        info("kubeletVersion").into(),
        address("InternalIP"),
        address("ExternalIP"),
        text_or(info("osImage"), "<unknown>").into(),
        kernel.into(),
        text_or(info("containerRuntimeVersion"), "<unknown>").into(),
    ]
}

fn node_status(node: &Object) -> String {
    let ready = match all_in(node.items(&["status", "conditions"])).filter(|c| c.kind() == "Ready").last() {
        Some(condition) if condition.is_true() => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let cordoned = node.bool_at(&["spec", "unschedulable"]) == Some(true);
    format!("{ready}{}", if cordoned { ",SchedulingDisabled" } else { "" })
}

fn node_roles(node: &Object) -> String {
    let roles: BTreeSet<&str> = node
        .labels()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => Some(value),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    text_or(&roles.into_iter().collect::<Vec<_>>().join(","), "<none>")
}

const ACCESS_MODES: Col = text("Access Modes", "How many nodes may mount the volume, and how.");
const STORAGE_CLASS: Col = text("StorageClass", "The class the volume comes from.");
const ATTRIBUTES_CLASS: Col = text("VolumeAttributesClass", "The class of attributes that can change while in use.");
const VOLUME_MODE: Col = text("VolumeMode", "Whether the volume is a file system or a block device.").wide();

const PERSISTENT_VOLUME: PrinterTable = PrinterTable::new(
    &[
        NAME,
        text("Capacity", "How large the volume is."),
        ACCESS_MODES,
        text("Reclaim Policy", "What becomes of the volume when its claim goes."),
        text("Status", "Whether the volume is bound."),
        text("Claim", "The claim the volume is bound to."),
        STORAGE_CLASS,
        ATTRIBUTES_CLASS,
        text("Reason", "Why the volume is in its state."),
        AGE,
        VOLUME_MODE,
    ],
    |volume, now| {
        let claim = volume.get(&["spec", "claimRef"]).filter(|c| c.is_object());
        let claim = claim.map(|c| format!("{}/{}", str_of(c, "namespace"), str_of(c, "name"))).unwrap_or_default();
        vec![
            volume.name().into(),
            quantity(volume.get(&["spec", "capacity", "storage"])).into(),
            access_modes(volume.items(&["spec", "accessModes"])).into(),
            volume.str_at(&["spec", "persistentVolumeReclaimPolicy"]).into(),
            phase_or_terminating(volume),
            claim.into(),
            storage_class(volume),
            optional_text(volume, &["spec", "volumeAttributesClassName"], "<unset>"),
            volume.str_at(&["status", "reason"]).into(),
            age_of(volume, now),
            optional_text(volume, &["spec", "volumeMode"], "<unset>"),
        ]
    },
);

const PERSISTENT_VOLUME_CLAIM: PrinterTable = PrinterTable::new(
    &[
        NAME,
        text("Status", "Whether the claim is bound."),
        text("Volume", "The volume the claim is bound to."),
        text("Capacity", "How large that volume is."),
        ACCESS_MODES,
        STORAGE_CLASS,
        ATTRIBUTES_CLASS,
        AGE,
        VOLUME_MODE,
    ],
    |claim, now| {
        let volume = claim.str_at(&["spec", "volumeName"]);
        let (capacity, modes) = if volume.is_empty() {
            Default::default()
        } else {
            let capacity = quantity(claim.get(&["status", "capacity", "storage"]));
            (capacity, access_modes(claim.items(&["status", "accessModes"])))
        };
        vec![
            claim.name().into(),
            phase_or_terminating(claim),
            volume.into(),
            capacity.into(),
            modes.into(),
            storage_class(claim),
            optional_text(claim, &["spec", "volumeAttributesClassName"], "<unset>"),
            age_of(claim, now),
            optional_text(claim, &["spec", "volumeMode"], "<unset>"),
        ]
    },
);

fn phase_or_terminating(object: &Object) -> Value {
    if object.is_deleting() { "Terminating".into() } else { object.str_at(&["status", "phase"]).into() }
}

/// The class by name; the annotation predates the field and takes precedence.
fn storage_class(object: &Object) -> Value {
    let annotation = object.annotation("volume.beta.kubernetes.io/storage-class");
    annotation.unwrap_or_else(|| object.str_at(&["spec", "storageClassName"])).into()
}

fn access_modes(modes: &[Value]) -> String {
    let short =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let present = short.iter().filter(|(mode, _)| modes.iter().any(|m| m == mode));
    present.map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}

const RESOURCE_QUOTA: PrinterTable = PrinterTable::new(
    &[
        NAME,
        text("Request", "What is used of what may be requested and counted."),
        text("Limit", "What is used of what limits may add up to."),
        AGE,
    ],
    |quota, now| {
        let hard = quota.get(&["status", "hard"]).and_then(Value::as_object);
        let (mut requests, mut limits) = (Vec::new(), Vec::new());
        for (resource, hard) in hard.into_iter().flatten() {
            let used = quantity(quota.get(&["status", "used", resource]));
            let column = if resource.starts_with("limits.") { &mut limits } else { &mut requests };
            column.push(format!("{resource}: {used}/{}", quantity(Some(hard))));
        }
        vec![quota.name().into(), requests.join(", ").into(), limits.join(", ").into(), age_of(quota, now)]
    },
);

const EVENT: PrinterTable = PrinterTable::new(
    &[
        text("Last Seen", "How long ago it happened last."),
        text("Type", "Normal or Warning."),
        text("Reason", "Why it happened, as one word."),
        text("Object", "What it happened to."),
        text("Subobject", "The part of the object it happened to.").wide(),
        text("Source", "Who reported it.").wide(),
        text("Message", "What happened, as a sentence."),
        text("First Seen", "How long ago it happened first.").wide(),
        text("Count", "How often it happened.").wide(),
        text("Name", "The name of the event.").as_name().wide(),
    ],
    event_row,
);

/// Reads both forms of an event: `events.k8s.io` calls the object `regarding`, the text `note`, and prefixes dropped
/// fields with `deprecated`.
fn event_row(event: &Object, now: Timestamp) -> Vec<Value> {
    let either = |core: &[&str], new: &[&str]| match event.str_at(core) {
        "" => event.str_at(new).to_owned(),
        text => text.to_owned(),
    };
    let event_time = event.str_at(&["eventTime"]);
    let first = match either(&["firstTimestamp"], &["deprecatedFirstTimestamp"]) {
        time if time.is_empty() => age::since(event_time, now),
        time => age::since(&time, now),
    };
    let mut last = match either(&["lastTimestamp"], &["deprecatedLastTimestamp"]) {
        time if time.is_empty() => first.clone(),
        time => age::since(&time, now),
    };
    let mut count = event.i64_at(&["count"]).or_else(|| event.i64_at(&["deprecatedCount"])).unwrap_or(0);
    if let Some(series) = event.get(&["series"]).filter(|s| s.is_object()) {
        last = age::since(str_of(series, "lastObservedTime"), now);
        count = series["count"].as_i64().unwrap_or(0);
    } else if count == 0 {
        count = 1;
    }
    let object = event.get(&["involvedObject"]).or_else(|| event.get(&["regarding"])).unwrap_or(&Value::Null);
    let kind = str_of(object, "kind").to_lowercase();
    let target = match str_of(object, "name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let source = |key: &str| either(&["source", key], &["deprecatedSource", key]);
    let component = text_or(&source("component"), &either(&["reportingComponent"], &["reportingController"]));
    let instance = text_or(&source("host"), event.str_at(&["reportingInstance"]));
    let source = if instance.is_empty() { component } else { format!("{component}, {instance}") };
    vec![
        last.into(),
        event.str_at(&["type"]).into(),
        event.str_at(&["reason"]).into(),
        target.into(),
        str_of(object, "fieldPath").into(),
        source.into(),
        either(&["message"], &["note"]).trim().into(),
        first.into(),
        count.into(),
        event.name().into(),
    ]
}

/// An APIService: its server and availability.
pub(super) const API_SERVICE: PrinterTable = PrinterTable::new(
    &[
        NAME,
        text("Service", "The service the group is served by, or Local."),
        text("Available", "Whether the service answers."),
        AGE,
    ],
    |service, now| {
        let target = service.get(&["spec", "service"]).filter(|s| s.is_object());
        let target = target.map(|s| format!("{}/{}", str_of(s, "namespace"), str_of(s, "name")));
        let available = match find_in(service.items(&["status", "conditions"]), "Available") {
            None => "Unknown".to_owned(),
            Some(condition) => match (condition.status(), condition.reason()) {
                (status, reason) if status != "True" && !reason.is_empty() => format!("{status} ({reason})"),
                (status, _) => status.to_owned(),
            },
        };
        vec![
            service.name().into(),
            target.unwrap_or_else(|| "Local".to_owned()).into(),
            available.into(),
            age_of(service, now),
        ]
    },
);
