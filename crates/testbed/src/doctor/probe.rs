//! Asks a Kubernetes API how it is, and what time it thinks it is.

use bytes::Bytes;
use cluster_client::{ClusterClient, is_unreachable};
use jiff::Timestamp;
use jiff::fmt::rfc2822;

/// More than this between two clocks, and tokens and certificates are misjudged.
pub const SKEW_SECONDS_MAX: i64 = 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Ready,
    /// It answers, and says which of its parts does not do.
    NotReady(String),
    /// It does not take our credentials.
    Unauthorized(String),
    Refused(String),
    Unreachable(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    pub answer: Answer,
    /// Seconds by which its clock is ahead of ours.
    pub skew: Option<i64>,
}

impl Probe {
    pub fn unreachable(why: impl Into<String>) -> Self {
        Self { answer: Answer::Unreachable(why.into()), skew: None }
    }
}

pub async fn probe(client: &ClusterClient) -> Probe {
    let Ok(request) = http::Request::get("/readyz?verbose").body(Bytes::new()) else {
        return Probe::unreachable("no request could be made");
    };
    match client.raw(request).await {
        Ok(response) => {
            let date = response.headers().get(http::header::DATE).and_then(|date| date.to_str().ok());
            let skew = date.and_then(|date| skew(date, Timestamp::now()));
            let body = String::from_utf8_lossy(response.body()).trim().to_owned();
            Probe { answer: read(response.status().as_u16(), &body), skew }
        }
        Err(status) if is_unreachable(&status) => Probe::unreachable(status.to_string()),
        Err(status) if status.code == 401 => Probe { answer: Answer::Unauthorized(status.to_string()), skew: None },
        Err(status) => Probe { answer: Answer::Refused(status.to_string()), skew: None },
    }
}

fn read(code: u16, body: &str) -> Answer {
    match code {
        200..=299 => Answer::Ready,
        401 => Answer::Unauthorized("it does not know who we are (401)".to_owned()),
        403 => Answer::Refused("our credentials may not ask it (403)".to_owned()),
        // The proxy of a control plane answers for the member behind it.
        502..=504 => Answer::Unreachable(body.to_owned()),
        _ => {
            let failing: Vec<&str> = body.lines().filter_map(|line| line.strip_prefix("[-]")).collect();
            Answer::NotReady(if failing.is_empty() { format!("{code}: {body}") } else { failing.join("; ") })
        }
    }
}

fn skew(date: &str, now: Timestamp) -> Option<i64> {
    let theirs = rfc2822::DateTimeParser::new().parse_timestamp(date).ok()?;
    Some(theirs.as_second() - now.as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_apart() {
        let check = |code, body, expected| assert_eq!(read(code, body), expected);
        check(200, "ok", Answer::Ready);
        let verbose = "[+]ping ok\n[-]etcd failed: no quorum\nreadyz check failed";
        check(500, verbose, Answer::NotReady("etcd failed: no quorum".into()));
        check(500, "boom", Answer::NotReady("500: boom".into()));
        check(503, "dial tcp: connection refused", Answer::Unreachable("dial tcp: connection refused".into()));
        assert!(matches!(read(401, ""), Answer::Unauthorized(_)));
    }

    #[test]
    fn the_date_of_an_answer_shows_how_far_clocks_are_apart() {
        let now: Timestamp = "2026-11-16T04:00:00Z".parse().unwrap();
        assert_eq!(skew("Mon, 16 Nov 2026 04:01:00 GMT", now), Some(60));
        assert_eq!(skew("nonsense", now), None);
    }
}
