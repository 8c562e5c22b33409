//! Compiles the rules of a schema and checks them as Kubernetes does when a CRD is written.

use super::cost::{RULE_COST_LIMIT, TotalCost, too_expensive};
use super::{CompiledRules, Rule, RuleNode, RuleText, field_path};
use crate::env::Env;
use crate::program::Program;
use crate::schema::{Decl, REQUEST_BYTES_MAX, Schema, type_of_schema};
use crate::types::Type;
use object::{FieldError, FieldPath};
use serde_json::Value as Json;
use std::sync::Arc;

/// The name of object types in error messages; callers must not depend on it.
const SELF_TYPE: &str = "selfType1";
const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

impl CompiledRules {
    /// Compiles all rules of a schema given as JSON. Errors have paths below `path`, the schema's position in its
    /// CRD. Invalid rules stay, and fail every object they are applied to.
    pub fn compile(schema: &Json, path: &FieldPath) -> (Self, Vec<FieldError>) {
        Self::compile_with(Compiler::default(), schema, path)
    }

    /// Like `compile`, but accepts single rules whose estimated cost exceeds the limit: a stored schema keeps its rules,
    /// even if estimates have grown since.
    pub fn compile_stored(schema: &Json, path: &FieldPath) -> (Self, Vec<FieldError>) {
        Self::compile_with(Compiler { accepts_expensive_rules: true, ..Compiler::default() }, schema, path)
    }

    fn compile_with(mut compiler: Compiler, schema: &Json, path: &FieldPath) -> (Self, Vec<FieldError>) {
        let root_schema = Schema::from_json(schema).into_resource_root().complete_embedded();
        let place = SchemaPosition { path: path.clone(), cardinality: Some(1), uncorrelatable: None };
        let root = compiler.node(schema, &root_schema, &place).or_none().filter(|_| has_rules(schema));
        let mut errors = compiler.schema_errors;
        errors.extend(compiler.rule_errors);
        errors.extend(compiler.total.errors(path));
        (Self { schema: root_schema, root }, errors)
    }
}

/// Reports whether there are rules outside `allOf`; rules inside it run only together with others.
fn has_rules(schema: &Json) -> bool {
    let below = |key: &str| schema.get(key).is_some_and(|child| child.is_object() && has_rules(child));
    schema.get("x-kubernetes-validations").and_then(Json::as_array).is_some_and(|rules| !rules.is_empty())
        || below("items")
        || below("additionalProperties")
        || schema.get("properties").and_then(Json::as_object).is_some_and(|all| all.values().any(has_rules))
}

/// The compiler's position in the schema.
struct SchemaPosition {
    path: FieldPath,
    /// Maximum number of values at this position; `None` if unbounded.
    cardinality: Option<u64>,
    /// The list or map above, if any, whose parts cannot be correlated between versions.
    uncorrelatable: Option<FieldPath>,
}

impl SchemaPosition {
    fn below(&self, path: FieldPath, schema: &Schema, correlatable: bool) -> Self {
        let factor = match schema.kind.as_str() {
            "object" if schema.additional.is_some() => schema.max_properties(),
            "array" => schema.max_items(),
            _ => Some(1),
        };
        let cardinality = self.cardinality.zip(factor).map(|(count, factor)| count.saturating_mul(factor));
        let blocked = (!correlatable).then(|| self.path.clone());
        Self { path, cardinality, uncorrelatable: self.uncorrelatable.clone().or(blocked) }
    }
}

#[derive(Default)]
struct Compiler {
    schema_errors: Vec<FieldError>,
    rule_errors: Vec<FieldError>,
    total: TotalCost,
    accepts_expensive_rules: bool,
}

impl Compiler {
    fn node(&mut self, json: &Json, schema: &Schema, place: &SchemaPosition) -> RuleNode {
        let mut node = RuleNode::default();
        let schema_errors_before = self.schema_errors.len();
        if let (Some(child), Some(child_schema)) = (json.get("additionalProperties"), schema.additional.as_deref()) {
            let below = place.below(place.path.child("additionalProperties"), schema, true);
            node.additional = self.node(child, child_schema, &below).or_none().map(Box::new);
        }
        for (name, child) in json.get("properties").and_then(Json::as_object).into_iter().flatten() {
            let Some(child_schema) = schema.properties.as_ref().and_then(|all| all.get(name)) else { continue };
            let correlatable = super::correlate::map_is_correlatable(schema);
            let below = place.below(place.path.child("properties").key(name), schema, correlatable);
            if let Some(child) = self.node(child, child_schema, &below).or_none() {
                node.properties.insert(name.clone(), child);
            }
        }
        for branch in json.get("allOf").and_then(Json::as_array).into_iter().flatten() {
            // Rules in branches run, but are not checked when the schema is written.
            let mut unjudged = Compiler::default();
            node.all_of.extend(unjudged.node(branch, schema, place).or_none());
        }
        if let (Some(child), Some(child_schema)) = (json.get("items"), schema.items.as_deref()) {
            let correlatable = schema.list_type.as_deref() == Some("map");
            let below = place.below(place.path.child("items"), schema, correlatable);
            node.items = self.node(child, child_schema, &below).or_none().map(Box::new);
        }
        let rules = json.get("x-kubernetes-validations").and_then(Json::as_array);
        let texts: Vec<RuleText> = rules.into_iter().flatten().map(RuleText::from_json).collect();
        if !texts.is_empty() {
            let path = place.path.child("x-kubernetes-validations");
            for (index, text) in texts.iter().enumerate() {
                self.check_text(text, schema, &path.index(index));
            }
            let judged = self.schema_errors.len() == schema_errors_before;
            self.rules(&mut node, texts, schema, place, judged);
        }
        node
    }

    /// Checks of a rule that need no compiler.
    fn check_text(&mut self, text: &RuleText, schema: &Schema, path: &FieldPath) {
        let has_line_breaks = |text: &str| text.contains(['\n', '\r']);
        let is_blank = |text: &str| !text.is_empty() && text.trim().is_empty();
        let message = || path.child("message");
        if text.rule.trim().is_empty() {
            self.schema_errors.push(FieldError::required(path.child("rule"), "rule is not specified"));
        } else if is_blank(&text.message) {
            let error = FieldError::invalid(message(), text.message.as_str(), "must be non-empty if specified");
            self.schema_errors.push(error);
        } else if has_line_breaks(text.message.trim()) {
            let error = FieldError::invalid(message(), text.message.as_str(), "must not contain line breaks");
            self.schema_errors.push(error);
        } else if has_line_breaks(text.rule.trim()) && text.message.trim().is_empty() {
            let complaint = "message must be specified if rule contains line breaks";
            self.schema_errors.push(FieldError::required(message(), complaint));
        }
        if is_blank(&text.message_expression) {
            let complaint = "messageExpression must be non-empty if specified";
            self.schema_errors.push(FieldError::required(path.child("messageExpression"), complaint));
        }
        if let Some(reason) = text.reason.as_deref().filter(|reason| !REASONS.contains(reason)) {
            self.schema_errors.push(FieldError::not_supported(path.child("reason"), reason, &REASONS));
        }
        let invalid = |complaint| FieldError::invalid(path.child("fieldPath"), text.field_path.as_str(), complaint);
        if is_blank(&text.field_path) {
            self.schema_errors.push(invalid("must be non-empty if specified"));
        }
        if has_line_breaks(&text.field_path) {
            self.schema_errors.push(invalid("must not contain line breaks"));
        }
        if !text.field_path.is_empty() && field_path::normalize(&text.field_path, schema).is_none() {
            self.schema_errors.push(invalid("must be a valid path"));
        }
    }

    fn rules(
        &mut self,
        node: &mut RuleNode,
        texts: Vec<RuleText>,
        schema: &Schema,
        place: &SchemaPosition,
        judged: bool,
    ) {
        let path = place.path.child("x-kubernetes-validations");
        let Some(decl) = type_of_schema(schema, SELF_TYPE) else {
            let complaint = "internal error: failed to construct type information for x-kubernetes-validations rules: \
                             unable to convert structural schema to CEL declarations";
            self.rule_errors.push(FieldError::internal(path, complaint));
            node.untyped = true;
            node.rules = texts.into_iter().map(|text| blank_rule(text, schema)).collect();
            return;
        };
        let fits = REQUEST_BYTES_MAX / (decl.min_serialized_size + 1);
        let cardinality = place.cardinality.unwrap_or(fits);
        for (index, text) in texts.into_iter().enumerate() {
            let compiled = compile_rule(text, schema, &decl);
            if judged {
                self.judge(&compiled, cardinality, &path.index(index), place);
            }
            node.rules.push(compiled.rule);
        }
    }

    /// Checks of a compiled rule, in Kubernetes' order.
    fn judge(&mut self, compiled: &CompiledRule, cardinality: u64, path: &FieldPath, place: &SchemaPosition) {
        let text = &compiled.rule.text;
        let program = compiled.rule.program.as_ref().and_then(|program| program.as_ref().ok());
        let cost = program.map_or(0, |program| program.static_cost().max.saturating_mul(cardinality));
        if cost > RULE_COST_LIMIT && !self.accepts_expensive_rules {
            let complaint = too_expensive("estimated rule cost", cost, RULE_COST_LIMIT);
            self.rule_errors.push(FieldError::forbidden(path.child("rule"), complaint));
        }
        self.total.observe(path.child("rule"), cost);
        if let Some(Err(error)) = &compiled.rule.program {
            self.rule_errors.push(refused(path.child("rule"), text, error));
        }
        match &compiled.message_error {
            Some(error) => self.rule_errors.push(refused(path.child("messageExpression"), text, error)),
            None => {
                if let Some(program) = &compiled.rule.message_program {
                    let cost = program.static_cost().max;
                    if cost > RULE_COST_LIMIT && !self.accepts_expensive_rules {
                        let complaint = too_expensive("estimated messageExpression cost", cost, RULE_COST_LIMIT);
                        self.rule_errors.push(FieldError::forbidden(path.child("messageExpression"), complaint));
                    }
                    self.total.observe(path.child("messageExpression"), cost);
                }
            }
        }
        if compiled.rule.uses_old_self {
            if let Some(within) = &place.uncorrelatable {
                let complaint =
                    format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {within}");
                self.rule_errors.push(FieldError::invalid(path.child("rule"), text.rule.as_str(), complaint));
            }
        } else if let Some(flag) = text.optional_old_self {
            let complaint = "may not be set if oldSelf is not used in rule";
            self.rule_errors.push(FieldError::invalid(path.child("optionalOldSelf"), flag, complaint));
        }
    }
}

/// The invalid value is the whole rule, printed before the error.
fn refused(path: FieldPath, text: &RuleText, error: &str) -> FieldError {
    let mut refused = FieldError::invalid(path, Json::Null, format!("{}: {error}", text.shown()));
    refused.value = None;
    refused
}

struct CompiledRule {
    rule: Rule,
    message_error: Option<String>,
}

fn blank_rule(text: RuleText, schema: &Schema) -> Rule {
    let field_path = match text.field_path.as_str() {
        "" => None,
        path => field_path::normalize(path, schema).map(|path| path.as_str().to_owned()),
    };
    Rule { text, program: None, message_program: None, field_path, uses_old_self: false }
}

fn compile_rule(text: RuleText, schema: &Schema, decl: &Arc<Decl>) -> CompiledRule {
    let mut rule = blank_rule(text, schema);
    let mut message_error = None;
    if rule.text.rule.trim().is_empty() {
        return CompiledRule { rule, message_error };
    }
    let ty = decl.ty.clone();
    let old_type = if rule.text.is_optional() { Type::optional(ty.clone()) } else { ty.clone() };
    let env = Env::builder().variable("self", ty).variable("oldSelf", old_type).size_root(decl.clone()).build();
    let program = compile_expression(&env, &rule.text.rule, &Type::Bool);
    if let Ok(program) = &program {
        rule.uses_old_self = program.uses_variable("oldSelf");
        if !rule.text.message_expression.is_empty() {
            match compile_expression(&env, &rule.text.message_expression, &Type::String) {
                Ok(program) => rule.message_program = Some(program),
                Err(error) => message_error = Some(error),
            }
        }
    }
    rule.program = Some(program);
    CompiledRule { rule, message_error }
}

fn compile_expression(env: &Env, expression: &str, wanted: &Type) -> Result<Program, String> {
    let is_rule = *wanted == Type::Bool;
    let program = env.compile(expression).map_err(|error| {
        let (shown, prefix) = (error.to_string(), if is_rule { "" } else { "messageExpression " });
        match error.is_program_failure() {
            true => format!("{prefix}{}", if is_rule { &shown } else { shown.trim_start_matches("program ") }),
            false => format!("{prefix}compilation failed: {shown}"),
        }
    })?;
    match (program.result_type() == wanted, is_rule) {
        (true, _) => Ok(program),
        (false, true) => Err("cel expression must evaluate to a bool".to_owned()),
        (false, false) => Err("messageExpression must evaluate to a string".to_owned()),
    }
}
