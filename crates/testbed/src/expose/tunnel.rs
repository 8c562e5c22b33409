//! A connection to a port of a pod through the API of its cluster, for pods whose address this host cannot reach.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use anyhow::Context;
use cluster_client::Kubeconfig;
use cluster_client::remote::connect::open_http1_as;
use cluster_client::remote::credentials::CredentialSource;
use cluster_client::remote::tls::ClientIdentity;
use pod_streams::client::{StreamTarget, port_forward};
use provisioners::process::forward::Pipe;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::expose::pod::Found;

/// Time a response may take to begin or continue after the request has ended.
const LINGER: Duration = Duration::from_secs(10);

pub async fn open(kubeconfig: &Path, pod: &Found, port: u16) -> anyhow::Result<Box<dyn Pipe>> {
    let remote = Kubeconfig::load(&[kubeconfig.to_owned()])?.remote(None)?;
    let mut headers = http::HeaderMap::new();
    let identity = Arc::new(ClientIdentity::default());
    let credentials = CredentialSource::new(remote.credentials.clone(), Arc::clone(&identity))?;
    if let Some(value) = credentials.authorization().await?.header {
        headers.insert(http::header::AUTHORIZATION, value);
    }
    let server: http::Uri = remote.server.parse().context("the address of the cluster")?;
    let target = StreamTarget {
        host: server.authority().map(ToString::to_string).unwrap_or_default(),
        path_and_query: format!(
            "{}/api/v1/namespaces/{}/pods/{}/portforward?ports={port}",
            server.path().trim_end_matches('/'),
            pod.namespace,
            pod.name
        ),
        headers,
    };
    let io = open_http1_as(&remote, identity).await?;
    let tunnel = port_forward(io, &target).await?;
    Ok(Box::new(Lingering { tunnel, is_shut: false, end: Box::pin(tokio::time::sleep(LINGER)) }))
}

/// The protocol cannot say that one direction has ended. So the other one is given up when nothing more comes of it.
struct Lingering<T> {
    tunnel: T,
    is_shut: bool,
    end: Pin<Box<Sleep>>,
}

impl<T: AsyncRead + Unpin> AsyncRead for Lingering<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.tunnel).poll_read(cx, buf) {
            Poll::Pending if self.is_shut => self.end.as_mut().poll(cx).map(Ok),
            Poll::Ready(result) => {
                self.end.as_mut().reset(tokio::time::Instant::now() + LINGER);
                Poll::Ready(result)
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Lingering<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tunnel).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tunnel).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        if !self.is_shut {
            self.is_shut = true;
            self.end.as_mut().reset(tokio::time::Instant::now() + LINGER);
        }
        Pin::new(&mut self.tunnel).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_clear_end_is_closed_when_idle() {
        // A duplex that ignores being shut, like the tunnel.
        struct Deaf(tokio::io::DuplexStream);
        impl AsyncRead for Deaf {
            fn poll_read(
                mut self: Pin<&mut Self>,
                cx: &mut TaskContext<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                Pin::new(&mut self.0).poll_read(cx, buf)
            }
        }
        impl AsyncWrite for Deaf {
            fn poll_write(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
                Pin::new(&mut self.0).poll_write(cx, data)
            }
            fn poll_flush(self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }
            fn poll_shutdown(self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }
        }
        let (near, mut far) = tokio::io::duplex(64);
        let end = Box::pin(tokio::time::sleep(LINGER));
        let mut lingering = Lingering { tunnel: Deaf(near), is_shut: false, end };
        lingering.write_all(b"question").await.unwrap();
        lingering.shutdown().await.unwrap();
        far.write_all(b"late answer").await.unwrap();
        let mut answer = String::new();
        lingering.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "late answer");
    }
}
