//! What stands before several servers: passes connections, TLS and all, to whichever of them takes them.

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
    /// Before the servers on these ports of loopback, each in its turn; one that does not listen is passed over.
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
                // A client nobody takes is let go, as a balancer without backends does.
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

    /// A copy of a server's kubeconfig that goes through here.
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
        // Wakes the listener, which then ends.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn join(client: TcpStream, server: TcpStream) {
    let (Ok(client_too), Ok(server_too)) = (client.try_clone(), server.try_clone()) else { return };
    for (mut from, mut to) in [(client, server), (server_too, client_too)] {
        std::thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            // One that ends ends the other.
            let _ = to.shutdown(Shutdown::Both);
            let _ = from.shutdown(Shutdown::Both);
        });
    }
}
