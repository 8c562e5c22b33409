//! Special annotations of pods: deletion cost, and the former security profiles.

use object::FieldError;

use super::super::fields::Field;
use super::all_containers;

pub const MIRROR: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
pub const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
pub const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
pub const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

pub fn validate<'a>(annotations: Field<'a>, spec: Field<'a>) {
    if annotations.is_empty() {
        return;
    }
    let mirror = annotations.key(MIRROR);
    if mirror.is_set() && spec.field("nodeName").is_empty() {
        mirror.invalid("must set spec.nodeName if mirror pod annotation is set");
    }
    let cost = annotations.key(DELETION_COST);
    if cost.is_set() && !is_cost(cost.text()) {
        cost.invalid("must be a 32bit integer");
    }
    for (key, value) in annotations.entries() {
        if key == SECCOMP_POD || key.starts_with(SECCOMP_CONTAINER) {
            validate_seccomp(annotations.field(key), value.text());
        }
        if let Some(container) = key.strip_prefix(APP_ARMOR) {
            validate_app_armor(value, container, spec);
        }
    }
}

/// A 32-bit integer in canonical form.
fn is_cost(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = digits == "0" && text == "0" || !digits.starts_with('0');
    plain && text.parse::<i32>().is_ok() && !text.starts_with('+')
}

fn validate_seccomp(at: Field<'_>, profile: &str) {
    if matches!(profile, "runtime/default" | "docker/default" | "unconfined") {
        return;
    }
    let Some(path) = profile.strip_prefix("localhost/") else {
        return at.invalid_as(profile, "must be a valid seccomp profile");
    };
    if path.starts_with('/') {
        at.invalid_as(path, "must be a relative path");
    }
    if super::env::has_backstep(path) {
        at.invalid_as(path, "must not contain '..'");
    }
}

fn validate_app_armor(at: Field<'_>, container: &str, spec: Field<'_>) {
    if !all_containers(spec).any(|c| c.field("name").text() == container) {
        at.invalid_as(container, "container not found");
    }
    let profile = at.text();
    let known = matches!(profile, "" | "runtime/default" | "unconfined") || profile.starts_with("localhost/");
    if !known {
        at.invalid(format!("invalid AppArmor profile name: {}", object::field::go_quote(profile)));
    }
}

/// A profile given both as annotation and as field must be the same one.
pub fn validate_profiles_match<'a>(annotations: Field<'a>, spec: Field<'a>) {
    if annotations.is_empty() {
        return;
    }
    let pod_context = spec.field("securityContext");
    compare(annotations.key(SECCOMP_POD), pod_context.field("seccompProfile"), "seccomp");
    for container in all_containers(spec) {
        let key = format!("{SECCOMP_CONTAINER}{}", container.field("name").text());
        if let Some((_, value)) = annotations.entries().find(|(k, _)| *k == key) {
            compare(value, container.field("securityContext").field("seccompProfile"), "seccomp");
        }
    }
    if spec.field("os").field("name").text() == "windows" {
        return;
    }
    for container in all_containers(spec) {
        let key = format!("{APP_ARMOR}{}", container.field("name").text());
        let own = container.field("securityContext").field("appArmorProfile");
        let profile = if own.is_set() { own } else { own.with(pod_context.field("appArmorProfile").value()) };
        if let Some((_, value)) = annotations.entries().find(|(k, _)| *k == key) {
            compare(value, profile, "apparmor");
        }
    }
}

fn compare(annotation: Field<'_>, profile: Field<'_>, what: &str) {
    if !annotation.is_set() || !profile.is_set() {
        return;
    }
    let text = annotation.text();
    let same_type = match profile.field("type").text() {
        "Unconfined" => text == "unconfined",
        "RuntimeDefault" => text == "runtime/default" || (what == "seccomp" && text == "docker/default"),
        "Localhost" => text.starts_with("localhost/"),
        _ => true,
    };
    if !same_type {
        let path = profile.field_path().child("type");
        profile.push(FieldError::forbidden(path, format!("{what} type in annotation and field must match")));
    } else if profile.field("type").text() == "Localhost"
        && text.strip_prefix("localhost/") != Some(profile.field("localhostProfile").text())
    {
        let path = profile.field_path().child("localhostProfile");
        profile.push(FieldError::forbidden(path, format!("{what} profile in annotation and field must match")));
    }
}
