//! The type checker: resolves names and overloads and rejects ill-typed expressions.

pub(crate) mod literals;
pub(crate) mod unify;

use crate::ast::{Ast, Comprehension, Expr, ExprKind, Literal, MapEntry, NodeId, StructField};
use crate::env::Env;
use crate::signatures::Overload;
use crate::source::Issue;
use crate::types::{Type, opaque};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use unify::{Substitutions, most_general};

/// An expression with its types and overloads.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) ast: Ast,
    /// By node id.
    pub(crate) types: Vec<Type>,
    /// The possible overloads of each call; one, unless dynamic types leave it open.
    pub(crate) overloads: HashMap<NodeId, Vec<&'static str>>,
    /// Variables of the environment the expression reads.
    pub(crate) variables: BTreeSet<String>,
}

impl Checked {
    pub(crate) fn type_of(&self, expr: &Expr) -> &Type {
        &self.types[expr.id]
    }

    pub(crate) fn overloads_of(&self, expr: &Expr) -> &[&'static str] {
        self.overloads.get(&expr.id).map_or(&[], Vec::as_slice)
    }
}

pub(crate) fn check(env: &Env, mut ast: Ast) -> Result<Checked, Vec<Issue>> {
    let mut checker = Checker {
        env,
        offsets: &ast.offsets,
        types: vec![Type::Error; ast.offsets.len()],
        overloads: HashMap::new(),
        variables: BTreeSet::new(),
        locals: Vec::new(),
        substitutions: Substitutions::default(),
        issues: Vec::new(),
    };
    checker.expr(&mut ast.root);
    if !checker.issues.is_empty() {
        return Err(checker.issues);
    }
    let types = checker.types.iter().map(|ty| checker.substitutions.apply(ty, true)).collect();
    let (overloads, variables) = (checker.overloads, checker.variables);
    Ok(Checked { types, overloads, variables, ast })
}

struct Checker<'e> {
    env: &'e Env,
    offsets: &'e [usize],
    types: Vec<Type>,
    overloads: HashMap<NodeId, Vec<&'static str>>,
    variables: BTreeSet<String>,
    /// Innermost last.
    locals: Vec<(String, Type)>,
    substitutions: Substitutions,
    issues: Vec<Issue>,
}

impl Checker<'_> {
    fn issue(&mut self, at: NodeId, message: String) {
        self.issues.push(Issue::new(self.offsets[at], message));
    }

    fn type_of(&self, expr: &Expr) -> Type {
        self.types[expr.id].clone()
    }

    fn undeclared(&mut self, at: NodeId, name: &str) -> Type {
        self.issue(at, format!("undeclared reference to '{name}' (in container '')"));
        Type::Error
    }

    fn mismatch(&mut self, at: NodeId, expected: &Type, found: &Type) {
        self.issue(at, format!("expected type '{expected}' but found '{found}'"));
    }

    fn expr(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let ty = match &mut expr.kind {
            ExprKind::Literal(literal) => literal_type(literal),
            ExprKind::Ident(name) => match self.lookup(name) {
                Some(ty) => ty,
                None => {
                    let name = name.clone();
                    self.undeclared(id, &name)
                }
            },
            ExprKind::Select { .. } => self.select(expr),
            ExprKind::Call { .. } => self.call(expr),
            ExprKind::List { elements, optional } => self.list(elements, optional),
            ExprKind::Map { entries } => self.map(entries),
            ExprKind::Struct { type_name, fields } => self.record(id, type_name, fields),
            ExprKind::Comprehension(fold) => self.comprehension(fold),
        };
        self.types[id] = ty;
    }

    fn lookup(&mut self, name: &str) -> Option<Type> {
        if let Some((_, ty)) = self.locals.iter().rev().find(|(local, _)| local == name) {
            return Some(ty.clone());
        }
        if let Some(variable) = self.env.variable(name) {
            self.variables.insert(name.to_owned());
            return Some(variable.ty.clone());
        }
        self.env.type_named(name).map(|ty| Type::Type(Some(Arc::new(ty))))
    }

    fn select(&mut self, expr: &mut Expr) -> Type {
        if let Some(name) = expr.qualified_name()
            && let Some(ty) = self.lookup(&name)
        {
            expr.kind = ExprKind::Ident(name);
            return ty;
        }
        let id = expr.id;
        let ExprKind::Select { operand, field, test_only } = &mut expr.kind else { return Type::Error };
        let result = self.select_field(id, operand, field, false);
        if *test_only { Type::Bool } else { self.substitutions.apply(&result, false) }
    }

    fn select_field(&mut self, at: NodeId, operand: &mut Expr, field: &str, optional: bool) -> Type {
        self.expr(operand);
        let operand_type = self.substitutions.apply(&self.types[operand.id], false);
        let (target, was_optional) = match &operand_type {
            Type::Optional(inner) => (inner.as_ref().clone(), true),
            other => (other.clone(), false),
        };
        let result = match &target {
            Type::Map(_, value) => value.as_ref().clone(),
            Type::Object(object) => match object.field(field) {
                Some(ty) => ty,
                None => {
                    self.issue(at, format!("undefined field '{field}'"));
                    Type::Error
                }
            },
            Type::Free(_) => {
                // A value with a selection is dynamic from here on.
                self.substitutions.assignable(&Type::Dyn, &target);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            Type::Opaque(name) if !matches!(*name, opaque::IP | opaque::CIDR) => {
                self.issue(at, format!("unexpected failed resolution of '{name}'"));
                Type::Error
            }
            other => {
                self.issue(at, format!("type '{other}' does not support field selection"));
                Type::Dyn
            }
        };
        if was_optional || optional { Type::optional(result) } else { result }
    }

    fn call(&mut self, expr: &mut Expr) -> Type {
        let id = expr.id;
        let ExprKind::Call { function, target, args } = &mut expr.kind else { return Type::Error };
        if function == "_?._" {
            let [operand, field] = args.as_mut_slice() else { return Type::Error };
            let ExprKind::Literal(Literal::String(name)) = &field.kind else { return Type::Error };
            let name = name.clone();
            self.types[field.id] = Type::String;
            let result = self.select_field(id, operand, &name, true);
            self.overloads.insert(id, vec!["select_optional_field"]);
            return self.substitutions.apply(&result, false);
        }
        for arg in args.iter_mut() {
            self.expr(arg);
        }
        if let Some(receiver) = target {
            let namespaced = receiver.qualified_name().map(|prefix| format!("{prefix}.{function}"));
            if let Some(name) = namespaced.filter(|name| self.env.overloads(name).next().is_some()) {
                *function = name;
                *target = None;
            } else {
                self.expr(receiver);
            }
        }
        if self.env.overloads(function).next().is_none() {
            let name = function.clone();
            return self.undeclared(id, &name);
        }
        let arg_types: Vec<Type> =
            target.as_deref().into_iter().chain(args.iter()).map(|arg| self.type_of(arg)).collect();
        if function == "_&&_" || function == "_||_" {
            let places: Vec<NodeId> = args.iter().map(|arg| arg.id).collect();
            return self.logic(id, function == "_&&_", &places, &arg_types);
        }
        let (function, is_member) = (function.clone(), target.is_some());
        self.resolve(id, &function, is_member, arg_types)
    }

    fn logic(&mut self, id: NodeId, is_and: bool, places: &[NodeId], arg_types: &[Type]) -> Type {
        let mut result = Type::Bool;
        for (place, ty) in places.iter().zip(arg_types) {
            if !self.substitutions.assignable(ty, &Type::Bool) {
                self.mismatch(*place, &Type::Bool, ty);
                result = Type::Error;
            }
        }
        self.overloads.insert(id, vec![if is_and { "logical_and" } else { "logical_or" }]);
        result
    }

    fn resolve(&mut self, id: NodeId, function: &str, is_member: bool, arg_types: Vec<Type>) -> Type {
        let env = self.env;
        let mut result: Option<Type> = None;
        let mut fitting = Vec::new();
        for overload in env.overloads(function).filter(|overload| overload.is_member == is_member) {
            let (params, returns) = self.instantiate(overload);
            if !self.substitutions.all_assignable(&arg_types, &params) {
                continue;
            }
            fitting.push(overload.id);
            let returns = self.substitutions.apply(&returns, false);
            result = Some(match result {
                None => returns,
                Some(Type::Dyn) => Type::Dyn,
                Some(former) if former == returns => former,
                Some(_) => Type::Dyn,
            });
        }
        if let Some(result) = result {
            self.overloads.insert(id, fitting);
            return result;
        }
        let shown: Vec<String> = arg_types.iter().map(|ty| self.substitutions.apply(ty, true).to_string()).collect();
        let signature = match shown.split_first() {
            Some((receiver, rest)) if is_member => format!("{receiver}.({})", rest.join(", ")),
            _ => format!("({})", shown.join(", ")),
        };
        self.issue(id, format!("found no matching overload for '{function}' applied to '{signature}'"));
        Type::Error
    }

    /// The overload with fresh type variables in place of its type parameters.
    fn instantiate(&mut self, overload: &Overload) -> (Vec<Type>, Type) {
        if !overload.has_params {
            return (overload.args.clone(), overload.result.clone());
        }
        let mut fresh: HashMap<char, Type> = HashMap::new();
        let args = overload.args.iter().map(|ty| self.instantiate_type(ty, &mut fresh)).collect();
        (args, self.instantiate_type(&overload.result, &mut fresh))
    }

    fn instantiate_type(&mut self, ty: &Type, fresh: &mut HashMap<char, Type>) -> Type {
        match ty {
            Type::Param(name) => fresh.entry(*name).or_insert_with(|| self.substitutions.fresh()).clone(),
            Type::List(element) => Type::list(self.instantiate_type(element, fresh)),
            Type::Map(key, value) => Type::map(self.instantiate_type(key, fresh), self.instantiate_type(value, fresh)),
            Type::Optional(inner) => Type::optional(self.instantiate_type(inner, fresh)),
            Type::Type(Some(inner)) => Type::Type(Some(Arc::new(self.instantiate_type(inner, fresh)))),
            other => other.clone(),
        }
    }

    /// For an element marked optional, the type inside the optional.
    fn unwrap_optional_entry(&mut self, value: &Expr, optional: bool) -> Type {
        let ty = self.type_of(value);
        match ty {
            Type::Optional(inner) if optional => inner.as_ref().clone(),
            Type::Dyn => ty,
            other => {
                if optional {
                    self.mismatch(value.id, &Type::optional(other.clone()), &other);
                }
                other
            }
        }
    }

    fn list(&mut self, elements: &mut [Expr], optional: &[bool]) -> Type {
        let mut joined = None;
        for (element, optional) in elements.iter_mut().zip(optional) {
            self.expr(element);
            let ty = self.unwrap_optional_entry(element, *optional);
            joined = Some(self.join(joined, ty));
        }
        Type::list(joined.unwrap_or_else(|| self.substitutions.fresh()))
    }

    fn map(&mut self, entries: &mut [MapEntry]) -> Type {
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            self.expr(&mut entry.key);
            let key_type = self.type_of(&entry.key);
            keys = Some(self.join(keys, key_type));
            self.expr(&mut entry.value);
            let value_type = self.unwrap_optional_entry(&entry.value, entry.optional);
            values = Some(self.join(values, value_type));
        }
        let key = keys.unwrap_or_else(|| self.substitutions.fresh());
        Type::map(key, values.unwrap_or_else(|| self.substitutions.fresh()))
    }

    fn record(&mut self, id: NodeId, type_name: &str, fields: &mut [StructField]) -> Type {
        let Some(ty) = self.env.record_type(type_name) else { return self.undeclared(id, type_name) };
        let Type::Object(object) = &ty else { return Type::Error };
        for field in fields {
            self.expr(&mut field.value);
            let found = self.unwrap_optional_entry(&field.value, field.optional);
            match object.field(&field.name) {
                None => self.issue(id, format!("undefined field '{}'", field.name)),
                Some(expected) if !self.substitutions.assignable(&expected, &found) => {
                    let name = &field.name;
                    let text =
                        format!("expected type of field '{name}' is '{expected}' but provided type is '{found}'");
                    self.issue(field.value.id, text);
                }
                Some(_) => {}
            }
        }
        ty
    }

    fn join(&mut self, previous: Option<Type>, current: Type) -> Type {
        let Some(previous) = previous else { return current };
        if self.substitutions.assignable(&previous, &current) {
            return most_general(&previous, &current);
        }
        // Mixed literals are rejected afterwards, except as arguments of `format`; see `literals`.
        Type::Dyn
    }

    fn comprehension(&mut self, fold: &mut Comprehension) -> Type {
        self.expr(&mut fold.range);
        self.expr(&mut fold.accu_init);
        let range = self.substitutions.apply(&self.types[fold.range.id], false);
        let accu_type = self.type_of(&fold.accu_init);
        self.locals.push((fold.accu_var.clone(), accu_type.clone()));
        let two = fold.iter_var2.is_some();
        let (first, second) = match &range {
            Type::List(element) if two => (Type::Int, element.as_ref().clone()),
            Type::List(element) => (element.as_ref().clone(), Type::Dyn),
            Type::Map(key, value) => (key.as_ref().clone(), value.as_ref().clone()),
            Type::Dyn | Type::Error | Type::Free(_) => {
                self.substitutions.assignable(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let complaint = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.issue(fold.range.id, complaint);
                (Type::Error, Type::Error)
            }
        };
        let outer = self.locals.len();
        self.locals.push((fold.iter_var.clone(), first));
        if let Some(name) = &fold.iter_var2 {
            self.locals.push((name.clone(), second));
        }
        self.expr(&mut fold.condition);
        self.assert_type(&fold.condition, &Type::Bool);
        self.expr(&mut fold.step);
        self.assert_type(&fold.step, &accu_type);
        self.locals.truncate(outer);
        self.expr(&mut fold.result);
        self.locals.pop();
        self.substitutions.apply(&self.types[fold.result.id], false)
    }

    fn assert_type(&mut self, expr: &Expr, expected: &Type) {
        let found = self.type_of(expr);
        if !self.substitutions.assignable(expected, &found) {
            self.mismatch(expr.id, expected, &found);
        }
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}
