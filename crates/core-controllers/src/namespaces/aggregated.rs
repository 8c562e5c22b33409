//! Deletes the content of a namespace in aggregated APIs, which are only reachable by path.

use std::sync::Arc;

use bytes::Bytes;
use cluster_client::{ApiResource, ClusterClient, ObjectList};
use http::{Method, Request};
use object::request::Verb;
use object::{Object, Status};
use serde_json::Value;

/// Deletes all objects and returns the remaining ones. A custom resource whose CRD was deleted meanwhile has none.
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
    if resource.has_verb(Verb::DeleteCollection) {
        ask(client, Method::DELETE, &path).await?;
    } else {
        for object in &present {
            ask(client, Method::DELETE, &format!("{path}/{}", object.name())).await?;
        }
    }
    let left = ask(client, Method::GET, &path).await?.as_ref().map(items).unwrap_or_default();
    Ok(ObjectList { items: left, ..ObjectList::default() })
}

/// Sends a request; `None` if the path does not exist.
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
