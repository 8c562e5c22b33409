//! Parses the part after `search/cache/`: a path of the Kubernetes API.

use object::GroupVersionResource;

/// The objects to search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    pub gvr: GroupVersionResource,
    /// Empty for all.
    pub namespace: String,
    /// Empty for all.
    pub name: String,
}

/// The error is for the client.
pub fn parse(path: &str) -> Result<Path, String> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (group, version, rest) = match parts[..] {
        ["api", version, ref rest @ ..] if !rest.is_empty() => ("", version, rest),
        ["apis", group, version, ref rest @ ..] if !rest.is_empty() => (group, version, rest),
        _ => return Err(format!("k8s native Request URL({}) is not a resource request", parts.join("/"))),
    };
    let (namespace, rest) = match rest {
        ["namespaces", namespace, resource @ ..] if !resource.is_empty() => (*namespace, resource),
        rest => ("", rest),
    };
    let (resource, name) = match rest {
        [resource] => (*resource, ""),
        [resource, name] => (*resource, *name),
        more => return Err(format!("invalid request parts([{}]) for k8s native request URL", more.join(" "))),
    };
    let gvr = GroupVersionResource::new(group, version, resource);
    Ok(Path { gvr, namespace: namespace.to_owned(), name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, expected: &str) {
        let text = match parse(path) {
            Ok(found) => format!("{} '{}' '{}'", found.gvr, found.namespace, found.name),
            Err(problem) => problem,
        };
        assert_eq!(text, expected, "{path}");
    }

    #[test]
    fn paths_are_those_of_kubernetes() {
        check("api/v1/nodes", "/v1, Resource=nodes '' ''");
        check("/api/v1/nodes/n1/", "/v1, Resource=nodes '' 'n1'");
        check("api/v1/namespaces", "/v1, Resource=namespaces '' ''");
        check("api/v1/namespaces/a", "/v1, Resource=namespaces '' 'a'");
        check("api/v1/namespaces/a/pods", "/v1, Resource=pods 'a' ''");
        check("apis/apps/v1/namespaces/a/deployments/web", "apps/v1, Resource=deployments 'a' 'web'");
        check("apis/apps/v1/deployments", "apps/v1, Resource=deployments '' ''");
        check("api/v1/namespaces/a/pods/p/log", "invalid request parts([pods p log]) for k8s native request URL");
        check("api/v1", "k8s native Request URL(api/v1) is not a resource request");
        check("apis/apps/v1", "k8s native Request URL(apis/apps/v1) is not a resource request");
        check("version", "k8s native Request URL(version) is not a resource request");
        check("", "k8s native Request URL() is not a resource request");
    }
}
