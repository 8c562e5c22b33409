//! API services: the server of a group.

use std::sync::Arc;

use jiff::Timestamp;
use object::conditions::{self, NewCondition};
use object::{FieldError, FieldPath, Object, names};
use serde_json::json;

use crate::strategies::defaults::{map_at_path, map_or_new, set_absent, show_empty};
use crate::strategies::fields::{Field, Report};
use crate::strategy::{Strategy, WriteContext};

pub(super) fn for_kind(kind: &str) -> Option<Arc<dyn Strategy>> {
    match kind {
        "APIService" => Some(Arc::new(ApiService)),
        _ => None,
    }
}

struct ApiService;

impl Strategy for ApiService {
    fn default(&self, service: &mut Object) {
        show_empty(service, "status");
        let map = service.as_map_mut();
        if let Some(spec) = map_or_new(map, "spec") {
            set_absent(spec, "groupPriorityMinimum", 0);
            set_absent(spec, "versionPriority", 0);
        }
        if let Some(service) = map_at_path(map, &["spec", "service"]) {
            set_absent(service, "port", 443);
        }
    }

    /// A service without a backend is served locally and available from the start.
    fn prepare_create(&self, service: &mut Object, ctx: &WriteContext) {
        let local = service.get(&["spec", "service"]).is_none_or(serde_json::Value::is_null);
        service.set(&["status"], json!({}));
        if local {
            set_local(service, ctx.now);
        }
    }

    fn validate_create(&self, service: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let spec = report.field(service, "spec");
        let (group, version) = (spec.field("group"), spec.field("version"));
        let wanted = format!("{}.{}", version.text(), group.text());
        if names::path_segment(service.name()).is_empty() && service.name() != wanted {
            let detail = format!("must be `spec.version+\".\"+spec.group`: {}", object::field::go_quote(&wanted));
            report.push(FieldError::invalid(FieldPath::new("metadata.name"), service.name(), detail));
        }
        match group.is_empty() {
            true if version.text() != "v1" => {
                group.required("only v1 may have an empty group and it better be legacy kube");
            }
            true => {}
            false => group.dns1123_subdomain(),
        }
        version.problems_as(version.text(), names::dns1035_label(version.text()));
        refuse_outside(spec.field("groupPriorityMinimum"), 20_000);
        refuse_outside(spec.field("versionPriority"), 1000);
        validate_target(spec);
        report.finish()
    }

    fn validate_status(&self, new: &Object, _old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        for condition in report.field(new, "status").field("conditions").items() {
            condition.field("status").one_of(&["True", "False", "Unknown"]);
        }
        report.finish()
    }

    fn validate_name(&self, name: &str) -> Vec<String> {
        names::path_segment(name)
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }
}

fn refuse_outside(priority: Field<'_>, max: i64) {
    let value = priority.int_or(0);
    if value <= 0 || value > max {
        priority.invalid_as(value, format!("must be positive and less than {max}"));
    }
}

fn validate_target(spec: Field<'_>) {
    let (service, bundle, insecure) =
        (spec.field("service"), spec.field("caBundle"), spec.field("insecureSkipTLSVerify"));
    if !service.is_set() {
        if !bundle.is_empty() {
            let bytes =
                base64::Engine::decode(&base64::engine::general_purpose::STANDARD, bundle.text()).unwrap_or_default();
            bundle.invalid_as(format!("{} bytes", bytes.len()), "local APIServices may not have a caBundle");
        }
        if insecure.flag() {
            insecure.invalid("local APIServices may not have insecureSkipTLSVerify");
        }
        return;
    }
    service.field("namespace").require();
    service.field("name").require();
    let port = service.field("port");
    let problems = port.int().map(names::port_number).unwrap_or_default();
    if !problems.is_empty() {
        port.invalid(format!("port is not valid: {}", problems.join(", ")));
    }
    if insecure.flag() && !bundle.is_empty() {
        insecure.invalid("may not be true if caBundle is present");
    }
}

/// Marks a group version that this server serves itself as available.
pub fn set_local(service: &mut Object, now: Timestamp) {
    let message = "Local APIServices are always available";
    conditions::set(service, &NewCondition { kind: "Available", status: "True", reason: "Local", message }, now);
}
