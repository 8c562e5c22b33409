//! Serves the keys of a Secret without their values, so that a page can show it masked.

use std::sync::Arc;

use apiserver::extension::{Extension, ExtensionRequest};
use apiserver::request::{ListSelection, RequestInfo};
use apiserver::respond::{self, Body};
use apiserver::server::Server;
use apiserver::verbs::Target;
use apiserver::verbs::list::list;
use async_trait::async_trait;
use http::{Method, Response};
use object::request::{ListOptions, Verb};
use object::{GroupVersionResource, Object, Status};
use serde_json::{Value, json};

const PATH: &str = "/flotilla/v1alpha1/secrets/keys";
/// `kubectl apply` keeps a copy of the object in it, with the values.
const ANNOTATION_LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Answers callers who may read the Secret. Its values are read with an ordinary request, which the audit log has.
pub struct SecretKeys;

#[async_trait]
impl Extension for SecretKeys {
    fn handles(&self, path: &str) -> bool {
        path == PATH
    }

    fn judges_callers(&self) -> bool {
        true
    }

    async fn serve(&self, server: &Arc<Server>, request: ExtensionRequest) -> Result<Response<Body>, Status> {
        request.check_method(&Method::GET, "read the keys of a secret with GET")?;
        let query = &request.incoming.query;
        let (Some(namespace), Some(name)) = (query.get("namespace"), query.get("name")) else {
            return Err(Status::bad_request("the query needs namespace and name"));
        };
        let gvr = GroupVersionResource::new("", "v1", "secrets");
        let reading = RequestInfo {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..RequestInfo::on(gvr.clone(), Verb::Get)
        };
        server.authorize(&request.user, &reading).await?;
        let missing = || Status::not_found(&gvr.group_resource(), name);
        let resource = server.registry.find(&gvr.group, &gvr.version, &gvr.resource).ok_or_else(missing)?;
        let target = Target { resource, namespace: namespace.to_owned(), name: String::new(), subresource: None };
        let only = ListOptions { field_selector: Some(format!("metadata.name={name}")), ..ListOptions::default() };
        let listed = list(server.resources().objects, &target, &ListSelection::of(only)?).await?;
        let found = listed.entries.first().ok_or_else(missing)?;
        Ok(respond::value(200, &masked(&found.decode())))
    }
}

/// The Secret with the name and size of each value in place of the values.
fn masked(secret: &Object) -> Value {
    let data = secret.get(&["data"]).and_then(Value::as_object);
    let keys: Vec<Value> = data
        .into_iter()
        .flatten()
        .map(|(name, value)| json!({"name": name, "bytes": decoded_bytes(value.as_str().unwrap_or_default())}))
        .collect();
    let mut shown = secret.unmanaged();
    for field in ["data", "stringData"] {
        shown.remove(&[field]);
    }
    let mut value = shown.into_value();
    value["keys"] = keys.into();
    without_applied_values(&mut value);
    value
}

/// Removes the annotation that repeats the values.
pub fn without_applied_values(secret: &mut Value) {
    if let Some(annotations) = secret.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(ANNOTATION_LAST_APPLIED);
    }
}

/// The size of what a base64 text stands for.
fn decoded_bytes(text: &str) -> usize {
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_masked_secret_has_keys_and_sizes_but_no_value() {
        let secret = Object::from_value(json!({
            "metadata": {
                "name": "db",
                "labels": {"app": "db"},
                "annotations": {ANNOTATION_LAST_APPLIED: "{\"data\":{\"password\":\"czNjcmV0\"}}", "team": "shop"},
                "managedFields": [],
            },
            "type": "Opaque",
            "data": {"password": "czNjcmV0", "user": "YQ=="},
            "stringData": {"password": "s3cret"},
        }))
        .expect("an object");
        let shown = masked(&secret);
        assert_eq!(shown["keys"], json!([{"name": "password", "bytes": 6}, {"name": "user", "bytes": 1}]));
        assert_eq!((&shown["type"], &shown["metadata"]["annotations"]), (&json!("Opaque"), &json!({"team": "shop"})));
        let text = shown.to_string();
        assert!(!text.contains("czNjcmV0") && !text.contains("s3cret") && !text.contains("YQ=="), "{text}");
    }
}
