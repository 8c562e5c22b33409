//! Serves windows of lists, sorted and filtered, to callers who may list the resource.

use std::sync::Arc;

use apiserver::extension::{Extension, ExtensionRequest};
use apiserver::request::{ListSelection, RequestInfo};
use apiserver::respond::{self, Body};
use apiserver::server::Server;
use apiserver::verbs::Target;
use apiserver::verbs::ordered::{RowOrder, RowWindow, ordered};
use async_trait::async_trait;
use http::{Method, Response};
use object::query::Query;
use object::request::{ListOptions, Verb};
use object::{GroupVersionResource, Status};

use crate::secret_keys::without_applied_values;

const PATH: &str = "/flotilla/v1alpha1/rows";
const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 1_000;

/// Lists for pages with many objects. It has the rights of the caller: without permission to list the resource there is no
/// answer.
pub struct SortedRows;

#[async_trait]
impl Extension for SortedRows {
    fn handles(&self, path: &str) -> bool {
        path == PATH
    }

    fn judges_callers(&self) -> bool {
        true
    }

    async fn serve(&self, server: &Arc<Server>, request: ExtensionRequest) -> Result<Response<Body>, Status> {
        request.check_method(&Method::GET, "read rows with GET")?;
        let query = &request.incoming.query;
        let parameter = |key: &str| query.get(key).unwrap_or_default().to_owned();
        let gvr = GroupVersionResource::new(parameter("group"), parameter("version"), parameter("resource"));
        if gvr.version.is_empty() || gvr.resource.is_empty() {
            return Err(Status::bad_request("the query needs version, resource and, except for core kinds, group"));
        }
        let resource = server.registry.find(&gvr.group, &gvr.version, &gvr.resource);
        // A role in a namespace says nothing about objects that are in none.
        let is_namespaced = resource.as_ref().is_some_and(|resource| resource.kind.namespaced);
        let namespace = if is_namespaced { parameter("namespace") } else { String::new() };
        let listing = RequestInfo { namespace: namespace.clone(), ..RequestInfo::on(gvr.clone(), Verb::List) };
        server.authorize(&request.user, &listing).await?;
        let Some(resource) = resource.filter(|resource| resource.kind.stored) else {
            let text = format!("{} is not stored here, so that it cannot be sorted", gvr.resource);
            return Err(Status::new(404, "NotFound", text));
        };
        let window = window(query)?;
        // Values of Secrets are read one by one, so that each read is in the audit log as such.
        let is_secrets = gvr.group.is_empty() && gvr.resource == "secrets";
        if is_secrets && window.include_object.as_deref() == Some("Object") {
            return Err(Status::bad_request("includeObject must be None or Metadata for secrets"));
        }
        let target = Target { resource, namespace, name: String::new(), subresource: None };
        let mut table = ordered(server.read_scope(), &request.user, &target, &selection(query)?, &window).await?;
        if is_secrets {
            table["rows"]
                .as_array_mut()
                .into_iter()
                .flatten()
                .for_each(|row| without_applied_values(&mut row["object"]));
        }
        Ok(respond::value(200, &table))
    }
}

fn selection(query: &Query) -> Result<ListSelection, Status> {
    let text = |name: &str| query.get(name).filter(|text| !text.is_empty()).map(str::to_owned);
    ListSelection::of(ListOptions {
        label_selector: text("labelSelector"),
        field_selector: text("fieldSelector"),
        ..ListOptions::default()
    })
}

fn window(query: &Query) -> Result<RowWindow, Status> {
    let number = |name: &str, default: usize, max: usize| match query.get(name).unwrap_or_default() {
        "" => Ok(default),
        text => text
            .parse()
            .ok()
            .filter(|number| *number <= max)
            .ok_or_else(|| Status::bad_request(format!("{name} must be a number from 0 to {max}, not {text:?}"))),
    };
    let sort = query.get("sort").unwrap_or_default();
    let column = sort.strip_prefix('-');
    Ok(RowWindow {
        order: RowOrder::parse(column.unwrap_or(sort)),
        is_descending: column.is_some(),
        contains: query.get("contains").unwrap_or_default().to_owned(),
        offset: number("offset", 0, usize::MAX)?,
        limit: number("limit", LIMIT_DEFAULT, LIMIT_MAX)?,
        include_object: query.get("includeObject").filter(|text| !text.is_empty()).map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_read_from_the_query() {
        let read = |text: &str| window(&Query::parse(text));
        let all = read("").expect("an empty query is valid");
        assert_eq!((all.order, all.is_descending, all.offset, all.limit), (RowOrder::Key, false, 0, LIMIT_DEFAULT));
        let some = read("sort=-Ready&offset=200&limit=50&contains=web").expect("valid");
        assert_eq!(some.order, RowOrder::Column("ready".to_owned()));
        assert_eq!((some.is_descending, some.offset, some.limit, some.contains.as_str()), (true, 200, 50, "web"));
        for (wrong, expected) in [
            ("limit=1001", "limit must be a number from 0 to 1000, not \"1001\""),
            ("offset=-1", "offset must be a number from 0 to"),
        ] {
            let refused = read(wrong).expect_err("a wrong number");
            assert!(refused.message.contains(expected), "{}", refused.message);
        }
    }
}
