//! Reads the objects of one cluster for `get`.

use bytes::Bytes;
use cluster_client::{ApiResource, ApiResources, ClusterClient, escape};
use http::{Request, header};
use object::Status;
use serde_json::Value;

use crate::resources::{self, RequestedObjects, ResourceArgument};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,\
                     application/json";
const JSON: &str = "application/json";

/// Maximum restarts of a list whose continue token expired.
const RESTARTS_MAX: usize = 3;

/// The query for every cluster.
#[derive(Clone, Debug)]
pub struct Query {
    pub typed: Vec<ResourceArgument>,
    pub namespace: String,
    pub all_namespaces: bool,
    pub label_selector: Option<String>,
    pub field_selector: Option<String>,
    pub chunk_size: u64,
    pub ignore_not_found: bool,
    pub as_table: bool,
    /// Ask for whole objects in tables, not only their metadata.
    pub include_objects: bool,
}

/// The objects of one type.
#[derive(Debug)]
pub struct Part {
    pub resource: ApiResource,
    /// Tables, objects or lists, as received.
    pub answers: Vec<Value>,
    /// A single object requested by name is not shown as a list.
    pub is_single: bool,
}

/// The result of one cluster.
#[derive(Debug, Default)]
pub struct Gathered {
    pub cluster: String,
    pub is_plane: bool,
    pub parts: Vec<Part>,
    pub errors: Vec<String>,
}

impl Query {
    /// Returns the namespace for objects of a type.
    pub fn namespace_of(&self, resource: &ApiResource) -> Option<&str> {
        (resource.namespaced && !self.all_namespaces).then_some(self.namespace.as_str())
    }

    fn accept(&self) -> &'static str {
        if self.as_table { TABLE } else { JSON }
    }
}

/// Queries one cluster. Failures are collected as errors next to the results.
pub async fn gather(query: &Query, cluster: &str, is_plane: bool, client: &ClusterClient) -> Gathered {
    let mut gathered = Gathered { cluster: cluster.to_owned(), is_plane, ..Gathered::default() };
    let wanted = match resolve(query, cluster, is_plane, client, &mut gathered.errors).await {
        Ok(wanted) => wanted,
        Err(error) => {
            gathered.errors.push(error);
            return gathered;
        }
    };
    let is_single = matches!(&wanted[..], [one] if one.names.len() == 1);
    for RequestedObjects { resource, names } in wanted {
        let mut part = Part { resource, answers: Vec::new(), is_single };
        if names.is_empty() {
            match list(query, client, &part.resource, query.field_selector.as_deref()).await {
                Ok(pages) => part.answers = pages,
                Err(status) => gathered.errors.push(format!("cluster({cluster}): {status}")),
            }
        }
        for name in names {
            let path = resources::path_of(&part.resource.gvr, query.namespace_of(&part.resource), Some(&name));
            match ask(client, &path, query.accept()).await {
                Ok(answer) => part.answers.push(answer),
                Err(status) if status.is_not_found() && query.ignore_not_found => {}
                Err(status) => gathered.errors.push(format!("cluster({cluster}): {status}")),
            }
        }
        gathered.parts.push(part);
    }
    gathered
}

/// Resolves the query in this cluster. An unknown type is an error that does not hide the other types.
async fn resolve(
    query: &Query,
    cluster: &str,
    is_plane: bool,
    client: &ClusterClient,
    errors: &mut Vec<String>,
) -> Result<Vec<RequestedObjects>, String> {
    if !is_plane && let Err(status) = ask(client, "/api", JSON).await {
        return Err(format!(
            "basic connection test to cluster({cluster}) failed, please check authorization or network: {status}"
        ));
    }
    let known = ApiResources::discover(client).await.map_err(|status| format!("cluster({cluster}): {status}"))?;
    let mut understood: Vec<ResourceArgument> = Vec::new();
    for ResourceArgument { types, names } in &query.typed {
        for text in types {
            let one = ResourceArgument { types: vec![text.clone()], names: names.clone() };
            match resources::resolve(std::slice::from_ref(&one), &known) {
                Ok(_) => understood.push(one),
                Err(error) => errors.push(format!("cluster({cluster}): {error}")),
            }
        }
    }
    let wanted = resources::resolve(&understood, &known).map_err(|error| format!("cluster({cluster}): {error}"))?;
    let across = |w: &RequestedObjects| !w.names.is_empty() && query.all_namespaces && w.resource.namespaced;
    if wanted.iter().any(across) {
        return Err("a resource cannot be retrieved by name across all namespaces".to_owned());
    }
    Ok(wanted)
}

/// Reads all pages of a list.
pub async fn list(
    query: &Query,
    client: &ClusterClient,
    resource: &ApiResource,
    field_selector: Option<&str>,
) -> Result<Vec<Value>, Status> {
    let path = resources::path_of(&resource.gvr, query.namespace_of(resource), None);
    let mut restarts = 0;
    'again: loop {
        let mut pages: Vec<Value> = Vec::new();
        let mut token = String::new();
        loop {
            let parameters = [
                ("limit", (query.chunk_size > 0).then(|| query.chunk_size.to_string())),
                ("continue", (!token.is_empty()).then_some(token)),
                ("labelSelector", query.label_selector.clone()),
                ("fieldSelector", field_selector.map(str::to_owned)),
                ("includeObject", query.include_objects.then(|| "Object".to_owned())),
            ];
            match ask(client, &with_parameters(&path, &parameters), query.accept()).await {
                Err(status) if status.is_expired() && restarts < RESTARTS_MAX => {
                    restarts += 1;
                    continue 'again;
                }
                answer => pages.push(answer?),
            }
            let last = pages.last().map(|page| &page["metadata"]["continue"]);
            token = last.and_then(Value::as_str).unwrap_or_default().to_owned();
            if token.is_empty() {
                return Ok(pages);
            }
        }
    }
}

fn with_parameters(path: &str, parameters: &[(&str, Option<String>)]) -> String {
    let set = parameters.iter().filter_map(|(name, value)| Some((name, value.as_ref().filter(|v| !v.is_empty())?)));
    let query: Vec<String> = set.map(|(name, value)| format!("{name}={}", escape(value))).collect();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{}", query.join("&")) }
}

/// Reads JSON from a path; a status of 400 and above is an error.
pub async fn ask(client: &ClusterClient, path: &str, accept: &str) -> Result<Value, Status> {
    let request = Request::get(path).header(header::ACCEPT, accept).body(Bytes::new());
    let request = request.map_err(|e| Status::bad_request(format!("{path} is not a path: {e}")))?;
    let response = client.raw(request).await?;
    match response.status().as_u16() {
        code if code >= 400 => Err(Status::from_response(code, response.body())),
        _ => serde_json::from_slice(response.body())
            .map_err(|e| Status::internal(format!("the response at {path} is not JSON: {e}"))),
    }
}
