//! The client side: exec, attach and port-forward over a connection to an API server, a kubelet or a container
//! runtime.

mod command;
mod forward;

use http::{HeaderMap, HeaderName, HeaderValue, Request, header};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::upgrade::Io;
use crate::websocket;

pub use command::{attach, exec};
pub use forward::port_forward;

/// The request to send on the connection.
#[derive(Clone, Debug)]
pub struct StreamTarget {
    /// Value of the `Host` header.
    pub host: String,
    /// Such as `/api/v1/namespaces/default/pods/web/exec?command=ls&stdout=true`.
    pub path_and_query: String,
    /// Credentials and other headers.
    pub headers: HeaderMap,
}

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("the request cannot be written: {0}")]
    Request(#[from] http::Error),
    #[error("no response: {0}")]
    Exchange(#[from] hyper::Error),
    #[error("refused with {code}: {message}")]
    Refused { code: u16, message: String },
    #[error("the response is not a WebSocket handshake: {0}")]
    Handshake(&'static str),
    #[error("the connection ended before the command did")]
    Cut,
}

/// Maximum size of an error text.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;

/// Requests a WebSocket with one of `protocols`; returns the chosen one.
async fn handshake<S>(
    io: S,
    target: &StreamTarget,
    protocols: &str,
) -> Result<(WebSocketStream<Io>, String), ClientError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(io)).await?;
    tokio::spawn(connection.with_upgrades());
    let key = generate_key();
    let mut request = Request::get(&target.path_and_query).body(String::new())?;
    let headers = request.headers_mut();
    *headers = target.headers.clone();
    let mut set = |name: HeaderName, value: &str| -> Result<(), ClientError> {
        headers.insert(name, HeaderValue::from_str(value).map_err(http::Error::from)?);
        Ok(())
    };
    set(header::HOST, &target.host)?;
    set(header::CONNECTION, "Upgrade")?;
    set(header::UPGRADE, "websocket")?;
    set(header::SEC_WEBSOCKET_VERSION, "13")?;
    set(header::SEC_WEBSOCKET_KEY, &key)?;
    set(header::SEC_WEBSOCKET_PROTOCOL, protocols)?;
    let response = sender.send_request(request).await?;
    if response.status() != http::StatusCode::SWITCHING_PROTOCOLS {
        return Err(refused(response).await);
    }
    let text = |name: HeaderName| response.headers().get(name).and_then(|value| value.to_str().ok());
    if text(header::SEC_WEBSOCKET_ACCEPT) != Some(derive_accept_key(key.as_bytes()).as_str()) {
        return Err(ClientError::Handshake("its key does not match"));
    }
    let protocol = text(header::SEC_WEBSOCKET_PROTOCOL).unwrap_or_default().to_owned();
    if !protocols.split(',').any(|known| known.trim() == protocol) {
        return Err(ClientError::Handshake("it chose a protocol that was not offered"));
    }
    let upgraded = hyper::upgrade::on(response).await?;
    Ok((websocket::over(TokioIo::new(upgraded), Role::Client).await, protocol))
}

async fn refused(response: http::Response<hyper::body::Incoming>) -> ClientError {
    use http_body_util::{BodyExt, Limited};
    let code = response.status().as_u16();
    let body = Limited::new(response.into_body(), REFUSAL_BYTES_MAX).collect().await;
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    ClientError::Refused { code, message: object::Status::from_response(code, &body).message }
}
