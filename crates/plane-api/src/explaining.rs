//! Serves `why`, `plan` and `failover simulate` to callers with permission to read the objects concerned.

use std::sync::Arc;

use api::work::{CLUSTER_RESOURCE_BINDINGS, RESOURCE_BINDINGS};
use apiserver::extension::{EXTENSIONS_PATH, Extension, ExtensionRequest};
use apiserver::request::RequestInfo;
use apiserver::respond::{self, Body};
use apiserver::server::Server;
use async_trait::async_trait;
use cluster_client::{ApiResource, User};
use explain::{Explainer, Subject};
use http::{Method, Response};
use object::request::Verb;
use object::{Object, Status};
use plane_state::SafeMode;
use serde::Serialize;
use serde_json::Value;

use crate::safe_mode;

const WHY: &str = "v1alpha1/why";
const PLAN: &str = "v1alpha1/plan";
const FAILOVER: &str = "v1alpha1/failover";

/// Manifests in one plan.
const MANIFESTS_MAX: usize = 1000;

/// Answers for `why`, `plan` and failover simulation.
pub struct Explaining {
    pub explainer: Arc<Explainer>,
    /// Holds back some of the explained changes.
    pub mode: SafeMode,
}

impl Explaining {
    async fn why(&self, server: &Arc<Server>, request: ExtensionRequest) -> Result<Response<Body>, Status> {
        let (subject, _) = authorized_subject(&self.explainer, server, &request).await?;
        let described = match subject.namespace.as_str() {
            "" => format!("{} {}", subject.kind, subject.name),
            namespace => format!("{} {namespace}/{}", subject.kind, subject.name),
        };
        let mut reasons = serde_json::to_value(self.explainer.why(subject).await?).map_err(Status::internal)?;
        safe_mode::annotate(&self.mode, &described, &mut reasons);
        answer(&reasons)
    }

    /// Shows bindings of all namespaces, so the caller must be allowed to list them.
    async fn failover(&self, server: &Arc<Server>, request: ExtensionRequest) -> Result<Response<Body>, Status> {
        let cluster = request.incoming.query.get("cluster").unwrap_or_default().to_owned();
        if cluster.is_empty() {
            return Err(Status::bad_request("the query needs cluster"));
        }
        for bindings in [RESOURCE_BINDINGS, CLUSTER_RESOURCE_BINDINGS] {
            let listing = RequestInfo::on(bindings.gvr(), Verb::List);
            server.authorize(&request.user, &listing).await?;
        }
        answer(&self.explainer.simulate_failover(&cluster).await?)
    }

    async fn plan(&self, request: ExtensionRequest) -> Result<Response<Body>, Status> {
        let body = request.incoming.body.read().await?;
        let manifests = manifests(&body)?;
        answer(&self.explainer.plan(User::clone(&request.user), manifests).await?)
    }
}

#[async_trait]
impl Extension for Explaining {
    fn handles(&self, path: &str) -> bool {
        path.strip_prefix(EXTENSIONS_PATH).is_some_and(|rest| [WHY, PLAN, FAILOVER].contains(&rest))
    }

    async fn serve(&self, server: &Arc<Server>, request: ExtensionRequest) -> Result<Response<Body>, Status> {
        let is_why = request.incoming.info.path.ends_with(WHY);
        if request.incoming.info.path.ends_with(FAILOVER) {
            return match request.incoming.method {
                Method::GET => self.failover(server, request).await,
                _ => Err(Status::new(405, "MethodNotAllowed", "request a simulation with GET")),
            };
        }
        match (is_why, &request.incoming.method) {
            (true, &Method::GET) => self.why(server, request).await,
            (false, &Method::POST) => self.plan(request).await,
            (true, _) => Err(Status::new(405, "MethodNotAllowed", "request an explanation with GET")),
            (false, _) => Err(Status::new(405, "MethodNotAllowed", "send manifests to plan with POST")),
        }
    }
}

/// The object that the query of a request names. The caller may read it.
pub(crate) async fn authorized_subject(
    explainer: &Explainer,
    server: &Server,
    request: &ExtensionRequest,
) -> Result<(Subject, ApiResource), Status> {
    let parameter = |key: &str| request.incoming.query.get(key).unwrap_or_default().to_owned();
    let mut subject = Subject {
        api_version: parameter("apiVersion"),
        kind: parameter("kind"),
        namespace: parameter("namespace"),
        name: parameter("name"),
    };
    if [&subject.api_version, &subject.kind, &subject.name].iter().any(|part| part.is_empty()) {
        let text = "the query needs apiVersion, kind, name and, for namespaced objects, namespace";
        return Err(Status::bad_request(text));
    }
    let resource = explainer.resource(&subject.api_version, &subject.kind).await?;
    if resource.namespaced && subject.namespace.is_empty() {
        return Err(Status::bad_request(format!("{} is namespaced: the query needs namespace", subject.kind)));
    }
    if !resource.namespaced {
        // A role in a namespace says nothing about objects that are in none.
        subject.namespace.clear();
    }
    server.authorize(&request.user, &reading(&resource, &subject)).await?;
    Ok((subject, resource))
}

/// Returns the request by which the caller could read the object.
fn reading(resource: &ApiResource, subject: &Subject) -> RequestInfo {
    RequestInfo {
        namespace: subject.namespace.clone(),
        name: subject.name.clone(),
        ..RequestInfo::on(resource.gvr.clone(), Verb::Get)
    }
}

/// A JSON list of manifests, a `List`, or one manifest.
fn manifests(body: &[u8]) -> Result<Vec<Object>, Status> {
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| Status::bad_request(format!("the body must be manifests as JSON: {error}")))?;
    let items = match value {
        Value::Array(items) => items,
        Value::Object(ref list) if list.get("kind").is_some_and(|kind| kind == "List") => {
            value["items"].as_array().cloned().unwrap_or_default()
        }
        one => vec![one],
    };
    if items.len() > MANIFESTS_MAX {
        return Err(Status::bad_request(format!("at most {MANIFESTS_MAX} manifests can be planned at once")));
    }
    let read = |item: Value| {
        let object = Object::from_value(item).filter(|o| !o.kind().is_empty() && !o.name().is_empty());
        object.ok_or_else(|| Status::bad_request("each manifest must have apiVersion, kind and metadata.name"))
    };
    items.into_iter().map(read).collect()
}

fn answer(document: &impl Serialize) -> Result<Response<Body>, Status> {
    let json = serde_json::to_vec(document).map_err(Status::internal)?;
    Ok(respond::json(200, json))
}
