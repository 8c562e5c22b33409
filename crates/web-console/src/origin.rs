//! Checks that a request with a session cookie comes from the console's own page.
//!
//! A cookie is sent with requests that other sites cause. The console therefore adds a header that other sites cannot add
//! without the permission of this server, which it never gives. Browsers cannot add headers to a WebSocket; there the
//! `Origin` must be this server.

use http::{HeaderMap, header};

/// The header of every request the console sends.
pub const CONSOLE_HEADER: &str = "x-flotilla-console";

const SESSION_COOKIE: &str = "__Host-flotilla-session";
const ATTEMPT_COOKIE: &str = "__Host-flotilla-oidc";

/// The name of the session cookie.
pub fn cookie_name(headers: &HeaderMap) -> String {
    with_port(SESSION_COOKIE, headers)
}

/// The name of the cookie of a sign-in at an OIDC issuer that has begun.
pub fn attempt_cookie_name(headers: &HeaderMap) -> String {
    with_port(ATTEMPT_COOKIE, headers)
}

/// Cookies are shared by all ports of a host, so that the name contains the port: two control planes on one host must not
/// sign each other's users out.
fn with_port(prefix: &str, headers: &HeaderMap) -> String {
    let port = host(headers).and_then(|host| host.rsplit_once(':')).map(|(_, port)| port);
    match port.filter(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())) {
        Some(port) => format!("{prefix}-{port}"),
        None => prefix.to_owned(),
    }
}

/// The value of the session cookie.
pub fn session_cookie(headers: &HeaderMap) -> Option<&str> {
    cookie(headers, &cookie_name(headers))
}

/// The value of a cookie, unless it is empty.
pub fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(key, value)| *key == name && !value.is_empty()).map(|(_, value)| value)
}

/// The reason why a request was not sent by the console.
pub fn check(headers: &HeaderMap) -> Result<(), &'static str> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if text("sec-fetch-site").is_some_and(|site| site != "same-origin") {
        return Err("the browser sent the request for another site");
    }
    if let Some(origin) = text("origin") {
        let origin_host = origin.strip_prefix("https://").unwrap_or(origin);
        if host(headers) != Some(origin_host) {
            return Err("the request has another origin");
        }
    }
    let is_web_socket = text("upgrade").is_some_and(|upgrade| upgrade.eq_ignore_ascii_case("websocket"));
    match (text(CONSOLE_HEADER).is_some(), is_web_socket, text("origin").is_some()) {
        (true, ..) | (false, true, true) => Ok(()),
        _ => Err("the request lacks the header x-flotilla-console"),
    }
}

/// HTTP/2 has no `Host` header; the server adds it from the authority.
pub fn host(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::HOST).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let parse = |(name, value): &(&'static str, &'static str)| (name.parse().unwrap(), value.parse().unwrap());
        pairs.iter().map(parse).collect::<Vec<(http::HeaderName, http::HeaderValue)>>().into_iter().collect()
    }

    #[test]
    fn only_the_page_of_this_server_may_use_the_cookie() {
        let host = ("host", "plane:5443");
        let own = (CONSOLE_HEADER, "1");
        let check = |more: &[(&'static str, &'static str)], allowed: bool| {
            let all = headers(&[&[host], more].concat());
            assert_eq!(check(&all).is_ok(), allowed, "{more:?}");
        };
        check(&[own], true);
        check(&[own, ("sec-fetch-site", "same-origin"), ("origin", "https://plane:5443")], true);
        check(&[], false);
        check(&[("sec-fetch-site", "same-origin")], false);
        check(&[("sec-fetch-site", "none")], false);
        check(&[own, ("sec-fetch-site", "cross-site")], false);
        check(&[own, ("sec-fetch-site", "same-site")], false);
        check(&[own, ("origin", "https://plane:6443")], false);
        check(&[own, ("origin", "https://evil")], false);
        check(&[own, ("origin", "null")], false);
        check(&[("upgrade", "websocket"), ("origin", "https://plane:5443")], true);
        check(&[("upgrade", "WebSocket"), ("origin", "https://evil")], false);
        check(&[("upgrade", "websocket")], false);
    }

    #[test]
    fn the_cookie_of_another_port_is_not_taken() {
        let check = |host: &'static str, cookie: &'static str, expected: Option<&str>| {
            let all = headers(&[("host", host), ("cookie", cookie)]);
            assert_eq!(session_cookie(&all), expected, "{host} {cookie}");
        };
        check("plane:5443", "a=b; __Host-flotilla-session-5443=x", Some("x"));
        check("plane:5443", "__Host-flotilla-session-6443=x", None);
        check("plane:5443", "__Host-flotilla-session-5443=", None);
        check("plane", "__Host-flotilla-session=x", Some("x"));
        check("[::1]", "__Host-flotilla-session=x", Some("x"));
        check("plane:5443", "__Host-flotilla-session=x", None);
    }
}
