//! Sessions of signed-in browsers: bounded in number, ended after a time without use and after a maximum time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use object::request::User;
use parking_lot::Mutex;
use pki::token::Secret;

/// Time after the sign-in at which a session ends in any case.
pub const LIFETIME: Duration = Duration::from_secs(12 * 3600);
/// Time without a request after which a session ends.
const IDLE_MAX: Duration = Duration::from_secs(2 * 3600);
/// Sessions of one user; the oldest ends when there is one more.
const PER_USER_MAX: usize = 20;
/// Sessions of all users together.
const TOTAL_MAX: usize = 5_000;

#[derive(Clone)]
pub struct Session {
    pub user: Arc<User>,
    /// The token the user signed in with, to notice that it was revoked.
    pub token: Option<Secret>,
    opened: Instant,
    used: Instant,
}

impl Session {
    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.opened) >= LIFETIME || now.duration_since(self.used) >= IDLE_MAX
    }
}

#[derive(Default)]
pub struct Sessions {
    by_id: Mutex<HashMap<String, Session>>,
}

impl Sessions {
    pub fn open(&self, id: &Secret, user: Arc<User>, token: Option<Secret>, now: Instant) {
        let mut by_id = self.by_id.lock();
        by_id.retain(|_, session| !session.is_over(now));
        let is_own = |session: &Session| session.user.name == user.name;
        if by_id.values().filter(|session| is_own(session)).count() >= PER_USER_MAX {
            end_oldest(&mut by_id, is_own);
        }
        if by_id.len() >= TOTAL_MAX {
            end_oldest(&mut by_id, |_| true);
        }
        by_id.insert(id.expose().to_owned(), Session { user, token, opened: now, used: now });
    }

    /// The session and the time it was last used is updated.
    pub fn find(&self, id: &str, now: Instant) -> Option<Session> {
        let mut by_id = self.by_id.lock();
        if by_id.get(id)?.is_over(now) {
            by_id.remove(id);
            return None;
        }
        let session = by_id.get_mut(id)?;
        session.used = now;
        Some(session.clone())
    }

    pub fn close(&self, id: &str) {
        self.by_id.lock().remove(id);
    }
}

fn end_oldest(by_id: &mut HashMap<String, Session>, counts: impl Fn(&Session) -> bool) {
    let oldest = by_id.iter().filter(|(_, session)| counts(session)).min_by_key(|(_, session)| session.opened);
    if let Some(id) = oldest.map(|(id, _)| id.clone()) {
        by_id.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> Arc<User> {
        Arc::new(User::new(name, &[]))
    }

    #[test]
    fn a_session_ends_when_unused_and_at_its_maximum_time() {
        let (sessions, start) = (Sessions::default(), Instant::now());
        sessions.open(&Secret::new("a"), user("ann"), None, start);
        let hours = |count: u64| start + Duration::from_secs(count * 3600);
        assert!(sessions.find("a", hours(1)).is_some());
        assert!(sessions.find("a", hours(3)).is_none(), "unused for two hours");
        sessions.open(&Secret::new("b"), user("ann"), None, start);
        for hour in 1..12 {
            assert!(sessions.find("b", hours(hour)).is_some(), "used every hour");
        }
        assert!(sessions.find("b", hours(12)).is_none(), "too old");
        assert!(sessions.find("none", start).is_none());
    }

    #[test]
    fn one_user_cannot_end_the_sessions_of_others() {
        let (sessions, start) = (Sessions::default(), Instant::now());
        sessions.open(&Secret::new("bob"), user("bob"), None, start);
        for number in 0..100_u64 {
            let id = Secret::new(format!("ann{number}"));
            sessions.open(&id, user("ann"), None, start + Duration::from_secs(number));
        }
        let now = start + Duration::from_secs(100);
        assert!(sessions.find("bob", now).is_some());
        assert!(sessions.find("ann0", now).is_none(), "the oldest of the same user ended");
        assert!(sessions.find("ann99", now).is_some());
        sessions.close("ann99");
        assert!(sessions.find("ann99", now).is_none());
    }
}
