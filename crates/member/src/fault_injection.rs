//! The endpoint of a member's fault injection: the percentage of API requests that fail.

use std::sync::Arc;

use apiserver::extension::{Extension, ExtensionRequest};
use apiserver::respond::{self, Body};
use apiserver::server::Server;
use async_trait::async_trait;
use http::{Method, Response};
use object::Status;
use serde_json::{Value, json};

const PATH: &str = "/flotilla/v1alpha1/disturbance";
const FIELD: &str = "errorPercent";

/// Only administrators may call it: no Kubernetes role permits its path.
pub struct FaultInjection;

#[async_trait]
impl Extension for FaultInjection {
    fn handles(&self, path: &str) -> bool {
        path == PATH
    }

    async fn serve(&self, server: &Arc<Server>, request: ExtensionRequest) -> Result<Response<Body>, Status> {
        match request.incoming.method {
            Method::GET => {}
            Method::PUT => {
                let body = request.incoming.body.read().await?;
                server.disturbance.set_error_percent(wanted(&body)?);
            }
            _ => return Err(Status::new(405, "MethodNotAllowed", "use GET or PUT")),
        }
        Ok(respond::value(200, &json!({FIELD: server.disturbance.error_percent()})))
    }
}

fn wanted(body: &[u8]) -> Result<u8, Status> {
    let percent = serde_json::from_slice::<Value>(body).ok().and_then(|value| value[FIELD].as_u64());
    let percent = percent.and_then(|percent| u8::try_from(percent).ok()).filter(|percent| *percent <= 100);
    percent.ok_or_else(|| Status::bad_request(format!("the body must be {{\"{FIELD}\": N}} with N from 0 to 100")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_a_number_up_to_a_hundred() {
        assert_eq!(wanted(br#"{"errorPercent": 30}"#).ok(), Some(30));
        for body in ["", "{}", r#"{"errorPercent": 101}"#, r#"{"errorPercent": -1}"#, r#"{"errorPercent": "30"}"#] {
            assert!(wanted(body.as_bytes()).is_err(), "{body}");
        }
    }
}
