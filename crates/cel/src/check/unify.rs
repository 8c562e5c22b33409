//! Type assignability with free type variables.

use crate::types::Type;
use std::sync::Arc;

/// The bindings of the free type variables of one expression, with undo.
#[derive(Default)]
pub(crate) struct Substitutions {
    bound: Vec<Option<Type>>,
    /// Former values, newest last, to undo a failed attempt.
    undo: Vec<(usize, Option<Type>)>,
}

impl Substitutions {
    pub(crate) fn fresh(&mut self) -> Type {
        self.bound.push(None);
        Type::Free(self.bound.len() - 1)
    }

    fn find(&self, ty: &Type) -> Option<&Type> {
        match ty {
            Type::Free(number) => self.bound[*number].as_ref(),
            _ => None,
        }
    }

    fn bind(&mut self, variable: &Type, to: Type) {
        if let Type::Free(number) = variable {
            self.undo.push((*number, self.bound[*number].replace(to)));
        }
    }

    /// Replaces bound variables; unbound ones become `dyn` if `to_dyn`.
    pub(crate) fn apply(&self, ty: &Type, to_dyn: bool) -> Type {
        if let Some(bound) = self.find(ty) {
            return self.apply(bound, to_dyn);
        }
        match ty {
            Type::Free(_) if to_dyn => Type::Dyn,
            Type::List(element) => Type::list(self.apply(element, to_dyn)),
            Type::Map(key, value) => Type::map(self.apply(key, to_dyn), self.apply(value, to_dyn)),
            Type::Optional(inner) => Type::optional(self.apply(inner, to_dyn)),
            Type::Type(Some(inner)) => Type::Type(Some(Arc::new(self.apply(inner, to_dyn)))),
            other => other.clone(),
        }
    }

    pub(crate) fn assignable(&mut self, from: &Type, to: &Type) -> bool {
        self.all_assignable(std::slice::from_ref(from), std::slice::from_ref(to))
    }

    /// Returns true if each type fits; keeps the resulting bindings only on success.
    pub(crate) fn all_assignable(&mut self, from: &[Type], to: &[Type]) -> bool {
        self.undo.clear();
        if from.len() == to.len() && from.iter().zip(to).all(|(from, to)| self.fits(from, to)) {
            return true;
        }
        while let Some((number, former)) = self.undo.pop() {
            self.bound[number] = former;
        }
        false
    }

    fn fits(&mut self, from: &Type, to: &Type) -> bool {
        if matches!(to, Type::Free(_)) {
            let (valid, had_substitution) = self.substitutable(from, to);
            if valid {
                return true;
            }
            if had_substitution {
                return false;
            }
        }
        if matches!(from, Type::Free(_)) {
            return self.substitutable(to, from).0;
        }
        if from.is_dyn_or_error() || to.is_dyn_or_error() {
            return true;
        }
        match (from, to) {
            (Type::Null, other) | (other, Type::Null) => other.is_nullable(),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => self.fits(a, b),
            (Type::Map(ak, av), Type::Map(bk, bv)) => self.fits(ak, bk) && self.fits(av, bv),
            (a, b) => a == b,
        }
    }

    /// Reports whether `variable` may stand for `ty`, and whether it was already bound.
    fn substitutable(&mut self, ty: &Type, variable: &Type) -> (bool, bool) {
        if ty == variable {
            return (true, true);
        }
        if let Some(known) = self.find(variable).cloned() {
            if *ty == known {
                return (true, true);
            }
            if !self.fits(ty, &known) {
                return (false, true);
            }
            let general = most_general(ty, &known);
            if self.absent_from(variable, &general) {
                self.bind(variable, general);
            }
            return (true, true);
        }
        if self.absent_from(variable, ty) {
            self.bind(variable, ty.clone());
            return (true, false);
        }
        (false, false)
    }

    /// The variable does not occur inside the type, so binding it creates no cycle.
    fn absent_from(&self, variable: &Type, within: &Type) -> bool {
        if variable == within {
            return false;
        }
        match within {
            Type::Free(_) => self.find(within).is_none_or(|bound| self.absent_from(variable, bound)),
            Type::List(inner) | Type::Optional(inner) | Type::Type(Some(inner)) => self.absent_from(variable, inner),
            Type::Map(key, value) => self.absent_from(variable, key) && self.absent_from(variable, value),
            _ => true,
        }
    }
}

/// The less specific of two types that fit each other.
pub(crate) fn most_general(a: &Type, b: &Type) -> Type {
    if equal_or_less_specific(a, b) { a.clone() } else { b.clone() }
}

fn equal_or_less_specific(a: &Type, b: &Type) -> bool {
    if matches!(a, Type::Dyn | Type::Free(_)) {
        return true;
    }
    if matches!(b, Type::Dyn | Type::Free(_)) {
        return false;
    }
    match (a, b) {
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => equal_or_less_specific(a, b),
        (Type::Map(ak, av), Type::Map(bk, bv)) => equal_or_less_specific(ak, bk) && equal_or_less_specific(av, bv),
        (Type::Type(_), Type::Type(_)) => true,
        (a, b) => a == b,
    }
}
