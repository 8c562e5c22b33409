//! The expression tree after macros are expanded.

use std::sync::Arc;

/// Identifies a node: index into `Ast::offsets` and into the checker's tables.
pub(crate) type NodeId = usize;

/// The accumulator of macro comprehensions; `@` keeps it out of reach of source text.
pub(crate) const ACCUMULATOR: &str = "@result";
/// Iteration variable of comprehensions that never iterate (`cel.bind`, `optMap`).
pub(crate) const UNUSED_VARIABLE: &str = "#unused";

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
}

#[derive(Debug, Clone)]
pub(crate) struct Expr {
    pub(crate) id: NodeId,
    pub(crate) kind: ExprKind,
}

#[derive(Debug, Clone)]
pub(crate) enum ExprKind {
    Literal(Literal),
    Ident(String),
    Select { operand: Box<Expr>, field: String, test_only: bool },
    Call { function: String, target: Option<Box<Expr>>, args: Vec<Expr> },
    List { elements: Vec<Expr>, optional: Vec<bool> },
    Map { entries: Vec<MapEntry> },
    Struct { type_name: String, fields: Vec<StructField> },
    Comprehension(Box<Comprehension>),
}

#[derive(Debug, Clone)]
pub(crate) struct MapEntry {
    pub(crate) key: Expr,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct StructField {
    pub(crate) name: String,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// A fold: every macro that loops is one of these.
#[derive(Debug, Clone)]
pub(crate) struct Comprehension {
    pub(crate) range: Expr,
    pub(crate) iter_var: String,
    /// Set for two-variable comprehensions, where `iter_var` is the index or key.
    pub(crate) iter_var2: Option<String>,
    pub(crate) accu_var: String,
    pub(crate) accu_init: Expr,
    pub(crate) condition: Expr,
    pub(crate) step: Expr,
    pub(crate) result: Expr,
}

impl Comprehension {
    /// A comprehension that only names a value: empty range, condition `false`.
    pub(crate) fn is_bind(&self) -> bool {
        matches!(&self.range.kind, ExprKind::List { elements, .. } if elements.is_empty())
            && matches!(self.condition.kind, ExprKind::Literal(Literal::Bool(false)))
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Ast {
    pub(crate) root: Expr,
    /// Start of each node in the source, by node id.
    pub(crate) offsets: Vec<usize>,
}

impl Expr {
    /// `a.b.c` as a dotted name, if the expression is only that.
    pub(crate) fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            ExprKind::Ident(name) => Some(name.clone()),
            ExprKind::Select { operand, field, test_only: false } => {
                let mut name = operand.qualified_name()?;
                name.push('.');
                name.push_str(field);
                Some(name)
            }
            _ => None,
        }
    }
}
