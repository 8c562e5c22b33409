//! A response that is read as it arrives, for logs that are followed.

use bytes::Bytes;
use http::{HeaderValue, Request, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use object::Status;
use pod_streams::client::StreamTarget;
use tokio::io::{AsyncRead, AsyncWrite};

/// Maximum size of an error text.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;

/// The body of a response.
#[derive(Debug)]
pub struct LogBody(Incoming);

impl LogBody {
    /// Returns the next bytes, or `None` at the end.
    pub async fn next(&mut self) -> anyhow::Result<Option<Bytes>> {
        loop {
            match self.0.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(error.into()),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => return Ok(Some(bytes)),
                    Err(_) => continue,
                },
            }
        }
    }
}

/// Sends a GET and returns the body of its response. Any status but success is an error.
pub async fn get<S>(io: S, target: &StreamTarget) -> anyhow::Result<LogBody>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(io)).await?;
    tokio::spawn(connection);
    let mut request = Request::get(&target.path_and_query).body(String::new())?;
    *request.headers_mut() = target.headers.clone();
    let host = HeaderValue::from_str(&target.host)?;
    request.headers_mut().insert(header::HOST, host);
    let response = sender.send_request(request).await?;
    if response.status().is_success() {
        return Ok(LogBody(response.into_body()));
    }
    let code = response.status().as_u16();
    let text = Limited::new(response.into_body(), REFUSAL_BYTES_MAX).collect().await;
    let text = text.map(|body| body.to_bytes()).unwrap_or_default();
    Err(Status::from_response(code, &text).into())
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn answer(response: &'static str) -> anyhow::Result<LogBody> {
        let (near, mut far) = tokio::io::duplex(1024);
        tokio::spawn(async move {
            let mut request = [0; 1024];
            let _ = far.read(&mut request).await;
            let _ = far.write_all(response.as_bytes()).await;
        });
        let target = StreamTarget { host: "h".into(), path_and_query: "/log".into(), headers: HeaderMap::new() };
        get(near, &target).await
    }

    #[tokio::test]
    async fn the_body_is_read_until_its_end() {
        let mut body = answer("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc").await.expect("a response");
        assert_eq!(body.next().await.expect("bytes").as_deref(), Some(&b"abc"[..]));
        assert_eq!(body.next().await.expect("the end"), None);
    }

    #[tokio::test]
    async fn a_rejection_has_its_message() {
        let refused = answer("HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\ngone").await.expect_err("refused");
        let status = refused.downcast_ref::<Status>().expect("a status");
        assert_eq!((status.code, status.message.as_str()), (404, "gone"));
    }
}
