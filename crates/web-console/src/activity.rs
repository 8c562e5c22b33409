//! Serves the latest requests that changed something or were refused, to callers with permission for this path.

use std::sync::Arc;

use apiserver::activity::{ActivityFilter, ENTRIES_MAX};
use apiserver::extension::{Extension, ExtensionRequest};
use apiserver::respond::{self, Body};
use apiserver::server::Server;
use async_trait::async_trait;
use http::{Method, Response};
use object::Status;
use serde_json::json;

const PATH: &str = "/flotilla/v1alpha1/audit";
const PAGE: usize = 500;

/// The audit page of the console. Entries name users and objects of all namespaces, so that only callers who may `get` the
/// path see them; by default these are administrators.
pub struct RecentActivity;

#[async_trait]
impl Extension for RecentActivity {
    fn handles(&self, path: &str) -> bool {
        path == PATH
    }

    async fn serve(&self, server: &Arc<Server>, request: ExtensionRequest) -> Result<Response<Body>, Status> {
        request.check_method(&Method::GET, "read the audit entries with GET")?;
        let query = &request.incoming.query;
        let text = |key: &str| query.get(key).unwrap_or_default().to_owned();
        let limit = match query.get("limit").unwrap_or_default() {
            "" => PAGE,
            limit => limit.parse().ok().filter(|limit| (1..=ENTRIES_MAX).contains(limit)).ok_or_else(|| {
                Status::bad_request(format!("limit must be a number from 1 to {ENTRIES_MAX}, not {limit:?}"))
            })?,
        };
        let filter = ActivityFilter {
            text: text("contains"),
            user: text("user"),
            namespace: text("namespace"),
            resource: text("resource"),
            name: text("name"),
            refused_only: query.flag("refused"),
            limit,
        };
        let (items, has_more) = server.activity.latest(&filter);
        Ok(respond::value(200, &json!({"items": items, "hasMore": has_more, "kept": ENTRIES_MAX})))
    }
}
