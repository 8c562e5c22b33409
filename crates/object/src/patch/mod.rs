//! Changes to objects: JSON patch, merge patch, strategic merge patch and server-side apply.

pub mod apply;
pub mod fieldset;
pub mod json;
pub mod managed;
pub mod merge;
pub mod strategic;
pub mod typed;

use thiserror::Error;

use crate::depth::{self, DEPTH_MAX};
use crate::field::{FieldError, FieldPath};
use crate::gvk::GroupKind;
use crate::status::{Status, StatusDetails};

/// The error of a patch; each variant has its own response.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PatchError {
    /// 400: the patch itself is malformed.
    #[error("{0}")]
    BadRequest(String),
    /// 422: the patch does not apply to this object. Kubernetes hides the reason from clients; it is for the log.
    #[error("{0}")]
    DoesNotApply(String),
    /// 422: a `test` operation found another value.
    #[error("testing value {path} failed: test failed")]
    TestFailed { path: String },
    /// 413: the patch requires more work than allowed.
    #[error("{0}")]
    TooLarge(String),
    /// 422: the object would be nested deeper than can be stored.
    #[error("the object would be nested {depth} levels deep, at most {DEPTH_MAX} are allowed")]
    TooDeep { depth: usize },
    /// 500 in Kubernetes, although the patch is at fault.
    #[error("{0}")]
    Unexpected(String),
}

/// The error for a patch whose result does not decode. `shown` is the text Kubernetes quotes: the patched JSON, or
/// for a strategic merge patch the patch itself as Go prints a map.
pub fn undecodable(shown: String, why: &str) -> Status {
    let error = FieldError::invalid(FieldPath::new("patch"), shown, why);
    Status::invalid(&GroupKind::new("", ""), "", &[error])
}

impl PatchError {
    pub(crate) fn too_deep(depth: usize) -> Self {
        Self::TooDeep { depth }
    }

    /// Refuses a patch that is itself deeper than any object may be; merging it would build such an object.
    fn check_depth(patch: &serde_json::Value) -> Result<(), Self> {
        match depth::of(patch) {
            depth if depth > DEPTH_MAX => Err(Self::too_deep(depth)),
            _ => Ok(()),
        }
    }

    pub fn to_status(&self) -> Status {
        match self {
            Self::BadRequest(message) => Status::bad_request(message.clone()),
            Self::DoesNotApply(_) | Self::TestFailed { .. } => {
                let message = "the server rejected our request due to an error in our request";
                Status::new(422, "Invalid", message).with_details(StatusDetails::default())
            }
            Self::TooDeep { .. } => Status::new(422, "Invalid", self.to_string()),
            Self::TooLarge(message) => Status::too_large(format!("Request entity too large: {message}")),
            Self::Unexpected(message) => Status::new(500, "", message.clone()),
        }
    }
}
