//! Storage classes, attachments and CSI drivers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use object::{FieldError, Object, names};
use serde_json::{Value, json};

use crate::strategies::amount::canonicalize;
use crate::strategies::defaults::{map_or_new, set_absent};
use crate::strategies::fields::{Field, IMMUTABLE, Report, same};
use crate::strategy::{Strategy, WriteContext};

const PARAMETERS_MAX: usize = 512;
const PARAMETERS_BYTES_MAX: usize = 256 * 1024;
const ERROR_BYTES_MAX: usize = 1024;
const NODE_ID_BYTES_MAX: usize = 256;
const TOKENS_IN_ATTRIBUTES: &str = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes";

pub(super) fn for_kind(kind: &str) -> Option<Arc<dyn Strategy>> {
    Some(match kind {
        "StorageClass" => Arc::new(StorageClass),
        "VolumeAttachment" => Arc::new(VolumeAttachment),
        "VolumeAttributesClass" => Arc::new(VolumeAttributesClass),
        "CSIDriver" => Arc::new(CsiDriver),
        "CSINode" => Arc::new(CsiNode),
        "CSIStorageCapacity" => Arc::new(CsiStorageCapacity),
        _ => return None,
    })
}

struct StorageClass;

impl Strategy for StorageClass {
    fn default(&self, class: &mut Object) {
        let map = class.as_map_mut();
        set_absent(map, "reclaimPolicy", "Delete");
        set_absent(map, "volumeBindingMode", "Immediate");
    }

    fn validate_create(&self, class: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_provisioner(report.field(class, "provisioner"));
        validate_parameters(report.field(class, "parameters"));
        let reclaim = report.field(class, "reclaimPolicy");
        if !reclaim.is_empty() {
            reclaim.one_of(&["Delete", "Retain"]);
        }
        let mode = report.field(class, "volumeBindingMode");
        match mode.is_set() {
            true => mode.one_of(&["Immediate", "WaitForFirstConsumer"]),
            false => mode.required(""),
        }
        validate_topologies(report.field(class, "allowedTopologies"));
        report.finish()
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let mut errors = self.validate_create(new);
        let report = Report::new();
        for name in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
            report.field(new, name).immutable(old.get(&[name]));
        }
        errors.extend(report.finish());
        errors
    }
}

fn validate_provisioner(provisioner: Field<'_>) {
    if provisioner.require() {
        let lowered = provisioner.text().to_lowercase();
        provisioner.problems_as(&lowered, names::qualified_name(&lowered));
    }
}

fn validate_parameters(parameters: Field<'_>) {
    if parameters.len() > PARAMETERS_MAX {
        return parameters.too_long(PARAMETERS_MAX);
    }
    let mut size = 0;
    for (key, value) in parameters.entries() {
        if key.is_empty() {
            parameters.invalid_as(key, "field can not be empty.");
        }
        size += key.len() + value.len();
    }
    if size > PARAMETERS_BYTES_MAX {
        parameters.too_long(PARAMETERS_BYTES_MAX);
    }
}

fn validate_topologies(topologies: Field<'_>) {
    let mut seen: Vec<BTreeMap<&str, BTreeSet<&str>>> = Vec::new();
    for term in topologies.items() {
        let mut keys: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for requirement in term.field("matchLabelExpressions").items() {
            let (key, values) = (requirement.field("key"), requirement.field("values"));
            values.require();
            let mut set = BTreeSet::new();
            values.items().filter(|value| !set.insert(value.text())).for_each(Field::duplicate);
            key.qualified_name();
            if keys.insert(key.text(), set).is_some() {
                key.duplicate();
            }
        }
        if seen.contains(&keys) {
            term.field("matchLabelExpressions").duplicate_as("");
        }
        seen.push(keys);
    }
}

struct VolumeAttachment;

impl Strategy for VolumeAttachment {
    fn default(&self, attachment: &mut Object) {
        if let Some(status) = map_or_new(attachment.as_map_mut(), "status") {
            set_absent(status, "attached", false);
        }
    }

    fn prepare_create(&self, attachment: &mut Object, _ctx: &WriteContext) {
        attachment.set(&["status"], json!({"attached": false}));
    }

    fn validate_create(&self, attachment: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let spec = report.field(attachment, "spec");
        validate_driver_name(spec.field("attacher"));
        let source = spec.field("source");
        let (inline, volume) = (source.field("inlineVolumeSpec"), source.field("persistentVolumeName"));
        const ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
        match (inline.is_set(), volume.is_set()) {
            (false, false) => source.required(ONE),
            (true, true) => source.forbidden(ONE),
            (false, true) if volume.is_empty() => volume.required("must specify non empty persistentVolumeName"),
            _ => {}
        }
        spec.field("nodeName").dns1123_subdomain();
        validate_attachment_status(report.field(attachment, "status"));
        if volume.is_set() {
            volume.dns1123_subdomain();
        }
        report.finish()
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let mut errors = self.validate_create(new);
        let report = Report::new();
        let spec = report.field(new, "spec");
        if !same(spec.value(), old.get(&["spec"])) {
            spec.invalid_shown(&shown_attachment(spec.value().unwrap_or(&Value::Null)), IMMUTABLE);
        }
        errors.extend(report.finish());
        errors
    }

    fn validate_status(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        self.validate_update(new, old)
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }
}

fn shown_attachment(spec: &Value) -> String {
    let text = |key: &str| Value::from(spec[key].as_str().unwrap_or_default());
    let source = &spec["source"];
    let part = |key: &str| source.get(key).cloned().unwrap_or(Value::Null);
    format!(
        "{{\"Attacher\":{},\"Source\":{{\"PersistentVolumeName\":{},\"InlineVolumeSpec\":{}}},\"NodeName\":{}}}",
        text("attacher"),
        part("persistentVolumeName"),
        part("inlineVolumeSpec"),
        text("nodeName")
    )
}

fn validate_attachment_status(status: Field<'_>) {
    let metadata = status.field("attachmentMetadata");
    let size: usize = metadata.entries().map(|(key, value)| key.len() + value.len()).sum();
    if size > PARAMETERS_BYTES_MAX {
        metadata.too_long(PARAMETERS_BYTES_MAX);
    }
    for error in ["attachError", "detachError"].map(|name| status.field(name)) {
        if error.field("message").len() > ERROR_BYTES_MAX {
            error.field("message").too_long(PARAMETERS_BYTES_MAX);
        }
        error.field("errorCode").in_range(0, i64::from(i32::MAX));
    }
}

fn validate_driver_name(name: Field<'_>) {
    if !name.require() {
        return;
    }
    if name.len() > 63 {
        name.too_long(63);
    }
    name.problems(names::dns1123_subdomain(&name.text().to_lowercase()));
}

struct VolumeAttributesClass;

impl Strategy for VolumeAttributesClass {
    fn validate_create(&self, class: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_provisioner(report.field(class, "driverName"));
        let parameters = report.field(class, "parameters");
        validate_parameters(parameters);
        parameters.require_because("must contain at least one key/value pair");
        report.finish()
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        for name in ["driverName", "parameters"] {
            if !same(new.get(&[name]), old.get(&[name])) {
                report.field(new, name).forbidden(format!("updates to {name} are forbidden."));
            }
        }
        let mut errors = report.finish();
        errors.extend(self.validate_create(new));
        errors
    }
}

struct CsiDriver;

impl Strategy for CsiDriver {
    fn default(&self, driver: &mut Object) {
        let Some(spec) = map_or_new(driver.as_map_mut(), "spec") else { return };
        set_absent(spec, "attachRequired", true);
        for flag in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
            set_absent(spec, flag, false);
        }
        set_absent(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
        if spec.get("volumeLifecycleModes").and_then(Value::as_array).is_none_or(Vec::is_empty) {
            spec.insert("volumeLifecycleModes".to_owned(), json!(["Persistent"]));
        }
    }

    fn prepare_create(&self, driver: &mut Object, _ctx: &WriteContext) {
        driver.remove(&["spec", "preventPodSchedulingIfMissing"]);
    }

    fn prepare_update(&self, new: &mut Object, old: &Object, _ctx: &WriteContext) {
        if old.get(&["spec", "preventPodSchedulingIfMissing"]).is_none() {
            new.remove(&["spec", "preventPodSchedulingIfMissing"]);
        }
    }

    fn validate_create(&self, driver: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let spec = report.field(driver, "spec");
        spec.field("fsGroupPolicy").optional_one_of(&["File", "None", "ReadWriteOnceWithFSType"]);
        validate_token_requests(spec.field("tokenRequests"));
        let modes = spec.field("volumeLifecycleModes");
        for mode in modes.texts().filter(|mode| !matches!(*mode, "Persistent" | "Ephemeral")) {
            modes.push(FieldError::not_supported(modes.field_path(), mode, &["Persistent", "Ephemeral"]));
        }
        let period = spec.field("nodeAllocatableUpdatePeriodSeconds");
        if period.int().is_some_and(|seconds| seconds < 10) {
            period.invalid("must be greater than or equal to 10 seconds");
        }
        let in_secrets = spec.field("serviceAccountTokenInSecrets");
        if in_secrets.is_set() && spec.field("tokenRequests").is_empty() {
            in_secrets.invalid("serviceAccountTokenInSecrets is set but no tokenRequests are specified");
        }
        report.finish()
    }

    fn warnings(&self, new: &Object, _old: Option<&Object>) -> Vec<String> {
        let unset = new.get(&["spec", "serviceAccountTokenInSecrets"]).is_none();
        if new.items(&["spec", "tokenRequests"]).is_empty() || !unset {
            return Vec::new();
        }
        vec![TOKENS_IN_ATTRIBUTES.to_owned()]
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let mut errors = self.validate_create(new);
        let report = Report::new();
        let spec = report.field(new, "spec");
        // The path is misspelled like this in Kubernetes.
        let attach = spec.field("attachedRequired").with(new.get(&["spec", "attachRequired"]));
        attach.immutable(old.get(&["spec", "attachRequired"]));
        spec.field("volumeLifecycleModes").immutable(old.get(&["spec", "volumeLifecycleModes"]));
        errors.extend(report.finish());
        errors
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }

    fn counts_generation(&self) -> bool {
        true
    }
}

fn validate_token_requests(requests: Field<'_>) {
    let mut seen = BTreeSet::new();
    for request in requests.items() {
        let (audience, expiration) = (request.field("audience"), request.field("expirationSeconds"));
        if !seen.insert(audience.text()) {
            audience.duplicate();
            continue;
        }
        let seconds = expiration.int_or(600);
        if seconds < 600 {
            expiration.invalid("may not specify a duration less than 10 minutes");
        }
        if seconds > 1 << 32 {
            expiration.invalid("may not specify a duration larger than 2^32 seconds");
        }
    }
}

struct CsiNode;

impl Strategy for CsiNode {
    fn default(&self, node: &mut Object) {
        let Some(spec) = map_or_new(node.as_map_mut(), "spec") else { return };
        if spec.get("drivers").and_then(Value::as_array).is_none_or(Vec::is_empty) {
            spec.insert("drivers".to_owned(), Value::Null);
        }
        for driver in crate::strategies::defaults::maps_in(spec, "drivers") {
            if driver.get("topologyKeys").and_then(Value::as_array).is_none_or(Vec::is_empty) {
                driver.insert("topologyKeys".to_owned(), Value::Null);
            }
        }
    }

    fn validate_create(&self, node: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let mut seen = BTreeSet::new();
        for driver in report.field(node, "spec").field("drivers").items() {
            let (name, id) = (driver.field("name"), driver.field("nodeID"));
            validate_driver_name(name);
            id.require();
            if id.len() > NODE_ID_BYTES_MAX {
                id.invalid(format!("must be {NODE_ID_BYTES_MAX} characters or less"));
            }
            driver.path(&["allocatable", "count"]).non_negative();
            if !seen.insert(name.text()) {
                name.duplicate();
            }
            let mut keys = BTreeSet::new();
            for key in driver.field("topologyKeys").texts() {
                if key.is_empty() {
                    driver.required("");
                }
                if !keys.insert(key) {
                    driver.duplicate_as(key);
                }
                driver.problems_as(key, names::qualified_name(key));
            }
        }
        report.finish()
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let mut errors = self.validate_create(new);
        let report = Report::new();
        let drivers = report.field(new, "spec").field("drivers");
        let without_count = |driver: &Value| {
            let mut driver = driver.clone();
            driver.as_object_mut().map(|map| map.remove("allocatable"));
            driver
        };
        for stored in old.items(&["spec", "drivers"]) {
            for driver in drivers.items().filter(|driver| driver.field("name").text() == stored["name"]) {
                let driver = without_count(driver.value().unwrap_or(&Value::Null));
                if !same(Some(&driver), Some(&without_count(stored))) {
                    drivers.invalid_shown(&shown_driver(&driver), IMMUTABLE);
                }
            }
        }
        errors.extend(report.finish());
        errors
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }
}

fn shown_driver(driver: &Value) -> String {
    let text = |key: &str| Value::from(driver[key].as_str().unwrap_or_default());
    let keys = driver.get("topologyKeys").cloned().unwrap_or(Value::Null);
    format!("{{\"Name\":{},\"NodeID\":{},\"TopologyKeys\":{keys},\"Allocatable\":null}}", text("name"), text("nodeID"))
}

struct CsiStorageCapacity;

impl Strategy for CsiStorageCapacity {
    fn default(&self, capacity: &mut Object) {
        canonicalize(capacity.as_map_mut(), "capacity");
        canonicalize(capacity.as_map_mut(), "maximumVolumeSize");
    }

    fn validate_create(&self, capacity: &Object) -> Vec<FieldError> {
        let report = Report::new();
        report.field(capacity, "nodeTopology").label_selector();
        report.field(capacity, "storageClassName").dns1123_subdomain();
        report.field(capacity, "capacity").non_negative_amount();
        report.finish()
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let mut errors = self.validate_create(new);
        let report = Report::new();
        for name in ["nodeTopology", "storageClassName"] {
            report.field(new, name).immutable(old.get(&[name]));
        }
        errors.extend(report.finish());
        errors
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }
}
