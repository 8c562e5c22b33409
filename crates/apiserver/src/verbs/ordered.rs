//! A window of a list in an order that the caller chooses, filtered by text. For pages that show thousands of objects.

use std::cmp::Ordering;
use std::sync::Arc;

use object::request::User;
use object::{Object, Status};
use serde_json::{Value, json};

use super::{Target, list};
use crate::cache::Entry;
use crate::convert;
use crate::request::ListSelection;
use crate::respond::table;
use crate::scope::ReadScope;

/// Objects of a list that can be ordered or filtered. Larger lists must be narrowed by namespace or selector first.
pub const ORDERED_MAX: usize = 100_000;
/// Objects that are read before other requests get a turn.
const CHUNK: usize = 128;
/// Memory of the key of one object.
const KEY_BYTES: usize = 160;
/// Characters of a cell that count for the order.
const KEY_CHARS: usize = 96;

/// The order of the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowOrder {
    /// By namespace and name, as the store has them.
    Key,
    Name,
    Created,
    /// The latest time of an event, or the creation of other objects.
    LastSeen,
    /// A column of the table, by its name in any case.
    Column(String),
}

impl RowOrder {
    pub fn parse(text: &str) -> Self {
        match text.to_lowercase().as_str() {
            "" | "namespace" => Self::Key,
            "name" => Self::Name,
            "created" => Self::Created,
            "lastseen" => Self::LastSeen,
            column => Self::Column(column.to_owned()),
        }
    }
}

/// The part of a list to return.
#[derive(Clone, Debug)]
pub struct RowWindow {
    pub order: RowOrder,
    pub is_descending: bool,
    /// Part of the namespace, the name or a cell, in any case; empty for all.
    pub contains: String,
    pub offset: usize,
    pub limit: usize,
    /// As in requests for tables.
    pub include_object: Option<String>,
}

/// Returns the rows of the window as a `Table`, with the numbers of all and of matching objects.
pub async fn ordered(
    scope: ReadScope<'_>,
    user: &Arc<User>,
    target: &Target,
    selection: &ListSelection,
    window: &RowWindow,
) -> Result<Value, Status> {
    let listed = list::list(scope.resources.objects, target, selection).await?;
    let total = listed.entries.len();
    let found = match is_stored_order(window) {
        true => stored_order(total, window.is_descending),
        false => {
            let _while_sorted = scope.limits.reserve(user, total.min(ORDERED_MAX) * KEY_BYTES)?;
            sorted(scope, target, &listed.entries, window).await?
        }
    };
    let mut objects = Vec::new();
    for index in found.iter().skip(window.offset).take(window.limit) {
        objects.push(served(scope, target, &listed.entries[*index]).await?);
    }
    let metadata = json!({"resourceVersion": listed.revision.to_string()});
    let include = window.include_object.as_deref();
    let mut value = table::table_with(&target.resource, &objects, metadata, true, include)?;
    value["total"] = total.into();
    value["matching"] = found.len().into();
    Ok(value)
}

/// Entries are in this order already, and none needs to be decoded.
fn is_stored_order(window: &RowWindow) -> bool {
    window.contains.is_empty() && window.order == RowOrder::Key
}

fn stored_order(total: usize, is_descending: bool) -> Vec<usize> {
    if is_descending { (0..total).rev().collect() } else { (0..total).collect() }
}

async fn sorted(
    scope: ReadScope<'_>,
    target: &Target,
    entries: &[Arc<Entry>],
    window: &RowWindow,
) -> Result<Vec<usize>, Status> {
    if entries.len() > ORDERED_MAX {
        let text = format!(
            "{} objects are too many to sort or filter: at most {ORDERED_MAX}. Choose a namespace or a label selector",
            entries.len()
        );
        return Err(Status::bad_request(text));
    }
    let printer = &target.resource.kind.printer;
    let column = match &window.order {
        RowOrder::Column(name) => Some(column_index(&printer.columns(), name)?),
        _ => None,
    };
    let needle = window.contains.to_lowercase();
    let now = jiff::Timestamp::now();
    let mut keys: Vec<(RowKey, usize)> = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        if index % CHUNK == CHUNK - 1 {
            tokio::task::yield_now().await;
        }
        let object = served(scope, target, entry).await?;
        let cells = if needle.is_empty() && column.is_none() { Vec::new() } else { printer.cells(&object, now) };
        if matches(&object, &cells, &needle) {
            keys.push((RowKey::of(&window.order, column, &object, &cells), index));
        }
    }
    // Equal keys stay in the order of the store.
    keys.sort_by(|(left, at), (right, other)| {
        let order = left.compare(right);
        (if window.is_descending { order.reverse() } else { order }).then(at.cmp(other))
    });
    Ok(keys.into_iter().map(|(_, index)| index).collect())
}

async fn served(scope: ReadScope<'_>, target: &Target, entry: &Arc<Entry>) -> Result<Arc<Object>, Status> {
    convert::shared_to_served(scope.resources, &target.resource, entry.decode()).await
}

fn column_index(columns: &[kinds::Column], name: &str) -> Result<usize, Status> {
    columns.iter().position(|column| column.name.to_lowercase() == name).ok_or_else(|| {
        let known: Vec<String> = columns.iter().map(|column| column.name.to_lowercase()).collect();
        Status::bad_request(format!(
            "sort must be namespace, name, created, lastSeen or a column ({}), not {name:?}",
            known.join(", ")
        ))
    })
}

fn matches(object: &Object, cells: &[Value], needle: &str) -> bool {
    let has = |text: &str| text.to_lowercase().contains(needle);
    needle.is_empty()
        || has(&format!("{}/{}", object.namespace(), object.name()))
        || cells.iter().any(|cell| match cell {
            Value::String(text) => has(text),
            Value::Null => false,
            other => has(&other.to_string()),
        })
}

/// The value by which rows are compared: numbers and times come before texts.
#[derive(Clone, Debug, PartialEq)]
enum RowKey {
    Number(f64),
    Text(String),
}

impl RowKey {
    fn of(order: &RowOrder, column: Option<usize>, object: &Object, cells: &[Value]) -> Self {
        match order {
            RowOrder::Key => Self::Text(format!("{}/{}", object.namespace(), object.name())),
            RowOrder::Name => Self::Text(object.name().to_owned()),
            RowOrder::Created => Self::Number(seconds(object.creation_timestamp())),
            RowOrder::LastSeen => Self::Number(seconds(last_seen(object))),
            RowOrder::Column(name) if name == "age" => Self::Number(-seconds(object.creation_timestamp())),
            RowOrder::Column(_) => match column.and_then(|at| cells.get(at)) {
                Some(Value::Number(number)) => Self::Number(number.as_f64().unwrap_or(0.0)),
                Some(Value::String(text)) => Self::text(text),
                Some(Value::Bool(value)) => Self::text(&value.to_string()),
                _ => Self::text(""),
            },
        }
    }

    /// Durations such as `5m10s` count by their length.
    fn text(text: &str) -> Self {
        match duration_seconds(text) {
            Some(seconds) => Self::Number(seconds),
            None => Self::Text(text.chars().take(KEY_CHARS).collect::<String>().to_lowercase()),
        }
    }

    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(left), Self::Number(right)) => left.total_cmp(right),
            (Self::Number(_), Self::Text(_)) => Ordering::Less,
            (Self::Text(_), Self::Number(_)) => Ordering::Greater,
            (Self::Text(left), Self::Text(right)) => natural(left, right),
        }
    }
}

fn seconds(time: &str) -> f64 {
    object::time::parse(time).map_or(0.0, |time| time.as_microsecond() as f64 / 1e6)
}

fn last_seen(event: &Object) -> &str {
    let times = [&["series", "lastObservedTime"][..], &["lastTimestamp"], &["eventTime"]];
    let known = times.into_iter().map(|path| event.str_at(path)).find(|time| !time.is_empty());
    known.unwrap_or_else(|| event.creation_timestamp())
}

fn duration_seconds(text: &str) -> Option<f64> {
    let mut total = 0.0;
    let mut digits = String::new();
    for letter in text.chars() {
        let unit = match letter {
            '0'..='9' => {
                digits.push(letter);
                continue;
            }
            's' => 1.0,
            'm' => 60.0,
            'h' => 3_600.0,
            'd' => 86_400.0,
            'y' => 31_536_000.0,
            _ => return None,
        };
        total += digits.parse::<f64>().ok()? * unit;
        digits.clear();
    }
    (digits.is_empty() && !text.is_empty()).then_some(total)
}

/// Compares texts so that `row-9` comes before `row-10`.
fn natural(left: &str, right: &str) -> Ordering {
    let (mut left, mut right) = (left.chars().peekable(), right.chars().peekable());
    loop {
        let (Some(one), Some(other)) = (left.peek().copied(), right.peek().copied()) else {
            return left.count().cmp(&right.count());
        };
        let order = match one.is_ascii_digit() && other.is_ascii_digit() {
            true => number(&mut left).total_cmp(&number(&mut right)),
            false => {
                left.next();
                right.next();
                one.cmp(&other)
            }
        };
        if order.is_ne() {
            return order;
        }
    }
}

fn number(text: &mut std::iter::Peekable<std::str::Chars<'_>>) -> f64 {
    let mut value = 0.0;
    while let Some(digit) = text.next_if(char::is_ascii_digit) {
        value = value * 10.0 + f64::from(digit.to_digit(10).unwrap_or(0));
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_with_numbers_are_sorted_by_number() {
        let mut names = vec!["row-10", "row-9", "a", "row-9b", "10/10", "9/10", "row-"];
        names.sort_by(|left, right| natural(left, right));
        assert_eq!(names, ["9/10", "10/10", "a", "row-", "row-9", "row-9b", "row-10"]);
    }

    #[test]
    fn durations_are_sorted_by_length() {
        let cases =
            [("5m10s", Some(310.0)), ("2d3h", Some(183_600.0)), ("1y", Some(31_536_000.0)), ("", None), ("5", None)];
        for (text, expected) in cases {
            assert_eq!(duration_seconds(text), expected, "{text}");
        }
        assert_eq!(duration_seconds("web"), None);
    }

    #[test]
    fn rows_are_found_by_any_cell() {
        let object = Object::from_value(json!({"metadata": {"name": "web", "namespace": "shop"}})).expect("an object");
        let cells = [json!("web"), json!("3/3"), json!(17), Value::Null];
        for (needle, expected) in [("", true), ("shop/we", true), ("3/3", true), ("17", true), ("null", false)] {
            assert_eq!(matches(&object, &cells, needle), expected, "{needle}");
        }
    }

    #[test]
    fn an_unknown_column_is_refused_with_the_known_ones() {
        let column = |name: &str| {
            let (ty, format, description) = Default::default();
            kinds::Column { name: name.to_owned(), ty, format, description, priority: 0 }
        };
        let columns = [column("Name"), column("Ready")];
        assert_eq!(column_index(&columns, "ready"), Ok(1));
        let refused = column_index(&columns, "size").expect_err("no such column");
        assert!(refused.message.contains("name, ready"), "{}", refused.message);
    }
}
