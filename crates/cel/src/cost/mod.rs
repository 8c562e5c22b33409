//! The static cost estimate: the maximum cost of an expression for data its schema admits.
//!
//! The rules are those of Kubernetes 1.36 (`k8s.io/apiserver/pkg/cel/library/cost.go` over cel-go's
//! `checker/cost.go`); a CRD is accepted or rejected by these numbers, so they match exactly.

mod calls;

pub(crate) use calls::{is_nominal, is_sized_comparison, selector_cost};
pub(crate) mod range;

use crate::ast::{ACCUMULATOR, Comprehension, Expr, ExprKind, Literal, NodeId};
use crate::check::Checked;
use crate::schema::Decl;
use crate::types::Type;
use range::CostRange;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

pub(crate) const LIST_CREATE: u64 = 10;
pub(crate) const MAP_CREATE: u64 = 30;
pub(crate) const STRUCT_CREATE: u64 = 40;
pub(crate) const TRAVERSAL: f64 = 0.1;
pub(crate) const REGEX: f64 = 0.25;
pub(crate) const AUTHORIZATION_CHECK: u64 = 350_000;

/// Estimates the cost of a checked expression; `root` bounds the sizes of the data it reads.
pub(crate) fn estimate(checked: &Checked, root: Option<&Arc<Decl>>) -> CostRange {
    let mut coster = Coster {
        checked,
        root: root.map(Arc::as_ref),
        paths: HashMap::new(),
        locals: Vec::new(),
        sizes: HashMap::new(),
        entry_sizes: HashMap::new(),
    };
    coster.cost(&checked.ast.root)
}

/// A path through the declared types: a variable, then field names, `@items`, `@keys`, `@values`.
///
/// Upstream appends to Go slices, so two paths that grow from the same one share memory, and the later overwrites the
/// last step of the earlier. Estimates depend on it (`self.map.all(k, v, …)` bounds `k` like `v`), therefore paths
/// here share memory in the same way.
#[derive(Clone, Default)]
struct Path {
    steps: Rc<RefCell<Vec<String>>>,
    length: usize,
    capacity: usize,
}

impl Path {
    fn of_variable(name: &str) -> Self {
        Self::default().then(name)
    }

    fn is_empty(&self) -> bool {
        self.length == 0
    }

    fn then(&self, step: &str) -> Self {
        let length = self.length + 1;
        if self.length < self.capacity {
            let mut steps = self.steps.borrow_mut();
            match steps.get_mut(self.length) {
                Some(taken) => *taken = step.to_owned(),
                None => steps.push(step.to_owned()),
            }
            return Self { steps: self.steps.clone(), length, capacity: self.capacity };
        }
        let mut steps = self.steps.borrow()[..self.length].to_vec();
        steps.push(step.to_owned());
        Self { steps: Rc::new(RefCell::new(steps)), length, capacity: (self.capacity * 2).max(1) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Container {
    List,
    Map,
}

/// Sizes of the keys and values of a list or map created by the expression.
#[derive(Debug, Clone, Copy)]
struct EntrySize {
    container: Container,
    key: CostRange,
    value: CostRange,
}

impl EntrySize {
    fn union(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        let (a, b) = (a?, b?);
        Some(Self { container: a.container, key: a.key.union(b.key), value: a.value.union(b.value) })
    }
}

struct Local {
    name: String,
    path: Path,
    size: Option<CostRange>,
    entry_size: Option<EntrySize>,
}

struct Coster<'c> {
    checked: &'c Checked,
    root: Option<&'c Decl>,
    paths: HashMap<NodeId, Path>,
    locals: Vec<Local>,
    sizes: HashMap<NodeId, CostRange>,
    entry_sizes: HashMap<NodeId, EntrySize>,
}

impl Coster<'_> {
    fn cost(&mut self, expr: &Expr) -> CostRange {
        match &expr.kind {
            ExprKind::Literal(_) => CostRange::default(),
            ExprKind::Ident(name) => {
                let path = self.local(name).map_or_else(|| Path::of_variable(name), |local| local.path.clone());
                self.paths.insert(expr.id, path);
                CostRange::fixed(1)
            }
            ExprKind::Select { operand, field, test_only } => {
                let sum = self.cost(operand);
                if *test_only {
                    return sum;
                }
                let path = self.path(operand).then(field);
                self.paths.insert(expr.id, path);
                let selectable =
                    matches!(self.checked.type_of(operand), Type::Map(..) | Type::Object(_) | Type::Param(_));
                if selectable { sum.plus(CostRange::fixed(1)) } else { sum }
            }
            ExprKind::Call { .. } => self.call(expr),
            ExprKind::List { elements, .. } => {
                let (mut sum, mut item) = (CostRange::fixed(LIST_CREATE), empty_union(elements.is_empty()));
                for element in elements {
                    sum = sum.plus(self.cost(element));
                    item = item.union(self.size_or_unknown(element));
                }
                let entry = EntrySize { container: Container::List, key: CostRange::fixed(1), value: item };
                self.entry_sizes.insert(expr.id, entry);
                sum
            }
            ExprKind::Map { entries } => {
                let mut sum = CostRange::fixed(MAP_CREATE);
                let (mut key, mut value) = (empty_union(entries.is_empty()), empty_union(entries.is_empty()));
                for entry in entries {
                    sum = sum.plus(self.cost(&entry.key)).plus(self.cost(&entry.value));
                    key = key.union(self.size_or_unknown(&entry.key));
                    value = value.union(self.size_or_unknown(&entry.value));
                }
                self.entry_sizes.insert(expr.id, EntrySize { container: Container::Map, key, value });
                sum
            }
            ExprKind::Struct { fields, .. } => {
                fields.iter().fold(CostRange::fixed(STRUCT_CREATE), |sum, field| sum.plus(self.cost(&field.value)))
            }
            ExprKind::Comprehension(fold) if fold.is_bind() => self.bind(expr, fold),
            ExprKind::Comprehension(fold) => self.comprehension(expr, fold),
        }
    }

    fn comprehension(&mut self, expr: &Expr, fold: &Comprehension) -> CostRange {
        let mut sum = self.cost(&fold.range).plus(self.cost(&fold.accu_init));
        self.push_bound(&fold.accu_var, &fold.accu_init);
        let outer = self.locals.len();
        match &fold.iter_var2 {
            Some(second) => {
                self.push_iteration(&fold.iter_var, &fold.range, true);
                self.push_iteration(second, &fold.range, false);
            }
            None => {
                let is_list = self.container(&fold.range) == Some(Container::List);
                self.push_iteration(&fold.iter_var, &fold.range, !is_list);
            }
        }
        let each = self.cost(&fold.condition).plus(self.cost(&fold.step));
        self.locals.truncate(outer);
        sum = sum.plus(self.cost(&fold.result));
        self.locals.pop();
        let count = self.size_or_unknown(&fold.range);
        sum = sum.plus(count.times(each));
        match &fold.accu_init.kind {
            ExprKind::Literal(_) => {
                if let Some(size) = self.size(&fold.accu_init) {
                    self.sizes.insert(expr.id, size);
                }
            }
            ExprKind::List { .. } | ExprKind::Map { .. } => {
                self.sizes.insert(expr.id, count);
                if let Some(entry) = self.entry_size(&fold.step) {
                    self.entry_sizes.insert(expr.id, entry);
                }
            }
            _ => {}
        }
        sum
    }

    fn bind(&mut self, expr: &Expr, fold: &Comprehension) -> CostRange {
        let sum = self.cost(&fold.range).plus(self.cost(&fold.accu_init));
        self.push_bound(&fold.accu_var, &fold.accu_init);
        let sum = sum.plus(self.cost(&fold.result));
        self.locals.pop();
        self.copy_sizes(expr, &fold.result);
        sum
    }

    fn container(&self, range: &Expr) -> Option<Container> {
        self.entry_size(range).map(|entry| entry.container).or(match self.checked.type_of(range) {
            Type::List(_) => Some(Container::List),
            Type::Map(..) => Some(Container::Map),
            _ => None,
        })
    }

    /// Declares an iteration variable that holds keys (or indices), or else values.
    fn push_iteration(&mut self, name: &str, range: &Expr, is_key: bool) {
        let entry = self.entry_size(range);
        let size = entry.map(|entry| if is_key { entry.key } else { entry.value });
        let is_list = self.container(range) == Some(Container::List);
        let step = match (is_key, is_list) {
            (true, true) => "@indices",
            (true, false) => "@keys",
            (false, true) => "@items",
            (false, false) => "@values",
        };
        let path = self.path(range).then(step);
        self.locals.push(Local { name: name.to_owned(), path, size, entry_size: None });
    }

    /// Declares a variable that stands for an expression.
    fn push_bound(&mut self, name: &str, init: &Expr) {
        let local = Local {
            name: name.to_owned(),
            path: self.path(init),
            size: self.size(init),
            entry_size: self.entry_size(init),
        };
        self.locals.push(local);
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    fn path(&self, expr: &Expr) -> Path {
        if let ExprKind::Ident(name) = &expr.kind
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&expr.id).cloned().unwrap_or_default()
    }

    fn copy_sizes(&mut self, to: &Expr, from: &Expr) {
        if let Some(size) = self.size(from) {
            self.sizes.insert(to.id, size);
        }
        if let Some(entry) = self.entry_size(from) {
            self.entry_sizes.insert(to.id, entry);
        }
    }

    fn entry_size(&self, expr: &Expr) -> Option<EntrySize> {
        if let Some(known) = self.entry_sizes.get(&expr.id) {
            return Some(*known);
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name)?.entry_size,
            _ => None,
        }
    }

    fn size_or_unknown(&mut self, expr: &Expr) -> CostRange {
        self.size(expr).unwrap_or(CostRange::UNKNOWN)
    }

    fn size(&mut self, expr: &Expr) -> Option<CostRange> {
        if let Some(known) = self.sizes.get(&expr.id) {
            return Some(*known);
        }
        let written = match &expr.kind {
            ExprKind::Literal(Literal::String(text)) => Some(text.chars().count()),
            ExprKind::Literal(Literal::Bytes(bytes)) => Some(bytes.len()),
            ExprKind::Literal(_) => Some(1),
            ExprKind::List { elements, .. } => Some(elements.len()),
            ExprKind::Map { entries } => Some(entries.len()),
            _ => None,
        };
        if let Some(length) = written {
            return Some(CostRange::fixed(length as u64));
        }
        if let Some(size) = self.declared_size(&self.path(expr)) {
            self.sizes.insert(expr.id, size);
            return Some(size);
        }
        if self.checked.type_of(expr).is_scalar() {
            return Some(CostRange::fixed(1));
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }

    /// The schema's bound for the path's target.
    fn declared_size(&self, path: &Path) -> Option<CostRange> {
        let steps = path.steps.borrow();
        let (_, steps) = steps[..path.length].split_first()?;
        let mut decl = self.root?;
        for step in steps {
            decl = match step.as_str() {
                "@items" | "@values" => decl.element.as_deref()?,
                "@keys" => decl.key.as_deref()?,
                field => decl.fields.get(field)?,
            };
        }
        Some(CostRange { min: 0, max: decl.max_elements })
    }

    fn call(&mut self, expr: &Expr) -> CostRange {
        let ExprKind::Call { function, target, args } = &expr.kind else { return CostRange::default() };
        if function == "dyn"
            && let [arg] = args.as_slice()
        {
            let cost = self.cost(arg).plus(CostRange::fixed(1));
            self.copy_sizes(expr, arg);
            return cost;
        }
        let arg_costs: Vec<CostRange> = args.iter().map(|arg| self.cost(arg)).collect();
        let arg_nodes: Vec<CostOperand> = args.iter().map(|arg| self.node(arg)).collect();
        let checked = self.checked;
        let overloads = checked.overloads_of(expr);
        let mut sum = CostRange::default();
        let mut target_node = None;
        if let Some(target) = target {
            sum = self.cost(target);
            target_node = Some(self.node(target));
        }
        let mut function_cost = CostRange { min: u64::MAX, max: 0 };
        let mut result_size: Option<CostRange> = None;
        for overload in overloads {
            let call = calls::Call { expr, function, overload, target: target_node.as_ref(), args: &arg_nodes };
            let (cost, size) = self.function_cost(&call, &arg_costs);
            function_cost = function_cost.union(cost);
            result_size = match (result_size, size) {
                (Some(a), Some(b)) => Some(a.union(b)),
                (a, b) => a.or(b),
            };
            if let ("index_list" | "index_map", Some(operand)) = (*overload, args.first()) {
                result_size = self.entry_size(operand).map(|entry| entry.value);
                let step = if *overload == "index_list" { "@items" } else { "@values" };
                let path = self.path(operand).then(step);
                self.paths.insert(expr.id, path);
            }
            if result_size.is_none() {
                result_size = self.size(expr);
            }
        }
        if let Some(size) = result_size {
            self.sizes.insert(expr.id, size);
        }
        sum.plus(function_cost)
    }

    fn node<'e>(&mut self, expr: &'e Expr) -> CostOperand<'e> {
        let mut path = self.path(expr);
        if path.steps.borrow().first().is_some_and(|first| first == ACCUMULATOR) {
            path = Path::default();
        }
        CostOperand { path, ty: self.checked.type_of(expr).clone(), expr, size: self.size(expr) }
    }
}

/// An operand of a call, as the call rules see it.
struct CostOperand<'e> {
    path: Path,
    ty: Type,
    expr: &'e Expr,
    size: Option<CostRange>,
}

/// The neutral start of a union over elements, or zero when there are none.
fn empty_union(is_empty: bool) -> CostRange {
    if is_empty { CostRange::default() } else { CostRange { min: u64::MAX, max: 0 } }
}
