//! The paths of a kind: one operation per verb, with the names client generators expect.

use object::GroupVersionKind;
use object::request::{Subresource, Verb};

use super::parameters::{self, Parameter};
use super::path_item::{JSON, PROTOBUF, PathItem, PathOperation, RequestBody, ResponseSpec, YAML};
use crate::builtin;
use crate::kind::{Kind, ServedSubresource, SubresourceKind};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const STREAMS: [&str; 2] = ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];

/// All paths of one kind. Custom kinds have no protobuf, no strategic merge and no `/watch/` paths.
pub fn paths_of(kind: &Kind, custom: bool) -> Vec<PathItem> {
    let writer = Writer::new(kind, custom);
    let mut items = writer.resource_paths();
    for sub in &kind.subresources {
        items.extend(writer.subresource_paths(sub));
    }
    if kind.allows(Verb::Watch) && !custom {
        items.extend(writer.watch_paths());
    }
    items.retain(|item| !item.operations.is_empty());
    items
}

/// `core_v1`, `rbacAuthorization_v1`.
pub fn tag_of(group: &str, version: &str) -> String {
    format!("{}_{version}", group_words(group, false))
}

/// The group as one word without `.k8s.io`: `RbacAuthorization`, or `rbacAuthorization` for tags.
pub fn group_words(group: &str, capital: bool) -> String {
    let group = if group.is_empty() { "core" } else { group.trim_end_matches(".k8s.io") };
    let words: String = group.split(['.', '-']).map(capitalize).collect();
    if capital { words } else { lower_first(&words) }
}

pub fn capitalize(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

fn lower_first(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

/// `/api/v1` or `/apis/apps/v1`.
pub fn base_path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

struct Writer<'a> {
    kind: &'a Kind,
    custom: bool,
    base: String,
    /// `AppsV1`.
    prefix: String,
    /// `NamespacedDeployment`, or only the kind for cluster-scoped kinds.
    noun: String,
    tag: String,
}

impl<'a> Writer<'a> {
    fn new(kind: &'a Kind, custom: bool) -> Self {
        let (group, version) = (&kind.gvk.group, &kind.gvk.version);
        let scope = if kind.namespaced { "Namespaced" } else { "" };
        Self {
            kind,
            custom,
            base: base_path(group, version),
            prefix: format!("{}{}", group_words(group, true), capitalize(version)),
            noun: format!("{scope}{}", kind.gvk.kind),
            tag: tag_of(group, version),
        }
    }

    /// The path of the collection below `base`.
    fn collection(&self, base: &str) -> String {
        match self.kind.namespaced {
            true => format!("{base}/namespaces/{{namespace}}/{}", self.kind.plural),
            false => format!("{base}/{}", self.kind.plural),
        }
    }

    fn resource_paths(&self) -> Vec<PathItem> {
        let collection = self.collection(&self.base);
        let item = format!("{collection}/{{name}}");
        let mut paths = Vec::new();
        if self.kind.namespaced && self.kind.allows(Verb::List) {
            let mut everywhere = self.list();
            everywhere.id = format!("list{}{}ForAllNamespaces", self.prefix, self.kind.gvk.kind);
            everywhere.parameters.retain(|parameter| parameter.name != "namespace");
            paths.push(PathItem { path: format!("{}/{}", self.base, self.kind.plural), operations: vec![everywhere] });
        }
        let when = |verb: Verb, build: fn(&Self) -> PathOperation| self.kind.allows(verb).then(|| build(self));
        let on_collection = [
            when(Verb::List, Self::list),
            when(Verb::Create, Self::create),
            when(Verb::DeleteCollection, Self::delete_collection),
        ];
        let on_item = [
            when(Verb::Get, Self::read),
            when(Verb::Update, Self::replace),
            when(Verb::Delete, Self::delete),
            when(Verb::Patch, Self::patch),
        ];
        paths.push(PathItem { path: collection, operations: on_collection.into_iter().flatten().collect() });
        paths.push(PathItem { path: item, operations: on_item.into_iter().flatten().collect() });
        paths
    }

    fn subresource_paths(&self, sub: &ServedSubresource) -> Vec<PathItem> {
        let path = format!("{}/{{name}}/{}", self.collection(&self.base), sub.name);
        if sub.kind == SubresourceKind::Connect {
            return if sub.name == Subresource::Log {
                vec![self.log(sub, path)]
            } else {
                self.connect_paths(sub, path)
            };
        }
        let operations = sub
            .verbs
            .iter()
            .filter_map(|verb| {
                let mut operation = match *verb {
                    Verb::Get => self.read(),
                    Verb::Update => self.replace(),
                    Verb::Patch => self.patch(),
                    Verb::Create => self.create_below(),
                    _ => return None,
                };
                self.turn_to(&mut operation, sub);
                Some(operation)
            })
            .collect();
        vec![PathItem { path, operations }]
    }

    /// Changes an operation on the kind to one on its subresource.
    fn turn_to(&self, operation: &mut PathOperation, sub: &ServedSubresource) {
        operation.id.push_str(&capitalize(sub.name.as_str()));
        operation.description = match operation.description.split_once(' ') {
            Some(("create", rest)) => format!("create {} of {rest}", sub.name),
            _ => operation.description.replace(" the specified", &format!(" {} of the specified", sub.name)),
        };
        // Operations of custom kinds name the parent even if the body is a Scale.
        if !self.custom {
            operation.gvk = Some(sub.gvk.clone());
        }
        let definition = self.body_definition(&sub.gvk);
        if let Some(body) = operation.body.as_mut().filter(|body| body.definition == self.kind.definition) {
            body.definition = definition.clone();
        }
        for (_, answer) in &mut operation.responses {
            *answer = ResponseSpec::Definition(definition.clone());
        }
    }

    fn body_definition(&self, gvk: &GroupVersionKind) -> String {
        match (gvk.group.as_str(), gvk.kind.as_str()) {
            ("autoscaling", "Scale") => "io.k8s.api.autoscaling.v1.Scale".to_owned(),
            ("authentication.k8s.io", "TokenRequest") => "io.k8s.api.authentication.v1.TokenRequest".to_owned(),
            ("policy", "Eviction") => "io.k8s.api.policy.v1.Eviction".to_owned(),
            ("", "Binding") => "io.k8s.api.core.v1.Binding".to_owned(),
            _ => self.kind.definition.clone(),
        }
    }

    fn watch_paths(&self) -> Vec<PathItem> {
        let base = format!("{}/watch", self.base);
        let collection = self.collection(&base);
        let kind = &self.kind.gvk.kind;
        let mut paths = Vec::new();
        if self.kind.namespaced {
            let id = format!("watch{}{kind}ListForAllNamespaces", self.prefix);
            let mut operation = self.watch(id, "watchlist", false);
            operation.parameters.retain(|parameter| parameter.name != "namespace");
            paths.push(PathItem { path: format!("{base}/{}", self.kind.plural), operations: vec![operation] });
        }
        let list = self.watch(format!("watch{}{}List", self.prefix, self.noun), "watchlist", false);
        let one = self.watch(format!("watch{}{}", self.prefix, self.noun), "watch", true);
        paths.push(PathItem { path: collection.clone(), operations: vec![list] });
        paths.push(PathItem { path: format!("{collection}/{{name}}"), operations: vec![one] });
        paths
    }

    fn watch(&self, id: String, action: &'static str, named: bool) -> PathOperation {
        let mut operation = self.list();
        operation.id = id;
        operation.action = Some(action);
        let kind = &self.kind.gvk.kind;
        operation.description = match named {
            true => format!(
                "watch changes to an object of kind {kind}. deprecated: use the 'watch' parameter with a list operation \
                 instead, filtered to a single item with the 'fieldSelector' parameter."
            ),
            false => format!(
                "watch individual changes to a list of {kind}. deprecated: use the 'watch' parameter with a list \
                 operation instead."
            ),
        };
        operation.responses = vec![(200, meta("WatchEvent"))];
        if named {
            operation.parameters.push(parameters::object_name(&self.kind.gvk.kind));
        }
        operation
    }

    fn list(&self) -> PathOperation {
        let mut operation = self.operation(
            "get",
            "list",
            "list",
            if self.custom { "list objects of kind" } else { "list or watch objects of kind" },
        );
        operation.parameters = self.parameters(parameters::LIST, false);
        operation.responses = vec![(200, ResponseSpec::Definition(super::list_definition(self.kind)))];
        if !self.custom {
            operation.produces.extend(STREAMS);
        }
        operation
    }

    fn create(&self) -> PathOperation {
        let mut operation = self.operation("post", "post", "create", &with_article("create", &self.kind.gvk.kind));
        operation.parameters = self.parameters(parameters::WRITE, false);
        operation.body = Some(RequestBody { definition: self.kind.definition.clone(), required: true });
        operation.responses = [200, 201, 202].map(|code| (code, self.itself())).to_vec();
        operation
    }

    fn create_below(&self) -> PathOperation {
        let mut operation = self.create();
        operation.parameters.push(parameters::object_name(&self.kind.gvk.kind));
        operation
    }

    fn delete_collection(&self) -> PathOperation {
        let mut operation = self.operation("delete", Verb::DeleteCollection.as_str(), "delete", "delete collection of");
        operation.id = format!("delete{}Collection{}", self.prefix, self.noun);
        operation.responses = vec![(200, meta("Status"))];
        if self.custom {
            operation.parameters = self.parameters(parameters::LIST, false);
        } else {
            operation.parameters = self.parameters(parameters::DELETE_COLLECTION, false);
            operation.body = Some(RequestBody { definition: format!("{META}.DeleteOptions"), required: false });
        }
        operation
    }

    fn read(&self) -> PathOperation {
        let mut operation = self.operation("get", "get", "read", "read the specified");
        operation.parameters = self.parameters(if self.custom { &["resourceVersion"] } else { &[] }, true);
        operation.responses = vec![(200, self.itself())];
        operation
    }

    fn replace(&self) -> PathOperation {
        let mut operation = self.operation("put", "put", "replace", "replace the specified");
        operation.parameters = self.parameters(parameters::WRITE, true);
        operation.body = Some(RequestBody { definition: self.kind.definition.clone(), required: true });
        operation.responses = [200, 201].map(|code| (code, self.itself())).to_vec();
        operation
    }

    fn patch(&self) -> PathOperation {
        let mut operation = self.operation("patch", "patch", "patch", "partially update the specified");
        operation.consumes =
            vec!["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];
        operation.parameters = self.parameters(parameters::PATCH, true);
        operation.body = Some(RequestBody { definition: format!("{META}.Patch"), required: true });
        operation.responses = vec![(200, self.itself())];
        if !self.custom {
            operation.consumes.insert(2, "application/strategic-merge-patch+json");
            operation.responses.push((201, self.itself()));
        }
        operation
    }

    fn delete(&self) -> PathOperation {
        let mut operation = self.operation("delete", "delete", "delete", &with_article("delete", &self.kind.gvk.kind));
        operation.parameters = self.parameters(parameters::DELETE, true);
        operation.body = Some(RequestBody { definition: format!("{META}.DeleteOptions"), required: false });
        let answer = if builtin::returns_deleted(&self.kind.gvk) { self.itself() } else { meta("Status") };
        operation.responses = [200, 202].map(|code| (code, answer.clone())).to_vec();
        operation
    }

    fn log(&self, sub: &ServedSubresource, path: String) -> PathItem {
        let mut operation = self.read();
        self.turn_to(&mut operation, sub);
        operation.produces.insert(0, "text/plain");
        operation.parameters = self.parameters(parameters::LOG, true);
        operation.responses = vec![(200, ResponseSpec::Text)];
        PathItem { path, operations: vec![operation] }
    }

    fn connect_paths(&self, sub: &ServedSubresource, path: String) -> Vec<PathItem> {
        let (methods, query): (&[&'static str], _) = match sub.name.as_str() {
            "proxy" => (&["get", "put", "post", "delete", "options", "head", "patch"], parameters::PROXY),
            "attach" => (&["get", "post"], parameters::ATTACH),
            "exec" => (&["get", "post"], parameters::EXEC),
            _ => (&["get", "post"], parameters::PORT_FORWARD),
        };
        let plain = methods.iter().map(|method| self.connect(sub, method, query)).collect();
        let mut paths = vec![PathItem { path: path.clone(), operations: plain }];
        if sub.name == Subresource::Proxy {
            let below = methods.iter().map(|method| {
                let mut operation = self.connect(sub, method, query);
                operation.id.push_str("WithPath");
                operation.parameters.push(parameters::proxied_path());
                operation
            });
            paths.push(PathItem { path: format!("{path}/{{path}}"), operations: below.collect() });
        }
        paths
    }

    fn connect(&self, sub: &ServedSubresource, method: &'static str, query: &[&str]) -> PathOperation {
        let mut operation = self.operation(method, "connect", "connect", "connect");
        operation.id =
            format!("connect{}{}{}{}", self.prefix, capitalize(method), self.noun, capitalize(sub.name.as_str()));
        operation.description =
            format!("connect {} requests to {} of {}", method.to_uppercase(), sub.name, self.kind.gvk.kind);
        operation.gvk = Some(sub.gvk.clone());
        operation.produces = vec!["*/*"];
        operation.parameters = self.parameters(query, true);
        operation.parameters.retain(|parameter| parameter.name != "pretty");
        operation.responses = vec![(200, ResponseSpec::Text)];
        operation
    }

    fn operation(&self, method: &'static str, action: &'static str, verb: &str, sentence: &str) -> PathOperation {
        let kind = &self.kind.gvk.kind;
        PathOperation {
            method,
            id: format!("{verb}{}{}", self.prefix, self.noun),
            description: format!("{sentence} {kind}"),
            tag: self.tag.clone(),
            action: Some(action),
            gvk: Some(self.kind.gvk.clone()),
            consumes: if self.custom { vec![JSON, YAML] } else { vec!["*/*"] },
            produces: if self.custom { vec![JSON, YAML] } else { vec![JSON, YAML, PROTOBUF] },
            parameters: Vec::new(),
            body: None,
            responses: Vec::new(),
        }
    }

    fn parameters(&self, names: &[&str], of_one_object: bool) -> Vec<Parameter> {
        let mut list: Vec<Parameter> = names.iter().map(|name| parameters::query(name)).collect();
        list.push(parameters::query("pretty"));
        if self.kind.namespaced {
            list.push(parameters::namespace());
        }
        if of_one_object {
            list.push(parameters::object_name(&self.kind.gvk.kind));
        }
        list
    }

    fn itself(&self) -> ResponseSpec {
        ResponseSpec::Definition(self.kind.definition.clone())
    }
}

/// `VERB a`, `VERB an`, or `VERB` before plural names, as kube-apiserver's documents have it.
fn with_article(verb: &str, kind: &str) -> String {
    let is_plural = kind.ends_with('s') && !kind.ends_with("ss");
    match kind.starts_with(|first: char| "AEIOUaeiou".contains(first)) {
        _ if is_plural => verb.to_owned(),
        true => format!("{verb} an"),
        false => format!("{verb} a"),
    }
}

fn meta(name: &str) -> ResponseSpec {
    ResponseSpec::Definition(format!("{META}.{name}"))
}
