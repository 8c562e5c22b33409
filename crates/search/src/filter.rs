//! The filter of a list or watch, evaluated on encoded objects where possible.

use std::fmt;
use std::sync::Arc;

use object::selector::{FieldSelector, LabelSelector};
use object::{Head, Object};
use reconcile::{Kept, ObjectKey};

/// Reads a field of an object for a field selector.
pub type ReadField = Arc<dyn Fn(&Object, &str) -> String + Send + Sync>;

#[derive(Clone)]
pub struct Filter {
    /// All if empty.
    pub namespace: String,
    pub labels: LabelSelector,
    pub fields: FieldSelector,
    /// Fields other than name and namespace.
    pub read_field: ReadField,
}

impl Filter {
    pub fn everything(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            labels: LabelSelector::everything(),
            fields: FieldSelector::default(),
            read_field: Arc::new(|_, _| String::new()),
        }
    }

    pub fn matches(&self, key: &ObjectKey, kept: &Kept) -> bool {
        (self.namespace.is_empty() || key.namespace == self.namespace)
            && self.key_matches(key)
            && self.labels_match(kept)
            && self.content_matches(kept)
    }

    fn key_matches(&self, key: &ObjectKey) -> bool {
        self.fields.terms.iter().all(|term| match key_field(key, &term.field) {
            Some(value) => (value == term.value) == term.equal,
            None => true,
        })
    }

    fn labels_match(&self, kept: &Kept) -> bool {
        if self.labels.is_everything() {
            return true;
        }
        let Kept::Packed(packed, _) = kept else { return self.labels.matches(&kept.object()) };
        match Head::read(&packed.unpack()) {
            Ok(head) => {
                let labels = head.metadata.labels.unwrap_or_default();
                self.labels.matches_with(|key| labels.get(key).map(|value| &**value))
            }
            Err(_) => self.labels.matches(&kept.object()),
        }
    }

    fn content_matches(&self, kept: &Kept) -> bool {
        let key = ObjectKey::default();
        let mut terms = self.fields.terms.iter().filter(|term| key_field(&key, &term.field).is_none()).peekable();
        if terms.peek().is_none() {
            return true;
        }
        let object = kept.object();
        terms.all(|term| ((self.read_field)(&object, &term.field) == term.value) == term.equal)
    }
}

fn key_field<'a>(key: &'a ObjectKey, field: &str) -> Option<&'a str> {
    match field {
        "metadata.name" => Some(&key.name),
        "metadata.namespace" => Some(&key.namespace),
        _ => None,
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, labels, fields, .. } = self;
        f.debug_struct("Filter").field("namespace", namespace).field("labels", labels).field("fields", fields).finish()
    }
}

#[cfg(test)]
mod tests {
    use packing::Dictionary;
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_choose_by_name_labels_and_fields() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "a",
            "labels": {"app": "web", "quoted": "a\"b"}, "annotations": {"long": "enough to be packed ".repeat(20)}},
            "spec": {"nodeName": "n1"}});
        let pod = Arc::new(Object::from_value(pod).expect("a map"));
        let key = ObjectKey::of(&pod);
        let read_field: ReadField = Arc::new(|pod, field| match field {
            "spec.nodeName" => pod.str_at(&["spec", "nodeName"]).to_owned(),
            _ => String::new(),
        });
        let cases = [
            ("", "", "", true),
            ("a", "", "", true),
            ("b", "", "", false),
            ("", "app=web", "", true),
            ("", "app!=web", "", false),
            ("", "missing", "", false),
            ("", "!missing,quoted", "", true),
            ("", "", "metadata.name=web,metadata.namespace!=b", true),
            ("", "", "metadata.name!=web", false),
            ("", "", "spec.nodeName=n1", true),
            ("a", "app=web", "metadata.name=web,spec.nodeName=n2", false),
        ];
        for kept in [Kept::packed(&pod, &Dictionary::default()), Kept::Tree(Arc::clone(&pod))] {
            for (namespace, labels, fields, expected) in cases {
                let filter = Filter {
                    namespace: namespace.to_owned(),
                    labels: LabelSelector::parse(labels).expect("a selector"),
                    fields: FieldSelector::parse(fields).expect("a selector"),
                    read_field: Arc::clone(&read_field),
                };
                assert_eq!(filter.matches(&key, &kept), expected, "{filter:?}");
            }
        }
    }
}
