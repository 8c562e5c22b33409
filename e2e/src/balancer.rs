//! A TCP load balancer for several servers; TLS is passed through.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

pub struct Balancer {
    port: u16,
    ended: Arc<AtomicBool>,
}

impl Balancer {
    /// Distributes connections round-robin over these loopback ports, skipping ports without a listener.
    pub fn start(ports: Vec<u16>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let ended = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&ended);
        let next = AtomicUsize::new(0);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let first = next.fetch_add(1, Ordering::Relaxed);
                let mut candidates = (0..ports.len()).map(|n| ports[(first + n) % ports.len()]);
                // Without a backend the connection is closed.
                let server = candidates.find_map(|port| TcpStream::connect(("127.0.0.1", port)).ok());
                if let (Ok(client), Some(server)) = (client, server) {
                    join(client, server);
                }
            }
        });
        Self { port, ended }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns a copy of a server's kubeconfig with the address of the balancer.
    pub fn kubeconfig(&self, of: &Path, port: u16) -> PathBuf {
        let text = std::fs::read_to_string(of).expect("a kubeconfig");
        let text = text.replace(&format!("https://127.0.0.1:{port}"), &format!("https://127.0.0.1:{}", self.port));
        let path = of.with_file_name("balanced.config");
        std::fs::write(&path, text).expect("written");
        path
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // Wakes the listener, which then exits.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn join(client: TcpStream, server: TcpStream) {
    let (Ok(client_too), Ok(server_too)) = (client.try_clone(), server.try_clone()) else { return };
    for (mut from, mut to) in [(client, server), (server_too, client_too)] {
        std::thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            // The end of one direction ends the other.
            let _ = to.shutdown(Shutdown::Both);
            let _ = from.shutdown(Shutdown::Both);
        });
    }
}
