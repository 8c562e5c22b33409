//! References to dependencies of a template: validation, and merging of lists.

use api::config::DependentObjectReference;
use object::{FieldError, FieldPath};

use crate::operation::{InterpretError, InterpretResult};

/// Every reference needs a kind and a name or a valid selector.
pub fn verify(dependencies: &[DependentObjectReference]) -> InterpretResult<()> {
    let mut errors = Vec::new();
    for (index, dependency) in dependencies.iter().enumerate() {
        let path = FieldPath::new("dependencies").index(index);
        if dependency.api_version.is_empty() {
            errors.push(FieldError::invalid(path.child("apiVersion"), "", "missing required apiVersion"));
        }
        if dependency.kind.is_empty() {
            errors.push(FieldError::invalid(path.child("kind"), "", "missing required kind"));
        }
        if dependency.name.is_empty() && dependency.label_selector.is_none() {
            let shown = serde_json::to_value(dependency).unwrap_or_default();
            let why = "dependency can not leave name and labelSelector all empty";
            errors.push(FieldError::invalid(path.clone(), shown, why));
        }
        if let Some(Err(error)) = dependency.label_selector.as_ref().map(|selector| selector.compile()) {
            let shown = serde_json::to_value(&dependency.label_selector).unwrap_or_default();
            errors.push(FieldError::invalid(path.child("labelSelector"), shown, error.to_string()));
        }
    }
    match errors.as_slice() {
        [] => Ok(()),
        [one] => Err(InterpretError(one.to_string())),
        several => {
            let texts: Vec<String> = several.iter().map(ToString::to_string).collect();
            Err(InterpretError(format!("[{}]", texts.join(", "))))
        }
    }
}

/// Merges lists: references by name are deduplicated and sorted; those by selector all stay.
pub fn merge(lists: Vec<Vec<DependentObjectReference>>) -> Vec<DependentObjectReference> {
    let mut merged: Vec<DependentObjectReference> = lists.into_iter().flatten().collect();
    fn key(d: &DependentObjectReference) -> (&str, &str, &str, &str) {
        (&d.api_version, &d.kind, &d.namespace, &d.name)
    }
    merged.sort_by(|a, b| key(a).cmp(&key(b)));
    merged.dedup_by(|a, b| a.label_selector.is_none() && b.label_selector.is_none() && key(a) == key(b));
    merged
}

#[cfg(test)]
mod tests {
    use api::core::LabelSelector;

    use super::*;
    use crate::pod::reference;

    #[test]
    fn references_without_a_target_are_rejected() {
        let bad_selector = DependentObjectReference {
            label_selector: Some(LabelSelector {
                match_labels: [("a b".into(), "c".into())].into(),
                ..Default::default()
            }),
            ..reference("v1", "Secret", "ns", "")
        };
        let cases = [
            (reference("v1", "Secret", "", "s"), None),
            (
                reference("", "Secret", "", "s"),
                Some("dependencies[0].apiVersion: Invalid value: \"\": missing required"),
            ),
            (reference("v1", "", "", "s"), Some("dependencies[0].kind: Invalid value: \"\": missing required kind")),
            (reference("v1", "Secret", "", ""), Some("dependency can not leave name and labelSelector all empty")),
            (reference("", "", "", "s"), Some("[dependencies[0].apiVersion: ")),
            (bad_selector, Some("dependencies[0].labelSelector: Invalid value: ")),
        ];
        for (dependency, expected) in cases {
            match (verify(std::slice::from_ref(&dependency)), expected) {
                (Ok(()), None) => {}
                (Err(error), Some(part)) => assert!(error.0.contains(part), "{error}"),
                (result, expected) => panic!("{dependency:?}: {result:?}, expected {expected:?}"),
            }
        }
    }

    #[test]
    fn lists_become_one_sorted_list_with_each_name_once_and_every_selector() {
        let by_label = || DependentObjectReference {
            label_selector: Some(LabelSelector::default()),
            ..reference("v1", "A", "", "")
        };
        let merged = merge(vec![
            vec![reference("v1", "Secret", "ns", "b"), reference("v1", "ConfigMap", "ns", "z"), by_label()],
            vec![reference("v1", "Secret", "ns", "a"), reference("v1", "Secret", "ns", "b"), by_label()],
        ]);
        let names: Vec<String> = merged.iter().map(|d| format!("{}/{}", d.kind, d.name)).collect();
        assert_eq!(names, ["A/", "A/", "ConfigMap/z", "Secret/a", "Secret/b"]);
    }
}
