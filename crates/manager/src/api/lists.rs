//! Lists of objects: filter, order, pages with signed tokens.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use object::Status;
use pki::token::{constant_time_eq, hash};
use serde_json::{Value, json};
use transcode::errors::out_of_range;

use super::query::{self, Found, Query};

const PAGE_SIZE_DEFAULT: usize = 50;
pub const PAGE_SIZE_MAX: usize = 500;

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
        true => token(key, &items[end - 1].0, &scope),
        false => String::new(),
    };
    let items = items.drain(start..end).map(|(_, item)| item).collect();
    Ok(Page { items, next_page_token, total: i64::try_from(total).unwrap_or(i64::MAX) })
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

/// Two hashes, so that a token cannot be extended.
fn sign(key: &str, payload: &str) -> String {
    hash(&format!("{key}{}", hash(&format!("{key}{payload}"))))
}

/// Returns a signed token with the sort key of the last item.
pub fn token(key: &str, last: &[String], scope: &str) -> String {
    let payload = json!({"last": last, "scope": scope}).to_string();
    let signature = sign(key, &payload);
    URL_SAFE_NO_PAD.encode(format!("{signature}.{payload}"))
}

/// Returns the sort key in a token of the same list.
pub fn read_token(key: &str, token: &str, scope: &str) -> Result<Vec<String>, Status> {
    let broken = || out_of_range("pageToken: is not a token of this manager");
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| broken())?;
    let text = String::from_utf8(bytes).map_err(|_| broken())?;
    let (signature, payload) = text.split_once('.').ok_or_else(broken)?;
    if !constant_time_eq(sign(key, payload).as_bytes(), signature.as_bytes()) {
        return Err(broken());
    }
    let payload: Value = serde_json::from_str(payload).map_err(|_| broken())?;
    if payload["scope"] != scope {
        return Err(out_of_range("pageToken: belongs to another query"));
    }
    let last = payload["last"].as_array().ok_or_else(broken)?;
    Ok(last.iter().map(|part| part.as_str().unwrap_or_default().to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object::Object;

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
