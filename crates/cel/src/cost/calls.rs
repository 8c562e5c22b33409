//! Static cost and result size of each function.

use super::range::CostRange;
use super::{AUTHORIZATION_CHECK, CostOperand, Coster, EntrySize, LIST_CREATE, Path, REGEX, STRUCT_CREATE, TRAVERSAL};
use crate::ast::{Expr, ExprKind, Literal};
use crate::types::{Type, opaque};

/// A call being estimated, for one of its possible overloads.
pub(super) struct Call<'c> {
    pub(super) expr: &'c Expr,
    pub(super) function: &'c str,
    pub(super) overload: &'static str,
    pub(super) target: Option<&'c CostOperand<'c>>,
    pub(super) args: &'c [CostOperand<'c>],
}

/// Cost of the call itself, and the size of its result if known.
type Estimate = (CostRange, Option<CostRange>);

const ONE: CostRange = CostRange { min: 1, max: 1 };
/// Longest regular expression behind a named format.
const NAMED_FORMAT_REGEX_SIZE: f64 = 128.0;
const NAMED_FORMAT_SIZE: u64 = 64;

impl Coster<'_> {
    /// Cost including the arguments, and result size.
    pub(super) fn function_cost(&mut self, call: &Call, arg_costs: &[CostRange]) -> Estimate {
        let args = arg_costs.iter().fold(CostRange::default(), |sum, cost| sum.plus(*cost));
        if let Some((cost, size)) = self.list_extension(call).or_else(|| self.library_call(call)) {
            return (cost.plus(args), size);
        }
        match (call.overload, call.args) {
            ("logical_or" | "logical_and", _) => {
                let [left, right] = arg_costs else { return (args, None) };
                (CostRange { min: left.min, max: left.max.saturating_add(right.max) }, None)
            }
            ("conditional", [_, then, otherwise]) => {
                let [condition, then_cost, otherwise_cost] = arg_costs else { return (args, None) };
                let size = or_unknown(then).union(or_unknown(otherwise));
                let entry = EntrySize::union(self.entry_size(then.expr), self.entry_size(otherwise.expr));
                self.remember_entry(call.expr, entry);
                (condition.plus(then_cost.union(*otherwise_cost)), Some(size))
            }
            ("add_string" | "add_bytes" | "add_list", [left, right]) => {
                let size = or_unknown(left).plus(or_unknown(right));
                let entry = EntrySize::union(self.entry_size(left.expr), self.entry_size(right.expr));
                self.remember_entry(call.expr, entry);
                let cost = if call.overload == "add_list" { ONE } else { size.scaled(TRAVERSAL) };
                (cost.plus(args), Some(size))
            }
            _ => match core_call(call) {
                Some((cost, size)) => (cost.plus(args), size),
                None => (ONE.plus(args), None),
            },
        }
    }

    fn remember_entry(&mut self, expr: &Expr, entry: Option<EntrySize>) {
        if let Some(entry) = entry {
            self.entry_sizes.insert(expr.id, entry);
        }
    }

    fn size_of(&self, node: &CostOperand) -> CostRange {
        node.size.or_else(|| self.declared_size(&node.path)).unwrap_or(CostRange::UNKNOWN)
    }

    /// Type and size of the elements of a list operand; none if it is not a list.
    fn element_of(&self, node: &CostOperand) -> Option<(Type, CostRange)> {
        let element = match &node.ty {
            Type::List(element) | Type::Optional(element) => element.as_ref().clone(),
            Type::Map(key, _) => key.as_ref().clone(),
            _ => return None,
        };
        // Upstream copies this path; it must not grow in place.
        let own = Path { capacity: node.path.length, ..node.path.clone() };
        let size = if own.is_empty() { None } else { self.declared_size(&own.then("@items")) };
        Some((element, size.unwrap_or(CostRange::UNKNOWN)))
    }

    /// cel-go's list and set extensions.
    fn list_extension(&self, call: &Call) -> Option<Estimate> {
        let allocating = |factor: f64, size: CostRange| {
            let cost = size.scaled(factor).plus(ONE).plus(CostRange::fixed(LIST_CREATE));
            (cost, Some(size))
        };
        let constant = |node: &CostOperand, otherwise: u64| match node.expr.kind {
            ExprKind::Literal(Literal::Int(value)) => value.max(0) as u64,
            _ => otherwise,
        };
        let self_compare = |size: CostRange, element: &Type| {
            let is_text = matches!(element, Type::String | Type::Bytes);
            allocating(if is_text { 2.0 + TRAVERSAL } else { 2.0 }, size.times(size))
        };
        Some(match (call.overload, call.target, call.args) {
            ("list_slice", Some(list), [start, end]) => {
                let size = self.size_of(list);
                let (start, end) = (constant(start, 0), constant(end, size.max));
                allocating(1.0, CostRange::fixed(end.wrapping_sub(start)))
            }
            ("list_flatten", Some(list), []) => allocating(1.0, self.size_of(list)),
            ("list_flatten_int", Some(list), [depth]) => {
                allocating(constant(depth, u64::MAX) as f64, self.size_of(list))
            }
            ("lists_range", None, [count]) => allocating(1.0, CostRange::fixed(constant(count, u64::MAX))),
            ("list_reverse", Some(list), []) => allocating(1.0, self.size_of(list)),
            ("list_distinct", Some(list), []) => {
                let size = self.size_of(list);
                allocating(2.0, size.times(size))
            }
            (id, Some(list), []) if id.ends_with("_sort") => self_compare(self.size_of(list), sorted_type(id)),
            (id, Some(_), [keys]) if id.ends_with("_sortByAssociatedKeys") => {
                self_compare(self.size_of(keys), sorted_type(id))
            }
            ("list_sets_contains_list" | "list_sets_intersects_list", None, [a, b]) => {
                (self.size_of(a).times(self.size_of(b)).plus(ONE), None)
            }
            ("list_sets_equivalent_list", None, [a, b]) => {
                (self.size_of(a).times(self.size_of(b)).scaled(2.0).plus(ONE), None)
            }
            _ => return None,
        })
    }

    /// Kubernetes' own libraries.
    fn library_call(&self, call: &Call) -> Option<Estimate> {
        let first = call.args.first();
        let traversal = |node: &CostOperand, factor: f64| self.size_of(node).scaled(factor * TRAVERSAL);
        Some(match (call.function, call.target, first) {
            ("check", ..) => (CostRange::fixed(AUTHORIZATION_CHECK), None),
            (function, ..) if is_nominal(function) => (ONE, None),
            ("fieldSelector" | "labelSelector", _, Some(selector)) => (selector_cost(self.size_of(selector)), None),
            ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", Some(target), _) => {
                (self.list_search(target), None)
            }
            ("url", _, Some(text)) => (traversal(text, 1.0), Some(self.size_of(text))),
            ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(target), _) => {
                (traversal(target, 1.0), Some(self.size_of(target)))
            }
            ("replace", Some(target), Some(from)) => {
                let size = replaced_size(self.size_of(target), self.size_of(from), self.size_of(call.args.get(1)?));
                (traversal(target, 2.0), Some(size))
            }
            ("split", Some(target), _) => {
                let max = match call.args.get(1).map(|limit| &limit.expr.kind) {
                    Some(ExprKind::Literal(Literal::Int(limit))) => *limit as u64,
                    _ => self.size_of(target).max,
                };
                (traversal(target, 2.0), Some(CostRange { min: 0, max }))
            }
            ("join", Some(target), separator) => {
                let size = self.joined_size(target, separator);
                (size.scaled(TRAVERSAL), Some(size))
            }
            ("find" | "findAll", Some(target), Some(pattern)) => {
                let text = self.size_of(target);
                let cost = text.plus(ONE).scaled(TRAVERSAL).times(self.size_of(pattern).scaled(REGEX));
                (cost, Some(CostRange { min: 0, max: text.max }))
            }
            ("cidr" | "isIP" | "isCIDR" | "quantity" | "isQuantity" | "semver" | "isSemver", _, Some(text)) => {
                (traversal(text, 1.0), None)
            }
            ("ip", ..) if call.overload == "cidr_ip" => (ONE, None),
            ("ip", _, Some(text)) => (traversal(text, 1.0), None),
            ("ip.isCanonical", _, Some(text)) => (traversal(text, 2.0), None),
            ("containsIP" | "containsCIDR", _, Some(other)) => (self.contains_cost(call, other), None),
            ("validate", _, Some(text)) => (traversal(text, 1.0).scaled(NAMED_FORMAT_REGEX_SIZE * REGEX), None),
            ("format.named", ..) => (ONE, None),
            ("_==_", ..) => (opaque_equality(call)?, None),
            _ => return None,
        })
    }

    fn list_search(&self, target: &CostOperand) -> CostRange {
        let size = self.size_of(target);
        match self.element_of(target) {
            Some((Type::String | Type::Bytes, element)) => size.times(ONE.plus(element.scaled(TRAVERSAL))),
            Some(_) => size,
            None => size.scaled(TRAVERSAL),
        }
    }

    fn joined_size(&self, target: &CostOperand, separator: Option<&CostOperand>) -> CostRange {
        let count = self.size_of(target);
        let mut size = self.element_of(target).map_or(CostRange::default(), |(_, element)| count.times(element));
        if let Some(separator) = separator {
            let separators = CostRange { min: count.min.saturating_sub(1), max: count.max.saturating_sub(1) };
            size = size.plus(self.size_of(separator).times(separators));
        }
        size
    }

    fn contains_cost(&self, call: &Call, other: &CostOperand) -> CostRange {
        // Addresses are 4 or 16 bytes; both sides are scanned.
        let address = CostRange { min: 4, max: 16 };
        let mut cost = address.plus(address).scaled(TRAVERSAL);
        if call.function == "containsCIDR" {
            cost = cost.plus(address.scaled(TRAVERSAL)).plus(ONE);
        }
        if call.overload.ends_with("_string") {
            cost = cost.plus(self.size_of(other).scaled(TRAVERSAL));
        }
        cost
    }
}

fn or_unknown(node: &CostOperand) -> CostRange {
    node.size.unwrap_or(CostRange::UNKNOWN)
}

/// Functions of the language itself whose cost depends on sizes.
fn core_call(call: &Call) -> Option<Estimate> {
    Some(match (call.overload, call.target, call.args) {
        ("string_format", Some(target), _) => (or_unknown(target).scaled(TRAVERSAL), None),
        ("string_to_bytes", _, [text]) => {
            let size = or_unknown(text);
            let result = CostRange { min: size.min, max: size.max.wrapping_mul(4) };
            (size.scaled(TRAVERSAL), Some(result))
        }
        ("bytes_to_string", _, [bytes]) => {
            let size = or_unknown(bytes);
            (size.scaled(TRAVERSAL), Some(CostRange { min: size.min / 4, max: size.max }))
        }
        ("strings_quote", _, [text]) => {
            let size = or_unknown(text);
            let result = CostRange { min: size.min.wrapping_add(2), max: size.max.wrapping_mul(2).wrapping_add(2) };
            (size.scaled(TRAVERSAL), Some(result))
        }
        ("starts_with_string" | "ends_with_string", _, [part]) => (or_unknown(part).scaled(TRAVERSAL), None),
        ("in_list", _, [_, list]) => (or_unknown(list).scaled(1.0), None),
        ("matches_string", Some(text), [pattern]) => {
            let text = or_unknown(text).plus(ONE).scaled(TRAVERSAL);
            (text.times(or_unknown(pattern).scaled(REGEX)), None)
        }
        ("contains_string", Some(text), [part]) => {
            (or_unknown(text).scaled(TRAVERSAL).times(or_unknown(part).scaled(TRAVERSAL)), None)
        }
        (id, _, [left, right]) if is_sized_comparison(id) => {
            let max = or_unknown(left).max.min(or_unknown(right).max);
            (CostRange { min: u64::from(max > 0), max }.scaled(TRAVERSAL), None)
        }
        _ => return None,
    })
}

pub(crate) fn is_sized_comparison(overload: &str) -> bool {
    matches!(
        overload,
        "equals"
            | "not_equals"
            | "less_string"
            | "greater_string"
            | "less_equals_string"
            | "greater_equals_string"
            | "less_bytes"
            | "greater_bytes"
            | "less_equals_bytes"
            | "greater_equals_bytes"
    )
}

/// Accessors and builders that cost one unit regardless of their arguments.
pub(crate) fn is_nominal(function: &str) -> bool {
    const NOMINAL: [&str; 38] = [
        "serviceAccount",
        "path",
        "group",
        "resource",
        "subresource",
        "namespace",
        "name",
        "allowed",
        "reason",
        "error",
        "errored",
        "masked",
        "prefixLength",
        "family",
        "isUnspecified",
        "isLoopback",
        "isLinkLocalMulticast",
        "isLinkLocalUnicast",
        "isGlobalUnicast",
        "sign",
        "asInteger",
        "isInteger",
        "asApproximateFloat",
        "isGreaterThan",
        "isLessThan",
        "compareTo",
        "add",
        "sub",
        "major",
        "minor",
        "patch",
        "getScheme",
        "getHostname",
        "getHost",
        "getPort",
        "getEscapedPath",
        "getQuery",
        "format.named",
    ];
    NOMINAL.contains(&function)
}

pub(crate) fn selector_cost(length: CostRange) -> CostRange {
    // Every requirement takes at least two characters and allocates a struct and a list.
    let requirements = length.scaled(0.5).scaled((LIST_CREATE + STRUCT_CREATE) as f64);
    CostRange::fixed(LIST_CREATE).plus(length.scaled(TRAVERSAL)).plus(requirements)
}

fn opaque_equality(call: &Call) -> Option<CostRange> {
    let [left, right] = call.args else { return None };
    if left.ty != right.ty {
        return None;
    }
    match left.ty {
        Type::Opaque(opaque::NAMED_FORMAT) => Some(CostRange { min: 1, max: NAMED_FORMAT_SIZE }.scaled(TRAVERSAL)),
        Type::Opaque(opaque::URL) => {
            let size = right.size.unwrap_or(ONE);
            Some(CostRange { min: 1, max: size.max }.scaled(TRAVERSAL))
        }
        Type::Opaque(_) => Some(ONE),
        _ => None,
    }
}

/// The element type in the name of a sort overload.
fn sorted_type(overload: &str) -> &'static Type {
    match overload.split('_').nth(1) {
        Some("string") => &Type::String,
        Some("bytes") => &Type::Bytes,
        _ => &Type::Int,
    }
}

/// Bounds on the length of a string after every `from` became `to`.
fn replaced_size(text: CostRange, from: CostRange, to: CostRange) -> CostRange {
    let max = if from.min == 0 {
        // An empty string matches around every character.
        to.max.saturating_mul(text.max.saturating_add(1)).saturating_add(text.max)
    } else if to.max <= from.min {
        text.max
    } else {
        text.max.div_ceil(from.min).saturating_mul(to.max)
    };
    let min = if from.max == 0 {
        to.min.saturating_mul(text.min.saturating_add(1)).saturating_add(text.min)
    } else if from.max <= to.min {
        text.min
    } else {
        text.min.div_ceil(from.max).saturating_mul(to.min)
    };
    CostRange { min, max }
}
