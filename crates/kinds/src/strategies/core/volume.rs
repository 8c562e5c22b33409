//! PersistentVolumes.

use object::{FieldError, FieldPath, Object, time};
use serde_json::{Map, Value, json};

use super::claims::{VOLUME_MODES, validate_access_modes, validate_basic, validate_positive};
use crate::strategies::amount::canonicalize_list;
use crate::strategies::defaults::{map_or_new, set_absent, set_empty_str, show_empty};
use crate::strategies::fields::{Field, Report, same};
use crate::strategies::metadata::validate_built_in_finalizers;
use crate::strategies::pod_spec::volume_sources::{self, ONE_TYPE};
use crate::strategies::pod_spec::{defaults, scheduling, warnings};
use crate::strategies::{diff, internal};
use crate::strategy::{Strategy, WriteContext};

/// In the order Kubernetes checks them.
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];
const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

pub struct PersistentVolume;

impl Strategy for PersistentVolume {
    fn default(&self, object: &mut Object) {
        let Some(spec) = map_or_new(object.as_map_mut(), "spec") else { return };
        set_empty_str(spec, "persistentVolumeReclaimPolicy", "Retain");
        set_absent(spec, "volumeMode", "Filesystem");
        canonicalize_list(spec, "capacity");
        defaults::default_block_volume(spec);
        show_empty(object, "status");
        if object.str_at(&["status", "phase"]).is_empty() {
            object.set(&["status", "phase"], "Pending");
        }
    }

    fn prepare_create(&self, object: &mut Object, ctx: &WriteContext) {
        let now = time::format_seconds(ctx.now);
        object.set(&["status"], json!({"phase": "Pending", "lastPhaseTransitionTime": now}));
    }

    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_built_in_finalizers(object, &report);
        validate_spec(report.field(object, "spec"), object.name());
        refuse_mount_options(&report, object);
        report.finish()
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let mut errors = self.validate_create(new);
        let report = Report::new();
        validate_change(&report, new, old);
        errors.extend(report.finish());
        errors
    }

    fn prepare_status(&self, new: &mut Object, old: &Object, ctx: &WriteContext) {
        const TIME: [&str; 2] = ["status", "lastPhaseTransitionTime"];
        let changed = new.str_at(&["status", "phase"]) != old.str_at(&["status", "phase"]);
        let given = new.str_at(&TIME).to_owned();
        if !changed && given.is_empty() {
            if let Some(kept) = old.get(&TIME) {
                new.set(&TIME, kept.clone());
            }
        } else if changed && (given.is_empty() || given == old.str_at(&TIME)) {
            new.set(&TIME, time::format_seconds(ctx.now));
        }
    }

    fn warnings(&self, new: &Object, _old: Option<&Object>) -> Vec<String> {
        volume_warnings(new)
    }
}

fn validate_spec(spec: Field<'_>, name: &str) {
    spec.field("accessModes").require();
    validate_access_modes(spec.field("accessModes"));
    validate_capacity(spec.field("capacity"));
    spec.field("persistentVolumeReclaimPolicy").one_of(&["Delete", "Recycle", "Retain"]);
    let affinity = spec.field("nodeAffinity");
    if affinity.is_set() {
        if affinity.field("required").is_set() {
            scheduling::validate_node_selector(affinity.field("required"));
        } else {
            affinity.field("required").required("must specify required node constraints");
        }
    }
    validate_source(spec, name);
    let recycles = spec.field("persistentVolumeReclaimPolicy").text() == "Recycle";
    let host_path = spec.field("hostPath").field("path");
    if recycles && spec.field("hostPath").is_set() && is_root(host_path.text()) {
        spec.field("persistentVolumeReclaimPolicy").forbidden("may not be 'recycle' for a hostPath mount of '/'");
    }
    if !spec.field("storageClassName").is_empty() {
        spec.field("storageClassName").dns1123_subdomain();
    }
    spec.field("volumeMode").optional_one_of(&VOLUME_MODES);
    let class = spec.field("volumeAttributesClassName");
    if class.is_set() {
        if class.require_because("an empty string is disallowed") {
            class.dns1123_subdomain();
        }
        if !spec.field("csi").is_set() {
            spec.field("csi").required("has to be specified when using volumeAttributesClassName");
        }
    }
}

fn is_root(path: &str) -> bool {
    path.starts_with('/') && path.split('/').all(|part| part.is_empty() || part == ".")
}

fn validate_capacity(capacity: Field<'_>) {
    capacity.require();
    if !capacity.key("storage").is_set() || capacity.len() > 1 {
        capacity.push(FieldError {
            value: Some(capacity.value().cloned().unwrap_or_default()),
            ..FieldError::not_supported(capacity.field_path(), "", &["storage"])
        });
    }
    for (_, amount) in capacity.entries() {
        validate_basic(amount);
        validate_positive(amount);
    }
}

fn validate_source(spec: Field<'_>, name: &str) {
    let mut seen = false;
    for source_name in SOURCES {
        let source = spec.field(source_name);
        if !source.is_set() {
            continue;
        }
        // A flex volume next to another source is not detected.
        if std::mem::replace(&mut seen, true) && source_name != "flexVolume" {
            let shown = if source_name == "cephfs" { spec.field("cephFS") } else { source };
            shown.forbidden(ONE_TYPE);
            continue;
        }
        validate_one(source_name, source, spec, name);
    }
    if !seen {
        spec.required("must specify a volume type");
    }
}

fn validate_one<'a>(kind: &str, source: Field<'a>, spec: Field<'a>, name: &str) {
    match kind {
        "local" => {
            if source.field("path").require() {
                source.field("path").no_backsteps();
            }
            if !spec.field("nodeAffinity").is_set() {
                spec.field("nodeAffinity").required("Local volume requires node affinity");
            }
        }
        "csi" => {
            volume_sources::validate_driver_name(source.field("driver"));
            source.field("volumeHandle").require();
            for secret in [
                "controllerPublishSecretRef",
                "controllerExpandSecretRef",
                "nodePublishSecretRef",
                "nodeExpandSecretRef",
            ] {
                validate_secret(source.field(secret));
            }
        }
        "gcePersistentDisk" => {
            volume_sources::validate_shared(kind, spec.field("persistentDisk").with(source.value()));
        }
        _ => volume_sources::validate_shared(kind, source),
    }
    let secret = source.field("secretRef");
    if matches!(kind, "cinder" | "storageos") && secret.is_set() {
        secret.field("namespace").require();
    }
    if kind == "iscsi" && secret.is_set() {
        secret.field("name").require();
    }
    let portal = source.field("targetPortal");
    if kind == "iscsi" && source.field("initiatorName").is_set() && name.len() + 1 + portal.len() > 64 {
        source.field("targetportal").with(portal.value()).invalid("Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.");
    }
    if kind == "azureFile" && source.field("secretNamespace").is_set() {
        source.field("secretNamespace").require();
    }
}

fn validate_secret(secret: Field<'_>) {
    if !secret.is_set() {
        return;
    }
    if secret.field("name").require() {
        secret.field("name").dns1123_subdomain();
    }
    if secret.field("namespace").require() {
        secret.field("namespace").dns1123_label();
    }
}

fn refuse_mount_options(report: &Report<'_>, object: &Object) {
    const MOUNTABLE: [&str; 13] = [
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "glusterfs",
        "nfs",
        "rbd",
        "quobyte",
        "iscsi",
        "cinder",
        "cephfs",
        "azureFile",
        "vsphereVolume",
        "azureDisk",
        "photonPersistentDisk",
    ];
    let mountable = MOUNTABLE.iter().any(|source| object.get(&["spec", source]).is_some());
    if !mountable && object.annotation(MOUNT_OPTIONS).is_some() {
        report.push(FieldError::forbidden(
            FieldPath::new(format!("metadata.annotations.{MOUNT_OPTIONS}")),
            "may not specify mount options for this volume type",
        ));
    }
}

fn source_of(object: &Object) -> Value {
    let spec = object.get(&["spec"]).and_then(Value::as_object);
    let found = spec.into_iter().flatten().filter(|(name, _)| SOURCES.contains(&name.as_str()));
    Value::Object(found.map(|(name, value)| (name.clone(), value.clone())).collect::<Map<_, _>>())
}

fn validate_change<'a>(report: &'a Report<'a>, new: &'a Object, old: &'a Object) {
    let (mut now, before) = (source_of(new), source_of(old));
    // The secret for expanding a volume may be added later.
    let expands = "controllerExpandSecretRef";
    if before["csi"].is_object()
        && before["csi"].get(expands).is_none()
        && let Some(csi) = now.get_mut("csi").and_then(Value::as_object_mut)
    {
        csi.remove(expands);
    }
    if !same(Some(&now), Some(&before)) {
        report.push(FieldError::forbidden(
            FieldPath::new("spec.persistentvolumesource"),
            format!(
                "spec.persistentvolumesource is immutable after creation\n{}",
                diff::unified(
                    &internal::pretty("SPersistentVolumeSource", Some(&before)),
                    &internal::pretty("SPersistentVolumeSource", Some(&now))
                )
            ),
        ));
    }
    report.at("volumeMode", new.get(&["spec", "volumeMode"])).immutable(old.get(&["spec", "volumeMode"]));
    let affinity = report.at("nodeAffinity", new.get(&["spec", "nodeAffinity"]));
    if let Some(before) = old.get(&["spec", "nodeAffinity"])
        && !same(affinity.value().map(modern_labels).as_ref(), Some(&modern_labels(before)))
    {
        affinity
            .invalid_internal("*SVolumeNodeAffinity", "field is immutable, except for updating from beta label to GA");
    }
    let class = report.field(new, "spec").field("volumeAttributesClassName");
    if old.get(&["spec", "volumeAttributesClassName"]).is_some() && !class.is_set() {
        class.forbidden("update from non-nil value to nil is forbidden");
    }
}

/// The affinity with every label under its current name.
fn modern_labels(affinity: &Value) -> Value {
    let mut copy = affinity.clone();
    let terms = copy.get_mut("required").and_then(|r| r.get_mut("nodeSelectorTerms")).and_then(Value::as_array_mut);
    for term in terms.into_iter().flatten() {
        for expression in term.get_mut("matchExpressions").and_then(Value::as_array_mut).into_iter().flatten() {
            let modern = match expression["key"].as_str() {
                Some("failure-domain.beta.kubernetes.io/zone") => "topology.kubernetes.io/zone",
                Some("failure-domain.beta.kubernetes.io/region") => "topology.kubernetes.io/region",
                Some("beta.kubernetes.io/os") => "kubernetes.io/os",
                Some("beta.kubernetes.io/arch") => "kubernetes.io/arch",
                Some("beta.kubernetes.io/instance-type") => "node.kubernetes.io/instance-type",
                _ => continue,
            };
            expression["key"] = modern.into();
        }
    }
    copy
}

fn volume_warnings(new: &Object) -> Vec<String> {
    let mut out = Vec::new();
    let notes = [(OLD_CLASS, "v1.8", "storageClassName"), (MOUNT_OPTIONS, "v1.31", "mountOptions")];
    for (note, since, field) in notes {
        if new.annotation(note).is_some() {
            out.push(format!(
                "metadata.annotations[{note}]: deprecated since {since}; use \"{field}\" attribute instead"
            ));
        }
    }
    if new.str_at(&["spec", "persistentVolumeReclaimPolicy"]) == "Recycle" {
        out.push("spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.".to_owned());
    }
    let report = Report::new();
    let spec = report.field(new, "spec");
    for term in spec.path(&["nodeAffinity", "required", "nodeSelectorTerms"]).items() {
        warnings::warn_of_node_term(term, false, &mut out);
    }
    let sources = [
        ("cephfs", "cephfs", "v1.28", "v1.31+"),
        ("photonPersistentDisk", "photonPersistentDisk", "v1.11", "v1.16+"),
        ("scaleIO", "scaleIO", "v1.16", "v1.22+"),
        ("storageos", "storageOS", "v1.22", "v1.25+"),
        ("glusterfs", "glusterfs", "v1.25", "v1.26+"),
        ("rbd", "rbd", "v1.28", "v1.31+"),
    ];
    for (source, shown, since, gone) in sources {
        if spec.field(source).is_set() {
            out.push(format!("spec.{shown}: deprecated in {since}, non-functional in {gone}"));
        }
    }
    out
}
