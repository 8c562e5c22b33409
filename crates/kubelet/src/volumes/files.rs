//! Computes the files of volumes with API object sources: names, contents and modes. Pure.

use std::collections::BTreeMap;

use object::Object;
use serde_json::Value;

use crate::fields::{DownwardFacts, field, resource};
use crate::pod::{flag, list, number, text};
use crate::references::References;

/// The default of `defaultMode`.
const MODE_DEFAULT: u32 = 0o644;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct File {
    pub content: Vec<u8>,
    pub mode: u32,
}

/// Paths within the volume.
pub(crate) type Files = BTreeMap<String, File>;

/// Service account tokens of one volume, by path.
pub(crate) type Tokens = BTreeMap<String, String>;

/// The sources of a pod's files.
pub(crate) struct Origin<'a> {
    pub pod: &'a Object,
    pub references: &'a References,
    pub facts: &'a DownwardFacts,
}

/// Returns the files of a volume; `None` for volume types without API object sources.
pub(crate) fn plan_files(origin: &Origin, volume: &Value, tokens: &Tokens) -> Option<Result<Files, String>> {
    if let Some(source) = volume.get("configMap") {
        let mode = mode_of(source, MODE_DEFAULT);
        return Some(from_config_map(origin, source, mode));
    }
    if let Some(source) = volume.get("secret") {
        let mode = mode_of(source, MODE_DEFAULT);
        return Some(from_secret(origin, source, text(source, "secretName"), mode));
    }
    if let Some(source) = volume.get("downwardAPI") {
        let mode = mode_of(source, MODE_DEFAULT);
        return Some(from_fields(origin, source, mode));
    }
    let projected = volume.get("projected")?;
    Some(from_all(origin, projected, tokens))
}

fn mode_of(source: &Value, default: u32) -> u32 {
    let mode = number(source, "defaultMode").or_else(|| number(source, "mode"));
    mode.and_then(|mode| u32::try_from(mode).ok()).unwrap_or(default)
}

fn from_config_map(origin: &Origin, source: &Value, mode: u32) -> Result<Files, String> {
    let name = text(source, "name");
    pick(origin.references.config_map(name), source, mode, &format!("configmap {name:?}"))
}

fn from_secret(origin: &Origin, source: &Value, name: &str, mode: u32) -> Result<Files, String> {
    pick(origin.references.secret(name), source, mode, &format!("secret {name:?}"))
}

/// Returns all entries by key, or those in `items` under their paths.
fn pick(entries: Option<BTreeMap<String, Vec<u8>>>, source: &Value, mode: u32, called: &str) -> Result<Files, String> {
    let optional = flag(source, "optional");
    let Some(mut entries) = entries else {
        return if optional { Ok(Files::new()) } else { Err(format!("{called} not found")) };
    };
    let items = list(source, "items");
    if items.is_empty() {
        return Ok(entries.into_iter().map(|(key, content)| (key, File { content, mode })).collect());
    }
    let mut files = Files::new();
    for item in items {
        let key = text(item, "key");
        match entries.remove(key) {
            Some(content) => drop(files.insert(path_of(item)?, File { content, mode: mode_of(item, mode) })),
            None if optional => {}
            None => return Err(format!("{called} references non-existent config key: {key}")),
        }
    }
    Ok(files)
}

fn from_fields(origin: &Origin, source: &Value, mode: u32) -> Result<Files, String> {
    let mut files = Files::new();
    for item in list(source, "items") {
        let content = match (item.get("fieldRef"), item.get("resourceFieldRef")) {
            (Some(reference), _) => field(origin.pod, origin.facts, text(reference, "fieldPath"))?,
            (None, Some(reference)) => resource(origin.pod, origin.facts, reference, "")?,
            (None, None) => continue,
        };
        files.insert(path_of(item)?, File { content: content.into_bytes(), mode: mode_of(item, mode) });
    }
    Ok(files)
}

fn from_all(origin: &Origin, projected: &Value, tokens: &Tokens) -> Result<Files, String> {
    let mode = mode_of(projected, MODE_DEFAULT);
    let mut files = Files::new();
    for source in list(projected, "sources") {
        let some = if let Some(source) = source.get("configMap") {
            from_config_map(origin, source, mode)?
        } else if let Some(source) = source.get("secret") {
            from_secret(origin, source, text(source, "name"), mode)?
        } else if let Some(source) = source.get("downwardAPI") {
            from_fields(origin, source, mode)?
        } else if let Some(source) = source.get("serviceAccountToken") {
            let path = path_of(source)?;
            let token = tokens.get(&path).ok_or("the service account token is not available yet")?;
            Files::from([(path, File { content: token.clone().into_bytes(), mode })])
        } else {
            return Err("unsupported source of a projected volume".to_owned());
        };
        files.extend(some);
    }
    Ok(files)
}

/// Validates a relative path within the volume that does not collide with the `..data` layout.
fn path_of(item: &Value) -> Result<String, String> {
    let path = text(item, "path");
    let is_inside = !path.is_empty() && path.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
    if is_inside && !path.starts_with("..") {
        Ok(path.to_owned())
    } else {
        Err(format!("{path:?} is not a valid path within a volume"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pod::pod_of;

    fn references() -> References {
        References::default()
            .with_config_map(json!({"metadata": {"name": "page"},
                "data": {"index.html": "hello", "other": "x"}, "binaryData": {"raw": "AAE="}}))
            .with_secret(json!({"metadata": {"name": "keys"}, "data": {"token": "czNjcmV0"}}))
    }

    fn planned(volume: Value) -> Option<Result<Files, String>> {
        let (pod, references, facts) = (pod_of(json!({})), references(), DownwardFacts::default());
        let origin = Origin { pod: &pod, references: &references, facts: &facts };
        plan_files(&origin, &volume, &Tokens::from([("token".to_owned(), "jwt".to_owned())]))
    }

    #[track_caller]
    fn check(volume: Value, expected: &[(&str, &[u8], u32)]) {
        let files = planned(volume).expect("made from objects").expect("all is there");
        let files: Vec<(&str, &[u8], u32)> =
            files.iter().map(|(path, file)| (path.as_str(), file.content.as_slice(), file.mode)).collect();
        assert_eq!(files, expected);
    }

    #[test]
    fn volumes_have_the_entries_of_their_sources() {
        check(
            json!({"configMap": {"name": "page"}}),
            &[("index.html", b"hello", 0o644), ("other", b"x", 0o644), ("raw", &[0, 1], 0o644)],
        );
        check(
            json!({"configMap": {"name": "page", "defaultMode": 256, "items":
                [{"key": "other", "path": "a/b"}, {"key": "raw", "path": "c", "mode": 448}]}}),
            &[("a/b", b"x", 0o400), ("c", &[0, 1], 0o700)],
        );
        check(json!({"secret": {"secretName": "keys"}}), &[("token", b"s3cret", 0o644)]);
        check(json!({"secret": {"secretName": "none", "optional": true}}), &[]);
        check(
            json!({"downwardAPI": {"items": [{"path": "me", "fieldRef": {"fieldPath": "metadata.name"}}]}}),
            &[("me", b"web", 0o644)],
        );
        check(
            json!({"projected": {"sources": [{"serviceAccountToken": {"path": "token"}},
                {"secret": {"name": "keys", "items": [{"key": "token", "path": "key"}]}}]}}),
            &[("key", b"s3cret", 0o644), ("token", b"jwt", 0o644)],
        );
    }

    #[test]
    fn missing_sources_and_escaping_paths_are_rejected() {
        let fails = |volume: Value| assert!(planned(volume.clone()).expect("made from objects").is_err(), "{volume}");
        fails(json!({"configMap": {"name": "none"}}));
        fails(json!({"secret": {"secretName": "keys", "items": [{"key": "none", "path": "x"}]}}));
        for path in ["../x", "/x", "a/../../x", "", "..data"] {
            fails(json!({"configMap": {"name": "page", "items": [{"key": "other", "path": path}]}}));
        }
        assert!(planned(json!({"emptyDir": {}})).is_none());
    }
}
