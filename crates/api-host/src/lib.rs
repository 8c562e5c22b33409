//! An API server with its store, keys and listener, from a data directory. Control planes and members are built on it.

mod certificates;
mod host;
mod options;
mod peers;
pub mod shared_keys;

pub use certificates::Certificates;
pub use host::{Additions, ApiHost};
pub use options::{Options, Storage};
