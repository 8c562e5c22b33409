//! Validation of Clusters, with the messages of Karmada's aggregated server.

use kinds::strategies::amount::Amount;
use kinds::strategies::fields::{Field, Report};
use object::{FieldError, FieldErrorKind, Object, names};

use crate::address::Address;

const FORM: &str = "; desired format: hostname, hostname:port, IP or IP:port";

pub fn validate(cluster: &Object) -> Vec<FieldError> {
    let report = Report::new();
    let spec = report.field(cluster, "spec");
    let mode = spec.field("syncMode");
    if mode.text().is_empty() {
        mode.required("");
    }
    if !["Pull", "Push"].contains(&mode.text()) {
        mode.push(FieldError::not_supported(mode.field_path(), mode.text(), &["Pull", "Push"]));
    }
    if !spec.field("apiEndpoint").text().is_empty() {
        validate_endpoint(spec.field("apiEndpoint"));
    }
    for reference in ["secretRef", "impersonatorSecretRef"] {
        let reference = spec.field(reference);
        if reference.is_set() {
            for part in ["namespace", "name"] {
                if reference.field(part).text().is_empty() {
                    reference.field(part).required("");
                }
            }
        }
    }
    if !spec.field("proxyURL").text().is_empty() {
        validate_proxy(spec.field("proxyURL"));
    }
    validate_place(spec);
    validate_taints(spec.field("taints"));
    if let Some(problem) = model_problem(spec.field("resourceModels")) {
        spec.field("resourceModels").invalid(problem);
    }
    report.finish()
}

fn validate_endpoint(endpoint: Field<'_>) {
    let address = match Address::parse(endpoint.text()) {
        Ok(address) => address,
        Err(problem) => return endpoint.invalid(format!("apiEndpoint must be a valid URL: {problem}{FORM}")),
    };
    if address.host.is_empty() {
        endpoint.invalid_as("", format!("host must be provided{FORM}"));
    }
    if let Some(user) = address.user {
        endpoint.invalid_as(user, "user information is not permitted in the URL");
    }
    if !address.fragment.is_empty() {
        endpoint.invalid_as(address.fragment, "fragments are not permitted in the URL");
    }
    if !address.query.is_empty() {
        endpoint.invalid_as(address.query, "query parameters are not permitted in the URL");
    }
}

fn validate_proxy(proxy: Field<'_>) {
    match Address::parse(proxy.text()) {
        Err(problem) => proxy.invalid(format!("apiEndpoint must be a valid URL: {problem}")),
        Ok(address) if ["http", "https", "socks5"].contains(&address.scheme) => {}
        Ok(address) => {
            let scheme = object::field::go_quote(address.scheme);
            proxy.invalid(format!("unsupported scheme {scheme}, must be http, https, or socks5"));
        }
    }
}

/// Provider, region and zones are matched by selectors, so they have to be what labels can be.
fn validate_place(spec: Field<'_>) {
    for part in ["provider", "region"] {
        let problems = names::label_value(spec.field(part).text());
        if !problems.is_empty() {
            spec.field(part).invalid(problems.join("; "));
        }
    }
    let (zone, zones) = (spec.field("zone"), spec.field("zones"));
    if !zone.text().is_empty() && !zones.is_empty() {
        let shown = spec.value().cloned().unwrap_or_default();
        let error = FieldError::type_invalid(spec.field("spec").field_path(), shown, "Zone and Zones cannot co-exist");
        return spec.push(error);
    }
    for text in zones.texts() {
        let problems = names::label_value(text);
        if !problems.is_empty() {
            spec.field("Zones").invalid_as(text, problems.join("; "));
        }
    }
}

fn validate_taints(taints: Field<'_>) {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for taint in taints.items() {
        let (key, effect) = (taint.field("key"), taint.field("effect"));
        key.problems_as(key.text(), names::qualified_name(key.text()));
        let problems = names::label_value(taint.field("value").text());
        if !problems.is_empty() {
            taint.field("value").invalid(problems.join(";"));
        }
        match effect.text() {
            "" => effect.required(""),
            "NoSchedule" | "NoExecute" => {}
            _ => effect.not_supported(&["NoSchedule", "NoExecute"]),
        }
        if seen.contains(&(key.text(), effect.text())) {
            let shown = taint.value().cloned().unwrap_or_default();
            taint.push(FieldError {
                kind: FieldErrorKind::Duplicate,
                detail: "taints must be unique by key and effect pair".to_owned(),
                ..FieldError::duplicate(taint.field_path(), shown)
            });
        } else {
            seen.push((key.text(), effect.text()));
        }
    }
}

fn model_problem(models: Field<'_>) -> Option<&'static str> {
    let models: Vec<Field<'_>> = models.items().collect();
    let amount =
        |range: Field<'_>, bound: &'static str| range.field(bound).value().and_then(Amount::of).unwrap_or(Amount::ZERO);
    for (index, model) in models.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| models[before]);
        if before.is_some_and(|before| before.field("grade").int_or(0) == model.field("grade").int_or(0)) {
            return Some("The grade of each models should not be the same");
        }
        if before.is_some_and(|before| before.field("ranges").len() != model.field("ranges").len()) {
            return Some("The number of resource types should be the same");
        }
        for (at, range) in model.field("ranges").items().enumerate() {
            let (min, max) = (amount(range, "min"), amount(range, "max"));
            if max <= min {
                return Some("The max value of each resource must be greater than the min value");
            }
            match before.and_then(|before| before.field("ranges").items().nth(at)) {
                None if !min.same_as(Amount::ZERO) => {
                    return Some("The min value of each resource in the first model should be 0");
                }
                None => {}
                Some(previous) if previous.field("name").text() != range.field("name").text() => {
                    return Some("The resource types of each models should be the same");
                }
                Some(previous) if !amount(previous, "max").same_as(min) => {
                    return Some("Model intervals for resources must be contiguous and non-overlapping");
                }
                Some(_) => {}
            }
            if index + 1 == models.len() && max.whole() != i128::from(i64::MAX) {
                return Some("The max value of each resource in the last model should be MaxInt64");
            }
        }
    }
    None
}
