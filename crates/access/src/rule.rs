//! One RBAC rule: what it allows, what it covers of another rule, and how messages print it.

use std::collections::{BTreeMap, BTreeSet};

use object::Object;
use object::field::go_quote;
use serde_json::{Map, Value};

use crate::ResourceAction;

pub const ALL: &str = "*";

/// A rule of a Role or ClusterRole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PolicyRule {
    pub verbs: Vec<String>,
    pub api_groups: Vec<String>,
    pub resources: Vec<String>,
    pub resource_names: Vec<String>,
    pub non_resource_urls: Vec<String>,
}

impl PolicyRule {
    /// Allows everything.
    pub fn full_authority() -> [Self; 2] {
        let all = || vec![ALL.to_owned()];
        [
            Self { verbs: all(), api_groups: all(), resources: all(), ..Self::default() },
            Self { verbs: all(), non_resource_urls: all(), ..Self::default() },
        ]
    }

    pub fn from_value(value: &Value) -> Self {
        let list = |key: &str| {
            let items = value[key].as_array().map(Vec::as_slice).unwrap_or_default();
            items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            verbs: list("verbs"),
            api_groups: list("apiGroups"),
            resources: list("resources"),
            resource_names: list("resourceNames"),
            non_resource_urls: list("nonResourceURLs"),
        }
    }

    pub fn to_value(&self) -> Value {
        let mut map = Map::new();
        map.insert("verbs".into(), self.verbs.clone().into());
        let optional = [
            ("apiGroups", &self.api_groups),
            ("resources", &self.resources),
            ("resourceNames", &self.resource_names),
            ("nonResourceURLs", &self.non_resource_urls),
        ];
        for (key, list) in optional.into_iter().filter(|(_, list)| !list.is_empty()) {
            map.insert(key.into(), list.clone().into());
        }
        Value::Object(map)
    }

    pub fn allows_resource(&self, action: &ResourceAction<'_>) -> bool {
        self.allows_verb(action.verb)
            && has_or_all(&self.api_groups, action.group)
            && self.resources.iter().any(|r| resource_matches(r, action.resource, action.subresource))
            && self.allows_name(action.name)
    }

    pub fn allows_path(&self, verb: &str, path: &str) -> bool {
        self.allows_verb(verb) && self.non_resource_urls.iter().any(|url| url_covers(url, path))
    }

    fn allows_verb(&self, verb: &str) -> bool {
        has_or_all(&self.verbs, verb)
    }

    fn allows_name(&self, name: &str) -> bool {
        self.resource_names.is_empty() || has(&self.resource_names, name)
    }

    /// Reports whether this rule covers `atom`, which has at most one value in each list.
    fn covers_atom(&self, atom: &Self) -> bool {
        has_all_or_star(&self.verbs, &atom.verbs)
            && has_all_or_star(&self.api_groups, &atom.api_groups)
            && atom.resources.iter().all(|r| resource_covered(&self.resources, r))
            && atom.non_resource_urls.iter().all(|path| self.non_resource_urls.iter().any(|own| url_covers(own, path)))
            && match (self.resource_names.is_empty(), atom.resource_names.is_empty()) {
                (true, _) => true,
                (false, true) => false,
                (false, false) => atom.resource_names.iter().all(|name| has(&self.resource_names, name)),
            }
    }

    /// The same permissions as rules of one verb, one group, one resource and one name each.
    fn atoms(&self) -> Vec<Self> {
        let mut atoms = Vec::new();
        let names: Vec<Vec<String>> = match &self.resource_names[..] {
            [] => vec![Vec::new()],
            names => names.iter().map(|name| vec![name.clone()]).collect(),
        };
        for (group, resource) in self.api_groups.iter().flat_map(|g| self.resources.iter().map(move |r| (g, r))) {
            for (verb, name) in self.verbs.iter().flat_map(|v| names.iter().map(move |n| (v, n))) {
                atoms.push(Self {
                    verbs: vec![verb.clone()],
                    api_groups: vec![group.clone()],
                    resources: vec![resource.clone()],
                    resource_names: name.clone(),
                    non_resource_urls: Vec::new(),
                });
            }
        }
        for (url, verb) in self.non_resource_urls.iter().flat_map(|u| self.verbs.iter().map(move |v| (u, v))) {
            atoms.push(Self { verbs: vec![verb.clone()], non_resource_urls: vec![url.clone()], ..Self::default() });
        }
        atoms
    }

    /// Formatted as in escalation messages: `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`.
    pub fn describe(&self) -> String {
        let parts = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let parts = parts.iter().filter(|(_, list)| !list.is_empty());
        let parts: Vec<String> = parts.map(|(name, list)| format!("{name}:{}", quote_list(list))).collect();
        format!("{{{}}}", parts.join(", "))
    }
}

/// The rules of a Role or ClusterRole.
pub fn rules_of(role: &Object) -> Vec<PolicyRule> {
    role.items(&["rules"]).iter().map(PolicyRule::from_value).collect()
}

/// The permissions in `wanted` that `held` lacks, as rules of one verb each.
pub fn uncovered(held: &[PolicyRule], wanted: &[PolicyRule]) -> Vec<PolicyRule> {
    let atoms = wanted.iter().flat_map(PolicyRule::atoms);
    atoms.filter(|atom| !held.iter().any(|rule| rule.covers_atom(atom))).collect()
}

/// One text per resource with all its missing verbs, sorted.
pub fn describe_missing(atoms: &[PolicyRule]) -> Vec<String> {
    let mut by_resource: BTreeMap<PolicyRule, Vec<String>> = BTreeMap::new();
    let mut texts = BTreeSet::new();
    for atom in atoms {
        if atom.non_resource_urls.is_empty() {
            let resource = PolicyRule { verbs: Vec::new(), ..atom.clone() };
            by_resource.entry(resource).or_default().extend(atom.verbs.iter().cloned());
        } else {
            texts.insert(atom.describe());
        }
    }
    texts.extend(by_resource.into_iter().map(|(resource, verbs)| PolicyRule { verbs, ..resource }.describe()));
    texts.into_iter().collect()
}

/// Go's `%q` of a list of strings.
pub fn quote_list(list: &[String]) -> String {
    let quoted: Vec<String> = list.iter().map(|item| go_quote(item)).collect();
    format!("[{}]", quoted.join(" "))
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == wanted)
}

fn has_or_all(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == wanted || item == ALL)
}

fn has_all_or_star(list: &[String], wanted: &[String]) -> bool {
    has(list, ALL) || wanted.iter().all(|item| has(list, item))
}

fn resource_matches(pattern: &str, resource: &str, subresource: &str) -> bool {
    if pattern == ALL {
        return true;
    }
    if subresource.is_empty() {
        return pattern == resource;
    }
    match pattern.split_once('/') {
        Some((kind, sub)) => sub == subresource && (kind == ALL || kind == resource),
        None => false,
    }
}

fn resource_covered(held: &[String], wanted: &str) -> bool {
    let any_with_subresource = || wanted.split_once('/').is_some_and(|(_, sub)| has(held, &format!("*/{sub}")));
    has_or_all(held, wanted) || any_with_subresource()
}

fn url_covers(pattern: &str, path: &str) -> bool {
    pattern == path || (pattern.ends_with('*') && path.starts_with(pattern.trim_end_matches('*')))
}
