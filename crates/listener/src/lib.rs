//! Accepts HTTP connections and bounds what a client can hold without sending requests: sockets, time and buffers.
//!
//! hyper starts its timers only after it knows the protocol version, and an HTTP/2 connection without streams has no
//! timer at all. So every connection is watched from outside: it must send a first request, it must not stay idle, and
//! it must read what it asked for.

mod accept;
mod activity;
mod admission;
mod executor;
mod files;
mod stream;

use std::net::SocketAddr;
use std::time::Duration;

use rustls_pki_types::CertificateDer;

pub use accept::{HttpListener, HttpSettings};
pub use files::raise_open_files_limit;

/// Limits on the connections of one listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections in total. Also at most three quarters of the files the process may open.
    pub connections_max: usize,
    /// Connections from one IPv4 address or one IPv6 /64 network. At most half of the total when this is 0.
    pub per_address_max: usize,
    pub handshake_max: Duration,
    /// Time from the handshake to the first complete request header.
    pub first_request_max: Duration,
    /// Time without a request in progress.
    pub idle_max: Duration,
    /// Time a client may leave bytes unread that are ready to be sent.
    pub write_stall_max: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            connections_max: 16_384,
            per_address_max: 0,
            handshake_max: Duration::from_secs(10),
            first_request_max: Duration::from_secs(15),
            idle_max: Duration::from_secs(90),
            write_stall_max: Duration::from_secs(60),
        }
    }
}

/// The client side of a connection.
#[derive(Clone, Debug)]
pub struct ConnectionPeer {
    pub address: SocketAddr,
    /// The chain the client presented in the TLS handshake; not verified.
    pub certificates: Vec<CertificateDer<'static>>,
    /// The name the client requested in the TLS handshake (SNI), in lower case.
    pub server_name: Option<String>,
}
