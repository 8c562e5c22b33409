//! Sessions of signed-in browsers: bounded in number, ended after a time without use and after a maximum time.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use object::Status;
use object::request::User;
use parking_lot::Mutex;
use pki::token::{Secret, hash};

use crate::session_store::SessionStore;

/// Time after the sign-in at which a session ends in any case.
pub const LIFETIME: SignedDuration = SignedDuration::from_hours(12);
/// Time without a request after which a session ends.
const IDLE_MAX: SignedDuration = SignedDuration::from_hours(2);
/// Sessions of one user; the one unused for longest ends when there is one more.
pub const PER_USER_MAX: usize = 20;
/// Sessions of all users together.
pub const TOTAL_MAX: usize = 5_000;
/// Time after which a session is read from the storage again: a sign-out at another replica is noticed after it.
const RECHECK: SignedDuration = SignedDuration::from_secs(5);
/// The time of the last use is stored at this interval.
const STORE_USE_EVERY: SignedDuration = SignedDuration::from_mins(5);

#[derive(Clone)]
pub struct Session {
    pub user: Arc<User>,
    /// The token the user signed in with, to notice that it was revoked.
    pub token: Option<Secret>,
    pub opened: Timestamp,
    pub used: Timestamp,
}

impl Session {
    pub fn is_over(&self, now: Timestamp) -> bool {
        now.duration_since(self.opened) >= LIFETIME || now.duration_since(self.used) >= IDLE_MAX
    }
}

/// A session without its secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    pub id: String,
    pub user: String,
    pub opened: Timestamp,
    pub used: Timestamp,
}

/// Hexadecimal digits of the public id of a session.
const PUBLIC_ID_LENGTH: usize = 40;

/// Returns the part of the hash of a cookie that names a session: in the names of Secrets, and to its user.
pub fn public_id(key: &str) -> &str {
    &key[..PUBLIC_ID_LENGTH]
}

/// A session as this server knows it.
struct Known {
    session: Session,
    checked: Timestamp,
    /// The time of the last use that is stored.
    stored: Timestamp,
}

/// The sessions of one server; with a store, of all servers on the same storage.
#[derive(Default)]
pub struct Sessions {
    /// By the hash of the cookie.
    known: Mutex<HashMap<String, Known>>,
    store: Option<SessionStore>,
}

impl Sessions {
    pub fn stored(store: SessionStore) -> Self {
        Self { store: Some(store), ..Self::default() }
    }

    pub async fn open(&self, id: &Secret, user: Arc<User>, token: Option<Secret>, now: Timestamp) {
        let key = hash(id.expose());
        let session = Session { user, token, opened: now, used: now };
        if let Some(store) = &self.store {
            // Without the stored copy the session is valid at this server until it restarts.
            let stored = match store.prune(&session.user.name, now).await {
                Ok(()) => store.put(&key, &session).await,
                failed => failed,
            };
            if let Err(error) = stored {
                tracing::warn!(%error, "cannot store the session of a browser");
            }
        }
        let mut known = self.known.lock();
        known.retain(|_, known| !known.session.is_over(now));
        let is_own = |known: &Known| known.session.user.name == session.user.name;
        if known.values().filter(|known| is_own(known)).count() >= PER_USER_MAX {
            end_oldest(&mut known, is_own);
        }
        if known.len() >= TOTAL_MAX {
            end_oldest(&mut known, |_| true);
        }
        known.insert(key, Known { session, checked: now, stored: now });
    }

    /// Returns the session and counts this as a use of it.
    pub async fn find(&self, id: &str, now: Timestamp) -> Option<Session> {
        let key = hash(id);
        let current = self.use_known(&key, now);
        let Some(store) = &self.store else { return current.map(|(session, _)| session) };
        match current {
            Some((session, Freshness::Checked)) => Some(session),
            Some((session, freshness)) => match store.get(&key).await {
                Ok(Some(_)) => {
                    if freshness == Freshness::UseNotStored {
                        self.store_use(store, &key, &session, now).await;
                    }
                    self.mark(&key, |known| known.checked = now);
                    Some(session)
                }
                Ok(None) => {
                    self.known.lock().remove(&key);
                    None
                }
                // The storage does not answer: what was valid a moment ago stays valid.
                Err(_) => Some(session),
            },
            None => {
                let mut session = store.get(&key).await.ok().flatten().filter(|session| !session.is_over(now))?;
                let stored = session.used;
                session.used = now;
                let mut known = self.known.lock();
                if known.len() >= TOTAL_MAX {
                    end_oldest(&mut known, |_| true);
                }
                known.insert(key, Known { session: session.clone(), checked: now, stored });
                Some(session)
            }
        }
    }

    fn use_known(&self, key: &str, now: Timestamp) -> Option<(Session, Freshness)> {
        let mut all = self.known.lock();
        if all.get(key)?.session.is_over(now) {
            all.remove(key);
            return None;
        }
        let known = all.get_mut(key)?;
        known.session.used = now;
        let freshness = match () {
            () if now.duration_since(known.stored) >= STORE_USE_EVERY => Freshness::UseNotStored,
            () if now.duration_since(known.checked) >= RECHECK => Freshness::Unchecked,
            () => Freshness::Checked,
        };
        Some((known.session.clone(), freshness))
    }

    async fn store_use(&self, store: &SessionStore, key: &str, session: &Session, now: Timestamp) {
        match store.put(key, session).await {
            Ok(()) => self.mark(key, |known| known.stored = now),
            Err(error) => tracing::debug!(%error, "cannot store the use of a session"),
        }
    }

    fn mark(&self, key: &str, change: impl FnOnce(&mut Known)) {
        if let Some(known) = self.known.lock().get_mut(key) {
            change(known);
        }
    }

    /// Returns the sessions of a user, the latest used first.
    pub async fn of_user(&self, user: &str, now: Timestamp) -> Result<Vec<SessionInfo>, Status> {
        let mut found = match &self.store {
            Some(store) => store.of_user(user).await?,
            None => {
                let known = self.known.lock();
                let own = known.iter().filter(|(_, known)| known.session.user.name == user);
                own.map(|(key, known)| (public_id(key).to_owned(), known.session.clone())).collect()
            }
        };
        found.retain(|(_, session)| !session.is_over(now));
        found.sort_by_key(|(_, session)| std::cmp::Reverse(session.used));
        let shown = found.into_iter().map(|(id, Session { opened, used, .. })| SessionInfo {
            id,
            user: user.to_owned(),
            opened,
            used,
        });
        Ok(shown.collect())
    }

    /// Ends a session by its public id.
    pub async fn close_public(&self, id: &str) -> Result<(), Status> {
        self.known.lock().retain(|key, _| public_id(key) != id);
        match &self.store {
            Some(store) => store.remove_public(id).await,
            None => Ok(()),
        }
    }

    pub async fn close(&self, id: &str) {
        let key = hash(id);
        self.known.lock().remove(&key);
        if let Some(store) = &self.store
            && let Err(error) = store.remove(&key).await
        {
            tracing::warn!(%error, "cannot remove the session of a browser");
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Freshness {
    Checked,
    Unchecked,
    UseNotStored,
}

fn end_oldest(all: &mut HashMap<String, Known>, counts: impl Fn(&Known) -> bool) {
    let oldest = all.iter().filter(|(_, known)| counts(known)).min_by_key(|(_, known)| known.session.opened);
    if let Some(key) = oldest.map(|(key, _)| key.clone()) {
        all.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use cluster_client::testing::MemoryApi;
    use pki::sealing::SealingKey;

    use super::*;

    fn user(name: &str) -> Arc<User> {
        Arc::new(User::new(name, &["dev"]))
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).expect("a time")
    }

    const HOUR: i64 = 3_600;

    #[tokio::test]
    async fn a_session_ends_when_unused_and_at_its_maximum_time() {
        let sessions = Sessions::default();
        sessions.open(&Secret::new("a"), user("ann"), None, at(0)).await;
        assert!(sessions.find("a", at(HOUR)).await.is_some());
        assert!(sessions.find("a", at(3 * HOUR)).await.is_none(), "unused for two hours");
        sessions.open(&Secret::new("b"), user("ann"), None, at(0)).await;
        for hour in 1..12 {
            assert!(sessions.find("b", at(hour * HOUR)).await.is_some(), "used every hour");
        }
        assert!(sessions.find("b", at(12 * HOUR)).await.is_none(), "too old");
        assert!(sessions.find("none", at(0)).await.is_none());
    }

    #[tokio::test]
    async fn one_user_cannot_end_the_sessions_of_others() {
        let sessions = Sessions::default();
        sessions.open(&Secret::new("bob"), user("bob"), None, at(0)).await;
        for number in 0..100 {
            let id = Secret::new(format!("ann{number}"));
            sessions.open(&id, user("ann"), None, at(number)).await;
        }
        assert!(sessions.find("bob", at(100)).await.is_some());
        assert!(sessions.find("ann0", at(100)).await.is_none(), "the oldest of the same user ended");
        assert!(sessions.find("ann99", at(100)).await.is_some());
        sessions.close("ann99").await;
        assert!(sessions.find("ann99", at(100)).await.is_none());
    }

    #[tokio::test]
    async fn users_list_their_sessions_and_end_one() {
        let api = MemoryApi::default();
        let stored = SessionStore { client: api.client(), key: SealingKey::derive(b"key", "test") };
        for sessions in [Sessions::default(), Sessions::stored(stored)] {
            for (cookie, user, opened) in [("a", "ann", 0), ("b", "ann", 60), ("c", "bob", 0)] {
                sessions.open(&Secret::new(cookie), self::user(user), None, at(opened)).await;
            }
            let found = sessions.of_user("ann", at(90)).await.expect("listed");
            let ids: Vec<&str> = found.iter().map(|session| session.id.as_str()).collect();
            assert_eq!(ids, [public_id(&hash("b")), public_id(&hash("a"))]);
            sessions.close_public(ids[0]).await.expect("ended");
            assert!(sessions.find("b", at(100)).await.is_none());
            assert!(sessions.find("a", at(100)).await.is_some() && sessions.find("c", at(100)).await.is_some());
            assert_eq!(sessions.of_user("ann", at(100)).await.expect("listed").len(), 1);
            assert!(sessions.of_user("ann", at(13 * HOUR)).await.expect("listed").is_empty(), "all are over");
        }
    }

    #[tokio::test]
    async fn replicas_share_sessions_and_a_restart_keeps_them() {
        let api = MemoryApi::default();
        let replica = |secret: &[u8]| {
            Sessions::stored(SessionStore { client: api.client(), key: SealingKey::derive(secret, "test") })
        };
        let (one, two) = (replica(b"key"), replica(b"key"));
        one.open(&Secret::new("a"), user("ann"), Some(Secret::new("token")), at(0)).await;
        let found = two.find("a", at(1)).await.expect("known to the other replica");
        assert_eq!((found.user.name.as_str(), &found.user.groups[..]), ("ann", &["dev".to_owned()][..]));
        assert_eq!(found.token.as_ref().map(Secret::expose), Some("token"));
        assert!(replica(b"other key").find("a", at(1)).await.is_none(), "another key opens nothing");
        assert!(two.find("a", at(HOUR)).await.is_some());
        assert!(replica(b"key").find("a", at(3 * HOUR - 60)).await.is_some(), "the use at the other replica is stored");
        two.close("a").await;
        assert!(one.find("a", at(3 * HOUR)).await.is_none(), "closed at the other replica");
    }
}
