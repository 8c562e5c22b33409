//! `ResourceService`: objects of any kind as raw JSON, in the caller's rights.

use async_trait::async_trait;
use bytes::Bytes;
use cluster_client::{ApiResources, ClusterClient, ListOptions, WatchCall, WatchEvent};
use futures::StreamExt;
use http::Request;
use manager_api::*;
use object::percent::encode;
use object::{GroupVersionResource, Object, Status};
use serde_json::{Value, json};
use transcode::Raw;
use transcode::call::{HttpBody, Results};

use super::{ApiCaller, ManagerApi};

const FIELD_MANAGER: &str = "flotilla-console";
/// Objects in one batch.
const BATCH_MAX: usize = 500;
/// Kinds that others depend on come first.
const FIRST_KINDS: [&str; 6] =
    ["Namespace", "CustomResourceDefinition", "ServiceAccount", "Secret", "ConfigMap", "PersistentVolumeClaim"];
/// Annotations of copies in caches, which must not be written back.
const COPY_ANNOTATIONS: [&str; 2] = ["resource.karmada.io/cached-from-cluster", "shadow.clusterpedia.io/cluster-name"];
const PATCH_TYPES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

/// The path of a collection or an object.
pub struct ObjectPath<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub resource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
}

impl ObjectPath<'_> {
    fn render(&self) -> Result<String, Status> {
        if self.version.is_empty() || self.resource.is_empty() {
            return Err(Status::bad_request("group, version and resource are required"));
        }
        let mut path = match self.group {
            "core" | "" => format!("/api/{}", encode(self.version)),
            group => format!("/apis/{}/{}", encode(group), encode(self.version)),
        };
        if !self.namespace.is_empty() {
            path.push_str(&format!("/namespaces/{}", encode(self.namespace)));
        }
        path.push_str(&format!("/{}", encode(self.resource)));
        if !self.name.is_empty() {
            path.push_str(&format!("/{}", encode(self.name)));
        }
        Ok(path)
    }
}

/// Adds the parameters that have a value.
fn with_query(path: String, parameters: &[(&str, &str)]) -> String {
    let given = parameters.iter().filter(|(_, value)| !value.is_empty());
    let query: Vec<String> = given.map(|(name, value)| format!("{name}={}", encode(value))).collect();
    if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) }
}

/// Sends a request to an instance; its errors become ours.
pub async fn send(client: &ClusterClient, verb: &str, path: &str, body: Option<&HttpBody>) -> Result<Bytes, Status> {
    let mut request = Request::builder().method(verb).uri(path).header(http::header::ACCEPT, "application/json");
    if let Some(body) = body {
        let content_type = if body.content_type.is_empty() { "application/json" } else { &body.content_type };
        request = request.header(http::header::CONTENT_TYPE, content_type);
    }
    let data = body.map(|body| Bytes::from(body.data.clone())).unwrap_or_default();
    let request = request.body(data).map_err(|error| Status::bad_request(format!("not a path: {error}")))?;
    let response = client.raw(request).await?;
    match response.status().as_u16() {
        code if code >= 400 => Err(Status::from_response(code, response.body())),
        _ => Ok(response.into_body()),
    }
}

/// Reads YAML documents, a JSON object, or a Kubernetes list.
pub fn manifests(data: &[u8]) -> Result<Vec<Object>, Status> {
    let text = std::str::from_utf8(data).map_err(|_| Status::bad_request("the manifests are not UTF-8"))?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)
        .map_err(|error| Status::bad_request(format!("the manifests are not valid YAML: {error}")))?;
    let mut objects = Vec::new();
    for document in documents.into_iter().filter(|document| !document.is_null()) {
        let items = match document["kind"].as_str() {
            Some("List") => document["items"].as_array().cloned().unwrap_or_default(),
            _ => vec![document],
        };
        for item in items {
            let object = Object::from_value(item).ok_or_else(|| Status::bad_request("a manifest is not an object"))?;
            if object.kind().is_empty() || object.api_version().is_empty() || object.name().is_empty() {
                return Err(Status::bad_request("every manifest needs apiVersion, kind and metadata.name"));
            }
            objects.push(object);
        }
    }
    match objects.len() {
        0 => Err(Status::bad_request("there is no manifest")),
        count if count > BATCH_MAX => Err(Status::bad_request(format!("{count} manifests; at most {BATCH_MAX}"))),
        _ => Ok(objects),
    }
}

/// Refuses objects and patches, in JSON or YAML, that were read from a cache, so that its marks are not written back.
fn check_origin(data: &[u8]) -> Result<(), Status> {
    let yaml = || std::str::from_utf8(data).ok().and_then(|text| serde_saphyr::from_str(text).ok());
    // The instance refuses a body that cannot be read.
    let Some(value) = serde_json::from_slice::<Value>(data).ok().or_else(yaml) else { return Ok(()) };
    match COPY_ANNOTATIONS.iter().find(|key| is_marked(&value, key)) {
        Some(key) => Err(copied(key)),
        None => Ok(()),
    }
}

fn copied(key: &str) -> Status {
    Status::bad_request(format!("metadata.annotations: {key} marks a copy; edit the original"))
}

/// Returns true for an object, a patch of one, or a list of JSON patch operations that sets the annotation.
fn is_marked(value: &Value, key: &str) -> bool {
    let sets = |value: &Value| value["metadata"]["annotations"].get(key).is_some_and(|set| !set.is_null());
    let pointer = format!("/metadata/annotations/{}", key.replace('/', "~1"));
    let operations = value.as_array().into_iter().flatten();
    sets(value)
        || operations.filter(|operation| operation["op"] != "remove").any(|operation| {
            operation["path"] == pointer.as_str()
                || operation["value"].get(key).is_some()
                || operation["value"]["annotations"].get(key).is_some()
        })
}

/// Demands a version in an object or a patch of one. The instance refuses the write when the object has another.
fn with_version(body: HttpBody, etag: &str) -> Result<HttpBody, Status> {
    if etag.is_empty() {
        return Ok(body);
    }
    let invalid = || Status::bad_request("etag: the body must be an object or a patch of one");
    let text = std::str::from_utf8(&body.data).map_err(|_| invalid())?;
    let read = serde_json::from_str::<Value>(text).ok().or_else(|| serde_saphyr::from_str(text).ok());
    let mut value = read.ok_or_else(invalid)?;
    match &mut value {
        Value::Object(_) => {
            let metadata = value.as_object_mut().map(|fields| fields.entry("metadata").or_insert_with(|| json!({})));
            let metadata = metadata.and_then(Value::as_object_mut).ok_or_else(invalid)?;
            metadata.insert("resourceVersion".to_owned(), etag.into());
        }
        Value::Array(operations) => {
            operations.insert(0, json!({"op": "replace", "path": "/metadata/resourceVersion", "value": etag}));
        }
        _ => return Err(invalid()),
    }
    // JSON is YAML too.
    Ok(HttpBody { data: value.to_string().into_bytes(), content_type: json_type(body.content_type) })
}

fn json_type(content_type: String) -> String {
    match PATCH_TYPES.contains(&content_type.as_str()) {
        true => content_type,
        false => "application/json".to_owned(),
    }
}

fn dry_run(validate_only: bool) -> (&'static str, &'static str) {
    ("dryRun", if validate_only { "All" } else { "" })
}

impl ManagerApi {
    /// The version of a write: the instance and the revision of the object.
    pub(super) fn version_of(&self, instance: &str, revision: &str) -> String {
        let uid = self.operations.directory.find(instance).map(|entry| entry.object.uid().to_owned());
        format!("{}:{revision}", uid.unwrap_or_default())
    }

    fn written(&self, instance: &str, data: Bytes) -> Raw {
        let value: Value = serde_json::from_slice(&data).unwrap_or_default();
        let revision = value["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        Raw { version: self.version_of(instance, revision), ..Raw::json(data) }
    }
}

#[async_trait]
impl ResourceService<ApiCaller> for ManagerApi {
    async fn list_kinds(&self, caller: &ApiCaller, request: ListKindsRequest) -> Result<ListKindsResponse, Status> {
        let client = self.operations.instance_client(&caller.user, &request.instance).await?;
        let found = ApiResources::discover(&client).await?;
        let kinds = found.resources.into_iter().map(|resource| ServedKind {
            group: resource.gvr.group,
            version: resource.gvr.version,
            resource: resource.gvr.resource,
            kind: resource.kind,
            namespaced: resource.namespaced,
            verbs: resource.verbs,
            short_names: resource.short_names,
        });
        Ok(ListKindsResponse { kinds: kinds.collect() })
    }

    async fn list_resources(&self, caller: &ApiCaller, request: ListResourcesRequest) -> Result<Raw, Status> {
        let client = self.operations.instance_client(&caller.user, &request.instance).await?;
        let ListResourcesRequest { group, version, resource, namespace, .. } = &request;
        let limit = if request.page_size > 0 { request.page_size.to_string() } else { String::new() };
        let path = with_query(
            ObjectPath { group, version, resource, namespace, name: "" }.render()?,
            &[
                ("labelSelector", &request.label_selector),
                ("fieldSelector", &request.field_selector),
                ("limit", &limit),
                ("continue", &request.page_token),
            ],
        );
        let mut data = send(&client, "GET", &path, None).await?;
        if resource == "secrets" {
            data = without_secrets(&data)?;
        }
        Ok(self.written(&request.instance, data))
    }

    async fn watch_resources(
        &self,
        caller: &ApiCaller,
        request: WatchResourcesRequest,
    ) -> Result<Results<Raw>, Status> {
        if request.resource == "secrets" {
            return Err(Status::bad_request("resource: secrets cannot be watched here; use the API of the instance"));
        }
        let client = self.operations.instance_client(&caller.user, &request.instance).await?;
        let text = |value: &str| Some(value.to_owned()).filter(|value| !value.is_empty());
        let group = if request.group == "core" { "" } else { &request.group };
        let call = WatchCall {
            gvr: GroupVersionResource::new(group, request.version.as_str(), request.resource.as_str()),
            namespace: text(&request.namespace),
            options: ListOptions {
                label_selector: text(&request.label_selector),
                field_selector: text(&request.field_selector),
                resource_version: text(&request.resource_version),
                ..ListOptions::default()
            },
            as_table: false,
        };
        let events = client.watch(call).await?;
        let (operations, user, instance) =
            (std::sync::Arc::clone(&self.operations), std::sync::Arc::clone(&caller.user), request.instance.clone());
        let changes = operations.rights.changes();
        let guarded = Guarded { events, changes, operations, user, instance };
        Ok(Box::pin(futures::stream::unfold(Some(guarded), |guarded| async move {
            let mut guarded = guarded?;
            let line = guarded.next().await?;
            let rest = line.is_ok().then_some(guarded);
            Some((line, rest))
        })))
    }

    async fn get_resource(&self, caller: &ApiCaller, request: GetResourceRequest) -> Result<Raw, Status> {
        let client = self.operations.instance_client(&caller.user, &request.instance).await?;
        let GetResourceRequest { group, version, resource, namespace, name, .. } = &request;
        let path = ObjectPath { group, version, resource, namespace, name }.render()?;
        let mut data = send(&client, "GET", &path, None).await?;
        if resource == "secrets" {
            data = without_secrets(&data)?;
        }
        Ok(self.written(&request.instance, data))
    }

    async fn create_resource(&self, caller: &ApiCaller, request: CreateResourceRequest) -> Result<Raw, Status> {
        let client = self.operations.instance_client(&caller.user, &request.instance).await?;
        let CreateResourceRequest { group, version, resource, namespace, .. } = &request;
        let path = with_query(
            ObjectPath { group, version, resource, namespace, name: "" }.render()?,
            &[("fieldManager", FIELD_MANAGER), dry_run(request.validate_only)],
        );
        let body = request.object.unwrap_or_default();
        check_origin(&body.data)?;
        let data = send(&client, "POST", &path, Some(&body)).await?;
        Ok(self.written(&request.instance, data))
    }

    async fn update_resource(&self, caller: &ApiCaller, request: UpdateResourceRequest) -> Result<Raw, Status> {
        let client = self.operations.instance_client(&caller.user, &request.instance).await?;
        let UpdateResourceRequest { group, version, resource, namespace, name, .. } = &request;
        let path = with_query(
            ObjectPath { group, version, resource, namespace, name }.render()?,
            &[("fieldManager", FIELD_MANAGER), dry_run(request.validate_only)],
        );
        let body = request.object.unwrap_or_default();
        check_origin(&body.data)?;
        let data = send(&client, "PUT", &path, Some(&with_version(body, &request.etag)?)).await?;
        Ok(self.written(&request.instance, data))
    }

    async fn patch_resource(&self, caller: &ApiCaller, request: PatchResourceRequest) -> Result<Raw, Status> {
        let client = self.operations.instance_client(&caller.user, &request.instance).await?;
        let PatchResourceRequest { group, version, resource, namespace, name, .. } = &request;
        let body = request.patch.clone().unwrap_or_default();
        if !PATCH_TYPES.contains(&body.content_type.as_str()) {
            let text = format!("the content type of a patch is one of {}", PATCH_TYPES.join(", "));
            return Err(Status::bad_request(text));
        }
        check_origin(&body.data)?;
        let is_forced = request.force && body.content_type.contains("apply-patch");
        let path = with_query(
            ObjectPath { group, version, resource, namespace, name }.render()?,
            &[
                ("fieldManager", FIELD_MANAGER),
                dry_run(request.validate_only),
                ("force", if is_forced { "true" } else { "" }),
            ],
        );
        let data = send(&client, "PATCH", &path, Some(&with_version(body, &request.etag)?)).await?;
        Ok(self.written(&request.instance, data))
    }

    async fn delete_resource(&self, caller: &ApiCaller, request: DeleteResourceRequest) -> Result<Raw, Status> {
        let client = self.operations.instance_client(&caller.user, &request.instance).await?;
        let DeleteResourceRequest { group, version, resource, namespace, name, .. } = &request;
        let path = with_query(
            ObjectPath { group, version, resource, namespace, name }.render()?,
            &[("propagationPolicy", &request.propagation_policy), dry_run(request.validate_only)],
        );
        let preconditions =
            json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"resourceVersion": request.etag}});
        let body = HttpBody { content_type: String::new(), data: preconditions.to_string().into_bytes() };
        let data = send(&client, "DELETE", &path, (!request.etag.is_empty()).then_some(&body)).await?;
        Ok(self.written(&request.instance, data))
    }

    async fn batch_apply(&self, caller: &ApiCaller, request: BatchApplyRequest) -> Result<BatchApplyResponse, Status> {
        let mut objects = manifests(&request.manifests.unwrap_or_default().data)?;
        for object in &objects {
            if let Some(key) = COPY_ANNOTATIONS.iter().find(|key| is_marked(object.as_value(), key)) {
                return Err(copied(key));
            }
        }
        let client = self.operations.instance_client(&caller.user, &request.instance).await?;
        let mapper = cluster_client::RestMapper::new(client.clone());
        objects.sort_by_key(|object| {
            FIRST_KINDS.iter().position(|kind| *kind == object.kind()).unwrap_or(FIRST_KINDS.len())
        });
        let mut response = BatchApplyResponse::default();
        for mut object in objects {
            let mut applied = AppliedObject {
                api_version: object.api_version().to_owned(),
                kind: object.kind().to_owned(),
                namespace: object.namespace().to_owned(),
                name: object.name().to_owned(),
                ..AppliedObject::default()
            };
            let done = async {
                let resource = mapper.resource_of(&object.gvk()).await?;
                if resource.namespaced && object.namespace().is_empty() {
                    object.set_namespace("default");
                }
                let path = ObjectPath {
                    group: &resource.gvr.group,
                    version: &resource.gvr.version,
                    resource: &resource.gvr.resource,
                    namespace: object.namespace(),
                    name: object.name(),
                };
                let force = ("force", if request.force { "true" } else { "" });
                let path = with_query(
                    path.render()?,
                    &[("fieldManager", FIELD_MANAGER), dry_run(request.validate_only), force],
                );
                let body = HttpBody {
                    content_type: PATCH_TYPES[3].to_owned(),
                    data: object.as_value().to_string().into_bytes(),
                };
                send(&client, "PATCH", &path, Some(&body)).await
            };
            match done.await {
                Ok(data) => {
                    applied.code = 200;
                    response.version = self.written(&request.instance, data).version;
                }
                Err(status) => {
                    applied.code = i32::from(status.code);
                    applied.error = status.message;
                    response.failed += 1;
                }
            }
            response.objects.push(applied);
        }
        Ok(response)
    }

    async fn reveal_secret(&self, caller: &ApiCaller, request: RevealSecretRequest) -> Result<Raw, Status> {
        let client = self.operations.instance_client(&caller.user, &request.instance).await?;
        let RevealSecretRequest { namespace, name, .. } = &request;
        if namespace.is_empty() || name.is_empty() {
            return Err(Status::bad_request("namespace and name are required"));
        }
        let path = ObjectPath { group: "core", version: "v1", resource: "secrets", namespace, name }.render()?;
        Ok(Raw::json(send(&client, "GET", &path, None).await?))
    }
}

/// Removes the content of Secrets; `RevealSecret` returns it.
fn without_secrets(data: &[u8]) -> Result<Bytes, Status> {
    let mut value: Value = serde_json::from_slice(data).map_err(Status::internal)?;
    let mask = |secret: &mut Value| {
        if let Some(fields) = secret["data"].as_object_mut() {
            fields.values_mut().for_each(|content| *content = Value::Null);
        }
        if let Some(annotations) = secret["metadata"]["annotations"].as_object_mut() {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        }
    };
    match value["items"].as_array_mut() {
        Some(items) => items.iter_mut().for_each(mask),
        None => mask(&mut value),
    }
    Ok(value.to_string().into())
}

/// A watch that ends when the caller loses its role on the instance.
struct Guarded {
    events: cluster_client::WatchEvents,
    changes: crate::access::RightsChanges,
    operations: std::sync::Arc<crate::operations::Operations>,
    user: std::sync::Arc<object::request::User>,
    instance: String,
}

impl Guarded {
    async fn next(&mut self) -> Option<Result<Raw, Status>> {
        loop {
            tokio::select! {
                event = self.events.next() => return line(event?),
                () = self.changes.next() => {
                    if let Err(status) = self.operations.visible_instance(&self.user, &self.instance) {
                        return Some(Err(status));
                    }
                }
            }
        }
    }
}

fn line(event: WatchEvent) -> Option<Result<Raw, Status>> {
    let (kind, object) = match event {
        WatchEvent::Added(object) => ("ADDED", object.to_value()),
        WatchEvent::Modified(object) => ("MODIFIED", object.to_value()),
        WatchEvent::Deleted(object) => ("DELETED", object.to_value()),
        WatchEvent::Bookmark { resource_version, .. } => {
            ("BOOKMARK", json!({"metadata": {"resourceVersion": resource_version}}))
        }
        WatchEvent::Error(status) => return Some(Err(status)),
    };
    Some(Ok(Raw::json(format!("{}\n", json!({"type": kind, "object": object})))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_copies_are_not_written_back() {
        let mark = COPY_ANNOTATIONS[0];
        let pointer = mark.replace('/', "~1");
        let annotated = json!({"metadata": {"annotations": {mark: "m1"}}}).to_string();
        let check = |body: &str, is_accepted: bool| {
            assert_eq!(check_origin(body.as_bytes()).is_ok(), is_accepted, "{body}");
        };
        check(&annotated, false);
        check(&format!("metadata:\n  annotations:\n    {mark}: m1\n"), false);
        check(
            &format!("[{{\"op\": \"add\", \"path\": \"/metadata/annotations/{pointer}\", \"value\": \"m1\"}}]"),
            false,
        );
        check(
            &format!("[{{\"op\": \"add\", \"path\": \"/metadata/annotations\", \"value\": {{\"{mark}\": \"\"}}}}]"),
            false,
        );
        check(&annotated.replace('/', "\\/"), false);
        // It may be removed, and a text may mention it.
        check(&format!("[{{\"op\": \"remove\", \"path\": \"/metadata/annotations/{pointer}\"}}]"), true);
        check(&json!({"metadata": {"annotations": {mark: null}}}).to_string(), true);
        check(&json!({"data": {"note": format!("see {mark}")}}).to_string(), true);
        check("metadata: {annotations: {a: b}}", true);
        check("{ not readable", true);
    }

    #[test]
    fn a_version_is_demanded_in_every_form_of_a_body() {
        let check = |content_type: &str, body: &str, expected: Option<Value>| {
            let body = HttpBody { content_type: content_type.to_owned(), data: body.as_bytes().to_vec() };
            let found = with_version(body, "7").ok();
            let found = found.map(|body| serde_json::from_slice::<Value>(&body.data).expect("JSON"));
            assert_eq!(found, expected, "{content_type}");
        };
        let versioned = json!({"kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": "7"}});
        check("application/json", r#"{"kind": "ConfigMap", "metadata": {"name": "a"}}"#, Some(versioned.clone()));
        check("application/yaml", "kind: ConfigMap\nmetadata: {name: a}\n", Some(versioned));
        let patch = json!({"data": {"a": "b"}, "metadata": {"resourceVersion": "7"}});
        check(PATCH_TYPES[1], r#"{"data": {"a": "b"}}"#, Some(patch));
        let operation = json!({"op": "replace", "path": "/metadata/resourceVersion", "value": "7"});
        let remove = json!({"op": "remove", "path": "/data/a"});
        check(PATCH_TYPES[0], &json!([remove]).to_string(), Some(json!([operation, remove])));
        check("application/json", "7", None);
        check("application/json", r#"{"metadata": 7}"#, None);
        let plain = HttpBody { content_type: String::new(), data: b"{".to_vec() };
        assert!(with_version(plain, "").is_ok(), "nothing is demanded");
    }
}
