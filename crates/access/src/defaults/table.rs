//! Parses the default policy table; its format is described at its top.

use crate::rule::PolicyRule;

const CONTROLLER_PREFIX: &str = "system:controller:";
const EVENTS_RULE: &str = "create patch update | core events.k8s.io | events";

#[derive(Default)]
pub struct PolicyTable<'a> {
    pub roles: Vec<RoleLine<'a>>,
    pub bindings: Vec<BindingLine<'a>>,
}

#[derive(Default)]
pub struct RoleLine<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub labels: Vec<(&'a str, &'a str)>,
    pub gathers: Vec<(&'a str, &'a str)>,
    pub rules: Vec<PolicyRule>,
}

pub struct BindingLine<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub role: &'a str,
    pub subjects: Vec<SubjectWord<'a>>,
}

pub enum SubjectWord<'a> {
    ServiceAccount { namespace: &'a str, name: &'a str },
    Named { kind: &'a str, name: &'a str },
}

/// Parses a table compiled into this program. Panics on a malformed line, which is a bug.
pub fn read(text: &str) -> PolicyTable<'_> {
    let mut table = PolicyTable::default();
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        match line.strip_prefix("  ") {
            Some(detail) => read_detail(&mut table, detail),
            None => read_head(&mut table, line),
        }
    }
    table
}

fn read_head<'a>(table: &mut PolicyTable<'a>, line: &'a str) {
    let mut words = line.split(' ');
    let (keyword, full_name) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (namespace, name) = match keyword {
        "clusterrole" | "clusterrolebinding" => ("", full_name),
        _ => full_name.split_once('/').expect("a namespaced name has a slash"),
    };
    match keyword {
        "clusterrole" | "role" => {
            table.roles.push(RoleLine { namespace, name, ..RoleLine::default() });
            if let (Some(account), "clusterrole") = (name.strip_prefix(CONTROLLER_PREFIX), keyword) {
                let subjects = vec![SubjectWord::ServiceAccount { namespace: "kube-system", name: account }];
                table.bindings.push(BindingLine { namespace: "", name, role: name, subjects });
            }
        }
        "rolebinding" | "clusterrolebinding" => {
            let role = words.next().expect("a binding names its role");
            table.bindings.push(BindingLine { namespace, name, role, subjects: words.map(subject).collect() });
        }
        other => unreachable!("the table of default policy has a line starting with {other}"),
    }
}

fn read_detail<'a>(table: &mut PolicyTable<'a>, detail: &'a str) {
    let role = table.roles.last_mut().expect("a detail follows a role");
    let (keyword, rest) = detail.split_once(' ').unwrap_or((detail, ""));
    match keyword {
        "label" => role.labels.push(key_value(rest)),
        "gathers" => role.gathers.push(key_value(rest)),
        "events" => role.rules.push(rule(EVENTS_RULE)),
        "bound" => {
            let subjects = rest.split(' ').filter(|word| !word.is_empty()).map(subject).collect();
            let (name, namespace) = (role.name, role.namespace);
            table.bindings.push(BindingLine { namespace, name, role: name, subjects });
        }
        _ => role.rules.push(rule(detail)),
    }
}

fn key_value(text: &str) -> (&str, &str) {
    text.split_once('=').expect("a label has a value")
}

fn subject(word: &str) -> SubjectWord<'_> {
    let (kind, name) = word.split_once(':').expect("a subject has a kind");
    match name.split_once('/') {
        Some((namespace, name)) if kind == "ServiceAccount" => SubjectWord::ServiceAccount { namespace, name },
        _ => SubjectWord::Named { kind, name },
    }
}

fn rule(text: &str) -> PolicyRule {
    let words = |part: &str| part.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    if let Some((verbs, paths)) = text.split_once(" : ") {
        return PolicyRule { verbs: verbs_of(verbs), non_resource_urls: words(paths), ..PolicyRule::default() };
    }
    let mut parts = text.split('|');
    let mut part = || parts.next().unwrap_or_default().trim();
    let (verbs, groups, resources, names) = (part(), part(), part(), part());
    let group = |name: String| if name == "core" { String::new() } else { name };
    PolicyRule {
        verbs: verbs_of(verbs),
        api_groups: words(groups).into_iter().map(group).collect(),
        resources: words(resources),
        resource_names: words(names),
        non_resource_urls: Vec::new(),
    }
}

fn verbs_of(text: &str) -> Vec<String> {
    let verbs = match text {
        "read" => "get list watch",
        "write" => "create delete deletecollection patch update",
        "readwrite" => "create delete deletecollection get list patch update watch",
        other => other,
    };
    verbs.split_whitespace().map(str::to_owned).collect()
}
