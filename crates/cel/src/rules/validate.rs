//! Applies compiled rules to an object, with the old object for transition rules.

use super::correlate::{FormerItems, Ratchet, map_is_correlatable};
use super::{CompiledRules, Rule, RuleNode};
use crate::program::{Activation, Budget, Program};
use crate::schema::Schema;
use crate::value::{EvalError, Value};
use object::{FieldError, FieldErrorKind, FieldPath};
use serde_json::Value as Json;

/// Maximum length of a message expression's result.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

/// The result of a validation.
#[derive(Debug, Default)]
pub struct Validation {
    pub errors: Vec<FieldError>,
    /// Rules violated by unchanged parts of the object: tolerated, but reported as warnings.
    pub warnings: Vec<String>,
}

impl CompiledRules {
    /// Applies the rules to an object at `path`. `old` is the object being replaced, if any: rules that read
    /// `oldSelf` run only where an old value is found, unless they take it as optional.
    pub fn validate(&self, path: &FieldPath, new: &Json, old: Option<&Json>, budget: &mut Budget) -> Validation {
        let mut run = Run { budget, found: Validation::default() };
        if let Some(root) = &self.root {
            let old = old.filter(|old| !old.is_null());
            let ratchet = Ratchet::start(new, old, &self.schema);
            // An exhausted budget ends the walk and is reported in the errors.
            let _ = run.node(root, &self.schema, path, RuleTarget { new, old, ratchet });
        }
        run.found
    }
}

/// A part of the object with its old value.
#[derive(Clone, Copy)]
struct RuleTarget<'a> {
    new: &'a Json,
    old: Option<&'a Json>,
    ratchet: Ratchet<'a>,
}

/// The budget is exhausted: no further rules may run.
struct Exhausted;

type Walked = Result<(), Exhausted>;

struct Run<'r> {
    budget: &'r mut Budget,
    found: Validation,
}

impl Run<'_> {
    fn node(&mut self, node: &RuleNode, schema: &Schema, path: &FieldPath, subject: RuleTarget) -> Walked {
        if subject.new.is_null() {
            return Ok(());
        }
        let subject = RuleTarget { old: subject.old.filter(|old| !old.is_null()), ..subject };
        self.rules(node, schema, path, subject)?;
        for branch in &node.all_of {
            self.node(branch, schema, path, RuleTarget { ratchet: subject.ratchet.in_all_of(), ..subject })?;
        }
        match subject.new {
            Json::Array(items) => self.items(node, schema, path, subject, items),
            Json::Object(_) => self.fields(node, schema, path, subject),
            _ => Ok(()),
        }
    }

    fn items(
        &mut self,
        node: &RuleNode,
        schema: &Schema,
        path: &FieldPath,
        subject: RuleTarget,
        items: &[Json],
    ) -> Walked {
        let (Some(child), Some(child_schema)) = (&node.items, schema.items.as_deref()) else { return Ok(()) };
        let former = FormerItems::of(schema, subject.old.and_then(Json::as_array));
        for (index, item) in items.iter().enumerate() {
            let old = former.find(item);
            let ratchet = subject.ratchet.at_item(item, old);
            self.node(child, child_schema, &path.index(index), RuleTarget { new: item, old, ratchet })?;
        }
        Ok(())
    }

    fn fields(&mut self, node: &RuleNode, schema: &Schema, path: &FieldPath, subject: RuleTarget) -> Walked {
        let old_fields = subject.old.and_then(Json::as_object).filter(|_| map_is_correlatable(schema));
        let below = |name: &str, new| RuleTarget {
            new,
            old: old_fields.and_then(|fields| fields.get(name)),
            ratchet: subject.ratchet.at_field(name),
        };
        let fields = subject.new.as_object().into_iter().flatten();
        if let (Some(child), Some(child_schema)) = (&node.additional, schema.additional.as_deref()) {
            for (name, value) in fields.clone() {
                self.node(child, child_schema, &path.key(name), below(name, value))?;
            }
        }
        for (name, value) in fields {
            let child_schema = schema.properties.as_ref().and_then(|properties| properties.get(name));
            if let (Some(child), Some(child_schema)) = (node.properties.get(name), child_schema) {
                self.node(child, child_schema, &path.child(name), below(name, value))?;
            }
        }
        Ok(())
    }

    fn rules(&mut self, node: &RuleNode, schema: &Schema, path: &FieldPath, subject: RuleTarget) -> Walked {
        if node.rules.is_empty() {
            return Ok(());
        }
        if node.untyped {
            let complaint =
                "rule compiler initialization error: failed to convert to declType for CEL validation rules";
            self.fail(path, schema, complaint.to_owned());
            return Ok(());
        }
        if self.budget.remaining() <= 0 {
            return Err(self.exhausted(path, schema, EvalError::OutOfBudget.to_string()));
        }
        let typed = |data| Value::from_json_with_schema(data, schema);
        let plain = Activation::new().with_result("self", typed(subject.new));
        let optional_old = subject.old.map_or(Ok(Value::Optional(None)), |old| typed(old).map(Value::some));
        let optional = plain.clone().with_result("oldSelf", optional_old);
        let plain = match subject.old {
            Some(old) => plain.with_result("oldSelf", typed(old)),
            None => plain,
        };
        for rule in &node.rules {
            let variables = if rule.text.is_optional() { &optional } else { &plain };
            if rule.uses_old_self && subject.old.is_none() && !rule.text.is_optional() {
                continue;
            }
            match &rule.program {
                None => {}
                Some(Err(error)) => self.fail(path, schema, format!("rule compile error: {error}")),
                Some(Ok(program)) => {
                    let holds = self.holds(program, rule, variables, path, schema)?;
                    if !holds {
                        self.broken(rule, &plain, path, schema, subject)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn fail(&mut self, path: &FieldPath, schema: &Schema, complaint: String) {
        self.found.errors.push(FieldError::invalid(path.clone(), schema.kind.as_str(), complaint));
    }

    fn exhausted(&mut self, path: &FieldPath, schema: &Schema, complaint: String) -> Exhausted {
        self.budget.exhaust();
        self.fail(path, schema, complaint);
        Exhausted
    }

    /// Evaluates a rule; evaluation errors are reported here and count as passing.
    fn holds(
        &mut self,
        program: &Program,
        rule: &Rule,
        variables: &Activation,
        path: &FieldPath,
        schema: &Schema,
    ) -> Result<bool, Exhausted> {
        let name = rule.text.name();
        match program.eval(variables, self.budget) {
            Ok(value) => Ok(matches!(value, Value::Bool(true))),
            Err(error @ EvalError::OutOfBudget) => Err(self.exhausted(path, schema, error.to_string())),
            Err(error @ EvalError::CostLimit) => {
                let complaint = format!(
                    "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {name}"
                );
                Err(self.exhausted(path, schema, complaint))
            }
            Err(EvalError::NoSuchOverload(text)) => {
                let complaint = format!(
                    "'{text}': call arguments did not match a supported operator, function or macro signature for rule: {name}"
                );
                self.fail(path, schema, complaint);
                Ok(true)
            }
            Err(error) => {
                self.fail(path, schema, format!("{error} evaluating rule: {name}"));
                Ok(true)
            }
        }
    }

    /// Reports a violated rule.
    fn broken(
        &mut self,
        rule: &Rule,
        variables: &Activation,
        path: &FieldPath,
        schema: &Schema,
        subject: RuleTarget,
    ) -> Walked {
        let path = match &rule.field_path {
            Some(below) => path.child(below),
            None => path.clone(),
        };
        let ratcheted = !rule.uses_old_self && subject.ratchet.is_unchanged();
        let message = match &rule.message_program {
            None => Ok(None),
            Some(program) => self.message(program, variables, &rule.text.message_expression),
        };
        match message {
            Ok(message) => {
                let detail = message.unwrap_or_else(|| rule.text.default_message());
                let error = broken_error(rule.text.error_kind(), path, schema, subject.new, detail);
                self.report(error, ratcheted);
                Ok(())
            }
            Err(complaint) => {
                self.budget.exhaust();
                self.report(FieldError::invalid(path, schema.kind.as_str(), complaint), ratcheted);
                Err(Exhausted)
            }
        }
    }

    fn report(&mut self, error: FieldError, ratcheted: bool) {
        if ratcheted {
            self.found.warnings.push(error.to_string());
        } else {
            self.found.errors.push(error);
        }
    }

    /// The result of a message expression, `None` if it is unusable; an error ends the walk.
    fn message(&mut self, program: &Program, variables: &Activation, source: &str) -> Result<Option<String>, String> {
        match program.eval(variables, self.budget) {
            Ok(Value::String(text)) => {
                let text = text.trim();
                let usable = !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains('\n');
                Ok(usable.then(|| text.to_owned()))
            }
            Err(EvalError::OutOfBudget) => {
                Err("messageExpression evaluation failed due to running out of cost budget, \
                                                no further validation rules will be run"
                    .to_owned())
            }
            Err(EvalError::CostLimit) => Err(format!(
                "no further validation rules will be run due to call cost exceeds limit for messageExpression: {source:?}"
            )),
            _ => Ok(None),
        }
    }
}

/// Whole objects and lists are not repeated in the error.
fn broken_error(kind: FieldErrorKind, path: FieldPath, schema: &Schema, value: &Json, detail: String) -> FieldError {
    let shown = (!matches!(schema.kind.as_str(), "object" | "array")).then(|| value.clone());
    match kind {
        FieldErrorKind::Forbidden => FieldError::forbidden(path, detail),
        FieldErrorKind::Required => FieldError::required(path, detail),
        FieldErrorKind::Duplicate => FieldError { kind, path, value: shown, detail: String::new() },
        _ => FieldError { kind, path, value: shown, detail },
    }
}
