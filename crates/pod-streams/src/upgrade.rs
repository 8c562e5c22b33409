//! Upgrades an HTTP request to a streaming connection: protocol negotiation and the switching response.

use http::{HeaderMap, HeaderValue, Response, StatusCode, Uri, header};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_util::sync::CancellationToken;

use crate::backend::Refusal;

const PROTOCOL_VERSION: &str = "x-stream-protocol-version";

/// An authorized request for a stream.
pub struct StreamRequest {
    pub uri: Uri,
    pub headers: HeaderMap,
    pub upgrade: Option<OnUpgrade>,
    /// Ends the session at any point.
    pub stop: CancellationToken,
}

/// The connection once both sides have switched.
pub type Io = TokioIo<Upgraded>;

/// The client's transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport<'a> {
    /// With the chosen subprotocol; empty if the client named none.
    WebSocket(&'a str),
    Spdy(&'a str),
}

/// The supported protocols per transport, best first.
pub struct Offers<'a> {
    pub web_socket: &'a [&'a str],
    pub spdy: &'a [&'a str],
}

/// Chooses a protocol both sides support.
pub fn negotiate<'a>(headers: &HeaderMap, offers: &Offers<'a>) -> Result<Transport<'a>, Refusal> {
    let wants = |protocol: &str| {
        let values = headers.get_all(header::UPGRADE).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|value| value.trim().eq_ignore_ascii_case(protocol))
    };
    let asked = |name: &str| -> Vec<String> {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).map(|value| value.trim().to_owned()).collect()
    };
    if wants("websocket") {
        let asked = asked(header::SEC_WEBSOCKET_PROTOCOL.as_str());
        if asked.is_empty() {
            return Ok(Transport::WebSocket(""));
        }
        let known = |asked: &String| offers.web_socket.iter().find(|offer| *offer == asked);
        let chosen = asked.iter().find_map(known).ok_or_else(|| no_common(&asked, offers.web_socket))?;
        return Ok(Transport::WebSocket(chosen));
    }
    if wants("SPDY/3.1") {
        let asked = asked(PROTOCOL_VERSION);
        let known = |offer: &&&str| asked.iter().any(|asked| asked == **offer);
        let chosen = match asked.is_empty() {
            true => offers.spdy.last(),
            false => offers.spdy.iter().find(known),
        };
        return chosen.map(|chosen| Transport::Spdy(chosen)).ok_or_else(|| no_common(&asked, offers.spdy));
    }
    Err(Refusal::new(400, "Upgrade request required"))
}

fn no_common(asked: &[String], offered: &[&str]) -> Refusal {
    let text = format!(
        "unable to upgrade: unable to negotiate protocol: client supports {asked:?}, server accepts {offered:?}"
    );
    Refusal::new(403, text)
}

/// The switching response, and the connection to wait for.
pub fn switch(
    headers: &HeaderMap,
    upgrade: Option<OnUpgrade>,
    transport: Transport<'_>,
) -> Result<(Response<()>, OnUpgrade), Refusal> {
    let upgrade = upgrade.ok_or_else(|| Refusal::new(400, "this connection cannot be upgraded: use HTTP/1.1"))?;
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let answer = response.headers_mut();
    answer.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    let value = |text: &str| HeaderValue::from_str(text).map_err(|_| Refusal::new(400, "not a header value"));
    match transport {
        Transport::WebSocket(protocol) => {
            let key =
                headers.get(header::SEC_WEBSOCKET_KEY).ok_or_else(|| Refusal::new(400, "not websocket protocol"))?;
            answer.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
            answer.insert(header::SEC_WEBSOCKET_ACCEPT, value(&derive_accept_key(key.as_bytes()))?);
            if !protocol.is_empty() {
                answer.insert(header::SEC_WEBSOCKET_PROTOCOL, value(protocol)?);
            }
        }
        Transport::Spdy(protocol) => {
            answer.insert(header::UPGRADE, HeaderValue::from_static("SPDY/3.1"));
            answer.insert(PROTOCOL_VERSION, value(protocol)?);
        }
    }
    Ok((response, upgrade))
}

/// Waits until the client has switched.
pub async fn switched(upgrade: OnUpgrade) -> Option<Io> {
    match upgrade.await {
        Ok(upgraded) => Some(TokioIo::new(upgraded)),
        Err(error) => {
            tracing::debug!(%error, "client did not switch to the negotiated protocol");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFERS: Offers<'_> = Offers {
        web_socket: &["v5.channel.k8s.io", "v4.channel.k8s.io"],
        spdy: &["v4.channel.k8s.io", "channel.k8s.io"],
    };

    #[track_caller]
    fn check(headers: &[(&'static str, &str)], expected: Result<Transport<'_>, u16>) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).expect("a value"));
        }
        assert_eq!(negotiate(&map, &OFFERS).map_err(|refusal| refusal.code), expected, "{headers:?}");
    }

    #[test]
    fn a_common_protocol_is_chosen() {
        let (upgrade, socket, spdy) = ("upgrade", "sec-websocket-protocol", PROTOCOL_VERSION);
        check(&[], Err(400));
        check(&[(upgrade, "websocket")], Ok(Transport::WebSocket("")));
        check(
            &[(upgrade, "WebSocket"), (socket, "v9, v4.channel.k8s.io")],
            Ok(Transport::WebSocket("v4.channel.k8s.io")),
        );
        check(&[(upgrade, "websocket"), (socket, "v9")], Err(403));
        check(
            &[(upgrade, "SPDY/3.1"), (spdy, "channel.k8s.io"), (spdy, "v4.channel.k8s.io")],
            Ok(Transport::Spdy("v4.channel.k8s.io")),
        );
        check(&[(upgrade, "SPDY/3.1")], Ok(Transport::Spdy("channel.k8s.io")));
        check(&[(upgrade, "SPDY/3.1"), (spdy, "v9")], Err(403));
    }
}
