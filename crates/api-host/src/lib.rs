//! An API server with its store, keys and listener, from a data directory: what a control plane and a member both stand on.

mod certificates;
mod host;
mod options;
mod peers;
pub mod shared_keys;

pub use certificates::Certificates;
pub use host::{Additions, ApiHost};
pub use options::{Options, Storage};
