//! Decides whether the names of a definition are accepted, and computes its status.

use jiff::Timestamp;
use object::Object;
use object::conditions::{self, NewCondition};
use serde_json::Value;

pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The definition as it should be, when that is not how it is. `others` are all definitions of the same group.
pub fn settle(definition: &Object, others: &[Object], now: Timestamp) -> Option<Object> {
    let mut new = definition.clone();
    if !new.is_deleting() {
        new.add_finalizer(CLEANUP_FINALIZER);
    }
    let conflict = conflict(definition, others);
    let accepted = conflict.is_none();
    if accepted {
        let names = definition.get(&["spec", "names"]).cloned().unwrap_or_default();
        new.set(&["status", "acceptedNames"], names);
    }
    let (status, reason, message) = match &conflict {
        None => ("True", "NoConflicts", "no conflicts found".to_owned()),
        Some((reason, message)) => ("False", *reason, message.clone()),
    };
    set(&mut new, "NamesAccepted", [status, reason, &message], now);
    let was_established = conditions::is_true(definition, "Established");
    if accepted || was_established {
        set(&mut new, "Established", ["True", "InitialNamesAccepted", "the initial names have been accepted"], now);
    } else {
        set(&mut new, "Established", ["False", "NotAccepted", "not all names are accepted"], now);
    }
    if new.is_deleting() {
        let text = "CustomResource deletion is in progress";
        set(&mut new, "Terminating", ["True", "InstanceDeletionInProgress", text], now);
    }
    (new != *definition).then_some(new)
}

fn set(definition: &mut Object, kind: &str, [status, reason, message]: [&str; 3], now: Timestamp) {
    conditions::set(definition, &NewCondition { kind, status, reason, message }, now);
}

/// The first name that another definition of the group already has.
fn conflict(definition: &Object, others: &[Object]) -> Option<(&'static str, String)> {
    let wanted = |field: &str| definition.str_at(&["spec", "names", field]).to_owned();
    let rivals: Vec<&Object> = others.iter().filter(|other| other.name() != definition.name()).collect();
    let taken = |value: &str, fields: &[&str]| {
        rivals.iter().any(|other| {
            let single = fields.iter().any(|field| other.str_at(&["status", "acceptedNames", field]) == value);
            let short = fields.contains(&"shortNames")
                && other.items(&["status", "acceptedNames", "shortNames"]).iter().any(|name| name == value);
            single || short
        })
    };
    let names = ["plural", "singular", "shortNames"];
    for (field, reason) in [("plural", "PluralConflict"), ("singular", "SingularConflict")] {
        let value = wanted(field);
        if taken(&value, &names) {
            return Some((reason, format!("{value:?} is already in use")));
        }
    }
    for short in definition.items(&["spec", "names", "shortNames"]).iter().filter_map(Value::as_str) {
        if taken(short, &names) {
            return Some(("ShortNamesConflict", format!("{short:?} is already in use")));
        }
    }
    for (field, reason) in [("kind", "KindConflict"), ("listKind", "ListKindConflict")] {
        let value = wanted(field);
        if taken(&value, &["kind", "listKind"]) {
            return Some((reason, format!("{value:?} is already in use")));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(plural: &str, kind: &str) -> Object {
        Object::from_value(json!({
            "metadata": {"name": format!("{plural}.example.com")},
            "spec": {"group": "example.com", "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")}},
        }))
        .expect("a map")
    }

    #[test]
    fn a_new_definition_gets_its_names_and_is_established() {
        let settled = settle(&definition("widgets", "Widget"), &[], Timestamp::UNIX_EPOCH).expect("changes");
        assert!(conditions::is_true(&settled, "Established") && conditions::is_true(&settled, "NamesAccepted"));
        assert!(settled.has_finalizer(CLEANUP_FINALIZER));
        assert_eq!(settle(&settled, &[], Timestamp::now()), None, "settled is settled");
    }

    #[test]
    fn a_name_in_use_is_refused_and_named() {
        let first = settle(&definition("widgets", "Widget"), &[], Timestamp::UNIX_EPOCH).expect("changes");
        let second = settle(&definition("gadgets", "Widget"), &[first], Timestamp::UNIX_EPOCH).expect("changes");
        assert!(!conditions::is_true(&second, "Established"));
        let reason = &second.items(&["status", "conditions"])[0];
        assert_eq!(
            (reason["reason"].as_str(), reason["message"].as_str()),
            (Some("SingularConflict"), Some("\"widget\" is already in use"))
        );
    }
}
