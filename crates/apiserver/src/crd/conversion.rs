//! Asks a conversion webhook to bring objects to another version.

use object::{Object, Status};
use serde_json::Value;

use super::Custom;
use crate::server::Server;

pub async fn call(
    _server: &Server,
    custom: &Custom,
    _webhook: &Value,
    _object: Object,
    api_version: &str,
) -> Result<Object, Status> {
    Err(Status::internal(format!(
        "conversion webhook of {} cannot bring objects to {api_version}",
        custom.definition_name
    )))
}
