//! Resolves resource arguments such as `pods`, `deploy/web` or `works.v1alpha1.work.karmada.io`.

use anyhow::{anyhow, bail};
use cluster_client::{ApiResource, ApiResources, escape};
use object::GroupVersionResource;
use object::request::Verb;

/// Requested objects: all of a type, or those with the names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedObjects {
    pub resource: ApiResource,
    /// Names; empty means all.
    pub names: Vec<String>,
}

/// Resource arguments before they are resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceArgument {
    pub types: Vec<String>,
    pub names: Vec<String>,
}

/// Parses `TYPE[,TYPE] [NAME…]` or `TYPE/NAME…`.
pub fn parse(args: &[String]) -> anyhow::Result<Vec<ResourceArgument>> {
    let Some(first) = args.first() else {
        bail!("You must specify the type of resource to get, such as `pods` or `deployments.apps`");
    };
    if args.iter().any(|arg| arg.contains('/')) {
        return args.iter().map(|arg| parse_pair(arg)).collect();
    }
    let types: Vec<String> = first.split(',').map(str::to_owned).collect();
    if types.iter().any(String::is_empty) {
        bail!("arguments in resource/name form may not have empty resource or name: {first:?}");
    }
    Ok(vec![ResourceArgument { types, names: args[1..].to_vec() }])
}

fn parse_pair(arg: &str) -> anyhow::Result<ResourceArgument> {
    match arg.split('/').collect::<Vec<_>>()[..] {
        [resource, name] if !resource.is_empty() && !name.is_empty() => {
            Ok(ResourceArgument { types: vec![resource.to_owned()], names: vec![name.to_owned()] })
        }
        [_, _] => bail!("arguments in resource/name form must have a single resource and name"),
        _ => bail!(
            "there is no need to specify a resource type as a separate argument when passing arguments in resource/name form (e.g. 'get resource/<resource_name>' instead of 'get resource resource/<resource_name>')"
        ),
    }
}

/// Resolves the arguments with the resources an API serves.
pub fn resolve(typed: &[ResourceArgument], known: &ApiResources) -> anyhow::Result<Vec<RequestedObjects>> {
    let mut wanted: Vec<RequestedObjects> = Vec::new();
    for ResourceArgument { types, names } in typed {
        for text in types {
            for resource in find_all(text, known)? {
                match wanted.iter_mut().find(|w| w.resource.gvr == resource.gvr && !w.names.is_empty()) {
                    Some(same) if !names.is_empty() => same.names.extend(names.iter().cloned()),
                    _ => wanted.push(RequestedObjects { resource, names: names.clone() }),
                }
            }
        }
    }
    Ok(wanted)
}

/// Finds one type, or all types of a category such as `all`.
fn find_all(text: &str, known: &ApiResources) -> anyhow::Result<Vec<ApiResource>> {
    if let Some(resource) = find(text, known) {
        return Ok(vec![resource.clone()]);
    }
    let mut members: Vec<ApiResource> = Vec::new();
    for resource in &known.resources {
        let is_member = resource.categories.iter().any(|category| category == text) && resource.has_verb(Verb::List);
        if is_member && !members.iter().any(|m| m.gvr.group_resource() == resource.gvr.group_resource()) {
            members.push(resource.clone());
        }
    }
    if members.is_empty() {
        return Err(anyhow!("the server doesn't have a resource type {text:?}{}", nearest(text, known)));
    }
    Ok(members)
}

/// Finds the resource `plural`, `singular`, `short` or `Kind`, followed by nothing, `.group` or `.version.group`. Versions
/// are in the server's order, so the first match is the preferred one.
pub fn find<'a>(text: &str, known: &'a ApiResources) -> Option<&'a ApiResource> {
    let (name, rest) = text.split_once('.').unwrap_or((text, ""));
    let candidates = |short_names: bool| known.resources.iter().filter(move |r| is_named(r, name, short_names));
    let pick = |short_names: bool| {
        if rest.is_empty() {
            return candidates(short_names).next();
        }
        let (version, group) = rest.split_once('.').unwrap_or((rest, ""));
        let exact = candidates(short_names).find(|r| r.gvr.version == version && r.gvr.group == group);
        exact
            .or_else(|| candidates(short_names).find(|r| r.gvr.group == rest))
            .or_else(|| candidates(short_names).find(|r| r.gvr.group.starts_with(rest)))
    };
    pick(false).or_else(|| pick(true))
}

fn is_named(resource: &ApiResource, name: &str, short_names: bool) -> bool {
    if short_names {
        return resource.short_names.iter().any(|short| short == name);
    }
    let lower = name.to_lowercase();
    resource.gvr.resource == lower || resource.singular == lower || resource.kind.to_lowercase() == lower
}

/// Returns a suggestion for a misspelled type.
fn nearest(text: &str, known: &ApiResources) -> String {
    let name = text.split('.').next().unwrap_or(text).to_lowercase();
    let close = known.resources.iter().map(|r| r.gvr.resource.as_str()).filter(|plural| edits(plural, &name) <= 2);
    match close.min_by_key(|plural| edits(plural, &name)) {
        Some(plural) => format!(" (did you mean {plural:?}?)"),
        None => String::new(),
    }
}

/// Returns the Levenshtein distance.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// Returns the API path of a collection or an object.
pub fn path_of(gvr: &GroupVersionResource, namespace: Option<&str>, name: Option<&str>) -> String {
    let mut path = match gvr.group.as_str() {
        "" => format!("/api/{}", gvr.version),
        group => format!("/apis/{group}/{}", gvr.version),
    };
    if let Some(namespace) = namespace {
        path += &format!("/namespaces/{}", escape(namespace));
    }
    path += &format!("/{}", escape(&gvr.resource));
    if let Some(name) = name {
        path += &format!("/{}", escape(name));
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(
        group: &str,
        version: &str,
        plural: &str,
        kind: &str,
        short: &[&str],
        categories: &[&str],
    ) -> ApiResource {
        ApiResource {
            gvr: GroupVersionResource::new(group, version, plural),
            kind: kind.into(),
            singular: kind.to_lowercase(),
            namespaced: true,
            verbs: vec!["list".into(), "get".into()],
            short_names: short.iter().map(|s| (*s).to_owned()).collect(),
            categories: categories.iter().map(|s| (*s).to_owned()).collect(),
            subresources: Vec::new(),
        }
    }

    fn known() -> ApiResources {
        ApiResources {
            resources: vec![
                resource("", "v1", "pods", "Pod", &["po"], &["all"]),
                resource("apps", "v1", "deployments", "Deployment", &["deploy"], &["all"]),
                resource("apps", "v1beta1", "deployments", "Deployment", &["deploy"], &["all"]),
                resource("work.karmada.io", "v1alpha1", "works", "Work", &["wk"], &[]),
            ],
            incomplete: Vec::new(),
        }
    }

    #[test]
    fn types_are_found_by_every_name_they_have() {
        let known = known();
        let cases = [
            ("pods", "v1 pods"),
            ("pod", "v1 pods"),
            ("Pod", "v1 pods"),
            ("po", "v1 pods"),
            ("deploy", "apps/v1 deployments"),
            ("deployments.apps", "apps/v1 deployments"),
            ("deployments.v1beta1.apps", "apps/v1beta1 deployments"),
            ("wk", "work.karmada.io/v1alpha1 works"),
            ("works.work.karmada.io", "work.karmada.io/v1alpha1 works"),
            ("work.work", "work.karmada.io/v1alpha1 works"),
        ];
        for (text, expected) in cases {
            let found = find(text, &known).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(format!("{} {}", found.gvr.group_version(), found.gvr.resource), expected, "{text}");
        }
        for text in ["podz", "pods.apps", "deployments.v2.apps"] {
            assert!(find(text, &known).is_none(), "{text}");
        }
    }

    #[test]
    fn arguments_become_types_and_names() {
        let known = known();
        let check = |args: &[&str], expected: &[(&str, &[&str])]| {
            let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
            let wanted = resolve(&parse(&args).unwrap(), &known).unwrap();
            let wanted: Vec<(String, Vec<String>)> =
                wanted.into_iter().map(|w| (w.resource.gvr.resource, w.names)).collect();
            let expected: Vec<(String, Vec<String>)> = expected
                .iter()
                .map(|(r, names)| ((*r).to_owned(), names.iter().map(|n| (*n).to_owned()).collect()))
                .collect();
            assert_eq!(wanted, expected);
        };
        check(&["pods"], &[("pods", &[])]);
        check(&["pods", "a", "b"], &[("pods", &["a", "b"])]);
        check(&["pods,deploy"], &[("pods", &[]), ("deployments", &[])]);
        check(&["po/a", "deploy/b", "pods/c"], &[("pods", &["a", "c"]), ("deployments", &["b"])]);
        check(&["all"], &[("pods", &[]), ("deployments", &[])]);
    }

    #[test]
    fn a_misspelled_type_gets_a_hint() {
        let error = resolve(&parse(&["deploymnets".into()]).unwrap(), &known()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the server doesn't have a resource type \"deploymnets\" (did you mean \"deployments\"?)"
        );
        assert!(parse(&["pods".into(), "deploy/x".into()]).is_err());
        assert!(parse(&[]).is_err());
    }
}
