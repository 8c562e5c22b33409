//! An OCI registry: serves images to clusters and clients, and copies images between registries, layouts and archives.

pub mod build;
pub mod client;
pub mod copy;
pub mod digest;
pub mod distribute;
pub mod image;
pub mod manifest;
pub mod name;
pub mod preload;
pub mod scratch;
pub mod server;
pub mod store;

/// An error with its causes, in one line.
pub fn said(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
