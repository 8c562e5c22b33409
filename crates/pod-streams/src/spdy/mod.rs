//! SPDY/3.1, as far as Kubernetes' clients speak it: streams of bytes with a few headers over one connection.

mod connection;
mod frame;
mod headers;

pub use connection::{Opened, start};
