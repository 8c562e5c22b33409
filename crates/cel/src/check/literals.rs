//! Rejects literals that could only fail when evaluated: durations, timestamps, patterns, format strings, mixed
//! lists.

use super::Checked;
use crate::ast::{Expr, ExprKind, Literal, MapEntry, NodeId};
use crate::library::format::{read_clause, restriction, unknown_clause};
use crate::library::regex;
use crate::source::Issue;
use crate::types::Type;
use crate::value::time::{Duration, Timestamp};

pub(crate) fn check_literals(checked: &Checked) -> Vec<Issue> {
    let mut checker = LiteralChecker { checked, issues: Vec::new() };
    checker.visit(&checked.ast.root, false);
    checker.issues
}

struct LiteralChecker<'c> {
    checked: &'c Checked,
    issues: Vec<Issue>,
}

impl LiteralChecker<'_> {
    fn issue(&mut self, at: NodeId, message: String) {
        self.issues.push(Issue::new(self.checked.ast.offsets[at], message));
    }

    /// `in_format` is set below the arguments of `format`, where lists may mix types.
    fn visit(&mut self, expr: &Expr, in_format: bool) {
        match &expr.kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) => {}
            ExprKind::Select { operand, .. } => self.visit(operand, in_format),
            ExprKind::Call { function, target, args } => {
                self.call(expr, function, target.as_deref(), args);
                let in_format = in_format || function == "format";
                for operand in target.as_deref().into_iter().chain(args) {
                    self.visit(operand, in_format);
                }
            }
            ExprKind::List { elements, optional } => {
                if !in_format {
                    self.same_types(elements.iter().zip(optional.iter().copied()));
                }
                for element in elements {
                    self.visit(element, in_format);
                }
            }
            ExprKind::Map { entries } => {
                if !in_format {
                    self.same_types(entries.iter().map(|entry: &MapEntry| (&entry.key, false)));
                    self.same_types(entries.iter().map(|entry: &MapEntry| (&entry.value, entry.optional)));
                }
                for entry in entries {
                    self.visit(&entry.key, in_format);
                    self.visit(&entry.value, in_format);
                }
            }
            ExprKind::Struct { fields, .. } => fields.iter().for_each(|field| self.visit(&field.value, in_format)),
            ExprKind::Comprehension(fold) => {
                for part in [&fold.range, &fold.accu_init, &fold.condition, &fold.step, &fold.result] {
                    self.visit(part, in_format);
                }
            }
        }
    }

    fn same_types<'e>(&mut self, elements: impl Iterator<Item = (&'e Expr, bool)>) {
        let mut expected: Option<Type> = None;
        for (element, optional) in elements {
            let found = match self.checked.type_of(element) {
                Type::Optional(inner) if optional => inner.as_ref().clone(),
                other => other.clone(),
            };
            match &expected {
                None => expected = Some(found),
                Some(expected) if *expected == found => {}
                Some(expected) => {
                    let message = format!("expected type '{expected}' but found '{found}'");
                    self.issue(element.id, message);
                    return;
                }
            }
        }
    }

    fn call(&mut self, expr: &Expr, function: &str, target: Option<&Expr>, args: &[Expr]) {
        if function == "format" {
            self.format_call(expr, target, args);
            return;
        }
        let Some(Expr { id, kind: ExprKind::Literal(Literal::String(text)) }) = args.first() else { return };
        let fails = match function {
            "duration" => Duration::parse(text).is_none(),
            "timestamp" => Timestamp::parse(text).is_none(),
            "matches" => regex::compile(text).is_err(),
            _ => false,
        };
        if fails {
            self.issue(*id, format!("invalid {function} argument"));
        }
    }

    /// Checks a format string against the types of the list written next to it.
    fn format_call(&mut self, expr: &Expr, target: Option<&Expr>, args: &[Expr]) {
        let Some(Expr { kind: ExprKind::Literal(Literal::String(template)), .. }) = target else { return };
        let Some(Expr { kind: ExprKind::List { elements, .. }, .. }) = args.first() else { return };
        let mut used = 0;
        let mut rest: &str = template;
        while let Some(at) = rest.find('%') {
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('%') {
                rest = after;
                continue;
            }
            if rest.is_empty() {
                return self.issue(expr.id, "unexpected end of string".to_owned());
            }
            let Some(element) = elements.get(used) else {
                return self.issue(expr.id, format!("index {used} out of range"));
            };
            used += 1;
            match read_clause(rest) {
                Err(error) => return self.issue(expr.id, error.to_string()),
                Ok((verb, _, after)) => {
                    if !"sdfeboxX".contains(verb) {
                        return self.issue(expr.id, unknown_clause(verb).to_string());
                    }
                    if let Some(misfit) = self.misfit(verb, element) {
                        let given = self.checked.type_of(misfit).runtime_name();
                        let message = format!("error during formatting: {}, was given {given}", restriction(verb));
                        return self.issue(misfit.id, message);
                    }
                    rest = after;
                }
            }
        }
        if elements.len() > used {
            let given = elements.len();
            let message = format!("too many arguments supplied to string.format (expected {used}, got {given})");
            self.issue(expr.id, message);
        }
    }

    /// The expression, at or below the argument, that the clause cannot format.
    fn misfit<'e>(&self, verb: char, argument: &'e Expr) -> Option<&'e Expr> {
        let ty = self.checked.type_of(argument);
        let fits = match verb {
            _ if *ty == Type::Dyn => true,
            'd' | 'o' => matches!(ty, Type::Int | Type::Uint),
            'f' | 'e' => matches!(ty, Type::Double | Type::String),
            'b' => matches!(ty, Type::Int | Type::Uint | Type::Bool),
            'x' | 'X' => matches!(ty, Type::Int | Type::Uint | Type::String | Type::Bytes),
            _ => !matches!(ty, Type::Opaque(_) | Type::Optional(_) | Type::Object(_)),
        };
        if !fits {
            return Some(argument);
        }
        match &argument.kind {
            ExprKind::List { elements, .. } if verb == 's' => elements.iter().find_map(|e| self.misfit(verb, e)),
            ExprKind::Map { entries } if verb == 's' => {
                entries.iter().flat_map(|entry| [&entry.key, &entry.value]).find_map(|part| self.misfit(verb, part))
            }
            _ => None,
        }
    }
}
