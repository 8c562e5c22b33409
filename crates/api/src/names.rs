//! Karmada's naming of bindings, works and execution namespaces, and the hash in those names.

const EXECUTION_PREFIX: &str = "karmada-es-";
const SAFE_LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The namespace of the control plane's own objects.
pub const SYSTEM_NAMESPACE: &str = "karmada-system";
/// The namespace of member credentials, on both sides.
pub const CLUSTER_NAMESPACE: &str = "karmada-cluster";

/// The namespace that holds the works of a member.
pub fn execution_namespace(cluster: &str) -> String {
    format!("{EXECUTION_PREFIX}{cluster}")
}

/// The member whose works a namespace holds.
pub fn cluster_of_execution_namespace(namespace: &str) -> Option<&str> {
    namespace.strip_prefix(EXECUTION_PREFIX)
}

/// Namespaces whose objects are never propagated.
pub fn is_reserved_namespace(namespace: &str) -> bool {
    namespace == SYSTEM_NAMESPACE || namespace == CLUSTER_NAMESPACE || namespace.starts_with(EXECUTION_PREFIX)
}

/// FNV-1a, 32 bits.
pub fn fnv32a(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// The hash of a text in letters that cannot form words.
pub fn safe_hash(text: &str) -> String {
    let digits = fnv32a(text).to_string();
    digits.bytes().map(|digit| char::from(SAFE_LETTERS[usize::from(digit) % SAFE_LETTERS.len()])).collect()
}

/// The name of the binding of a template.
pub fn binding_name(kind: &str, name: &str) -> String {
    format!("{}-{kind}", name.replace(':', ".")).to_lowercase()
}

/// The name of the work that carries an object; the namespace is empty for cluster-scoped ones.
pub fn work_name(kind: &str, name: &str, namespace: &str) -> String {
    let name = name.replace(':', ".").to_lowercase();
    let separator = if namespace.is_empty() { "" } else { "-" };
    let hashed = format!("{namespace}{separator}{name}-{kind}").to_lowercase();
    format!("{name}-{}", safe_hash(&hashed))
}

/// The label value that identifies a binding on its dependencies.
pub fn binding_reference_key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { safe_hash(name) } else { safe_hash(&format!("{namespace}/{name}")) }
}

/// The name `promote` gives the policy it creates.
pub fn policy_name(namespace: &str, name: &str, gvk: &str) -> String {
    format!("{}-{}", name.replace(':', "."), safe_hash(&format!("{namespace}{gvk}"))).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_ones_karmada_makes() {
        assert_eq!(work_name("Deployment", "nginx", "default"), "nginx-687f7fb96f");
        assert_eq!(work_name("Namespace", "default", ""), "default-5b5ccb595b");
        assert_eq!(binding_name("Role", "system:controller:tom"), "system.controller.tom-role");
        assert_eq!(binding_name("ClusterRole", "system::tom"), "system..tom-clusterrole");
        assert_eq!(policy_name("ns-foo", "foo", "rand"), "foo-b4978784");
        assert_eq!(cluster_of_execution_namespace("karmada-es-m1"), Some("m1"));
        assert_eq!(cluster_of_execution_namespace("default"), None);
    }
}
