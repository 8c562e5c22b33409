//! State preserved when a workload moves to another cluster: values of its status, as labels.

use std::collections::BTreeMap;

use api::policy::StatePreservation;
use object::jsonpath::{JsonPathError, Template};
use serde_json::Value;

/// The reason state could not be read. The workload stays until it can.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    #[error("{0:?} has more than fields, keys, indexes and [*]")]
    NotPlain(String),
    #[error("cannot read {path:?}")]
    Read {
        path: String,
        #[source]
        error: JsonPathError,
    },
}

/// The labels that carry the state of a status, one for each rule.
pub fn preserve(rules: &StatePreservation, status: &Value) -> Result<BTreeMap<String, String>, StateError> {
    let labels = rules.rules.iter().map(|rule| Ok((rule.alias_label_name.clone(), read(&rule.json_path, status)?)));
    labels.collect()
}

/// The text of a template. Filters and ranges, which may find any number of values, are refused.
fn read(template: &str, status: &Value) -> Result<String, StateError> {
    let failed = |error| StateError::Read { path: template.to_owned(), error };
    let parsed = Template::parse(template).map_err(failed)?;
    if !parsed.has_plain_paths() {
        return Err(StateError::NotPlain(template.to_owned()));
    }
    parsed.render_strict(status).map_err(failed)
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
    fn paths_select_values_and_missing_ones_are_errors() {
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
