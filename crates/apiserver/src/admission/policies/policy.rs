//! Policies and their bindings, compiled.

use std::sync::Arc;

use cel::{Program, Type};
use kinds::strategies::admissionregistration::expressions::ExpressionScope;
use object::{GroupVersion, GroupVersionKind, Object};
use serde_json::Value;

use crate::admission::dynamic::Criteria;
use crate::admission::dynamic::conditions::{Conditions, Expression};

/// A policy's own variables, by name and in order.
type Variables = Vec<(String, Program)>;

/// The parts of policies that do not depend on what they do with a write.
pub struct PolicyBase {
    pub name: String,
    pub criteria: Criteria,
    /// The kind of the policy's parameters.
    pub param_kind: Option<GroupVersionKind>,
    pub fails_closed: bool,
    pub conditions: Conditions,
    pub variables: Variables,
    pub bindings: Vec<Binding>,
    pub asks_rights: bool,
    pub asks_namespace: bool,
}

pub struct Policy {
    pub base: PolicyBase,
    pub validations: Vec<Validation>,
    /// Keys and expressions of the values.
    pub annotations: Vec<(String, Expression)>,
}

pub struct Validation {
    pub expression: Expression,
    pub message: String,
    pub message_expression: Option<Expression>,
    pub reason: &'static str,
}

pub struct Binding {
    pub name: String,
    /// Absent when the binding is about all the policy is about.
    pub criteria: Option<Criteria>,
    /// `paramRef`, as it is written.
    pub param_ref: Option<Value>,
    pub actions: Vec<String>,
}

/// Policies in the order of their names.
pub fn compile(objects: &[Vec<Arc<Object>>]) -> Vec<Policy> {
    bound(objects).map(|(policy, bindings)| Policy::read(policy, bindings)).collect()
}

/// Policies with their bindings; one without a binding does nothing and is left out.
pub fn bound(objects: &[Vec<Arc<Object>>]) -> impl Iterator<Item = (&Object, Vec<Binding>)> {
    let (policies, bindings) = match objects {
        [policies, bindings] => (&policies[..], &bindings[..]),
        _ => (&[][..], &[][..]),
    };
    let bound = |policy: &Object| -> Vec<Binding> {
        let own = bindings.iter().filter(|binding| binding.str_at(&["spec", "policyName"]) == policy.name());
        own.map(|binding| Binding::read(binding)).collect()
    };
    policies.iter().map(move |policy| (&**policy, bound(policy))).filter(|(_, bindings)| !bindings.is_empty())
}

impl PolicyBase {
    /// Reads the common parts. Also returns the environment's scope and the types of the policy's own variables.
    pub fn read(policy: &Object, bindings: Vec<Binding>) -> (Self, ExpressionScope, Vec<(String, Type)>) {
        let spec = policy.get(&["spec"]).unwrap_or(&Value::Null);
        let param_kind = read_param_kind(&spec["paramKind"]);
        let scope = ExpressionScope { params: param_kind.is_some(), authorizer: true };
        let conditions = Conditions::compile(&scope.environment().build(), &spec["matchConditions"]);
        let (variables, known) = compile_variables(scope, &spec["variables"]);
        let base = Self {
            name: policy.name().to_owned(),
            criteria: Criteria::of_policy(&spec["matchConstraints"]),
            param_kind,
            fails_closed: spec["failurePolicy"] != "Ignore",
            conditions,
            variables,
            bindings,
            asks_rights: false,
            asks_namespace: false,
        };
        (base, scope, known)
    }

    /// Notes what the policy's expressions read besides the write: conditions, variables and these.
    pub fn note_reads<'e>(&mut self, expressions: impl Iterator<Item = &'e Expression> + Clone) {
        let reads = |names: &[&str]| {
            let reads_any = |expression: &Expression| names.iter().any(|name| expression.uses(name));
            names.iter().any(|name| self.variables.iter().any(|(_, program)| program.uses_variable(name)))
                || self.conditions.expressions().iter().any(reads_any)
                || expressions.clone().any(reads_any)
        };
        let (rights, namespace) = (reads(&["authorizer", "authorizer.requestResource"]), reads(&["namespaceObject"]));
        self.asks_rights = rights;
        self.asks_namespace = namespace;
    }
}

impl Policy {
    fn read(policy: &Object, bindings: Vec<Binding>) -> Self {
        let (mut base, scope, known) = PolicyBase::read(policy, bindings);
        let env = scope.with_variables(&known);
        let message_env = ExpressionScope { authorizer: false, ..scope }.with_variables(&known);
        let list = |key: &str| policy.items(&["spec", key]).iter();
        let validations = list("validations").map(|validation| Validation {
            expression: Expression::compile(&env, text(validation, "expression")),
            message: text(validation, "message").to_owned(),
            message_expression: Some(text(validation, "messageExpression"))
                .filter(|text| !text.is_empty())
                .map(|text| Expression::compile(&message_env, text)),
            reason: known_reason(text(validation, "reason")),
        });
        let validations: Vec<Validation> = validations.collect();
        let annotations = list("auditAnnotations").map(|annotation| {
            (text(annotation, "key").to_owned(), Expression::compile(&env, text(annotation, "valueExpression")))
        });
        let annotations: Vec<(String, Expression)> = annotations.collect();
        let messages = validations.iter().filter_map(|validation| validation.message_expression.as_ref());
        let own = validations.iter().map(|validation| &validation.expression);
        base.note_reads(own.chain(messages).chain(annotations.iter().map(|(_, expression)| expression)));
        Self { base, validations, annotations }
    }
}

impl Binding {
    fn read(binding: &Object) -> Self {
        let actions = binding.items(&["spec", "validationActions"]).iter();
        Self {
            name: binding.name().to_owned(),
            criteria: binding.get(&["spec", "matchResources"]).filter(|v| v.is_object()).map(Criteria::of_policy),
            param_ref: binding.get(&["spec", "paramRef"]).filter(|value| value.is_object()).cloned(),
            actions: actions.filter_map(Value::as_str).map(str::to_owned).collect(),
        }
    }
}

/// Each variable may use those before it.
fn compile_variables(scope: ExpressionScope, variables: &Value) -> (Variables, Vec<(String, Type)>) {
    let (mut programs, mut known) = (Variables::new(), Vec::new());
    for variable in variables.as_array().into_iter().flatten() {
        if let Ok(program) = scope.with_variables(&known).compile(text(variable, "expression")) {
            let name = text(variable, "name").to_owned();
            known.push((name.clone(), program.result_type().clone()));
            programs.push((name, program));
        }
    }
    (programs, known)
}

fn read_param_kind(kind: &Value) -> Option<GroupVersionKind> {
    let name = kind["kind"].as_str()?;
    Some(GroupVersion::parse(text(kind, "apiVersion"))?.kind(name))
}

pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn known_reason(reason: &str) -> &'static str {
    match reason {
        "Forbidden" => "Forbidden",
        "Unauthorized" => "Unauthorized",
        "RequestEntityTooLarge" => "RequestEntityTooLarge",
        _ => "Invalid",
    }
}
