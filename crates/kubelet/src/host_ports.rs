//! Forwards host ports to pods: one listener per port, one connection to the pod per client.
//!
//! Forwarding in this process needs no packet filter rules, which would outlive it and belong to the machine's
//! administrator.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// Opens all ports or none; they close when the token is cancelled.
pub(crate) async fn forward(
    ports: Vec<(String, u16, u16)>,
    pod_ip: IpAddr,
    cancel: &CancellationToken,
) -> Result<(), String> {
    let mut listeners = Vec::new();
    for (host, port, inside) in ports {
        let host = if host.is_empty() {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED)
        } else {
            host.parse().map_err(|e| format!("hostIP {host:?}: {e}"))?
        };
        let listener = TcpListener::bind((host, port)).await.map_err(|e| format!("hostPort {port}: {e}"))?;
        listeners.push((listener, SocketAddr::new(pod_ip, inside)));
    }
    for (listener, target) in listeners {
        let cancel = cancel.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = cancel.cancelled() => {}
                () = serve(listener, target) => {}
            }
        });
    }
    Ok(())
}

async fn serve(listener: TcpListener, target: SocketAddr) {
    // Connections end with the listener.
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((mut caller, _)) = listener.accept().await {
        connections.spawn(async move {
            if let Ok(mut pod) = TcpStream::connect(target).await {
                let _ = tokio::io::copy_bidirectional(&mut caller, &mut pod).await;
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_port_forwards_to_the_pod_until_it_is_closed() {
        let pod = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let inside = pod.local_addr().expect("bound").port();
        tokio::spawn(async move {
            let (mut stream, _) = pod.accept().await.expect("a caller");
            stream.write_all(b"hello").await.expect("written");
        });
        let free = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("bound").port();
        let cancel = CancellationToken::new();
        let ports = vec![("127.0.0.1".to_owned(), free, inside)];
        let localhost = IpAddr::V4(Ipv4Addr::LOCALHOST);
        forward(ports.clone(), localhost, &cancel).await.expect("opened");
        assert!(forward(ports, localhost, &cancel).await.is_err(), "the port is in use");
        let mut text = String::new();
        let mut caller = TcpStream::connect(("127.0.0.1", free)).await.expect("open");
        caller.read_to_string(&mut text).await.expect("read");
        assert_eq!(text, "hello");
        cancel.cancel();
        while TcpStream::connect(("127.0.0.1", free)).await.is_ok() {
            tokio::task::yield_now().await;
        }
    }
}
