//! Deletes what a namespace holds in APIs behind the aggregator, which only answer to paths.

use std::sync::Arc;

use bytes::Bytes;
use cluster_client::{ApiResource, ClusterClient, ObjectList};
use http::{Method, Request};
use object::{Object, Status};
use serde_json::Value;

/// What is left after the delete. A custom resource whose definition went meanwhile has no objects any more.
pub async fn remove_all(client: &ClusterClient, resource: &ApiResource, namespace: &str) -> Result<ObjectList, Status> {
    let gvr = &resource.gvr;
    if gvr.group.is_empty() {
        return Ok(ObjectList::default());
    }
    let path = format!("/apis/{}/{}/namespaces/{namespace}/{}", gvr.group, gvr.version, gvr.resource);
    let Some(present) = ask(client, Method::GET, &path).await? else { return Ok(ObjectList::default()) };
    let present = items(&present);
    if present.is_empty() {
        return Ok(ObjectList::default());
    }
    if resource.has_verb("deletecollection") {
        ask(client, Method::DELETE, &path).await?;
    } else {
        for object in &present {
            ask(client, Method::DELETE, &format!("{path}/{}", object.name())).await?;
        }
    }
    let left = ask(client, Method::GET, &path).await?.as_ref().map(items).unwrap_or_default();
    Ok(ObjectList { items: left, ..ObjectList::default() })
}

/// The answer, or `None` where there is nothing at the path.
async fn ask(client: &ClusterClient, method: Method, path: &str) -> Result<Option<Value>, Status> {
    let request = Request::builder().method(method).uri(path).header(http::header::ACCEPT, "application/json");
    let request = request.body(Bytes::new()).map_err(Status::internal)?;
    let response = client.raw(request).await?;
    match response.status().as_u16() {
        404 => Ok(None),
        code if code >= 400 => Err(Status::from_response(code, response.body())),
        _ => serde_json::from_slice(response.body()).map(Some).map_err(Status::internal),
    }
}

fn items(list: &Value) -> Vec<Arc<Object>> {
    let items = list["items"].as_array().into_iter().flatten();
    items.filter_map(|item| Object::from_value(item.clone())).map(Arc::new).collect()
}
