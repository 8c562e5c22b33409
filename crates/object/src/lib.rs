//! Dynamic Kubernetes objects for every layer: names, conditions, selectors, schemas, errors and patches.

pub mod builtin;
pub mod conditions;
pub mod depth;
pub mod duration;
pub mod error_list;
pub mod field;
pub mod gvk;
mod head;
pub mod jsonpath;
pub mod names;
pub mod object;
pub mod patch;
pub mod percent;
pub mod quantity;
pub mod query;
pub mod request;
pub mod schema;
pub mod selector;
pub mod status;
pub mod taints;
pub mod time;
mod unmanaged;
pub mod yaml;

pub use field::{FieldError, FieldErrorKind, FieldPath};
pub use gvk::{GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource};
pub use head::Head;
pub use object::Object;
pub use status::Status;
