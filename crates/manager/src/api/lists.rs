//! Lists of objects: filter, order, pages with sealed tokens.
//!
//! A token holds all it needs, and every manager on the same storage can open it.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use object::Status;
use pki::sealing::SealingKey;
use pki::token::hash;
use serde::{Deserialize, Serialize};
use transcode::errors::out_of_range;

use super::query::{self, Found, Query};

const PAGE_SIZE_DEFAULT: usize = 50;
pub const PAGE_SIZE_MAX: usize = 500;
/// Tokens are sealed for this purpose only.
const TOKEN_PURPOSE: &str = "page tokens";
const TOKEN_LABEL: &str = "page";

/// The filter, order and page of a list request.
#[derive(Clone, Debug, Default)]
pub struct ListRequest<'a> {
    pub filter: &'a str,
    pub order_by: &'a str,
    pub page_size: i32,
    pub page_token: &'a str,
    /// A page by its number; 0 for none.
    pub page: i32,
    /// The caller and the list: a token is valid for both only.
    pub scope: String,
    /// `false` leaves the number of items out.
    pub include_total: Option<bool>,
}

/// A page of items.
pub struct Page<T> {
    pub items: Vec<T>,
    pub next_page_token: String,
    pub total: i64,
}

/// Items that can be found by a query.
pub trait ListItem {
    fn found(&self) -> Found<'_>;
}

impl ListItem for std::sync::Arc<object::Object> {
    fn found(&self) -> Found<'_> {
        Found { instance: "", cluster: "", object: self }
    }
}

/// Filters, sorts and cuts items. Pages neither repeat nor skip items while others come and go: a token holds the sort key of
/// the last item.
pub fn page<T: ListItem>(key: &str, items: Vec<T>, request: &ListRequest<'_>) -> Result<Page<T>, Status> {
    let query = Query::parse(request.filter, Timestamp::now())?;
    if !query.kinds.is_empty() && request.scope.starts_with("kindless ") {
        return Err(Status::bad_request("filter: kind: is not a term of this list"));
    }
    let kept = items.into_iter().filter(|item| query.matches(&item.found())).collect();
    page_sorted(key, kept, &query, request)
}

/// The same for items that were filtered already.
pub fn page_sorted<T: ListItem>(
    key: &str,
    items: Vec<T>,
    query: &Query,
    request: &ListRequest<'_>,
) -> Result<Page<T>, Status> {
    let mut order = query::order_by(request.order_by)?;
    if order.is_empty() {
        order.clone_from(&query.sort);
    }
    let size = page_size(request.page_size)?;
    let mut items: Vec<(Vec<String>, T)> =
        items.into_iter().map(|item| (sort_key(&item.found(), &order), item)).collect();
    items.sort_by(|(a, _), (b, _)| compare(a, b, &order));
    let total = items.len();
    let scope = scope_of(&request.scope, request.filter, request.order_by);
    let start = match (request.page_token, usize::try_from(request.page)) {
        ("", Ok(0)) => 0,
        ("", Ok(number)) => (number - 1).saturating_mul(size).min(total),
        ("", Err(_)) => return Err(Status::bad_request("page: must not be negative")),
        (token, _) => {
            let last = read_token(key, token, &scope)?;
            items.partition_point(|(item, _)| compare(item, &last, &order).is_le())
        }
    };
    let end = start.saturating_add(size).min(total);
    let next_page_token = match end < total && end > start {
        true => token(key, &items[end - 1].0, &scope)?,
        false => String::new(),
    };
    let items = items.drain(start..end).map(|(_, item)| item).collect();
    Ok(Page { items, next_page_token, total: counted(total, request.include_total) })
}

/// The total of a list, or 0 for callers that do not want it.
pub fn counted(total: usize, include_total: Option<bool>) -> i64 {
    if include_total == Some(false) { 0 } else { i64::try_from(total).unwrap_or(i64::MAX) }
}

/// Returns the number of items of a page.
pub fn page_size(asked: i32) -> Result<usize, Status> {
    match usize::try_from(asked) {
        Ok(0) => Ok(PAGE_SIZE_DEFAULT),
        Ok(size) => Ok(size.min(PAGE_SIZE_MAX)),
        Err(_) => Err(Status::bad_request("pageSize: must not be negative")),
    }
}

/// Returns the list and the query that a token is valid for.
pub fn scope_of(list: &str, filter: &str, order_by: &str) -> String {
    hash(&format!("{list}\n{filter}\n{order_by}"))
}

/// The values of the order, then those that make every key unique.
fn sort_key(found: &Found, order: &[(String, bool)]) -> Vec<String> {
    let mut key: Vec<String> = order.iter().map(|(field, _)| query::sort_value(found, field).to_owned()).collect();
    let object = found.object;
    let rest = [found.instance, found.cluster, object.namespace(), object.name(), object.kind(), object.uid()];
    key.extend(rest.into_iter().map(str::to_owned));
    key
}

fn compare(a: &[String], b: &[String], order: &[(String, bool)]) -> std::cmp::Ordering {
    for (at, (a, b)) in a.iter().zip(b).enumerate() {
        let is_descending = order.get(at).is_some_and(|(_, descending)| *descending);
        let found = if is_descending { b.cmp(a) } else { a.cmp(b) };
        if found.is_ne() {
            return found;
        }
    }
    std::cmp::Ordering::Equal
}

/// The content of a token.
#[derive(Serialize, Deserialize)]
struct Position {
    /// The sort key of the last item.
    last: Vec<String>,
    scope: String,
}

fn sealing(key: &str) -> SealingKey {
    SealingKey::derive(key.as_bytes(), TOKEN_PURPOSE)
}

/// Returns a sealed token with the sort key of the last item.
pub fn token(key: &str, last: &[String], scope: &str) -> Result<String, Status> {
    let position = Position { last: last.to_vec(), scope: scope.to_owned() };
    let plain = serde_json::to_vec(&position).map_err(Status::internal)?;
    let sealed = sealing(key).seal(TOKEN_LABEL, &plain).map_err(Status::internal)?;
    Ok(URL_SAFE_NO_PAD.encode(sealed))
}

/// Returns the sort key in a token of the same list.
pub fn read_token(key: &str, token: &str, scope: &str) -> Result<Vec<String>, Status> {
    let broken = || out_of_range("pageToken: is not a token of this manager");
    let sealed = URL_SAFE_NO_PAD.decode(token).map_err(|_| broken())?;
    let plain = sealing(key).open(TOKEN_LABEL, &sealed).ok_or_else(broken)?;
    let position: Position = serde_json::from_slice(&plain).map_err(|_| broken())?;
    match position.scope == scope {
        true => Ok(position.last),
        false => Err(out_of_range("pageToken: belongs to another query")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object::Object;
    use serde_json::json;

    use super::*;

    fn objects(names: &[&str]) -> Vec<Arc<Object>> {
        let object = |name: &&str| Object::from_value(json!({"kind": "X", "metadata": {"name": name}})).map(Arc::new);
        names.iter().filter_map(object).collect()
    }

    fn names(page: &Page<Arc<Object>>) -> Vec<&str> {
        page.items.iter().map(|item| item.name()).collect()
    }

    #[test]
    fn pages_follow_each_other_while_items_change() {
        let mut request = ListRequest { page_size: 2, ..ListRequest::default() };
        let first = page("k", objects(&["d", "b", "a", "c"]), &request).expect("a page");
        assert_eq!((names(&first), first.total), (vec!["a", "b"], 4));
        let token = first.next_page_token.clone();
        request.page_token = &token;
        // b was deleted, aa was created before the page and bb after it.
        let second = page("k", objects(&["d", "a", "c", "aa", "bb"]), &request).expect("a page");
        assert_eq!((names(&second), second.total), (vec!["bb", "c"], 5));
        request.filter = "name:a";
        assert!(page("k", objects(&["a"]), &request).is_err(), "the token of another query");
        request.filter = "";
        assert!(page("other", objects(&["a"]), &request).is_err(), "the token of another manager");
        request.page_token = "bm90aGluZw";
        assert!(page("k", objects(&["a"]), &request).is_err(), "no token");
    }

    #[test]
    fn callers_may_leave_the_total_out() {
        let check = |include_total: Option<bool>, expected: i64| {
            let request = ListRequest { page_size: 1, include_total, ..ListRequest::default() };
            let page = page("k", objects(&["a", "b"]), &request).expect("a page");
            assert_eq!((page.total, page.next_page_token.is_empty()), (expected, false));
        };
        check(None, 2);
        check(Some(true), 2);
        check(Some(false), 0);
    }

    #[test]
    fn order_and_numbers_of_pages_are_respected() {
        let mut request = ListRequest { order_by: "name desc", page_size: 2, page: 2, ..ListRequest::default() };
        let second = page("k", objects(&["a", "b", "c"]), &request).expect("a page");
        assert_eq!((names(&second), second.next_page_token.as_str()), (vec!["a"], ""));
        request.page = 9;
        assert_eq!(names(&page("k", objects(&["a"]), &request).expect("a page")).len(), 0);
        request.order_by = "uid";
        assert!(page("k", objects(&["a"]), &request).is_err());
        request = ListRequest { page_size: -1, ..ListRequest::default() };
        assert!(page("k", objects(&["a"]), &request).is_err());
    }
}
