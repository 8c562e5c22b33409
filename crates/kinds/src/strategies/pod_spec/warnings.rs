//! Warnings for a valid pod spec that is probably not intended.

use std::collections::{BTreeMap, BTreeSet};

use object::field::go_quote;
use object::{Object, names};
use serde_json::Value;

use super::super::addresses;
use super::super::amount::Amount;
use super::super::fields::{Field, Report};
use super::annotations::{APP_ARMOR, SECCOMP_CONTAINER, SECCOMP_POD};
use super::{all_containers, scheduling_terms};

/// The new names of deprecated node labels.
pub fn deprecated_node_label(label: &str) -> Option<&'static str> {
    Some(match label {
        "beta.kubernetes.io/arch" => r#"deprecated since v1.14; use "kubernetes.io/arch" instead"#,
        "beta.kubernetes.io/os" => r#"deprecated since v1.14; use "kubernetes.io/os" instead"#,
        "failure-domain.beta.kubernetes.io/region" => {
            r#"deprecated since v1.17; use "topology.kubernetes.io/region" instead"#
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            r#"deprecated since v1.17; use "topology.kubernetes.io/zone" instead"#
        }
        "beta.kubernetes.io/instance-type" => {
            r#"deprecated since v1.17; use "node.kubernetes.io/instance-type" instead"#
        }
        "app.kubernetes.io/created-by" => "deprecated since v1.9",
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => "deprecated since v1.22; use Taints and Tolerations instead",
        "node-role.kubernetes.io/master" => r#"use "node-role.kubernetes.io/control-plane" instead"#,
        _ => return None,
    })
}

const DEPRECATED_ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        r#"non-functional in v1.16+; use the "priorityClassName" field instead"#,
    ),
    ("security.alpha.kubernetes.io/sysctls", r#"non-functional in v1.11+; use the "sysctls" field instead"#),
    ("security.alpha.kubernetes.io/unsafe-sysctls", r#"non-functional in v1.11+; use the "sysctls" field instead"#),
];

const DEPRECATED_VOLUMES: [(&str, &str, &str); 9] = [
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// The warning for a name that becomes part of host names.
pub fn hostname_warning(name: &str, used_in: &str) -> Option<String> {
    let problems = names::dns1123_label(name);
    (!problems.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in {used_in}, which can result in surprising behavior; a DNS label is recommended: [{}]",
            problems.join(" ")
        )
    })
}

/// Warnings for the pod template at `path`.
pub fn of_template(path: &str, template: Option<&Value>) -> Vec<String> {
    let report = Report::new();
    let root = report.at(path, template);
    of_parts(root.field("metadata"), root.field("spec"), true)
}

/// Warnings for a pod itself.
pub fn of_pod(pod: &Object) -> Vec<String> {
    let report = Report::new();
    of_parts(report.field(pod, "metadata"), report.field(pod, "spec"), false)
}

fn of_parts<'a>(meta: Field<'a>, spec: Field<'a>, is_template: bool) -> Vec<String> {
    let mut out = Vec::new();
    warn_of_labels(spec, &mut out);
    warn_of_annotations(meta, spec, is_template, &mut out);
    warn_of_volumes(spec, &mut out);
    warn_of_repetition(spec, &mut out);
    warn_of_resources(spec, &mut out);
    for container in all_containers(spec) {
        warn_of_env(container, &mut out);
    }
    warn_of_ports(spec, &mut out);
    let grace = spec.field("terminationGracePeriodSeconds");
    if grace.int().is_some_and(|g| g < 0) {
        out.push(format!("{}: must be >= 0; negative values are invalid and will be treated as 1", grace.field_path()));
    }
    warn_of_selectors(spec, &mut out);
    let addresses = spec.field("dnsConfig").field("nameservers").items();
    for address in addresses.chain(spec.field("hostAliases").items().map(|alias| alias.field("ip"))) {
        out.extend(addresses::spelling_warning(address.field_path().as_str(), address.text()));
    }
    out
}

fn warn_of_labels(spec: Field<'_>, out: &mut Vec<String>) {
    for (label, at) in spec.field("nodeSelector").entries() {
        if let Some(message) = deprecated_node_label(label) {
            out.push(format!("{}: {message}", at.field_path()));
        }
    }
    for (term, checks_values) in scheduling_terms(spec) {
        warn_of_node_term(term, checks_values, out);
    }
    for constraint in spec.field("topologySpreadConstraints").items() {
        let key = constraint.field("topologyKey");
        if let Some(message) = deprecated_node_label(key.text()) {
            out.push(format!("{}: {} is {message}", key.field_path(), key.text()));
        }
        warn_of_null_selector(constraint, out);
    }
}

/// Warnings for one term that selects nodes.
pub fn warn_of_node_term(term: Field<'_>, checks_values: bool, out: &mut Vec<String>) {
    for expression in term.field("matchExpressions").items() {
        let key = expression.field("key");
        if let Some(message) = deprecated_node_label(key.text()) {
            out.push(format!("{}: {} is {message}", key.field_path(), key.text()));
        }
        for value in expression.field("values").items().filter(|_| checks_values) {
            for problem in names::label_value(value.text()) {
                out.push(format!("{}: {} is invalid, {problem}", value.field_path(), value.text()));
            }
        }
    }
}

fn warn_of_null_selector(parent: Field<'_>, out: &mut Vec<String>) {
    let selector = parent.field("labelSelector");
    if !selector.is_set() {
        out.push(format!("{}: a null labelSelector results in matching no pod", selector.field_path()));
    }
}

fn warn_of_selectors(spec: Field<'_>, out: &mut Vec<String>) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let affinity = spec.field("affinity").field(kind);
        for term in affinity.field("requiredDuringSchedulingIgnoredDuringExecution").items() {
            warn_of_null_selector(term, out);
        }
        for term in affinity.field("preferredDuringSchedulingIgnoredDuringExecution").items() {
            warn_of_null_selector(term.field("podAffinityTerm"), out);
        }
    }
}

fn warn_of_annotations<'a>(meta: Field<'a>, spec: Field<'a>, is_template: bool, out: &mut Vec<String>) {
    let annotations = meta.field("annotations");
    if annotations.is_empty() {
        return;
    }
    for (key, message) in DEPRECATED_ANNOTATIONS {
        if annotations.key(key).is_set() {
            out.push(format!("{}: {message}", annotations.key(key).field_path()));
        }
    }
    let mut use_field = |at: Field<'_>, message: &str| out.push(format!("{}: {message}", at.field_path()));
    const SECCOMP: &str = r#"non-functional in v1.27+; use the "seccompProfile" field instead"#;
    const ARMOR: &str = r#"deprecated since v1.30; use the "appArmorProfile" field instead"#;
    let pod_context = spec.field("securityContext");
    if !pod_context.field("seccompProfile").is_set() && annotations.key(SECCOMP_POD).is_set() {
        use_field(annotations.key(SECCOMP_POD), SECCOMP);
    }
    for container in all_containers(spec) {
        let context = container.field("securityContext");
        for (key, at) in annotations.entries() {
            let names = |prefix: &str| key.strip_prefix(prefix) == Some(container.field("name").text());
            if names(SECCOMP_CONTAINER) && !context.field("seccompProfile").is_set() {
                use_field(at, SECCOMP);
            }
            let is_set = context.field("appArmorProfile").is_set() || pod_context.field("appArmorProfile").is_set();
            if is_template && names(APP_ARMOR) && !is_set {
                use_field(at, ARMOR);
            }
        }
    }
}

fn warn_of_volumes(spec: Field<'_>, out: &mut Vec<String>) {
    for volume in spec.field("volumes").items() {
        for (name, shown, message) in DEPRECATED_VOLUMES {
            if volume.field(name).is_set() {
                out.push(format!("{}: {message}", volume.field(shown).field_path()));
            }
        }
        let claim = volume.path(&["ephemeral", "volumeClaimTemplate", "spec"]);
        of_claim_spec(claim, out);
        warn_of_overlaps(volume, out);
    }
}

/// Warnings for the requests of a claim.
pub fn of_claim_spec(spec: Field<'_>, out: &mut Vec<String>) {
    for list in ["requests", "limits"] {
        warn_of_fraction(spec.field("resources").field(list).key("storage"), out);
    }
}

fn warn_of_fraction(amount: Field<'_>, out: &mut Vec<String>) {
    if let Some(value) = amount.value().and_then(Amount::of)
        && !value.is_whole()
    {
        let spelled = go_quote(&value.to_string());
        out.push(format!("{}: fractional byte value {spelled} is invalid, must be an integer", amount.field_path()));
    }
}

/// Two files of one volume at the same path, or one inside the other.
fn warn_of_overlaps(volume: Field<'_>, out: &mut Vec<String>) {
    let name = go_quote(volume.field("name").text());
    let plain = |path: &str| (path.to_owned(), go_quote(path));
    for (source, named, label) in
        [("configMap", "name", "ConfigMap "), ("secret", "secretName", "Secret "), ("downwardAPI", "", "DownwardAPI")]
    {
        let source = volume.field(source);
        let owner = if named.is_empty() { String::new() } else { go_quote(source.field(named).text()) };
        let files = source.field("items").items().map(|item| plain(item.field("path").text().trim_end_matches('/')));
        warn_of_clashes(&format!("volume {name} ({label}{owner})"), files, out);
    }
    let sources = volume.field("projected").field("sources");
    for _ in sources.items().filter(|source| source.names().next().is_none()) {
        out.push(format!("volume {name} (Projected) has no sources provided"));
    }
    let files = sources.items().flat_map(projected_files);
    warn_of_clashes(&format!("volume {name} (Projected)"), files, out);
}

/// The files of one source of a projected volume, each with its name in a warning.
fn projected_files(source: Field<'_>) -> Vec<(String, String)> {
    let named = |path: &str, label: &str| {
        let path = path.trim_end_matches('/');
        (path.to_owned(), format!("{} ({label})", go_quote(path)))
    };
    for (kind, label) in [("configMap", "ConfigMap"), ("secret", "Secret"), ("downwardAPI", "DownwardAPI")] {
        let files = source.field(kind);
        if !files.field("items").is_empty() {
            let label = match kind {
                "downwardAPI" => label.to_owned(),
                _ => format!("{label} {}", go_quote(files.field("name").text())),
            };
            return files.field("items").items().map(|item| named(item.field("path").text(), &label)).collect();
        }
    }
    let token = source.field("serviceAccountToken");
    if token.is_set() { vec![named(token.field("path").text(), "ServiceAccountToken")] } else { Vec::new() }
}

fn warn_of_clashes(volume: &str, files: impl Iterator<Item = (String, String)>, out: &mut Vec<String>) {
    let mut seen: Vec<(String, String)> = Vec::new();
    for (path, shown) in files {
        for (_, other) in seen.iter().filter(|(other, _)| overlap(&path, other)) {
            out.push(format!("{volume}: overlapping paths: {shown} with {other}"));
        }
        seen.push((path, shown));
    }
}

fn overlap(a: &str, b: &str) -> bool {
    let inside = |a: &str, b: &str| a.strip_prefix(b).is_some_and(|rest| rest.starts_with('/') || rest.is_empty());
    !a.is_empty() && !b.is_empty() && (inside(a, b) || inside(b, a))
}

fn warn_of_repetition(spec: Field<'_>, out: &mut Vec<String>) {
    for (list, key) in [("hostAliases", "ip"), ("imagePullSecrets", "name")] {
        let mut seen = BTreeSet::new();
        for item in spec.field(list).items() {
            let value = item.field(key);
            if !seen.insert(value.text()) {
                out.push(format!("{}: duplicate {key} {}", value.field_path(), go_quote(value.text())));
            }
        }
    }
    for secret in spec.field("imagePullSecrets").items() {
        let name = secret.field("name");
        if name.is_empty() {
            out.push(format!("{}: invalid empty name \"\"", name.field_path()));
        }
    }
}

fn warn_of_resources(spec: Field<'_>, out: &mut Vec<String>) {
    for name in ["memory", "ephemeral-storage"] {
        warn_of_fraction(spec.field("overhead").key(name), out);
    }
    for container in all_containers(spec) {
        for name in ["memory", "ephemeral-storage"] {
            for list in ["limits", "requests"] {
                warn_of_fraction(container.field("resources").field(list).key(name), out);
            }
        }
    }
}

fn warn_of_env(container: Field<'_>, out: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for variable in container.field("env").items() {
        let (name, value) = (variable.field("name").text(), variable.field("value").text());
        if seen.insert(name) {
            continue;
        }
        let reference = format!("$({name})");
        if variable.field("valueFrom").is_set() || value == reference || !value.contains(&reference) {
            out.push(format!(
                "{}: hides previous definition of {}, which may be dropped when using apply",
                variable.field_path(),
                go_quote(name)
            ));
        }
    }
}

fn warn_of_ports(spec: Field<'_>, out: &mut Vec<String>) {
    let mut by_number: BTreeMap<String, Vec<Field<'_>>> = BTreeMap::new();
    for port in all_containers(spec).flat_map(|c| c.field("ports").items()) {
        let number = port.field("containerPort").int_or(0);
        let others = by_number.entry(format!("{number}/{}", port.field("protocol").text())).or_default();
        for other in others.iter() {
            if let Some(what) = port_clash(port, *other) {
                out.push(format!("{}: {what} port definition with {}", port.field_path(), other.field_path()));
            }
        }
        others.push(port);
    }
    let mut by_name: BTreeMap<&str, Field<'_>> = BTreeMap::new();
    for port in all_containers(spec).flat_map(|c| c.field("ports").items()) {
        let name = port.field("name").text();
        match by_name.get(name) {
            _ if name.is_empty() => {}
            Some(other) => out.push(format!(
                "{}: duplicate port name {} with {other}, services and probes that select ports by name will use {other}",
                port.field_path(),
                go_quote(name),
                other = other.field_path()
            )),
            None => {
                by_name.insert(name, port);
            }
        }
    }
}

fn port_clash(port: Field<'_>, other: Field<'_>) -> Option<&'static str> {
    let host = |p: Field<'_>| p.field("hostPort").int_or(0);
    let (ip, other_ip) = (port.field("hostIP").text(), other.field("hostIP").text());
    if ip == other_ip && host(port) == host(other) {
        Some("duplicate")
    } else if host(port) == 0 || host(other) == 0 {
        Some("overlapping")
    } else if host(port) == host(other) && ip.is_empty() != other_ip.is_empty() {
        Some("dangerously ambiguous")
    } else {
        None
    }
}
