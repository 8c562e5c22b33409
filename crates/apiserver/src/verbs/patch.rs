//! Patches: JSON, merge, strategic merge and server-side apply.

use object::{Object, Status};
use serde_json::Value;

use super::{Answer, Target};
use crate::context::Context;
use crate::request::WriteOptions;
use crate::server::Server;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    Json,
    Merge,
    Strategic,
    Apply,
}

const PATCH_TYPES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

impl PatchType {
    pub fn of_content_type(header: Option<&str>) -> Result<Self, Status> {
        match header.unwrap_or_default().split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            _ => Err(Status::unsupported_media_type(PATCH_TYPES)),
        }
    }
}

pub async fn patch(
    _server: &Server,
    _ctx: &Context,
    _target: &Target,
    _kind: PatchType,
    _body: &[u8],
    _options: &WriteOptions,
) -> Result<Answer, Status> {
    Err(Status::unsupported_media_type(PATCH_TYPES))
}

pub fn apply_plain(_kind: PatchType, _object: &Object, _body: &Value) -> Result<Object, Status> {
    Err(Status::unsupported_media_type(PATCH_TYPES))
}
