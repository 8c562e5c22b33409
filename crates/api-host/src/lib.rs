//! An API server with its store, keys and listener, from a data directory. Control planes and members are built on it.

mod at_rest;
mod at_rest_state;
mod certificates;
mod config_files;
mod follow;
mod host;
mod options;
mod peers;
mod provided_tls;
pub mod shared_keys;

pub use at_rest::{create_file as create_encryption_file, default_file as default_encryption_file};
pub use certificates::Certificates;
pub use host::{Additions, ApiHost};
pub use options::{EncryptionOptions, Options, Storage};
pub use provided_tls::{PairFiles, TlsOptions};

/// Path of the state of encryption at rest.
pub fn at_rest_path() -> &'static str {
    at_rest_state::PATH
}
