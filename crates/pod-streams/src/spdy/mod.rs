//! SPDY/3.1, as far as Kubernetes' clients use it: byte streams with a few headers over one connection.

mod connection;
mod frame;
mod headers;

pub use connection::{Opened, start};
pub use frame::Codec;
