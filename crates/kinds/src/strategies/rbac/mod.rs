//! Roles and their bindings: complete rules, known subjects, an immutable roleRef.

use std::sync::Arc;

use object::{FieldError, Object, names};
use serde_json::{Value, json};

use crate::strategies::defaults::{map_or_new, maps_in, set_empty_str};
use crate::strategies::fields::{Field, Report, same};
use crate::strategy::Strategy;

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn for_kind(kind: &str) -> Option<Arc<dyn Strategy>> {
    Some(match kind {
        "Role" => Arc::new(Role { namespaced: true }),
        "ClusterRole" => Arc::new(Role { namespaced: false }),
        "RoleBinding" => Arc::new(Binding { namespaced: true }),
        "ClusterRoleBinding" => Arc::new(Binding { namespaced: false }),
        _ => return None,
    })
}

struct Role {
    namespaced: bool,
}

impl Strategy for Role {
    /// The list of rules is always shown, `null` if empty.
    fn default(&self, role: &mut Object) {
        if role.items(&["rules"]).is_empty() {
            role.set(&["rules"], Value::Null);
        }
    }

    fn validate_create(&self, role: &Object) -> Vec<FieldError> {
        let report = Report::new();
        for rule in report.field(role, "rules").items() {
            validate_rule(rule, self.namespaced);
        }
        let aggregation = report.field(role, "aggregationRule");
        if !self.namespaced && aggregation.is_set() {
            let selectors = aggregation.field("clusterRoleSelectors");
            selectors.require_because("at least one clusterRoleSelector required if aggregationRule is non-nil");
            for selector in selectors.items() {
                let errors_before = report.len();
                selector.label_selector();
                if report.len() > errors_before {
                    selector.invalid_as(Value::Null, "invalid label selector.");
                }
            }
        }
        report.finish()
    }

    fn validate_name(&self, name: &str) -> Vec<String> {
        names::path_segment(name)
    }

    fn allows_create_on_update(&self) -> bool {
        true
    }
}

fn validate_rule(rule: Field<'_>, namespaced: bool) {
    let verbs = rule.field("verbs");
    verbs.require_because("verbs must contain at least one value");
    let (groups, resources) = (rule.field("apiGroups"), rule.field("resources"));
    let urls = rule.field("nonResourceURLs");
    if urls.is_empty() {
        groups.require_because("resource rules must supply at least one api group");
        resources.require_because("resource rules must supply at least one resource");
        return;
    }
    if namespaced {
        urls.invalid("namespaced rules cannot apply to non-resource URLs");
    }
    if !groups.is_empty() || !resources.is_empty() || !rule.field("resourceNames").is_empty() {
        urls.invalid("rules cannot apply to both regular resources and non-resource URLs");
    }
}

struct Binding {
    namespaced: bool,
}

impl Strategy for Binding {
    fn default(&self, binding: &mut Object) {
        let map = binding.as_map_mut();
        if let Some(role) = map_or_new(map, "roleRef") {
            set_empty_str(role, "apiGroup", GROUP);
        }
        for subject in maps_in(map, "subjects") {
            if subject.get("kind").is_some_and(|kind| kind == "User" || kind == "Group") {
                set_empty_str(subject, "apiGroup", GROUP);
            }
        }
    }

    fn validate_create(&self, binding: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let role = report.field(binding, "roleRef");
        role.field("apiGroup").one_of(&[GROUP]);
        let kinds: &[&str] = if self.namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
        role.field("kind").one_of(kinds);
        let name = role.field("name");
        if name.require() {
            name.problems(names::path_segment(name.text()));
        }
        for subject in report.field(binding, "subjects").items() {
            validate_subject(subject, self.namespaced);
        }
        report.finish()
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let mut errors = self.validate_create(new);
        if !same(new.get(&["roleRef"]), old.get(&["roleRef"])) {
            let part = |key: &str| new.str_at(&["roleRef", key]);
            // The message shows the server's own struct, hence the capitals.
            let shown = json!({"APIGroup": part("apiGroup"), "Kind": part("kind"), "Name": part("name")});
            errors.push(FieldError::invalid(object::FieldPath::new("roleRef"), shown, "cannot change roleRef"));
        }
        errors
    }

    fn validate_name(&self, name: &str) -> Vec<String> {
        names::path_segment(name)
    }

    fn allows_create_on_update(&self) -> bool {
        true
    }
}

fn validate_subject(subject: Field<'_>, namespaced: bool) {
    let (name, group) = (subject.field("name"), subject.field("apiGroup"));
    name.require();
    match subject.field("kind").text() {
        "ServiceAccount" => {
            if !name.is_empty() {
                name.dns1123_subdomain();
            }
            if !group.is_empty() {
                group.not_supported(&[""]);
            }
            if !namespaced {
                subject.field("namespace").require();
            }
        }
        "User" | "Group" => group.one_of(&[GROUP]),
        _ => subject.field("kind").not_supported(&["ServiceAccount", "User", "Group"]),
    }
}
