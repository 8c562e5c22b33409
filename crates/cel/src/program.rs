//! A compiled expression, its variables and its budget.

use crate::cost::range::CostRange;
use crate::eval::Evaluator;
use crate::plan::ExecutionPlan;
use crate::types::Type;
use crate::value::{EvalError, Value};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Maximum cost of one evaluation.
pub const PER_CALL_COST_LIMIT: u64 = 1_000_000;
/// Maximum total cost of all evaluations for one object.
pub const VALIDATION_COST_BUDGET: i64 = 10_000_000;
/// Maximum total cost of the match conditions of all webhooks or policies for one request.
pub const MATCH_CONDITIONS_COST_BUDGET: i64 = 2_500_000;

/// A compiled expression. Cheap to share; evaluation does not modify it.
#[derive(Debug, Clone)]
pub struct Program {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    expression: String,
    plan: ExecutionPlan,
    result_type: Type,
    static_cost: CostRange,
    variables: BTreeSet<String>,
}

impl Program {
    pub(crate) fn new(
        expression: &str,
        plan: ExecutionPlan,
        result_type: Type,
        static_cost: CostRange,
        variables: BTreeSet<String>,
    ) -> Self {
        let expression = expression.to_owned();
        Self { inner: Arc::new(Inner { expression, plan, result_type, static_cost, variables }) }
    }

    pub fn expression(&self) -> &str {
        &self.inner.expression
    }

    pub fn result_type(&self) -> &Type {
        &self.inner.result_type
    }

    /// Reports whether the expression reads the variable; one that reads `oldSelf` is a transition rule.
    pub fn uses_variable(&self, name: &str) -> bool {
        self.inner.variables.contains(name)
    }

    /// The cost range of an evaluation for data within its declared bounds.
    pub fn static_cost(&self) -> CostRange {
        self.inner.static_cost
    }

    pub(crate) fn plan(&self) -> &ExecutionPlan {
        &self.inner.plan
    }

    /// Evaluates and charges the budget. Stops at the per-call limit; a result that exceeds the rest of the budget is
    /// withheld.
    pub fn eval<'a>(&self, variables: &Activation<'a>, budget: &mut Budget) -> Result<Value<'a>, EvalError> {
        let mut evaluator = Evaluator::new(&self.inner.plan, variables, budget);
        let result = evaluator.run();
        let cost = evaluator.cost();
        budget.charge(cost)?;
        result
    }
}

/// Remaining cost.
#[derive(Debug, Clone)]
pub struct Budget {
    remaining: i64,
    pub(crate) per_call: u64,
    pub(crate) interrupt: Option<Arc<AtomicBool>>,
    last_cost: u64,
}

impl Budget {
    pub fn new(total: i64) -> Self {
        Self { remaining: total, per_call: PER_CALL_COST_LIMIT, interrupt: None, last_cost: 0 }
    }

    /// The budget of one object's validation.
    pub fn for_validation() -> Self {
        Self::new(VALIDATION_COST_BUDGET)
    }

    pub fn for_match_conditions() -> Self {
        Self::new(MATCH_CONDITIONS_COST_BUDGET)
    }

    pub fn per_call_limit(mut self, limit: u64) -> Self {
        self.per_call = limit;
        self
    }

    /// Evaluations stop soon after the flag is set.
    pub fn interruptible(mut self, flag: Arc<AtomicBool>) -> Self {
        self.interrupt = Some(flag);
        self
    }

    /// Negative once the budget was exceeded.
    pub fn remaining(&self) -> i64 {
        self.remaining
    }

    /// Cost of the latest evaluation.
    pub fn last_cost(&self) -> u64 {
        self.last_cost
    }

    pub(crate) fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        self.last_cost = cost;
        match i64::try_from(cost) {
            Ok(cost) if cost <= self.remaining => {
                self.remaining -= cost;
                Ok(())
            }
            _ => {
                self.remaining = -1;
                Err(EvalError::OutOfBudget)
            }
        }
    }

    pub(crate) fn exhaust(&mut self) {
        self.remaining = -1;
    }
}

/// The values of the variables for one evaluation.
#[derive(Debug, Clone, Default)]
pub struct Activation<'a> {
    values: HashMap<String, Result<Value<'a>, EvalError>>,
    composed: Option<(String, Vec<(String, Program)>)>,
    computed: RefCell<HashMap<String, Result<Value<'a>, EvalError>>>,
}

impl<'a> Activation<'a> {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn with(mut self, name: impl Into<String>, value: Value<'a>) -> Self {
        self.values.insert(name.into(), Ok(value));
        self
    }

    /// A variable with invalid data fails only the expressions that read it.
    pub(crate) fn with_result(mut self, name: &str, value: Result<Value<'a>, EvalError>) -> Self {
        self.values.insert(name.to_owned(), value);
        self
    }

    /// Makes `name.field` the result of a program, computed when first read. Later programs may read earlier fields.
    /// Admission policies use this for `variables`.
    pub fn with_composed(mut self, name: impl Into<String>, fields: Vec<(String, Program)>) -> Self {
        self.composed = Some((name.into(), fields));
        self
    }

    pub(crate) fn value(&self, name: &str) -> Option<Result<Value<'a>, EvalError>> {
        self.values.get(name).cloned()
    }

    /// The program of `name.field`, if that is a composed variable.
    pub(crate) fn composed(&self, name: &str, field: &str) -> Option<&Program> {
        let (composed, fields) = self.composed.as_ref()?;
        fields.iter().find(|(known, _)| composed == name && known == field).map(|(_, program)| program)
    }

    pub(crate) fn computed(&self, field: &str) -> Option<Result<Value<'a>, EvalError>> {
        self.computed.borrow().get(field).cloned()
    }

    pub(crate) fn remember(&self, field: &str, result: Result<Value<'a>, EvalError>) {
        self.computed.borrow_mut().insert(field.to_owned(), result);
    }
}
