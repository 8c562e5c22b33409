//! Rules of the manager's own kinds on writes.

use kinds::strategy::Strategy;
use object::{FieldError, FieldPath, Object};

/// Roles that need no Role object.
pub const BUILTIN_ROLES: &[&str] =
    &["platform-admin", "instance-owner", "auditor", "iam-owner", "admin", "edit", "view"];
/// Roles on the whole platform only.
const PLATFORM_ROLES: &[&str] = &["platform-admin", "instance-owner", "auditor", "iam-owner"];

/// Annotation of a ManagedCluster: a new value gives its instances new credentials of their own.
pub const ROTATED_AT: &str = "flotilla.dev/credentials-rotated-at";

/// Returns true for a cluster whose agent connects to its instance.
pub fn is_pull(cluster: &Object) -> bool {
    cluster.str_at(&["spec", "mode"]) == "Pull"
}

/// Rules of ManagedCluster, Workspace, Folder, User, Group, Role, Binding, Registration and Webhook.
pub struct AccessStrategy;

impl Strategy for AccessStrategy {
    /// The first versions had one address.
    fn default(&self, object: &mut Object) {
        let former = object.str_at(&["spec", "email"]).to_owned();
        if object.kind() != "User" || former.is_empty() {
            return;
        }
        let mut emails = object.items(&["spec", "emails"]).to_vec();
        if !emails.iter().any(|email| *email == former.as_str()) {
            emails.push(former.into());
        }
        object.set(&["spec", "emails"], emails);
        object.remove(&["spec", "email"]);
    }

    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        match object.kind() {
            "Binding" => binding_problems(object),
            "Role" => role_problems(object),
            "Folder" => folder_problems(object),
            "ManagedCluster" => cluster_problems(object),
            "User" | "Group" => [subject_problems(object), email_problems(object)].concat(),
            "Webhook" => webhook_problems(object),
            _ => Vec::new(),
        }
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let mut errors = self.validate_create(new);
        if new.kind() == "ManagedCluster" && is_pull(new) != is_pull(old) {
            errors.push(FieldError::forbidden(spec("mode"), "cannot change: delete the cluster and create another"));
        }
        if new.kind() == "Binding" {
            for field in ["subject", "role", "target"] {
                if new.get(&["spec", field]) != old.get(&["spec", field]) {
                    let path = FieldPath::new("spec").child(field);
                    errors.push(FieldError::forbidden(path, "cannot change: delete the binding and create another"));
                }
            }
        }
        errors
    }

    fn counts_generation(&self) -> bool {
        true
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }
}

fn spec(field: &str) -> FieldPath {
    FieldPath::new("spec").child(field)
}

fn binding_problems(binding: &Object) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let target = |field: &str| binding.str_at(&["spec", "target", field]);
    let chosen: Vec<&str> =
        ["folder", "workspace", "instance"].into_iter().filter(|field| !target(field).is_empty()).collect();
    let path = spec("target");
    if chosen.len() > 1 {
        let text = format!("{} exclude each other", chosen.join(" and "));
        errors.push(FieldError::invalid(path.clone(), chosen.join(","), text));
    }
    if !target("namespace").is_empty() && target("instance").is_empty() {
        errors.push(FieldError::required(path.child("instance"), "a namespace is a namespace of an instance"));
    }
    let role = binding.str_at(&["spec", "role"]);
    if PLATFORM_ROLES.contains(&role) && !chosen.is_empty() {
        let text = format!("the role {role} applies to the whole platform: remove spec.target");
        errors.push(FieldError::invalid(spec("role"), role, text));
    }
    if binding.str_at(&["spec", "subject", "name"]).starts_with("system:") {
        let name = spec("subject").child("name");
        errors.push(FieldError::invalid(
            name,
            binding.str_at(&["spec", "subject", "name"]),
            "must not begin with system:",
        ));
    }
    errors
}

fn role_problems(role: &Object) -> Vec<FieldError> {
    if !BUILTIN_ROLES.contains(&role.name()) {
        return Vec::new();
    }
    let path = FieldPath::new("metadata").child("name");
    vec![FieldError::invalid(path, role.name(), "is the name of a built-in role")]
}

fn folder_problems(folder: &Object) -> Vec<FieldError> {
    let parent = folder.str_at(&["spec", "parent"]);
    if parent.is_empty() || parent != folder.name() {
        return Vec::new();
    }
    vec![FieldError::invalid(spec("parent"), parent, "a folder cannot be its own parent")]
}

fn subject_problems(subject: &Object) -> Vec<FieldError> {
    if subject.name().starts_with("system:") || subject.name().starts_with("flotilla:") {
        let path = FieldPath::new("metadata").child("name");
        return vec![FieldError::invalid(path, subject.name(), "must not begin with system: or flotilla:")];
    }
    Vec::new()
}

/// The longest address that mail can be sent to.
const EMAIL_BYTES_MAX: usize = 254;

/// Returns true for an address as issuers of tokens write it.
fn is_email(text: &str) -> bool {
    let is_plain = text.len() <= EMAIL_BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_graphic());
    is_plain && text.rsplit_once('@').is_some_and(|(local, domain)| !local.is_empty() && !domain.is_empty())
}

fn email_problems(user: &Object) -> Vec<FieldError> {
    let emails = user.items(&["spec", "emails"]).iter().enumerate();
    let wrong = emails.filter(|(_, email)| !email.as_str().is_some_and(is_email));
    let error = |(at, email): (usize, &serde_json::Value)| {
        FieldError::invalid(spec("emails").index(at), email.clone(), "must be an e-mail address")
    };
    wrong.map(error).collect()
}

/// Events that a webhook can receive.
const WEBHOOK_EVENTS: &[&str] = &["registrations"];

fn webhook_problems(webhook: &Object) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let url = webhook.str_at(&["spec", "url"]);
    let is_local = ["http://127.0.0.1", "http://[::1]"]
        .iter()
        .any(|local| url.strip_prefix(local).is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '/'])));
    if !url.starts_with("https://") && !is_local {
        errors.push(FieldError::invalid(spec("url"), url, "must begin with https://, or with http://127.0.0.1"));
    }
    if url.contains(['@', '#', ' ']) {
        errors.push(FieldError::invalid(spec("url"), url, "must not contain a user name, a fragment or spaces"));
    }
    for (at, event) in webhook.items(&["spec", "events"]).iter().enumerate() {
        if !event.as_str().is_some_and(|event| WEBHOOK_EVENTS.contains(&event)) {
            let text = format!("must be one of {}", WEBHOOK_EVENTS.join(", "));
            errors.push(FieldError::invalid(spec("events").index(at), event.to_string(), text));
        }
    }
    if webhook.get(&["spec", "secretRef"]).is_none() {
        errors.push(FieldError::required(spec("secretRef"), "names the Secret with the key that signs deliveries"));
    }
    let accepts = webhook.bool_at(&["spec", "acceptsBindings"]) == Some(true);
    if webhook.bool_at(&["spec", "grantsPlatformRoles"]) == Some(true) && !accepts {
        errors.push(FieldError::forbidden(spec("grantsPlatformRoles"), "has no effect without acceptsBindings"));
    }
    errors
}

fn cluster_problems(cluster: &Object) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for problem in validation::cluster_name_problems(cluster.name()) {
        errors.push(FieldError::invalid(FieldPath::new("metadata").child("name"), cluster.name(), problem));
    }
    if is_pull(cluster) {
        errors.extend(pull_problems(cluster));
    } else if cluster.get(&["spec", "secretRef"]).is_none() {
        errors.push(FieldError::required(spec("secretRef"), "names the Secret with the kubeconfig of the cluster"));
    }
    if !cluster.str_at(&["spec", "proxyURL"]).is_empty() {
        errors.push(FieldError::forbidden(spec("proxyURL"), "is not supported yet"));
    }
    errors
}

/// The agent of a pull cluster connects to one control plane with a credential of that control plane.
fn pull_problems(cluster: &Object) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for field in ["secretRef", "apiEndpoint"] {
        let is_empty = cluster.get(&["spec", field]).is_none_or(|value| value.as_str() == Some(""));
        if !is_empty {
            errors.push(FieldError::forbidden(
                spec(field),
                "is not for pull clusters: the agent connects to the instance",
            ));
        }
    }
    if cluster.items(&["spec", "instances"]).len() > 1 {
        errors.push(FieldError::invalid(
            spec("instances"),
            "",
            "a pull cluster has one instance: its agent knows only one",
        ));
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(resource: &api::Resource, spec: Value, expected: &str) {
        let mut object = resource.object("", "x");
        object.set(&["spec"], spec);
        let errors = AccessStrategy.validate_create(&object);
        let text = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        assert!(if expected.is_empty() { text.is_empty() } else { text.contains(expected) }, "{text:?} / {expected:?}");
    }

    #[test]
    fn bindings_and_clusters_are_checked() {
        let subject = json!({"kind": "User", "name": "ann"});
        let binding = |role: &str, target: Value| json!({"subject": subject, "role": role, "target": target});
        check(&crate::BINDINGS, binding("view", json!({"instance": "east"})), "");
        check(&crate::BINDINGS, binding("view", json!({"instance": "east", "namespace": "shop"})), "");
        check(&crate::BINDINGS, binding("platform-admin", json!(null)), "");
        check(&crate::BINDINGS, binding("platform-admin", json!({"folder": "f"})), "whole platform");
        check(&crate::BINDINGS, binding("view", json!({"instance": "a", "folder": "f"})), "exclude each other");
        check(&crate::BINDINGS, binding("view", json!({"namespace": "shop"})), "namespace of an instance");
        let system = json!({"subject": {"kind": "Group", "name": "system:masters"}, "role": "view"});
        check(&crate::BINDINGS, system, "must not begin with system:");
        check(&crate::FOLDERS, json!({"parent": "x"}), "its own parent");
        check(&crate::MANAGED_CLUSTERS, json!({}), "kubeconfig of the cluster");
        check(&crate::USERS, json!({"emails": ["ann@example.com", "a.b+c@d"]}), "");
        for wrong in ["ann", "@example.com", "ann@", "ann @example.com", "ann\n@example.com"] {
            check(&crate::USERS, json!({"emails": [wrong]}), "spec.emails[0]");
        }
        let secret = json!({"namespace": "a", "name": "b"});
        check(&crate::MANAGED_CLUSTERS, json!({"mode": "Pull", "instances": ["east"]}), "");
        check(&crate::MANAGED_CLUSTERS, json!({"mode": "Pull", "secretRef": secret}), "not for pull clusters");
        check(&crate::MANAGED_CLUSTERS, json!({"mode": "Pull", "instances": ["a", "b"]}), "one instance");
        let webhook = |url: &str, events: Value| json!({"url": url, "events": events, "secretRef": secret});
        check(&crate::WEBHOOKS, webhook("https://iam.example.com/hook", json!(["registrations"])), "");
        check(&crate::WEBHOOKS, webhook("http://127.0.0.1:80/hook", json!([])), "");
        check(&crate::WEBHOOKS, webhook("http://127.0.0.1.example.com/", json!([])), "must begin with https://");
        check(&crate::WEBHOOKS, webhook("http://iam.example.com/", json!([])), "must begin with https://");
        check(&crate::WEBHOOKS, webhook("https://a@b/", json!([])), "user name");
        check(&crate::WEBHOOKS, webhook("https://b/", json!(["logins"])), "must be one of registrations");
        check(&crate::WEBHOOKS, json!({"url": "https://b/"}), "signs deliveries");
        check(&crate::MANAGED_CLUSTERS, json!({"secretRef": secret}), "");
    }

    #[test]
    fn the_former_address_of_a_user_is_one_of_its_addresses() {
        let check = |spec: Value, expected: Value| {
            let mut user = crate::USERS.object("", "ann");
            user.set(&["spec"], spec);
            AccessStrategy.default(&mut user);
            assert_eq!(user.get(&["spec"]), Some(&expected));
        };
        check(json!({"email": "a@b"}), json!({"emails": ["a@b"]}));
        check(json!({"email": "a@b", "emails": ["a@b", "c@d"]}), json!({"emails": ["a@b", "c@d"]}));
        check(json!({"emails": ["c@d"]}), json!({"emails": ["c@d"]}));
        check(json!({}), json!({}));
    }
}
