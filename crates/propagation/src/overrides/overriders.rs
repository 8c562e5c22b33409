//! The seven kinds of overriders, each of which changes a manifest in its own way.

use api::policy::{
    CommandArgsOverrider, FieldOverrider, FieldPatchOperation, ImageOverrider, LabelAnnotationOverrider, Overriders,
    PlaintextOverrider,
};
use object::{Object, patch, yaml};
use serde_json::{Map, Value, json};

use crate::overrides::image::{Image, ImageError};
use crate::overrides::ordered::{self, Order};

/// The reason an overrider cannot be applied to a manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverrideError {
    #[error("failed to parse image value({image}), error: {reason}")]
    Image { image: String, reason: ImageError },
    #[error("failed to obtain imageValue with predicate path({path}), error: {reason}")]
    ImagePath { path: String, reason: String },
    #[error("imagePath should be start with / character")]
    RelativeImagePath,
    #[error("unsupported image component({0})")]
    ImageComponent(String),
    #[error("{0}")]
    Patch(#[from] patch::PatchError),
    #[error("the plaintext overriders leave an object without apiVersion and kind")]
    NoKindLeft,
    #[error("object has no field {0:?}")]
    NoField(String),
    #[error("Get object's value by overrider's path({0}) is not string")]
    FieldIsNoText(String),
    #[error("the text at {path} is not {format}: {reason}")]
    FieldUnreadable { path: String, format: &'static str, reason: String },
    #[error(
        "an OverridePolicy must not change the group, kind, namespace or name of an object: {from} would become {to}"
    )]
    OtherObject { from: String, to: String },
}

/// Applies the overriders of one rule, in Karmada's order whatever the order they are written in: what is more general
/// comes later. A manifest that could not be changed may be half changed.
pub fn apply(manifest: &mut Object, overriders: &Overriders) -> Result<(), OverrideError> {
    for overrider in &overriders.image_overrider {
        apply_image(manifest, overrider)?;
    }
    for overrider in &overriders.command_overrider {
        apply_command(manifest, "command", overrider);
    }
    for overrider in &overriders.args_overrider {
        apply_command(manifest, "args", overrider);
    }
    for overrider in &overriders.labels_overrider {
        apply_texts(manifest, "labels", overrider);
    }
    for overrider in &overriders.annotations_overrider {
        apply_texts(manifest, "annotations", overrider);
    }
    for overrider in &overriders.field_overrider {
        apply_field(manifest, overrider)?;
    }
    apply_plaintext(manifest, &overriders.plaintext)
}

/// Returns the containers of a manifest. The API group does not matter, as in Karmada.
fn containers<'a>(manifest: &'a mut Object) -> Option<&'a mut Vec<Value>> {
    let path: &[&str] = match manifest.kind() {
        "Pod" => &["spec", "containers"],
        "ReplicaSet" | "Deployment" | "DaemonSet" | "StatefulSet" | "Job" => {
            &["spec", "template", "spec", "containers"]
        }
        _ => return None,
    };
    let (first, rest) = path.split_first()?;
    let root: &'a mut Value = manifest.as_map_mut().get_mut(*first)?;
    rest.iter().try_fold(root, |value, key| value.get_mut(*key))?.as_array_mut()
}

fn apply_image(manifest: &mut Object, overrider: &ImageOverrider) -> Result<(), OverrideError> {
    let Some(predicate) = &overrider.predicate else {
        for container in containers(manifest).into_iter().flatten() {
            let image = overridden_image(container["image"].as_str().unwrap_or_default(), overrider)?;
            container["image"] = image.into();
        }
        return Ok(());
    };
    let slot = image_at(manifest, &predicate.path)
        .map_err(|reason| OverrideError::ImagePath { path: predicate.path.clone(), reason })?;
    if !predicate.path.starts_with('/') {
        return Err(OverrideError::RelativeImagePath);
    }
    *slot = overridden_image(slot, overrider)?;
    Ok(())
}

fn overridden_image(image: &str, overrider: &ImageOverrider) -> Result<String, OverrideError> {
    let parsed = Image::parse(image).map_err(|reason| OverrideError::Image { image: image.to_owned(), reason })?;
    let changed = parsed.overridden(overrider);
    let changed = changed.ok_or_else(|| OverrideError::ImageComponent(overrider.component.clone()))?;
    Ok(changed.to_string())
}

fn image_at<'a>(manifest: &'a mut Object, path: &str) -> Result<&'a mut String, String> {
    let mut parts = path.trim_matches('/').split('/');
    let first = parts.next().unwrap_or_default();
    let absent = |part: &str| format!("there is no field {part:?}");
    let mut at = manifest.as_map_mut().get_mut(first).ok_or_else(|| absent(first))?;
    for part in parts {
        at = match at {
            Value::Object(map) => map.get_mut(part).ok_or_else(|| absent(part))?,
            Value::Array(items) => {
                let index: usize = part.parse().map_err(|_| format!("path({part}) of rawObj's is not number"))?;
                items.get_mut(index).ok_or_else(|| absent(part))?
            }
            _ => return Err(absent(part)),
        };
    }
    match at {
        Value::String(text) => Ok(text),
        _ => Err(format!("failed to convert path({}) to string", path.rsplit('/').next().unwrap_or_default())),
    }
}

fn apply_command(manifest: &mut Object, field: &str, overrider: &CommandArgsOverrider) {
    let named = |container: &&mut Value| container["name"] == overrider.container_name.as_str();
    for container in containers(manifest).into_iter().flatten().filter(named) {
        let Some(container) = container.as_object_mut() else { continue };
        let mut words = match container.get_mut(field) {
            Some(Value::Array(words)) => std::mem::take(words),
            _ => Vec::new(),
        };
        match overrider.operator.as_str() {
            "add" => words.extend(overrider.value.iter().map(|word| Value::from(word.as_str()))),
            "remove" => words.retain(|word| !overrider.value.iter().any(|removed| word == removed.as_str())),
            _ => {}
        }
        container.insert(field.to_owned(), Value::Array(words));
    }
}

/// Labels or annotations. What is not there can be added only.
fn apply_texts(manifest: &mut Object, field: &str, overrider: &LabelAnnotationOverrider) {
    for (key, value) in &overrider.value {
        let path = ["metadata", field, key.as_str()];
        match overrider.operator.as_str() {
            "add" => manifest.set(&path, value.as_str()),
            "replace" if manifest.get(&path).is_some() => manifest.set(&path, value.as_str()),
            "remove" => drop(manifest.remove(&path)),
            _ => {}
        }
    }
}

/// A text that is itself a document, such as a value of a ConfigMap.
fn apply_field(manifest: &mut Object, overrider: &FieldOverrider) -> Result<(), OverrideError> {
    with_document(manifest, |document| {
        let path = &overrider.field_path;
        let slot = document.pointer_mut(path).ok_or_else(|| OverrideError::NoField(path.clone()))?;
        let Value::String(text) = slot else { return Err(OverrideError::FieldIsNoText(path.clone())) };
        let unreadable = |format: &'static str, reason: String| OverrideError::FieldUnreadable {
            path: path.clone(),
            format,
            reason,
        };
        if !overrider.yaml.is_empty() {
            let mut inner: Value =
                serde_saphyr::from_str(text).map_err(|error| unreadable("YAML", error.to_string()))?;
            patch::json::apply_strict(&mut inner, &field_patch(&overrider.yaml))?;
            *text = yaml::to_string(&inner);
        } else if !overrider.json.is_empty() {
            let not_json = |error: serde_json::Error| unreadable("JSON", error.to_string());
            let order: Order = serde_json::from_str(text).map_err(not_json)?;
            let mut inner: Value = serde_json::from_str(text).map_err(not_json)?;
            patch::json::apply_strict(&mut inner, &field_patch(&overrider.json))?;
            *text = ordered::to_string(&inner, &order);
        }
        Ok(())
    })
}

fn field_patch(operations: &[FieldPatchOperation]) -> Value {
    let operation = |o: &FieldPatchOperation| json!({"op": o.operator, "path": o.sub_path, "value": o.value});
    operations.iter().map(operation).collect()
}

fn apply_plaintext(manifest: &mut Object, overriders: &[PlaintextOverrider]) -> Result<(), OverrideError> {
    if overriders.is_empty() {
        return Ok(());
    }
    let operation = |o: &PlaintextOverrider| json!({"op": o.operator, "path": o.path, "value": o.value});
    let operations: Value = overriders.iter().map(operation).collect();
    with_document(manifest, |document| Ok(patch::json::apply_strict(document, &operations)?))?;
    if manifest.kind().is_empty() || manifest.api_version().is_empty() {
        return Err(OverrideError::NoKindLeft);
    }
    Ok(())
}

/// Lends the manifest as a JSON document, without copying it.
fn with_document(
    manifest: &mut Object,
    change: impl FnOnce(&mut Value) -> Result<(), OverrideError>,
) -> Result<(), OverrideError> {
    let mut document = Value::Object(std::mem::take(manifest.as_map_mut()));
    let result = change(&mut document);
    let root = match document {
        Value::Object(root) => root,
        // Only a patch of the root itself makes it anything else, and then nothing of the manifest is left.
        _ => Map::new(),
    };
    *manifest.as_map_mut() = root;
    result
}

#[cfg(test)]
mod tests;
