//! Reads a method and path into what authorization, audit and routing need to know of a request.

use http::Method;
use object::query::Query;
use object::request::{Subresource, Verb};
use object::selector::FieldSelector;
use object::{GroupVersionResource, percent};

/// A request as authorization sees it. For plain URLs only `verb` (the lower-case method) and `path` are set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    pub is_resource: bool,
    pub verb: Verb,
    pub path: String,
    pub group: String,
    pub version: String,
    pub namespace: String,
    pub resource: String,
    pub subresource: Option<Subresource>,
    pub name: String,
    /// The path after the subresource, for `proxy` paths.
    pub tail: String,
    /// Overrides the classification by verb and subresource, for paths whose handler knows better.
    pub long_running: Option<bool>,
}

impl RequestInfo {
    /// A request made in this process: for all objects of a kind, unless a namespace or a name is added.
    pub fn on(gvr: GroupVersionResource, verb: Verb) -> Self {
        let GroupVersionResource { group, version, resource } = gvr;
        Self { is_resource: true, verb, group, version, resource, ..Self::default() }
    }

    /// `query` is read only for parameters that change the verb: `watch=true` and a `metadata.name` field selector.
    pub fn parse(method: &Method, path: &str, query: &str) -> Self {
        let mut info = Self { path: path.to_owned(), verb: Verb::of_method(method.as_str()), ..Self::default() };
        // Decoded before it is split, so that an escaped slash separates like any other.
        let decoded = percent::decode_lenient(path);
        let decoded: Vec<String> = decoded.trim_matches('/').split('/').map(str::to_owned).collect();
        let mut parts: &[String] = &decoded;
        match parts.first().map(String::as_str) {
            Some("api") if parts.len() >= 3 => {
                info.version = parts[1].clone();
                parts = &parts[2..];
            }
            Some("apis") if parts.len() >= 4 => {
                info.group = parts[1].clone();
                info.version = parts[2].clone();
                parts = &parts[3..];
            }
            _ => return info,
        }
        info.is_resource = true;
        let old_watch = parts.first().is_some_and(|p| p == "watch") && parts.len() > 1;
        if old_watch {
            parts = &parts[1..];
        }
        info.read_resource(parts);
        let query = Query::parse(query);
        info.verb = resource_verb(method, &info, &query, old_watch);
        if info.verb.is_of_collection() && info.name.is_empty() {
            info.name = name_from_field_selector(&query);
        }
        info
    }

    fn read_resource(&mut self, mut parts: &[String]) {
        // `/namespaces/NS/RESOURCE…` is scoped, but `/namespaces/NS`, `/namespaces/NS/status` and `/finalize` are the
        // namespace itself.
        if parts[0] == "namespaces" && parts.len() > 1 {
            self.namespace = parts[1].clone();
            if parts.len() > 2 && !matches!(parts[2].as_str(), "status" | "finalize") {
                parts = &parts[2..];
            }
        }
        self.resource = parts[0].clone();
        self.name = parts.get(1).cloned().unwrap_or_default();
        self.subresource = parts.get(2).and_then(|name| Subresource::parse(name));
        self.tail = parts.get(3..).map(|tail| tail.join("/")).unwrap_or_default();
        if self.resource == "namespaces" {
            self.namespace = self.name.clone();
        }
    }

    pub fn is_read_only(&self) -> bool {
        self.verb.is_read_only()
    }

    /// Requests that stay open by design and so count against no time limit.
    pub fn is_long_running(&self) -> bool {
        let is_stream = self.subresource.as_ref().is_some_and(Subresource::is_stream);
        self.long_running.unwrap_or(self.verb == Verb::Watch || is_stream)
    }
}

fn resource_verb(method: &Method, info: &RequestInfo, query: &Query, old_watch: bool) -> Verb {
    let named = !info.name.is_empty();
    match method.as_str() {
        "POST" => Verb::Create,
        "PUT" => Verb::Update,
        "DELETE" if !named => Verb::DeleteCollection,
        "GET" | "HEAD" if old_watch || (!named && query.flag("watch")) => Verb::Watch,
        "GET" | "HEAD" if named => Verb::Get,
        "GET" | "HEAD" => Verb::List,
        plain => Verb::of_method(plain),
    }
}

fn name_from_field_selector(query: &Query) -> String {
    let parsed = query.first("fieldSelector").and_then(|text| FieldSelector::parse(text).ok());
    parsed.and_then(|selector| selector.exact("metadata.name").map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_parsed_as_in_kubernetes() {
        // method, path, query → verb group/version namespace resource/subresource name
        let cases = [
            ("GET", "/api/v1/pods", "", "list /v1 '' pods '' ''"),
            ("GET", "/api/v1/pods", "watch=true", "watch /v1 '' pods '' ''"),
            ("GET", "/api/v1/pods", "watch=maybe", "watch /v1 '' pods '' ''"),
            ("GET", "/api/v1/pods", "watch=False", "list /v1 '' pods '' ''"),
            ("GET", "/api/v1/pods", "limit=1;watch=1", "list /v1 '' pods '' ''"),
            ("GET", "/api/v1/watch/pods", "", "watch /v1 '' pods '' ''"),
            ("GET", "/api/v1/namespaces/a/pods/b", "", "get /v1 'a' pods '' 'b'"),
            ("GET", "/api/v1/namespaces/a/pods/b/log", "", "get /v1 'a' pods 'log' 'b'"),
            ("GET", "/api/v1/namespaces/a", "", "get /v1 'a' namespaces '' 'a'"),
            ("PUT", "/api/v1/namespaces/a/finalize", "", "update /v1 'a' namespaces 'finalize' 'a'"),
            ("POST", "/apis/apps/v1/namespaces/a/deployments", "", "create apps/v1 'a' deployments '' ''"),
            ("DELETE", "/apis/apps/v1/namespaces/a/deployments", "", "deletecollection apps/v1 'a' deployments '' ''"),
            ("GET", "/api/v1/pods", "fieldSelector=metadata.name%3Dx", "list /v1 '' pods '' 'x'"),
            (
                "GET",
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
                "",
                "get rbac.authorization.k8s.io/v1 '' clusterroles '' 'system:node'",
            ),
        ];
        for (method, path, query, expected) in cases {
            let info = RequestInfo::parse(&method.parse().expect("a method"), path, query);
            let got = format!(
                "{} {}/{} '{}' {} '{}' '{}'",
                info.verb,
                info.group,
                info.version,
                info.namespace,
                info.resource,
                Subresource::name_of(info.subresource.as_ref()),
                info.name
            );
            assert_eq!(got, expected, "{method} {path}?{query}");
            assert!(info.is_resource);
        }
        for path in ["/", "/api", "/api/v1", "/apis/apps", "/apis/apps/v1", "/healthz", "/openapi/v3/apis/apps/v1"] {
            assert!(!RequestInfo::parse(&Method::GET, path, "").is_resource, "{path}");
        }
    }
}
