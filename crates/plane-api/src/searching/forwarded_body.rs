//! Bodies of requests that are forwarded to a member, with the changes of the cache undone.

use apiserver::decode::{self, BodyFormat};
use apiserver::http::{Incoming, RequestBody};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use object::Status;
use object::request::Verb;
use serde_json::Value;

/// Restores the member's own resource version in the body and removes the cluster annotation, for clients that send back what
/// they read. A body that cannot be parsed is left for the member to refuse.
pub async fn restored(mut incoming: Incoming, verb: Verb, cluster: &str) -> Result<Incoming, Status> {
    if !matches!(verb, Verb::Update | Verb::Patch | Verb::Delete) {
        return Ok(incoming);
    }
    let body = incoming.body.read().await?;
    let changed = changed_body(&body, &incoming.headers, verb, cluster);
    if let Some((_, content_type)) = &changed {
        incoming.headers.remove(header::CONTENT_LENGTH);
        if let Some(content_type) = content_type {
            incoming.headers.insert(header::CONTENT_TYPE, content_type.clone());
        }
    }
    incoming.body = RequestBody::Whole(changed.map_or(body, |(changed, _)| changed));
    Ok(incoming)
}

/// Returns the body as JSON, and its content type when that changes; `None` when nothing needs a change.
fn changed_body(body: &[u8], headers: &HeaderMap, verb: Verb, cluster: &str) -> Option<(Bytes, Option<HeaderValue>)> {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let (mut value, content_type) = if verb == Verb::Patch {
        // Patches are JSON, or YAML that is nearly always JSON; a list of operations has no resource version as a whole.
        (serde_json::from_slice::<Value>(body).ok()?, None)
    } else {
        let format = BodyFormat::of_content_type(content_type).ok()?;
        (decode::decode(body, format).ok()?.value, Some(HeaderValue::from_static("application/json")))
    };
    search::restore(&mut value, cluster).then(|| (value.to_string().into(), content_type))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_bodies_that_carry_changes_of_the_cache_are_changed() {
        let stamped =
            json!({"metadata": {"annotations": {"resource.karmada.io/cached-from-cluster": "m1"}}}).to_string();
        let yaml = "metadata:\n  annotations:\n    resource.karmada.io/cached-from-cluster: m1\n";
        let cleared = json!({"metadata": {"annotations": {}}});
        let cases = [
            (Verb::Update, "application/json", stamped.as_str(), Some((cleared.clone(), true))),
            (Verb::Update, "application/yaml", yaml, Some((cleared.clone(), true))),
            (Verb::Update, "application/json", "{\"metadata\": {}}", None),
            (Verb::Update, "application/json", "not JSON", None),
            (Verb::Update, "text/html", stamped.as_str(), None),
            (Verb::Patch, "application/merge-patch+json", stamped.as_str(), Some((cleared, false))),
            (Verb::Patch, "application/json-patch+json", "[{\"op\": \"remove\", \"path\": \"/a\"}]", None),
            (Verb::Delete, "application/json", "", None),
        ];
        for (verb, content_type, body, expected) in cases {
            let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(content_type))]);
            let changed = changed_body(body.as_bytes(), &headers, verb, "m1");
            let changed = changed.map(|(body, content_type)| {
                (serde_json::from_slice::<Value>(&body).expect("JSON"), content_type.is_some())
            });
            assert_eq!(changed, expected, "{verb} {content_type} {body}");
        }
    }
}
