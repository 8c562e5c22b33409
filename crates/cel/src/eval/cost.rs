//! Runtime cost of each call, given its arguments.

use crate::cost::range::CostRange;
use crate::cost::{AUTHORIZATION_CHECK, LIST_CREATE, REGEX, TRAVERSAL, is_nominal, is_sized_comparison, selector_cost};
use crate::library::named_format::NamedFormat;
use crate::plan::Call;
use crate::value::{Evaluated, Opaque, Value};

pub(super) fn equality_cost(left: &Evaluated, right: &Evaluated, wanted: bool) -> u64 {
    if wanted && matches!(left, Ok(Value::Opaque(opaque)) if !matches!(opaque, Opaque::Preserved(_))) {
        return 1;
    }
    let size = |value: &Evaluated| value.as_ref().map_or(1, Value::cost_size);
    traversal(size(left).min(size(right)), 1.0)
}

fn traversal(size: u64, factor: f64) -> u64 {
    (size as f64 * factor * TRAVERSAL).ceil() as u64
}

fn regex_cost(text_size: u64, pattern_size: u64) -> u64 {
    let text = ((1.0 + text_size as f64) * TRAVERSAL).ceil() as u64;
    text.saturating_mul((pattern_size as f64 * REGEX).ceil() as u64)
}

pub(super) fn call_cost(call: &Call, args: &[Value], result: Option<&Value>) -> u64 {
    list_extension_cost(call, args, result)
        .or_else(|| library_cost(call, args, result))
        .unwrap_or_else(|| core_cost(call, args))
}

/// cel-go's list and set extensions.
fn list_extension_cost(call: &Call, args: &[Value], result: Option<&Value>) -> Option<u64> {
    let allocating = |size: u64, factor: f64| 1 + LIST_CREATE + (size as f64 * factor) as u64;
    let self_compare = |list: &Value| {
        let size = list.cost_size();
        let Value::List(items) = list else { return allocating(size.saturating_mul(size), 2.0) };
        let is_text = matches!(items.get(0), Some(Ok(Value::String(_) | Value::Bytes(_))));
        allocating(size.saturating_mul(size), if is_text { 2.0 + TRAVERSAL } else { 2.0 })
    };
    let product = |args: &[Value], factor: f64| match args {
        [a, b] => 1 + (a.cost_size().saturating_mul(b.cost_size()) as f64 * factor) as u64,
        _ => 1,
    };
    Some(match call.overload? {
        "list_slice" | "lists_range" | "list_reverse" => allocating(result.map_or(1, Value::cost_size), 1.0),
        "list_flatten" => allocating(args[0].cost_size(), 1.0),
        "list_flatten_int" => match args {
            [list, Value::Int(depth)] => allocating(list.cost_size(), (*depth).max(0) as f64),
            _ => return None,
        },
        "list_distinct" => self_compare(&args[0]),
        id if id.ends_with("_sort") => self_compare(&args[0]),
        id if id.ends_with("_sortByAssociatedKeys") => self_compare(&args[1]),
        "list_sets_contains_list" | "list_sets_intersects_list" => product(args, 1.0),
        "list_sets_equivalent_list" => product(args, 2.0),
        _ => return None,
    })
}

/// Kubernetes' own libraries.
fn library_cost(call: &Call, args: &[Value], result: Option<&Value>) -> Option<u64> {
    let size = |index: usize| args.get(index).map(Value::cost_size);
    Some(match call.function.as_str() {
        "check" => AUTHORIZATION_CHECK,
        function if is_nominal(function) => 1,
        "fieldSelector" | "labelSelector" => selector_cost(CostRange::fixed(size(1)?)).max,
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => traversal_cost(args.first()?),
        "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" => traversal(size(0)?, 1.0),
        "replace" | "split" => traversal(size(0)?, 2.0),
        "join" => traversal(result.map_or(1, Value::cost_size), 2.0),
        "find" | "findAll" => regex_cost(size(0)?, size(1)?),
        "ip" if call.overload == Some("cidr_ip") => 1,
        "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
            traversal(size(0)?, 1.0)
        }
        "ip.isCanonical" => traversal(size(0)?, 2.0),
        "containsIP" | "containsCIDR" => {
            let mut cost = traversal(size(0)?.saturating_mul(2), 1.0);
            if call.function == "containsCIDR" {
                cost += traversal(size(0)?, 1.0) + 1;
            }
            if call.overload.is_some_and(|id| id.ends_with("_string")) {
                cost += traversal(size(1)?, 1.0);
            }
            cost
        }
        "validate" => match args {
            [Value::Opaque(Opaque::Format(format)), text] => {
                regex_cost(text.cost_size(), NamedFormat::regex_size_max(*format))
            }
            _ => return None,
        },
        _ => return None,
    })
}

/// Functions of the language itself, by overload; dynamic calls are charged as if constant-time.
fn core_cost(call: &Call, args: &[Value]) -> u64 {
    let size = |index: usize| args.get(index).map_or(1, Value::cost_size);
    match call.overload {
        Some(
            "starts_with_string" | "ends_with_string" | "string_to_bytes" | "bytes_to_string" | "strings_quote"
            | "string_format",
        ) => traversal(size(0), 1.0),
        Some("in_list") => size(1),
        Some(id) if is_sized_comparison(id) => traversal(size(0).min(size(1)), 1.0),
        Some("add_string" | "add_bytes") => traversal(size(0).saturating_add(size(1)), 1.0),
        Some("matches_string") => regex_cost(size(0), size(1)),
        Some("contains_string") => traversal(size(0), 1.0).saturating_mul(traversal(size(1), 1.0)),
        _ => 1,
    }
}

/// Walking a value as a tree.
fn traversal_cost(value: &Value) -> u64 {
    match value {
        Value::String(text) => (text.len() as f64 * TRAVERSAL) as u64,
        Value::Bytes(bytes) => (bytes.len() as f64 * TRAVERSAL) as u64,
        Value::List(list) => list.iter().map(|item| item.as_ref().map_or(1, traversal_cost)).sum(),
        Value::Map(map) => map
            .entries()
            .map_or(1, |entries| entries.iter().map(|(key, value)| traversal_cost(key) + traversal_cost(value)).sum()),
        _ => 1,
    }
}
