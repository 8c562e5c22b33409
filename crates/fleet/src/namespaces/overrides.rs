//! The ClusterOverridePolicies that may change namespaces, read once for each of their versions.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use object::{Object, Status};
use parking_lot::Mutex;
use propagation::overrides::OverridePolicy;
use reconcile::{Change, Index, Mirror};

/// The namespaces an override policy affects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selected {
    None,
    Named(BTreeSet<String>),
    All,
}

pub struct Policies {
    /// Those that may select namespaces.
    concerned: Index<()>,
    /// By name, with the version that was read. Holds no more than the mirror, whose policies it is made of.
    read: Mutex<HashMap<String, (String, Arc<OverridePolicy>)>>,
}

impl Policies {
    pub fn new(mirror: &Mirror) -> Self {
        let concerned = mirror.index(|policy| match selected_by(policy) {
            Selected::None => Vec::new(),
            Selected::Named(_) | Selected::All => vec![()],
        });
        Self { concerned, read: Mutex::default() }
    }

    /// The policies that may select a namespace.
    pub fn for_namespaces(&self) -> Result<Vec<Arc<OverridePolicy>>, Status> {
        let policies = self.concerned.list(&());
        let mut read = self.read.lock();
        read.retain(|name, _| policies.iter().any(|policy| policy.name() == name));
        policies.iter().map(|policy| read_once(&mut read, policy)).collect()
    }
}

fn read_once(
    read: &mut HashMap<String, (String, Arc<OverridePolicy>)>,
    policy: &Object,
) -> Result<Arc<OverridePolicy>, Status> {
    if let Some((version, known)) = read.get(policy.name())
        && version == policy.resource_version()
    {
        return Ok(Arc::clone(known));
    }
    let parsed = Arc::new(OverridePolicy::read(policy)?);
    read.insert(policy.name().to_owned(), (policy.resource_version().to_owned(), Arc::clone(&parsed)));
    Ok(parsed)
}

/// The namespaces a policy selected before or selects now.
pub fn selected_by_either(change: &Change) -> Selected {
    let states = [&change.before, &change.now].into_iter().flatten();
    states.map(|policy| selected_by(policy)).fold(Selected::None, |all, one| match (all, one) {
        (Selected::All, _) | (_, Selected::All) => Selected::All,
        (Selected::Named(mut names), Selected::Named(more)) => {
            names.extend(more);
            Selected::Named(names)
        }
        (Selected::None, other) | (other, Selected::None) => other,
    })
}

/// A policy without selectors selects everything; one that names no namespace, all it may match by labels.
fn selected_by(policy: &Object) -> Selected {
    let selectors = policy.items(&["spec", "resourceSelectors"]);
    if selectors.is_empty() {
        return Selected::All;
    }
    let mut names = BTreeSet::new();
    for selector in selectors.iter().filter(|s| s["apiVersion"] == "v1" && s["kind"] == "Namespace") {
        match selector["name"].as_str().unwrap_or_default() {
            "" => return Selected::All,
            name => drop(names.insert(name.to_owned())),
        }
    }
    if names.is_empty() { Selected::None } else { Selected::Named(names) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(selectors: Value, expected: Selected) {
        let policy = Object::from_value(json!({"spec": {"resourceSelectors": selectors}})).expect("a map");
        assert_eq!(selected_by(&policy), expected, "{selectors}");
    }

    #[test]
    fn a_policy_concerns_the_namespaces_its_selectors_may_match() {
        let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "name": name});
        let named = |names: &[&str]| Selected::Named(names.iter().map(|name| (*name).to_owned()).collect());
        check(json!([]), Selected::All);
        check(json!([{"apiVersion": "apps/v1", "kind": "Deployment"}]), Selected::None);
        check(json!([namespace("a"), {"apiVersion": "v1", "kind": "Secret"}, namespace("b")]), named(&["a", "b"]));
        check(json!([namespace("a"), namespace("")]), Selected::All);
        check(
            json!([{"apiVersion": "v1", "kind": "Namespace", "labelSelector": {"matchLabels": {"a": "b"}}}]),
            Selected::All,
        );
    }
}
