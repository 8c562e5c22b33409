//! Serves HTTP/1.1 and HTTP/2 over TLS until the server stops, then lets requests finish.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use listener::{ConnectionPeer, HttpListener, HttpSettings};
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::{Peer, RequestBody, handle};
use crate::server::Server;

const HTTP: HttpSettings = HttpSettings {
    header_max: Duration::from_secs(30),
    // As kube-apiserver allows.
    streams_max: 250,
    stream_window: 256 << 10,
    connection_window: 1 << 20,
    stream_send_buffer: 64 << 10,
    drain_max: Duration::from_secs(20),
};

/// A listening server.
pub struct Listening {
    pub address: SocketAddr,
    pub task: tokio::task::JoinHandle<()>,
}

/// Starts accepting; returns once connections are taken.
pub fn listen(server: Arc<Server>, tcp: TcpListener, tls: Arc<ServerConfig>) -> std::io::Result<Listening> {
    let address = tcp.local_addr()?;
    let listener =
        HttpListener { tcp, tls: Some(TlsAcceptor::from(tls)), limits: server.limits.connections(), http: HTTP };
    let stop = server.stop.clone();
    let task = tokio::spawn(listener.run(stop, move |peer: ConnectionPeer| {
        let (server, peer) = (server.clone(), Arc::new(Peer::from(peer)));
        move |request: Request<Incoming>| handle(server.clone(), peer.clone(), request.map(RequestBody::Incoming))
    }));
    Ok(Listening { address, task })
}
