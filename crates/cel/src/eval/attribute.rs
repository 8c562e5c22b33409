//! Resolves selections in data.

use super::{Evaluator, Slot};
use crate::plan::{Attribute, By, PlanNode, Root};
use crate::program::{Budget, Program};
use crate::value::{EvalError, Evaluated, Opaque, Value, missing_key};

impl<'p, 'a> Evaluator<'p, 'a> {
    pub(super) fn attribute(&mut self, attribute: &'p Attribute) -> Evaluated<'a> {
        let resolved = self.resolve(attribute);
        // Presence tests and conditionals are free themselves; their parts are charged.
        if !attribute.test_only && !matches!(attribute.root, Root::Conditional { .. }) {
            self.charge(1)?;
        }
        resolved
    }

    fn resolve(&mut self, attribute: &'p Attribute) -> Evaluated<'a> {
        let mut qualifiers = attribute.qualifiers.as_slice();
        let mut object = match (&attribute.root, qualifiers) {
            (Root::Variable(name), [first, rest @ ..]) => match self.composed(name, &first.by) {
                Some((field, program)) => {
                    qualifiers = rest;
                    self.charge(1)?;
                    if attribute.test_only && rest.is_empty() {
                        return Ok(Value::Bool(true));
                    }
                    self.compute(field, program)?
                }
                None => self.variable(name)?,
            },
            (Root::Variable(name), []) => self.variable(name)?,
            (Root::Local(slot), _) => self.local(*slot)?,
            (Root::Operand(node), _) => self.eval(node)?,
            (Root::Conditional { condition, then, otherwise }, _) => match self.eval(condition)? {
                Value::Bool(true) => self.branch(then)?,
                Value::Bool(false) => self.branch(otherwise)?,
                _ => return Err(EvalError::no_such_overload()),
            },
        };
        let mut is_optional = false;
        for (index, qualifier) in qualifiers.iter().enumerate() {
            if let Value::Optional(inner) = &object {
                let Some(inner) = inner else { return Ok(absent(attribute.test_only)) };
                is_optional = true;
                object = (**inner).clone();
            }
            is_optional = is_optional || qualifier.optional;
            let is_test = attribute.test_only && index + 1 == qualifiers.len();
            let found = self.qualify(&object, &qualifier.by, is_optional || is_test);
            // An optional step is charged only if it exists.
            let is_charged = match &found {
                Ok(found) => found.is_some() || is_test,
                Err(_) => !is_optional,
            };
            if is_charged {
                self.charge(1)?;
            }
            match found? {
                Some(_) if is_test => return Ok(Value::Bool(true)),
                Some(value) => object = value,
                None => return Ok(absent(attribute.test_only)),
            }
        }
        Ok(if is_optional { Value::some(object) } else { object })
    }

    /// A branch of a conditional: an attribute there is resolved without being charged as one.
    fn branch(&mut self, node: &'p PlanNode) -> Evaluated<'a> {
        match node {
            PlanNode::Attribute(attribute) => self.resolve(attribute),
            other => self.eval(other),
        }
    }

    fn variable(&self, name: &str) -> Evaluated<'a> {
        let missing = || Err(EvalError::new(format!("no such attribute(s): {name}")));
        self.variables.value(name).unwrap_or_else(missing)
    }

    fn composed(&self, name: &str, by: &'p By) -> Option<(&'p str, &'p Program)> {
        let By::Field(field) = by else { return None };
        self.variables.composed(name, field).map(|program| (&**field, program))
    }

    /// The value of a composed variable: computed once, with a cost limit of its own.
    fn compute(&mut self, field: &str, program: &'p Program) -> Evaluated<'a> {
        if let Some(known) = self.variables.computed(field) {
            return known;
        }
        let budget = Budget::new(i64::MAX).per_call_limit(self.limit);
        let mut evaluator = Evaluator::new(program.plan(), self.variables, &budget);
        evaluator.interrupt = self.interrupt.clone();
        let result = evaluator.run().map_err(|error| match error {
            EvalError::Failed(text) | EvalError::NoSuchOverload(text) => {
                EvalError::Failed(format!("composited variable {field:?} fails to evaluate: {text}"))
            }
            other => other,
        });
        self.composed_cost = self.composed_cost.saturating_add(evaluator.cost());
        if result.as_ref().err().is_none_or(EvalError::is_absorbable) {
            self.variables.remember(field, result.clone());
        }
        result
    }

    pub(super) fn local(&mut self, slot: usize) -> Evaluated<'a> {
        match self.locals[slot].clone() {
            Slot::Ready(value) => value,
            Slot::Pending(node) => {
                let value = self.eval(node);
                self.locals[slot] = Slot::Ready(value.clone());
                value
            }
            Slot::Unset => Err(EvalError::new("no such attribute(s)")),
        }
    }

    /// One step into the data. `None` means absent, which is an error unless presence is being tested.
    fn qualify(
        &mut self,
        object: &Value<'a>,
        by: &'p By,
        tests_presence: bool,
    ) -> Result<Option<Value<'a>>, EvalError> {
        let key = match by {
            By::Field(name) => {
                if let Value::Map(map) = object
                    && let Some(value) = map.field(name)?
                {
                    return Ok(Some(value));
                }
                if let Value::Opaque(Opaque::Record(record)) = object
                    && let Some(value) = record.field(name)
                {
                    return Ok(Some(value.clone()));
                }
                Value::String(crate::value::Text::Shared(name.clone()))
            }
            By::Constant(value) => value.clone(),
            By::Computed(node) => self.branch(node)?,
        };
        let found = match object {
            Value::Map(_) if matches!(by, By::Field(_)) => None,
            Value::Map(map) => map.find(&key)?,
            Value::List(list) => {
                let index = list_index(&key)?;
                match usize::try_from(index).ok().and_then(|index| list.get(index)) {
                    Some(item) => Some(item?),
                    None if tests_presence => None,
                    None => return Err(EvalError::new(format!("index out of bounds: {index}"))),
                }
            }
            _ => None,
        };
        if found.is_none() && !tests_presence {
            return Err(missing_key(&key));
        }
        Ok(found)
    }
}

fn absent<'a>(test_only: bool) -> Value<'a> {
    if test_only { Value::Bool(false) } else { Value::Optional(None) }
}

fn list_index(key: &Value) -> Result<i64, EvalError> {
    let whole = match key {
        Value::Int(index) => Some(*index),
        Value::Uint(index) => i64::try_from(*index).ok(),
        Value::Double(index) if index.fract() == 0.0 && index.abs() < 9e18 => Some(*index as i64),
        Value::Double(index) => return Err(EvalError::new(format!("unsupported index value {index} in list"))),
        _ => None,
    };
    whole.ok_or_else(|| EvalError::new(format!("unsupported index type '{}' in list", key.type_name())))
}
