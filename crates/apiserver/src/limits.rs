//! How much may go on at once, in all and per user, so that one client cannot starve the others.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use access::User;
use jiff::SignedDuration;
use object::Status;
use parking_lot::Mutex;

use crate::request::{Query, RequestInfo};

/// Requests may not take longer than this unless they are watches and the like.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
pub struct LimitsConfig {
    pub reads_max: usize,
    pub writes_max: usize,
    /// The share of either that one user may hold while others could want it.
    pub per_user_max: usize,
    /// Watches and other requests that stay open, per user.
    pub long_running_per_user_max: usize,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self { reads_max: 400, writes_max: 200, per_user_max: 150, long_running_per_user_max: 20_000 }
    }
}

pub struct Limits {
    config: LimitsConfig,
    counts: Arc<Mutex<Counts>>,
}

#[derive(Default)]
struct Counts {
    reads: usize,
    writes: usize,
    users: HashMap<String, PerUser>,
}

#[derive(Default)]
struct PerUser {
    short: usize,
    long: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Read,
    Write,
    Long,
}

/// A place among the requests in flight, given back when dropped.
pub struct Slot {
    counts: Arc<Mutex<Counts>>,
    user: String,
    class: Class,
}

impl Limits {
    pub fn new(config: LimitsConfig) -> Self {
        Self { config, counts: Arc::default() }
    }

    /// Takes a place, or says when to come again. Administrators and health checks always get one.
    pub fn enter(&self, user: &User, info: &RequestInfo) -> Result<Option<Slot>, Status> {
        let exempt = user.groups.iter().any(|g| g == access::user::MASTERS_GROUP);
        if exempt || (!info.is_resource && !info.path.starts_with("/api")) {
            return Ok(None);
        }
        let class = match (info.is_long_running(), info.is_read_only()) {
            (true, _) => Class::Long,
            (false, true) => Class::Read,
            (false, false) => Class::Write,
        };
        let mut counts = self.counts.lock();
        let (reads, writes) = (counts.reads, counts.writes);
        let mine = counts.users.entry(user.name.clone()).or_default();
        let full = match class {
            Class::Long => mine.long >= self.config.long_running_per_user_max,
            Class::Read => reads >= self.config.reads_max || mine.short >= self.config.per_user_max,
            Class::Write => writes >= self.config.writes_max || mine.short >= self.config.per_user_max,
        };
        if full {
            return Err(Status::too_many_requests("Too many requests, please try again later.", 1));
        }
        match class {
            Class::Long => mine.long += 1,
            _ => mine.short += 1,
        }
        match class {
            Class::Read => counts.reads += 1,
            Class::Write => counts.writes += 1,
            Class::Long => {}
        }
        Ok(Some(Slot { counts: self.counts.clone(), user: user.name.clone(), class }))
    }

    /// How long this request may take: what the client asks for, within the server's own limit.
    pub fn request_time(&self, info: &RequestInfo, query: &Query) -> Result<Option<Duration>, Status> {
        if info.is_long_running() {
            return Ok(None);
        }
        let Some(text) = query.get("timeout") else { return Ok(Some(REQUEST_TIME_MAX)) };
        let asked = parse_duration(text)
            .ok_or_else(|| Status::bad_request(format!("invalid timeout specified in the request URL: {text:?}")))?;
        Ok(Some(if asked.is_zero() { REQUEST_TIME_MAX } else { asked.min(REQUEST_TIME_MAX) }))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        match self.class {
            Class::Read => counts.reads -= 1,
            Class::Write => counts.writes -= 1,
            Class::Long => {}
        }
        if let Some(mine) = counts.users.get_mut(&self.user) {
            match self.class {
                Class::Long => mine.long -= 1,
                _ => mine.short -= 1,
            }
            if mine.short == 0 && mine.long == 0 {
                counts.users.remove(&self.user);
            }
        }
    }
}

/// `30s`, `1m30s`, `500ms` as Go writes durations; a bare number is seconds. Below zero, or nothing, is as good as none.
fn parse_duration(text: &str) -> Option<Duration> {
    let asked = match text.parse::<i64>() {
        Ok(seconds) => SignedDuration::from_secs(seconds),
        Err(_) if text.is_empty() => SignedDuration::ZERO,
        Err(_) => object::duration::parse(text).ok()?,
    };
    Some(Duration::try_from(asked).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[test]
    fn one_user_cannot_take_every_place() {
        let limits =
            Limits::new(LimitsConfig { reads_max: 10, writes_max: 10, per_user_max: 2, long_running_per_user_max: 1 });
        let user = |name: &str| User { name: name.into(), ..User::default() };
        let get = RequestInfo::parse(&Method::GET, "/api/v1/pods", "");
        let watch = RequestInfo::parse(&Method::GET, "/api/v1/pods", "watch=1");
        let greedy: Vec<_> = (0..2).map(|_| limits.enter(&user("a"), &get).expect("room")).collect();
        let refused = limits.enter(&user("a"), &get).err().expect("no more room");
        assert_eq!((refused.code, refused.details.expect("details").retry_after_seconds), (429, 1));
        assert!(limits.enter(&user("b"), &get).is_ok());
        let watching = limits.enter(&user("a"), &watch).expect("a watch is another class");
        assert!(limits.enter(&user("a"), &watch).is_err());
        drop((greedy, watching));
        assert!(limits.enter(&user("a"), &get).is_ok());
        assert!(limits.counts.lock().users.is_empty());
    }

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, expected) in
            [("30s", Some(30_000)), ("1m30s", Some(90_000)), ("500ms", Some(500)), ("-5s", Some(0)), ("x", None)]
        {
            assert_eq!(parse_duration(text).map(|d| d.as_millis()), expected, "{text}");
        }
    }
}
