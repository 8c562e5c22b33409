//! Removes credentials from recorded bodies.
//!
//! The URL decides for requests on credentials themselves: a body may leave out its kind. Everywhere else the tree is
//! searched for embedded objects, such as the manifests of a Work, and for texts that carry keys.

use object::request::{Subresource, Verb};
use serde_json::{Map, Value};

use crate::request::RequestInfo;

const MASKED: &str = "<masked>";
/// kubectl keeps the whole object here, as a JSON text.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const SECRET_KINDS: &[&str] = &["Secret", "SecretList", "TokenRequest", "TokenReview"];
/// Texts with one of these carry a private key or a kubeconfig with credentials.
const SECRET_TEXTS: &[&str] = &["PRIVATE KEY-----", "client-key-data", "client-certificate-data"];
/// Fields whose text is a credential in any body: sign-in requests, kubeconfigs that an API issues.
const SECRET_FIELDS: &[&str] = &[
    "password",
    "oldpassword",
    "newpassword",
    "token",
    "accesstoken",
    "refreshtoken",
    "idtoken",
    "clientsecret",
    "kubeconfig",
];
/// Query parameters with a credential, such as the code of an OIDC sign-in.
const SECRET_PARAMETERS: &[&str] = &["code", "state", "token", "access_token", "id_token", "password", "ticket"];
/// The shortest signed token is far longer.
const JWT_BYTES_MIN: usize = 40;
/// Fields that identify a secret object.
const IDENTITY: &[&str] = &["apiVersion", "kind", "type", "immutable"];
const IDENTITY_METADATA: &[&str] =
    &["name", "namespace", "generateName", "uid", "resourceVersion", "creationTimestamp", "labels", "finalizers"];
/// Objects in members' forms are embedded here; a JSON patch can name any part of one.
const EMBEDDING_RESOURCES: &[&str] = &["works"];

/// Masks a body of a request on this resource.
pub fn mask(info: &RequestInfo, body: &mut Value) {
    if is_secret_resource(info) {
        mask_object(body);
    } else if info.verb == Verb::Patch && EMBEDDING_RESOURCES.contains(&info.resource.as_str()) && body.is_array() {
        mask_all(body);
    } else {
        mask_embedded(body);
    }
}

/// Masks credentials in the query of a path outside of resources.
pub fn mask_uri(info: &RequestInfo, uri: &str) -> String {
    let Some((path, query)) = uri.split_once('?').filter(|_| !info.is_resource) else { return uri.to_owned() };
    let masked = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if SECRET_PARAMETERS.contains(&name) => format!("{name}={MASKED}"),
        _ => pair.to_owned(),
    });
    format!("{path}?{}", masked.collect::<Vec<_>>().join("&"))
}

/// Removes `metadata.managedFields` of an object, or of the items of a list.
pub fn remove_managed_fields(body: &mut Value) {
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    for item in body.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten() {
        remove_managed_fields(item);
    }
}

fn is_secret_resource(info: &RequestInfo) -> bool {
    match (info.group.as_str(), info.resource.as_str()) {
        ("", "secrets") | ("authentication.k8s.io", "tokenreviews" | "tokenrequests") => true,
        ("", "serviceaccounts") => info.subresource == Some(Subresource::Token),
        _ => false,
    }
}

/// Masks a secret object, a list of them, or a patch of one: only its identity stays.
fn mask_object(value: &mut Value) {
    let Value::Object(object) = value else { return mask_all(value) };
    // A table of secrets has rows with partial objects; an answer may also be a Status, which has no secrets.
    if object.get("kind").is_some_and(|kind| kind == "Status") {
        return;
    }
    for (field, value) in object.iter_mut() {
        match (field.as_str(), value) {
            (field, Value::String(text)) if IDENTITY.contains(&field) && text.len() < 256 => {}
            (field, Value::Bool(_)) if IDENTITY.contains(&field) => {}
            ("metadata", Value::Object(metadata)) => mask_metadata(metadata),
            ("items", Value::Array(items)) => items.iter_mut().for_each(mask_object),
            (_, value) => mask_all(value),
        }
    }
}

fn mask_metadata(metadata: &mut Map<String, Value>) {
    let others = metadata.iter_mut().filter(|(field, _)| !IDENTITY_METADATA.contains(&field.as_str()));
    others.for_each(|(_, value)| mask_all(value));
}

/// Masks every value and keeps the names of fields.
fn mask_all(value: &mut Value) {
    match value {
        Value::Object(object) => object.iter_mut().for_each(|(field, value)| {
            // The operation and place of a JSON patch.
            if !(matches!(field.as_str(), "op" | "path" | "from") && value.is_string()) {
                mask_all(value);
            }
        }),
        Value::Array(items) => items.iter_mut().for_each(mask_all),
        Value::Null => {}
        other => *other = MASKED.into(),
    }
}

/// Masks secret objects and texts wherever they are in the tree.
fn mask_embedded(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if object.get("kind").and_then(Value::as_str).is_some_and(|kind| SECRET_KINDS.contains(&kind)) {
                return mask_object(value);
            }
            for (field, value) in object.iter_mut() {
                match value {
                    Value::String(text) if field == LAST_APPLIED => mask_last_applied(text),
                    Value::String(text) if is_secret_field(field) => *text = MASKED.into(),
                    value => mask_embedded(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask_embedded),
        Value::String(text) if is_secret_text(text) => *text = MASKED.into(),
        _ => {}
    }
}

fn is_secret_field(field: &str) -> bool {
    SECRET_FIELDS.iter().any(|secret| field.eq_ignore_ascii_case(secret))
}

/// A private key, a kubeconfig with credentials, or a text with a signed token.
fn is_secret_text(text: &str) -> bool {
    SECRET_TEXTS.iter().any(|secret| text.contains(secret)) || is_kubeconfig_of_user(text) || has_signed_token(text)
}

fn is_kubeconfig_of_user(text: &str) -> bool {
    text.contains("current-context") && ["token", "password"].iter().any(|credential| text.contains(credential))
}

/// JSON Web Tokens begin with an encoded `{"` and have three parts.
fn has_signed_token(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_token =
        |word: &str| word.len() >= JWT_BYTES_MIN && word.starts_with("eyJ") && word.matches('.').count() == 2;
    text.contains("eyJ") && text.split(|c: char| !is_part(c)).any(is_token)
}

fn mask_last_applied(text: &mut String) {
    match serde_json::from_str::<Value>(text) {
        Ok(mut applied) => {
            mask_embedded(&mut applied);
            *text = applied.to_string();
        }
        Err(_) => *text = MASKED.into(),
    }
}

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::json;

    use super::*;

    /// No body may show `hunter2`; those on other things must show `visible`.
    fn check(request: &str, body: Value) {
        let (method, path) = request.split_once(' ').expect("method and path");
        let info = RequestInfo::parse(&method.parse::<Method>().expect("a method"), path, "");
        let shows_more = body.to_string().contains("visible");
        let mut masked = body;
        mask(&info, &mut masked);
        let text = masked.to_string();
        assert!(!text.contains("hunter2"), "{request}: {text}");
        assert_eq!(text.contains("visible"), shows_more, "{request}: {text}");
    }

    #[test]
    fn credentials_are_masked_whatever_the_body_says() {
        let secrets = "/api/v1/namespaces/a/secrets";
        let works = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-m/works";
        let configmaps = "/api/v1/namespaces/a/configmaps";
        let secret = json!({"kind": "Secret", "metadata": {"name": "visible"}, "data": {"password": "hunter2"}});
        let work = json!({"metadata": {"name": "visible"}, "spec": {"workload": {"manifests": [secret.clone()]}}});
        check(&format!("POST {secrets}"), json!({"metadata": {"name": "visible"}, "stringData": {"p": "hunter2"}}));
        check(&format!("POST {secrets}"), json!({"kind": "ConfigMap", "data": {"p": "hunter2"}}));
        check(&format!("POST {secrets}"), json!({"type": ["hunter2"], "metadata": "hunter2"}));
        check(
            &format!("POST {secrets}"),
            json!({"metadata": {"annotations": {LAST_APPLIED: "{\"data\":{\"p\":\"hunter2\"}}"}}}),
        );
        check(&format!("PATCH {secrets}/s"), json!([{"op": "add", "path": "/data/visible", "value": "hunter2"}]));
        check(&format!("PATCH {secrets}/s"), json!({"data": {"p": "hunter2"}}));
        check(&format!("GET {secrets}"), json!({"kind": "SecretList", "items": [secret]}));
        check(&format!("GET {secrets}"), json!({"kind": "Status", "message": "visible"}));
        check("POST /apis/authentication.k8s.io/v1/tokenreviews", json!({"spec": {"token": "hunter2"}}));
        check("POST /api/v1/namespaces/a/serviceaccounts/b/token", json!({"status": {"token": "hunter2"}}));
        check(&format!("POST {works}"), work.clone());
        check(&format!("GET {works}"), json!({"kind": "WorkList", "items": [work]}));
        check(&format!("PATCH {works}/w"), json!([{"op": "replace", "path": "/spec/visible", "value": "hunter2"}]));
        check(
            &format!("POST {configmaps}"),
            json!({"data": {"a": "visible", "k": "users: {client-key-data: hunter2}"}}),
        );
        check(&format!("POST {configmaps}"), json!({"data": {"k": "-----BEGIN EC PRIVATE KEY-----hunter2"}}));
        let config = "current-context: a\nusers: [{name: visible, user: {token: hunter2}}]";
        check(&format!("POST {configmaps}"), json!({"data": {"a": "visible", "k": config.replace("visible", "")}}));
        let token = format!("eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.{}hunter2", "s".repeat(20));
        check(
            &format!("POST {configmaps}"),
            json!({"data": {"a": "visible eyJ", "k": format!("Authorization: Bearer {token}")}}),
        );
        // Requests outside of resources: sign-in and kubeconfigs that an API issues.
        check("POST /flotilla/manager/v1alpha1/login", json!({"user": "visible", "password": "hunter2"}));
        check("POST /flotilla/a", json!({"users": [{"name": "visible", "newPassword": "hunter2"}]}));
        check("POST /flotilla/a", json!({"kubeconfig": "hunter2", "name": "visible"}));
        check("POST /apis/example.com/v1/logins", json!({"TOKEN": "hunter2", "name": "visible"}));
        check(
            &format!("POST {works}"),
            json!({"metadata": {"annotations": {LAST_APPLIED:
                json!({"kind": "Secret", "metadata": {"name": "visible"}, "data": {"p": "hunter2"}}).to_string()}}}),
        );
    }

    #[test]
    fn credentials_in_queries_are_masked_outside_of_resources() {
        let cases = [
            ("/console/api/oidc/callback?state=s&code=c", "/console/api/oidc/callback?state=<masked>&code=<masked>"),
            ("/flotilla/v1alpha1/why?kind=Secret", "/flotilla/v1alpha1/why?kind=Secret"),
            ("/version", "/version"),
            ("/api/v1/pods?continue=token&code=1", "/api/v1/pods?continue=token&code=1"),
        ];
        for (uri, expected) in cases {
            let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
            assert_eq!(mask_uri(&RequestInfo::parse(&Method::GET, path, query), uri), expected);
        }
    }

    #[test]
    fn managed_fields_are_removed_from_objects_and_lists() {
        let object = || json!({"metadata": {"name": "a", "managedFields": [{"manager": "m"}]}});
        for mut body in [object(), json!({"metadata": {}, "items": [object()]})] {
            remove_managed_fields(&mut body);
            assert!(!body.to_string().contains("managedFields"), "{body}");
        }
    }
}
