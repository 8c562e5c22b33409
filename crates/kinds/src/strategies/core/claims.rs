//! PersistentVolumeClaims, and claim templates of other kinds.

use object::{FieldError, FieldPath, Object};
use serde_json::{Map, Value, json};

use crate::strategies::amount::{Amount, canonicalize_list};
use crate::strategies::defaults::{map_at, show_empty};
use crate::strategies::fields::{Field, Report, same};
use crate::strategies::metadata::validate_built_in_finalizers;
use crate::strategies::pod_spec::{defaults, resources, warnings};
use crate::strategies::{diff, internal};
use crate::strategy::{Strategy, WriteContext};

pub const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
pub const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

pub struct PersistentVolumeClaim;

impl Strategy for PersistentVolumeClaim {
    fn default(&self, object: &mut Object) {
        default_claim(object.as_map_mut());
        show_empty(object, "status");
    }

    fn prepare_create(&self, object: &mut Object, _ctx: &WriteContext) {
        object.set(&["status"], json!({"phase": "Pending"}));
        normalize_sources(object, false);
    }

    fn prepare_update(&self, new: &mut Object, old: &Object, _ctx: &WriteContext) {
        let in_use = old.get(&["spec", "dataSource"]).is_some() || old.get(&["spec", "dataSourceRef"]).is_some();
        normalize_sources(new, in_use);
    }

    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_built_in_finalizers(object, &report);
        validate_spec(report.field(object, "spec"));
        report.finish()
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let mut errors = self.validate_create(new);
        let report = Report::new();
        validate_change(&report, new, old);
        errors.extend(report.finish());
        errors
    }

    fn validate_status(&self, new: &Object, _old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let status = report.field(new, "status");
        for (_, amount) in status.field("capacity").entries() {
            validate_basic(amount);
        }
        for (name, amount) in status.field("allocatedResources").entries() {
            if amount.amount().is_negative() {
                validate_basic(amount);
            } else {
                resources::validate_amount(amount, name);
            }
        }
        report.finish()
    }

    fn warnings(&self, new: &Object, _old: Option<&Object>) -> Vec<String> {
        let mut out = Vec::new();
        if new.annotation(OLD_CLASS).is_some() {
            out.push(format!(
                "metadata.annotations[{OLD_CLASS}]: deprecated since v1.8; use \"storageClassName\" attribute instead"
            ));
        }
        let report = Report::new();
        warnings::of_claim_spec(report.field(new, "spec"), &mut out);
        out
    }
}

/// Defaults of a claim, also inside a StatefulSet.
pub fn default_claim(claim: &mut Map<String, Value>) {
    crate::strategies::defaults::set_absent(claim, "spec", json!({}));
    if let Some(spec) = map_at(claim, "spec") {
        defaults::default_claim_spec(spec);
    }
    if let Some(status) = map_at(claim, "status") {
        canonicalize_list(status, "capacity");
        canonicalize_list(status, "allocatedResources");
    }
}

/// `dataSource` and `dataSourceRef` are equal unless the source is in another namespace. A source that is neither a
/// claim nor a snapshot has always been ignored.
fn normalize_sources(object: &mut Object, in_use: bool) {
    let (source, reference) = (object.get(&["spec", "dataSource"]), object.get(&["spec", "dataSourceRef"]));
    let is_set = |value: Option<&Value>| value.is_some_and(|v| !v.is_null());
    match (is_set(source), is_set(reference)) {
        (true, false) => {
            let source = source.cloned().unwrap_or_default();
            let group = source["apiGroup"].as_str().unwrap_or_default();
            let known = match source["kind"].as_str() {
                Some("PersistentVolumeClaim") => group.is_empty(),
                Some("VolumeSnapshot") => group == "snapshot.storage.k8s.io",
                _ => false,
            };
            if known || in_use {
                object.set(&["spec", "dataSourceRef"], source);
            } else {
                object.remove(&["spec", "dataSource"]);
            }
        }
        (false, true) => {
            let reference = reference.cloned().unwrap_or_default();
            let elsewhere = reference["namespace"].as_str().is_some_and(|n| !n.is_empty());
            if elsewhere && !in_use {
                object.remove(&["spec", "dataSourceRef"]);
            } else if !elsewhere {
                object.set(&["spec", "dataSource"], reference);
            }
        }
        _ => {}
    }
}

/// The template of an ephemeral volume: its metadata may only have labels and annotations.
pub fn validate_template(template: Field<'_>) {
    let meta = template.field("metadata");
    meta.field("annotations").annotations();
    meta.field("labels").labels();
    for name in meta.names().filter(|name| !matches!(*name, "labels" | "annotations")) {
        if !meta.field(name).is_empty() {
            meta.field(name).forbidden("cannot be set");
        }
    }
    validate_spec(template.field("spec"));
}

pub fn validate_access_modes(modes: Field<'_>) {
    let (mut single, mut other) = (false, false);
    for mode in modes.texts() {
        if !ACCESS_MODES.contains(&mode) {
            modes.push(FieldError::not_supported(modes.field_path(), mode, &ACCESS_MODES));
        } else if mode == "ReadWriteOncePod" {
            single = true;
        } else {
            other = true;
        }
    }
    if single && other {
        modes.forbidden("may not use ReadWriteOncePod with other access modes");
    }
}

pub fn validate_spec(spec: Field<'_>) {
    spec.field("accessModes").require_because("at least 1 access mode is required");
    spec.field("selector").label_selector();
    validate_access_modes(spec.field("accessModes"));
    let request = spec.field("resources").field("requests").key("storage");
    let shown = spec.field("resources").key("storage").with(request.value());
    if !shown.is_set() {
        shown.required("");
    } else {
        validate_positive(shown);
    }
    if !spec.field("storageClassName").is_empty() {
        spec.field("storageClassName").dns1123_subdomain();
    }
    spec.field("volumeMode").optional_one_of(&VOLUME_MODES);
    validate_sources(spec);
    if !spec.field("volumeAttributesClassName").is_empty() {
        spec.field("volumeAttributesClassName").dns1123_subdomain();
    }
}

pub fn validate_positive(amount: Field<'_>) {
    match amount.value().and_then(Amount::of) {
        None => amount.invalid(crate::strategies::amount::MALFORMED),
        Some(value) if !value.is_positive() => amount.invalid_as(value.to_string(), "must be greater than zero"),
        Some(_) => {}
    }
}

/// Invalid capacities are shown as plain numbers.
pub fn validate_basic(amount: Field<'_>) {
    if amount.amount().is_negative() {
        let whole = i64::try_from(amount.amount().whole()).unwrap_or(i64::MIN);
        amount.invalid_as(whole, "must be a valid resource quantity");
    }
}

fn validate_sources(spec: Field<'_>) {
    let (source, reference) = (spec.field("dataSource"), spec.field("dataSourceRef"));
    for source in [source, reference] {
        if !source.is_set() {
            continue;
        }
        source.field("name").require();
        source.field("kind").require();
        let (group, kind) = (source.field("apiGroup"), source.field("kind").text());
        if group.is_empty() && kind != "PersistentVolumeClaim" {
            source.invalid_as(kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup");
        }
        if !group.is_empty() {
            group.dns1123_subdomain();
        }
    }
    let namespace = reference.field("namespace");
    if !namespace.is_empty() {
        namespace.dns1123_label();
    }
    // Kubernetes shows the path here instead of the value.
    let refuse = |detail: &str| spec.invalid_as(json!({}), detail);
    if !namespace.is_empty() && source.is_set() {
        refuse("may not be specified when dataSourceRef.namespace is specified");
    } else if source.is_set() && reference.is_set() {
        let differs = |name: &'static str| source.field(name).value() != reference.field(name).value();
        if ["apiGroup", "kind", "name"].into_iter().any(differs) {
            refuse("must match dataSourceRef");
        }
    }
}

fn validate_change<'a>(report: &'a Report<'a>, new: &'a Object, old: &'a Object) {
    let empty = Value::Null;
    let mut now = new.get(&["spec"]).unwrap_or(&empty).clone();
    let mut before = old.get(&["spec"]).unwrap_or(&empty).clone();
    let is_bound = new.str_at(&["status", "phase"]) == "Bound";
    allow_class_upgrade(report, new, old, &mut now, &before);
    if before["volumeName"].as_str().unwrap_or_default().is_empty() {
        copy(&mut before, &now.clone(), "volumeName");
    }
    if is_bound {
        if now["resources"]["requests"].is_object() {
            now["resources"]["requests"]["storage"] = before["resources"]["requests"]["storage"].clone();
        }
        copy(&mut now, &before, "volumeAttributesClassName");
    }
    let spec = report.field(new, "spec");
    if !same(Some(&now), Some(&before)) {
        spec.forbidden(format!(
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n{}",
            diff::unified(
                &internal::pretty("SPersistentVolumeClaimSpec", Some(&before)),
                &internal::pretty("SPersistentVolumeClaimSpec", Some(&now))
            )
        ));
    }
    validate_size(spec, new, old);
    report.at("volumeMode", new.get(&["spec", "volumeMode"])).immutable(old.get(&["spec", "volumeMode"]));
    validate_attributes_class(spec.field("volumeAttributesClassName"), old);
}

/// A claim may shrink again as long as the volume never grew.
fn validate_size(spec: Field<'_>, new: &Object, old: &Object) {
    let amount = |object: &Object, path: &[&str]| object.get(path).and_then(Amount::of).unwrap_or(Amount::ZERO);
    let size = ["spec", "resources", "requests", "storage"];
    let (wanted, previous) = (amount(new, &size), amount(old, &size));
    if wanted < previous && wanted <= amount(old, &["status", "capacity", "storage"]) {
        spec.path(&["resources", "requests", "storage"]).forbidden("field can not be less than status.capacity");
    }
}

fn copy(target: &mut Value, source: &Value, key: &str) {
    let Some(map) = target.as_object_mut() else { return };
    match source.get(key) {
        Some(value) => map.insert(key.to_owned(), value.clone()),
        None => map.remove(key),
    };
}

/// The class may move from the old annotation to its field, and may be set once if there was none.
fn allow_class_upgrade(report: &Report<'_>, new: &Object, old: &Object, now: &mut Value, before: &Value) {
    let (old_note, new_note) = (old.annotation(OLD_CLASS), new.annotation(OLD_CLASS));
    let had_class = before.get("storageClassName").is_some_and(|v| !v.is_null());
    let wanted = now["storageClassName"].as_str().map(str::to_owned);
    let moved = !had_class && old_note.is_some() && wanted.as_deref() == old_note;
    if moved && (new_note.is_none() || new_note == old_note) {
        copy(now, &json!({}), "storageClassName");
        return;
    }
    if old_note.unwrap_or_default() != new_note.unwrap_or_default() {
        report.push(FieldError::invalid(
            FieldPath::new(format!("metadata.annotations.{OLD_CLASS}")),
            new_note.unwrap_or_default(),
            "field is immutable",
        ));
    }
    let first_time = !had_class && wanted.is_some() && old_note.is_none_or(|note| wanted.as_deref() == Some(note));
    if first_time {
        copy(now, before, "storageClassName");
    }
}

fn validate_attributes_class(class: Field<'_>, old: &Object) {
    if same(class.value(), old.get(&["spec", "volumeAttributesClassName"]))
        || old.get(&["status", "currentVolumeAttributesClassName"]).is_none()
    {
        return;
    }
    if !class.is_set() {
        class.forbidden("update to nil is forbidden when status.currentVolumeAttributesClassName is not nil");
    } else if class.is_empty() {
        class.forbidden("update to empty string is forbidden when status.currentVolumeAttributesClassName is not nil");
    }
}
