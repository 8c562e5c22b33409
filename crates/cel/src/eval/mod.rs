//! Evaluates planned expressions and counts what that costs.

mod attribute;
mod cost;
mod fold;

use crate::library::Context;
use crate::plan::{Call, Node, Plan};
use crate::program::{Activation, Budget};
use crate::value::{EvalError, Evaluated, Key, List, Map, Value, equal};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Comprehension steps between two looks at the interrupt flag.
const INTERRUPT_CHECK_STEPS: u32 = 100;

/// One evaluation in progress.
pub(crate) struct Evaluator<'p, 'a> {
    plan: &'p Plan,
    variables: &'p Activation<'a>,
    locals: Vec<Slot<'p, 'a>>,
    cost: u64,
    /// Cost of composed variables computed on the way; they have limits of their own.
    composed_cost: u64,
    limit: u64,
    steps: u32,
    interrupt: Option<Arc<AtomicBool>>,
}

/// A local variable. Accumulators are computed when first read.
#[derive(Clone)]
enum Slot<'p, 'a> {
    Unset,
    Pending(&'p Node),
    Ready(Evaluated<'a>),
}

impl<'p, 'a> Evaluator<'p, 'a> {
    pub(crate) fn new(plan: &'p Plan, variables: &'p Activation<'a>, budget: &Budget) -> Self {
        let locals = vec![Slot::Unset; plan.locals_max];
        let (limit, interrupt) = (budget.per_call, budget.interrupt.clone());
        Self { plan, variables, locals, cost: 0, composed_cost: 0, limit, steps: 0, interrupt }
    }

    pub(crate) fn run(&mut self) -> Evaluated<'a> {
        self.eval(&self.plan.root)
    }

    /// What the whole evaluation cost so far.
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

    fn eval(&mut self, node: &'p Node) -> Evaluated<'a> {
        match node {
            Node::Const(value) => Ok(value.clone()),
            Node::Attribute(attribute) => self.attribute(attribute),
            Node::And(left, right) => self.logic(left, right, false),
            Node::Or(left, right) => self.logic(left, right, true),
            Node::Equal(left, right) => self.equality(left, right, true),
            Node::NotEqual(left, right) => self.equality(left, right, false),
            Node::NotStrictlyFalse(operand) => {
                let value = self.eval(operand);
                self.charge(1)?;
                match value {
                    Ok(Value::Bool(value)) => Ok(Value::Bool(value)),
                    Err(error) if !error.is_absorbable() => Err(error),
                    _ => Ok(Value::Bool(true)),
                }
            }
            Node::InConstants(operand, members) => {
                let value = self.eval(operand)?;
                Ok(Value::Bool(Key::of(&value).is_some_and(|key| members.contains(&key))))
            }
            Node::OptionalOr { left, right, unwrap } => match self.eval(left)? {
                Value::Optional(None) => self.eval(right),
                Value::Optional(Some(value)) if *unwrap => Ok((*value).clone()),
                other => Ok(other),
            },
            Node::Call(call) => self.call(call),
            Node::List(elements) => {
                let made = self.list(elements);
                self.charge(crate::cost::LIST_CREATE)?;
                made
            }
            Node::Map(entries) => {
                let made = self.map(entries);
                self.charge(crate::cost::MAP_CREATE)?;
                made
            }
            Node::Fold(fold) => self.fold(fold),
        }
    }

    /// `&&` and `||`: the operand that decides wins over an error in the other.
    fn logic(&mut self, left: &'p Node, right: &'p Node, decisive: bool) -> Evaluated<'a> {
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

    fn equality(&mut self, left: &'p Node, right: &'p Node, wanted: bool) -> Evaluated<'a> {
        let (left, right) = (self.operand(left)?, self.operand(right)?);
        self.charge(cost::equality_cost(&left, &right, wanted))?;
        match equal(&left?, &right?) {
            Ok(is_equal) => Ok(Value::Bool(is_equal == wanted)),
            // Values that cannot be compared are certainly not equal; only `==` insists on comparing.
            Err(_) if !wanted => Ok(Value::Bool(true)),
            Err(error) => Err(error),
        }
    }

    /// Evaluates an operand, letting only unstoppable errors through so that the other operand is charged for.
    fn operand(&mut self, node: &'p Node) -> Result<Evaluated<'a>, EvalError> {
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
                // A call whose arguments were not all evaluated is not charged for.
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
        let context = Context { call, limit: self.limit.saturating_sub(self.cost) };
        let result = (call.run)(&context, &args);
        self.charge(cost::call_cost(call, &args, result.as_ref().ok()))?;
        result
    }

    fn list(&mut self, elements: &'p [(Node, bool)]) -> Evaluated<'a> {
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

    fn map(&mut self, entries: &'p [(Node, Node, bool)]) -> Evaluated<'a> {
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
