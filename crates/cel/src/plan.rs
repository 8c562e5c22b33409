//! Turns a checked expression into a tree that is fast to evaluate: names resolved, constants computed.
//!
//! Constant folding matters beyond speed: constants cost nothing at run time, and Kubernetes treats the same parts as
//! constant.

use crate::ast::{Comprehension, Expr, ExprKind, Literal};
use crate::check::Checked;
use crate::env::named_type;
use crate::library::{self, Function};
use crate::value::{EvalError, Key, Map, Value};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct ExecutionPlan {
    pub(crate) root: PlanNode,
    /// Maximum number of live local variables.
    pub(crate) locals_max: usize,
}

#[derive(Debug)]
pub(crate) enum PlanNode {
    Const(Value<'static>),
    Attribute(Attribute),
    And(Box<PlanNode>, Box<PlanNode>),
    Or(Box<PlanNode>, Box<PlanNode>),
    Equal(Box<PlanNode>, Box<PlanNode>),
    NotEqual(Box<PlanNode>, Box<PlanNode>),
    /// True unless the operand is definitely false; errors count as true.
    NotStrictlyFalse(Box<PlanNode>),
    /// `x in [constants]`.
    InConstants(Box<PlanNode>, BTreeSet<Key<'static>>),
    OptionalOr {
        left: Box<PlanNode>,
        right: Box<PlanNode>,
        unwrap: bool,
    },
    Call(Box<Call>),
    List(Vec<(PlanNode, bool)>),
    Map(Vec<(PlanNode, PlanNode, bool)>),
    /// The type and the fields; the flag marks optional ones.
    Record(String, Vec<(String, PlanNode, bool)>),
    Fold(Box<Fold>),
}

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) function: String,
    /// Known only if the checker resolved a single overload.
    pub(crate) overload: Option<&'static str>,
    pub(crate) run: Function,
    pub(crate) args: Vec<PlanNode>,
    /// Later arguments are not evaluated after an error.
    pub(crate) stops_early: bool,
    /// The compiled pattern of a literal regular expression.
    pub(crate) regex: Option<Regex>,
}

/// A value and its selections: `self.spec.containers[0].name` is one attribute.
#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) root: Root,
    pub(crate) qualifiers: Vec<Qualifier>,
    /// `has(…)`: only test whether the last qualifier exists.
    pub(crate) test_only: bool,
}

#[derive(Debug)]
pub(crate) enum Root {
    Variable(String),
    Local(usize),
    Operand(Box<PlanNode>),
    Conditional { condition: Box<PlanNode>, then: Box<PlanNode>, otherwise: Box<PlanNode> },
}

#[derive(Debug)]
pub(crate) struct Qualifier {
    pub(crate) by: By,
    pub(crate) optional: bool,
}

#[derive(Debug)]
pub(crate) enum By {
    Field(Arc<str>),
    Constant(Value<'static>),
    Computed(Box<PlanNode>),
}

#[derive(Debug)]
pub(crate) struct Fold {
    pub(crate) range: PlanNode,
    pub(crate) two_variables: bool,
    /// The slot of the accumulator; iteration variables use the one or two slots after it.
    pub(crate) slot: usize,
    pub(crate) accu_init: PlanNode,
    pub(crate) condition: PlanNode,
    pub(crate) step: PlanNode,
    pub(crate) result: PlanNode,
}

pub(crate) fn plan(checked: &Checked) -> Result<ExecutionPlan, EvalError> {
    let mut planner = Planner { checked, locals: Vec::new(), locals_max: 0 };
    let root = planner.node(&checked.ast.root)?;
    Ok(ExecutionPlan { root, locals_max: planner.locals_max })
}

pub(crate) fn constant(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Uint(value) => Value::Uint(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(text) => Value::String(crate::value::Text::Shared(text.clone())),
        Literal::Bytes(bytes) => Value::Bytes(bytes.clone()),
    }
}

struct Planner<'c> {
    checked: &'c Checked,
    locals: Vec<String>,
    locals_max: usize,
}

type Planned = Result<PlanNode, EvalError>;

impl Planner<'_> {
    fn node(&mut self, expr: &Expr) -> Planned {
        match &expr.kind {
            ExprKind::Literal(literal) => Ok(PlanNode::Const(constant(literal))),
            ExprKind::Ident(name) => Ok(self.ident(name)),
            ExprKind::Select { operand, field, test_only } => {
                let by = By::Field(field.as_str().into());
                let mut attribute = as_attribute(self.node(operand)?);
                attribute.qualifiers.push(Qualifier { by, optional: false });
                attribute.test_only = *test_only;
                Ok(PlanNode::Attribute(attribute))
            }
            ExprKind::Call { function, target, args } => self.call(expr, function, target.as_deref(), args),
            ExprKind::List { elements, optional } => self.list(elements, optional),
            ExprKind::Map { entries } => {
                let mut nodes = Vec::with_capacity(entries.len());
                for entry in entries {
                    nodes.push((self.node(&entry.key)?, self.node(&entry.value)?, entry.optional));
                }
                constant_map(nodes)
            }
            ExprKind::Struct { type_name, fields } => {
                let mut nodes = Vec::with_capacity(fields.len());
                for field in fields {
                    nodes.push((field.name.clone(), self.node(&field.value)?, field.optional));
                }
                Ok(PlanNode::Record(type_name.clone(), nodes))
            }
            ExprKind::Comprehension(fold) => self.fold(fold),
        }
    }

    fn ident(&self, name: &str) -> PlanNode {
        let root = match self.locals.iter().rposition(|local| local == name) {
            Some(slot) => Root::Local(slot),
            None if self.checked.variables.contains(name) => Root::Variable(name.to_owned()),
            None => match named_type(name) {
                Some(ty) => return PlanNode::Const(Value::Type(ty)),
                None => Root::Variable(name.to_owned()),
            },
        };
        PlanNode::Attribute(Attribute { root, qualifiers: Vec::new(), test_only: false })
    }

    fn list(&mut self, elements: &[Expr], optional: &[bool]) -> Planned {
        let mut nodes = Vec::with_capacity(elements.len());
        for (element, optional) in elements.iter().zip(optional) {
            nodes.push((self.node(element)?, *optional));
        }
        let is_constant = |(node, optional): &(PlanNode, bool)| matches!(node, PlanNode::Const(_)) && !optional;
        if !nodes.iter().all(is_constant) {
            return Ok(PlanNode::List(nodes));
        }
        let constants = nodes.into_iter().filter_map(|(node, _)| into_constant(node)).collect();
        Ok(PlanNode::Const(Value::list(constants)))
    }

    fn call(&mut self, expr: &Expr, function: &str, target: Option<&Expr>, args: &[Expr]) -> Planned {
        let mut nodes = Vec::with_capacity(args.len() + 1);
        for arg in target.into_iter().chain(args) {
            nodes.push(self.node(arg)?);
        }
        let mut nodes = match special_call(function, nodes) {
            Ok(special) => return Ok(special),
            Err(nodes) => nodes,
        };
        let overload = match self.checked.overloads_of(expr) {
            [single] => Some(*single),
            _ => None,
        };
        if overload == Some("in_list")
            && let Some(members) = nodes.get(1).and_then(constant_members)
        {
            if members.is_empty() {
                return Ok(PlanNode::Const(Value::Bool(false)));
            }
            return Ok(PlanNode::InConstants(Box::new(nodes.swap_remove(0)), members));
        }
        let run = library::function(function).ok_or_else(|| EvalError::no_such_overload_of(function))?;
        let regex = constant_regex(function, &nodes)?;
        let is_dispatched = overload.is_none() && !is_core(function);
        let stops_early = nodes.len() > 2 || regex.is_some() || is_dispatched;
        let call = Call { function: function.to_owned(), overload, run, args: nodes, stops_early, regex };
        if let [PlanNode::Const(arg)] = call.args.as_slice()
            && is_conversion(function)
        {
            return (call.run)(&library::CallContext { call: &call, limit: u64::MAX }, std::slice::from_ref(arg))
                .map(PlanNode::Const);
        }
        Ok(PlanNode::Call(Box::new(call)))
    }

    fn fold(&mut self, fold: &Comprehension) -> Planned {
        let range = self.node(&fold.range)?;
        let accu_init = self.node(&fold.accu_init)?;
        let slot = self.locals.len();
        self.locals.push(fold.accu_var.clone());
        self.locals.push(fold.iter_var.clone());
        self.locals.extend(fold.iter_var2.clone());
        self.locals_max = self.locals_max.max(self.locals.len());
        let condition = self.node(&fold.condition)?;
        let step = self.node(&fold.step)?;
        self.locals.truncate(slot + 1);
        let result = self.node(&fold.result)?;
        self.locals.truncate(slot);
        Ok(PlanNode::Fold(Box::new(Fold {
            range,
            two_variables: fold.iter_var2.is_some(),
            slot,
            accu_init,
            condition,
            step,
            result,
        })))
    }
}

/// Operators that do not evaluate all their operands, or that select; others are returned unchanged.
fn special_call(function: &str, nodes: Vec<PlanNode>) -> Result<PlanNode, Vec<PlanNode>> {
    let two = |nodes: Vec<PlanNode>, make: fn(Box<PlanNode>, Box<PlanNode>) -> PlanNode| match <[PlanNode; 2]>::try_from(
        nodes,
    ) {
        Ok([left, right]) => Ok(make(Box::new(left), Box::new(right))),
        Err(nodes) => Err(nodes),
    };
    match function {
        "_&&_" => two(nodes, PlanNode::And),
        "_||_" => two(nodes, PlanNode::Or),
        "_==_" => two(nodes, PlanNode::Equal),
        "_!=_" => two(nodes, PlanNode::NotEqual),
        "or" => two(nodes, |left, right| PlanNode::OptionalOr { left, right, unwrap: false }),
        "orValue" => two(nodes, |left, right| PlanNode::OptionalOr { left, right, unwrap: true }),
        "_[_]" => two(nodes, |operand, index| qualified(*operand, *index, false)),
        "_[?_]" | "_?._" => two(nodes, |operand, index| qualified(*operand, *index, true)),
        "@not_strictly_false" => match <[PlanNode; 1]>::try_from(nodes) {
            Ok([operand]) => Ok(PlanNode::NotStrictlyFalse(Box::new(operand))),
            Err(nodes) => Err(nodes),
        },
        "_?_:_" => match <[PlanNode; 3]>::try_from(nodes) {
            Ok([condition, then, otherwise]) => {
                let root = Root::Conditional {
                    condition: Box::new(condition),
                    then: Box::new(then),
                    otherwise: Box::new(otherwise),
                };
                Ok(PlanNode::Attribute(Attribute { root, qualifiers: Vec::new(), test_only: false }))
            }
            Err(nodes) => Err(nodes),
        },
        _ => Err(nodes),
    }
}

fn as_attribute(node: PlanNode) -> Attribute {
    match node {
        PlanNode::Attribute(attribute) if !attribute.test_only => attribute,
        other => Attribute { root: Root::Operand(Box::new(other)), qualifiers: Vec::new(), test_only: false },
    }
}

fn qualified(operand: PlanNode, index: PlanNode, optional: bool) -> PlanNode {
    let by = match index {
        PlanNode::Const(value) => By::Constant(value),
        other => By::Computed(Box::new(other)),
    };
    let mut attribute = as_attribute(operand);
    attribute.qualifiers.push(Qualifier { by, optional });
    PlanNode::Attribute(attribute)
}

fn into_constant(node: PlanNode) -> Option<Value<'static>> {
    match node {
        PlanNode::Const(value) => Some(value),
        _ => None,
    }
}

fn constant_map(nodes: Vec<(PlanNode, PlanNode, bool)>) -> Planned {
    let is_constant =
        |entry: &(PlanNode, PlanNode, bool)| matches!(entry, (PlanNode::Const(_), PlanNode::Const(_), false));
    if !nodes.iter().all(is_constant) {
        return Ok(PlanNode::Map(nodes));
    }
    let mut entries = BTreeMap::new();
    for (key, value, _) in nodes {
        let (Some(key), Some(value)) = (into_constant(key), into_constant(value)) else { continue };
        library::insert_entry(&mut entries, key, value)?;
    }
    Ok(PlanNode::Const(Value::Map(Map::made(entries))))
}

/// The members of a constant list, if each can be looked up directly.
fn constant_members(node: &PlanNode) -> Option<BTreeSet<Key<'static>>> {
    let PlanNode::Const(Value::List(list)) = node else { return None };
    let items = list.values().ok()?;
    items.iter().map(Key::of).collect()
}

/// Functions with one implementation for all their overloads.
fn is_core(function: &str) -> bool {
    function.contains('_') || matches!(function, "@in" | "size" | "matches" | "contains" | "startsWith" | "endsWith")
}

fn is_conversion(function: &str) -> bool {
    matches!(
        function,
        "bool" | "bytes" | "double" | "duration" | "dyn" | "int" | "string" | "timestamp" | "type" | "uint"
    )
}

fn constant_regex(function: &str, nodes: &[PlanNode]) -> Result<Option<Regex>, EvalError> {
    match (function, nodes.get(1)) {
        ("matches" | "find" | "findAll", Some(PlanNode::Const(Value::String(pattern)))) => {
            library::regex::compile(pattern).map(Some)
        }
        _ => Ok(None),
    }
}
