//! Admission policies in CEL and their bindings.

use std::collections::BTreeSet;

use object::{FieldError, Object, names};
use serde_json::{Value, json};

use super::expressions::{self, Variables};
use super::rules::{self, FAILURE_POLICIES};
use crate::strategies::conditions;
use crate::strategies::defaults::{map_at, map_or_new, set_absent, show_empty};
use crate::strategies::fields::{Field, Report, same};
use crate::strategy::{Strategy, WriteContext};

const AUDIT_ANNOTATIONS_MAX: usize = 20;
const AUDIT_EXPRESSION_BYTES_MAX: usize = 5 * 1024;
const NEITHER: &str = "validations or auditAnnotations must contain at least one item";
const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge"];
const REINVOCATION_POLICIES: &[&str] = &["IfNeeded", "Never"];
const MUTATING_OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "UPDATE"];

pub(super) struct Policy {
    pub(super) mutating: bool,
}

impl Strategy for Policy {
    fn default(&self, policy: &mut Object) {
        if let Some(spec) = map_or_new(policy.as_map_mut(), "spec") {
            set_absent(spec, "failurePolicy", "Fail");
            rules::default_match_resources(spec, "matchConstraints");
        }
        if !self.mutating {
            show_empty(policy, "status");
        }
    }

    fn prepare_create(&self, policy: &mut Object, _ctx: &WriteContext) {
        if !self.mutating {
            policy.set(&["status"], json!({}));
        }
    }

    fn validate_create(&self, policy: &Object) -> Vec<FieldError> {
        self.validate(policy, None)
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        self.validate(new, Some(old))
    }

    fn validate_status(&self, new: &Object, _old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let status = report.field(new, "status");
        for warning in status.path(&["typeChecking", "expressionWarnings"]).items() {
            warning.field("warning").require();
            warning.field("fieldRef").require();
        }
        conditions::validate(status.field("conditions"));
        report.finish()
    }

    fn counts_generation(&self) -> bool {
        true
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }
}

impl Policy {
    fn validate(&self, policy: &Object, old: Option<&Object>) -> Vec<FieldError> {
        let report = Report::new();
        let spec = report.field(policy, "spec");
        spec.field("failurePolicy").required_one_of(FAILURE_POLICIES);
        validate_param_kind(spec.field("paramKind"));
        let constraints = spec.field("matchConstraints");
        if constraints.is_set() {
            rules::validate_match_resources(constraints);
            constraints.field("resourceRules").require();
        } else {
            constraints.required("");
        }
        if self.mutating {
            refuse_immutable_operations(constraints);
        }
        let variables = Variables::of(spec.field("variables"), spec.field("paramKind").is_set());
        let unchanged = |key: &str| old.is_some_and(|old| same(policy.get(&["spec", key]), old.get(&["spec", key])));
        if !(unchanged("paramKind") && unchanged("matchConditions")) {
            rules::validate_match_conditions(spec.field("matchConditions"), |field, expression| {
                expressions::check_condition(field, expression, variables.alone());
            });
        }
        for (index, variable) in spec.field("variables").items().enumerate() {
            validate_variable(variable, variables.up_to(index));
        }
        if self.mutating {
            validate_mutations(spec, variables);
        } else {
            validate_validations(spec, policy.name(), variables);
        }
        report.finish()
    }
}

fn validate_param_kind(kind: Field<'_>) {
    if !kind.is_set() {
        return;
    }
    let version = kind.field("apiVersion");
    let parts: Vec<&str> = version.text().split('/').collect();
    match parts[..] {
        _ if version.is_empty() => version.required(""),
        [_, _, _, ..] => version.invalid(format!("unexpected GroupVersion string: {}", version.text())),
        [.., name] => {
            let group = if parts.len() == 2 { parts[0] } else { "" };
            let problems = names::dns1123_subdomain(group);
            if !group.is_empty() && !problems.is_empty() {
                version.invalid_as(group, problems.join(","));
            }
            let problems = names::dns1035_label(name);
            if name.is_empty() {
                version.invalid("version must be specified");
            } else if !problems.is_empty() {
                version.invalid_as(name, problems.join(","));
            }
        }
        [] => {}
    }
    let name = kind.field("kind");
    if name.require() {
        let problems = names::dns1035_label(&name.text().to_lowercase());
        if !problems.is_empty() {
            name.invalid(format!("may have mixed case, but should otherwise match: {}", problems.join(",")));
        }
    }
}

fn validate_variable<'a>(variable: Field<'a>, variables: Variables<'a>) {
    let name = variable.field("name");
    match name.text().trim() {
        "" => name.required("name is not specified"),
        _ if !cel::is_identifier(name.text()) => name.invalid("must be a valid CEL identifier"),
        _ => {}
    }
    let expression = variable.field("expression");
    match expression.text().trim() {
        "" => expression.required("expression is not specified"),
        _ => expressions::check_any(expression, expression.text(), variables),
    }
}

fn validate_validations<'a>(spec: Field<'a>, policy: &'a str, variables: Variables<'a>) {
    let (validations, annotations) = (spec.field("validations"), spec.field("auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        validations.required(NEITHER);
        annotations.required(NEITHER);
        return;
    }
    validations.items().for_each(|validation| validate_validation(validation, variables));
    if annotations.len() > AUDIT_ANNOTATIONS_MAX {
        annotations.invalid(format!("must not have more than {AUDIT_ANNOTATIONS_MAX} auditAnnotations"));
    }
    let mut seen = BTreeSet::new();
    for annotation in annotations.items() {
        let key = annotation.field("key");
        let full = format!("{policy}/{}", key.text());
        key.problems_as(&full, names::qualified_name(&full));
        let expression = annotation.field("valueExpression");
        match expression.text().trim() {
            "" => expression.required("valueExpression is not specified"),
            long if long.len() > AUDIT_EXPRESSION_BYTES_MAX => {
                expression.required(&format!("must not exceed {AUDIT_EXPRESSION_BYTES_MAX} bytes in length"));
            }
            trimmed => expressions::check_text_or_null(expression, trimmed, variables),
        }
        if !seen.insert(key.text()) {
            key.duplicate();
        }
    }
}

fn validate_validation<'a>(validation: Field<'a>, variables: Variables<'a>) {
    let expression = validation.field("expression");
    match expression.text().trim() {
        "" => expression.required("expression is not specified"),
        _ => expressions::check_condition(expression, expression.text(), variables),
    }
    let message_expression = validation.field("messageExpression");
    match message_expression.text() {
        "" => {}
        text if text.trim().is_empty() => message_expression.invalid("must be non-empty if specified"),
        text => expressions::check_text(message_expression, text, variables),
    }
    let message = validation.field("message");
    if !message.is_empty() && message.text().trim().is_empty() {
        message.invalid("must be non-empty if specified");
    } else if message.text().trim().contains(['\n', '\r']) {
        message.invalid("must not contain line breaks");
    }
    validation.field("reason").optional_one_of(REASONS);
}

fn refuse_immutable_operations(constraints: Field<'_>) {
    let at = constraints.path(&["resourceRules", "operations"]);
    for operation in constraints.field("resourceRules").items().flat_map(|rule| rule.field("operations").texts()) {
        if !MUTATING_OPERATIONS.contains(&operation) {
            at.push(FieldError::not_supported(at.field_path(), operation, MUTATING_OPERATIONS));
        }
    }
}

fn validate_mutations<'a>(spec: Field<'a>, variables: Variables<'a>) {
    let mutations = spec.field("mutations");
    mutations.require_because("mutations must contain at least one item");
    for mutation in mutations.items() {
        let (wanted, other, name) = match mutation.field("patchType").text() {
            "JSONPatch" => ("jsonPatch", "applyConfiguration", "JSONPatch"),
            "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", "ApplyConfiguration"),
            _ => {
                mutation.field("patchType").required_one_of(&["ApplyConfiguration", "JSONPatch"]);
                continue;
            }
        };
        let patch = mutation.field(wanted);
        if patch.is_set() {
            let expression = patch.field("expression");
            match expression.text().trim() {
                "" => expression.required(""),
                trimmed if name == "JSONPatch" => expressions::check_json_patch(expression, trimmed, variables),
                trimmed => expressions::check_apply_configuration(expression, trimmed, variables),
            }
        } else {
            patch.required(&format!("must be specified when patchType is {name}"));
        }
        if mutation.field(other).is_set() {
            mutation
                .field(other)
                .invalid_as(format!("{{{other}}}"), format!("must not be specified when patchType is {name}"));
        }
    }
    spec.field("reinvocationPolicy").required_one_of(REINVOCATION_POLICIES);
}

pub(super) struct Binding {
    pub(super) mutating: bool,
}

impl Strategy for Binding {
    fn default(&self, binding: &mut Object) {
        if let Some(spec) = map_at(binding.as_map_mut(), "spec") {
            rules::default_match_resources(spec, "matchResources");
        }
    }

    fn validate_create(&self, binding: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let spec = report.field(binding, "spec");
        let policy = spec.field("policyName");
        if policy.require() {
            policy.dns1123_subdomain();
        }
        validate_param_ref(spec.field("paramRef"));
        rules::validate_match_resources(spec.field("matchResources"));
        if !self.mutating {
            validate_actions(spec.field("validationActions"));
        }
        report.finish()
    }

    fn counts_generation(&self) -> bool {
        true
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }
}

fn validate_param_ref(param: Field<'_>) {
    if !param.is_set() {
        return;
    }
    const EXCLUSIVE: &str = "name and selector are mutually exclusive";
    let (name, selector) = (param.field("name"), param.field("selector"));
    if !name.is_empty() {
        name.problems(names::path_segment(name.text()));
        if selector.is_set() {
            name.forbidden(EXCLUSIVE);
        }
    }
    if selector.is_set() {
        selector.label_selector();
        if !name.is_empty() {
            selector.forbidden(EXCLUSIVE);
        }
    } else if name.is_empty() {
        param.required("one of name or selector must be specified");
    }
    param.field("parameterNotFoundAction").required_one_of(&["Deny", "Allow"]);
}

fn validate_actions(actions: Field<'_>) {
    let mut seen = BTreeSet::new();
    for action in actions.items() {
        action.one_of(&["Audit", "Deny", "Warn"]);
        if !seen.insert(action.text()) {
            action.duplicate();
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let shown: Vec<Value> = actions.texts().map(Value::from).collect();
        actions.invalid_as(
            shown,
            "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)",
        );
    }
    actions.require_because("at least one validation action is required");
}
