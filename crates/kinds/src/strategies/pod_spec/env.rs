//! Environment variables: names and sources.

use object::names;

use super::super::amount::Amount;
use super::super::fields::Field;
use super::all_containers;

pub const ENV_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
pub const FILE_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

pub fn validate(variables: Field<'_>) {
    for variable in variables.items() {
        let name = variable.field("name");
        if name.require() {
            name.problems(variable_name(name.text()));
        }
        let source = variable.field("valueFrom");
        if source.is_set() {
            validate_source(source, !variable.field("value").is_empty());
        }
    }
}

fn validate_source(source: Field<'_>, has_value: bool) {
    let mut sources = 0;
    let mut take = |name: &'static str, check: &dyn Fn(Field<'_>)| {
        if source.field(name).is_set() {
            sources += 1;
            check(source.field(name));
        }
    };
    take("fieldRef", &|field| validate_field_ref(field, &ENV_FIELDS));
    take("resourceFieldRef", &|resource| validate_resource_ref(resource, false));
    take("configMapKeyRef", &validate_key_ref);
    take("secretKeyRef", &validate_key_ref);
    take("fileKeyRef", &validate_file_ref);
    if sources == 0 {
        source.invalid_as(
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        );
    } else if has_value {
        source.invalid_as("", "may not be specified when `value` is not empty");
    } else if sources > 1 {
        source.invalid_as("", "may not have more than one field specified at a time");
    }
}

pub fn validate_from(sources: Field<'_>) {
    for source in sources.items() {
        let prefix = source.field("prefix");
        if !prefix.is_empty() {
            prefix.problems(variable_name(prefix.text()));
        }
        let (config_map, secret) = (source.field("configMapRef"), source.field("secretRef"));
        for reference in [config_map, secret] {
            if reference.is_set() && reference.field("name").require() {
                reference.field("name").dns1123_subdomain();
            }
        }
        match (config_map.is_set(), secret.is_set()) {
            (false, false) => sources.invalid_as("", "must specify one of: `configMapRef` or `secretRef`"),
            (true, true) => sources.invalid_as("", "may not have more than one field specified at a time"),
            _ => {}
        }
    }
}

/// Any printable ASCII but `=`.
fn variable_name(name: &str) -> Vec<String> {
    match name.chars().any(|c| !(' '..='~').contains(&c) || c == '=') {
        true => vec![
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
                .to_owned(),
        ],
        false => Vec::new(),
    }
}

/// A field of the pod, as in the downward API.
pub fn validate_field_ref(reference: Field<'_>, allowed: &[&str]) {
    let path = reference.field("fieldPath");
    if !reference.field("apiVersion").require() || !path.require() {
        return;
    }
    let text = path.text();
    if let Some(problem) = label_problem(reference.field("apiVersion").text(), text) {
        return path.invalid(format!("error converting fieldPath: {problem}"));
    }
    match subscript(text) {
        Some(("metadata.annotations", key)) => {
            let key = key.to_lowercase();
            reference.problems_as(&key, names::qualified_name(&key));
        }
        Some(("metadata.labels", key)) => reference.problems_as(key, names::qualified_name(key)),
        Some((field, _)) => reference.invalid_as(field, "does not support subscript"),
        None if !allowed.contains(&text) => path.not_supported(&sorted(allowed)),
        None => {}
    }
}

fn sorted<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let mut words = words.to_vec();
    words.sort_unstable();
    words
}

fn subscript(path: &str) -> Option<(&str, &str)> {
    let inner = path.strip_suffix("']")?;
    inner.split_once("['").filter(|(field, _)| !field.is_empty())
}

/// Kubernetes first converts the path from the named API version, which only supports these.
fn label_problem(version: &str, path: &str) -> Option<String> {
    if version != "v1" {
        return Some(format!("unsupported pod version: {version}"));
    }
    let known = |field: &str| {
        ENV_FIELDS.contains(&field)
            || FILE_FIELDS.contains(&field)
            || field == "spec.restartPolicy"
            || field == "spec.schedulerName"
            || field == "status.phase"
            || field == "spec.host"
    };
    match subscript(path) {
        Some(("metadata.annotations" | "metadata.labels", _)) => None,
        Some(_) => Some(format!("field label does not support subscript: {path}")),
        None if known(path) => None,
        None => Some(format!("field label not supported: {path}")),
    }
}

/// A request or limit of a container.
pub fn validate_resource_ref(reference: Field<'_>, in_volume: bool) {
    let resource = reference.field("resource");
    let is_huge_pages = |name: &str| name.starts_with("requests.hugepages-") || name.starts_with("limits.hugepages-");
    if in_volume && reference.field("containerName").is_empty() {
        reference.field("containerName").required("");
    } else if resource.require() && !RESOURCES.contains(&resource.text()) && !is_huge_pages(resource.text()) {
        resource.not_supported(&RESOURCES);
    }
    validate_divisor(reference.field("divisor"), resource.text());
}

fn validate_divisor(divisor: Field<'_>, resource: &str) {
    const BYTES: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let amount = divisor.amount();
    if amount.same_as(Amount::ZERO) {
        return;
    }
    let spelled = amount.to_string();
    let kind = match resource {
        "limits.cpu" | "requests.cpu" => {
            if !matches!(spelled.as_str(), "1m" | "1") {
                divisor.invalid_as(resource, "only divisor's values 1m and 1 are supported with the cpu resource");
            }
            return;
        }
        "limits.memory" | "requests.memory" => "memory resource",
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => "local ephemeral storage resource",
        _ if resource.starts_with("requests.hugepages-") || resource.starts_with("limits.hugepages-") => {
            "hugepages resource"
        }
        _ => return,
    };
    if !BYTES.contains(&spelled.as_str()) {
        divisor
            .invalid_as(resource, format!("only divisor's values {} are supported with the {kind}", BYTES.join(", ")));
    }
}

fn validate_key_ref(reference: Field<'_>) {
    reference
        .field("name")
        .problems_as(reference.field("name").text(), names::dns1123_subdomain(reference.field("name").text()));
    let key = reference.field("key");
    if key.require() {
        key.problems(names::config_map_key(key.text()));
    }
}

fn validate_file_ref(reference: Field<'_>) {
    let (key, volume, path) = (reference.field("key"), reference.field("volumeName"), reference.field("path"));
    if key.require() {
        key.problems(variable_name(key.text()));
    }
    if volume.require() {
        volume.dns1123_label();
    }
    if path.require() {
        path.no_backsteps();
    }
}

/// Files with variables must be in an `emptyDir` of the same pod.
pub fn validate_file_volumes(spec: Field<'_>) {
    for container in all_containers(spec) {
        for variable in container.field("env").items() {
            let reference = variable.field("valueFrom").field("fileKeyRef");
            if !reference.is_set() {
                continue;
            }
            let name = reference.field("volumeName");
            match spec.field("volumes").items().find(|v| v.field("name").text() == name.text()) {
                None => name.not_found(name.text()),
                Some(volume) if !volume.field("emptyDir").is_set() => {
                    name.invalid("referenced volume must be of type emptyDir");
                }
                Some(_) => {}
            }
        }
    }
}

// ---- paths inside a volume ----

impl Field<'_> {
    pub fn no_backsteps(self) {
        if has_backstep(self.text()) {
            self.invalid("must not contain '..'");
        }
    }

    /// Relative, without `..`.
    pub fn descending_path(self) {
        if self.text().starts_with('/') {
            self.invalid("must be a relative path");
        }
        self.no_backsteps();
    }

    /// Relative, without `..`, and not a name reserved by the kubelet.
    pub fn local_path(self) {
        self.descending_path();
        if self.text().starts_with("..") && !self.text().starts_with("../") {
            self.invalid("must not start with '..'");
        }
    }
}

pub fn has_backstep(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}
