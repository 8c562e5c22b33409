//! The API of the manager, generated from `proto/flotilla/manager/v1alpha1`: messages, services, the table of RPCs with their
//! routes and permissions, and OpenAPI documents.
//!
//! `cargo xtask codegen` writes the files in `generated`; a test fails when they are out of date.

pub mod json;

/// The messages.
#[rustfmt::skip]
#[allow(clippy::all)]
mod messages {
    include!("../generated/messages.rs");
}

/// The services and the table of RPCs.
#[rustfmt::skip]
#[allow(clippy::all)]
mod services {
    include!("../generated/services.rs");
}

pub use messages::*;
pub use services::*;

/// The encoded `FileDescriptorSet` of the API, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!("../generated/descriptors.bin");
/// The API in OpenAPI 2.0.
pub const OPENAPI_V2: &str = include_str!("../generated/openapi-v2.json");
/// The API in OpenAPI 3.1.
pub const OPENAPI_V3: &str = include_str!("../generated/openapi-v3.json");
