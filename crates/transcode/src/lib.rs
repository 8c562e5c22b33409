//! One definition of an API for gRPC and for REST: HTTP requests with JSON become calls, and results become responses.
//!
//! The tables that describe RPCs are generated from proto files by the crates that own an API. This crate knows none of them.

pub mod call;
pub mod errors;
pub mod fields;
pub mod grpc;
pub mod health;
pub mod method;
pub mod precondition;
pub mod reflection;
pub mod request;
pub mod rest;
mod template;

pub use call::{Codec, Payload, Raw, Reply};
pub use method::{Field, FieldKind, HttpRoute, Message, Method, Output};

use std::pin::Pin;

use bytes::Bytes;
use futures::Stream;
use http_body::Frame;

/// Frames of a response body: data, and the trailers of gRPC.
pub type FrameStream = Pin<Box<dyn Stream<Item = Result<Frame<Bytes>, std::io::Error>> + Send>>;

/// The body of a response.
pub enum ResponseBody {
    Whole(Bytes),
    Frames(FrameStream),
}
