//! Normalizes objects: removes uids, times, hashes and random names.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use object::Object;
use serde_json::Value;

/// Length of the random suffix of generated names.
const RANDOM_SUFFIX_LENGTH: usize = 5;

const LEFT_OUT: [&str; 18] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "lastTransitionTime",
    "lastUpdateTime",
    "lastProbeTime",
    "startTime",
    "completionTime",
    "startedAt",
    "finishedAt",
    "nodeName",
    "podIP",
    "podIPs",
    "lastSuccessfulTime",
    "selfLink",
    "selected-node",
    "kubectl.kubernetes.io/restartedAt",
];

/// Returns every object as text under `resource name`; random names are numbered.
pub fn normal_objects(lists: Vec<(&'static str, Vec<Arc<Object>>)>) -> BTreeMap<String, String> {
    let names = placeholders(&lists);
    let mut seen = BTreeMap::new();
    for (resource, objects) in &lists {
        let mut of_name: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for object in objects {
            let mut value = object.to_value();
            let prefix = object.generate_name();
            if !prefix.is_empty() {
                let suffix = object.name().strip_prefix(prefix).unwrap_or_default();
                // Ordinals are deterministic and kept.
                if suffix.len() == RANDOM_SUFFIX_LENGTH {
                    value["metadata"]["name"] = format!("{prefix}*").into();
                }
            }
            clean(&mut value, &names);
            let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            of_name.entry(name).or_default().push(format!("{value:#}"));
        }
        for (name, mut texts) in of_name {
            texts.sort();
            for (position, text) in texts.into_iter().enumerate() {
                seen.insert(format!("{resource} {name} {position}"), text);
            }
        }
    }
    seen
}

/// Returns which kinds of events exist for which kinds of objects.
pub fn normal_events(events: &[Arc<Object>]) -> String {
    let line = |event: &Arc<Object>| {
        let text = |path: &[&str]| event.str_at(path).to_owned();
        let (kind, reason) = (text(&["involvedObject", "kind"]), text(&["reason"]));
        format!("{} {kind} {reason} from {}", text(&["type"]), text(&["source", "component"]))
    };
    let lines: BTreeSet<String> = events.iter().map(line).collect();
    lines.into_iter().collect::<Vec<_>>().join("\n")
}

/// Maps hashes to owner and revision number, and uids to their object.
fn placeholders(lists: &[(&'static str, Vec<Arc<Object>>)]) -> HashMap<String, String> {
    let mut names = HashMap::new();
    for object in lists.iter().flat_map(|(_, objects)| objects) {
        let owner = object.owner_references().first().map(|owner| owner.name.clone()).unwrap_or_default();
        let revision = object.annotation("deployment.kubernetes.io/revision").map(str::to_owned);
        let revision = revision.or_else(|| object.i64_at(&["revision"]).map(|number| number.to_string()));
        let hash = ["pod-template-hash", "controller-revision-hash", "controller.kubernetes.io/hash"]
            .iter()
            .find_map(|label| object.label(label));
        if let (Some(hash), Some(revision)) = (hash, revision)
            && object.kind() != "Pod"
        {
            names.insert(hash.to_owned(), format!("HASH{revision}OF{owner}"));
        }
        names.insert(object.uid().to_owned(), format!("UID-OF-{}", object.kind()));
    }
    names
}

fn clean(value: &mut Value, names: &HashMap<String, String>) {
    match value {
        Value::Object(map) => {
            map.retain(|key, _| !LEFT_OUT.contains(&key.as_str()));
            map.values_mut().for_each(|value| clean(value, names));
            // A map by type: the order depends on which of two changes was observed first.
            if let Some(Value::Array(conditions)) = map.get_mut("conditions") {
                conditions.sort_by_key(|condition| condition["type"].as_str().map(str::to_owned));
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| clean(value, names)),
        Value::String(text) => {
            if matches!(text.as_str(), "ours" | "theirs") {
                *text = "NAMESPACE".to_owned();
            }
            for (name, placeholder) in names.iter().filter(|(name, _)| !name.is_empty()) {
                if text.contains(name.as_str()) {
                    *text = text.replace(name.as_str(), placeholder);
                }
            }
            // A message that names an arbitrary pod.
            if let Some((before, after)) = text.split_once(" for pod ") {
                let after = after.split_once(' ').map(|(_, after)| after).unwrap_or_default();
                *text = format!("{before} for pod * {after}");
            }
            if text.starts_with("kube-api-access-") {
                *text = "kube-api-access-*".to_owned();
            }
        }
        _ => {}
    }
}
