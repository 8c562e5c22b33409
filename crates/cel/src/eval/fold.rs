//! Runs comprehensions.

use super::{Evaluator, Slot};
use crate::plan::{Attribute, Call, Fold, PlanNode, Root};
use crate::value::{EvalError, Evaluated, Items, List, ListKind, Map, Value};
use std::sync::Arc;

impl<'p, 'a> Evaluator<'p, 'a> {
    pub(super) fn fold(&mut self, fold: &'p Fold) -> Evaluated<'a> {
        let range = self.eval(&fold.range)?;
        self.locals[fold.slot] = Slot::Pending(&fold.accu_init);
        match &range {
            Value::List(list) => {
                for index in 0..list.len() {
                    let Some(item) = list.get(index) else { break };
                    let goes_on = if fold.two_variables {
                        self.iteration(fold, Ok(Value::Int(index as i64)), item)?
                    } else {
                        self.iteration(fold, item, Ok(Value::Null))?
                    };
                    if !goes_on {
                        break;
                    }
                }
            }
            Value::Map(map) => {
                for key in map.keys() {
                    let value = match fold.two_variables {
                        true => crate::value::get(map, &key),
                        false => Ok(Value::Null),
                    };
                    if !self.iteration(fold, Ok(key), value)? {
                        break;
                    }
                }
            }
            other if fold.two_variables => {
                let name = go_type(other);
                return Err(EvalError::new(format!("unsupported comprehension range type: {name}")));
            }
            other => {
                return Err(EvalError::new(format!("got '{}', expected iterable type", go_type(other))));
            }
        }
        let result = self.eval(&fold.result);
        self.locals[fold.slot] = Slot::Unset;
        result
    }

    /// One iteration of the loop; returns false if the condition ended it.
    fn iteration(&mut self, fold: &'p Fold, first: Evaluated<'a>, second: Evaluated<'a>) -> Result<bool, EvalError> {
        self.locals[fold.slot + 1] = Slot::Ready(first);
        if fold.two_variables {
            self.locals[fold.slot + 2] = Slot::Ready(second);
        }
        match self.eval(&fold.condition) {
            Ok(Value::Bool(false)) => return Ok(false),
            Err(error) if !error.is_absorbable() => return Err(error),
            _ => {}
        }
        // An error becomes the accumulator: a later iteration may still decide `all` and `exists`.
        if let Some(accumulated) = self.step(fold.slot, &fold.step)? {
            self.locals[fold.slot] = Slot::Ready(accumulated);
        }
        self.check_interrupt()?;
        Ok(true)
    }

    /// Evaluates the step; `None` if the accumulator was changed in place or stays the same.
    fn step(&mut self, slot: usize, node: &'p PlanNode) -> Result<Option<Evaluated<'a>>, EvalError> {
        match node {
            PlanNode::Attribute(Attribute {
                root: Root::Conditional { condition, then, otherwise },
                qualifiers,
                ..
            }) if qualifiers.is_empty() && is_local(otherwise, slot) => match self.operand(condition)? {
                Ok(Value::Bool(true)) => self.step(slot, then),
                Ok(Value::Bool(false)) => Ok(None),
                Ok(_) => Ok(Some(Err(EvalError::no_such_overload()))),
                Err(error) => Ok(Some(Err(error))),
            },
            PlanNode::Call(call) if call.function == "_+_" && is_local(&call.args[0], slot) => self.append(slot, call),
            PlanNode::Call(call) if call.function == "cel.@mapInsert" && is_local(&call.args[0], slot) => {
                self.insert(slot, call)
            }
            other => self.operand(other).map(Some),
        }
    }

    /// Takes the accumulator out of its slot so that it can be changed without copying it.
    fn take(&mut self, slot: usize) -> Result<Evaluated<'a>, EvalError> {
        let value = match self.local(slot) {
            Err(error) if !error.is_absorbable() => return Err(error),
            other => other,
        };
        self.locals[slot] = Slot::Unset;
        self.charge(1)?;
        Ok(value)
    }

    fn append(&mut self, slot: usize, call: &'p Call) -> Result<Option<Evaluated<'a>>, EvalError> {
        // The operand may read outer variables only, never the accumulator, so taking it first is safe.
        let accumulated = self.take(slot)?;
        let added = self.operand(&call.args[1])?;
        let result = match (accumulated, added) {
            (Ok(Value::List(List { items: Items::Made(mut items), kind: ListKind::Plain })), Ok(Value::List(more))) => {
                self.charge(1)?;
                let all = Arc::make_mut(&mut items);
                for item in more.iter() {
                    match item {
                        Ok(item) => all.push(item),
                        Err(error) => return Ok(Some(Err(error))),
                    }
                }
                Ok(Value::List(List { items: Items::Made(items), kind: ListKind::Plain }))
            }
            (Ok(left), Ok(right)) => {
                let args = [left, right];
                let context = crate::library::CallContext { call, limit: self.limit.saturating_sub(self.cost) };
                let result = (call.run)(&context, &args);
                self.charge(super::cost::call_cost(call, &args, result.as_ref().ok()))?;
                result
            }
            (Err(error), _) | (_, Err(error)) => {
                self.charge(1)?;
                Err(error)
            }
        };
        Ok(Some(result))
    }

    fn insert(&mut self, slot: usize, call: &'p Call) -> Result<Option<Evaluated<'a>>, EvalError> {
        let accumulated = self.take(slot)?;
        let mut args = Vec::with_capacity(2);
        for node in &call.args[1..] {
            match self.operand(node)? {
                Ok(value) => args.push(value),
                Err(error) => return Ok(Some(Err(accumulated.err().unwrap_or(error)))),
            }
        }
        self.charge(1)?;
        let mut entries = match accumulated {
            Ok(Value::Map(Map::Made(entries))) => entries,
            Ok(_) => return Ok(Some(Err(EvalError::no_such_overload()))),
            Err(error) => return Ok(Some(Err(error))),
        };
        let inserted = crate::library::insert_all(Arc::make_mut(&mut entries), args);
        Ok(Some(inserted.map(|()| Value::Map(Map::Made(entries)))))
    }
}

/// The node is only the local variable in the slot.
fn is_local(node: &PlanNode, slot: usize) -> bool {
    matches!(node, PlanNode::Attribute(Attribute { root: Root::Local(local), qualifiers, test_only: false })
        if *local == slot && qualifiers.is_empty())
}

/// The Go type name of a value that cannot be iterated, for error messages.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "types.Null",
        Value::Bool(_) => "types.Bool",
        Value::Int(_) => "types.Int",
        Value::Uint(_) => "types.Uint",
        Value::Double(_) => "types.Double",
        Value::String(_) => "types.String",
        Value::Bytes(_) => "types.Bytes",
        Value::Timestamp(_) => "types.Timestamp",
        Value::Duration(_) => "types.Duration",
        Value::Optional(_) => "*types.Optional",
        _ => "*types.Type",
    }
}
