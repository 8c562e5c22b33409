//! Expands `has`, the comprehension macros and the optional macros into plain expressions.
//!
//! Expansions follow cel-go's node for node: static and runtime cost are defined on the expanded tree.

use crate::ast::{ACCUMULATOR, Comprehension, Expr, ExprKind, Literal, NodeId, UNUSED_VARIABLE};
use crate::parse::{NodeFactory, Stop};
use crate::source::Issue;

/// Macros outside Kubernetes' set, which must be enabled.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MacroSet {
    pub(crate) bindings: bool,
}

const NOT_SIMPLE: &str = "argument must be a simple name";
const NOT_IDENTIFIER: &str = "argument is not an identifier";

type Expanded = Result<Option<Expr>, Stop>;

pub(crate) fn expand_global(nodes: &mut NodeFactory, offset: usize, function: &str, args: &[Expr]) -> Expanded {
    let ("has", [arg]) = (function, args) else { return Ok(None) };
    match &arg.kind {
        ExprKind::Select { operand, field, test_only: false } => nodes
            .node(offset, ExprKind::Select { operand: operand.clone(), field: field.clone(), test_only: true })
            .map(Some),
        _ => Err(Stop::Issue(Issue::new(nodes.offset(arg.id), "invalid argument to has() macro"))),
    }
}

pub(crate) fn expand_member(
    nodes: &mut NodeFactory,
    macro_set: MacroSet,
    offset: usize,
    function: &str,
    target: &Expr,
    args: &[Expr],
) -> Expanded {
    let mut make = Expansion { nodes, offset };
    match (function, args) {
        ("all", [var, test]) => make.quantifier(Quantifier::All, target, [var, var], test, false),
        ("exists", [var, test]) => make.quantifier(Quantifier::Exists, target, [var, var], test, false),
        ("exists_one", [var, test]) => make.quantifier(Quantifier::ExistsOne, target, [var, var], test, false),
        ("all", [key, value, test]) => make.quantifier(Quantifier::All, target, [key, value], test, true),
        ("exists", [key, value, test]) => make.quantifier(Quantifier::Exists, target, [key, value], test, true),
        ("existsOne" | "exists_one", [key, value, test]) => {
            make.quantifier(Quantifier::ExistsOne, target, [key, value], test, true)
        }
        ("map", [var, transform]) => make.map(target, var, None, transform),
        ("map", [var, filter, transform]) => make.map(target, var, Some(filter), transform),
        ("filter", [var, test]) => make.filter(target, var, test),
        ("transformList", [key, value, transform]) => {
            make.transform(Transform::List, target, [key, value], None, transform)
        }
        ("transformList", [key, value, filter, transform]) => {
            make.transform(Transform::List, target, [key, value], Some(filter), transform)
        }
        ("transformMap", [key, value, transform]) => {
            make.transform(Transform::Map, target, [key, value], None, transform)
        }
        ("transformMap", [key, value, filter, transform]) => {
            make.transform(Transform::Map, target, [key, value], Some(filter), transform)
        }
        ("transformMapEntry", [key, value, transform]) => {
            make.transform(Transform::MapEntry, target, [key, value], None, transform)
        }
        ("transformMapEntry", [key, value, filter, transform]) => {
            make.transform(Transform::MapEntry, target, [key, value], Some(filter), transform)
        }
        ("optMap", [var, transform]) => make.optional_map(target, var, transform, false),
        ("optFlatMap", [var, transform]) => make.optional_map(target, var, transform, true),
        ("sortBy", [var, key]) => make.sort_by(target, var, key),
        ("bind", [var, init, result])
            if macro_set.bindings && matches!(&target.kind, ExprKind::Ident(name) if name == "cel") =>
        {
            let name = make.variable_name(var, "cel.bind() variable names must be simple identifiers")?;
            make.bind(name, init.clone(), result.clone()).map(Some)
        }
        _ => Ok(None),
    }
}

#[derive(Clone, Copy)]
enum Quantifier {
    All,
    Exists,
    ExistsOne,
}

#[derive(Clone, Copy, PartialEq)]
enum Transform {
    List,
    Map,
    MapEntry,
}

struct Expansion<'n> {
    nodes: &'n mut NodeFactory,
    offset: usize,
}

type Made = Result<Expr, Stop>;

impl Expansion<'_> {
    fn literal(&mut self, literal: Literal) -> Made {
        self.nodes.node(self.offset, ExprKind::Literal(literal))
    }

    fn ident(&mut self, name: &str) -> Made {
        self.nodes.node(self.offset, ExprKind::Ident(name.to_owned()))
    }

    fn accumulator(&mut self) -> Made {
        self.ident(ACCUMULATOR)
    }

    fn call(&mut self, function: &str, args: Vec<Expr>) -> Made {
        self.nodes.node(self.offset, ExprKind::Call { function: function.to_owned(), target: None, args })
    }

    fn member_call(&mut self, function: &str, target: Expr, args: Vec<Expr>) -> Made {
        let kind = ExprKind::Call { function: function.to_owned(), target: Some(Box::new(target)), args };
        self.nodes.node(self.offset, kind)
    }

    fn list(&mut self, elements: Vec<Expr>) -> Made {
        let optional = vec![false; elements.len()];
        self.nodes.node(self.offset, ExprKind::List { elements, optional })
    }

    fn fold(&mut self, fold: Comprehension) -> Made {
        self.nodes.node(self.offset, ExprKind::Comprehension(Box::new(fold)))
    }

    fn issue(&self, at: NodeId, message: &str) -> Stop {
        Stop::Issue(Issue::new(self.nodes.offset(at), message))
    }

    fn variable_name(&self, var: &Expr, complaint: &str) -> Result<String, Stop> {
        match &var.kind {
            ExprKind::Ident(name) => Ok(name.clone()),
            _ => Err(self.issue(var.id, complaint)),
        }
    }

    fn iteration_variable(&self, var: &Expr, complaint: &str) -> Result<String, Stop> {
        let name = self.variable_name(var, complaint)?;
        if name == "__result__" {
            return Err(self.issue(var.id, "iteration variable overwrites accumulator variable"));
        }
        Ok(name)
    }

    fn iteration_variables(&self, vars: [&Expr; 2], two: bool) -> Result<(String, Option<String>), Stop> {
        let first = self.iteration_variable(vars[0], NOT_SIMPLE)?;
        if !two {
            return Ok((first, None));
        }
        let second = self.iteration_variable(vars[1], NOT_SIMPLE)?;
        if first == second {
            return Err(self.issue(vars[1].id, &format!("duplicate variable name: {first}")));
        }
        Ok((first, Some(second)))
    }

    fn quantifier(&mut self, kind: Quantifier, range: &Expr, vars: [&Expr; 2], test: &Expr, two: bool) -> Expanded {
        let (iter_var, iter_var2) = self.iteration_variables(vars, two)?;
        let test = test.clone();
        let accu_init = self.literal(match kind {
            Quantifier::All => Literal::Bool(true),
            Quantifier::Exists => Literal::Bool(false),
            Quantifier::ExistsOne => Literal::Int(0),
        })?;
        let accumulator = self.accumulator()?;
        let (condition, step, result) = match kind {
            Quantifier::All => {
                let condition = self.call("@not_strictly_false", vec![accumulator])?;
                let accumulator = self.accumulator()?;
                (condition, self.call("_&&_", vec![accumulator, test])?, self.accumulator()?)
            }
            Quantifier::Exists => {
                let negated = self.call("!_", vec![accumulator])?;
                let condition = self.call("@not_strictly_false", vec![negated])?;
                let accumulator = self.accumulator()?;
                (condition, self.call("_||_", vec![accumulator, test])?, self.accumulator()?)
            }
            Quantifier::ExistsOne => {
                let one = self.literal(Literal::Int(1))?;
                let more = self.call("_+_", vec![accumulator, one])?;
                let same = self.accumulator()?;
                let step = self.call("_?_:_", vec![test, more, same])?;
                let (accumulator, one) = (self.accumulator()?, self.literal(Literal::Int(1))?);
                (self.literal(Literal::Bool(true))?, step, self.call("_==_", vec![accumulator, one])?)
            }
        };
        let range = range.clone();
        let accu_var = ACCUMULATOR.to_owned();
        self.fold(Comprehension { range, iter_var, iter_var2, accu_var, accu_init, condition, step, result }).map(Some)
    }

    /// `accumulator + [element]`, under a condition if there is a filter.
    fn appending(&mut self, element: Expr, filter: Option<&Expr>) -> Made {
        let element = self.list(vec![element])?;
        let accumulator = self.accumulator()?;
        let step = self.call("_+_", vec![accumulator, element])?;
        self.filtered(step, filter)
    }

    fn filtered(&mut self, step: Expr, filter: Option<&Expr>) -> Made {
        let Some(filter) = filter else { return Ok(step) };
        let accumulator = self.accumulator()?;
        self.call("_?_:_", vec![filter.clone(), step, accumulator])
    }

    fn collecting(&mut self, range: &Expr, vars: (String, Option<String>), accu_init: Expr, step: Expr) -> Expanded {
        let condition = self.literal(Literal::Bool(true))?;
        let result = self.accumulator()?;
        let (iter_var, iter_var2) = vars;
        let range = range.clone();
        let accu_var = ACCUMULATOR.to_owned();
        self.fold(Comprehension { range, iter_var, iter_var2, accu_var, accu_init, condition, step, result }).map(Some)
    }

    fn map(&mut self, range: &Expr, var: &Expr, filter: Option<&Expr>, transform: &Expr) -> Expanded {
        let name = self.iteration_variable(var, NOT_IDENTIFIER)?;
        let init = self.list(Vec::new())?;
        let step = self.appending(transform.clone(), filter)?;
        self.collecting(range, (name, None), init, step)
    }

    fn filter(&mut self, range: &Expr, var: &Expr, test: &Expr) -> Expanded {
        let name = self.iteration_variable(var, NOT_IDENTIFIER)?;
        let init = self.list(Vec::new())?;
        let step = self.appending(var.clone(), Some(test))?;
        self.collecting(range, (name, None), init, step)
    }

    fn transform(
        &mut self,
        kind: Transform,
        range: &Expr,
        vars: [&Expr; 2],
        filter: Option<&Expr>,
        transform: &Expr,
    ) -> Expanded {
        let names = self.iteration_variables(vars, true)?;
        let transform = transform.clone();
        if kind == Transform::List {
            let init = self.list(Vec::new())?;
            let step = self.appending(transform, filter)?;
            return self.collecting(range, names, init, step);
        }
        let init = self.nodes.node(self.offset, ExprKind::Map { entries: Vec::new() })?;
        let accumulator = self.accumulator()?;
        let mut args = vec![accumulator];
        if kind == Transform::Map {
            args.push(self.ident(&names.0)?);
        }
        args.push(transform);
        let step = self.call("cel.@mapInsert", args)?;
        let step = self.filtered(step, filter)?;
        self.collecting(range, names, init, step)
    }

    fn bind(&mut self, name: String, init: Expr, result: Expr) -> Made {
        let range = self.list(Vec::new())?;
        let condition = self.literal(Literal::Bool(false))?;
        let step = self.ident(&name)?;
        self.fold(Comprehension {
            range,
            iter_var: UNUSED_VARIABLE.to_owned(),
            iter_var2: None,
            accu_var: name,
            accu_init: init,
            condition,
            step,
            result,
        })
    }

    fn optional_map(&mut self, target: &Expr, var: &Expr, transform: &Expr, flat: bool) -> Expanded {
        let macro_name = if flat { "optFlatMap" } else { "optMap" };
        let name = self.variable_name(var, &format!("{macro_name}() variable name must be a simple identifier"))?;
        let has_value = self.member_call("hasValue", target.clone(), Vec::new())?;
        // The target occurs twice in the tree; the second needs its own node ids.
        let again = self.copy(target)?;
        let value = self.member_call("value", again, Vec::new())?;
        let mut mapped = self.bind(name, value, transform.clone())?;
        if !flat {
            mapped = self.call("optional.of", vec![mapped])?;
        }
        let none = self.call("optional.none", Vec::new())?;
        self.call("_?_:_", vec![has_value, mapped, none]).map(Some)
    }

    fn sort_by(&mut self, target: &Expr, var: &Expr, key: &Expr) -> Expanded {
        if !matches!(
            target.kind,
            ExprKind::List { .. }
                | ExprKind::Select { .. }
                | ExprKind::Ident(_)
                | ExprKind::Comprehension(_)
                | ExprKind::Call { .. }
        ) {
            return Err(self.issue(
                target.id,
                "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
            ));
        }
        const BOUND: &str = "@__sortBy_input__";
        let input = self.ident(BOUND)?;
        let Some(keys) = self.map(&input, var, None, key)? else { return Ok(None) };
        let input = self.ident(BOUND)?;
        let sorted = self.member_call("@sortByAssociatedKeys", input, vec![keys])?;
        self.bind(BOUND.to_owned(), target.clone(), sorted).map(Some)
    }

    /// The same expression with fresh node ids at the same places.
    fn copy(&mut self, expr: &Expr) -> Made {
        let offset = self.nodes.offset(expr.id);
        let kind = match &expr.kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) => expr.kind.clone(),
            ExprKind::Select { operand, field, test_only } => {
                ExprKind::Select { operand: Box::new(self.copy(operand)?), field: field.clone(), test_only: *test_only }
            }
            ExprKind::Call { function, target, args } => ExprKind::Call {
                function: function.clone(),
                target: target.as_deref().map(|target| self.copy(target)).transpose()?.map(Box::new),
                args: self.copy_all(args)?,
            },
            ExprKind::List { elements, optional } => {
                ExprKind::List { elements: self.copy_all(elements)?, optional: optional.clone() }
            }
            ExprKind::Map { entries } => {
                let mut copies = Vec::with_capacity(entries.len());
                for entry in entries {
                    let (key, value) = (self.copy(&entry.key)?, self.copy(&entry.value)?);
                    copies.push(crate::ast::MapEntry { key, value, optional: entry.optional });
                }
                ExprKind::Map { entries: copies }
            }
            ExprKind::Struct { type_name, fields } => {
                let mut copies = Vec::with_capacity(fields.len());
                for field in fields {
                    let (name, value) = (field.name.clone(), self.copy(&field.value)?);
                    copies.push(crate::ast::StructField { name, value, optional: field.optional });
                }
                ExprKind::Struct { type_name: type_name.clone(), fields: copies }
            }
            ExprKind::Comprehension(fold) => ExprKind::Comprehension(Box::new(Comprehension {
                range: self.copy(&fold.range)?,
                accu_init: self.copy(&fold.accu_init)?,
                condition: self.copy(&fold.condition)?,
                step: self.copy(&fold.step)?,
                result: self.copy(&fold.result)?,
                ..(**fold).clone()
            })),
        };
        self.nodes.node(offset, kind)
    }

    fn copy_all(&mut self, exprs: &[Expr]) -> Result<Vec<Expr>, Stop> {
        exprs.iter().map(|expr| self.copy(expr)).collect()
    }
}
