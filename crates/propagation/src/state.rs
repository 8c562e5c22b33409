//! State a workload takes along when it leaves a member: values of its status, as labels.

use std::collections::BTreeMap;

use api::policy::StatePreservation;
use serde_json::Value;

/// The reason state could not be read. The workload stays until it can.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    #[error("{0:?} is not a path that can be followed")]
    Path(String),
    #[error("{name} is not found in {path:?}")]
    Missing { path: String, name: String },
}

/// The labels that stand for the state in a status, one for each rule.
pub fn preserve(rules: &StatePreservation, status: &Value) -> Result<BTreeMap<String, String>, StateError> {
    let labels = rules.rules.iter().map(|rule| Ok((rule.alias_label_name.clone(), read(&rule.json_path, status)?)));
    labels.collect()
}

/// A text in which each `{…}` stands for what its path leads to. Paths are of fields, `['keys']`, `[indexes]` and `[*]`;
/// filters and ranges, of which no label can be made, are refused.
fn read(template: &str, status: &Value) -> Result<String, StateError> {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (path, after) = after.split_once('}').ok_or_else(|| StateError::Path(template.to_owned()))?;
        text.push_str(before);
        text.push_str(&follow(path.trim(), status)?.into_iter().map(told).collect::<Vec<_>>().join(" "));
        rest = after;
    }
    text.push_str(rest);
    Ok(text)
}

fn follow<'a>(path: &str, status: &'a Value) -> Result<Vec<&'a Value>, StateError> {
    let refused = || StateError::Path(path.to_owned());
    let mut found = vec![status];
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    while !rest.is_empty() {
        let (step, after) = if let Some(field) = rest.strip_prefix('.') {
            field.split_at(field.find(['.', '[']).unwrap_or(field.len()))
        } else {
            rest.strip_prefix('[').and_then(|key| key.split_once(']')).ok_or_else(refused)?
        };
        // A lone dot is the root itself.
        let is_root = step.is_empty() && after.is_empty() && path == ".";
        if !is_root {
            found = take(step, found, path)?;
        }
        rest = after;
    }
    Ok(found)
}

fn take<'a>(step: &str, found: Vec<&'a Value>, path: &str) -> Result<Vec<&'a Value>, StateError> {
    if step == "*" {
        return Ok(found.into_iter().flat_map(children).collect());
    }
    let quoted = step.strip_prefix('\'').and_then(|step| step.strip_suffix('\''));
    if step.is_empty() || quoted.is_none() && step.contains(['?', '(', '@', ':', ',', '\'', '"', ' ']) {
        return Err(StateError::Path(path.to_owned()));
    }
    let missing = || StateError::Missing { path: path.to_owned(), name: step.to_owned() };
    let taken = found.into_iter().map(|value| match value {
        Value::Array(items) => step.parse::<i64>().ok().and_then(|index| nth(items, index)),
        _ => value.get(quoted.unwrap_or(step)),
    });
    taken.map(|value| value.ok_or_else(missing)).collect()
}

/// Negative indexes count from the end.
fn nth(items: &[Value], index: i64) -> Option<&Value> {
    let length = i64::try_from(items.len()).ok()?;
    usize::try_from(if index < 0 { index + length } else { index }).ok().and_then(|index| items.get(index))
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        _ => Vec::new(),
    }
}

fn told(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use api::policy::StatePreservationRule;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(path: &str, expected: Result<&str, ()>) {
        let status = json!({"jobStatus": {"jobID": "j-1", "tries": 3}, "steps": [{"name": "a"}, {"name": "b"}],
            "is-done": false});
        let rule = StatePreservationRule { alias_label_name: "state".to_owned(), json_path: path.to_owned() };
        let read = preserve(&StatePreservation { rules: vec![rule] }, &status);
        assert_eq!(read.as_ref().map(|labels| labels["state"].as_str()).map_err(drop), expected, "{path} {read:?}");
    }

    #[test]
    fn paths_lead_to_values_and_missing_ones_are_errors() {
        check("{.jobStatus.jobID}", Ok("j-1"));
        check("{ .jobStatus.tries }", Ok("3"));
        check("{$.jobStatus['jobID']}", Ok("j-1"));
        check("{['is-done']}", Ok("false"));
        check("{.steps[0].name}-{.steps[-1].name}", Ok("a-b"));
        check("{.steps[*].name}", Ok("a b"));
        check("plain", Ok("plain"));
        check("{.jobStatus.absent}", Err(()));
        check("{.steps[5].name}", Err(()));
        check("{.steps[?(@.name==\"a\")].name}", Err(()));
        check("{.jobStatus", Err(()));
        check("{jobStatus}", Err(()));
        check("{..jobID}", Err(()));
    }
}
