//! Serves the namespaces in which the caller has a role, for callers who may not list namespaces.

use std::sync::Arc;

use apiserver::extension::{EXTENSIONS_PATH, Extension, ExtensionRequest};
use apiserver::respond::{self, Body};
use apiserver::server::Server;
use async_trait::async_trait;
use http::{Method, Response};
use object::Status;
use serde_json::json;

const PATH: &str = "v1alpha1/namespaces";

/// Answers from the RoleBindings of the caller, as `SelfSubjectRulesReview` does for one namespace.
pub struct OwnNamespaces;

#[async_trait]
impl Extension for OwnNamespaces {
    fn handles(&self, path: &str) -> bool {
        path.strip_prefix(EXTENSIONS_PATH) == Some(PATH)
    }

    fn judges_callers(&self) -> bool {
        true
    }

    async fn serve(&self, server: &Arc<Server>, request: ExtensionRequest) -> Result<Response<Body>, Status> {
        if request.incoming.method != Method::GET {
            return Err(Status::new(405, "MethodNotAllowed", "read the namespaces with GET"));
        }
        let names = server.namespaces_of(&request.user).await?;
        Ok(respond::value(200, &json!({"items": names})))
    }
}
