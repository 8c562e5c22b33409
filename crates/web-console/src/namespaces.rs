//! Serves the namespaces in which the caller has a role, for callers who may not list namespaces.

use std::sync::Arc;

use apiserver::extension::{Extension, ExtensionRequest};
use apiserver::respond::{self, Body};
use apiserver::server::Server;
use async_trait::async_trait;
use http::{Method, Response};
use object::Status;
use serde_json::json;

const PATH: &str = "/flotilla/v1alpha1/namespaces";

/// Answers from the RoleBindings of the caller, as `SelfSubjectRulesReview` does for one namespace.
pub struct OwnNamespaces;

#[async_trait]
impl Extension for OwnNamespaces {
    fn handles(&self, path: &str) -> bool {
        path == PATH
    }

    fn judges_callers(&self) -> bool {
        true
    }

    async fn serve(&self, server: &Arc<Server>, request: ExtensionRequest) -> Result<Response<Body>, Status> {
        request.check_method(&Method::GET, "read the namespaces with GET")?;
        let names = server.namespaces_of(&request.user).await?;
        Ok(respond::value(200, &json!({"items": names})))
    }
}
