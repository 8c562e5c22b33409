//! Pod failure policies and success policies.

use object::conditions::{self, ConditionView};
use serde_json::Value;

use crate::job::indexes::Indexes;
use crate::pods::Pod;

/// The action of a pod failure policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureAction {
    Count,
    Ignore,
    FailIndex,
    /// The whole Job fails, for this reason.
    FailJob(String),
}

/// The first matching rule decides; without one, the failure counts.
pub fn judge_failure(rules: Option<&[Value]>, pod: &Pod) -> FailureAction {
    for (position, rule) in rules.unwrap_or_default().iter().enumerate() {
        let why = match (rule.get("onExitCodes"), rule.get("onPodConditions")) {
            (Some(codes), _) if !codes.is_null() => match_exit_codes(codes, pod),
            (_, Some(conditions)) => match_conditions(conditions, pod),
            _ => None,
        };
        let Some(why) = why else { continue };
        match rule["action"].as_str().unwrap_or_default() {
            "Ignore" => return FailureAction::Ignore,
            "Count" => return FailureAction::Count,
            "FailIndex" => return FailureAction::FailIndex,
            "FailJob" => return FailureAction::FailJob(format!("{why} matching FailJob rule at index {position}")),
            _ => {}
        }
    }
    FailureAction::Count
}

fn match_exit_codes(wanted: &Value, pod: &Pod) -> Option<String> {
    let statuses = pod.container_statuses().iter().chain(pod.init_container_statuses());
    for status in statuses {
        let Some(code) = status["state"]["terminated"]["exitCode"].as_i64().filter(|code| *code != 0) else { continue };
        let name = status["name"].as_str().unwrap_or_default();
        if wanted["containerName"].as_str().is_some_and(|wanted| wanted != name) {
            continue;
        }
        let is_listed = wanted["values"].as_array().is_some_and(|values| values.iter().any(|value| *value == code));
        let fits = match wanted["operator"].as_str() {
            Some("In") => is_listed,
            Some("NotIn") => !is_listed,
            _ => false,
        };
        if fits {
            let (namespace, pod) = (pod.namespace(), pod.name());
            return Some(format!("Container {name} for pod {namespace}/{pod} failed with exit code {code}"));
        }
    }
    None
}

fn match_conditions(wanted: &Value, pod: &Pod) -> Option<String> {
    let wanted = wanted.as_array().map(Vec::as_slice).unwrap_or_default();
    let fits = |condition: &ConditionView<'_>| {
        let status = |pattern: &Value| pattern["status"].as_str().unwrap_or("True").to_owned();
        wanted.iter().any(|pattern| pattern["type"] == condition.kind() && condition.status() == status(pattern))
    };
    let condition = conditions::all_in(pod.items(&["status", "conditions"])).find(fits)?;
    Some(format!("Pod {}/{} has condition {}", pod.namespace(), pod.name(), condition.kind()))
}

/// Returns the message of the matching success policy rule.
pub fn match_success(rules: Option<&[Value]>, succeeded: &Indexes, indexes: i64) -> Option<String> {
    if succeeded.is_empty() {
        return None;
    }
    let is_met = |rule: &Value| {
        let count = rule["succeededCount"].as_i64();
        match rule["succeededIndexes"].as_str() {
            None => count.is_some_and(|count| succeeded.total() >= count),
            Some(wanted) => {
                let wanted = Indexes::parse(wanted, indexes);
                let shared = wanted.shared(succeeded);
                !wanted.is_empty() && (shared == wanted.total() || count.is_some_and(|count| shared >= count))
            }
        }
    };
    let position = rules?.iter().position(is_met)?;
    Some(format!("Matched rules at index {position}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object::Object;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(rule: Value, expected: FailureAction) {
        let pod = json!({"metadata": {"name": "p", "namespace": "a"}, "status": {
            "conditions": [{"type": "DisruptionTarget", "status": "True"}],
            "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 42}}}]}});
        let pod = Pod::new(Arc::new(Object::from_value(pod).expect("a map")));
        assert_eq!(judge_failure(Some(std::slice::from_ref(&rule)), &pod), expected, "{rule}");
    }

    #[test]
    fn the_first_matching_rule_decides() {
        let codes = |action: &str, operator: &str, values: Value| json!({"action": action, "onExitCodes": {"operator": operator, "values": values}});
        check(codes("Ignore", "In", json!([42])), FailureAction::Ignore);
        check(codes("Ignore", "In", json!([1])), FailureAction::Count);
        check(codes("FailIndex", "NotIn", json!([1])), FailureAction::FailIndex);
        let why = "Container main for pod a/p failed with exit code 42 matching FailJob rule at index 0";
        check(codes("FailJob", "In", json!([42])), FailureAction::FailJob(why.to_owned()));
        let mut other = codes("Ignore", "In", json!([42]));
        other["onExitCodes"]["containerName"] = "side".into();
        check(other, FailureAction::Count);
        let disrupted =
            json!({"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]});
        let why = "Pod a/p has condition DisruptionTarget matching FailJob rule at index 0";
        check(disrupted, FailureAction::FailJob(why.to_owned()));
    }

    #[test]
    fn a_success_policy_rule_completes_the_job() {
        let check = |rule: Value, succeeded: &str, expected: Option<&str>| {
            let succeeded = Indexes::parse(succeeded, 10);
            assert_eq!(match_success(Some(&[rule]), &succeeded, 10).as_deref(), expected);
        };
        let met = Some("Matched rules at index 0");
        check(json!({"succeededCount": 2}), "0,5", met);
        check(json!({"succeededCount": 3}), "0,5", None);
        check(json!({"succeededIndexes": "0-2"}), "0-2,7", met);
        check(json!({"succeededIndexes": "0-2"}), "0,2", None);
        check(json!({"succeededIndexes": "0-2", "succeededCount": 2}), "0,2", met);
        check(json!({"succeededCount": 0}), "", None);
    }
}
