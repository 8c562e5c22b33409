//! WebSockets as used by Kubernetes: numbered channels in messages, or another protocol inside.

mod channels;
mod tunnel;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

pub use channels::{Channels, Encoding, EndSignals, Message, start};
pub use tunnel::MessageIo;

/// Maximum size of a message.
pub const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
const FRAME_BUFFER_BYTES: usize = 64 * 1024;

/// A WebSocket over a connection after the handshake.
pub async fn over<S>(io: S, role: Role) -> WebSocketStream<S>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let config = WebSocketConfig::default()
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX))
        .read_buffer_size(FRAME_BUFFER_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(2 * MESSAGE_BYTES_MAX);
    WebSocketStream::from_raw_socket(io, role, Some(config)).await
}
