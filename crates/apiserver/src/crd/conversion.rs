//! Converts objects to another version with a conversion webhook.

use std::time::Duration;

use object::{Object, Status};
use serde_json::{Value, json};

use super::Custom;
use crate::outgoing::{self, Destination};
use crate::resources::Resources;

const TIMEOUT: Duration = Duration::from_secs(30);

pub async fn call(
    resources: Resources<'_>,
    custom: &Custom,
    webhook: &Value,
    object: Object,
    api_version: &str,
) -> Result<Object, Status> {
    let gvk = object.gvk();
    let failed =
        |problem: &dyn std::fmt::Display| Status::internal(format!("conversion webhook for {gvk} failed: {problem}"));
    let destination =
        Destination::of_client_config(resources, &webhook["clientConfig"]).await.map_err(|e| failed(&e))?;
    let uid = uuid::Uuid::new_v4().to_string();
    let review = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": uid, "desiredAPIVersion": api_version, "objects": [object.to_value()]},
    });
    let answer = outgoing::post_json(&destination, &review, TIMEOUT).await.map_err(|e| failed(&e))?;
    let response = &answer["response"];
    if response["uid"] != uid.as_str() {
        return Err(failed(&format!("expected response.uid={uid:?}, got {}", response["uid"])));
    }
    if response["result"]["status"] != "Success" {
        return Err(failed(&response["result"]["message"].as_str().unwrap_or("the webhook gave no reason")));
    }
    let converted = response["convertedObjects"].as_array().filter(|objects| objects.len() == 1);
    let converted = converted.and_then(|objects| Object::from_value(objects[0].clone()));
    let converted = converted.ok_or_else(|| failed(&"expected one converted object"))?;
    check(custom, &object, &converted, api_version).map_err(|problem| failed(&problem))?;
    Ok(keep_metadata(converted, &object))
}

/// A webhook may change the content, not the identity of the object.
fn check(custom: &Custom, before: &Object, after: &Object, api_version: &str) -> Result<(), String> {
    if after.api_version() != api_version {
        return Err(format!(
            "{}: expected apiVersion {api_version:?}, got {:?}",
            custom.definition_name,
            after.api_version()
        ));
    }
    for (field, was, is) in [
        ("kind", before.kind(), after.kind()),
        ("metadata.name", before.name(), after.name()),
        ("metadata.namespace", before.namespace(), after.namespace()),
        ("metadata.uid", before.uid(), after.uid()),
    ] {
        if was != is {
            return Err(format!("must have the same {field}: {is:?} != {was:?}"));
        }
    }
    Ok(())
}

/// Of the metadata only labels and annotations may differ after a conversion.
fn keep_metadata(mut converted: Object, original: &Object) -> Object {
    let mut metadata = original.get(&["metadata"]).cloned().unwrap_or_else(|| json!({}));
    for field in ["labels", "annotations"] {
        match converted.get(&["metadata", field]) {
            Some(value) => metadata[field] = value.clone(),
            None => {
                metadata.as_object_mut().map(|map| map.remove(field));
            }
        }
    }
    converted.set(&["metadata"], metadata);
    converted
}
