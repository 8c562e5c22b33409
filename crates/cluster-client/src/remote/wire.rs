//! Calls as HTTP: methods, paths, queries and bodies of the Kubernetes API, and decoding of responses.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use object::request::{DeleteOptions, ListOptions, PatchKind, Subresource, User, VersionMatch, WriteOptions};
use object::status::{StatusCause, StatusDetails};
use object::{GroupVersion, Object, Status, percent};
use serde::Deserialize;

use crate::call::{ApiCall, ApiRequest, ObjectList, Reply, ResourceRef, WatchCall};
use crate::remote::bounded::{self, MemoryBudget, OBJECT_MEMORY_MAX, PAGE_MEMORY_MAX, RawItems};

/// A request without the parts the connection adds: host, credentials, agent.
pub struct WireRequest {
    pub method: Method,
    pub path_and_query: String,
    pub content_type: Option<&'static str>,
    pub body: Bytes,
}

impl WireRequest {
    /// Reports whether the request is safe to repeat.
    pub fn is_read(&self) -> bool {
        self.method == Method::GET || self.method == Method::HEAD
    }

    fn read(path: String, query: Query) -> Self {
        Self::new(Method::GET, path, query, None, Bytes::new())
    }

    fn new(method: Method, path: String, query: Query, content_type: Option<&'static str>, body: Bytes) -> Self {
        Self { method, path_and_query: path + &query.text, content_type, body }
    }
}

pub const JSON: &str = "application/json";
pub const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

pub fn encode_call(call: ApiCall) -> WireRequest {
    let path = path_of(&call.target);
    match call.request {
        ApiRequest::Get { resource_version } => {
            let mut query = Query::default();
            query.add_some("resourceVersion", resource_version.as_deref());
            WireRequest::read(path, query)
        }
        ApiRequest::List(options) => WireRequest::read(path, list_query(&options)),
        ApiRequest::Create { object, options } => {
            WireRequest::new(Method::POST, path, write_query(&options), Some(JSON), object.encode())
        }
        ApiRequest::Update { object, options } => {
            WireRequest::new(Method::PUT, path, write_query(&options), Some(JSON), object.encode())
        }
        ApiRequest::Patch { patch, options } => {
            let mut query = write_query(&options);
            if patch.kind == (PatchKind::Apply { force: true }) {
                query.add("force", "true");
            }
            // JSON is YAML: the content type of an apply is right for its body.
            let content_type = patch.kind.content_type();
            WireRequest::new(Method::PATCH, path, query, Some(content_type), patch.body.to_string().into())
        }
        ApiRequest::Delete(options) => {
            WireRequest::new(Method::DELETE, path, Query::default(), Some(JSON), body_of(&options))
        }
        ApiRequest::DeleteCollection { delete, list } => {
            WireRequest::new(Method::DELETE, path, list_query(&list), Some(JSON), body_of(&delete))
        }
    }
}

pub fn encode_watch(call: &WatchCall) -> WireRequest {
    let target = ResourceRef { gvr: call.gvr.clone(), namespace: call.namespace.clone(), ..ResourceRef::default() };
    let mut query = Query::default();
    let options = &call.options;
    query.add("watch", "true");
    query.add_some("labelSelector", options.label_selector.as_deref());
    query.add_some("fieldSelector", options.field_selector.as_deref());
    query.add_some("resourceVersion", options.resource_version.as_deref());
    let is_streaming_list = options.send_initial_events == Some(true);
    if options.bookmarks || is_streaming_list {
        query.add("allowWatchBookmarks", "true");
    }
    if is_streaming_list {
        query.add("sendInitialEvents", "true");
        query.add("resourceVersionMatch", VersionMatch::NotOlderThan.as_str());
    }
    if let Some(timeout) = options.timeout {
        query.add("timeoutSeconds", &timeout.as_secs().max(1).to_string());
    }
    WireRequest::read(path_of(&target), query)
}

pub fn path_of(target: &ResourceRef) -> String {
    let gvr = &target.gvr;
    let mut path = match gvr.group.as_str() {
        "" => format!("/api/{}", gvr.version),
        group => format!("/apis/{group}/{}", gvr.version),
    };
    let namespace = target.namespace.as_deref().filter(|n| !n.is_empty());
    let parts = namespace.into_iter().flat_map(|n| ["namespaces", n]);
    let parts = parts
        .chain([gvr.resource.as_str()])
        .chain(target.name.as_deref())
        .chain(target.subresource.as_ref().map(Subresource::as_str));
    for part in parts {
        path.push('/');
        path.push_str(&percent::encode(part));
    }
    path
}

fn list_query(options: &ListOptions) -> Query {
    let mut query = Query::default();
    query.add_some("labelSelector", options.label_selector.as_deref());
    query.add_some("fieldSelector", options.field_selector.as_deref());
    query.add_some("limit", options.limit.map(|n| n.to_string()).as_deref());
    query.add_some("continue", options.continue_token.as_deref());
    query.add_some("resourceVersion", options.resource_version.as_deref());
    query.add_some("resourceVersionMatch", options.resource_version_match.map(VersionMatch::as_str));
    query
}

fn write_query(options: &WriteOptions) -> Query {
    let mut query = Query::default();
    query.add_some("fieldManager", options.field_manager.as_deref());
    query.add_some("fieldValidation", options.field_validation.map(|v| v.as_str()));
    query.add_some("dryRun", options.dry_run.then_some("All"));
    query
}

fn body_of(options: &DeleteOptions) -> Bytes {
    options.to_value().to_string().into()
}

/// The `Impersonate-*` headers for acting as `user`.
pub fn impersonation_headers(user: &User) -> Result<HeaderMap, Status> {
    let value = |text: &str| {
        HeaderValue::from_str(text).map_err(|_| Status::bad_request(format!("cannot impersonate {text:?}")))
    };
    let mut headers = HeaderMap::new();
    headers.insert("impersonate-user", value(&user.name)?);
    if !user.uid.is_empty() {
        headers.insert("impersonate-uid", value(&user.uid)?);
    }
    for group in &user.groups {
        headers.append("impersonate-group", value(group)?);
    }
    for (key, values) in &user.extra {
        let mut name = "impersonate-extra-".to_owned();
        name.push_str(&percent::encode(key));
        let name = HeaderName::from_bytes(name.to_ascii_lowercase().as_bytes())
            .map_err(|_| Status::bad_request(format!("cannot impersonate with extra {key:?}")))?;
        for text in values {
            headers.append(name.clone(), value(text)?);
        }
    }
    Ok(headers)
}

#[derive(Default)]
struct Query {
    text: String,
}

impl Query {
    fn add(&mut self, key: &str, value: &str) {
        self.text.push(if self.text.is_empty() { '?' } else { '&' });
        self.text.push_str(key);
        self.text.push('=');
        self.text.push_str(&percent::encode(value));
    }

    fn add_some(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value.filter(|v| !v.is_empty()) {
            self.add(key, value);
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireList<'a> {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: WireListMetadata,
    #[serde(default, borrow)]
    items: RawItems<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireListMetadata {
    resource_version: String,
    r#continue: String,
    remaining_item_count: Option<u64>,
}

/// The answer to a list. An item that cannot be read is left out and reported to `unreadable`, so that one object does not
/// hide all others of its kind.
pub fn decode_list(body: &[u8], mut unreadable: impl FnMut(Unreadable<'_>)) -> Result<ObjectList, Status> {
    let list: WireList<'_> = serde_json::from_slice(body).map_err(not_understood)?;
    // Items of typed lists come without kind; ours always carry theirs.
    let item_kind = list.kind.strip_suffix("List").filter(|kind| !kind.is_empty());
    let gvk = item_kind.zip(GroupVersion::parse(&list.api_version)).map(|(kind, gv)| gv.kind(kind));
    let page = MemoryBudget::new(PAGE_MEMORY_MAX);
    let mut items = Vec::with_capacity(list.items.0.len());
    for item in list.items.0 {
        let own = MemoryBudget::new(OBJECT_MEMORY_MAX);
        let map = match bounded::read_map(item.get().as_bytes(), &own) {
            Ok(map) => map,
            Err(error) => {
                unreadable(Unreadable { text: item.get(), error });
                continue;
            }
        };
        if !page.charge(OBJECT_MEMORY_MAX - own.left()) {
            return Err(too_large(format!("the page takes more than {PAGE_MEMORY_MAX} bytes of memory")));
        }
        let mut object = Object::from_map(map);
        if let (true, Some(gvk)) = (object.kind().is_empty(), &gvk) {
            object.set_gvk(gvk);
        }
        items.push(Arc::new(object));
    }
    Ok(ObjectList {
        items,
        api_version: list.api_version,
        kind: list.kind,
        resource_version: list.metadata.resource_version,
        continue_token: list.metadata.r#continue,
        remaining_item_count: list.metadata.remaining_item_count,
    })
}

/// The answer to any call but a watch.
pub fn decode_reply(
    code: u16,
    is_list: bool,
    headers: &HeaderMap,
    body: &[u8],
    unreadable: impl FnMut(Unreadable<'_>),
) -> Result<Reply, Status> {
    if code >= 400 {
        return Err(Status::from_response(code, body));
    }
    let mut reply = match is_list {
        true => Reply::list(decode_list(body, unreadable)?),
        false => {
            let map = bounded::read_map(body, &MemoryBudget::new(OBJECT_MEMORY_MAX)).map_err(not_understood)?;
            Reply::object(code, Arc::new(Object::from_map(map)))
        }
    };
    reply.code = code;
    let warnings = headers.get_all(http::header::WARNING).iter().filter_map(|v| warning_text(v.to_str().ok()?));
    reply.warnings = warnings.collect();
    Ok(reply)
}

/// An object of an answer that is not read.
pub struct Unreadable<'a> {
    pub text: &'a str,
    pub error: serde_json::Error,
}

fn not_understood(error: serde_json::Error) -> Status {
    match bounded::is_too_large(&error) {
        true => too_large(error.to_string()),
        false => Status::internal(format!("the server's answer is not understood: {error}")),
    }
}

/// An answer that is larger than what is read of it. A list can be read in smaller pages.
pub fn too_large(text: String) -> Status {
    let cause = StatusCause { reason: TOO_LARGE.to_owned(), message: text.clone(), ..StatusCause::default() };
    let details = StatusDetails { causes: vec![cause], ..StatusDetails::default() };
    Status::internal(format!("the server's answer is too large: {text}")).with_details(details)
}

/// Reports whether an answer was too large to be read.
pub fn is_too_large(status: &Status) -> bool {
    status.details.as_ref().is_some_and(|d| d.causes.iter().any(|cause| cause.reason == TOO_LARGE))
}

const TOO_LARGE: &str = "AnswerTooLarge";

/// The text of `299 - "text"`.
fn warning_text(header: &str) -> Option<String> {
    let quoted = header.get(header.find('"')? + 1..)?;
    let mut text = String::new();
    let mut escaped = false;
    for c in quoted.chars() {
        match c {
            '\\' if !escaped => escaped = true,
            '"' if !escaped => return Some(text),
            other => {
                text.push(other);
                escaped = false;
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use object::builtin;

    use super::*;
    use crate::call::Patch;

    #[track_caller]
    fn check(call: ApiCall, expected: &str) {
        let wire = encode_call(call);
        assert_eq!(format!("{} {}", wire.method, wire.path_and_query), expected);
    }

    #[test]
    fn calls_become_the_paths_kubernetes_serves() {
        let pods = builtin::pods();
        let deployments = builtin::deployments();
        let get = ApiRequest::Get { resource_version: None };
        let at = |target: ResourceRef, request: ApiRequest| ApiCall { target, request };
        check(at(ResourceRef::namespaced(&pods, "a", "x"), get.clone()), "GET /api/v1/namespaces/a/pods/x");
        check(
            at(ResourceRef::namespaced(&pods, "a", "x/../y").subresource(Subresource::Log), get),
            "GET /api/v1/namespaces/a/pods/x%2F..%2Fy/log",
        );
        let options = ListOptions {
            label_selector: Some("a in (b,c)".into()),
            limit: Some(5),
            resource_version: Some("0".into()),
            resource_version_match: Some(VersionMatch::NotOlderThan),
            ..ListOptions::default()
        };
        check(
            at(ResourceRef::all(&deployments), ApiRequest::List(options)),
            "GET /apis/apps/v1/deployments?labelSelector=a%20in%20%28b%2Cc%29&limit=5&resourceVersion=0\
             &resourceVersionMatch=NotOlderThan",
        );
        let patch = ApiRequest::Patch {
            patch: Patch::apply(Object::default(), true),
            options: WriteOptions { dry_run: true, ..WriteOptions::managed_by("me") },
        };
        check(
            at(ResourceRef::namespaced(&deployments, "a", "x"), patch),
            "PATCH /apis/apps/v1/namespaces/a/deployments/x?fieldManager=me&dryRun=All&force=true",
        );
    }

    #[test]
    fn items_of_a_list_carry_their_kind() {
        let body = br#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"c",
            "remainingItemCount":3},"items":[{"metadata":{"name":"x"}}]}"#;
        let list = decode_list(body, |_| {}).expect("a list");
        assert_eq!((list.items[0].kind(), list.items[0].api_version()), ("Pod", "v1"));
        assert_eq!((list.resource_version.as_str(), list.continue_token.as_str()), ("7", "c"));
        assert_eq!(list.remaining_item_count, Some(3));
        let empty = decode_list(br#"{"kind":"PodList","apiVersion":"v1","items":null}"#, |_| {}).expect("a list");
        assert_eq!(empty.items, []);
    }

    #[test]
    fn warnings_lose_their_quotes() {
        assert_eq!(warning_text(r#"299 - "unknown field \"spec.x\"""#).as_deref(), Some(r#"unknown field "spec.x""#));
        assert_eq!(warning_text("nothing"), None);
    }
}
