//! ResourceInterpreterCustomization and ResourceInterpreterWebhookConfiguration.

use std::collections::BTreeSet;

use api::config::{CustomizationRules, CustomizationSpec, LuaRule};
use kinds::strategies::fields::{Field, Report};
use kinds::strategies::webhook_client;
use object::{FieldError, Object, names};
use serde_json::Value;

/// The operations webhooks may name. `Prune` is a word of Karmada's too, but no webhook may use it.
const OPERATIONS: [&str; 9] = [
    "*",
    "AggregateStatus",
    "InterpretComponent",
    "InterpretDependency",
    "InterpretHealth",
    "InterpretReplica",
    "InterpretStatus",
    "Retain",
    "ReviseReplica",
];
const CONTEXT_VERSION: &str = "v1alpha1";
const DEPENDENCIES: &str = "InterpretDependency";

/// Scripts by operation, in the order Karmada goes through them.
fn scripts(rules: &CustomizationRules) -> [(&'static str, Option<&LuaRule>); 8] {
    [
        ("Retain", rules.retention.as_ref()),
        ("InterpretReplica", rules.replica_resource.as_ref()),
        ("InterpretComponent", rules.component_resource.as_ref()),
        ("ReviseReplica", rules.replica_revision.as_ref()),
        ("InterpretStatus", rules.status_reflection.as_ref()),
        ("AggregateStatus", rules.status_aggregation.as_ref()),
        ("InterpretHealth", rules.health_interpretation.as_ref()),
        (DEPENDENCIES, rules.dependency_interpretation.as_ref()),
    ]
}

/// Returns the reason a customization is invalid or conflicts with others. `compile` reports the problem of a script.
pub fn customization_problem(
    new: &Object,
    others: &[impl AsRef<Object>],
    compile: &dyn Fn(&str) -> Result<(), String>,
) -> Option<String> {
    let spec: CustomizationSpec = match api::read(new) {
        Ok(spec) => spec,
        Err(status) => return Some(status.message),
    };
    for other in others.iter().map(AsRef::as_ref).filter(|other| other.name() != new.name()) {
        let theirs: CustomizationSpec = api::read(other).unwrap_or_default();
        if theirs.target != spec.target {
            continue;
        }
        for ((operation, mine), (_, taken)) in
            scripts(&spec.customizations).into_iter().zip(scripts(&theirs.customizations))
        {
            // Several customizations may name dependencies: what they name is put together.
            if operation != DEPENDENCIES && has_script(mine) && has_script(taken) {
                return Some(format!(
                    "conflicting with InterpreterOperation({operation}) of existing ResourceInterpreterCustomization({})",
                    other.name()
                ));
            }
        }
    }
    scripts(&spec.customizations).into_iter().find_map(|(operation, rule)| {
        let script = rule.map(|rule| rule.lua_script.as_str()).filter(|script| !script.is_empty())?;
        let problem = compile(script).err()?;
        Some(format!("InterpreterOperation({operation}) Lua script error: {problem}"))
    })
}

fn has_script(rule: Option<&LuaRule>) -> bool {
    rule.is_some_and(|rule| !rule.lua_script.is_empty())
}

pub fn validate_webhooks(configuration: &Object) -> Vec<FieldError> {
    let report = Report::new();
    let mut seen = BTreeSet::new();
    for hook in report.field(configuration, "webhooks").items() {
        validate_webhook(hook);
        if !seen.insert(hook.field("name").text()) {
            hook.field("name").duplicate();
        }
    }
    report.finish()
}

fn validate_webhook(hook: Field<'_>) {
    validate_qualified_domain(hook.field("name"));
    for rule in hook.field("rules").items() {
        validate_rule(rule);
    }
    let timeout = hook.field("timeoutSeconds");
    if timeout.int().is_some_and(|seconds| !(1..=30).contains(&seconds)) {
        timeout.invalid("the timeout value must be between 1 and 30 seconds");
    }
    webhook_client::validate(hook.field("clientConfig"));
    validate_versions(hook.field("interpreterContextVersions"));
}

/// A domain of at least two labels.
fn validate_qualified_domain(name: Field<'_>) {
    if name.text().is_empty() {
        return name.required("");
    }
    let problems = names::dns1123_subdomain(name.text());
    if !problems.is_empty() {
        return name.problems(problems);
    }
    if name.text().split('.').count() < 2 {
        name.invalid("should be a domain with at least two segments separated by dots");
    }
}

fn validate_rule(rule: Field<'_>) {
    let operations = rule.field("operations");
    operations.require();
    operations.exclusive_wildcard("operations");
    for operation in operations.items() {
        operation.one_of(&OPERATIONS);
    }
    let groups = rule.field("apiGroups");
    groups.require();
    groups.exclusive_wildcard("API groups");
    for (list, what) in [("apiVersions", "API versions"), ("kinds", "kinds")] {
        let list = rule.field(list);
        list.require();
        list.exclusive_wildcard(what);
        for item in list.items().filter(|item| item.text().is_empty()) {
            item.required("");
        }
    }
}

fn validate_versions(versions: Field<'_>) {
    if versions.is_empty() {
        return versions.required(&format!("must specify one of {CONTEXT_VERSION}"));
    }
    let mut seen = BTreeSet::new();
    for version in versions.items() {
        if !seen.insert(version.text()) {
            version.invalid("duplicate version");
            continue;
        }
        version.problems_as(version.text(), names::dns1035_label(version.text()));
    }
    if !seen.contains(CONTEXT_VERSION) {
        let shown = versions.value().cloned().unwrap_or(Value::Null);
        versions.invalid_as(shown, format!("must include at least one of {CONTEXT_VERSION}"));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn customization(name: &str, customizations: Value) -> Arc<Object> {
        let value = json!({"metadata": {"name": name}, "spec": {
            "target": {"apiVersion": "apps/v1", "kind": "Deployment"}, "customizations": customizations}});
        Arc::new(Object::from_value(value).expect("an object"))
    }

    fn check(customizations: Value, expected: Option<&str>) {
        let others = [customization(
            "old",
            json!({
            "retention": {"luaScript": "a"}, "dependencyInterpretation": {"luaScript": "b"}}),
        )];
        let compile = |script: &str| if script == "bad" { Err("line 1".to_owned()) } else { Ok(()) };
        let new = customization("new", customizations);
        assert_eq!(customization_problem(&new, &others, &compile).as_deref(), expected, "{new:?}");
    }

    #[test]
    fn customizations_do_not_contradict_each_other_and_compile() {
        check(json!({"healthInterpretation": {"luaScript": "c"}}), None);
        check(json!({"dependencyInterpretation": {"luaScript": "c"}}), None);
        check(
            json!({"retention": {"luaScript": "c"}}),
            Some("conflicting with InterpreterOperation(Retain) of existing ResourceInterpreterCustomization(old)"),
        );
        check(
            json!({"statusReflection": {"luaScript": "bad"}}),
            Some("InterpreterOperation(InterpretStatus) Lua script error: line 1"),
        );
    }

    #[test]
    fn a_customization_does_not_conflict_with_itself() {
        let same = customization("old", json!({"retention": {"luaScript": "c"}}));
        assert_eq!(customization_problem(&same, std::slice::from_ref(&same), &|_| Ok(())), None);
    }
}
