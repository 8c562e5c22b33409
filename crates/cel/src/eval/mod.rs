//! Evaluates planned expressions and counts their cost.

mod attribute;
mod cost;
mod fold;

use crate::library::CallContext;
use crate::plan::{Call, ExecutionPlan, PlanNode};
use crate::program::{Activation, Budget};
use crate::value::{EvalError, Evaluated, Key, List, Map, Opaque, Record, Value, equal};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Comprehension steps between two checks of the interrupt flag.
const INTERRUPT_CHECK_STEPS: u32 = 100;

/// One evaluation in progress.
pub(crate) struct Evaluator<'p, 'a> {
    plan: &'p ExecutionPlan,
    variables: &'p Activation<'a>,
    locals: Vec<Slot<'p, 'a>>,
    cost: u64,
    /// Cost of composed variables computed meanwhile; they have their own limits.
    composed_cost: u64,
    limit: u64,
    steps: u32,
    interrupt: Option<Arc<AtomicBool>>,
}

/// A local variable. Accumulators are computed when first read.
#[derive(Clone)]
enum Slot<'p, 'a> {
    Unset,
    Pending(&'p PlanNode),
    Ready(Evaluated<'a>),
}

impl<'p, 'a> Evaluator<'p, 'a> {
    pub(crate) fn new(plan: &'p ExecutionPlan, variables: &'p Activation<'a>, budget: &Budget) -> Self {
        let locals = vec![Slot::Unset; plan.locals_max];
        let (limit, interrupt) = (budget.per_call, budget.interrupt.clone());
        Self { plan, variables, locals, cost: 0, composed_cost: 0, limit, steps: 0, interrupt }
    }

    pub(crate) fn run(&mut self) -> Evaluated<'a> {
        self.eval(&self.plan.root)
    }

    /// The cost of the whole evaluation so far.
    pub(crate) fn cost(&self) -> u64 {
        self.cost.saturating_add(self.composed_cost)
    }

    fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit { Err(EvalError::CostLimit) } else { Ok(()) }
    }

    fn check_interrupt(&mut self) -> Result<(), EvalError> {
        self.steps += 1;
        if !self.steps.is_multiple_of(INTERRUPT_CHECK_STEPS) {
            return Ok(());
        }
        match &self.interrupt {
            Some(flag) if flag.load(Ordering::Relaxed) => Err(EvalError::Interrupted),
            _ => Ok(()),
        }
    }

    fn eval(&mut self, node: &'p PlanNode) -> Evaluated<'a> {
        match node {
            PlanNode::Const(value) => Ok(value.clone()),
            PlanNode::Attribute(attribute) => self.attribute(attribute),
            PlanNode::And(left, right) => self.logic(left, right, false),
            PlanNode::Or(left, right) => self.logic(left, right, true),
            PlanNode::Equal(left, right) => self.equality(left, right, true),
            PlanNode::NotEqual(left, right) => self.equality(left, right, false),
            PlanNode::NotStrictlyFalse(operand) => {
                let value = self.eval(operand);
                self.charge(1)?;
                match value {
                    Ok(Value::Bool(value)) => Ok(Value::Bool(value)),
                    Err(error) if !error.is_absorbable() => Err(error),
                    _ => Ok(Value::Bool(true)),
                }
            }
            PlanNode::InConstants(operand, members) => {
                let value = self.eval(operand)?;
                Ok(Value::Bool(Key::of(&value).is_some_and(|key| members.contains(&key))))
            }
            PlanNode::OptionalOr { left, right, unwrap } => match self.eval(left)? {
                Value::Optional(None) => self.eval(right),
                Value::Optional(Some(value)) if *unwrap => Ok((*value).clone()),
                other => Ok(other),
            },
            PlanNode::Call(call) => self.call(call),
            PlanNode::List(elements) => {
                let made = self.list(elements);
                self.charge(crate::cost::LIST_CREATE)?;
                made
            }
            PlanNode::Map(entries) => {
                let made = self.map(entries);
                self.charge(crate::cost::MAP_CREATE)?;
                made
            }
            PlanNode::Record(type_name, fields) => {
                let made = self.record(type_name, fields);
                self.charge(crate::cost::STRUCT_CREATE)?;
                made
            }
            PlanNode::Fold(fold) => self.fold(fold),
        }
    }

    /// `&&` and `||`: an operand that decides takes precedence over an error in the other.
    fn logic(&mut self, left: &'p PlanNode, right: &'p PlanNode, decisive: bool) -> Evaluated<'a> {
        let mut failure = None;
        for operand in [left, right] {
            match self.eval(operand) {
                Ok(Value::Bool(value)) if value == decisive => return Ok(Value::Bool(decisive)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => {
                    failure.get_or_insert_with(EvalError::no_such_overload);
                }
                Err(error) if !error.is_absorbable() => return Err(error),
                Err(error) => {
                    failure.get_or_insert(error);
                }
            }
        }
        failure.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    fn equality(&mut self, left: &'p PlanNode, right: &'p PlanNode, wanted: bool) -> Evaluated<'a> {
        let (left, right) = (self.operand(left)?, self.operand(right)?);
        self.charge(cost::equality_cost(&left, &right, wanted))?;
        match equal(&left?, &right?) {
            Ok(is_equal) => Ok(Value::Bool(is_equal == wanted)),
            // Values that cannot be compared are not equal; only `==` fails on them.
            Err(_) if !wanted => Ok(Value::Bool(true)),
            Err(error) => Err(error),
        }
    }

    /// Evaluates an operand and passes on only fatal errors, so that the other operand is charged too.
    fn operand(&mut self, node: &'p PlanNode) -> Result<Evaluated<'a>, EvalError> {
        match self.eval(node) {
            Err(error) if !error.is_absorbable() => Err(error),
            other => Ok(other),
        }
    }

    fn call(&mut self, call: &'p Call) -> Evaluated<'a> {
        let mut args = Vec::with_capacity(call.args.len());
        let mut failure = None;
        for (index, node) in call.args.iter().enumerate() {
            match self.operand(node)? {
                Ok(value) => args.push(value),
                // A call is not charged unless all its arguments were evaluated.
                Err(error) if call.stops_early && index + 1 < call.args.len() => return Err(error),
                Err(error) => {
                    failure.get_or_insert(error);
                }
            }
        }
        if let Some(error) = failure {
            self.charge(1)?;
            return Err(error);
        }
        let context = CallContext { call, limit: self.limit.saturating_sub(self.cost) };
        let result = (call.run)(&context, &args);
        self.charge(cost::call_cost(call, &args, result.as_ref().ok()))?;
        result
    }

    fn list(&mut self, elements: &'p [(PlanNode, bool)]) -> Evaluated<'a> {
        let mut items = Vec::with_capacity(elements.len());
        for (node, optional) in elements {
            let value = self.eval(node)?;
            if !optional {
                items.push(value);
                continue;
            }
            match value {
                Value::Optional(None) => {}
                Value::Optional(Some(value)) => items.push((*value).clone()),
                other => {
                    let shown = other.type_name();
                    return Err(EvalError::new(format!(
                        "cannot initialize optional list element from non-optional value {shown}"
                    )));
                }
            }
        }
        Ok(Value::List(List::made(items)))
    }

    fn record(&mut self, type_name: &'p str, fields: &'p [(String, PlanNode, bool)]) -> Evaluated<'a> {
        let mut made = Vec::with_capacity(fields.len());
        for (name, node, optional) in fields {
            let value = match (self.eval(node)?, optional) {
                (value, false) => value,
                (Value::Optional(None), true) => continue,
                (Value::Optional(Some(value)), true) => (*value).clone(),
                (other, true) => {
                    let shown = other.type_name();
                    return Err(EvalError::new(format!(
                        "cannot initialize optional entry '{name}' from non-optional value {shown}"
                    )));
                }
            };
            made.push((name.clone(), value));
        }
        let record = Record { type_name: type_name.to_owned(), fields: made };
        Ok(Value::Opaque(Opaque::Record(Arc::new(record))))
    }

    fn map(&mut self, entries: &'p [(PlanNode, PlanNode, bool)]) -> Evaluated<'a> {
        let mut made = BTreeMap::new();
        for (key, value, optional) in entries {
            let (key, mut value) = (self.eval(key)?, self.eval(value)?);
            if *optional {
                value = match value {
                    Value::Optional(None) => continue,
                    Value::Optional(Some(value)) => (*value).clone(),
                    other => {
                        let shown = other.type_name();
                        return Err(EvalError::new(format!(
                            "cannot initialize optional entry from non-optional value {shown}"
                        )));
                    }
                };
            }
            crate::library::insert_entry(&mut made, key, value)?;
        }
        Ok(Value::Map(Map::made(made)))
    }
}
