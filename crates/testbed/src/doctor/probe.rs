//! Asks a Kubernetes API whether it is ready, and measures its clock and its latency.

use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster_client::{ClusterClient, is_unreachable};
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use object::Status;

/// More than this between two clocks, and tokens and certificates are misjudged.
pub const SKEW_SECONDS_MAX: i64 = 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Ready,
    /// It responds, and says which of its checks fails.
    NotReady(String),
    /// It does not accept our credentials.
    Unauthorized(String),
    Refused(String),
    Unreachable(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    pub answer: Answer,
    /// Seconds by which its clock is ahead of ours.
    pub skew: Option<i64>,
    /// Time until the response.
    pub latency: Option<Duration>,
}

/// The way to an API server: a proxy responds for a server that it cannot reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    Direct,
    Proxy,
}

impl Probe {
    pub fn new(answer: Answer) -> Self {
        Self { answer, skew: None, latency: None }
    }

    pub fn unreachable(why: impl Into<String>) -> Self {
        Self::new(Answer::Unreachable(why.into()))
    }
}

pub async fn probe(client: &ClusterClient, route: Route) -> Probe {
    let Ok(request) = http::Request::get("/readyz?verbose").body(Bytes::new()) else {
        return Probe::unreachable("the request cannot be built");
    };
    let start = Instant::now();
    match client.raw(request).await {
        Ok(response) => {
            let date = response.headers().get(http::header::DATE).and_then(|date| date.to_str().ok());
            let skew = date.and_then(|date| skew(date, Timestamp::now()));
            let body = String::from_utf8_lossy(response.body()).trim().to_owned();
            Probe { answer: read(response.status().as_u16(), &body, route), skew, latency: Some(start.elapsed()) }
        }
        Err(status) if is_unreachable(&status) => Probe::unreachable(status.to_string()),
        Err(status) if status.code == 401 => Probe::new(Answer::Unauthorized(status.to_string())),
        Err(status) => Probe::new(Answer::Refused(status.to_string())),
    }
}

fn read(code: u16, body: &str, route: Route) -> Answer {
    match code {
        200..=299 => Answer::Ready,
        401 => Answer::Unauthorized("the credentials are not valid (401)".to_owned()),
        403 => Answer::Refused("the credentials have no permission for /readyz (403)".to_owned()),
        502..=504 if route == Route::Proxy => Answer::Unreachable(message_of(code, body)),
        _ => {
            let failing: Vec<&str> = body.lines().filter_map(|line| line.strip_prefix("[-]")).collect();
            let message = || format!("it responds with {code}: {}", message_of(code, body));
            Answer::NotReady(if failing.is_empty() { message() } else { failing.join("; ") })
        }
    }
}

/// The message of a Status, or the first line of another body.
fn message_of(code: u16, body: &str) -> String {
    if body.starts_with('{') {
        return Status::from_response(code, body.as_bytes()).message;
    }
    body.lines().next().unwrap_or_default().to_owned()
}

fn skew(date: &str, now: Timestamp) -> Option<i64> {
    let theirs = rfc2822::DateTimeParser::new().parse_timestamp(date).ok()?;
    Some(theirs.as_second() - now.as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_classified() {
        let check = |code, body, expected| assert_eq!(read(code, body, Route::Direct), expected);
        check(200, "ok", Answer::Ready);
        let verbose = "[+]ping ok\n[-]etcd failed: no quorum\nreadyz check failed";
        check(500, verbose, Answer::NotReady("etcd failed: no quorum".into()));
        check(500, "boom\ntrace", Answer::NotReady("it responds with 500: boom".into()));
        let json = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","code":503,"message":"fault: errors"}"#;
        check(503, json, Answer::NotReady("it responds with 503: fault: errors".into()));
        assert_eq!(read(503, json, Route::Proxy), Answer::Unreachable("fault: errors".into()));
        assert!(matches!(read(401, "", Route::Direct), Answer::Unauthorized(_)));
    }

    #[test]
    fn the_date_of_a_response_shows_the_clock_skew() {
        let now: Timestamp = "2026-11-16T04:00:00Z".parse().unwrap();
        assert_eq!(skew("Mon, 16 Nov 2026 04:01:00 GMT", now), Some(60));
        assert_eq!(skew("nonsense", now), None);
    }
}
