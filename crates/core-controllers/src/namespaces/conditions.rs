//! The conditions of a terminating namespace, with the texts of kube-controller-manager.

use jiff::Timestamp;
use object::Object;
use object::conditions::{self, NewCondition};

use super::content::RemainingContent;

/// Type, with reason and message of the condition when there is no problem.
const CONDITIONS: [(&str, &str, &str); 5] = [
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    ("NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
];

/// Updates the conditions from the remaining content. Returns false if they are unchanged.
pub fn set(namespace: &mut Object, left: &RemainingContent, now: Timestamp) -> bool {
    let before = namespace.items(&["status", "conditions"]).to_vec();
    for (condition_type, ok_reason, ok_message) in CONDITIONS {
        let (status, reason, message) = match complaint(condition_type, left) {
            Some((reason, message)) => ("True", reason, message),
            None => ("False", ok_reason, ok_message.to_owned()),
        };
        conditions::set(namespace, &NewCondition { kind: condition_type, status, reason, message: &message }, now);
    }
    namespace.items(&["status", "conditions"]) != before
}

fn complaint(condition_type: &str, left: &RemainingContent) -> Option<(&'static str, String)> {
    match condition_type {
        "NamespaceDeletionDiscoveryFailure" => {
            let unknown: Vec<String> =
                left.groups_unknown.iter().map(|gv| format!("{gv}: stale GroupVersion discovery: {gv}")).collect();
            let count = unknown.len();
            let groups = (count > 0).then(|| {
                let unknown = unknown.join(", ");
                format!(
                    "Discovery failed for some groups, {count} failing: unable to retrieve the complete list of server APIs: {unknown}"
                )
            });
            left.discovery_error.clone().or(groups).map(|message| ("DiscoveryFailed", message))
        }
        "NamespaceDeletionContentFailure" if !left.errors.is_empty() => {
            let (count, errors) = (left.errors.len(), left.errors.join(", "));
            Some(("ContentDeletionFailed", format!("Failed to delete all resource types, {count} remaining: {errors}")))
        }
        "NamespaceContentRemaining" if !left.objects.is_empty() => {
            let mut parts: Vec<String> = left
                .objects
                .iter()
                .map(|(gvr, count)| format!("{}.{} has {count} resource instances", gvr.resource, gvr.group))
                .collect();
            parts.sort();
            Some(("SomeResourcesRemain", format!("Some resources are remaining: {}", parts.join(", "))))
        }
        "NamespaceFinalizersRemaining" if !left.finalizers.is_empty() => {
            let parts: Vec<String> =
                left.finalizers.iter().map(|(name, count)| format!("{name} in {count} resource instances")).collect();
            let parts = parts.join(", ");
            Some(("SomeFinalizersRemain", format!("Some content in the namespace has finalizers remaining: {parts}")))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use object::builtin;

    use super::*;

    const NOW: &str = "2026-01-01T00:00:00Z";

    #[test]
    fn remaining_content_is_reported_and_cleared_again() {
        let mut namespace = Object::default();
        let now = NOW.parse().expect("a time");
        let mut left = RemainingContent::default();
        left.objects.insert(builtin::config_maps(), 2);
        left.finalizers.insert("example.com/hold".into(), 1);
        assert!(set(&mut namespace, &left, now));
        assert!(!set(&mut namespace, &left, now), "no change");
        let shown: Vec<String> = namespace
            .items(&["status", "conditions"])
            .iter()
            .map(|c| format!("{}={}", c["type"].as_str().unwrap_or_default(), c["status"].as_str().unwrap_or_default()))
            .collect();
        assert_eq!(
            shown,
            [
                "NamespaceDeletionDiscoveryFailure=False",
                "NamespaceDeletionGroupVersionParsingFailure=False",
                "NamespaceDeletionContentFailure=False",
                "NamespaceContentRemaining=True",
                "NamespaceFinalizersRemaining=True",
            ]
        );
        let message = |namespace: &Object, index: usize| {
            namespace.items(&["status", "conditions"])[index]["message"].as_str().map(str::to_owned)
        };
        assert_eq!(
            message(&namespace, 3).as_deref(),
            Some("Some resources are remaining: configmaps. has 2 resource instances")
        );
        assert!(set(&mut namespace, &RemainingContent::default(), now));
        assert_eq!(message(&namespace, 3).as_deref(), Some("All content successfully removed"));
    }
}
