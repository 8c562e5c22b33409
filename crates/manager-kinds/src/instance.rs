//! Names, labels and conditions of instances, as karmada-operator and its users know them.

use object::Object;

/// Finalizer of instances.
pub const FINALIZER: &str = "operator.karmada.io/finalizer";
/// Label that decides whether deleting an instance keeps its control plane.
pub const LABEL_KEEP: &str = "operator.karmada.io/disable-cascading-deletion";
/// Key of the administrator's kubeconfig in its Secret.
pub const KUBECONFIG_KEY: &str = "karmada.config";
/// Label of every object that the manager creates for an instance.
pub const LABEL_MANAGED_BY: &str = "app.kubernetes.io/managed-by";
pub const MANAGED_BY: &str = "flotilla";
/// Karmada release whose API the control planes serve.
pub const KARMADA_VERSION: &str = "v1.18.2";

/// Condition types of an instance.
pub mod condition {
    pub const READY: &str = "Ready";
    pub const API_SERVING: &str = "APIServing";
    pub const SPEC_IGNORED: &str = "SpecIgnored";
}

/// Path segments that an instance cannot be named after.
const RESERVED: &[&str] = &["config", "import", "validate"];

/// Returns the name of something that belongs to an instance, as karmada-operator names it.
pub fn resource_name(instance: &str, suffix: &str) -> String {
    if instance.contains("karmada") { format!("{instance}-{suffix}") } else { format!("{instance}-karmada-{suffix}") }
}

/// Returns the problems of an instance name: it is a path segment and part of a host name.
pub fn name_problems(name: &str) -> Vec<String> {
    if RESERVED.contains(&name) {
        return vec![format!("{name:?} is reserved: choose another name")];
    }
    let mut problems = object::names::dns1123_label(name);
    if name.len() > 46 {
        problems
            .push("must be no more than 46 characters, because the names of its Secrets are derived from it".into());
    }
    problems
}

/// Returns true if deleting the instance keeps its control plane.
pub fn keeps_plane(instance: &Object) -> bool {
    instance.label(LABEL_KEEP) == Some("true")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_karmada_operator() {
        assert_eq!(resource_name("karmada-demo", "admin-config"), "karmada-demo-admin-config");
        assert_eq!(resource_name("east", "admin-config"), "east-karmada-admin-config");
    }

    #[test]
    fn an_instance_name_is_a_path_segment_and_a_host_label() {
        for good in ["east", "karmada-demo", "a1"] {
            assert!(name_problems(good).is_empty(), "{good}");
        }
        for bad in ["config", "a.b", "..", "East", "a/b", &"a".repeat(47)] {
            assert!(!name_problems(bad).is_empty(), "{bad}");
        }
    }
}
