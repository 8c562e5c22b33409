//! One policy applied to one write with one set of parameters: pure, given what it is to see.

use std::sync::Arc;

use cel::{Activation, Budget, Value};
use serde_json::{Map, Value as Json};

use super::policy::{Policy, Validation};
use crate::admission::dynamic::conditions::{Expression, Failure, Rights, Shown, map};
use crate::admission::dynamic::facts::Facts;

/// Longer messages from expressions are not shown.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

/// The input of an evaluation.
pub struct Subject<'a> {
    pub facts: &'a Facts<'a>,
    pub shown: Shown<'a>,
    pub params: Option<&'a Map<String, Json>>,
    pub rights: Option<Arc<Rights>>,
}

/// A validation that does not let the write pass, by its index.
#[derive(Debug, PartialEq, Eq)]
pub struct Denial {
    pub index: usize,
    pub message: String,
    pub reason: &'static str,
}

pub enum Annotation {
    Publish { key: String, value: String },
    Failed(String),
}

#[derive(Default)]
pub struct Outcome {
    pub denials: Vec<Denial>,
    pub annotations: Vec<Annotation>,
}

impl<'a> Subject<'a> {
    fn activation(&self, policy: &Policy) -> Activation<'a> {
        self.shown
            .activation()
            .with("params", map(self.params))
            .with_composed("variables", policy.base.variables.clone())
    }

    fn with_rights(&self, policy: &Policy) -> Activation<'a> {
        let variables = self.activation(policy);
        match &self.rights {
            Some(rights) => rights.give(self.facts, variables),
            None => variables,
        }
    }
}

pub fn evaluate(policy: &Policy, subject: &Subject<'_>) -> Outcome {
    if !policy.base.conditions.is_empty() {
        match policy.base.conditions.hold(&subject.with_rights(policy)) {
            Ok(true) => {}
            Ok(false) => return Outcome::default(),
            Err(problem) => return Outcome::failed(policy, problem),
        }
    }
    let mut outcome = match validate(policy, subject) {
        Ok(denials) => Outcome { denials, annotations: Vec::new() },
        Err(problem) => return Outcome::failed(policy, problem),
    };
    match annotate(policy, subject) {
        Ok(annotations) => outcome.annotations = annotations,
        Err(problem) => return Outcome::failed(policy, problem),
    }
    outcome
}

impl Outcome {
    /// The policy as a whole could not be evaluated.
    fn failed(policy: &Policy, message: String) -> Self {
        let denials = if policy.base.fails_closed { vec![Denial::of_failure(0, message)] } else { Vec::new() };
        Self { denials, annotations: Vec::new() }
    }
}

impl Denial {
    fn of_failure(index: usize, message: String) -> Self {
        Self { index, message, reason: "Invalid" }
    }
}

fn validate(policy: &Policy, subject: &Subject<'_>) -> Result<Vec<Denial>, String> {
    let variables = subject.with_rights(policy);
    let mut budget = Budget::for_validation();
    let mut broken: Vec<(usize, &Validation)> = Vec::new();
    let mut denials = Vec::new();
    for (index, validation) in policy.validations.iter().enumerate() {
        match validation.expression.eval(&variables, &mut budget) {
            Ok(Value::Bool(true)) => {}
            Ok(_) => broken.push((index, validation)),
            Err(Failure::Expression(problem)) if policy.base.fails_closed => {
                denials.push(Denial::of_failure(index, problem));
            }
            Err(Failure::Expression(_)) => {}
            Err(Failure::Budget(problem)) => return Err(problem),
        }
    }
    // Messages are paid from what is left, and may not depend on what the caller may do.
    let variables = subject.activation(policy);
    for (index, validation) in broken {
        match message(validation, &variables, &mut budget) {
            Ok(message) => denials.push(Denial { index, message, reason: validation.reason }),
            Err(problem) if policy.base.fails_closed => {
                denials.push(Denial::of_failure(index, format!("failed messageExpression: {problem}")));
            }
            Err(_) => {}
        }
    }
    denials.sort_by_key(|denial| denial.index);
    Ok(denials)
}

/// Returns the message for the client: the computed one if it is usable, else the fixed one, else the expression.
fn message(validation: &Validation, variables: &Activation<'_>, budget: &mut Budget) -> Result<String, String> {
    let computed = match &validation.message_expression {
        None => None,
        Some(expression) => match expression.eval(variables, budget) {
            Ok(Value::String(text)) => Some(text.trim().to_owned()),
            Ok(_) | Err(Failure::Expression(_)) => None,
            Err(Failure::Budget(problem)) => return Err(problem),
        },
    };
    let usable = |text: &String| !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains('\n');
    let fixed = validation.message.trim();
    Ok(computed.filter(usable).unwrap_or_else(|| match fixed {
        "" => format!("failed expression: {}", validation.expression.text().trim()),
        fixed => fixed.to_owned(),
    }))
}

fn annotate(policy: &Policy, subject: &Subject<'_>) -> Result<Vec<Annotation>, String> {
    let variables = subject.activation(policy);
    let mut budget = Budget::for_validation();
    let mut annotations = Vec::new();
    for (key, expression) in &policy.annotations {
        match expression.eval(&variables, &mut budget) {
            Ok(Value::String(text)) if text.trim().is_empty() => {}
            Ok(Value::String(text)) => {
                annotations.push(Annotation::Publish { key: key.clone(), value: text.trim().to_owned() });
            }
            Ok(Value::Null) => {}
            Ok(other) => annotations.push(Annotation::Failed(unsupported(expression, &other))),
            Err(Failure::Expression(problem)) if policy.base.fails_closed => {
                annotations.push(Annotation::Failed(problem))
            }
            Err(Failure::Expression(_)) => {}
            Err(Failure::Budget(problem)) => return Err(problem),
        }
    }
    Ok(annotations)
}

fn unsupported(expression: &Expression, value: &Value<'_>) -> String {
    format!(
        "valueExpression '{}' resulted in unsupported return type: {}. Return type must be either string or null.",
        expression.text(),
        value.type_of()
    )
}
